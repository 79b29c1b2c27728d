//! All gates die in the middle of a sale. It pauses by itself, or goes on slowly
//! if its merchant chose that; and goes on by itself once they are back, with
//! nothing in their memory.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::time::Duration;

use domain::{BucketId, OrderStatus};
use local::Options;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{Answer, OnSale, Shop, Shopper, all, eventually};
use tokio::time::Instant;

const PRIMARIES: usize = 3;
const BUCKETS: u16 = 6;
const UNITS: usize = 36;
/// Shoppers who claim while all is well.
const EARLY: usize = 12;
const SHOPPERS: usize = 60;

/// Claims a second without gates.
const RATE: usize = 6;

/// Time for everyone to get a pass.
const LEAD_MS: i64 = 6_000;

/// Longest that anything is waited for.
const PATIENCE_S: u64 = 60;

async fn shop() -> Shop {
    Shop::start(Options {
        primaries: PRIMARIES,
        replicas: 0,
        node_timeout: Duration::from_secs(2),
        ..Shop::options()
    })
    .await
}

async fn sale(shop: &Shop, ledger_only_rate_per_s: usize) -> OnSale<'_> {
    let draft = json!({
        "units": UNITS,
        "buckets": BUCKETS,
        "pay_window_s": 600,
        "waitlist_pay_window_s": 600,
        "ledger_only_rate_per_s": ledger_only_rate_per_s,
    });
    shop.sale_in(LEAD_MS, draft).await
}

fn kill(shop: &Shop) {
    let gates = shop.system.gate().unwrap();
    (0..PRIMARIES).for_each(|node| gates.kill(node));
}

fn restart(shop: &Shop) {
    let gates = shop.system.gate().unwrap();
    (0..PRIMARIES).for_each(|node| gates.restart(node).unwrap());
}

async fn says(sale: &OnSale<'_>, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, PATIENCE_S, async || {
        Some(sale.status().await).filter(|status| is(status))
    })
    .await
}

/// Claims as a page does, until there is an answer.
async fn decided(shopper: &Shopper<'_>) -> Answer {
    eventually("a claim is decided", PATIENCE_S, async || {
        let answer = shopper.claim().await;
        (!matches!(answer.status, 429 | 503 | 504)).then_some(answer)
    })
    .await
}

/// Live and paid orders, by the ledger alone: the report needs the gates.
async fn live(sale: &OnSale<'_>) -> usize {
    let ledger = sale.shop.ledger();
    let mut live = 0;
    for bucket in (0..BUCKETS).map(BucketId) {
        let whole = ledger.whole_bucket(&sale.sale_id(), bucket).await.unwrap();
        assert!(whole.bucket.allotted <= whole.bucket.capacity);
        let orders = whole.orders.iter();
        live += orders.filter(|order| order.status.holds_units()).count();
    }
    live
}

/// Waits for a reconciliation that begins from now on and finds nothing.
async fn reconciled(sale: &OnSale<'_>) {
    eventually("everything agrees", PATIENCE_S, async || {
        let report = sale.report().await;
        let found = &report["reconciliation"];
        let person = |one: &Value| one["done"] == "needs_person";
        let all = found["mismatches"].as_array().into_iter().flatten();
        assert_eq!(all.filter(|one| person(one)).count(), 0, "{found:#}");
        (found["agrees"] == true && found["counts"]["held"] == report["held"]).then_some(())
    })
    .await;
}

