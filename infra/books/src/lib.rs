//! The provider's list of a sale's payments against its ledger, from the merchant's
//! reports: for whoever closes the books of a sale and has no access to either side.
//!
//! The rules are those of the reconciler ([`reconcile::money`]). What is new here is
//! that no bucket is left out, and what everything comes to.

mod reports;
mod sums;

use std::collections::BTreeSet;

use anyhow::ensure;
use domain::SaleId;
use jiff::Timestamp;
use reconcile::money::{self, Difference};

pub use reports::{BucketReport, SaleReport, read_buckets};
pub use sums::Sums;

/// What the books of a sale come to.
#[derive(Debug)]
pub struct Closing {
    /// Which sale.
    pub sale: SaleId,
    /// Of all buckets.
    pub sums: Sums,
    /// What one side says and the other does not; empty, if the books agree.
    pub differences: Vec<Difference>,
}

/// Compares the books of a sale, as they are at `now`.
///
/// # Errors
/// The reports are not those of each bucket of this sale, once.
pub fn close(
    sale: &SaleReport,
    buckets: &[BucketReport],
    now: Timestamp,
) -> anyhow::Result<Closing> {
    let id = &sale.sale.sale_id;
    let expected: BTreeSet<u16> = sale.buckets.iter().map(|line| line.bucket).collect();
    let mut left = expected.clone();
    for report in buckets {
        let (own, bucket) = (&report.sale_id, report.bucket);
        ensure!(own == id, "a report is of the sale {own}, not of {id}");
        ensure!(
            expected.contains(&bucket),
            "the sale has no bucket {bucket}"
        );
        ensure!(left.remove(&bucket), "bucket {bucket} is there twice");
    }
    ensure!(left.is_empty(), "these buckets are missing: {left:?}");
    let mut differences = Vec::new();
    for report in buckets {
        differences.extend(money::overdue(&report.refunds, now));
        differences.extend(money::compare(
            &report.orders,
            &report.refunds,
            &report.payments,
            now,
        ));
    }
    Ok(Closing {
        sale: id.clone(),
        sums: Sums::of(buckets),
        differences,
    })
}
