//! P5: what shoppers were told is what the ledger says.

use std::collections::BTreeMap;

use domain::order::OrderStatus;

use super::{Check, Ledger, Promise, Told};
use crate::wire::OrderLine;

/// The reason of a void that a yes may end in: a primary that failed had
/// taken units which its replica never heard of, and the cap held.
const LOST_REPLICATION: &str = "cap";

/// Every yes is in the ledger and stands; every "paid" is paid.
pub(super) fn kept(ledger: &Ledger, told: &Told) -> Check {
    let orders: BTreeMap<_, &OrderLine> = ledger
        .orders()
        .map(|order| (order.claim_id.clone(), order))
        .collect();
    let mut offences = Vec::new();
    let mut taken_back = 0;
    for (claim, promise) in &told.claims {
        let Some(order) = orders.get(claim) else {
            offences.push(format!(
                "{claim} was answered with a yes and is not in the ledger"
            ));
            continue;
        };
        if order.status != OrderStatus::Voided || *promise != Promise::Yes {
            continue;
        }
        match order.void_reason.as_deref() {
            Some(LOST_REPLICATION) => taken_back += 1,
            reason => offences.push(format!(
                "{claim} was answered with a yes and is void ({})",
                reason.unwrap_or("no reason")
            )),
        }
    }
    for id in &told.paid {
        let status = orders.get(&id.claim()).map(|order| order.status);
        if status != Some(OrderStatus::Paid) {
            offences.push(format!("{id} was shown as paid and is {status:?}"));
        }
    }
    for claim in &told.given_back {
        let status = orders.get(claim).map(|order| order.status);
        if status.is_some_and(OrderStatus::holds_units) {
            offences.push(format!("{claim} was given back and is {status:?}"));
        }
    }
    let yes = told.claims.values().filter(|told| **told == Promise::Yes);
    let mut says = format!(
        "{} yes, {} confirming, {} shown as paid, {} given back",
        yes.count(),
        told.claims
            .values()
            .filter(|told| **told == Promise::Confirming)
            .count(),
        told.paid.len(),
        told.given_back.len(),
    );
    if taken_back > 0 {
        says += &format!("; {taken_back} taken back by the cap after a lost replication");
    }
    Check::new("P5", "every answer is kept", says, offences)
}

/// One key is one claim, and another key no second unit.
pub(super) fn consistent(told: &Told) -> Check {
    Check::new(
        "P3",
        "repeated claims get one answer",
        format!("{} contradictions", told.contradictions.len()),
        told.contradictions.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Promise;
    use super::super::fixture::{breaks, claim, expired, good};
    use domain::order::OrderStatus;

    #[test]
    fn a_yes_that_is_not_in_the_ledger_breaks_it() {
        breaks("every answer is kept", |_, told| {
            told.promised(claim(0, 55), Promise::Yes);
        });
    }

    #[test]
    fn a_yes_that_was_taken_back_breaks_it_unless_a_replication_was_lost() {
        let void = |reason: Option<&str>| {
            let (mut ledger, told) = good();
            let order = expired(&mut ledger);
            order.status = OrderStatus::Voided;
            order.void_reason = reason.map(str::to_owned);
            super::kept(&ledger, &told).ok
        };
        assert!(void(Some("cap")));
        assert!(!void(Some("limit")));
        assert!(!void(Some("no_order")));
        assert!(!void(None));
    }

    #[test]
    fn confirming_may_end_in_a_void() {
        let (mut ledger, mut told) = good();
        let order = expired(&mut ledger);
        order.status = OrderStatus::Voided;
        told.claims
            .insert(order.claim_id.clone(), Promise::Confirming);
        assert!(super::kept(&ledger, &told).ok);
    }

    #[test]
    fn a_later_confirming_takes_no_yes_back() {
        let (_, mut told) = good();
        told.promised(claim(0, 0), Promise::Confirming);
        assert_eq!(told.claims[&claim(0, 0)], Promise::Yes);
    }

    #[test]
    fn paid_that_is_not_paid_breaks_it() {
        breaks("every answer is kept", |_, told| {
            told.paid.insert(claim(1, 1).order());
        });
    }

    #[test]
    fn given_back_that_is_still_held_breaks_it() {
        breaks("every answer is kept", |_, told| {
            told.given_back.insert(claim(0, 0));
        });
    }

    #[test]
    fn contradictions_break_it() {
        breaks("repeated claims get one answer", |_, told| {
            told.contradictions.push("two claims".to_owned());
        });
    }
}
