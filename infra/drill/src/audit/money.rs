//! P7: every captured payment belongs to a paid order, or goes back once.

use std::collections::BTreeMap;

use domain::order::{OrderStatus, RefundStatus};
use domain::{IntentId, OrderId};

use super::{Check, Ledger, Told};
use crate::wire::{OrderLine, PaymentLine, PaymentStatus, RefundLine};

fn payments(ledger: &Ledger) -> impl Iterator<Item = &PaymentLine> {
    ledger.buckets.iter().flat_map(|bucket| &bucket.payments)
}

fn refunds(ledger: &Ledger) -> BTreeMap<&IntentId, Vec<&RefundLine>> {
    let mut by_intent: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for refund in ledger.buckets.iter().flat_map(|bucket| &bucket.refunds) {
        by_intent.entry(&refund.intent).or_default().push(refund);
    }
    by_intent
}

/// Captures that stay with us belong to a paid order, one each.
pub(super) fn captures(ledger: &Ledger, told: &Told) -> Check {
    let orders: BTreeMap<&OrderId, &OrderLine> = ledger
        .orders()
        .map(|order| (&order.order_id, order))
        .collect();
    let refunds = refunds(ledger);
    let mut offences = Vec::new();
    let mut kept: BTreeMap<&OrderId, u32> = BTreeMap::new();
    let (mut captured, mut returned) = (0, 0);
    for payment in payments(ledger).filter(|p| p.status == PaymentStatus::Succeeded) {
        captured += 1;
        if payment.refunded || refunds.contains_key(&payment.intent) {
            returned += 1;
            continue;
        }
        *kept.entry(&payment.order_id).or_default() += 1;
        let PaymentLine {
            intent,
            order_id,
            money,
            ..
        } = payment;
        match orders.get(order_id) {
            None => offences.push(format!("{intent} captured {money} for no order")),
            Some(order) if order.status != OrderStatus::Paid => offences.push(format!(
                "{intent} captured {money} for {order_id}, which is {}",
                order.status.name()
            )),
            Some(order) if order.money != *money => offences.push(format!(
                "{intent} captured {money} for {order_id} over {}",
                order.money
            )),
            Some(_) => {}
        }
    }
    let paid = orders
        .values()
        .filter(|order| order.status == OrderStatus::Paid);
    for order in paid.clone() {
        let id = &order.order_id;
        match kept.get(id).copied().unwrap_or_default() {
            1 => {}
            // What costs nothing is captured by nobody.
            0 if order.money.amount == 0 => {}
            0 => offences.push(format!("{id} is paid and no capture stays for it")),
            many => offences.push(format!("{id} is paid by {many} captures")),
        }
        if Some(order.money) != told.price.times(order.quantity) {
            offences.push(format!("{id} was paid with {}", order.money));
        }
    }
    let says = format!(
        "{captured} captured, {returned} of them returned, {} orders paid",
        paid.count()
    );
    Check::new("P7", "captures belong to paid orders", says, offences)
}

