//! What the edge is told of a sale, in its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::SaleId;
use domain::edge::{Document, key};
use jiff::SignedDuration;
use publisher_function::{PublisherFunction, Run};
use reqwest::header::{ETAG, HeaderValue, IF_MATCH};
use runtime::{EventFunction, Invocation};
use serde_json::{Value, json};
use testing::{Fate, judged};
use tests::{OnSale, Shop, eventually, now, until_after};
use tokio::time::timeout;

const EDGE_KEY: &str = "edge-key-for-tests-0123456789abcdef";
const NEXT_KEY: &str = "the-next-edge-key-0123456789abcdef";
const WAIT_S: u64 = 20;

fn known(shop: &Shop, sale: &SaleId) -> Value {
    let text = shop.system.edge_value(&key(sale));
    text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

async fn comes_to_know(sale: &OnSale<'_>, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, WAIT_S, async || {
        Some(known(sale.shop, &sale.sale_id())).filter(&is)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_edge_knows_the_sale_as_the_ledger_does() {
    let mut options = Shop::options();
    let keys = format!("{EDGE_KEY},{NEXT_KEY}");
    options.secrets.insert("EdgeKey".to_owned(), keys.into());
    let shop = Shop::start(options).await;
    let far = shop
        .sale_in(4_000_000, json!({"mode": "draw", "draw_window_ms": 500}))
        .await;
    let near = shop
        .sale_in(600_000, json!({"mode": "draw", "draw_window_ms": 500}))
        .await;
    let draw = shop
        .sale_in(
            2_500,
            json!({"mode": "draw", "draw_window_ms": 500, "units": 2}),
        )
        .await;
    // Ten minutes before: without the secret.
    let told = comes_to_know(
        &near,
        "a sale is known before its opening",
        Value::is_object,
    )
    .await;
    assert_eq!(told["secret"], Value::Null);
    let told = comes_to_know(&draw, "the edge can draw", |told| {
        told["secret"].is_string()
    })
    .await;
    let secret = shop.ledger().draw_secret(&draw.sale_id()).await.unwrap();
    assert_eq!(told["secret"].as_str(), secret.as_deref());
    assert_eq!(told["keys"], json!([EDGE_KEY, NEXT_KEY]));

    draw.opened().await;
    let shopper = draw.shopper("ada").await;
    shopper.enter().await.expect(201);
    draw.turn("pause").await;
    comes_to_know(&draw, "a switch", |told| told["paused"] == true).await;
    draw.turn("resume").await;
    let told = comes_to_know(&draw, "the threshold", |told| {
        told["paused"] == false && told["threshold"].as_f64() > Some(0.0)
    })
    .await;
    let row = shop.ledger().sale(&draw.sale_id()).await.unwrap().unwrap();
    let origin = told["origin"].as_str();
    let keys = [EDGE_KEY, NEXT_KEY];
    let expected = Document::of(&row, secret.as_deref(), &keys, origin, now());
    let mut expected = serde_json::to_value(&expected).unwrap();
    let holds_ms = told["fresh_until_ms"].as_i64().unwrap() - now().as_millisecond();
    assert!((60_000..=120_000).contains(&holds_ms), "{holds_ms}");
    for member in ["version", "fresh_until_ms"] {
        expected[member] = told[member].clone();
    }
    assert_eq!(told, expected);
    draw.turn("end").await;
    let told = comes_to_know(&draw, "the end", |told| told["ended"] == true).await;
    // It never holds again, so it never has to be told again.
    assert!(told["fresh_until_ms"].as_i64() > Some(now().as_millisecond() + 86_400_000));
    assert_eq!(known(&shop, &far.sale_id()), Value::Null, "not yet");
}

/// Runs that follow each other in two environments, two that meet, and someone
/// else who writes to the store: what is told is never older than what was.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_tell_the_edge_the_newer_one_stands() {
    let shop = Shop::quiet().await;
    let sale = shop.sale_in(600_000, json!({})).await;
    let publishers = [shop.publisher().await, shop.publisher().await];
    let turn = async |n: usize| {
        let paused = n.is_multiple_of(2);
        sale.turn(if paused { "pause" } else { "resume" }).await;
        paused
    };
    for n in 0..6 {
        let paused = turn(n).await;
        let next = &publishers[usize::from(n % 3 > 0)];
        next.tick(&mut Run::default()).await.unwrap();
        assert_eq!(known(&shop, &sale.sale_id())["paused"], paused, "{n}");
    }
    let mut runs = [Run::default(), Run::default()];
    for n in 0..6 {
        let paused = turn(n).await;
        for m in [n % 2, 1 - n % 2] {
            publishers[m].tick(&mut runs[m]).await.unwrap();
            assert_eq!(known(&shop, &sale.sale_id())["paused"], paused, "{n}");
        }
    }
    // The secret comes with the time, and for a run that has told nothing yet.
    let draw = json!({"mode": "draw", "draw_window_ms": 500});
    let draw = shop.sale_in(61_500, draw).await;
    let secret = async || {
        publishers[0].tick(&mut Run::default()).await.unwrap();
        known(&shop, &draw.sale_id())["secret"].is_string()
    };
    assert!(!secret().await);
    until_after(draw.opens_at, -60_000).await;
    assert!(secret().await);
    // A document of the future.
    write(&shop, &sale.sale_id(), &json!({"version": 1_000_000})).await;
    turn(0).await;
    for (publisher, run) in publishers.iter().zip(&mut runs) {
        publisher.tick(run).await.unwrap();
        publisher.tick(&mut Run::default()).await.unwrap();
        assert_eq!(known(&shop, &sale.sale_id())["version"], 1_000_000);
    }
}

async fn etag(shop: &Shop) -> HeaderValue {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let described = http.get(shop.system.edge_store_url()).send().await.unwrap();
    described.headers()[ETAG].clone()
}

/// Writes to the store as someone else would.
async fn write(shop: &Shop, sale: &SaleId, document: &Value) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let name = key(sale).replace(':', "%3A");
    let put = http
        .put(format!("{}/keys/{name}", shop.system.edge_store_url()))
        .header(IF_MATCH, etag(shop).await)
        .body(json!({"Value": document.to_string()}).to_string());
    assert_eq!(put.send().await.unwrap().status(), 200);
}

