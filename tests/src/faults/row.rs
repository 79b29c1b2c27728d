//! What is told of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::bucket::home;
use domain::order::OrderStatus;
use domain::slot::{Gates, SLOTS, slot};
use domain::{BucketId, ClaimId, ShopperId};
use drill::Outcome;
use drill::audit::Promise;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::faults::watch::Seen;
use crate::faults::{Fault, Scale};

/// Claims that were sent so long after the opening are compared: the rush.
const RUSH: SignedDuration = SignedDuration::from_secs(12);

/// Checks of the drill that are not judged here as they are. How soon lapsed
/// units are on offer is what some of these faults delay. While a bucket is
/// frozen, who asks again can be sent to another one and be told a second yes:
/// the ledger keeps one of the two, see [`kept`].
const NOT_JUDGED: [&str; 3] = [
    "lapsed units are soon on offer",
    "every answer is kept",
    "repeated claims get one answer",
];

/// What a run left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) fault: Fault,
    pub(crate) scale: Scale,
    pub(crate) opens_at: Timestamp,
    pub(crate) struck: Instant,
    /// From when frozen buckets could be opened, if no replica took over.
    pub(crate) mended: Option<Instant>,
    pub(crate) seen: Seen,
    pub(crate) gates: Gates,
    /// Requests to the ledger that something happened to.
    pub(crate) troubled: u64,
    pub(crate) outcome: Outcome,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// What broke.
    pub fault: Fault,
    /// Units paid for.
    pub paid: i64,
    /// Units beyond those on sale, by live and paid orders.
    pub oversold: i64,
    /// Units that nobody has although somebody wants one, or that are held for
    /// ever.
    pub stranded: i64,
    /// Claims answered with 201.
    pub yes: usize,
    /// Claims answered with 202 and never with more.
    pub confirming: usize,
    /// Of the 201, those that were taken back since a failed primary had taken
    /// units that its replica did not know of.
    pub yes_void: usize,
    /// Of the 201, second ones of shoppers who have an order by the first.
    pub second: usize,
    /// Of the 202, those that the ledger took back.
    pub confirming_void: usize,
    /// Captures, and how many of them went back.
    pub captured: (usize, usize),
    /// Buckets that were closed after it broke.
    pub frozen: usize,
    /// From the promotion, or from when it was mended, until the last of them
    /// was open again; `None`: nothing was frozen.
    pub reopened: Option<Duration>,
    /// Buckets that were closed and never opened again.
    pub still_closed: usize,
    /// From the fault to the first promotion.
    pub promoted: Option<Duration>,
    /// p99 of claims in the rush, of shoppers at home in other buckets.
    pub others_p99: Duration,
    /// p99 of claims in the rush, of shoppers at home in those it strikes.
    pub struck_p99: Option<Duration>,
    /// p99 of how late lapsed units were on offer again, in ms.
    pub offer_p99_ms: i64,
    /// From the opening until everything was settled.
    pub took_s: f64,
    /// Requests to the ledger that something happened to.
    pub troubled: u64,
    /// Promises that are broken, and how.
    pub broken: Vec<String>,
    /// Everything, as the drill tells it.
    pub text: String,
}

