//! Gate against ledger: the ledger is right.

use std::collections::HashMap;

use domain::{ClaimId, Order, OrderStatus};
use gate::Hold;
use gate::upkeep::Correction;
use jiff::{SignedDuration, Timestamp};
use ledger::orders::WholeBucket;
use queue::{Message, Recover};

use crate::bucket::{Failure, words};
use crate::{SweeperFunction, Watched};

/// A deadline so long past that the gate should have shown it by now.
const OVERDUE: SignedDuration = SignedDuration::from_secs(3);

impl SweeperFunction {
    /// Refunds that are owed, holds whose deadline the gate has lost, and the
    /// comparison of the counters.
    pub(crate) async fn keep_up(&self, at: &Watched) -> Result<(), Failure> {
        let refunds = self
            .cashier
            .settle_refunds(&at.sale, at.bucket)
            .await
            .map_err(words)?;
        if refunds.pending > 0 {
            tracing::warn!(sale = %at.sale, bucket = %at.bucket, pending = refunds.pending,
                "refunds are owed and not confirmed");
        }
        let before = self.clock.now() - OVERDUE;
        // A frozen bucket is for recovery to make true, not for this. Its
        // holds end all the same: the gate forgot them, the ledger did not.
        if !self.gate.is_open(&at.address).await.map_err(words)? {
            tracing::error!(metric = "frozen_bucket", sale = %at.sale, bucket = %at.bucket,
                epoch = at.address.epoch, "a bucket is frozen");
            let recover = Message::Recover(Recover {
                sale: at.sale.clone(),
                bucket: at.bucket,
                epoch: at.address.epoch,
                seen_at: self.clock.now(),
            });
            if let Err(error) = self.queue.send(&recover).await {
                tracing::error!(sale = %at.sale, bucket = %at.bucket, %error,
                    "its recovery was not asked for");
            }
            let whole = self.whole_bucket(at).await?;
            return self.end_overdue(at, &whole, before).await.map(drop);
        }
        // The gate first: what it holds is in the ledger by the time that is
        // read, or it is still on its way.
        let (seen, holds) = self.gate.holds(&at.address.tag).await.map_err(words)?;
        let whole = self.whole_bucket(at).await?;
        self.settle_marks(at, &holds).await?;
        // Ended in the ledger for a while, and the gate did not follow: who
        // ended it stopped in between.
        let ended = whole.orders.iter().filter(|order| {
            order.deadline().is_none()
                && order.changed_at < before
                && holds.iter().any(|hold| hold.claim == order.claim)
        });
        let ended: Vec<Order> = ended.cloned().collect();
        if !ended.is_empty() {
            return self.end_holds(at, ended).await;
        }
        if self.end_overdue(at, &whole, before).await? {
            return Ok(());
        }
        let gap = i64::try_from(seen.left).unwrap_or(i64::MAX) - expected(&whole, &holds);
        if gap < 0 && at.resizing {
            return Ok(());
        }
        let now = self.clock.now();
        match self
            .gate
            .correct(&at.address.tag, &seen, gap, now)
            .await
            .map_err(words)?
        {
            Correction::Lowered => tracing::error!(metric = "gate_mismatch", sale = %at.sale,
                bucket = %at.bucket, gap, "the gate held too many units and was lowered"),
            Correction::Raised => tracing::error!(metric = "gate_mismatch", sale = %at.sale,
                bucket = %at.bucket, gap, "the gate held too few units and was raised"),
            Correction::Noted => tracing::warn!(sale = %at.sale, bucket = %at.bucket, gap,
                "the gate holds too few units"),
            Correction::Agrees | Correction::Moved => {}
        }
        Ok(())
    }
}

impl SweeperFunction {
    async fn whole_bucket(&self, at: &Watched) -> Result<WholeBucket, Failure> {
        let whole = self.ledger.whole_bucket(&at.sale, at.bucket);
        whole.await.map_err(words)
    }

