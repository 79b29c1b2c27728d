//! The payment function as API Gateway calls it, against the real ledger.

#![allow(clippy::unwrap_used)]

use api::HttpFunction;
use base64::prelude::*;
use domain::Order;
use jiff::SignedDuration;
use payment::signature::WebhookSecrets;
use payment_function::PaymentFunction;
use runtime::{Environment, Settings};
use serde_json::{Value, json};
use testing::Bucket;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const WEBHOOK: &str = "POST /v1/webhooks/{provider}";
const PAYMENTS: &str = "POST /v1/orders/{order}/payments";
const CONFIRM: &str = "POST /v1/sandbox/intents/{intent}/confirm";

/// One call: status and body.
async fn call(
    function: &PaymentFunction,
    route: &str,
    parameters: Value,
    change: Value,
) -> (u16, Value) {
    let event = testing::http_event(route, &parameters, change);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let response = api::invoke(function, request).await;
    let body = serde_json::from_slice(response.body()).unwrap();
    (response.status().as_u16(), body)
}

struct World {
    environment: Environment,
    function: PaymentFunction,
    bucket: Bucket,
    secrets: WebhookSecrets,
}

fn settings(environment: &Environment, secrets: &str) -> Settings {
    ["TABLE_NAME", "AWS_ENDPOINT_URL_DYNAMODB"]
        .map(|name| (name, environment.settings.require(name).unwrap()))
        .into_iter()
        .chain([
            ("GATE_URL", "redis://127.0.0.1:1"),
            ("PAYMENT_PROVIDER", "sandbox"),
            ("WEBHOOK_SECRETS", secrets),
        ])
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

impl World {
    async fn new() -> Self {
        let (mut environment, ledger) = testing::ledger().await;
        environment.settings = settings(&environment, "whsec_test");
        Self {
            bucket: Bucket::create(&ledger, 10).await,
            function: PaymentFunction::start(&environment).await.unwrap(),
            secrets: WebhookSecrets::from_settings(&environment.settings).unwrap(),
            environment,
        }
    }

    async fn order(&self, shopper: &str) -> Order {
        let now = self.environment.clock.now();
        self.bucket.order(shopper, now, HOUR).await
    }

    async fn call(&self, route: &str, parameters: Value, change: Value) -> (u16, Value) {
        call(&self.function, route, parameters, change).await
    }

    async fn order_call(&self, route: &str, order: &str, shopper: &str) -> (u16, Value) {
        let session = testing::session(shopper, &[]);
        self.call(route, json!({"order": order}), session).await
    }

    async fn confirm(&self, payment: &Value, body: Value) -> (u16, Value) {
        let parameters = json!({"intent": payment["intent_id"]});
        self.call(CONFIRM, parameters, json!({"body": body.to_string()}))
            .await
    }

    /// A payment that has begun, and the body of its success in an odd shape.
    async fn paying(&self, shopper: &str) -> (Order, String) {
        let order = self.order(shopper).await;
        let id = order.claim.order();
        let (_, payment) = self.order_call(PAYMENTS, &id.to_string(), shopper).await;
        let intent = payment["intent_id"].as_str().unwrap();
        let body = format!(
            "{{ \"id\":\"evt_{shopper}\",\n\t\"type\" : \"payment_intent.succeeded\", \
             \"intent\":\"{intent}\", \"amount\":999900, \"currency\":\"inr\", \
             \"note\":\"\\u20b9 é ₹\", \"metadata\":{{\"order_id\":\"{id}\"}} }}"
        );
        (order, body)
    }

    async fn webhook(&self, body: &str, signature: &str, change: Value) -> (u16, Value) {
        let mut whole = json!({"headers": {"sandbox-signature": signature}, "body": body});
        testing::http_event::merge(&mut whole, change);
        self.call(WEBHOOK, json!({"provider": "sandbox"}), whole)
            .await
    }

    fn sign(&self, body: &str) -> String {
        self.secrets
            .sign(body.as_bytes(), self.environment.clock.now())
    }
}

#[tokio::test]
async fn an_order_is_paid() {
    let world = World::new().await;
    let order = world.order("a").await;
    let id = order.claim.order().to_string();
    let read = "GET /v1/orders/{order}";

    let (status, shown) = world.order_call(read, &id, "a").await;
    assert_eq!(status, 200);
    assert_eq!(shown["status"], "PENDING_PAYMENT");
    assert_eq!(shown["display"], "INR 9999.00");
    assert_eq!(shown["pay_until"], Value::Null);

    let (created, payment) = world.order_call(PAYMENTS, &id, "a").await;
    let (repeated, same) = world.order_call(PAYMENTS, &id, "a").await;
    assert_eq!((created, repeated), (201, 200));
    assert_eq!(payment, same);
    assert_eq!(payment["amount"], 999_900);

    let body = json!({"client_secret": payment["client_secret"], "outcome": "succeed"});
    let (status, confirmed) = world.confirm(&payment, body.clone()).await;
    assert_eq!(status, 200);
    let event = &confirmed["event"];
    let (payload, signature) = (event["payload"].as_str(), event["signature"].as_str());
    let (payload, signature) = (payload.unwrap(), signature.unwrap());
    for result in ["paid", "already_applied"] {
        let (status, applied) = world.webhook(payload, signature, json!({})).await;
        assert_eq!((status, &applied["result"]), (200, &json!(result)));
    }
    // Confirmed again, the same event; otherwise, too late.
    assert_eq!(world.confirm(&payment, body).await.0, 200);
    let decline = json!({"client_secret": payment["client_secret"], "outcome": "decline"});
    assert_eq!(world.confirm(&payment, decline).await.0, 409);

    let (_, shown) = world.order_call(read, &id, "a").await;
    assert_eq!(shown["status"], "PAID");
    let (status, problem) = world.order_call(PAYMENTS, &id, "a").await;
    assert_eq!((status, &problem["error"]), (409, &json!("not_payable")));
}

/// A01: another's order and one that does not exist look the same.
#[tokio::test]
async fn what_is_not_yours_is_not_there() {
    let world = World::new().await;
    let order = world.order("a").await.claim.order().to_string();
    let missing = world.order("b").await;
    let missing = missing
        .claim
        .in_bucket(domain::BucketId(4))
        .order()
        .to_string();
    for route in ["GET /v1/orders/{order}", PAYMENTS] {
        let another = world.order_call(route, &order, "b").await;
        assert_eq!(another.0, 404);
        for id in [missing.as_str(), "ord_", "x"] {
            assert_eq!(world.order_call(route, id, "b").await, another);
        }
    }
}

/// C12: what was signed is what was received, however the gateway wraps it.
#[tokio::test]
async fn a_webhook_is_verified_over_its_raw_bytes() {
    let world = World::new().await;
    let changes = [
        json!({}),
        json!({"isBase64Encoded": true}),
        json!({"headers": {"content-type": "application/json; charset=utf-8"}}),
        json!({"headers": {"content-type": "application/octet-stream"}, "isBase64Encoded": true}),
    ];
    for (index, mut change) in changes.into_iter().enumerate() {
        let (_, body) = world.paying(&format!("shopper{index}")).await;
        let signature = world.sign(&body);
        if change["isBase64Encoded"] == true {
            change["body"] = BASE64_STANDARD.encode(&body).into();
        }
        let (status, applied) = world.webhook(&body, &signature, change.clone()).await;
        assert_eq!(
            (status, &applied["result"]),
            (200, &json!("paid")),
            "{change}"
        );
    }
    // The control: the same event, written out anew, is not what was signed.
    let (_, body) = world.paying("again").await;
    let signature = world.sign(&body);
    let parsed: Value = serde_json::from_str(&body).unwrap();
    let (status, problem) = world
        .webhook(&parsed.to_string(), &signature, json!({}))
        .await;
    assert_eq!(
        (status, &problem["error"]),
        (400, &json!("invalid_signature"))
    );
}

/// C10, C11: what is not signed changes nothing.
#[tokio::test]
async fn a_webhook_without_a_signature_is_refused() {
    let world = World::new().await;
    let (order, body) = world.paying("a").await;
    let stale = world
        .secrets
        .sign(body.as_bytes(), world.environment.clock.now() - HOUR);
    for signature in ["", "v1=", "t=1,v1=", stale.as_str()] {
        let (status, problem) = world.webhook(&body, signature, json!({})).await;
        assert_eq!(
            (status, &problem["error"]),
            (400, &json!("invalid_signature"))
        );
    }
    let empty = world.webhook("", &world.sign(""), json!({})).await;
    assert_eq!(empty.0, 400);
    let odd = world.webhook("[]", &world.sign("[]"), json!({})).await;
    assert_eq!((odd.0, &odd.1["error"]), (400, &json!("malformed_request")));
    let other = json!({"pathParameters": {"provider": "stripe"}});
    assert_eq!(world.webhook(&body, &world.sign(&body), other).await.0, 404);
    let (_, shown) = world
        .order_call(
            "GET /v1/orders/{order}",
            &order.claim.order().to_string(),
            "a",
        )
        .await;
    assert_eq!(shown["status"], "PAYING");
}

/// C05: not accepted, so that the provider delivers it again.
#[tokio::test]
async fn a_webhook_for_no_order_is_not_accepted() {
    let world = World::new().await;
    let (order, body) = world.paying("a").await;
    let nowhere = order
        .claim
        .in_bucket(domain::BucketId(9))
        .order()
        .to_string();
    let body = body.replace(&order.claim.order().to_string(), &nowhere);
    assert_eq!(
        world.webhook(&body, &world.sign(&body), json!({})).await.0,
        404
    );
}

#[tokio::test]
async fn errors_of_a_confirmation_name_their_fields() {
    let world = World::new().await;
    let order = world.order("a").await.claim.order().to_string();
    let (_, payment) = world.order_call(PAYMENTS, &order, "a").await;
    let (status, problem) = world
        .confirm(&payment, json!({"outcome": "maybe", "x": 1}))
        .await;
    assert_eq!(status, 422);
    let fields: Vec<_> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["field"])
        .collect();
    assert_eq!(fields, ["client_secret", "outcome", "x"]);
    let wrong = json!({"client_secret": "x", "outcome": "succeed"});
    assert_eq!(world.confirm(&payment, wrong).await.0, 404);
}

