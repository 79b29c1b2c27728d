//! One bucket's deadlines: the ledger decides what each comes to, then the
//! gate follows. What the provider decides is in `payments`.

use std::collections::HashSet;

use domain::order::VoidReason;
use domain::{ClaimId, Money, Order, OrderStatus};
use futures::{StreamExt, stream};
use gate::{Hold, Release};
use jiff::{SignedDuration, Timestamp};
use ledger::orders::RELEASE_BATCH;
use reconcile::compare::Follow;

use crate::{SweeperFunction, Watched, tell};

/// What ends a look at one bucket: the parts' own errors, in words.
pub(crate) type Failure = String;

/// Claims without an order, and marks, of a bucket that are ended at once.
const BURIED_AT_ONCE: usize = 8;

/// An order that is being paid after its `pay_by` is looked at this often.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(1);

pub(crate) fn words(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}

impl SweeperFunction {
    pub(crate) async fn sweep_bucket(&self, at: &Watched) -> Result<(), Failure> {
        let due = self.gate.due(&at.address.tag, self.clock.now()).await;
        let mut due = due.map_err(words)?;
        // What waits for the provider is read again when that is asked.
        due.retain(|claim| !self.over.has(at, claim));
        if due.is_empty() {
            return Ok(());
        }
        // Only what is due, not the whole bucket: late in a sale most of its
        // orders have ended.
        let mut orders = self.ledger.orders(&due).await.map_err(words)?;
        let (mut known, mut others) = (Vec::new(), Vec::new());
        for claim in due {
            match orders.remove(&claim) {
                Some(order) if claim.bucket() == at.bucket => known.push(order),
                order => others.push((claim, order)),
            }
        }
        // Holds first: whoever let one lapse did so at a time that was promised.
        let ended = self.end_holds(at, known).await;
        let others = stream::iter(others)
            .map(|(claim, order)| async move {
                match (claim.bucket() == at.bucket, order) {
                    (_, Some(mark)) => self.end_mark(at, &mark).await,
                    (true, None) => self.bury(at, &claim).await,
                    (false, None) => self.bury_mark(at, &claim).await,
                }
            })
            .buffer_unordered(BURIED_AT_ONCE);
        others.fold(ended, async |all, one| all.and(one)).await
    }

    /// Ends those of these orders whose time is over; moves or drops the
    /// deadline of the others. Where the provider has a say, it is asked later:
    /// no unit waits for the provider of another order.
    pub(crate) async fn end_holds(&self, at: &Watched, orders: Vec<Order>) -> Result<(), Failure> {
        // One moment for all: between two, a hold that is being paid could end
        // without its provider having been asked.
        let now = self.clock.now();
        let is_asked = |order: &Order| asks_provider(at, order, now);
        let (asked, others): (Vec<_>, Vec<_>) = orders.into_iter().partition(is_asked);
        self.over
            .put(at, asked.into_iter().map(|order| order.claim));
        self.end(at, others, now).await
    }

    /// Ends some of a bucket's holds in which the provider has no say, or no more.
    pub(crate) async fn end(
        &self,
        at: &Watched,
        orders: Vec<Order>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let mut over = Vec::new();
        // No hold is kept by its gate from ending in the ledger.
        let mut kept = Ok(());
        for order in orders {
            match order.deadline().map(|deadline| at.extended(deadline)) {
                Some(deadline) if deadline > now => {
                    // Paying, or given more time: the deadline is moved, not
                    // dropped. A payment that is declined ends the hold at
                    // once, so what is being paid is looked at again soon.
                    let paying_late = order.status == OrderStatus::Paying && order.pay_by <= now;
                    let next = if paying_late {
                        deadline.min(now + LOOK_AGAIN)
                    } else {
                        deadline
                    };
                    // The operator may have given time while the order was
                    // being written.
                    if let Some(floor) = at.floor.filter(|floor| order.pay_by < *floor) {
                        self.ledger.extend(&order, floor).await.map_err(words)?;
                    }
                    let moved = self.gate.defer(&at.address.tag, &order.claim, next).await;
                    kept = kept.and(moved.map_err(words));
                }
                Some(_) => over.push(order),
                None => kept = kept.and(self.follow(at, &order).await),
            }
        }
        for batch in over.chunks(RELEASE_BATCH) {
            let ended = self
                .ledger
                .release(
                    &at.sale,
                    at.bucket,
                    batch,
                    OrderStatus::Expired,
                    self.clock.now(),
                )
                .await
                .map_err(words)?;
            tracing::info!(sale = %at.sale, bucket = %at.bucket, expired = ended.len(), "holds expired");
            tell::expired(&at.sale, ended.len());
            kept = kept.and(self.release_all(at, batch, &ended).await);
        }
        kept
    }

    /// Gives back the units of those of these orders that have ended.
    async fn release_all(
        &self,
        at: &Watched,
        orders: &[Order],
        ended: &[ClaimId],
    ) -> Result<(), Failure> {
        let freed = self
            .gate
            .release_all(&at.address.tag, ended, Release::Lapsed)
            .await
            .map_err(words)?;
        // Only those that this call freed: another sweeper tells of its own.
        let freed = ended.iter().zip(freed).filter(|(_, freed)| *freed);
        let freed: HashSet<_> = freed.map(|(claim, _)| claim).collect();
        let freed = orders.iter().filter(|order| freed.contains(&order.claim));
        let deadlines = freed.filter_map(Order::deadline);
        tell::released(&at.sale, deadlines, self.clock.now());
        Ok(())
    }