pub(crate) fn of(run: &Run) -> Row {
    let Run { outcome, scale, .. } = run;
    let ledger = &outcome.ledger;
    let orders: BTreeMap<_, _> = ledger
        .orders()
        .map(|order| (&order.claim_id, order.status))
        .collect();
    let told = |promise: Promise| {
        let told = outcome.told.claims.iter();
        told.filter(move |(_, told)| **told == promise)
    };
    let is_void = |claim: &ClaimId| orders.get(claim) == Some(&OrderStatus::Voided);
    let confirming_void = told(Promise::Confirming).filter(|(claim, _)| is_void(claim));
    let kept = kept(outcome);
    let live: i64 = ledger
        .orders()
        .filter(|order| order.status.holds_units())
        .map(|order| i64::from(order.quantity))
        .sum();
    let summary = &ledger.summary;
    let pending = summary.held + summary.paying + summary.in_flight();
    let wanted = if outcome.told.wanting > 0 {
        summary.free
    } else {
        0
    };
    let payments = ledger.buckets.iter().flat_map(|bucket| &bucket.payments);
    let captured: Vec<_> = payments
        .filter(|payment| payment.status == drill::wire::PaymentStatus::Succeeded)
        .collect();
    let returned = captured.iter().filter(|payment| payment.refunded).count();
    let struck = struck(run);
    let closed = closed(run);
    let reopened = closed.values().copied().flatten().max();
    let broken = outcome.audit.broken();
    let broken = broken.filter(|check| !NOT_JUDGED.contains(&check.name));
    let broken = broken.map(|check| format!("{}: {}; {:?}", check.name, check.says, check.shown));
    Row {
        fault: run.fault,
        paid: summary.paid,
        oversold: (live - i64::from(scale.units)).max(0),
        stranded: pending + wanted,
        yes: told(Promise::Yes).count(),
        confirming: told(Promise::Confirming).count(),
        yes_void: kept.lost,
        second: kept.second,
        confirming_void: confirming_void.count(),
        captured: (captured.len(), returned),
        frozen: closed.len(),
        reopened,
        still_closed: closed.values().filter(|open| open.is_none()).count(),
        promoted: run.seen.promoted.values().min().map(|at| *at - run.struck),
        others_p99: p99(run, |bucket| !struck.contains(&bucket)).unwrap_or_default(),
        struck_p99: p99(run, |bucket| struck.contains(&bucket)),
        offer_p99_ms: outcome.audit.offer.p99_ms,
        took_s: outcome.took_s,
        troubled: run.troubled,
        broken: broken.chain(kept.broken).collect(),
        text: outcome.to_string(),
    }
}

/// What became of what shoppers were told.
#[derive(Debug, Default)]
struct Kept {
    lost: usize,
    second: usize,
    broken: Vec<String>,
}

/// Holds every answer against the ledger.
fn kept(outcome: &Outcome) -> Kept {
    let orders: BTreeMap<_, _> = outcome
        .ledger
        .orders()
        .map(|order| (&order.claim_id, order))
        .collect();
    let served: BTreeSet<_> = orders
        .values()
        .filter(|order| order.status != OrderStatus::Voided)
        .map(|order| &order.shopper)
        .collect();
    let mut kept = Kept::default();
    for (claim, promise) in &outcome.told.claims {
        let Some(order) = orders.get(claim) else {
            kept.broken
                .push(format!("{claim} was told and is not in the ledger"));
            continue;
        };
        if order.status != OrderStatus::Voided || *promise != Promise::Yes {
            continue;
        }
        match order.void_reason.as_deref() {
            Some("cap") => kept.lost += 1,
            Some("limit" | "repeated") if served.contains(&order.shopper) => kept.second += 1,
            reason => kept
                .broken
                .push(format!("{claim} was a 201 and is void: {reason:?}")),
        }
    }
    for id in &outcome.told.paid {
        let status = orders.get(&id.claim()).map(|order| order.status);
        if status != Some(OrderStatus::Paid) {
            kept.broken
                .push(format!("{id} was shown as paid and is {status:?}"));
        }
    }
    for claim in &outcome.told.given_back {
        let status = orders.get(claim).map(|order| order.status);
        if status.is_some_and(OrderStatus::holds_units) {
            kept.broken
                .push(format!("{claim} was given back and is {status:?}"));
        }
    }
    kept
}

/// The primary that had a bucket to begin with.
fn primary_of(gates: &Gates, bucket: BucketId, primaries: usize) -> usize {
    let slot = gates.of(bucket).map_or(0, |address| slot(&address.tag));
    let ends = (1..=primaries).map(|n| n * usize::from(SLOTS) / primaries);
    ends.take_while(|end| usize::from(slot) >= *end).count()
}

