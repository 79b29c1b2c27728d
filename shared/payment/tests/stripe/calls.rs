//! What is asked again, and what is not.

use payment::{IntentStatus, Provider};
use serde_json::json;

use crate::stub::{KEY, Reply, Stub, create, intent, kept, ok, order, pi, refused};

fn failed(status: u16, headers: Vec<(&'static str, &'static str)>) -> Reply {
    let error = json!({"error": {"type": "api_error", "message": "to be seen by nobody"}});
    Reply::Of(status, headers, error)
}

#[tokio::test]
async fn a_call_says_who_asks_for_what_and_in_which_version() {
    let stub = Stub::with([ok(intent("requires_payment_method"))]).await;
    let made = stub.provider.create_intent(&create()).await.unwrap();
    assert_eq!(made.status, IntentStatus::Open);
    assert_eq!(made.client_secret, "pi_1_secret_2");
    let asked = &stub.asked()[0];
    assert_eq!(asked.call, "POST /v1/payment_intents");
    let bearer = format!("Bearer {KEY}");
    assert_eq!(asked.header("authorization"), Some(bearer.as_str()));
    assert_eq!(asked.header("stripe-version"), Some("2025-03-31.basil"));
    assert_eq!(asked.header("idempotency-key"), Some("key"));
    let id = order().to_string();
    let right = [
        ("amount", "999900"),
        ("currency", "inr"),
        ("metadata[bucket]", "3"),
        ("metadata[order_id]", &id),
        ("metadata[sale_id]", "sale"),
        ("payment_method_types[0]", "card"),
    ];
    let right = right.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(asked.fields, right.into());
}

/// 409, 429 and 5xx say nothing of what was done: the same key asks again.
#[tokio::test]
async fn what_may_have_been_done_is_asked_again_with_the_same_key() {
    for status in [409, 429, 500, 502, 503] {
        let replies = [
            failed(status, vec![]),
            failed(status, vec![]),
            ok(intent("requires_payment_method")),
        ];
        let stub = Stub::with(replies).await;
        stub.provider.create_intent(&create()).await.unwrap();
        let asked = stub.asked();
        let keys: Vec<_> = asked
            .iter()
            .map(|one| one.header("idempotency-key"))
            .collect();
        assert_eq!(keys, [Some("key"); 3], "{status}");
        assert!(asked.iter().all(|one| one.fields == asked[0].fields));
    }
    // Not for ever.
    let stub = Stub::that(|_| failed(503, vec![])).await;
    let error = stub.provider.create_intent(&create()).await.unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
    assert_eq!(stub.asked().len(), 3);
}

/// A key of ours that is wrong, and what Stripe understood and refused.
#[tokio::test]
async fn what_was_not_done_is_not_asked_again() {
    for status in [400, 401, 402, 403, 404] {
        let stub = Stub::with([refused(status, "some_code")]).await;
        let error = stub.provider.create_intent(&create()).await.unwrap_err();
        assert!(error.to_string().contains("some_code"), "{error}");
        assert_eq!(stub.asked().len(), 1);
    }
}

#[tokio::test]
async fn stripe_has_the_last_word_on_asking_again() {
    let stub = Stub::with([failed(500, vec![("stripe-should-retry", "false")])]).await;
    assert!(stub.provider.create_intent(&create()).await.is_err());
    let again = vec![("stripe-should-retry", "true")];
    let stub = Stub::with([failed(400, again), ok(intent("requires_payment_method"))]).await;
    assert!(stub.provider.create_intent(&create()).await.is_ok());
}

/// A server that takes the call and never answers, and one that is not there.
#[tokio::test]
async fn silence_ends() {
    let stub = Stub::that(|_| Reply::Silence).await;
    let error = stub.provider.intent(&pi(), &order()).await.unwrap_err();
    assert!(error.0.contains("in time"), "{error}");
    let environment = crate::stub::environment("http://127.0.0.1:1", KEY).await;
    let nobody = payment::StripeProvider::connect(&environment).unwrap();
    assert!(nobody.intent(&pi(), &order()).await.is_err());
    // The control: an answer is one.
    let stub = Stub::with([Reply::Silence, ok(intent("succeeded"))]).await;
    assert!(stub.provider.intent(&pi(), &order()).await.is_ok());
}

/// A failure that is kept for a key would be its answer for a day: the next key
/// of the row asks.
#[tokio::test]
async fn a_kept_failure_costs_a_key_and_no_order() {
    let stub = Stub::with([kept(), kept(), ok(intent("requires_payment_method"))]).await;
    stub.provider.create_intent(&create()).await.unwrap();
    let asked = stub.asked();
    let keys: Vec<_> = asked
        .iter()
        .map(|one| one.header("idempotency-key"))
        .collect();
    assert_eq!(keys, [Some("key"), Some("key-2"), Some("key-3")]);
    let stub = Stub::that(|_| kept()).await;
    assert!(stub.provider.create_intent(&create()).await.is_err());
    assert_eq!(stub.asked().len(), 3);
}

/// What is no document of Stripe's is no answer.
#[tokio::test]
async fn an_answer_that_can_not_be_read_says_nothing() {
    for document in [
        json!(null),
        json!([]),
        json!({"id": "pi_1"}),
        json!("<html>"),
    ] {
        let stub = Stub::with([ok(document.clone())]).await;
        let read = stub.provider.intent(&pi(), &order()).await;
        assert!(read.is_err(), "{document}");
    }
    let mut odd = intent("requires_payment_method");
    odd["client_secret"] = json!(null);
    let stub = Stub::with([ok(odd)]).await;
    assert!(stub.provider.create_intent(&create()).await.is_err());
    let mut other = intent("requires_payment_method");
    other["amount"] = json!(1);
    let stub = Stub::with([ok(other)]).await;
    assert!(stub.provider.create_intent(&create()).await.is_err());
}
