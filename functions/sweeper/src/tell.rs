//! What a sweep came to, as metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::SaleId;
use jiff::Timestamp;
use runtime::{Metric, Seldom, metrics};

use crate::Watched;
use crate::compare::Found;

/// A sale is told of this often while its deadlines are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// One sweep of all buckets, and whether each was reached.
pub(crate) fn swept(told: &Seldom<SaleId>, buckets: Vec<(SaleId, bool)>, now: Instant) {
    let mut sales = BTreeMap::<SaleId, bool>::new();
    for (sale, reached) in buckets {
        *sales.entry(sale).or_insert(true) &= reached;
    }
    for (sale, whole) in sales {
        if told.is_due(&sale, now) {
            metrics::of(&sale)
                .value(Metric::SweeperLook, f64::from(u8::from(whole)))
                .value(Metric::ControllerLook, 0.0)
                .write();
        }
    }
}

/// One comparison of all buckets, told sale by sale.
pub(crate) fn compared(buckets: Vec<(Watched, Option<Found>)>) {
    let mut sales = BTreeMap::<SaleId, Vec<Option<Found>>>::new();
    for (bucket, found) in buckets {
        sales.entry(bucket.sale).or_default().push(found);
    }
    for (sale, buckets) in &sales {
        tell(sale, buckets);
    }
}

fn tell(sale: &SaleId, buckets: &[Option<Found>]) {
    let whole = buckets.iter().all(Option::is_some);
    let mut all = Found::default();
    for found in buckets.iter().flatten() {
        all += *found;
    }
    let mut line = metrics::of(sale)
        .value(Metric::GateMismatch, f64::from(all.corrected))
        .value(Metric::FrozenBuckets, f64::from(all.frozen))
        .value(Metric::OverdueHolds, all.overdue as f64)
        .value(Metric::RefundsPending, all.refunds as f64)
        .value(Metric::GateGap, all.gap as f64);
    // Half a sum would look like units that are lost.
    if whole {
        line = line
            .value(Metric::UnitsHeld, f64::from(all.held))
            .value(Metric::UnitsPaying, f64::from(all.paying))
            .value(Metric::UnitsPaid, f64::from(all.paid));
    }
    line.write();
}

/// Holds that ended unpaid.
pub(crate) fn expired(sale: &SaleId, holds: usize) {
    metrics::of(sale)
        .value(Metric::HoldsExpired, holds as f64)
        .write();
}

/// Units that are free again, now, and when each should have been.
pub(crate) fn released(
    sale: &SaleId,
    deadlines: impl IntoIterator<Item = Timestamp>,
    now: Timestamp,
) {
    let deadlines = deadlines.into_iter();
    let lags = deadlines.map(|deadline| (now - deadline).as_millis() as f64);
    metrics::of(sale).values(Metric::ReleaseLag, lags).write();
}

/// A claim without an order that was voided.
pub(crate) fn voided(sale: &SaleId, reason: &'static str) {
    metrics::of(sale)
        .word("reason", reason)
        .value(Metric::ClaimsVoided, 1.0)
        .write();
}
