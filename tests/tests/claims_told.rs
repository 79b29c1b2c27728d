//! What the claim function tells beside its answer: claims are counted by their
//! answers, and an order knows when its claim was taken.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::HttpFunction;
use claim_function::ClaimFunction;
use jiff::{SignedDuration, Timestamp};
use local::Options;
use runtime::{Environment, Metric};
use serde_json::{Value, json};
use testing::http_event::{http_event, merge, session};
use testing::{Fate, Metrics, judged, metrics_of};
use tests::{OnSale, Shop, Shopper, eventually};

const CLAIMS: &str = "POST /v1/sales/{sale}/claims";

/// The claim function of a shop, called directly: what it writes is heard.
struct Counter(ClaimFunction);

impl Counter {
    async fn new(environment: &Environment) -> Self {
        Self(ClaimFunction::start(environment).await.unwrap())
    }

    /// Claims one unit under this key; status and metrics.
    async fn claim(&self, sale: &str, shopper: &Shopper<'_>, key: &str) -> (u16, Metrics) {
        let mut headers = json!({"sale-pass": shopper.pass, "idempotency-key": key});
        if let Some(entry) = shopper.entry.get() {
            headers["sale-entry"] = entry.as_str().into();
        }
        let mut change = session(&shopper.name, &[]);
        merge(&mut change, json!({"headers": headers, "body": "{}"}));
        let event = http_event(CLAIMS, &json!({"sale": sale}), change);
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        let (response, metrics) = metrics_of(api::invoke(&self.0, request)).await;
        (response.status().as_u16(), metrics)
    }