    /// Ends holds whose deadline the gate has lost; whether there were any.
    async fn end_overdue(
        &self,
        at: &Watched,
        whole: &WholeBucket,
        before: Timestamp,
    ) -> Result<bool, Failure> {
        let overdue = whole.orders.iter().filter(|order| {
            let deadline = order.deadline();
            deadline.is_some_and(|deadline| at.extended(deadline) < before)
        });
        let overdue: Vec<Order> = overdue.cloned().collect();
        let any = !overdue.is_empty();
        if any {
            tracing::warn!(sale = %at.sale, bucket = %at.bucket, overdue = overdue.len(),
                "holds are overdue in the ledger");
            self.end_holds(at, overdue).await?;
        }
        Ok(any)
    }

    /// Marks of claims in other buckets lose their deadline once the claim has
    /// an order: from then on the order's own bucket knows when it is over.
    /// Else a sale that is paid to the last unit would seem to have holds.
    async fn settle_marks(&self, at: &Watched, holds: &[Hold]) -> Result<(), Failure> {
        let claims = holds.iter().map(|hold| &hold.claim);
        let marks = claims.filter(|claim| claim.bucket() != at.bucket);
        for order in self.ledger.orders(marks).await.map_err(words)?.values() {
            self.end_mark(at, order).await?;
        }
        Ok(())
    }
}

/// Free units that the gate must show: what the ledger has to spare, less what
/// the gate has taken and the ledger does not know yet, less what the ledger
/// has released and the gate has not given back yet.
fn expected(whole: &WholeBucket, holds: &[Hold]) -> i64 {
    let orders: HashMap<&ClaimId, &Order> = whole
        .orders
        .iter()
        .map(|order| (&order.claim, order))
        .collect();
    let on_their_way: u32 = holds
        .iter()
        .filter(|hold| match orders.get(&hold.claim) {
            None => true,
            Some(order) => match order.status {
                OrderStatus::Expired | OrderStatus::Cancelled => true,
                OrderStatus::Voided => order.void_reason.is_some_and(|why| why.returns_units()),
                _ => false,
            },
        })
        .map(|hold| hold.taken_here)
        .sum();
    i64::from(whole.bucket.spare) - i64::from(on_their_way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::order::VoidReason;
    use ledger::orders::Bucket;

    fn hold(n: u32) -> Hold {
        let claim = format!("cl_s_000_{n:032x}").parse().unwrap();
        let pay_by = jiff::Timestamp::UNIX_EPOCH;
        Hold {
            claim,
            quantity: 1,
            taken_here: 1,
            turn: 0,
            pay_by,
            shopper: "u".parse().unwrap(),
        }
    }

    fn order(hold: &Hold, status: OrderStatus, void_reason: Option<VoidReason>) -> Order {
        Order {
            claim: hold.claim.clone(),
            shopper: hold.shopper.clone(),
            quantity: 1,
            money: domain::Money {
                amount: 1,
                currency: "INR".parse().unwrap(),
            },
            status,
            pay_by: hold.pay_by,
            pay_until: None,
            intent: None,
            attempt: 0,
            claimed_at: hold.pay_by,
            changed_at: hold.pay_by,
            void_reason,
        }
    }

    #[test]
    fn what_is_on_its_way_is_no_gap() {
        let bucket = Bucket {
            capacity: 10,
            allotted: 2,
            spare: 8,
            epoch: 1,
        };
        let holds: Vec<Hold> = (0..6).map(hold).collect();
        let orders = vec![
            order(&holds[0], OrderStatus::PendingPayment, None),
            order(&holds[1], OrderStatus::Paying, None),
            order(&holds[2], OrderStatus::Expired, None),
            order(&holds[3], OrderStatus::Voided, Some(VoidReason::Limit)),
            // The unit never existed: it neither was taken off nor returns.
            order(&holds[4], OrderStatus::Voided, Some(VoidReason::Cap)),
        ];
        // holds[5] has no order yet.
        assert_eq!(expected(&WholeBucket { bucket, orders }, &holds), 8 - 3);
    }
}
