//! What a sweep came to, as metrics.

use std::collections::BTreeMap;

use domain::SaleId;
use jiff::Timestamp;
use runtime::{Metric, metrics};

use crate::Watched;
use crate::compare::Found;

/// What became of one bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Swept {
    /// Its deadlines were swept.
    pub(crate) whole: bool,
    /// What its comparison found, if it could be compared.
    pub(crate) found: Option<Found>,
}

/// One sweep with comparison, told sale by sale.
pub(crate) fn swept(buckets: Vec<(Watched, Swept)>) {
    let mut sales = BTreeMap::<SaleId, Vec<Swept>>::new();
    for (bucket, swept) in buckets {
        sales.entry(bucket.sale).or_default().push(swept);
    }
    for (sale, buckets) in &sales {
        tell(sale, buckets);
    }
}

fn tell(sale: &SaleId, buckets: &[Swept]) {
    let whole = buckets.iter().all(|bucket| bucket.whole);
    let mut all = Found::default();
    for bucket in buckets {
        all += bucket.found.unwrap_or_default();
    }
    let mut line = metrics::of(sale)
        .value(Metric::SweeperLook, f64::from(u8::from(whole)))
        .value(Metric::ControllerLook, 0.0)
        .value(Metric::GateMismatch, f64::from(all.corrected))
        .value(Metric::FrozenBuckets, f64::from(all.frozen))
        .value(Metric::OverdueHolds, all.overdue as f64)
        .value(Metric::RefundsPending, all.refunds as f64)
        .value(Metric::GateGap, all.gap as f64);
    // Half a sum would look like units that are lost.
    if buckets.iter().all(|bucket| bucket.found.is_some()) {
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
