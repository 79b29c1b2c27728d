//! What a reconciliation came to: kept in the sale's partition, so that the
//! merchant reads what was found and done, also of the runs before.

use std::fmt;

use domain::order::millis;
use domain::{BucketId, SaleId};
use jiff::Timestamp;
use ledger::{Error, Ledger, Transaction, key};
use serde::{Deserialize, Serialize};

/// Mismatches that a report lists; all are counted.
const LISTED_MAX: usize = 100;

/// Corrections that are remembered, the newest first.
const LOG_MAX: usize = 100;

/// How often a report is written anew that another reconciler came before.
const ATTEMPTS: u32 = 5;

/// What does not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The gate showed more units than the ledger has to spare.
    GateHigh,
    /// The gate shows fewer.
    GateLow,
    /// The gate has a deadline for an order that ended.
    HoldNotEnded,
    /// A hold whose time is over has no order, and nobody buried it.
    ClaimNotBuried,
    /// The gate took units for a claim that is neither due nor in the ledger.
    ClaimLost,
    /// A shopper is marked for a claim that is nowhere.
    MarkLost,
    /// Units are taken for one key in two buckets.
    ClaimTwice,
    /// A bucket's capacity is not what it allotted and has to spare.
    SpareWrong,
    /// A bucket's live and paid orders are not what it allotted.
    AllottedWrong,
    /// The buckets' capacities are not the sale's units.
    CapacityWrong,
    /// One key has orders in two buckets.
    OrderTwice,
    /// A live order is past its deadline.
    OrderOverdue,
    /// A customer's row does not count what the customer holds and has bought.
    CustomerWrong,
    /// A customer holds and has bought more than one may.
    CustomerOver,
    /// A customer's row does not know a claim that became an order.
    CustomerLacksClaim,
    /// A paid order has no capture at the provider.
    PaidWithoutCapture,
    /// What pays an order is not its amount, or was captured for another order.
    CaptureWrong,
    /// A capture belongs to no paid order and is not to go back.
    CaptureUnaccounted,
    /// An order is paid, and another capture for it is not to go back.
    CapturedTwice,
    /// A refund was noted as made that the provider did not make, or not all of.
    RefundMissing,
    /// More went back than was captured, or goes back in two refunds.
    RefundedTwice,
    /// A refund was made that nobody noted, or of what pays an order, or another
    /// amount was noted than was captured.
    RefundWrong,
    /// A refund is owed for too long.
    RefundOverdue,
}

impl fmt::Display for Kind {
    /// Its name, as reports have it: `gate_high`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What was done about a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// It was put right.
    Corrected,
    /// Seen for the first time: corrected if it is seen again.
    Noted,
    /// It mends itself: whoever does it is named in the docs.
    Awaited,
    /// Nobody may mend it by itself.
    NeedsPerson,
}

impl fmt::Display for Done {
    /// Its name, as reports have it: `needs_person`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Something that does not agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mismatch {
    /// What.
    pub kind: Kind,
    /// In which bucket; none: in all together.
    pub bucket: Option<BucketId>,
    /// Which claim or intent it is about; never a shopper.
    pub about: Option<String>,
    /// What it should be.
    pub expected: i64,
    /// What it is.
    pub found: i64,
    /// What was done about it.
    pub done: Done,
}

impl Mismatch {
    /// Of something that is there or is not.
    pub fn of(kind: Kind, bucket: BucketId, about: impl ToString, done: Done) -> Self {
        Self {
            kind,
            bucket: Some(bucket),
            about: Some(about.to_string()),
            expected: 0,
            found: 1,
            done,
        }
    }
}

/// Units of a sale, all buckets together: by gates, by rows, by orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Units that the merchant put on sale.
    pub units: u64,
    /// Of the buckets' rows: that there are.
    pub capacity: u64,
    /// Of the buckets' rows: given to orders.
    pub allotted: u64,
    /// Of the buckets' rows: to be given.
    pub spare: u64,
    /// At the gates: can be claimed.
    pub free: u64,
    /// At the gates: taken, and no order yet.
    pub in_flight: u64,
    /// At the gates: still held for orders that ended.
    pub returning: u64,
    /// In orders that wait for payment.
    pub held: u64,
    /// In orders that are being paid.
    pub paying: u64,
    /// In paid orders.
    pub paid: u64,
    /// In orders that ended unpaid: not units.
    pub expired: u64,
    /// In orders that were given back: not units.
    pub cancelled: u64,
    /// In claims that were taken back: not units.
    pub voided: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.units += other.units;
        self.capacity += other.capacity;
        self.allotted += other.allotted;
        self.spare += other.spare;
        self.free += other.free;
        self.in_flight += other.in_flight;
        self.returning += other.returning;
        self.held += other.held;
        self.paying += other.paying;
        self.paid += other.paid;
        self.expired += other.expired;
        self.cancelled += other.cancelled;
        self.voided += other.voided;
    }
}

/// One reconciliation of a sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When it ended.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// The sale is over and settled: this is the end of it.
    pub closed: bool,
    /// Everything could be read.
    pub complete: bool,
    /// Buckets whose gate could be compared.
    pub compared: u16,
    /// Where the units are.
    pub counts: Counts,
    /// Everything that does not agree, the first of it in `mismatches`.
    pub found: u64,
    /// What does not agree.
    pub mismatches: Vec<Mismatch>,
}

