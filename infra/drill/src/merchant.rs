//! The merchant's side: makes the sale, reads its report, ends it.

use std::time::Duration;

use domain::SaleId;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::audit::Ledger;
use crate::client::{Client, Lane, Request};
use crate::config::{Config, Mode};
use crate::record::Call;
use crate::wire::{BucketReport, Preflight, Sessions, Summary};

/// Everyone may have one; the audit counts by it.
pub(crate) const LIMIT_PER_CUSTOMER: u32 = 1;

/// Shoppers per call of the session issuer.
const SESSIONS_PER_CALL: u32 = 1_000;

/// A gate that has just been loaded may take this long to be seen as ready.
const PREFLIGHT_PATIENCE: Duration = Duration::from_secs(5);

/// A session for every shopper, in their order.
pub(crate) async fn sessions(client: &Client, config: &Config) -> anyhow::Result<Vec<String>> {
    let shoppers = config.crowd.shoppers;
    let batches = (0..shoppers).step_by(SESSIONS_PER_CALL as usize);
    let tokens: Vec<Vec<String>> = stream::iter(batches)
        .map(|first| async move {
            let last = (first + SESSIONS_PER_CALL).min(shoppers);
            let subs: Vec<_> = (first..last).map(|n| format!("shopper-{n}")).collect();
            let request = Request::new(Call::Sessions, &config.target.token_url)
                .body(json!({ "subs": subs }).to_string());
            let answer = client.send(Lane::Direct, request).await;
            let sessions: Sessions = answer.require("sessions")?;
            anyhow::ensure!(
                sessions.access_tokens.len() == subs.len(),
                "asked for {} sessions and was given {}",
                subs.len(),
                sessions.access_tokens.len()
            );
            Ok(sessions.access_tokens)
        })
        .buffered(2)
        .try_collect()
        .await?;
    Ok(tokens.into_iter().flatten().collect())
}

/// Makes the sale.
pub(crate) async fn create(
    client: &Client,
    config: &Config,
    sale: &SaleId,
    opens_at: Timestamp,
) -> anyhow::Result<()> {
    let crowd = &config.crowd;
    // Longer than the drill waits: what ends the sale is the drill.
    let open_for = SignedDuration::from_millis(i64::from(crowd.window_ms()))
        + SignedDuration::from_secs(i64::from(crowd.limit_s()) + 3_600);
    let mut body = json!({
        "sale_id": sale,
        "sku": "DRILL-1",
        "name": "Drill",
        "price": crowd.price(),
        "units": crowd.units,
        "opens_at": opens_at,
        "closes_at": opens_at + open_for,
        "limit_per_customer": LIMIT_PER_CUSTOMER,
        "pay_window_s": crowd.pay_window_s(),
        "waitlist_pay_window_s": crowd.waitlist_pay_window_s(),
        "claim_spread_s": crowd.claim_spread_s,
        "mode": crowd.mode,
    });
    if crowd.mode == Mode::Draw {
        body["draw_window_ms"] = crowd.window_ms().into();
    }
    if let Some(buckets) = crowd.buckets {
        body["buckets"] = buckets.into();
    }
    let request = Request::new(Call::CreateSale, "/v1/admin/sales")
        .token(&config.target.admin_token)
        .body(body.to_string());
    let answer = client.send(Lane::Direct, request).await;
    anyhow::ensure!(
        answer.is_success(),
        "the sale can't be made: {} {} {:?}",
        answer.status,
        answer.problem.error,
        answer.problem.detail
    );
    Ok(())
}

/// What the system says is not ready, in its own words. The drill goes on all
/// the same: what then breaks is worth seeing.
pub(crate) async fn preflight(
    client: &Client,
    config: &Config,
    sale: &SaleId,
) -> anyhow::Result<Vec<String>> {
    let asked = tokio::time::Instant::now();
    loop {
        let request = Request::new(Call::Preflight, format!("/v1/admin/sales/{sale}/preflight"))
            .token(&config.target.admin_token);
        let preflight: Preflight = client
            .send(Lane::Direct, request)
            .await
            .require("preflight")?;
        if preflight.ready {
            return Ok(Vec::new());
        }
        if asked.elapsed() > PREFLIGHT_PATIENCE {
            let wrong = preflight
                .checks
                .into_iter()
                .filter(|check| check.result == "not_ok");
            return Ok(wrong
                .map(|check| {
                    let advice = check.advice.unwrap_or_default();
                    format!("preflight: {} is not ok: {advice}", check.check)
                })
                .collect());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The report on the whole sale.
pub(crate) async fn summary(
    client: &Client,
    config: &Config,
    sale: &SaleId,
) -> anyhow::Result<Summary> {
    let request = Request::new(Call::Report, format!("/v1/admin/sales/{sale}/report"))
        .token(&config.target.admin_token);
    client.send(Lane::Direct, request).await.require("report")
}

/// The report with every order of every bucket.
pub(crate) async fn ledger(
    client: &Client,
    config: &Config,
    sale: &SaleId,
) -> anyhow::Result<Ledger> {
    let summary = summary(client, config, sale).await?;
    let buckets: Vec<BucketReport> = stream::iter(summary.buckets.clone())
        .map(|bucket| async move {
            let path = format!("/v1/admin/sales/{sale}/report?bucket={}", bucket.bucket);
            let request = Request::new(Call::Report, path).token(&config.target.admin_token);
            let answer = client.send(Lane::Direct, request).await;
            answer.require::<BucketReport>("report of a bucket")
        })
        .buffered(4)
        .try_collect()
        .await?;
    Ok(Ledger { summary, buckets })
}

/// Ends the sale: units are left and nobody wants them.
pub(crate) async fn end(client: &Client, config: &Config, sale: &SaleId) -> bool {
    let request = Request::new(Call::End, format!("/v1/admin/sales/{sale}/end"))
        .token(&config.target.admin_token)
        .body("{}");
    client.send(Lane::Direct, request).await.is_success()
}
