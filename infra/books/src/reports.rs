//! The merchant's reports, as far as they tell of money.

use std::io::Read;

use anyhow::Context;
use domain::SaleId;
use reconcile::money::{CaptureLine, OrderLine, RefundLine};
use serde::Deserialize;
use serde_json::Deserializer;

/// `GET …/report`.
#[derive(Debug, Clone, Deserialize)]
pub struct SaleReport {
    /// The sale itself.
    pub sale: Named,
    /// Each of its buckets.
    pub buckets: Vec<Numbered>,
}

/// A sale, by its name.
#[derive(Debug, Clone, Deserialize)]
pub struct Named {
    /// Its name.
    pub sale_id: SaleId,
}

/// A bucket, by its number.
#[derive(Debug, Clone, Deserialize)]
pub struct Numbered {
    /// Its number, from 0.
    pub bucket: u16,
}

/// `GET …/report?bucket=`.
#[derive(Debug, Clone, Deserialize)]
pub struct BucketReport {
    /// Of which sale.
    pub sale_id: SaleId,
    /// Its number.
    pub bucket: u16,
    /// Every order, by the ledger.
    pub orders: Vec<OrderLine>,
    /// Every capture, by the provider.
    pub payments: Vec<CaptureLine>,
    /// Every refund, by the ledger.
    pub refunds: Vec<RefundLine>,
}

/// Bucket reports, one after the other.
///
/// # Errors
/// One of them is none; the error says the how manieth.
pub fn read_buckets(from: impl Read) -> anyhow::Result<Vec<BucketReport>> {
    let reports = Deserializer::from_reader(from).into_iter();
    let reports = reports.enumerate();
    reports
        .map(|(n, report)| report.with_context(|| format!("report number {}", n + 1)))
        .collect()
}
