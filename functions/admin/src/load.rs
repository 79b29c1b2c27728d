//! Loading: buckets into the ledger, counters and scripts into the gates.

use api::{Call, Code, Problem, Reply};
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
    /// primaries in turn.
    ///
    /// Nothing is given out while it lasts, so it may cross the opening. Each
    /// loading has a number, the epoch of what it loads: of two at a time, the
    /// older one is refused by every row and gate that the newer one wrote,
    /// and does not say "loaded".
    pub(crate) async fn load(&self, sale: &Sale) -> Result<Sale, Problem> {
        let primaries = self.gate.primaries().await?;
        let gates = self.ledger.gates(&sale.id).await?.unwrap_or_default();
        let lives = gates.addresses.iter().map(|address| address.epoch);
        let newest = lives.max().unwrap_or(0);
        let sale = self
            .change_sale(&sale.id, |sale| {
                if sale.has_ended(self.clock.now()) {
                    return Err(Problem::new(Code::Ended));
                }
                // From the opening on, claims move the counters.
                if sale.loaded && sale.is_about_to_open(self.clock.now()) {
                    return Err(started());
                }
                sale.loaded = false;
                // Above what a recovery before the opening has reached, too.
                sale.load = sale.load.max(newest) + 1;
                Ok(())
            })
            .await?;
        let (epoch, sale) = (sale.load, &sale);
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
                match self.gate.load(address, &truth).await {
                    // A later loading was here.
                    Err(gate::Error::Frozen) => Err(Problem::new(Code::Conflict)),
                    loaded => Ok(loaded?),
                }
            })
            .await?;
        self.ledger
            .save_gates(&sale.id, &Gates { addresses }, epoch)
            .await?;
        self.change_sale(&sale.id, |now| {
            // A change or a loading that came between completes by itself.
            if now.load != epoch || now.config != sale.config {
                return Err(Problem::new(Code::Conflict));
            }
            now.loaded = true;
            Ok(())
        })
        .await
    }
}
