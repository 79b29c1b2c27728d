//! Gate against ledger: the ledger is right.

use std::collections::HashMap;
use std::ops::AddAssign;

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

/// What a comparison found; of several buckets, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Found {
    /// Units that can be claimed.
    pub(crate) free: u32,
    /// Units claimed and not paid, or on their way between gate and ledger.
    pub(crate) held: u32,
    /// Units whose payment has begun.
    pub(crate) paying: u32,
    /// Units that are paid.
    pub(crate) paid: u32,
    /// Units by which gate and ledger differ.
    pub(crate) gap: u64,
    /// Counters that were corrected.
    pub(crate) corrected: u32,
    /// Buckets without their script.
    pub(crate) frozen: u32,
    /// Holds that should have ended.
    pub(crate) overdue: usize,
    /// Refunds that are not confirmed.
    pub(crate) refunds: usize,
}

impl Found {
    /// The units of a bucket's orders.
    fn in_ledger(whole: &WholeBucket) -> Self {
        let mut found = Self::default();
        for order in &whole.orders {
            match order.status {
                OrderStatus::PendingPayment => found.held += order.quantity,
                OrderStatus::Paying => found.paying += order.quantity,
                OrderStatus::Paid => found.paid += order.quantity,
                OrderStatus::Expired | OrderStatus::Cancelled | OrderStatus::Voided => {}
            }
        }
        found
    }
}

impl AddAssign for Found {
    fn add_assign(&mut self, other: Self) {
        self.free += other.free;
        self.held += other.held;
        self.paying += other.paying;
        self.paid += other.paid;
        self.gap += other.gap;
        self.corrected += other.corrected;
        self.frozen += other.frozen;
        self.overdue += other.overdue;
        self.refunds += other.refunds;
    }
}

impl SweeperFunction {
    /// Refunds that are owed, holds whose deadline the gate has lost, and the
    /// comparison of the counters.
    pub(crate) async fn keep_up(&self, at: &Watched) -> Result<Found, Failure> {
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
            tracing::error!(sale = %at.sale, bucket = %at.bucket,
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
            return Ok(Found {
                frozen: 1,
                overdue: self.end_overdue(at, &whole, before).await?,
                refunds: refunds.pending,
                ..Found::in_ledger(&whole)
            });
        }
        // The gate first: what it holds is in the ledger by the time that is
        // read, or it is still on its way.
        let (seen, holds) = self.gate.holds(&at.address.tag).await.map_err(words)?;
        let whole = self.whole_bucket(at).await?;
        self.settle_marks(at, &holds).await?;
        let moving = on_their_way(&whole, &holds);
        let mut found = Found::in_ledger(&whole);
        found.free = u32::try_from(seen.left).unwrap_or(u32::MAX);
        found.held += moving;
        found.refunds = refunds.pending;
        // Ended in the ledger for a while, and the gate did not follow: who
        // ended it stopped in between.
        let ended = whole.orders.iter().filter(|order| {
            order.deadline().is_none()
                && order.changed_at < before
                && holds.iter().any(|hold| hold.claim == order.claim)
        });
        let ended: Vec<Order> = ended.cloned().collect();
        if !ended.is_empty() {
            self.end_holds(at, ended).await?;
            return Ok(found);
        }
        found.overdue = self.end_overdue(at, &whole, before).await?;
        if found.overdue > 0 {
            return Ok(found);
        }
        let expected = i64::from(whole.bucket.spare) - i64::from(moving);
        let gap = i64::try_from(seen.left).unwrap_or(i64::MAX) - expected;
        if gap < 0 && at.resizing {
            return Ok(found);
        }
        let now = self.clock.now();
        let correction = self.gate.correct(&at.address.tag, &seen, gap, now).await;
        let correction = correction.map_err(words)?;
        match correction {
            Correction::Lowered => tracing::error!(sale = %at.sale, bucket = %at.bucket, gap,
                "the gate held too many units and was lowered"),
            Correction::Raised => tracing::error!(sale = %at.sale, bucket = %at.bucket, gap,
                "the gate held too few units and was raised"),
            Correction::Noted => tracing::warn!(sale = %at.sale, bucket = %at.bucket, gap,
                "the gate holds too few units"),
            Correction::Agrees | Correction::Moved => {}
        }
        // Of a gate that moved meanwhile nothing can be said.
        if correction != Correction::Moved {
            found.gap = gap.unsigned_abs();
        }
        let corrected = matches!(correction, Correction::Lowered | Correction::Raised);
        found.corrected = u32::from(corrected);
        Ok(found)
    }
}

impl SweeperFunction {
    async fn whole_bucket(&self, at: &Watched) -> Result<WholeBucket, Failure> {
        let whole = self.ledger.whole_bucket(&at.sale, at.bucket);
        whole.await.map_err(words)
    }

    /// Ends holds whose deadline the gate has lost, and how many they were.
    async fn end_overdue(
        &self,
        at: &Watched,
        whole: &WholeBucket,
        before: Timestamp,
    ) -> Result<usize, Failure> {
        let overdue = whole.orders.iter().filter(|order| {
            let deadline = order.deadline();
            deadline.is_some_and(|deadline| at.extended(deadline) < before)
        });
        let overdue: Vec<Order> = overdue.cloned().collect();
        let many = overdue.len();
        if many > 0 {
            tracing::warn!(sale = %at.sale, bucket = %at.bucket, overdue = many,
                "holds are overdue in the ledger");
            self.end_holds(at, overdue).await?;
        }
        Ok(many)
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

/// Units that the ledger has to spare and the gate must not show as free: what
/// the gate has taken and the ledger does not know yet, and what the ledger has
/// released and the gate has not given back yet.
fn on_their_way(whole: &WholeBucket, holds: &[Hold]) -> u32 {
    let orders: HashMap<&ClaimId, &Order> = whole
        .orders
        .iter()
        .map(|order| (&order.claim, order))
        .collect();
    holds
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
        .sum()
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
        let whole = WholeBucket { bucket, orders };
        assert_eq!(on_their_way(&whole, &holds), 3);
        let found = Found::in_ledger(&whole);
        assert_eq!((found.held, found.paying, found.paid), (1, 1, 0));
    }
}