/// A document that says until when it holds is written while nothing happens,
/// too: before it ends, and not with every look.
#[tokio::test(flavor = "multi_thread")]
async fn what_holds_for_a_while_is_told_again_in_time_and_not_more_often() {
    let shop = Shop::quiet().await;
    let sale = shop.sale_in(600_000, json!({})).await;
    let id = sale.sale_id();
    let publisher = shop.publisher().await;
    let mut run = Run::default();
    let look = async |run: &mut Run| {
        let before = etag(&shop).await;
        publisher.tick(run).await.unwrap();
        etag(&shop).await != before
    };
    assert!(look(&mut run).await, "nothing was there");
    assert!(!look(&mut run).await);
    assert!(!look(&mut Run::default()).await, "as good as new");
    let aged = async |by_ms: i64| {
        let mut told = known(&shop, &id);
        let until = told["fresh_until_ms"].as_i64().unwrap();
        told["fresh_until_ms"] = (until - by_ms).into();
        write(&shop, &id, &told).await;
    };
    aged(10_000).await;
    assert!(!look(&mut Run::default()).await, "it holds long enough");
    aged(20_000).await;
    assert!(look(&mut Run::default()).await, "it is to be renewed");
    assert!(!look(&mut Run::default()).await);
}

/// An edge that is behind says no to who is admitted, and nobody else would
/// notice: the run fails, so that its alarm sounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_could_not_tell_the_edge_fails() {
    let run = async |arn: Option<&str>| {
        let mut options = Shop::options();
        options.schedules = false;
        let variable = arn.map(|arn| ("EDGE_STORE_ARN".to_owned(), arn.to_owned()));
        let own = variable.into_iter().collect();
        options
            .settings
            .insert("publisher-function".to_owned(), own);
        let shop = Shop::start(options).await;
        let _sale = shop.sale_in(600_000, json!({})).await;
        let invocation = Invocation {
            request_id: "run".to_owned(),
            deadline: now() + SignedDuration::from_millis(6_500),
        };
        let publisher = shop.publisher().await;
        publisher.handle(Value::Null, invocation).await
    };
    let gone = "arn:aws:cloudfront::000000000000:key-value-store/gone";
    assert!(run(Some(gone)).await.is_err());
    run(None).await.unwrap();
}

/// A run that Lambda had to end would not say what it could not tell.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_never_answers_keeps_no_run_beyond_its_time() {
    let shop = Shop::quiet().await;
    let _sale = shop.sale_in(600_000, json!({})).await;
    let asked = Arc::new(AtomicBool::new(false));
    let is_asked = Arc::clone(&asked);
    let environment = shop.environment("publisher-function");
    let silent = judged(&environment, move |asked| {
        // The ledger's requests name an action, the store's do not.
        if !asked.action.is_empty() {
            return Fate::Passed;
        }
        is_asked.store(true, Ordering::SeqCst);
        Fate::Late(Duration::MAX)
    });
    let publisher = PublisherFunction::start(&silent).await.unwrap();
    let invocation = Invocation {
        request_id: "run".to_owned(),
        deadline: now() + SignedDuration::from_millis(5_500),
    };
    let run = publisher.handle(Value::Null, invocation);
    assert!(timeout(Duration::from_secs(3), run).await.is_ok());
    assert!(asked.load(Ordering::SeqCst));
}
