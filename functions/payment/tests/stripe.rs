//! Stripe's webhooks as API Gateway hands them to the payment function.

#![allow(clippy::unwrap_used)]

use api::HttpFunction;
use axum::http::StatusCode;
use base64::prelude::*;
use domain::{IntentId, Order, OrderStatus};
use jiff::SignedDuration;
use lambda_http::{Body, Response};
use payment::signature::WebhookSecrets;
use payment_function::PaymentFunction;
use runtime::{Environment, Settings};
use serde_json::{Value, json};
use testing::Bucket;
use tokio::net::TcpListener;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const WEBHOOK: &str = "POST /v1/webhooks/{provider}";

fn settings(environment: &Environment, secrets: &str) -> Settings {
    let own = ["TABLE_NAME", "AWS_ENDPOINT_URL_DYNAMODB"];
    let own = own.map(|name| (name, environment.settings.require(name).unwrap()));
    let other = [
        ("GATE_URL", "redis://127.0.0.1:1"),
        ("PAYMENT_PROVIDER", "stripe"),
        ("PROVIDER_KEY", "sk_test_of_nobody"),
        // Nobody is there: an event pays without a call.
        ("STRIPE_URL", "http://127.0.0.1:1"),
        ("WEBHOOK_SECRETS", secrets),
    ];
    own.into_iter()
        .chain(other)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

async fn deliver(function: &PaymentFunction, provider: &str, change: Value) -> (u16, Value) {
    let parameters = json!({"provider": provider});
    let event = testing::http_event(WEBHOOK, &parameters, change);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let response = api::invoke(function, request).await;
    let body = serde_json::from_slice(response.body()).unwrap();
    (response.status().as_u16(), body)
}

/// C10, C12: the bytes as Stripe sent them, in either form of the gateway, with
/// any secret that is current while one is rotated.
#[tokio::test]
async fn stripes_events_pay_orders() {
    let (mut environment, ledger) = testing::ledger().await;
    environment.settings = settings(&environment, "whsec_new,whsec_old");
    let function = PaymentFunction::start(&environment).await.unwrap();
    let bucket = Bucket::create(&ledger, 10).await;
    let now = environment.clock.now();
    let sign = |secret: &str, body: &str| {
        let secrets = settings(&environment, secrets_of(secret));
        let secrets = WebhookSecrets::from_settings(&secrets).unwrap();
        secrets.sign(body.as_bytes(), now)
    };
    for (nth, (secret, encoded, pays)) in [
        ("new", false, true),
        ("new", true, true),
        ("old", false, true),
        ("old", true, true),
        ("gone", false, false),
    ]
    .into_iter()
    .enumerate()
    {
        let order = bucket.order(&format!("shopper-{nth}"), now, HOUR).await;
        let begun = ledger.begin_payment(&order, now, now + HOUR).await.unwrap();
        let intent: IntentId = format!("pi_{nth}").parse().unwrap();
        let begun = begun.unwrap();
        ledger.bind_intent(&begun, &intent).await.unwrap();
        // As Stripe writes it: many lines, and what is not read.
        let event = json!({
            "id": format!("evt_{nth}"), "object": "event", "type": "payment_intent.succeeded",
            "data": {"object": {
                "id": intent, "object": "payment_intent", "amount": 999_900,
                "amount_received": 999_900, "currency": "inr", "status": "succeeded",
                "created": now.as_second(), "latest_charge": "ch_1", "note": "₹ é",
                "metadata": {"order_id": order.claim.order()},
            }},
        });
        let body = serde_json::to_string_pretty(&event).unwrap();
        let mut change = json!({
            "headers": {"stripe-signature": sign(secret, &body)},
            "body": body, "isBase64Encoded": encoded,
        });
        if encoded {
            change["body"] = BASE64_STANDARD.encode(&body).into();
        }
        let (status, answer) = deliver(&function, "stripe", change.clone()).await;
        let read = ledger.order(&order.claim).await.unwrap().unwrap();
        if pays {
            assert_eq!((status, &answer["result"]), (200, &json!("paid")));
            assert_eq!(read.status, OrderStatus::Paid);
        } else {
            assert_eq!(
                (status, &answer["error"]),
                (400, &json!("invalid_signature"))
            );
            assert_eq!(read.status, OrderStatus::Paying);
        }
        // At another provider's address it is nothing.
        assert_eq!(deliver(&function, "sandbox", change).await.0, 404);
    }
    // The account's other business is taken, and changes nothing.
    let body = json!({"id": "evt_x", "type": "customer.created", "data": {"object": {}}});
    let body = body.to_string();
    let headers = json!({"stripe-signature": sign("new", &body)});
    let change = json!({"headers": headers, "body": body});
    let (status, answer) = deliver(&function, "stripe", change).await;
    assert_eq!((status, &answer["result"]), (200, &json!("ignored")));
}

fn secrets_of(name: &str) -> &'static str {
    match name {
        "new" => "whsec_new",
        "old" => "whsec_old",
        _ => "whsec_gone",
    }
}

