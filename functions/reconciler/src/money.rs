//! Captures and refunds of a bucket: every capture pays its order, or goes back.

use std::collections::HashMap;

use domain::order::RefundStatus;
use domain::{BucketId, IntentId, Order, OrderStatus};
use jiff::{SignedDuration, Timestamp};
use ledger::payments::Refund;
use payment::ProviderPayment;
use reconcile::report::{Done, Kind, Mismatch};

/// A refund that the provider has not confirmed for so long needs a person.
const REFUND_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Providers tell of a capture within this, or whoever ends the hold asks.
const TOLD_MAX: SignedDuration = SignedDuration::from_mins(20);

/// Refunds that are owed for too long.
pub(crate) fn refunds(bucket: BucketId, refunds: &[Refund], now: Timestamp) -> Vec<Mismatch> {
    let owed = refunds.iter().filter(|refund| {
        refund.status == RefundStatus::RefundPending && now - refund.created_at > REFUND_MAX
    });
    let kind = Kind::RefundOverdue;
    owed.map(|refund| Mismatch::of(kind, bucket, refund.intent.as_str(), Done::NeedsPerson))
        .collect()
}

/// The provider's books against ours.
pub(crate) fn captures(
    bucket: BucketId,
    orders: &[Order],
    refunds: &[Refund],
    captures: &[ProviderPayment],
    now: Timestamp,
) -> Vec<Mismatch> {
    // What costs nothing is paid without a provider.
    let is_paid = |of: &&Order| of.status == OrderStatus::Paid && of.money.amount > 0;
    let paid = orders.iter().filter(is_paid);
    let mut paid: HashMap<&IntentId, &Order> = paid
        .clone()
        .filter_map(|order| Some((order.intent.as_ref()?, order)))
        .collect();
    let refunds: HashMap<_, _> = refunds.iter().map(|of| (&of.intent, of)).collect();
    let say = |kind, intent: &IntentId, expected: u64, found: u64| Mismatch {
        kind,
        bucket: Some(bucket),
        about: Some(intent.as_str().to_owned()),
        expected: expected as i64,
        found: found as i64,
        done: Done::NeedsPerson,
    };
    let mut wrong = Vec::new();
    // Where nothing was captured, nothing can be wrong.
    for capture in captures.iter().filter(|of| of.captured.amount > 0) {
        let (intent, amount) = (&capture.intent, capture.captured.amount);
        let back = capture.refunded.map_or(0, |money| money.amount);
        match (paid.remove(intent), refunds.get(intent)) {
            (Some(order), refund) => {
                if order.money != capture.captured {
                    let kind = Kind::PaidWithoutCapture;
                    wrong.push(say(kind, intent, order.money.amount, amount));
                }
                if refund.is_some() || back > 0 {
                    wrong.push(say(Kind::RefundWrong, intent, 0, amount.max(back)));
                }
            }
            (None, None) if back > 0 => wrong.push(say(Kind::RefundWrong, intent, 0, back)),
            (None, None) if now - capture.captured_at > TOLD_MAX => {
                wrong.push(say(Kind::CaptureUnaccounted, intent, 0, amount));
            }
            (None, Some(refund)) if refund.status == RefundStatus::Refunded && back != amount => {
                wrong.push(say(Kind::RefundWrong, intent, amount, back));
            }
            (None, _) => {}
        }
    }
    for (intent, order) in paid {
        wrong.push(say(Kind::PaidWithoutCapture, intent, order.money.amount, 0));
    }
    let unbound = orders.iter().filter(is_paid);
    let unbound = unbound.filter(|of| of.intent.is_none());
    let kind = Kind::PaidWithoutCapture;
    wrong.extend(unbound.map(|of| Mismatch::of(kind, bucket, &of.claim, Done::NeedsPerson)));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Money;
    use ledger::payments::RefundReason;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn money(amount: u64) -> Money {
        Money {
            amount,
            currency: "INR".parse().unwrap(),
        }
    }

    fn order(status: OrderStatus) -> Order {
        Order {
            claim: format!("cl_s_000_{:032x}", 1).parse().unwrap(),
            shopper: "u".parse().unwrap(),
            quantity: 1,
            money: money(5),
            status,
            pay_by: NOW,
            pay_until: None,
            intent: Some("i".parse().unwrap()),
            attempt: 1,
            claimed_at: NOW,
            changed_at: NOW,
            void_reason: None,
        }
    }

    fn capture(amount: u64, back: Option<u64>) -> ProviderPayment {
        ProviderPayment {
            intent: "i".parse().unwrap(),
            order: order(OrderStatus::Paid).claim.order(),
            captured: money(amount),
            captured_at: NOW,
            refunded: back.map(money),
        }
    }

    fn refund(status: RefundStatus) -> Refund {
        let order = order(OrderStatus::Paid);
        let intent = order.intent.unwrap();
        let owed = Refund::owed(&order.claim, &intent, money(5), RefundReason::Late, NOW);
        Refund { status, ..owed }
    }

    #[test]
    fn every_capture_pays_or_goes_back_once() {
        use OrderStatus::{Expired, Paid};
        use RefundStatus::{RefundPending, Refunded};
        let kinds = |status, capture: Option<ProviderPayment>, owed: Option<_>, later| {
            let refunds: Vec<Refund> = owed.map(refund).into_iter().collect();
            let books: Vec<_> = capture.into_iter().collect();
            let found = captures(BucketId(0), &[order(status)], &refunds, &books, NOW + later);
            found.iter().map(|one| one.kind).collect::<Vec<_>>()
        };
        let (soon, later) = (
            SignedDuration::ZERO,
            TOLD_MAX + SignedDuration::from_secs(1),
        );
        for (status, taken, owed, right) in [
            (Paid, Some(capture(5, None)), None, vec![]),
            (Paid, None, None, vec![Kind::PaidWithoutCapture]),
            (
                Paid,
                Some(capture(4, None)),
                None,
                vec![Kind::PaidWithoutCapture],
            ),
            (
                Paid,
                Some(capture(5, Some(5))),
                None,
                vec![Kind::RefundWrong],
            ),
            (
                Paid,
                Some(capture(5, None)),
                Some(RefundPending),
                vec![Kind::RefundWrong],
            ),
            (Expired, None, None, vec![]),
            (
                Expired,
                Some(capture(5, None)),
                None,
                vec![Kind::CaptureUnaccounted],
            ),
            (Expired, Some(capture(0, None)), None, vec![]),
            (Expired, Some(capture(5, None)), Some(RefundPending), vec![]),
            (
                Expired,
                Some(capture(5, Some(5))),
                Some(RefundPending),
                vec![],
            ),
            (Expired, Some(capture(5, Some(5))), Some(Refunded), vec![]),
            (
                Expired,
                Some(capture(5, None)),
                Some(Refunded),
                vec![Kind::RefundWrong],
            ),
            (
                Expired,
                Some(capture(5, Some(4))),
                Some(Refunded),
                vec![Kind::RefundWrong],
            ),
            (
                Expired,
                Some(capture(5, Some(5))),
                None,
                vec![Kind::RefundWrong],
            ),
        ] {
            let found = kinds(status, taken.clone(), owed, later);
            assert_eq!(found, right, "{status:?} {taken:?} {owed:?}");
        }
        let free = Order {
            money: money(0),
            intent: None,
            ..order(Paid)
        };
        assert_eq!(captures(BucketId(0), &[free], &[], &[], NOW + later), []);
        // The provider may not have told of it yet.
        assert_eq!(kinds(Expired, Some(capture(5, None)), None, soon), []);
    }

    #[test]
    fn a_refund_may_be_owed_for_a_while() {
        let later = |status, by| refunds(BucketId(0), &[refund(status)], NOW + by).len();
        assert_eq!(later(RefundStatus::RefundPending, REFUND_MAX), 0);
        let over = REFUND_MAX + SignedDuration::from_secs(1);
        assert_eq!(later(RefundStatus::RefundPending, over), 1);
        assert_eq!(later(RefundStatus::Refunded, over), 0);
    }
}
