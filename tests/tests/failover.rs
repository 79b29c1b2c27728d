//! A primary dies in the middle of a sale. Its replica takes over without the
//! scripts, and perhaps without the newest claims; the sale goes on.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use local::Options;
use serde_json::json;
use tests::{Answer, Shop, Shopper, all, eventually};

const SHOPPERS: usize = 500;
const UNITS: usize = 240;
/// Two on each primary.
const BUCKETS: u16 = 16;

/// Time for everyone to get a pass.
const LEAD_MS: i64 = 20_000;

/// Longest that a shopper is asked to try again.
const PATIENCE_S: u64 = 60;

/// Claims as a page does, until there is an answer.
async fn decided(shopper: &Shopper<'_>) -> Answer {
    eventually("a claim is decided", PATIENCE_S, async || {
        let answer = shopper.claim().await;
        (!matches!(answer.status, 429 | 503 | 504)).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_outlives_a_primary() {
    let shop = Shop::start(Options {
        primaries: 8,
        replicas: 1,
        node_timeout: Duration::from_secs(2),
        ..Shop::options()
    })
    .await;
    let sale = shop
        .sale_in(
            LEAD_MS,
            json!({"units": UNITS, "buckets": BUCKETS, "pay_window_s": 600}),
        )
        .await;
    let crowd = sale.crowd(SHOPPERS).await;
    sale.opened().await;

    let yes = AtomicUsize::new(0);
    let killed = async {
        while yes.load(Ordering::Relaxed) < UNITS / 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        shop.system.gate().unwrap().kill(0);
    };
    let claims = all(crowd.iter().map(|shopper| async {
        let answer = decided(shopper).await;
        yes.fetch_add(usize::from(answer.is_yes()), Ordering::Relaxed);
        answer
    }));
    let ((), answers) = tokio::join!(killed, claims);

    // Every unit is sold, those of the dead primary's buckets, too.
    sale.comes_to("held", UNITS as i64).await;
    let books = sale.rest().await;
    assert_eq!(books.count("free"), 0);
    let lives = sale.gates().await.addresses;
    let recovered = lives.iter().filter(|address| address.epoch > 1).count();
    assert!(recovered >= 1, "{lives:?}");

    // A yes is kept; what was only "confirming" is told how it ended.
    let mut confirming = 0;
    for (shopper, answer) in crowd.iter().zip(&answers) {
        match answer.status {
            200 | 201 => {
                let orders = books.order_of(&shopper.name);
                let kept = orders
                    .iter()
                    .any(|order| order["status"] == "PENDING_PAYMENT");
                assert!(kept, "{answer:?} came to {orders:?}");
            }
            202 => confirming += 1,
            _ => assert_eq!(answer.text("error"), "sold_out", "{:#}", answer.json),
        }
    }
    let void = books.count("voided");
    assert!(void <= confirming, "{void} void of {confirming} confirming");
    println!("{recovered} buckets recovered; {confirming} confirming, {void} of them void");
}
