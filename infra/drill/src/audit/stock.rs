//! P1 and P3: never more than there is, never more than one customer may.

use std::collections::BTreeMap;

use domain::order::OrderStatus;

use super::{Check, Ledger, Told};
use crate::wire::BucketReport;

/// Units of a bucket's orders by state, counted anew.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Recount {
    held: i64,
    paying: i64,
    paid: i64,
}

impl Recount {
    fn of(bucket: &BucketReport) -> Self {
        let mut count = Self::default();
        for order in &bucket.orders {
            let units = i64::from(order.quantity);
            match order.status {
                OrderStatus::PendingPayment => count.held += units,
                OrderStatus::Paying => count.paying += units,
                OrderStatus::Paid => count.paid += units,
                OrderStatus::Expired | OrderStatus::Cancelled | OrderStatus::Voided => {}
            }
        }
        count
    }

    fn live(self) -> i64 {
        self.held + self.paying + self.paid
    }
}

/// P1: no bucket allots more than it has, and buckets have what is on sale.
pub(super) fn not_oversold(ledger: &Ledger, told: &Told) -> Check {
    let mut offences = Vec::new();
    let units = i64::from(told.units);
    let counts: BTreeMap<u16, Recount> = ledger
        .buckets
        .iter()
        .map(|bucket| (bucket.bucket, Recount::of(bucket)))
        .collect();
    let mut capacities = 0;
    for bucket in &ledger.summary.buckets {
        let n = bucket.bucket;
        let live = counts.get(&n).copied().unwrap_or_default().live();
        capacities += bucket.capacity;
        if !(0..=bucket.capacity).contains(&bucket.allotted) {
            offences.push(format!(
                "oversold: bucket {n} allotted {} of {}",
                bucket.allotted, bucket.capacity
            ));
        }
        if live > bucket.capacity {
            offences.push(format!(
                "oversold: bucket {n} has live and paid orders for {live} of {} units",
                bucket.capacity
            ));
        }
        if live != bucket.allotted {
            offences.push(format!(
                "bucket {n} says {} are allotted, its orders say {live}",
                bucket.allotted
            ));
        }
    }
    if capacities != units {
        offences.push(format!(
            "the buckets' capacities are {capacities}, on sale are {units}"
        ));
    }
    let live: i64 = counts.values().map(|count| count.live()).sum();
    let paid: i64 = counts.values().map(|count| count.paid).sum();
    if live > units {
        offences.push(format!("oversold: {live} live and paid of {units} units"));
    }
    Check::new(
        "P1",
        "never oversold",
        format!("{live} live and paid, {paid} paid, {units} on sale"),
        offences,
    )
}

/// Every unit is somewhere: `units = free + held + paying + paid + in flight`.
pub(super) fn conserved(ledger: &Ledger, told: &Told) -> Check {
    let mut offences = Vec::new();
    let sale = &ledger.summary;
    let units = i64::from(told.units);
    let sum = sale.free + sale.held + sale.paying + sale.paid + sale.in_flight();
    let says = format!(
        "{} free + {} held + {} paying + {} paid + {} in flight = {sum} of {units}",
        sale.free,
        sale.held,
        sale.paying,
        sale.paid,
        sale.in_flight()
    );
    if sale.units != units {
        offences.push(format!("the report speaks of {} units", sale.units));
    }
    if sum != units {
        offences.push(format!("the sale: {says}"));
    }
    for bucket in &sale.buckets {
        let n = bucket.bucket;
        let sum = bucket.free + bucket.held + bucket.paying + bucket.paid + bucket.in_flight;
        if sum != bucket.capacity {
            offences.push(format!(
                "bucket {n}: {} free + {} held + {} paying + {} paid + {} in flight = {sum} of {}",
                bucket.free,
                bucket.held,
                bucket.paying,
                bucket.paid,
                bucket.in_flight,
                bucket.capacity
            ));
        }
        let said = Recount {
            held: bucket.held,
            paying: bucket.paying,
            paid: bucket.paid,
        };
        let counted = ledger.buckets.iter().find(|report| report.bucket == n);
        let counted = counted.map(Recount::of).unwrap_or_default();
        if said != counted {
            offences.push(format!(
                "bucket {n} says {said:?}, its orders say {counted:?}"
            ));
        }
    }
    Check::new("P1", "every unit is somewhere", says, offences)
}

/// P3: no shopper has more live and paid units than allowed.
pub(super) fn within_limit(ledger: &Ledger, told: &Told) -> Check {
    let mut units: BTreeMap<&str, u32> = BTreeMap::new();
    for order in ledger.orders().filter(|order| order.status.holds_units()) {
        *units.entry(&order.shopper).or_default() += order.quantity;
    }
    let most = units.values().max().copied().unwrap_or_default();
    let offences = units
        .iter()
        .filter(|(_, units)| **units > told.limit)
        .map(|(shopper, units)| format!("{shopper} has {units}"))
        .collect();
    Check::new(
        "P3",
        "nobody has more than the limit",
        format!(
            "{} customers, the most has {most} of {}",
            units.len(),
            told.limit
        ),
        offences,
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{breaks, good};
    use domain::order::OrderStatus;

    #[test]
    fn more_allotted_than_there_is_breaks_it() {
        breaks("never oversold", |ledger, _| {
            ledger.summary.buckets[0].allotted = 5;
        });
        breaks("never oversold", |ledger, _| {
            ledger.summary.buckets[0].allotted = -1;
        });
    }

    #[test]
    fn an_order_that_the_bucket_does_not_count_breaks_it() {
        breaks("never oversold", |ledger, _| {
            ledger.summary.buckets[0].allotted = 0;
        });
    }

    #[test]
    fn capacity_out_of_nothing_breaks_it() {
        breaks("never oversold", |ledger, _| {
            ledger.summary.buckets[1].capacity += 1;
            ledger.summary.buckets[1].free += 1;
        });
    }

    #[test]
    fn a_lost_unit_breaks_conservation() {
        breaks("every unit is somewhere", |ledger, _| {
            ledger.summary.free -= 1;
            ledger.summary.buckets[1].free -= 1;
        });
    }

    #[test]
    fn buckets_that_only_add_up_together_break_conservation() {
        breaks("every unit is somewhere", |ledger, _| {
            ledger.summary.buckets[0].free += 1;
            ledger.summary.buckets[1].free -= 1;
        });
    }

    #[test]
    fn two_units_of_one_customer_break_the_limit() {
        breaks("nobody has more than the limit", |ledger, _| {
            let shopper = ledger.buckets[0].orders[0].shopper.clone();
            ledger.buckets[1].orders[0].shopper = shopper;
        });
    }

    #[test]
    fn a_lapsed_unit_does_not_count_against_the_limit() {
        let (mut ledger, told) = good();
        let shopper = ledger.buckets[0].orders[0].shopper.clone();
        for order in &mut ledger.buckets[1].orders {
            if order.status == OrderStatus::Expired {
                order.shopper = shopper.clone();
            }
        }
        assert!(super::within_limit(&ledger, &told).ok);
    }
}
