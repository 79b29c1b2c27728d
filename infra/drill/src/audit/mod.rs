//! Promises, checked on the ledger's report and on what shoppers were told.
//!
//! A pure function: every check has a test with a good report and one with a
//! report that breaks it and nothing else.

mod draw;
mod money;
mod speed;
mod stock;
mod told;
mod waiting;

#[cfg(test)]
mod fixture;

use std::collections::{BTreeMap, BTreeSet};

use domain::{ClaimId, Money, OrderId};
use serde::Serialize;

use crate::wire::{BucketReport, OrderLine, Summary};

/// The ledger's whole report.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// On the sale.
    pub summary: Summary,
    /// On each bucket.
    pub buckets: Vec<BucketReport>,
}

impl Ledger {
    /// Every order of every bucket.
    pub fn orders(&self) -> impl Iterator<Item = &OrderLine> {
        self.buckets.iter().flat_map(|bucket| &bucket.orders)
    }
}

/// What a claim was answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// 202: queued, the ledger decides.
    Confirming,
    /// 201: held.
    Yes,
}

/// What shoppers were told, and what they still wanted.
#[derive(Debug, Clone)]
pub struct Told {
    /// Units that one customer may hold and buy.
    pub limit: u32,
    /// On sale.
    pub units: u32,
    /// Of one unit.
    pub price: Money,
    /// Every claim that was answered with one, and the most that was said.
    pub claims: BTreeMap<ClaimId, Promise>,
    /// Orders that were shown as paid.
    pub paid: BTreeSet<OrderId>,
    /// Claims whose giving back was confirmed.
    pub given_back: BTreeSet<ClaimId>,
    /// Answers that contradict each other.
    pub contradictions: Vec<String>,
    /// Every ticket of a draw that was given out; from 1.0 on: behind it.
    pub tickets: Vec<f64>,
    /// The tickets of those who were answered with a yes.
    pub served: Vec<f64>,
    /// How long each claim waited for its answer, in milliseconds.
    pub answered_ms: Vec<i64>,
    /// Shoppers with a place in line.
    pub entrants: u64,
    /// Of those, how many would have taken one more unit at the end.
    pub wanting: u64,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            limit: 1,
            units: 0,
            price: crate::config::Crowd::default().price(),
            claims: BTreeMap::new(),
            paid: BTreeSet::new(),
            given_back: BTreeSet::new(),
            contradictions: Vec::new(),
            tickets: Vec::new(),
            served: Vec::new(),
            answered_ms: Vec::new(),
            entrants: 0,
            wanting: 0,
        }
    }
}

impl Told {
    /// A claim was answered; a yes is not taken back by a later "confirming".
    pub fn promised(&mut self, claim: ClaimId, promise: Promise) {
        let most = self.claims.entry(claim).or_insert(promise);
        *most = (*most).max(promise);
    }
}

/// Offences that a check shows; it counts all of them.
const SHOWN_MAX: usize = 10;

/// One promise, checked.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Of the list of promises: `P1` ….
    pub promise: &'static str,
    /// What was checked, in words.
    pub name: &'static str,
    /// It holds.
    pub ok: bool,
    /// The figures it rests on.
    pub says: String,
    /// How often it is broken.
    pub offences: usize,
    /// The first of them, in words.
    pub shown: Vec<String>,
}

impl Check {
    fn new(
        promise: &'static str,
        name: &'static str,
        says: String,
        mut offences: Vec<String>,
    ) -> Self {
        let count = offences.len();
        offences.truncate(SHOWN_MAX);
        Self {
            promise,
            name,
            ok: count == 0,
            says,
            offences: count,
            shown: offences,
        }
    }
}

/// How late something was, in milliseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Lag {
    /// How many were measured.
    pub count: usize,
    /// Half of them were sooner.
    pub p50_ms: i64,
    /// All but one in a hundred were sooner.
    pub p99_ms: i64,
    /// The latest.
    pub max_ms: i64,
}

impl Lag {
    fn of(mut lags_ms: Vec<i64>) -> Self {
        lags_ms.sort_unstable();
        let at = |percent: usize| {
            // The smallest value that so many percent do not exceed.
            let rank = (lags_ms.len() * percent).div_ceil(100).max(1);
            lags_ms.get(rank - 1).copied().unwrap_or_default()
        };
        Self {
            count: lags_ms.len(),
            p50_ms: at(50),
            p99_ms: at(99),
            max_ms: at(100),
        }
    }
}

/// What the audit found.
#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    /// Every check, in the order of the promises.
    pub checks: Vec<Check>,
    /// Figures of a deployed system, which break nothing.
    pub figures: Vec<Check>,
    /// From a claim's sending until the last byte of its answer.
    pub answer: Lag,
    /// From a hold's deadline until its unit was back.
    pub release: Lag,
    /// From a hold's deadline until its unit was on offer again.
    pub offer: Lag,
}

impl Audit {
    /// Whether every promise holds.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    /// The checks that failed.
    pub fn broken(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.ok)
    }

    /// The figures that were not reached.
    pub fn missed(&self) -> impl Iterator<Item = &Check> {
        self.figures.iter().filter(|figure| !figure.ok)
    }
}

/// Checks every promise that a report can break.
pub fn audit(ledger: &Ledger, told: &Told) -> Audit {
    let (prompt, release, offer) = waiting::prompt(ledger, told);
    let (answered, answer) = speed::answered(told);
    Audit {
        checks: vec![
            stock::not_oversold(ledger, told),
            stock::conserved(ledger, told),
            prompt,
            waiting::not_stranded(ledger, told),
            stock::within_limit(ledger, told),
            draw::fair(ledger, told),
            told::kept(ledger, told),
            told::consistent(told),
            money::captures(ledger, told),
            money::refunds_once(ledger),
        ],
        figures: vec![answered],
        answer,
        release,
        offer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_report_passes() {
        let (ledger, told) = fixture::good();
        let audit = audit(&ledger, &told);
        assert!(audit.passed(), "{:#?}", audit.broken().collect::<Vec<_>>());
        assert_eq!(audit.missed().count(), 0, "{:#?}", audit.figures);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let lag = Lag::of((1..=200).rev().collect());
        assert_eq!((lag.p50_ms, lag.p99_ms, lag.max_ms), (100, 198, 200));
        assert_eq!(Lag::of(vec![7]).p99_ms, 7);
        assert_eq!(Lag::of(vec![]).max_ms, 0);
    }
}
