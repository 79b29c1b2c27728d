//! What a reconciliation came to, in the log and as metrics.

use domain::SaleId;
use reconcile::report::{Done, Kind, Report};
use runtime::{Metric, metrics};

/// Lines of one run.
const LINES_MAX: usize = 50;

/// A sale was reconciled.
pub(crate) fn reconciled(sale: &SaleId, report: &Report) {
    for one in report.mismatches.iter().take(LINES_MAX) {
        let bucket = one.bucket.map(|bucket| bucket.to_string());
        let (bucket, about) = (bucket.as_deref(), one.about.as_deref());
        match one.done {
            Done::NeedsPerson => {
                tracing::error!(%sale, bucket, about, kind = %one.kind, expected = one.expected,
                found = one.found, "the books of a sale do not agree");
            }
            _ => {
                tracing::warn!(%sale, bucket, about, kind = %one.kind, expected = one.expected,
                found = one.found, done = %one.done, "something did not agree");
            }
        }
    }
    let counter = |kind| matches!(kind, Kind::GateHigh | Kind::GateLow);
    let corrected = report.mismatches.iter();
    let corrected = corrected.filter(|one| counter(one.kind) && one.done == Done::Corrected);
    let corrected: Vec<f64> = corrected.map(|_| 1.0).collect();
    metrics::of(sale)
        .value(Metric::Reconciled, f64::from(u8::from(report.complete)))
        .value(Metric::Unreconciled, report.needs_person() as f64)
        .values(Metric::GateMismatch, corrected)
        .write();
    if report.closed {
        tracing::info!(%sale, complete = report.complete, found = report.found,
            paid = report.counts.paid, units = report.counts.units, "a sale was reconciled");
    }
}

/// A sale could not be read.
pub(crate) fn failed(sale: &SaleId) {
    metrics::of(sale).value(Metric::Reconciled, 0.0).write();
}
