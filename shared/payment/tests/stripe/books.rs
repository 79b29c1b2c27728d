//! Books of many pages.

use std::collections::BTreeSet;

use domain::{BucketId, OrderId, SaleId};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use payment::{Provider, ProviderPayment};
use serde_json::{Value, json};

use crate::stub::{Asked, Reply, Stub, inr, now, ok, order, order_of, refused};

/// How many intents there are, and within how many seconds they were made.
const INTENTS: usize = 1_234;
const SECONDS: i64 = 90;

fn sale() -> SaleId {
    "sale".parse().unwrap()
}

fn opened() -> Timestamp {
    now() - SignedDuration::from_hours(2)
}

fn row(nth: usize, order: &OrderId) -> Value {
    let created = opened().as_second() + SECONDS * nth as i64 / INTENTS as i64;
    // One of ten never succeeded, one of ten went back.
    let captured = !nth.is_multiple_of(10);
    let charge = json!({
        "id": format!("ch_{nth}"), "object": "charge", "created": created,
        "amount_refunded": if nth % 10 == 1 { 999_900 } else { 0 },
    });
    json!({
        "id": format!("pi_{nth:05}"), "object": "payment_intent", "amount": 999_900,
        "amount_received": if captured { 999_900 } else { 0 }, "currency": "inr",
        "status": if captured { "succeeded" } else { "canceled" },
        "client_secret": "x", "created": created, "metadata": {"order_id": order},
        "latest_charge": if captured { charge } else { json!(null) },
    })
}

/// As Stripe pages: newest first, a hundred at most.
fn page(rows: &[Value], asked: &Asked) -> Reply {
    assert_eq!(asked.call, "GET /v1/payment_intents");
    assert_eq!(asked.fields["expand[]"], "data.latest_charge");
    let bound = |name: &str| asked.fields[name].parse::<i64>().unwrap();
    let (from, to) = (bound("created[gte]"), bound("created[lt]"));
    let within = |row: &&Value| (from..to).contains(&row["created"].as_i64().unwrap());
    let mut left: Vec<&Value> = rows.iter().rev().filter(within).collect();
    if let Some(after) = asked.fields.get("starting_after") {
        let at = left.iter().position(|row| row["id"] == after.as_str());
        left.drain(..=at.expect("it is on a page of this window"));
    }
    let more = left.len() > 100;
    left.truncate(100);
    ok(json!({"object": "list", "data": left, "has_more": more}))
}

fn ids(payments: &[ProviderPayment]) -> BTreeSet<&str> {
    let ids: BTreeSet<&str> = payments.iter().map(|one| one.intent.as_str()).collect();
    assert_eq!(ids.len(), payments.len(), "twice in the books");
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn every_capture_is_found_once() {
    let rows: Vec<Value> = (0..INTENTS).map(|nth| row(nth, &order())).collect();
    let right: BTreeSet<String> = (0..INTENTS)
        .filter(|nth| !nth.is_multiple_of(10))
        .map(|nth| format!("pi_{nth:05}"))
        .collect();
    let stub = Stub::that(move |asked| page(&rows, asked)).await;
    let books = stub.provider.list(&sale(), BucketId(3), opened()).await;
    let books = books.unwrap();
    let right: BTreeSet<&str> = right.iter().map(String::as_str).collect();
    assert_eq!(ids(&books), right);
    for payment in &books {
        let returned = payment.intent.as_str().ends_with('1');
        assert_eq!(payment.captured, inr(999_900));
        assert_eq!(payment.refunded, returned.then_some(inr(999_900)));
    }
}

/// All within one second: a window can't be split any more, and is read to its
/// end.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_may_have_many_pages() {
    let created = opened().as_second() + 5;
    let rows: Vec<Value> = (0..350)
        .map(|nth| {
            let mut row = row(nth, &order());
            row["created"] = created.into();
            row
        })
        .collect();
    let stub = Stub::that(move |asked| page(&rows, asked)).await;
    let books = stub.provider.list(&sale(), BucketId(3), opened()).await;
    assert_eq!(ids(&books.unwrap()).len(), 350 - 35);
}

#[tokio::test]
async fn the_accounts_other_business_is_passed_over() {
    let foreign = |metadata: Value| {
        let mut row = row(1, &order());
        row["metadata"] = metadata;
        row["currency"] = "of_next_year".into();
        row
    };
    let rows = [
        foreign(json!({})),
        foreign(json!({"order_id": "1234"})),
        row(3, &order()),
    ];
    let stub = Stub::that(move |asked| page(&rows, asked)).await;
    let books = stub.provider.list(&sale(), BucketId(3), opened()).await;
    assert_eq!(ids(&books.unwrap()), BTreeSet::from(["pi_00003"]));
    let other = stub.provider.list(&sale(), BucketId(4), opened()).await;
    assert_eq!(other.unwrap(), []);
    let none = "other".parse().unwrap();
    let other = stub.provider.list(&none, BucketId(3), opened()).await;
    assert_eq!(other.unwrap(), []);
}

/// Buckets of one sale that are asked for side by side share readings, and each
/// gets one that began after it asked.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_together_reads_together() {
    let rows: Vec<Value> = (1..10).map(|nth| row(nth, &order())).collect();
    // All have asked by the time that the first reading ends.
    let stub = Stub::that(move |asked| Reply::Late(Box::new(page(&rows, asked)))).await;
    let provider = &stub.provider;
    let opened = opened();
    let asked = join_all((0..16).map(|n| async move {
        let bucket = BucketId(n % 4 + 2);
        (bucket, provider.list(&sale(), bucket, opened).await)
    }));
    for (bucket, books) in asked.await {
        let right = if bucket == BucketId(3) { 9 } else { 0 };
        assert_eq!(books.unwrap().len(), right);
    }
    let readings = stub.asked().len();
    assert!((1..=2).contains(&readings), "{readings}");
    // Who asks later gets newer books.
    stub.provider
        .list(&sale(), BucketId(3), opened)
        .await
        .unwrap();
    assert_eq!(stub.asked().len(), readings + 1);
}

/// Half a book is none.
#[tokio::test]
async fn a_page_that_is_missing_is_an_error() {
    let rows: Vec<Value> = (0..INTENTS).map(|nth| row(nth, &order_of("b"))).collect();
    let mut pages = 0;
    let stub = Stub::that(move |asked| {
        pages += 1;
        match pages {
            1..=3 => page(&rows, asked),
            _ => refused(401, "api_key_expired"),
        }
    })
    .await;
    let books = stub.provider.list(&sale(), BucketId(3), opened()).await;
    assert!(books.is_err());
}
