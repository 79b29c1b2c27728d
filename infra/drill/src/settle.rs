//! Until the sale has settled: every hold is paid or back, every webhook is
//! delivered, every refund confirmed. Then the ledger is read.

use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use runtime::Clock;
use tokio::time::{Instant, sleep, sleep_until};

use domain::order::RefundStatus;

use crate::audit::Ledger;
use crate::merchant;
use crate::wire::Summary;
use crate::world::{World, read};

/// How often the report is read after the crowd.
const LOOK: Duration = Duration::from_secs(2);

/// How often it is read beside the crowd. It reads every order: of 10,000 that is
/// half a second of a core, which the sale would lack.
const LOOK_BESIDE: Duration = Duration::from_secs(10);

/// Units are free, people wait, and nothing moves for so long: it won't.
const STALL: Duration = Duration::from_secs(30);

/// What the sweeper has after the last deadline before the audit.
const GRACE: Duration = Duration::from_secs(30);

/// Beside the crowd: sends those home who wait when nothing moves any more or
/// the time is up. Ends only with the crowd.
pub(crate) async fn watch(world: &World) -> Infallible {
    let start = world.timing.draw_closes();
    let limit = start + Duration::from_secs(u64::from(world.config.crowd.limit_s()));
    sleep_until(start).await;
    let mut still: Option<((i64, i64), Instant)> = None;
    loop {
        sleep(LOOK_BESIDE).await;
        if Instant::now() > limit {
            world.note("the sale was not over within its time: those in line were sent home");
            world.stop();
            break;
        }
        let Ok(summary) = look(world).await else {
            continue;
        };
        let waiting = read(&world.tally.in_line) > 0;
        let idle = summary.pending() == 0 && summary.free > 0 && waiting;
        let seen = (summary.free, summary.paid);
        still = match still {
            Some((before, since)) if idle && before == seen => Some((before, since)),
            _ if idle => Some((seen, Instant::now())),
            _ => None,
        };
        if still.is_some_and(|(_, since)| since.elapsed() > STALL) {
            world.note("units are free, people wait, and nothing moves: they were sent home");
            world.stop();
            break;
        }
    }
    std::future::pending().await
}

/// After the crowd: waits for the last holds and deliveries, ends a sale with
/// units that nobody wants, reads the ledger.
pub(crate) async fn settle(world: &World) -> anyhow::Result<Ledger> {
    let patience = holds_end(world);
    loop {
        let summary = look(world).await;
        let late = Instant::now() > patience;
        let delivered = read(&world.tally.deliveries) == 0;
        match summary {
            Ok(summary) if summary.pending() == 0 && delivered => {
                if summary.free > 0 && !end(world).await {
                    world.note("the sale could not be ended");
                }
                break;
            }
            Err(error) if late => return Err(error),
            Ok(_) if late => {
                world.note("the sale had not settled when the audit began");
                break;
            }
            _ => sleep(LOOK / 2).await,
        }
    }
    loop {
        let ledger = ledger(world).await;
        match ledger {
            Ok(ledger) if !refunds_pending(&ledger) || Instant::now() > patience => {
                return Ok(ledger);
            }
            Err(error) if Instant::now() > patience => return Err(error),
            _ => sleep(LOOK).await,
        }
    }
}

/// When the last hold must have ended: pay windows, and the intents of
/// payments whose webhook was kept back.
fn holds_end(world: &World) -> Instant {
    let mut patience = world.config.crowd.longest_pay_window();
    if let Some(until) = world.intents_until() {
        patience = patience.max(until_then(until));
    }
    Instant::now() + patience + GRACE
}

fn until_then(at: Timestamp) -> Duration {
    (at - Clock::system().now())
        .try_into()
        .unwrap_or(Duration::ZERO)
}

fn refunds_pending(ledger: &Ledger) -> bool {
    ledger
        .buckets
        .iter()
        .flat_map(|bucket| &bucket.refunds)
        .any(|refund| refund.status == RefundStatus::RefundPending)
}

async fn look(world: &World) -> anyhow::Result<Summary> {
    merchant::summary(&world.client, &world.config, &world.sale).await
}

async fn ledger(world: &World) -> anyhow::Result<Ledger> {
    merchant::ledger(&world.client, &world.config, &world.sale).await
}

async fn end(world: &World) -> bool {
    merchant::end(&world.client, &world.config, &world.sale).await
}
