//! Late in a sale a quiet bucket may have units while busy ones have none.

use std::collections::BTreeMap;

use domain::{SaleId, bucket};
use queue::{Message, Rebalance};

use crate::compare::Found;
use crate::{SweeperFunction, Watched};

impl SweeperFunction {
    /// Asks the one writer of each bucket that has plenty to give an empty one
    /// half. Nobody is waited for: the next look asks again.
    pub(crate) async fn rebalance(&self, looked: &[(Watched, Option<Found>)]) {
        let mut sales = BTreeMap::<&SaleId, BTreeMap<_, _>>::new();
        for (at, found) in looked.iter().filter(|(at, _)| at.sells && !at.resizing) {
            let free = found.filter(|found| found.frozen == 0);
            let buckets = sales.entry(&at.sale).or_default();
            buckets.insert(at.bucket, free.map(|found| found.free));
        }
        for (sale, buckets) in sales {
            let free: Vec<_> = buckets.into_values().collect();
            for (from, to, units) in bucket::moves(&free) {
                let asked = Message::Rebalance(Rebalance {
                    sale: sale.clone(),
                    from,
                    to,
                    units,
                    seen_at: self.clock.now(),
                });
                if let Err(error) = self.queue.send(&asked).await {
                    tracing::warn!(%sale, %from, %to, %error, "units were not asked to move");
                }
            }
        }
    }
}
