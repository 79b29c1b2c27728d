//! Who finds a bucket frozen has it recovered, through the bucket's own group.

use std::time::{Duration, Instant};

use domain::{BucketId, SaleId};
use gate::SaleGates;
use jiff::Timestamp;
use queue::{Message, Recover};
use runtime::Seldom;

use crate::ClaimFunction;

/// An environment asks for the same recovery this often; the queue hears one
/// environment of all.
pub(crate) const AGAIN: Duration = Duration::from_secs(5);

/// Recoveries that this environment has asked for, each of a bucket's life.
pub(crate) type Recoveries = Seldom<(SaleId, BucketId, u64)>;

impl ClaimFunction {
    /// Asks for the recovery of what the gates were found frozen. A queue that
    /// does not answer is no reason to refuse the shopper: the next one asks
    /// again, and so does the sweeper.
    pub(crate) async fn raise_barriers(&self, sale: &SaleId, gates: &SaleGates, now: Timestamp) {
        for (bucket, epoch) in gates.take_frozen() {
            let life = (sale.clone(), bucket, epoch);
            if !self.recoveries.is_due(&life, Instant::now()) {
                continue;
            }
            tracing::warn!(%sale, %bucket, epoch, "a bucket is frozen");
            let recover = Message::Recover(Recover {
                sale: sale.clone(),
                bucket,
                epoch,
                seen_at: now,
            });
            if let Err(error) = self.queue.send(&recover).await {
                tracing::warn!(%sale, %bucket, %error, "its recovery was not asked for");
            }
        }
    }
}
