//! Refunds that take their time, fail, or were made by somebody else.

use payment::{Provider, RefundOutcome};
use serde_json::{Value, json};

use crate::stub::{Reply, Stub, kept, now, ok, order, refund, refused};

const WHOLE: u64 = 999_900;

fn one(amount: u64, status: &str) -> Value {
    json!({
        "id": "re_1", "object": "refund", "amount": amount, "currency": "inr",
        "payment_intent": "pi_1", "charge": "ch_1", "status": status,
        "metadata": {"order_id": order()},
    })
}

fn before(refunds: &[Value]) -> Reply {
    ok(json!({"object": "list", "data": refunds, "has_more": false}))
}

/// What Stripe knows of is not asked for again, whatever its key was.
#[tokio::test]
async fn a_refund_that_is_under_way_is_watched() {
    for (refunds, right) in [
        (vec![one(WHOLE, "succeeded")], RefundOutcome::Refunded),
        (vec![one(WHOLE, "pending")], RefundOutcome::Pending),
        (vec![one(WHOLE, "requires_action")], RefundOutcome::Pending),
        (vec![one(WHOLE, "of_next_year")], RefundOutcome::Pending),
        (
            vec![one(900, "pending"), one(WHOLE - 900, "succeeded")],
            RefundOutcome::Pending,
        ),
        (
            vec![one(900, "succeeded"), one(WHOLE - 900, "succeeded")],
            RefundOutcome::Refunded,
        ),
        (
            vec![one(WHOLE, "failed"), one(WHOLE, "succeeded")],
            RefundOutcome::Refunded,
        ),
    ] {
        let stub = Stub::with([before(&refunds)]).await;
        let outcome = stub.provider.refund(&refund()).await.unwrap();
        assert_eq!(outcome, right, "{refunds:?}");
        assert_eq!(stub.calls(), ["GET /v1/refunds"]);
    }
}

#[tokio::test]
async fn what_is_missing_is_asked_for_and_no_more() {
    for (refunds, amount, key) in [
        (vec![], WHOLE, "refund-pi_1"),
        (vec![one(WHOLE, "failed")], WHOLE, "refund-pi_1-after-1"),
        (vec![one(WHOLE, "canceled")], WHOLE, "refund-pi_1-after-1"),
        // Someone gave a part back by hand.
        (
            vec![one(900, "succeeded")],
            WHOLE - 900,
            "refund-pi_1-after-1",
        ),
        (
            vec![one(WHOLE, "failed"), one(WHOLE, "failed")],
            WHOLE,
            "refund-pi_1-after-2",
        ),
    ] {
        for (status, right) in [
            ("succeeded", RefundOutcome::Refunded),
            ("pending", RefundOutcome::Pending),
            ("failed", RefundOutcome::Pending),
        ] {
            let stub = Stub::with([before(&refunds), ok(one(amount, status))]).await;
            let outcome = stub.provider.refund(&refund()).await.unwrap();
            assert_eq!(outcome, right, "{refunds:?} {status}");
            let asked = &stub.asked()[1];
            assert_eq!(asked.call, "POST /v1/refunds");
            assert_eq!(asked.header("idempotency-key"), Some(key));
            assert_eq!(asked.fields["amount"], amount.to_string());
            assert_eq!(asked.fields["payment_intent"], "pi_1");
            assert_eq!(asked.fields["metadata[order_id]"], order().to_string());
        }
    }
}

/// C08, C09: nothing is said to have gone back that is not known to have.
#[tokio::test]
async fn a_refund_that_is_not_confirmed_is_none() {
    let failed = [
        one(WHOLE, "failed"),
        one(WHOLE, "failed"),
        one(WHOLE, "failed"),
    ];
    for replies in [
        vec![refused(402, "insufficient_funds")],
        vec![before(&[]), refused(402, "insufficient_funds")],
        vec![before(&[]), refused(400, "charge_already_refunded")],
        // The bank has refused it three times: a person must see to it.
        vec![before(&failed)],
    ] {
        let what = format!("{replies:?}");
        let stub = Stub::with(replies).await;
        let outcome = stub.provider.refund(&refund()).await;
        assert!(outcome.is_err(), "{what}");
    }
    // Carried out, and the answer lost: the next look finds it.
    let stub = Stub::with([
        before(&[]),
        kept(),
        ok(one(WHOLE, "succeeded")),
        before(&[one(WHOLE, "succeeded")]),
    ])
    .await;
    for _ in 0..2 {
        let outcome = stub.provider.refund(&refund()).await.unwrap();
        assert_eq!(outcome, RefundOutcome::Refunded);
    }
}

/// A row of keys that all have a failure as their answer would keep the money
/// for a day.
#[tokio::test]
async fn a_refund_goes_on_when_its_keys_are_used_up() {
    let stub = Stub::with([
        before(&[]),
        kept(),
        kept(),
        kept(),
        ok(one(WHOLE, "succeeded")),
    ])
    .await;
    let first = hour();
    let outcome = stub.provider.refund(&refund()).await.unwrap();
    assert_eq!(outcome, RefundOutcome::Refunded);
    let asked = stub.asked();
    let keys: Vec<_> = asked
        .iter()
        .filter_map(|one| one.header("idempotency-key"))
        .collect();
    assert_eq!(keys[..3], ["refund-pi_1", "refund-pi_1-2", "refund-pi_1-3"]);
    // The test may begin before the full hour and end after it.
    let of_hour = [first, hour()].map(|hour| format!("refund-pi_1-hour-{hour}"));
    assert!(of_hour.iter().any(|right| *right == keys[3]), "{keys:?}");
    // That one is used up too: another hour has another.
    let stub = Stub::with([before(&[]), kept(), kept(), kept(), kept()]).await;
    assert!(stub.provider.refund(&refund()).await.is_err());
}

fn hour() -> i64 {
    now().as_second().div_euclid(3_600)
}