async fn tap(function: &PaymentFunction, order: &Order) -> Response<Body> {
    let parameters = json!({"order": order.claim.order()});
    let session = testing::session(order.shopper.as_str(), &[]);
    let event = testing::http_event("POST /v1/orders/{order}/payments", &parameters, session);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    api::invoke(function, request).await
}

/// Stripe understands and refuses, as it does below its smallest amount: the
/// page must not repeat it, and the order can still be paid or given back.
#[tokio::test]
async fn a_payment_that_stripe_refuses_is_a_409() {
    let (mut environment, ledger) = testing::ledger().await;
    let answer = async || {
        let error = json!({"error": {"code": "amount_too_small", "message": "sk_test"}});
        (StatusCode::BAD_REQUEST, error.to_string())
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stripe = axum::serve(listener, axum::Router::new().fallback(answer));
    tokio::spawn(stripe.into_future());
    environment.settings = settings(&environment, "whsec_test");
    environment
        .settings
        .extend([("STRIPE_URL".to_owned(), url)]);
    let function = PaymentFunction::start(&environment).await.unwrap();
    let now = environment.clock.now();
    let bucket = Bucket::create(&ledger, 10).await;
    let order = bucket.order("ada", now, HOUR).await;
    for attempt in [1, 2] {
        let response = tap(&function, &order).await;
        assert_eq!(response.status(), 409);
        let problem: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(problem["error"], "not_payable");
        let detail = "The payment provider does not take this payment.";
        assert_eq!(problem["detail"], detail);
        let read = ledger.order(&order.claim).await.unwrap().unwrap();
        assert_eq!(
            (read.status, read.attempt),
            (OrderStatus::PendingPayment, attempt)
        );
    }
}

/// The provider does not answer: a clear refusal, and the hold as it was.
#[tokio::test]
async fn a_provider_that_is_away_is_a_503() {
    let (mut environment, ledger) = testing::ledger().await;
    environment.settings = settings(&environment, "whsec_test");
    let function = PaymentFunction::start(&environment).await.unwrap();
    let now = environment.clock.now();
    let bucket = Bucket::create(&ledger, 10).await;
    let order = bucket.order("ada", now, HOUR).await;
    for _ in 0..2 {
        let response = tap(&function, &order).await;
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
        let problem: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(problem["error"], "unavailable");
        let read = ledger.order(&order.claim).await.unwrap().unwrap();
        assert!(read.status.holds_units());
        assert_eq!((read.pay_by, read.attempt), (order.pay_by, 1));
    }
}

/// C11: without key or secret there is no function.
#[tokio::test]
async fn it_does_not_start_without_its_secrets() {
    let (mut environment, _) = testing::ledger().await;
    let whole = settings(&environment, "whsec_test");
    for missing in ["PROVIDER_KEY", "WEBHOOK_SECRETS"] {
        let mut less = whole.clone();
        less.extend([(missing.to_owned(), String::new())]);
        environment.settings = less;
        assert!(PaymentFunction::start(&environment).await.is_err());
    }
}
