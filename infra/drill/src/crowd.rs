//! All shoppers at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use domain::SaleId;
use jiff::{SignedDuration, Timestamp};
use runtime::Clock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Client;
use crate::config::{Config, Crowd};
use crate::record::lock;
use crate::world::{Timing, World};
use crate::{merchant, settle, shopper};

/// The sale is made and checked before the first pass is asked for.
const LEAD: Duration = Duration::from_secs(3);

/// A breath between the last pass and the opening.
const BREATH: Duration = Duration::from_millis(500);

/// Sessions for all, then the sale, timed so that passes fit before it.
pub(crate) async fn prepare(config: Config) -> anyhow::Result<Arc<World>> {
    check(&config.crowd)?;
    let client = Client::new(&config.target.base_url, config.crowd.connections)?;
    // Before the sale is made: how long issuing takes must not matter.
    let sessions = merchant::sessions(&client, &config).await?;
    let sale = match &config.crowd.sale {
        Some(sale) => sale.clone(),
        None => new_sale()?,
    };
    let passes = Duration::from_millis(config.crowd.passes_ms());
    let ahead = LEAD + passes + BREATH;
    let (now, opens) = (Clock::system().now(), Instant::now() + ahead);
    let opens_at = round_up(now + SignedDuration::try_from(ahead)?);
    merchant::create(&client, &config, &sale, opens_at).await?;
    let not_ready = merchant::preflight(&client, &config, &sale).await?;
    let timing = Timing {
        opens_at,
        opens,
        window: Duration::from_millis(u64::from(config.crowd.window_ms())),
        passes: passes + BREATH,
    };
    let world = Arc::new(World::new(config, sale, timing, client));
    lock(&world.sessions).extend(sessions);
    for note in not_ready {
        world.note(note);
    }
    Ok(world)
}

/// Sends everyone and waits until the last has left.
pub(crate) async fn send(world: &Arc<World>) -> anyhow::Result<()> {
    let sessions = std::mem::take(&mut *lock(&world.sessions));
    let mut shoppers = JoinSet::new();
    for (number, session) in (0u32..).zip(sessions) {
        let world = world.clone();
        shoppers.spawn(async move {
            let ending = shopper::live(world.clone(), number, session).await;
            world.tally.ended(ending);
        });
    }
    let everyone = async {
        while let Some(left) = shoppers.join_next().await {
            left?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        left = everyone => left,
        never = settle::watch(world) => match never {},
        never = world.edge.keep_fresh(&world.client) => match never {},
    }
}

fn check(crowd: &Crowd) -> anyhow::Result<()> {
    let shares = crowd.shares;
    let percents = [
        shares.decline,
        shares.never_pay,
        shares.give_back,
        shares.late,
        shares.double_tap,
        shares.retry_same_key,
        shares.second_key,
        shares.lost_webhook,
        shares.never_pay + shares.give_back + shares.decline,
    ];
    ensure!(
        percents
            .iter()
            .all(|percent| (0.0..=100.0).contains(percent)),
        "shares are percents; those of never-pay, give-back and decline together too"
    );
    ensure!(crowd.shoppers > 0, "somebody must come");
    Ok(())
}

fn new_sale() -> anyhow::Result<SaleId> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    Ok(format!("drill-{}", &id[..12]).parse()?)
}

/// Whole milliseconds, which is what the system keeps.
fn round_up(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond() + 1).unwrap_or(at)
}