/// What goes back goes back once, in full, and the provider has confirmed it.
pub(super) fn refunds_once(ledger: &Ledger) -> Check {
    let captured: BTreeMap<&IntentId, &PaymentLine> = payments(ledger)
        .filter(|payment| payment.status == PaymentStatus::Succeeded)
        .map(|payment| (&payment.intent, payment))
        .collect();
    let refunds = refunds(ledger);
    let mut offences = Vec::new();
    for (intent, refunds) in &refunds {
        let Some(payment) = captured.get(intent) else {
            offences.push(format!("{intent} is refunded and was never captured"));
            continue;
        };
        if refunds.len() > 1 {
            offences.push(format!("{intent} is refunded {} times", refunds.len()));
        }
        for refund in refunds {
            if refund.status != RefundStatus::Refunded {
                offences.push(format!("the refund of {intent} is not confirmed"));
            } else if refund.money != payment.money {
                offences.push(format!(
                    "{} of {} went back for {intent}",
                    refund.money, payment.money
                ));
            }
        }
    }
    for (intent, payment) in captured {
        let returned = refunds
            .get(intent)
            .is_some_and(|refunds| refunds.iter().any(|r| r.status == RefundStatus::Refunded));
        let expected = if returned { payment.money.amount } else { 0 };
        if payment.refund_amount != expected || payment.refunded != returned {
            offences.push(format!(
                "the provider returned {} of {} for {intent}, the ledger expects {expected}",
                payment.refund_amount, payment.money
            ));
        }
    }
    let says = format!("{} refunds", refunds.len());
    Check::new("P7", "refunds go back once", says, offences)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::breaks;
    use crate::wire::PaymentStatus;
    use domain::order::RefundStatus;

    const CAPTURES: &str = "captures belong to paid orders";
    const REFUNDS: &str = "refunds go back once";

    #[test]
    fn a_capture_for_an_unpaid_order_breaks_it() {
        breaks(CAPTURES, |ledger, _| {
            let bucket = &mut ledger.buckets[1];
            bucket.refunds.clear();
            let late = bucket.payments.last_mut().unwrap();
            (late.refunded, late.refund_amount) = (false, 0);
        });
    }

    #[test]
    fn a_paid_order_without_a_capture_breaks_it() {
        breaks(CAPTURES, |ledger, _| {
            ledger.buckets[0].payments[0].status = PaymentStatus::Open;
        });
    }

    #[test]
    fn a_second_capture_that_stays_breaks_it() {
        breaks(CAPTURES, |ledger, _| {
            let mut second = ledger.buckets[0].payments[0].clone();
            second.intent = "pi_second".parse().unwrap();
            ledger.buckets[0].payments.push(second);
        });
    }

    #[test]
    fn another_amount_or_currency_breaks_it() {
        breaks(CAPTURES, |ledger, _| {
            ledger.buckets[0].payments[0].money.amount -= 1;
        });
        breaks(CAPTURES, |ledger, _| {
            ledger.buckets[0].payments[0].money.currency = "USD".parse().unwrap();
        });
    }

    #[test]
    fn another_price_breaks_it() {
        breaks(CAPTURES, |ledger, _| {
            ledger.buckets[0].payments[0].money.amount = 1;
            ledger.buckets[0].orders[0].money.amount = 1;
        });
    }

    #[test]
    fn a_second_refund_breaks_it() {
        breaks(REFUNDS, |ledger, _| {
            let again = ledger.buckets[1].refunds[0].clone();
            ledger.buckets[1].refunds.push(again);
        });
        breaks(REFUNDS, |ledger, _| {
            ledger.buckets[1].payments.last_mut().unwrap().refund_amount *= 2;
        });
    }

    #[test]
    fn a_refund_that_is_not_confirmed_breaks_it() {
        breaks(REFUNDS, |ledger, _| {
            ledger.buckets[1].refunds[0].status = RefundStatus::RefundPending;
            let late = ledger.buckets[1].payments.last_mut().unwrap();
            (late.refunded, late.refund_amount) = (false, 0);
        });
    }

    #[test]
    fn a_refund_of_another_amount_breaks_it() {
        breaks(REFUNDS, |ledger, _| {
            ledger.buckets[1].refunds[0].money.amount -= 1;
        });
    }

    #[test]
    fn a_refund_of_nothing_breaks_it() {
        breaks(REFUNDS, |ledger, _| {
            let mut odd = ledger.buckets[1].refunds[0].clone();
            odd.intent = "pi_unheard".parse().unwrap();
            ledger.buckets[1].refunds.push(odd);
        });
    }

    #[test]
    fn a_refund_that_only_the_ledger_knows_breaks_it() {
        breaks(REFUNDS, |ledger, _| {
            let late = ledger.buckets[1].payments.last_mut().unwrap();
            (late.refunded, late.refund_amount) = (false, 0);
        });
    }
}
