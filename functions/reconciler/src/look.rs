//! One look at a whole sale.

use domain::slot::Gates;
use domain::{Sale, ShopperId};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use ledger::Error;
use reconcile::report::{Counts, Done, Kind, Mismatch, Report};

use crate::ReconcilerFunction;
use crate::books::Books;

/// Buckets, or batches of customers, read at the same time.
const CONCURRENCY: usize = 16;

/// Customers of one read.
const CUSTOMERS: usize = 100;

/// No change of units lasts longer: the admin function's time-out.
const RESIZE_MAX: SignedDuration = SignedDuration::from_secs(30);

impl ReconcilerFunction {
    /// Reads everything once, corrects what may be, and says what does not
    /// agree.
    pub(crate) async fn look(
        &self,
        sale: &Sale,
        gates: &Gates,
        closed: bool,
    ) -> Result<Report, Error> {
        let now = self.clock.now();
        let begun = sale.resized_at.filter(|_| sale.resizing.is_some());
        let resizing = begun.is_some_and(|at| now - at < RESIZE_MAX);
        let addresses: Vec<_> = gates
            .iter()
            .map(|(bucket, address)| (bucket, address.clone()))
            .collect();
        let mut buckets: Vec<_> =
            stream::iter(addresses)
                .map(|(bucket, address)| async move {
                    self.bucket(sale, bucket, &address, resizing).await
                })
                .buffer_unordered(CONCURRENCY)
                .try_collect()
                .await?;
        buckets.sort_by_key(|of| of.bucket);

        let mut books = Books::default();
        let mut counts = Counts {
            units: sale.config.units.into(),
            ..Counts::default()
        };
        let mut mismatches = Vec::new();
        let (mut compared, mut complete) = (0u16, true);
        for of in buckets {
            counts += of.counts;
            compared += u16::from(of.compared);
            // Of a sale that is over the counters are of no use any more.
            complete &= of.complete && (of.compared || (closed && of.answered));
            mismatches.extend(of.mismatches);
            books.add(of.bucket, of.orders, of.holds);
        }
        if counts.capacity != counts.units && !resizing {
            mismatches.push(Mismatch {
                kind: Kind::CapacityWrong,
                bucket: None,
                about: None,
                expected: counts.units as i64,
                found: counts.capacity as i64,
                done: Done::NeedsPerson,
            });
        }
        let all_gates = usize::from(compared) == gates.addresses.len();
        mismatches.extend(books.claims(all_gates, sale.pay_by_min, now));

        let shoppers: Vec<ShopperId> = books.shoppers().cloned().collect();
        let chunks: Vec<_> = shoppers.chunks(CUSTOMERS).map(<[_]>::to_vec).collect();
        let rows: Vec<_> = stream::iter(chunks)
            .map(|some| async move { self.ledger.customers(&sale.id, &some).await })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let rows = rows.into_iter().flatten().collect();
        mismatches.extend(books.customers(&rows, sale.config.limit_per_customer));
        Ok(Report {
            at: self.clock.now(),
            closed,
            complete,
            compared,
            counts,
            found: mismatches.len() as u64,
            mismatches,
        })
    }
}

/// Whether there is something that a second look has to confirm.
pub(crate) fn is_in_doubt(report: &Report) -> bool {
    let mut all = report.mismatches.iter();
    all.any(|one| one.done != Done::Corrected)
}

/// The second of two looks, with what the first one corrected too: whatever
/// else does not agree must have done so both times, and by as much.
pub(crate) fn seen_twice(first: Report, mut second: Report) -> Report {
    let same = |a: &Mismatch, b: &Mismatch| {
        let by = |one: &Mismatch| one.found - one.expected;
        (a.kind, a.bucket, &a.about, by(a)) == (b.kind, b.bucket, &b.about, by(b))
    };
    second.mismatches.retain(|one| {
        one.done == Done::Corrected || first.mismatches.iter().any(|before| same(before, one))
    });
    let corrected = first.mismatches.into_iter();
    second
        .mismatches
        .extend(corrected.filter(|one| one.done == Done::Corrected));
    second.found = second.mismatches.len() as u64;
    second
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::BucketId;
    use jiff::Timestamp;

    fn report(mismatches: Vec<Mismatch>) -> Report {
        Report {
            at: Timestamp::UNIX_EPOCH,
            closed: false,
            complete: true,
            compared: 1,
            counts: Counts::default(),
            found: mismatches.len() as u64,
            mismatches,
        }
    }

    fn wrong(expected: i64, found: i64) -> Mismatch {
        Mismatch {
            kind: Kind::AllottedWrong,
            bucket: Some(BucketId(0)),
            about: None,
            expected,
            found,
            done: Done::NeedsPerson,
        }
    }

    #[test]
    fn only_what_is_found_twice_counts() {
        // A bucket that moved while it was read, one that is wrong and moves.
        let moved = seen_twice(report(vec![wrong(5, 6)]), report(vec![]));
        assert!(moved.mismatches.is_empty());
        let other = seen_twice(report(vec![wrong(5, 6)]), report(vec![wrong(8, 6)]));
        assert!(other.mismatches.is_empty());
        let still = seen_twice(report(vec![wrong(5, 6)]), report(vec![wrong(7, 8)]));
        assert_eq!(still.mismatches, [wrong(7, 8)]);
        assert_eq!(still.found, 1);
    }

    #[test]
    fn what_was_corrected_is_told_once_by_whichever_look() {
        let corrected =
            |bucket| Mismatch::of(Kind::HoldNotEnded, BucketId(bucket), "c", Done::Corrected);
        assert!(!is_in_doubt(&report(vec![corrected(0)])));
        let first = report(vec![corrected(0), wrong(1, 2)]);
        assert!(is_in_doubt(&first));
        let both = seen_twice(first, report(vec![corrected(1)]));
        assert_eq!(both.mismatches, [corrected(1), corrected(0)]);
    }
}
