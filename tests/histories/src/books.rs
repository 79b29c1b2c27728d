//! The reference: plain books of what was asked for, and of where every unit
//! must be for that.
//!
//! Each step says what it did. From that and from what was seen before it, the
//! books say which rows may have changed and to what, which gates may hold more
//! or less, and which answer was right. And all the while, of a gate that is
//! open, `free + held + ordered + paying + paid + missing = capacity`, where
//! only a move of units that stopped makes units missing.

use std::collections::{BTreeMap, BTreeSet};

use domain::order::VoidReason;
use domain::{ClaimId, Order, OrderStatus, ShopperId};
use gate::{Decision, Hold};
use jiff::Timestamp;
use queue::Message;

use crate::bench::BUCKETS;
use crate::promises::{self, CONSERVED, Held, REFERENCE, STRAND_NOTHING, Told, demand};
use crate::seen::Seen;
use crate::step::Faults;
use crate::worker::{Rows, Worker};

/// What a step did.
#[derive(Debug)]
pub enum Did {
    /// Nothing that changes a row or a gate.
    Nothing,
    /// The gates were asked for units.
    Asked {
        /// By whom.
        shopper: ShopperId,
        /// How many.
        quantity: u32,
        /// What they said.
        answer: Result<Decision, gate::Error>,
    },
    /// A yes was looked at: whether it was told.
    Looked(ClaimId, bool),
    /// A worker got messages.
    Delivered {
        /// Of which bucket.
        bucket: u16,
        /// Which.
        messages: Vec<Message>,
        /// What the gate knew of their claims.
        known: BTreeMap<ClaimId, Hold>,
        /// The worker's time.
        now: Timestamp,
        /// Messages that failed.
        failed: usize,
    },
    /// A shopper began to pay, or an event was delivered.
    Paid(ClaimId),
    /// A hold was given back.
    GaveBack(ClaimId),
    /// The sweeper went round.
    Swept {
        /// Whether it compared, too.
        compares: bool,
        /// Its time.
        now: Timestamp,
    },
    /// A primary lost its scripts, or has other data.
    Replaced,
    /// Units were taken out of this bucket's gate, and the one who did stopped.
    MoveStopped(u16, u32),
    /// The merchant added so many units.
    Grew(u32),
}

/// The books of one history.
#[derive(Debug)]
pub struct Books {
    faults: Faults,
    limit: u32,
    units: u32,
    /// What was seen before the step.
    pub before: Seen,
    /// What was promised.
    pub told: Told,
    /// Every hold that a gate ever said yes to.
    holds: BTreeMap<ClaimId, Hold>,
    missing: [u32; BUCKETS as usize],
    replaced: bool,
}

impl Books {
    /// The books of a sale of which nothing was asked yet.
    pub fn new(faults: Faults, limit: u32, units: u32, before: Seen) -> Self {
        Self {
            faults,
            limit,
            units,
            before,
            told: Told::default(),
            holds: BTreeMap::new(),
            missing: [0; BUCKETS as usize],
            replaced: false,
        }
    }

    /// Follows one step, and compares.
    ///
    /// # Errors
    /// What is seen is not what it must be.
    pub fn follow(&mut self, did: &Did, seen: Seen) -> Held {
        match did {
            Did::Replaced => self.replaced = true,
            Did::Looked(claim, true) => {
                self.told.yes.insert(claim.clone());
            }
            Did::Grew(units) => self.units += units,
            Did::MoveStopped(bucket, units) => self.missing[usize::from(*bucket)] += units,
            Did::Asked {
                answer:
                    Ok(Decision::Claimed(hold) | Decision::Same(hold) | Decision::Holds(hold, _)),
                ..
            } => {
                self.holds.insert(hold.claim.clone(), hold.clone());
            }
            _ => {}
        }
        promises::always(&seen, self.limit, self.units, &self.told)?;
        if self.faults == Faults::Covered {
            promises::a_yes_stands(&seen, &self.told)?;
            self.units_add_up(did, &seen)?;
        }
        self.rows(did, &seen)?;
        self.gates(did, &seen)?;
        self.before = seen;
        Ok(())
    }

