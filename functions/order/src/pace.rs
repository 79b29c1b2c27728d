//! The pace: the store behind takes so many orders a second. With at most so
//! many workers, each makes a batch last its share; buckets are shares of a
//! sale's units, so sales share the rate in proportion to their units.

use std::time::Duration;

use runtime::{MissingSetting, Settings};
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Pace {
    /// Least time for one order of this worker.
    per_order: Duration,
}

impl Pace {
    pub(crate) fn load(settings: &Settings) -> Result<Self, MissingSetting> {
        let rate: u32 = settings.parse_or("ORDER_RATE_PER_S", 1_000)?;
        let workers: u32 = settings.parse_or("ORDER_CONCURRENCY", 20)?;
        Ok(Self {
            per_order: Duration::from_secs(u64::from(workers)) / rate.max(1),
        })
    }

    /// Waits until so many orders have taken their share of time.
    pub(crate) async fn keep(&self, begun: Instant, orders: usize) {
        let end = begun + self.per_order * orders as u32;
        // A timer that is over already fires with the next millisecond.
        if Instant::now() < end {
            tokio::time::sleep_until(end).await;
        }
    }
}