/// C11: without a secret there is no function.
#[tokio::test]
async fn it_does_not_start_without_a_secret() {
    let (mut environment, _) = testing::ledger().await;
    for secrets in ["", ",", "whsec_test,"] {
        environment.settings = settings(&environment, secrets);
        assert!(PaymentFunction::start(&environment).await.is_err());
    }
}

/// The gate has said yes, and the order is still being written.
#[tokio::test]
async fn an_order_on_its_way_is_not_ready_for_its_shopper_alone() {
    let sale = testing::World::open(&[2]).await;
    let function = PaymentFunction::start(&sale.environment).await.unwrap();
    let hold = sale.claim(0, "ada", sale.now() + HOUR).await;
    let never = sale.claim_id(0, "eve").order();
    for route in ["GET /v1/orders/{order}", PAYMENTS] {
        for (shopper, order, status, error) in [
            ("ada", hold.claim.order(), 409, "order_not_ready"),
            ("bob", hold.claim.order(), 404, "not_found"),
            ("eve", never.clone(), 404, "not_found"),
        ] {
            let session = testing::session(shopper, &[]);
            let answer = call(&function, route, json!({"order": order}), session).await;
            assert_eq!(
                (answer.0, &answer.1["error"]),
                (status, &error.into()),
                "{route} {shopper}"
            );
        }
    }
}