    /// Every row is as it was, or has become what this step may make of it.
    fn rows(&self, did: &Did, seen: &Seen) -> Held {
        let mut written = Rows::new();
        for (claim, order) in &seen.orders {
            let before = self.before.orders.get(claim);
            if before == Some(order) {
                continue;
            }
            if before.is_none() && matches!(did, Did::Delivered { .. }) {
                written.insert(claim.clone(), order.void_reason);
                continue;
            }
            let may = self.may_become(did, before, order, seen);
            let same = before.is_none_or(|before| {
                (&before.shopper, before.quantity, before.money)
                    == (&order.shopper, order.quantity, order.money)
            });
            demand(REFERENCE, may && same, || {
                format!("{before:?} became {order:?}")
            })?;
        }
        let gone = self
            .before
            .orders
            .keys()
            .find(|claim| !seen.orders.contains_key(claim));
        demand(REFERENCE, gone.is_none(), || format!("{gone:?} is gone"))?;
        let Did::Delivered {
            bucket,
            messages,
            known,
            now,
            failed,
        } = did
        else {
            return Ok(());
        };
        demand(REFERENCE, *failed == 0, || {
            format!("{failed} messages failed")
        })?;
        let worker = Worker::new(&self.before, known, *bucket, self.limit);
        let expected = worker.handle(messages, *now);
        demand(REFERENCE, written == expected, || {
            format!("a worker wrote {written:?}, not {expected:?}")
        })
    }

    fn may_become(&self, did: &Did, before: Option<&Order>, after: &Order, seen: &Seen) -> bool {
        use OrderStatus::{Cancelled, Expired, Paid, Paying, PendingPayment, Voided};
        let captured = seen
            .captures
            .iter()
            .any(|capture| Some(&capture.intent) == after.intent.as_ref());
        let after_all = after.intent.as_ref();
        let captured =
            captured || after_all.is_some_and(|intent| self.told.after_all.contains_key(intent));
        match (did, before.map(|before| before.status), after.status) {
            (Did::Paid(claim), Some(PendingPayment | Paying), Paying | PendingPayment) => {
                *claim == after.claim
            }
            (Did::Paid(claim), Some(PendingPayment | Paying), Paid) => {
                *claim == after.claim && captured
            }
            // What is over may come to owe a refund, which its row names.
            (Did::Paid(claim), Some(was), is) => *claim == after.claim && was == is,
            (Did::GaveBack(claim), Some(PendingPayment), Cancelled) => *claim == after.claim,
            (Did::Swept { now, .. }, None, Voided) => {
                after.void_reason == Some(VoidReason::NoOrder) && after.pay_by <= *now
            }
            (Did::Swept { .. }, Some(PendingPayment | Paying), Paid) => captured,
            (Did::Swept { now, .. }, Some(PendingPayment | Paying), Expired) => {
                let deadline = before.and_then(Order::deadline);
                deadline.is_some_and(|deadline| deadline <= *now)
            }
            (Did::Swept { .. }, Some(was), is) => was == is,
            _ => false,
        }
    }

    /// Free, held, ordered, paying and paid: every unit of an open gate.
    fn units_add_up(&mut self, did: &Did, seen: &Seen) -> Held {
        for (number, bucket) in (0u16..).zip(&seen.buckets) {
            if !bucket.open {
                // Whatever is missing, recovery will know.
                self.missing[usize::from(number)] = 0;
                continue;
            }
            let held = promises::held(seen, bucket);
            let ordered = promises::ordered(seen, number);
            let missing = &mut self.missing[usize::from(number)];
            let sum = bucket.left + held + ordered;
            let compares = matches!(did, Did::Swept { compares: true, .. });
            if compares && *missing > 0 && sum == bucket.row.capacity {
                *missing = 0;
            }
            let missing = *missing;
            demand(CONSERVED, sum + missing == bucket.row.capacity, || {
                format!(
                    "bucket {number}: {} free + {held} held + {ordered} ordered, paying or paid \
                     + {missing} missing of {}: {bucket:?}",
                    bucket.left, bucket.row.capacity
                )
            })?;
        }
        Ok(())
    }

