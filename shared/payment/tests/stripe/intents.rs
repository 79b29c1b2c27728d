//! Where an intent is, and whether it is over.

use payment::{CancelOutcome, IntentStatus, Provider};
use serde_json::json;

use crate::stub::{Reply, Stub, create, inr, intent, ok, order, order_of, pi, refused};

#[tokio::test]
async fn stripes_states_are_read() {
    for (status, right) in [
        ("requires_payment_method", IntentStatus::Open),
        ("requires_confirmation", IntentStatus::Open),
        ("requires_action", IntentStatus::Open),
        ("processing", IntentStatus::Open),
        ("succeeded", IntentStatus::Succeeded(inr(999_900))),
        ("canceled", IntentStatus::Cancelled),
    ] {
        let stub = Stub::with([ok(intent(status))]).await;
        let found = stub.provider.intent(&pi(), &order()).await.unwrap();
        assert_eq!(found.unwrap().status, right, "{status}");
    }
    let mut declined = intent("requires_payment_method");
    declined["last_payment_error"] = json!({"code": "card_declined", "charge": "ch_1"});
    let stub = Stub::with([ok(declined)]).await;
    let found = stub.provider.intent(&pi(), &order()).await.unwrap();
    assert_eq!(found.unwrap().status, IntentStatus::Declined);
    // One that Stripe added since is not taken for any of these.
    let stub = Stub::with([ok(intent("of_next_year"))]).await;
    assert!(stub.provider.intent(&pi(), &order()).await.is_err());
}

#[tokio::test]
async fn an_intent_of_another_order_is_none_of_this() {
    let stub = Stub::with([ok(intent("succeeded")), refused(404, "resource_missing")]).await;
    let other = order_of("b");
    for _ in 0..2 {
        assert_eq!(stub.provider.intent(&pi(), &other).await.unwrap(), None);
    }
}

/// A key that was used before gets the answer of that time.
#[tokio::test]
async fn an_intent_that_is_found_by_its_key_is_read_anew() {
    let replayed = Reply::Of(
        200,
        vec![("idempotent-replayed", "true")],
        intent("requires_payment_method"),
    );
    let stub = Stub::with([replayed, ok(intent("succeeded"))]).await;
    let found = stub.provider.create_intent(&create()).await.unwrap();
    assert_eq!(found.status, IntentStatus::Succeeded(inr(999_900)));
    let calls = ["POST /v1/payment_intents", "GET /v1/payment_intents/pi_1"];
    assert_eq!(stub.calls(), calls);
}

/// B08, B11: what can't be cancelled is looked up, and only what is over is
/// said to be.
#[tokio::test]
async fn cancelling_decides_what_is_over() {
    let refusal = || refused(400, "payment_intent_unexpected_state");
    let captured = CancelOutcome::AlreadySucceeded(inr(999_900));
    for (replies, right) in [
        (vec![ok(intent("canceled"))], Some(CancelOutcome::Cancelled)),
        (
            vec![refusal(), ok(intent("canceled"))],
            Some(CancelOutcome::Cancelled),
        ),
        (vec![refusal(), ok(intent("succeeded"))], Some(captured)),
        // Neither: it may still capture.
        (vec![refusal(), ok(intent("processing"))], None),
        (vec![refusal(), ok(intent("requires_action"))], None),
        (vec![refusal(), ok(intent("of_next_year"))], None),
        // Another account's books say nothing of it.
        (
            vec![
                refused(404, "resource_missing"),
                refused(404, "resource_missing"),
            ],
            None,
        ),
        (vec![refused(401, "api_key_expired")], None),
    ] {
        let what = format!("{replies:?}");
        let stub = Stub::with(replies).await;
        let outcome = stub.provider.cancel(&pi(), &order()).await;
        assert_eq!(outcome.ok(), right, "{what}");
        let first = &stub.asked()[0];
        assert_eq!(first.call, "POST /v1/payment_intents/pi_1/cancel");
        assert_eq!(first.header("idempotency-key"), None);
    }
}
