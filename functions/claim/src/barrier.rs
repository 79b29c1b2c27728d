//! Who finds a bucket frozen has it recovered, through the bucket's own group.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use domain::{BucketId, SaleId};
use gate::SaleGates;
use jiff::{SignedDuration, Timestamp};
use queue::{Message, Queue, Recover};

/// An environment asks for the same recovery this often; the queue hears one
/// environment of all.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Buckets that are remembered at once.
const BUCKETS_MAX: usize = 1_000;

type Asked = HashMap<(SaleId, BucketId, u64), Timestamp>;

/// Recoveries that this environment has asked for.
#[derive(Debug, Default)]
pub(crate) struct Barriers(Mutex<Asked>);

impl Barriers {
    /// Asks for the recovery of what the gates were found frozen. A queue that
    /// does not answer is no reason to refuse the shopper: the next one asks
    /// again, and so does the sweeper.
    pub(crate) async fn raise(
        &self,
        queue: &Queue,
        sale: &SaleId,
        gates: &SaleGates,
        now: Timestamp,
    ) {
        for (bucket, epoch) in gates.take_frozen() {
            if !self.is_due(sale, bucket, epoch, now) {
                continue;
            }
            tracing::warn!(%sale, %bucket, epoch, "a bucket is frozen");
            let recover = Message::Recover(Recover {
                sale: sale.clone(),
                bucket,
                epoch,
                seen_at: now,
            });
            if let Err(error) = queue.send(&recover).await {
                tracing::warn!(%sale, %bucket, %error, "its recovery was not asked for");
            }
        }
    }

    fn is_due(&self, sale: &SaleId, bucket: BucketId, epoch: u64, now: Timestamp) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (sale.clone(), bucket, epoch);
        let is_recent = |at: &Timestamp| (now - *at).abs() < AGAIN;
        if asked.get(&key).is_some_and(is_recent) {
            return false;
        }
        if asked.len() >= BUCKETS_MAX {
            asked.clear();
        }
        asked.insert(key, now);
        true
    }
}
