//! Loading: buckets into the ledger, counters and scripts into the gates.

use api::{Call, Problem, Reply};
use domain::bucket::split;
use domain::slot::{GateAddress, Gates, tag};
use domain::{BucketId, Sale};
use futures::{TryStreamExt, stream};
use gate::upkeep::Truth;
use ledger::orders::Bucket;

use crate::{AdminFunction, CONCURRENCY, no_body, started, view};

impl AdminFunction {
    /// `POST …/load`: completes a creation that stopped half-way, or loads
    /// again what a cache lost before the opening.
    pub(crate) async fn reload(&self, call: &Call) -> Result<Reply, Problem> {
        no_body(call)?;
        let sale = self.sale(&call.sale()?).await?;
        Reply::ok(&view::sale(&self.load(&sale).await?))
    }

    /// Splits the units, writes the buckets, loads every gate on its own
    /// primary and publishes where they are. Buckets are dealt to the
    /// primaries in turn; a new epoch keeps scripts of an earlier load out.
    pub(crate) async fn load(&self, sale: &Sale) -> Result<Sale, Problem> {
        if sale.loaded && sale.has_opened(self.clock.now()) {
            // From the opening on, claims move the counters.
            return Err(started());
        }
        let primaries = self.gate.primaries().await?;
        let epochs = self.ledger.gates(&sale.id).await?.unwrap_or_default();
        let epoch = epochs
            .addresses
            .iter()
            .map(|address| address.epoch)
            .max()
            .unwrap_or(0)
            + 1;
        let capacities = split(sale.config.units, sale.config.buckets);
        let addresses: Vec<GateAddress> = (0..sale.config.buckets)
            .map(|n| {
                let owned = &primaries[usize::from(n) % primaries.len().max(1)];
                GateAddress {
                    tag: tag(&sale.id, BucketId(n), owned),
                    epoch,
                }
            })
            .collect();
        let work = (0u16..)
            .map(BucketId)
            .zip(capacities.iter().zip(&addresses));
        stream::iter(work.map(Ok::<_, Problem>))
            .try_for_each_concurrent(CONCURRENCY, |(bucket, (&capacity, address))| async move {
                let row = Bucket::new(capacity, epoch);
                self.ledger.put_bucket(&sale.id, bucket, &row).await?;
                let truth = Truth {
                    left: capacity,
                    ..Truth::default()
                };
                self.gate.load(address, &truth).await?;
                Ok(())
            })
            .await?;
        self.ledger
            .save_gates(&sale.id, &Gates { addresses })
            .await?;
        let config = &sale.config;
        self.change_sale(&sale.id, |now| {
            // A change that came between loads by itself.
            now.loaded = now.config == *config;
            Ok(())
        })
        .await
    }
}
