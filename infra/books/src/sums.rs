//! What the books come to, in each currency.

use std::collections::BTreeMap;
use std::fmt;

use domain::{Currency, Money, OrderStatus};

use crate::BucketReport;

/// Captures, what went back of them, and what paid orders cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Captured at the provider.
    pub captured: Sum,
    /// Gone back, by the provider.
    pub returned: Sum,
    /// Paid orders, by the ledger.
    pub paid: Sum,
}

/// How many, and how much in each currency: a sum can be beyond what one payment is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// In minor units.
    pub amounts: BTreeMap<Currency, u128>,
}

impl Sums {
    /// Of these buckets together.
    pub fn of(buckets: &[BucketReport]) -> Self {
        let mut sums = Self::default();
        for report in buckets {
            for capture in &report.payments {
                sums.captured.add(capture.money);
                sums.returned.add(Money {
                    amount: capture.refund_amount,
                    ..capture.money
                });
            }
            let paid = report.orders.iter();
            let paid = paid.filter(|order| order.status == OrderStatus::Paid);
            paid.for_each(|order| sums.paid.add(order.money));
        }
        sums
    }
}

impl Sum {
    /// Counts an amount; nothing is none.
    fn add(&mut self, money: Money) {
        if money.amount > 0 {
            self.count += 1;
            *self.amounts.entry(money.currency).or_default() += u128::from(money.amount);
        }
    }
}

impl fmt::Display for Sum {
    /// `3: INR 29997.00 and JPY 10000`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("none");
        }
        let amounts = self.amounts.iter();
        let amounts: Vec<_> = amounts.map(|(of, amount)| of.shown(*amount)).collect();
        write!(f, "{}: {}", self.count, amounts.join(" and "))
    }
}