/// Half of the shoppers, once all is well.
async fn opened<'a>(sale: &'a OnSale<'a>) -> (Vec<Shopper<'a>>, Vec<Shopper<'a>>) {
    let mut early = sale.crowd(SHOPPERS).await;
    let late = early.split_off(EARLY);
    sale.opened().await;
    for answer in all(early.iter().map(decided)).await {
        assert!(answer.is_yes(), "{:#}", answer.json);
    }
    eventually("the early ones have orders", PATIENCE_S, async || {
        (live(sale).await == EARLY).then_some(())
    })
    .await;
    (early, late)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_whose_gates_are_gone_pauses_by_itself_and_goes_on_by_itself() {
    let shop = shop().await;
    let sale = sale(&shop, 0).await;
    let (early, late) = opened(&sale).await;
    assert_eq!(sale.status().await["paused"], false);

    kill(&shop);
    let status = says(&sale, "the sale pauses by itself", |of| {
        of["paused"] == true
    })
    .await;
    assert_eq!(status["paused_by"], "gates");
    assert_eq!(status["ledger_only"], false);
    let merchant = sale.admin(Method::GET, "", &json!(null)).await;
    assert_eq!(merchant.json["switches"]["paused"], false);
    for answer in all(late.iter().take(5).map(Shopper::claim)).await {
        assert_eq!(answer.status, 503, "{:#}", answer.json);
        assert!(!answer.header("retry-after").is_empty());
    }
    assert_eq!(live(&sale).await, EARLY);

    restart(&shop);
    says(&sale, "the sale goes on by itself", |of| {
        of["paused"] == false
    })
    .await;
    let answers = all(late.iter().map(decided)).await;
    let yes = answers.iter().filter(|answer| answer.is_yes()).count();
    assert_eq!(yes, UNITS - EARLY);
    sale.comes_to("held", UNITS as i64).await;
    let books = sale.rest().await;
    assert_eq!(books.count("free"), 0);
    for shopper in &early {
        assert_eq!(books.order_of(&shopper.name).len(), 1);
    }
    reconciled(&sale).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_ledger_only_mode_orders_are_made_while_the_gates_are_gone() {
    let shop = shop().await;
    let sale = sale(&shop, RATE).await;
    let (_early, late) = opened(&sale).await;

    kill(&shop);
    let status = says(&sale, "the ledger decides alone", |of| {
        of["ledger_only"] == true
    })
    .await;
    assert_eq!(
        (&status["paused"], &status["paused_by"]),
        (&json!(false), &json!(null))
    );

    // The same key is the same claim; another key of the same shopper, too.
    let first = &late[0];
    let claim = decided(first).await.expect(202);
    assert_eq!(claim.text("status"), "CONFIRMING");
    let begun = Instant::now();
    let order = first.ordered(&claim.json).await;
    assert_eq!(order["status"], "PENDING_PAYMENT");
    for again in [
        first.claim().await,
        first.claim_as("another-key-0001").await,
    ] {
        assert_eq!(again.expect(200).text("claim_id"), claim.text("claim_id"));
    }
    first.read_claim(&claim.json).await.expect(200);
    assert_eq!(first.pay(&claim.json).await["status"], "PAID");

    // Everyone else keeps asking: so many a second are let through, and nobody
    // hears "sold out" while there is a unit.
    let before = live(&sale).await;
    let answers = all(late[1..].iter().map(decided)).await;
    let took = begun.elapsed().as_secs_f64();
    let yes: Vec<_> = answers.iter().filter(|answer| answer.is_yes()).collect();
    assert!(yes.iter().all(|answer| answer.status == 202), "{yes:#?}");
    let most = RATE as f64 * (took + 2.0) + f64::from(BUCKETS);
    assert!((yes.len() as f64) < most, "{} in {took} s", yes.len());
    for no in answers.iter().filter(|answer| !answer.is_yes()) {
        assert_eq!(no.error(), "sold_out", "{:#}", no.json);
    }
    eventually("every unit has an order", PATIENCE_S, async || {
        (live(&sale).await == UNITS).then_some(())
    })
    .await;
    assert!(before < UNITS);

    restart(&shop);
    says(&sale, "gates are back", |of| of["ledger_only"] == false).await;
    eventually("every bucket is recovered", PATIENCE_S, async || {
        let lives = sale.gates().await.addresses;
        lives.iter().all(|address| address.epoch > 1).then_some(())
    })
    .await;
    // The gates know what was sold without them, and who has it.
    assert_eq!(
        first.claim().await.expect(200).text("claim_id"),
        claim.text("claim_id")
    );
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("paid")), (0, 1));
    assert_eq!(books.count("held"), UNITS as i64 - 1);
    for shopper in &late {
        let orders = books.order_of(&shopper.name);
        let live = orders.iter().filter(|order| order["status"] != "VOIDED");
        assert!(live.count() <= 1, "{orders:#?}");
    }
    reconciled(&sale).await;
}

/// The gates are well and answer everybody but one function, which takes claims
/// without them. A yes that a gate gave is not told as such from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_life_is_closed_is_not_believed() {
    let shop = Shop::quiet().await;
    let draft = json!({"units": 4, "ledger_only_rate_per_s": 10});
    let sale = shop.sale_in(1_500, draft).await;
    let crowd = sale.crowd(3).await;
    sale.opened().await;
    crowd[0].claim().await.expect(201);
    let ledger = shop.ledger();
    let closed = ledger.close_life(&sale.sale_id(), BucketId(0), 1).await;
    assert!(closed.unwrap());
    let unsure = crowd[1].claim().await.expect(202);
    assert_eq!(unsure.text("status"), "CONFIRMING");
    crowd[1].ordered(&unsure.json).await;

    // The sweeper has it recovered although the gate seems open.
    let sweeper = shop.sweeper().await;
    sweeper.sweep().await.unwrap();
    sweeper.keep_up().await.unwrap();
    eventually("the next life begins", PATIENCE_S, async || {
        let gates = sale.gates().await;
        (gates.of(BucketId(0)).unwrap().epoch == 2).then_some(())
    })
    .await;
    eventually("a yes is told again", PATIENCE_S, async || {
        (crowd[2].claim_patiently().await.status == 201).then_some(())
    })
    .await;
    let books = sale.rest().await;
    assert_eq!((books.count("held"), books.count("free")), (3, 1));
    let status = |order: &&Value| order["status"] == OrderStatus::PendingPayment.name();
    assert_eq!(books.orders().filter(status).count(), 3);
}
