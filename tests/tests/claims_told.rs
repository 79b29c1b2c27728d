//! The claim function, called directly. What it tells beside its answer: claims are
//! counted by their answers, and an order knows when its claim was taken. What it asks of
//! others, and how long it waits for them.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::HttpFunction;
use claim_function::ClaimFunction;
use jiff::{SignedDuration, Timestamp};
use local::Options;
use runtime::{Environment, Metric};
use serde_json::{Value, json};
use testing::http_event::{http_event, merge, session};
use testing::{Asked, Fate, Metrics, judged, metrics_of};
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
        self.call(&event).await
    }

    /// Gives a claim back; the status.
    async fn give_back(&self, shopper: &Shopper<'_>, claim: &Value) -> u16 {
        let parameters = json!({"claim": claim["claim_id"]});
        let event = http_event(
            "DELETE /v1/claims/{claim}",
            &parameters,
            session(&shopper.name, &[]),
        );
        self.call(&event).await.0
    }

    async fn call(&self, event: &Value) -> (u16, Metrics) {
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        let work = Box::pin(api::invoke(&self.0, request));
        let (response, metrics) = metrics_of(work).await;
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

/// What is asked for by its key: the kind of row.
fn row(asked: &Asked) -> &str {
    let row = asked.body["Key"]["sk"]["S"].as_str().unwrap_or_default();
    row.split('#').next().unwrap_or_default()
}

/// A gate that forgot a claim says yes to it again, though it may be voided. While that is
/// not known, nobody is told a yes.
#[tokio::test(flavor = "multi_thread")]
async fn a_yes_of_which_the_ledger_says_nothing_in_time_is_not_told_as_one() {
    let shop = Shop::quiet().await;
    for refused in [true, false] {
        let environment = judged(&shop.environment("claim-function"), move |asked| {
            match (asked.action.as_str(), row(asked)) {
                ("GetItem", "C") if refused => {
                    Fate::Answered(400, json!({"__type": "AccessDeniedException"}))
                }
                ("GetItem", "C") => Fate::Late(Duration::from_secs(2)),
                _ => Fate::Passed,
            }
        });
        let counter = Counter::new(&environment).await;
        let sale = shop.sale(json!({"units": 1})).await;
        let shopper = sale.shopper("shopper-a").await;
        sale.opened().await;
        counter
            .counts(&sale, &shopper, "key-of-a", "confirming")
            .await;
    }
}

/// The provider says nothing for as long as the function has. Whoever gives a hold back
/// hears of it before the function would be cut off, and the hold is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn who_gives_back_waits_for_the_provider_no_longer_than_the_function_lasts() {
    const FUNCTION_MAX: Duration = Duration::from_secs(5);
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 1})).await;
    let shopper = sale.shopper("shopper-a").await;
    sale.opened().await;
    let claim = shopper.hold().await;
    let payment = shopper.begin_payment(&claim).await.expect(201).json;
    let declined = shopper.confirm(&payment, "decline", None).await;
    declined.deliver(&shopper).await.expect(200);
    let asked_before = AtomicBool::new(false);
    let environment = judged(&shop.environment("claim-function"), move |asked| {
        let is = asked.body.to_string().contains("SANDBOX#");
        if is && !asked_before.swap(true, Ordering::Relaxed) {
            return Fate::Late(FUNCTION_MAX);
        }
        Fate::Passed
    });
    let counter = Counter::new(&environment).await;
    assert_eq!(counter.give_back(&shopper, &claim).await, 503);
    shopper.order_is(&claim, "PENDING_PAYMENT").await;
    // The provider is back.
    assert_eq!(counter.give_back(&shopper, &claim).await, 200);
    shopper.order_is(&claim, "CANCELLED").await;
}

/// What a shop's gates have been asked for so far: how often, by command, those too that
/// a script gives.
fn commands(shop: &Shop) -> BTreeMap<String, u64> {
    // Of connections and of the cluster itself; and the counter of a race, within the
    // script, that lasts for a second.
    const NOT_OF_CLAIMS: [&str; 12] = [
        "asking", "auth", "client", "cluster", "command", "hello", "incr", "info", "pexpire",
        "ping", "readonly", "select",
    ];
    let mut server = shop.system.gate().unwrap().connect(0).unwrap();
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut server)
        .unwrap();
    let lines = stats.lines().filter_map(|line| {
        let (name, calls) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = calls.split(',').next()?.parse().ok()?;
        let kind = name.split('|').next()?;
        (!NOT_OF_CLAIMS.contains(&kind)).then(|| (name.to_owned(), calls))
    });
    lines.collect()
}

/// P4: each question takes its time. A yes is one script; then the message is stored, one
/// look waits for the replica, and the claim's row is read. A no is one script, and a look
/// at each other bucket, all at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_asks_for_no_more_than_it_must() {
    let shop = Shop::quiet().await;
    // The gates are the claim function's alone.
    shop.system.kill("order-function").unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let environment = judged(&shop.environment("claim-function"), {
        let asked = Arc::clone(&asked);
        move |request| {
            let row = row(request);
            // What was read of a sale is kept for a second.
            if !matches!(row, "SALE" | "GATES") {
                asked
                    .lock()
                    .unwrap()
                    .push(format!("{} {row}", request.action));
            }
            Fate::Passed
        }
    });
    let counter = Counter::new(&environment).await;
    for buckets in [1_u16, 3] {
        let sale = shop
            .sale_in(1_500, json!({"units": buckets, "buckets": buckets}))
            .await;
        let (winner, loser) = (sale.shopper_at(0).await, sale.shopper_at(0).await);
        let mut others = Vec::new();
        for home in 1..buckets {
            others.push(sale.shopper_at(home).await);
        }
        sale.opened().await;
        for other in &others {
            other.claim().await.expect(201);
        }
        let cost = async |shopper: &Shopper<'_>, answer: &str| {
            let before = commands(&shop);
            asked.lock().unwrap().clear();
            counter.counts(&sale, shopper, &shopper.key(), answer).await;
            let mut gates = commands(&shop);
            for (name, calls) in &mut gates {
                *calls -= before.get(name).unwrap_or(&0);
            }
            gates.retain(|_, calls| *calls > 0);
            (gates, std::mem::take(&mut *asked.lock().unwrap()))
        };
        let gates = |parts: &[(&str, u16)]| -> BTreeMap<String, u64> {
            let parts = parts.iter().filter(|(_, calls)| *calls > 0);
            parts
                .map(|(name, calls)| ((*name).to_owned(), u64::from(*calls)))
                .collect()
        };
        let (of_gates, of_others) = cost(&winner, "claimed").await;
        let script = [("evalsha", 1), ("hset", 1), ("zadd", 1)];
        let look = [("script|exists", 1), ("set", 1), ("wait", 1)];
        // One in the script, one in the look.
        let both = [("hmget", 2)];
        assert_eq!(of_gates, gates(&[&script[..], &look, &both].concat()));
        assert_eq!(of_others, ["SendMessage ", "GetItem C"]);

        // The first "sold out" of a race gives a place in line.
        loser.claim().await.expect(409);
        let (of_gates, of_others) = cost(&loser, "sold_out").await;
        let looks = buckets - 1;
        let no = [
            ("evalsha", 1),
            ("hmget", 1 + looks),
            ("script|exists", looks),
        ];
        assert_eq!(of_gates, gates(&no));
        assert_eq!(of_others, [""; 0]);
    }
}