impl Report {
    /// How many mismatches need a person.
    pub fn needs_person(&self) -> usize {
        let all = self.mismatches.iter();
        all.filter(|one| one.done == Done::NeedsPerson).count()
    }
}

/// Something that was put right, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corrected {
    /// When.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub mismatch: Mismatch,
}

/// What is kept of a sale's reconciliations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Raised by every write.
    version: u64,
    /// The newest one.
    pub newest: Report,
    /// What was put right so far, the newest first.
    pub log: Vec<Corrected>,
}

impl Kept {
    /// What is kept of a sale; none before its first reconciliation.
    ///
    /// # Errors
    /// No answer.
    pub async fn of(ledger: &Ledger, sale: &SaleId) -> Result<Option<Self>, Error> {
        ledger.table().get(&key::reconciliation(sale)).await
    }

    /// Keeps a report. One that is older than the kept one adds to the log
    /// only.
    ///
    /// # Errors
    /// No answer, or others kept coming between.
    pub async fn save(ledger: &Ledger, sale: &SaleId, report: &Report) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let before = Self::of(ledger, sale).await?;
            let mut writes = Transaction::new();
            let part = writes.put(
                &key::reconciliation(sale),
                &Self::next(before.as_ref(), report),
            )?;
            match &before {
                None => part.only_new(),
                Some(kept) => part
                    .only_if("version = :read")
                    .number(":read", kept.version),
            };
            match ledger.table().write_or_conflict(&writes).await {
                Err(Error::Conflict) => {}
                written => return written,
            }
        }
        Err(Error::Conflict)
    }

    fn next(before: Option<&Self>, report: &Report) -> Self {
        let corrected = report
            .mismatches
            .iter()
            .filter(|one| one.done == Done::Corrected);
        let corrected = corrected.map(|mismatch| Corrected {
            at: report.at,
            mismatch: mismatch.clone(),
        });
        let mut log: Vec<_> = corrected.collect();
        log.extend(before.iter().flat_map(|kept| kept.log.iter().cloned()));
        log.truncate(LOG_MAX);
        let mut newest = match before {
            Some(kept) if kept.newest.at > report.at => kept.newest.clone(),
            _ => report.clone(),
        };
        // What needs a person is listed before what does not.
        newest
            .mismatches
            .sort_by_key(|one| one.done != Done::NeedsPerson);
        newest.mismatches.truncate(LISTED_MAX);
        Self {
            version: before.map_or(0, |kept| kept.version) + 1,
            newest,
            log,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mismatch(n: u64, done: Done) -> Mismatch {
        Mismatch::of(Kind::ClaimLost, BucketId(0), n, done)
    }

    fn report(at_s: i64, mismatches: Vec<Mismatch>) -> Report {
        Report {
            at: Timestamp::from_second(at_s).unwrap(),
            closed: false,
            complete: true,
            compared: 1,
            counts: Counts::default(),
            found: mismatches.len() as u64,
            mismatches,
        }
    }

    /// The runbook names what to do by these, and searches logs for them.
    #[test]
    fn logs_and_reports_have_the_same_names() {
        for (kind, name) in [
            (Kind::GateHigh, "gate_high"),
            (Kind::CustomerWrong, "customer_wrong"),
            (Kind::PaidWithoutCapture, "paid_without_capture"),
        ] {
            let one = mismatch(1, Done::NeedsPerson);
            let one = serde_json::to_value(Mismatch { kind, ..one }).unwrap();
            assert_eq!(one["kind"], name);
            assert_eq!(kind.to_string(), name);
            assert_eq!(one["done"], Done::NeedsPerson.to_string());
        }
    }

    #[test]
    fn a_row_stays_small_and_keeps_what_needs_a_person() {
        let mut many: Vec<_> = (0..5_000).map(|n| mismatch(n, Done::Corrected)).collect();
        many.push(mismatch(5_000, Done::NeedsPerson));
        let kept = Kept::next(None, &report(1, many));
        assert_eq!(kept.newest.found, 5_001);
        assert_eq!(kept.newest.mismatches.len(), LISTED_MAX);
        assert_eq!(kept.newest.needs_person(), 1);
        assert_eq!(kept.log.len(), LOG_MAX);
        let kept = Kept::next(Some(&kept), &report(2, vec![mismatch(7, Done::Corrected)]));
        assert_eq!(kept.log.len(), LOG_MAX);
        assert_eq!(kept.log[0].mismatch, mismatch(7, Done::Corrected));
        assert_eq!(kept.version, 2);
        let bytes = serde_json::to_string(&kept.log[0]).unwrap().len() * 2 * LOG_MAX;
        assert!(bytes < 100_000, "{bytes}");
    }

    #[test]
    fn an_older_run_does_not_replace_a_newer_one() {
        let newer = Kept::next(None, &report(10, vec![]));
        let older = report(5, vec![mismatch(1, Done::Corrected)]);
        let kept = Kept::next(Some(&newer), &older);
        assert_eq!(kept.newest, newer.newest);
        assert_eq!(kept.log.len(), 1);
    }
}
