//! What holds after every step, and what holds once nothing more comes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use domain::order::{RefundStatus, VoidReason};
use domain::{ClaimId, IntentId, OrderStatus};

use crate::seen::{Seen, SeenBucket};

/// P1: live and paid orders never exceed the units.
pub const NEVER_OVERSELL: &str = "P1 never oversell";
/// P2: at the end every unit is paid, or can be claimed.
pub const STRAND_NOTHING: &str = "P2 strand nothing";
/// P3: a customer holds at most the limit, and a key has one order.
pub const LIMIT: &str = "P3 one customer, one key";
/// P5: what was answered with 201 is there, and not taken back.
pub const A_YES_STANDS: &str = "P5 a yes stands";
/// P7: a capture pays its order or goes back, once; in time, it pays.
pub const MONEY: &str = "P7 money";
/// Every unit is in one place.
pub const CONSERVED: &str = "units are conserved";
/// The code did what the reference does not.
pub const REFERENCE: &str = "the reference";

/// A promise that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub promise: &'static str,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.seen)
    }
}

/// Whether it holds.
pub type Held = Result<(), Broken>;

/// Breaks a promise unless something holds.
///
/// # Errors
/// It does not.
pub fn demand(promise: &'static str, holds: bool, seen: impl FnOnce() -> String) -> Held {
    if holds {
        return Ok(());
    }
    Err(Broken {
        promise,
        seen: seen(),
    })
}

/// What was promised to whom.
#[derive(Debug, Default)]
pub struct Told {
    /// Claims that were answered with 201.
    pub yes: BTreeSet<ClaimId>,
    /// Captures that came while the hold lived.
    pub in_time: BTreeMap<IntentId, ClaimId>,
    /// Captures of which only an event tells.
    pub after_all: BTreeMap<IntentId, ClaimId>,
}

/// What holds after every step, against which faults whatsoever.
///
/// # Errors
/// It does not.
pub fn always(seen: &Seen, limit: u32, units: u32, told: &Told) -> Held {
    never_oversell(seen, units)?;
    one_customer(seen, limit)?;
    money(seen, told)
}

fn never_oversell(seen: &Seen, units: u32) -> Held {
    let mut capacity = 0;
    for (number, bucket) in (0u16..).zip(&seen.buckets) {
        let row = &bucket.row;
        let sold = seen.sold(|order| order.claim.bucket().0 == number);
        let adds_up = sold <= row.capacity
            && row.allotted == sold
            && i64::from(row.allotted) + row.spare == i64::from(row.capacity);
        demand(NEVER_OVERSELL, adds_up, || {
            format!("bucket {number} has orders for {sold} units: {row:?}")
        })?;
        capacity += row.capacity;
    }
    demand(NEVER_OVERSELL, capacity == units, || {
        format!("buckets have {capacity} of {units} units")
    })
}

fn one_customer(seen: &Seen, limit: u32) -> Held {
    for (shopper, (units, digests)) in &seen.customers {
        let sold = seen.sold(|order| order.shopper == *shopper);
        demand(LIMIT, sold <= limit && *units == sold, || {
            format!("{shopper} has {sold} units, {units} by the row, of {limit}")
        })?;
        for digest in digests {
            let same = seen.orders.values().filter(|order| {
                order.status.holds_units() && order.claim.digest() == digest.as_str()
            });
            let count = same.count();
            demand(LIMIT, count <= 1, || {
                format!("{count} orders of one key of {shopper}")
            })?;
        }
    }
    Ok(())
}

fn pays(seen: &Seen, intent: &IntentId, claim: &ClaimId) -> bool {
    seen.orders.get(claim).is_some_and(|order| {
        order.status == OrderStatus::Paid && order.intent.as_ref() == Some(intent)
    })
}