    /// Claims, and asserts what was answered and that exactly this was counted.
    async fn counts(&self, sale: &OnSale<'_>, shopper: &Shopper<'_>, key: &str, answer: &str) {
        let (status, metrics) = self.claim(&sale.id, shopper, key).await;
        let dimensions = [("sale", sale.id.as_str()), ("answer", answer)];
        let counted = metrics.series(Metric::Claims, &dimensions);
        assert_eq!(counted, [1.0], "{answer}: {status}, {metrics:?}");
        metrics.hold_none_of([
            shopper.name.as_str(),
            key,
            &shopper.pass,
            &shopper.session,
            shopper.entry.get().map_or(&shopper.pass, |entry| entry),
        ]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_are_counted_by_their_answers() {
    let shop = Shop::quiet().await;
    let counter = Counter::new(&shop.environment("claim-function")).await;
    let sale = shop.sale_in(2_000, json!({"units": 1})).await;
    let (first, second) = (
        sale.shopper("shopper-a").await,
        sale.shopper("shopper-b").await,
    );
    counter.counts(&sale, &first, "key-of-a", "not_open").await;
    sale.opened().await;
    counter.counts(&sale, &first, "key-of-a", "claimed").await;
    counter.counts(&sale, &first, "key-of-a", "same").await;
    counter.counts(&sale, &second, "key-of-b", "sold_out").await;
    let forged = Shopper {
        sale: &sale,
        name: first.name.clone(),
        session: first.session.clone(),
        pass: second.pass.clone(),
        entry: Default::default(),
    };
    counter
        .counts(&sale, &forged, "key-of-c", "invalid_pass")
        .await;
    sale.turn("pause").await;
    // What was read of a sale is kept for a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    counter.counts(&sale, &second, "key-of-b", "paused").await;
}

/// Nothing of a "sold out" outlives it: the instance that said it sells the unit that
/// came back.
#[tokio::test(flavor = "multi_thread")]
async fn a03_an_instance_that_said_sold_out_sells_what_comes_back() {
    let shop = Shop::quiet().await;
    let counter = Counter::new(&shop.environment("claim-function")).await;
    let controller = shop.controller().await;
    let sale = shop.sale(json!({"units": 1})).await;
    let (first, second) = (
        sale.shopper("shopper-a").await,
        sale.shopper("shopper-b").await,
    );
    sale.opened().await;
    counter.counts(&sale, &first, "key-of-a", "claimed").await;
    counter.counts(&sale, &second, "key-of-b", "sold_out").await;
    // The place in line, which a page keeps.
    let answer = second.claim_as("key-of-b").await;
    answer.expect_problem(409, "sold_out");
    assert!(second.entry.get().is_some());
    controller.tick().await.unwrap();
    sale.reaches("ALL_CLAIMED").await;
    assert_eq!(sale.count("free").await, 0);

    let hold = first.claim_as("key-of-a").await.expect(200).json;
    first.ordered(&hold).await;
    first.give_back(&hold).await.expect(200);
    assert_eq!(sale.count("free").await, 1);
    controller.tick().await.unwrap();
    let status = sale.reaches("LIVE").await;
    assert_eq!(
        (&status["stock"], &status["free"]),
        (&json!("AVAILABLE"), &json!(1))
    );
    // What was read of a sale is kept for a second.
    let claimed = eventually("the same instance sells it", 2, async || {
        let (status, metrics) = counter.claim(&sale.id, &second, "key-of-b").await;
        (status < 300).then_some(metrics)
    });
    let dimensions = [("sale", sale.id.as_str()), ("answer", "claimed")];
    assert_eq!(claimed.await.series(Metric::Claims, &dimensions), [1.0]);
    sale.comes_to("held", 1).await;
    sale.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_that_no_replica_acknowledged_is_counted_as_such() {
    // A replica is waited for, and there is none.
    let mut options = Options {
        schedules: false,
        ..Shop::options()
    };
    let acks = ("GATE_ACKS".to_owned(), "1".to_owned());
    let settings = options.settings.entry("claim-function".to_owned());
    settings.or_default().extend([acks]);
    let shop = Shop::start(options).await;
    let counter = Counter::new(&shop.environment("claim-function")).await;
    let sale = shop.sale(json!({"units": 1})).await;
    let shopper = sale.shopper("shopper-a").await;
    sale.opened().await;
    counter
        .counts(&sale, &shopper, "key-of-a", "confirming")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_made_up_is_no_series() {
    let shop = Shop::quiet().await;
    let counter = Counter::new(&shop.environment("claim-function")).await;
    let sale = shop.sale(json!({})).await;
    let shopper = sale.shopper("shopper-a").await;
    for made_up in ["sale-of-nobody", "not a name"] {
        let (status, metrics) = counter.claim(made_up, &shopper, "key-of-a").await;
        assert_eq!(status, 404);
        assert!(metrics.is_empty(), "{metrics:?}");
    }
}

/// A claim that was under way when its unit came back took it after that: its time is
/// not that of its arrival.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_has_the_time_at_which_its_gate_had_said_yes() {
    let shop = Shop::quiet().await;
    let sent = Arc::new(Mutex::new(None));
    let environment = shop.environment("claim-function");
    let slow = judged(&environment, {
        let sent = Arc::clone(&sent);
        move |asked| {
            if asked.action == "SendMessage" {
                *sent.lock().unwrap() = Some(asked.body["MessageBody"].clone());
                return Fate::Passed;
            }
            Fate::Late(Duration::from_millis(300))
        }
    });
    let counter = Counter::new(&slow).await;
    let sale = shop.sale(json!({"units": 1})).await;
    let shopper = sale.shopper("shopper-a").await;
    sale.opened().await;
    let begun = environment.clock.now();
    assert_eq!(counter.claim(&sale.id, &shopper, "key-of-a").await.0, 201);
    let body = sent.lock().unwrap().take().unwrap();
    let message: Value = serde_json::from_str(body.as_str().unwrap()).unwrap();
    let claimed_at = message["claimed_at"].as_i64().unwrap();
    let claimed_at = Timestamp::from_millisecond(claimed_at).unwrap();
    // The sale is read before the gate is asked.
    assert!(claimed_at - begun >= SignedDuration::from_millis(300));
}