/// The buckets that it strikes.
fn struck(run: &Run) -> BTreeSet<BucketId> {
    let primaries = run.fault.primaries(run.scale.primaries);
    let all = run.gates.iter().map(|(bucket, _)| bucket);
    all.filter(|bucket| {
        primaries.contains(&primary_of(&run.gates, *bucket, run.scale.primaries))
            || (run.fault == Fault::Migration && bucket.0 == 0)
    })
    .collect()
}

/// The buckets that were closed after it broke, and how long after they could
/// be opened they were open for good.
fn closed(run: &Run) -> BTreeMap<BucketId, Option<Duration>> {
    let mut closed = BTreeMap::new();
    for (bucket, changes) in &run.seen.buckets {
        let mut later = changes.iter().filter(|(at, _)| *at >= run.struck);
        if !later.clone().any(|(_, open)| !open) {
            continue;
        }
        let primary = primary_of(&run.gates, *bucket, run.scale.primaries);
        let successor = run.seen.promoted.get(&(primary + run.scale.primaries));
        let from = run.mended.or(successor.copied()).unwrap_or(run.struck);
        let open = later.next_back().filter(|(_, open)| *open);
        closed.insert(
            *bucket,
            open.map(|(at, _)| at.saturating_duration_since(from)),
        );
    }
    closed
}

fn p99(run: &Run, of: impl Fn(BucketId) -> bool) -> Option<Duration> {
    let rush = run.opens_at..run.opens_at + RUSH;
    let mut took: Vec<_> = run
        .outcome
        .claim_calls
        .iter()
        .filter(|call| rush.contains(&call.sent))
        .filter(|call| {
            let shopper: Option<ShopperId> = format!("shopper-{}", call.shopper).parse().ok();
            shopper.is_some_and(|shopper| of(home(&shopper, run.scale.buckets)))
        })
        .map(|call| call.took)
        .collect();
    took.sort_unstable();
    let rank = (took.len() * 99).div_ceil(100);
    took.get(rank.checked_sub(1)?).copied()
}

impl Row {
    /// Whether every promise that is judged holds.
    pub fn holds(&self) -> bool {
        let lost = self.yes_void == 0 || self.fault.promotes();
        self.broken.is_empty() && self.still_closed == 0 && lost
    }

    /// The head of the table, in Markdown.
    pub fn head() -> String {
        let names = [
            "what breaks 1 s after the opening",
            "paid",
            "oversold",
            "stranded",
            "201",
            "lost",
            "second",
            "202",
            "taken back",
            "captured",
            "returned",
            "buckets frozen",
            "promoted after",
            "open again after",
            "claims p99, there",
            "claims p99, elsewhere",
            "on offer again, p99",
            "all in all",
            "audit",
        ];
        let rule = vec!["---"; names.len()].join("|");
        format!("| {} |\n|{rule}|", names.join(" | "))
    }

    /// Its line of the table, in Markdown.
    pub fn line(&self) -> String {
        let seconds = |of: Option<Duration>| {
            of.map_or_else(String::new, |of| format!("{:.1} s", of.as_secs_f64()))
        };
        let ms = |of: Duration| format!("{} ms", of.as_millis());
        let cells = [
            self.fault.words().to_owned(),
            self.paid.to_string(),
            self.oversold.to_string(),
            self.stranded.to_string(),
            self.yes.to_string(),
            self.yes_void.to_string(),
            self.second.to_string(),
            self.confirming.to_string(),
            self.confirming_void.to_string(),
            self.captured.0.to_string(),
            self.captured.1.to_string(),
            self.frozen.to_string(),
            seconds(self.promoted),
            seconds(self.reopened),
            self.struck_p99.map_or_else(String::new, ms),
            ms(self.others_p99),
            format!("{} ms", self.offer_p99_ms),
            format!("{:.0} s", self.took_s),
            if self.holds() { "holds" } else { "BROKEN" }.to_owned(),
        ];
        format!("| {} |", cells.join(" | "))
    }
}