    /// The gate follows an order that has ended.
    async fn follow(&self, at: &Watched, order: &Order) -> Result<(), Failure> {
        let tag = &at.address.tag;
        let how = match Follow::of(order) {
            Follow::Release(how) => how,
            Follow::Settle => return self.gate.settle(tag, &order.claim).await.map_err(words),
            // Written while we looked: its deadline stays, for the next sweep.
            Follow::Nothing => return Ok(()),
        };
        let release = self.gate.release(tag, &order.claim, how).await;
        if release.map_err(words)? {
            tell::released(&at.sale, lapsed_at(order), self.clock.now());
        }
        Ok(())
    }

    /// A deadline without an order: the message was never stored, or is later
    /// than the deadline. A tombstone first, so that a late message can't
    /// revive the claim; then the units return.
    async fn bury(&self, at: &Watched, claim: &ClaimId) -> Result<(), Failure> {
        let Some(hold) = self
            .gate
            .hold(&at.address.tag, claim)
            .await
            .map_err(words)?
        else {
            // A deadline that nothing belongs to any more.
            return self
                .gate
                .settle(&at.address.tag, claim)
                .await
                .map_err(words);
        };
        if self.has_time(at, &hold).await? {
            return Ok(());
        }
        let stands = self.tombstone(&hold).await?;
        tracing::warn!(%claim, "a claim without an order was voided at its deadline");
        self.follow(at, &stands).await
    }

    /// Whether the operator gave a hold more time whose order is not written:
    /// its deadline is moved then.
    async fn has_time(&self, at: &Watched, hold: &Hold) -> Result<bool, Failure> {
        let deadline = at.extended(hold.pay_by);
        let has_time = deadline > self.clock.now();
        if has_time {
            let moved = self.gate.defer(&at.address.tag, &hold.claim, deadline);
            moved.await.map_err(words)?;
        }
        Ok(has_time)
    }

    /// A mark of a claim that is in another bucket and has no order: the claim
    /// is buried where it is, and the mark goes.
    async fn bury_mark(&self, at: &Watched, claim: &ClaimId) -> Result<(), Failure> {
        let tag = &at.address.tag;
        let Some(hold) = self.gate.hold(tag, claim).await.map_err(words)? else {
            return self.gate.settle(tag, claim).await.map_err(words);
        };
        if self.has_time(at, &hold).await? {
            return Ok(());
        }
        let stands = self.tombstone(&hold).await?;
        let how = match (stands.status, Follow::of(&stands)) {
            (OrderStatus::Voided, Follow::Release(how)) => how,
            _ => return self.end_mark(at, &stands).await,
        };
        let gates = self
            .ledger
            .gates(&at.sale)
            .await
            .map_err(words)?
            .unwrap_or_default();
        if let Some(elsewhere) = gates.of(claim.bucket()) {
            let release = self.gate.release(&elsewhere.tag, claim, how).await;
            if release.map_err(words)? {
                tell::released(&at.sale, lapsed_at(&stands), self.clock.now());
            }
        }
        self.gate
            .release(tag, claim, Release::Forget)
            .await
            .map_err(words)?;
        Ok(())
    }

    /// The mark of a claim that the ledger knows: it stays as the shopper's
    /// record, without a deadline, unless the claim was voided.
    pub(crate) async fn end_mark(&self, at: &Watched, order: &Order) -> Result<(), Failure> {
        if order.status == OrderStatus::Voided {
            return self.follow(at, order).await;
        }
        self.gate
            .settle(&at.address.tag, &order.claim)
            .await
            .map_err(words)
    }

    /// Writes a claim as voided; an order that came first stands instead.
    async fn tombstone(&self, hold: &Hold) -> Result<Order, Failure> {
        let now = self.clock.now();
        let sale = self
            .ledger
            .sale_recent(hold.claim.sale())
            .await
            .map_err(words)?;
        let currency = sale.as_ref().ok_or("the sale is gone")?.config.price;
        let order = Order {
            claim: hold.claim.clone(),
            shopper: hold.shopper.clone(),
            quantity: hold.quantity,
            money: currency.times(hold.quantity).unwrap_or(Money {
                amount: 0,
                ..currency
            }),
            status: OrderStatus::Voided,
            pay_by: hold.pay_by,
            pay_until: None,
            intent: None,
            attempt: 0,
            claimed_at: now,
            changed_at: now,
            void_reason: None,
        };
        let reason = VoidReason::NoOrder;
        let stands = self.ledger.void(&order, reason, now).await;
        let stands = stands.map_err(words)?;
        // Not what was voided before.
        if stands.status == OrderStatus::Voided && stands.changed_at == now {
            tell::voided(hold.claim.sale(), reason.name());
        }
        Ok(stands)
    }
}

/// Whether the provider has a say in how this order ends: its time is over, and it
/// may still be paid.
pub(crate) fn asks_provider(at: &Watched, order: &Order, now: Timestamp) -> bool {
    let over = order
        .deadline()
        .is_some_and(|deadline| at.extended(deadline) <= now);
    let may_be_paid = match order.status {
        OrderStatus::Paying => true,
        // A declined attempt has left its intent, which can be confirmed again.
        OrderStatus::PendingPayment => order.intent.is_some(),
        _ => false,
    };
    over && may_be_paid
}

/// When the units of an order that has ended should have been free again;
/// `None` if no deadline ended it.
fn lapsed_at(order: &Order) -> Option<Timestamp> {
    match (order.status, order.void_reason) {
        (OrderStatus::Expired, _) => Some(order.pay_until.unwrap_or(order.pay_by)),
        (OrderStatus::Voided, Some(VoidReason::NoOrder)) => Some(order.pay_by),
        _ => None,
    }
}