    /// What open gates hold more or less than before, and what they said.
    fn gates(&self, did: &Did, seen: &Seen) -> Held {
        let mut taken = BTreeSet::new();
        let gates = self.before.buckets.iter().zip(&seen.buckets);
        for (number, (before, bucket)) in (0u16..).zip(gates) {
            if !bucket.open || !before.open || matches!(did, Did::Replaced) {
                continue;
            }
            let new = bucket
                .due
                .keys()
                .filter(|claim| !before.due.contains_key(claim));
            for claim in new {
                let right = match did {
                    Did::Asked { .. } => taken.insert(claim.clone()) && taken.len() == 1,
                    // A claim of an earlier life was adopted.
                    Did::Delivered { bucket, .. } => {
                        let order = seen.orders.get(claim);
                        *bucket == number && order.is_some_and(|order| order.deadline().is_some())
                    }
                    _ => false,
                };
                demand(REFERENCE, right, || {
                    format!("bucket {number} holds {claim} by {did:?}")
                })?;
            }
            let mut gone = before
                .due
                .keys()
                .filter(|claim| !bucket.due.contains_key(claim));
            let early = gone.find(|claim| {
                let order = seen.orders.get(claim);
                order.is_none_or(|order| order.deadline().is_some())
            });
            demand(REFERENCE, early.is_none(), || {
                format!("bucket {number} let {early:?} go by {did:?}")
            })?;
            if let Did::Swept { now, .. } = did {
                self.nothing_is_overdue(seen, number, *now)?;
            }
        }
        match did {
            Did::Asked {
                shopper,
                quantity,
                answer,
            } => self.answered(shopper, *quantity, answer, &taken),
            _ => Ok(()),
        }
    }

    /// P2: what is over is on offer again after one look.
    fn nothing_is_overdue(&self, seen: &Seen, number: u16, now: Timestamp) -> Held {
        let mut due = seen.buckets[usize::from(number)].due.keys();
        let overdue = due.find(|claim| {
            let deadline = match seen.orders.get(claim) {
                None => self.holds.get(claim).map(|hold| hold.pay_by),
                Some(order) => order.deadline(),
            };
            deadline.is_some_and(|deadline| deadline <= now)
        });
        demand(STRAND_NOTHING, overdue.is_none(), || {
            format!("bucket {number} still holds {overdue:?}")
        })
    }

    fn answered(
        &self,
        shopper: &ShopperId,
        quantity: u32,
        answer: &Result<Decision, gate::Error>,
        taken: &BTreeSet<ClaimId>,
    ) -> Held {
        let before = &self.before.buckets;
        let right = match answer {
            Ok(Decision::Claimed(hold)) => {
                let from = &before[usize::from(hold.claim.bucket().0)];
                // The gates alone keep the limit, unless one has forgotten.
                let within = self.replaced || self.counted(shopper) + quantity <= self.limit;
                taken.contains(&hold.claim)
                    && hold.shopper == *shopper
                    && hold.quantity == quantity
                    && from.open
                    && from.left >= quantity
                    && within
            }
            Ok(Decision::Same(hold) | Decision::Holds(hold, _)) => {
                hold.shopper == *shopper && taken.iter().all(|claim| *claim == hold.claim)
            }
            Ok(Decision::Empty) => {
                taken.is_empty() && before.iter().all(|at| at.open && at.left < quantity)
            }
            Ok(Decision::Busy) => false,
            // A primary that came back counts turns again that others have
            // refused: its shoppers try again until it has caught up.
            Err(_) => {
                let unknown = before.iter().any(|at| !at.open);
                taken.is_empty() && (unknown || self.faults == Faults::ComeBack)
            }
        };
        demand(REFERENCE, right, || {
            format!("{shopper} asked for {quantity}: {answer:?}, {taken:?}, before {before:?}")
        })
    }

    /// Units of a shopper's claims that were not taken back, this one apart.
    fn counted(&self, shopper: &ShopperId) -> u32 {
        let of = self.holds.values().filter(|hold| hold.shopper == *shopper);
        let counts = of.filter(|hold| {
            let at = &self.before.buckets[usize::from(hold.claim.bucket().0)];
            match self.before.orders.get(&hold.claim) {
                Some(order) => order.status != OrderStatus::Voided,
                None => at.due.contains_key(&hold.claim),
            }
        });
        counts.map(|hold| hold.quantity).sum()
    }
}
