//! Gate against ledger: the ledger is right.

use std::ops::AddAssign;

use domain::order::RefundStatus;
use domain::{Order, OrderStatus};
use gate::Hold;
use gate::upkeep::Correction;
use ledger::orders::WholeBucket;
use queue::{Message, Recover};
use reconcile::compare::{At, Finding, OVERDUE, Seen, overdue};

use crate::bucket::{Failure, words};
use crate::{SweeperFunction, Watched};

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
    /// How many refunds are owed, holds whose deadline the gate has lost, and the
    /// comparison of the counters. No provider is asked.
    pub(crate) async fn look_after(&self, at: &Watched) -> Result<Found, Failure> {
        let refunds = self.ledger.refunds(&at.sale, at.bucket).await;
        let refunds = refunds.map_err(words)?.into_iter();
        let owed = refunds.filter(|refund| refund.status == RefundStatus::RefundPending);
        let refunds = owed.count();
        // A frozen bucket is for recovery to make true, not for this. Its
        // holds end all the same: the gate forgot them, the ledger did not.
        match self.is_believed(at).await {
            Ok(true) => {}
            Ok(false) => {
                self.ask_recovery(at).await;
                return Ok(Found {
                    frozen: 1,
                    refunds,
                    ..self.keep_ledger(at).await?
                });
            }
            Err(away) => {
                // The ledger's holds end without their gate, too; what it then
                // holds too much is for recovery or the next comparison.
                let kept = self.keep_ledger(at).await;
                return Err(kept.err().unwrap_or_else(|| words(away)));
            }
        }
        let (gate, ledger) = (&self.gate, &self.ledger);
        let seen = Seen::read(gate, ledger, &at.sale, at.bucket, &at.address.tag).await;
        let seen = seen.map_err(words)?;
        self.settle_marks(at, &seen.gate.due).await?;
        let mut found = Found::in_ledger(&seen.whole);
        found.free = u32::try_from(seen.gate.view.left).unwrap_or(u32::MAX);
        found.held += seen.on_their_way();
        found.refunds = refunds;
        let now = self.clock.now();
        match seen.find(at.floor, now) {
            Finding::Unfollowed(ended) => self.end_holds(at, ended).await?,
            Finding::Counted { overdue, gap } => {
                found.overdue = self.end_overdue(at, overdue).await?;
                let correction = seen.correct(gate, at.compared(), gap, now).await;
                let correction = correction.map_err(words)?;
                found.gap = correction.map_or(0, |_| gap.unsigned_abs());
                let corrected =
                    matches!(correction, Some(Correction::Lowered | Correction::Raised));
                found.corrected = u32::from(corrected);
            }
        }
        Ok(found)
    }

    /// Whether the gate is open in its published life, and that life was not
    /// closed while it was away.
    async fn is_believed(&self, at: &Watched) -> Result<bool, gate::Error> {
        if !self.gate.is_open(&at.address).await? {
            return Ok(false);
        }
        // Asked for where it can be so alone.
        if !at.ledger_only {
            return Ok(true);
        }
        let row = self.ledger.bucket(&at.sale, at.bucket).await;
        let row = row.map_err(|error| gate::Error::Unavailable(error.to_string()))?;
        Ok(row.is_some_and(|row| row.closed < at.address.epoch))
    }

    /// What can be done for a bucket without its gate.
    async fn keep_ledger(&self, at: &Watched) -> Result<Found, Failure> {
        let whole = self.ledger.whole_bucket(&at.sale, at.bucket);
        let whole = whole.await.map_err(words)?;
        self.extend(at, &whole).await?;
        let late = overdue(&whole, at.floor, self.clock.now() - OVERDUE);
        Ok(Found {
            overdue: self.end_overdue(at, late).await?,
            ..Found::in_ledger(&whole)
        })
    }

    /// Orders get the time that an operator gave, without their gates: from
    /// their own deadline on nobody could pay them, and nothing else would find them.
    async fn extend(&self, at: &Watched, whole: &WholeBucket) -> Result<(), Failure> {
        let Some(floor) = at.floor.filter(|floor| *floor > self.clock.now()) else {
            return Ok(());
        };
        let waits = |order: &&Order| order.deadline().is_some() && order.pay_by < floor;
        for order in whole.orders.iter().filter(waits) {
            self.ledger.extend(order, floor).await.map_err(words)?;
        }
        Ok(())
    }

    async fn ask_recovery(&self, at: &Watched) {
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
    }

    /// Ends holds whose deadline the gate has lost, and how many they were.
    async fn end_overdue(&self, at: &Watched, late: Vec<Order>) -> Result<usize, Failure> {
        let many = late.len();
        if many > 0 {
            tracing::warn!(sale = %at.sale, bucket = %at.bucket, overdue = many,
                "holds are overdue in the ledger");
            self.end_holds(at, late).await?;
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

impl Watched {
    fn compared(&self) -> At<'_> {
        At {
            sale: &self.sale,
            bucket: self.bucket,
            tag: &self.address.tag,
            resizing: self.resizing,
        }
    }
}
