//! A frozen bucket is made true from the ledger and opened in a new life.
//!
//! The message is a barrier: it came through the bucket's own group, so every
//! claim that was sent before it has its order by now, and nobody else writes
//! orders of this bucket meanwhile. A claim of the earlier life that comes
//! behind it is adopted, see [`crate::batch`].

use domain::draw::arrivals;
use domain::slot::GateAddress;
use domain::{Order, OrderStatus};
use gate::Hold;
use gate::upkeep::{Known, Truth};
use ledger::Error;
use ledger::orders::WholeBucket;
use queue::Recover;
use runtime::{Metric, metrics};

use crate::OrderFunction;

impl OrderFunction {
    /// Recovers a bucket, if it is still in the life that was found frozen.
    ///
    /// Each attempt is a life of its own: of two workers, one of which slept
    /// through the other's attempt, the later one's counter stands.
    ///
    /// # Errors
    /// The ledger does not answer; doing it again is safe. A gate that does
    /// not answer is none: its shoppers and the sweeper ask again, and claims
    /// behind this message need not wait for it.
    pub(crate) async fn recover(&self, asked: &Recover) -> Result<(), Error> {
        let Recover { sale, bucket, .. } = asked;
        let Some(row) = self.ledger.bucket(sale, *bucket).await? else {
            return Ok(());
        };
        let gates = self.ledger.gates(sale).await?.unwrap_or_default();
        let published = gates.of(*bucket).filter(|at| at.epoch == asked.epoch);
        let Some(address) = published else {
            return Ok(());
        };
        match self.gate.is_open(address).await {
            Ok(false) => {}
            // Claims were taken without it, of which it does not know.
            Ok(true) if row.closed >= asked.epoch => {}
            Ok(true) => return Ok(()),
            Err(error) => {
                tracing::error!(%sale, %bucket, %error, "a frozen bucket can't be recovered yet");
                return Ok(());
            }
        }
        let begun = self
            .ledger
            .begin_life(sale, *bucket, row.epoch, asked.epoch);
        let Some(epoch) = begun.await? else {
            return Ok(());
        };
        let next = GateAddress {
            epoch,
            ..address.clone()
        };
        let mut truth = truth(&self.ledger.whole_bucket(sale, *bucket).await?);
        if let Some(sale) = self.ledger.sale(sale).await? {
            truth.late = arrivals(sale.admission.late, sale.config.buckets);
        }
        if let Err(error) = self.gate.load(&next, &truth).await {
            tracing::error!(%sale, %bucket, %error, "a frozen bucket can't be recovered yet");
            return Ok(());
        }
        if !self.ledger.publish_life(sale, *bucket, epoch).await? {
            return Ok(());
        }
        metrics::of(sale)
            .value(Metric::BucketsRecovered, 1.0)
            .write();
        tracing::warn!(%sale, %bucket, epoch,
            left = truth.left, claims = truth.claims.len(), "a bucket was recovered");
        Ok(())
    }
}

/// What the gate must hold. Free is what no order holds, by the same orders
/// that are recorded: one that ends meanwhile still has its deadline here, and
/// the sweeper gives its units back.
fn truth(whole: &WholeBucket) -> Truth {
    let holding = whole
        .orders
        .iter()
        .filter(|order| order.status.holds_units());
    let held: u32 = holding.map(|order| order.quantity).sum();
    let made = whole.orders.iter().filter(|order| counts(order));
    Truth {
        left: whole.bucket.capacity.saturating_sub(held),
        taken: made.map(|order| order.quantity).sum(),
        claims: whole.orders.iter().map(known).collect(),
        ..Truth::default()
    }
}

fn known(order: &Order) -> Known {
    Known {
        hold: Hold {
            claim: order.claim.clone(),
            quantity: order.quantity,
            taken_here: order.quantity,
            turn: 0,
            pay_by: order.pay_by,
            shopper: order.shopper.clone(),
        },
        due: order.deadline(),
        counts: counts(order),
    }
}

/// Who let a hold lapse had the chance; a claim that was taken back was none.
fn counts(order: &Order) -> bool {
    order.status != OrderStatus::Voided
}
