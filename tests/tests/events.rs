//! Every event in `events/` is one that its function takes, as it is but for what
//! only a running system can make: tokens, and a provider's signature. Together they
//! are one sale, from its creation to an order that is paid.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use domain::{ClaimId, OrderStatus};
use jiff::{SignedDuration, Timestamp};
use local::Options;
use payment::signature::WebhookSecrets;
use queue::Message;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{Answer, Shop, now};

/// In a sale's order, with what is answered: the status of a call, or the whole answer
/// to anything else.
fn events() -> [(&'static str, Value); 11] {
    [
        // While there is no sale, no run looks a second time.
        ("controller-schedule.json", Value::Null),
        ("publisher-schedule.json", Value::Null),
        ("reconciler-schedule.json", Value::Null),
        ("sweeper-schedule.json", Value::Null),
        ("admin-create.json", json!(201)),
        ("pass-create.json", json!(201)),
        ("entry-create.json", json!(201)),
        ("claim-create.json", json!(201)),
        ("order-batch.json", json!({"batchItemFailures": []})),
        ("payment-webhook.json", json!(200)),
        ("status-read.json", json!(200)),
    ]
}

/// An hour before the opening and a minute after it, as the events are. By then the
/// draw's two seconds are over on a busy machine too: the entry is a late one.
const CLOCKS: [(i64, &[&str]); 2] = [
    (-3_600, &["admin", "pass"]),
    (
        60,
        &["controller", "entry", "claim", "order", "payment", "status"],
    ),
];

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../events");

fn read(name: &str) -> Value {
    let file = std::fs::read(Path::new(FOLDER).join(name));
    serde_json::from_slice(&file.unwrap()).unwrap()
}

/// A text that holds JSON; `null` if there is none.
fn inner(text: &Value) -> Value {
    serde_json::from_str(text.as_str().unwrap_or("null")).unwrap()
}

fn function_of(event: &str) -> String {
    format!("{}-function", event.split('-').next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_taken_by_its_function() {
    let sale = read("sale.json");
    let opens_at: Timestamp = sale["opens_at"].as_str().unwrap().parse().unwrap();
    let ahead = CLOCKS.iter().flat_map(|(after_s, functions)| {
        let ahead = opens_at + SignedDuration::from_secs(*after_s) - now();
        functions.iter().map(move |of| (function_of(of), ahead))
    });
    let shop = Shop::start(Options {
        schedules: false,
        // What the claim sends stays there: the batch is the event.
        event_sources: false,
        skew: ahead.collect(),
        ..Shop::options()
    })
    .await;

    // In the place of what the events have there.
    let mut headers = BTreeMap::<&str, Value>::new();
    for (name, expected) in events() {
        let mut event = read(name);
        for (header, value) in &headers {
            if let Some(sent) = event["headers"].get_mut(header) {
                *sent = value.clone();
            }
        }
        let function = function_of(name);
        let answer = shop.system.invoke(&function, &event).await.unwrap();
        let known = answer.get("statusCode").unwrap_or(&answer);
        assert_eq!(*known, expected, "{name}: {answer:#}");
        let body = inner(&answer["body"]);
        match name {
            "admin-create.json" => {
                // The phone sale, as the README has a merchant send it.
                assert_eq!(inner(&event["body"]), sale);
                assert_eq!(body["buckets"], 40);
                shop.controller().await.tick().await.unwrap();
            }
            "pass-create.json" => {
                headers.insert("sale-pass", body["pass"].clone());
            }
            "entry-create.json" => {
                headers.insert("sale-entry", body["entry_token"].clone());
            }
            "claim-create.json" => {
                let sent = inner(&read("order-batch.json")["Records"][0]["body"]);
                assert_eq!(body["claim_id"], sent["claim"]);
            }
            "order-batch.json" => {
                for record in event["Records"].as_array().unwrap() {
                    let message: Message = serde_json::from_value(inner(&record["body"])).unwrap();
                    // As the claim function sends it, to the byte.
                    assert_eq!(record["body"], serde_json::to_string(&message).unwrap());
                    let (sent, id) = (&record["attributes"], message.deduplication_id());
                    assert_eq!(sent["MessageGroupId"], message.group());
                    assert_eq!(sent["MessageDeduplicationId"], id);
                    let claim: ClaimId = id.parse().unwrap();
                    let order = shop.ledger().order(&claim).await.unwrap().unwrap();
                    assert_eq!(order.status, OrderStatus::PendingPayment);
                }
                let paid = read("payment-webhook.json")["body"].clone();
                headers.insert("sandbox-signature", pay(&shop, &paid).await.into());
            }
            "payment-webhook.json" => assert_eq!(body["result"], "paid"),
            _ => {}
        }
    }

    let files = std::fs::read_dir(FOLDER).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| name != "sale.json").collect();
    assert_eq!(files, events().map(|(name, _)| name.to_owned()).into());
}

/// Begins the payment that a webhook tells of; the webhook's signature.
async fn pay(shop: &Shop, webhook: &Value) -> String {
    let event = inner(webhook);
    let order = event["metadata"]["order_id"].as_str().unwrap();
    let path = format!("/v1/orders/{order}/payments");
    let request = shop.request(Method::POST, &path);
    let begun = Answer::of(request.bearer_auth(shop.session("u_42"))).await;
    assert_eq!(begun.expect(201).json["intent_id"], event["intent"]);
    let payments = shop.environment("payment-function");
    let secrets = WebhookSecrets::from_settings(&payments.settings).unwrap();
    let body = webhook.as_str().unwrap();
    secrets.sign(body.as_bytes(), payments.clock.now())
}