fn money(seen: &Seen, told: &Told) -> Held {
    for order in seen.orders.values() {
        let paid = order.status == OrderStatus::Paid;
        let mut captures = seen.captures.iter();
        let captured = captures.any(|capture| {
            Some(&capture.intent) == order.intent.as_ref() && capture.captured == order.money
        });
        let after_all = order.intent.as_ref();
        let after_all = after_all.is_some_and(|intent| told.after_all.contains_key(intent));
        demand(MONEY, !paid || captured || after_all, || {
            format!("{} is paid by no capture", order.claim)
        })?;
    }
    for capture in &seen.captures {
        let pays = pays(seen, &capture.intent, &capture.order.claim());
        let owed = seen.refunds.iter();
        let owed = owed
            .filter(|refund| refund.intent == capture.intent)
            .count();
        let back = capture.refunded.is_none_or(|back| back == capture.captured);
        let fits = owed <= 1 && back && !(pays && (owed > 0 || capture.refunded.is_some()));
        demand(MONEY, fits, || {
            format!("pays {pays}, {owed} refunds are owed: {capture:?}")
        })?;
        let in_time = told.in_time.contains_key(&capture.intent);
        demand(MONEY, !in_time || owed == 0, || {
            format!("was captured in time and goes back: {capture:?}")
        })?;
    }
    Ok(())
}

/// Of an open gate: what can be claimed, what is held and what is ordered are
/// together never more than the capacity.
///
/// # Errors
/// They are.
pub fn never_too_many(seen: &Seen) -> Held {
    for (number, bucket) in (0u16..).zip(&seen.buckets) {
        let sum = bucket.left + held(seen, bucket) + ordered(seen, number);
        let fits = !bucket.open || sum <= bucket.row.capacity;
        demand(CONSERVED, fits, || format!("bucket {number}: {bucket:?}"))?;
    }
    Ok(())
}

/// Units that a gate holds and no live or paid order has.
pub fn held(seen: &Seen, bucket: &SeenBucket) -> u32 {
    let held = bucket.due.iter().filter(|(claim, _)| {
        let order = seen.orders.get(claim);
        order.is_none_or(|order| !order.status.holds_units())
    });
    held.map(|(_, units)| units).sum()
}

/// Units of a bucket's live and paid orders.
pub fn ordered(seen: &Seen, number: u16) -> u32 {
    seen.sold(|order| order.claim.bucket().0 == number)
}

/// A 201 is voided neither by the cap nor as forgotten.
///
/// # Errors
/// One is.
pub fn a_yes_stands(seen: &Seen, told: &Told) -> Held {
    use VoidReason::{Cap, Forgotten};
    for order in seen.orders.values() {
        let taken_back = matches!(order.void_reason, Some(Cap | Forgotten));
        demand(
            A_YES_STANDS,
            !taken_back || !told.yes.contains(&order.claim),
            || {
                format!(
                    "{} was told, and voided: {:?}",
                    order.claim, order.void_reason
                )
            },
        )?;
    }
    Ok(())
}

/// Everybody has done their work, every deadline has passed.
///
/// # Errors
/// Something is left.
pub fn at_rest(seen: &Seen, told: &Told) -> Held {
    for (number, bucket) in (0u16..).zip(&seen.buckets) {
        let paid = seen
            .sold(|order| order.claim.bucket().0 == number && order.status == OrderStatus::Paid);
        let row = &bucket.row;
        let rests = bucket.open
            && bucket.queued == 0
            && bucket.due.is_empty()
            && row.allotted == paid
            && bucket.left + paid == row.capacity;
        demand(STRAND_NOTHING, rests, || {
            format!("bucket {number} has {paid} paid units: {bucket:?}")
        })?;
    }
    for claim in &told.yes {
        demand(A_YES_STANDS, seen.orders.contains_key(claim), || {
            format!("{claim} was told and is nowhere")
        })?;
    }
    for capture in &seen.captures {
        let pays = pays(seen, &capture.intent, &capture.order.claim());
        let mut refunds = seen.refunds.iter();
        let goes_back = refunds.any(|refund| {
            refund.intent == capture.intent && refund.status == RefundStatus::Refunded
        }) && capture.refunded == Some(capture.captured);
        demand(MONEY, pays != goes_back, || {
            format!("pays {pays}, went back {goes_back}: {capture:?}")
        })?;
    }
    // The provider says so, its books or not.
    for (intent, claim) in &told.after_all {
        let pays = pays(seen, intent, claim);
        let refund = seen.refunds.iter().find(|refund| refund.intent == *intent);
        let goes_back = refund.is_some_and(|refund| refund.status == RefundStatus::Refunded);
        demand(MONEY, pays != goes_back, || {
            format!("pays {pays}, went back {goes_back}: {intent} of {claim}")
        })?;
    }
    Ok(())
}
