//! The race: 200,000 claims over HTTP on 1,000 units. The same race straight
//! at the gates, with its negative control, is in `shared/gate/tests`.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::json;
use tests::{Answer, Shop};

const SHOPPERS: usize = 8_000;
const ATTEMPTS_EACH: usize = 25;
const UNITS: usize = 1_000;

/// Time for everyone to get a pass.
const LEAD_MS: i64 = 45_000;

/// How often a claim that was answered 503 is repeated with its key.
const AGAIN_MAX: u32 = 20;

/// Calls in flight, each on a connection of its own.
const CONNECTIONS: usize = 96;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_thousand_claims_get_exactly_a_thousand_units() {
    // No controller closes the race: the gates alone say no, 200,000 times.
    let shop = Shop::quiet().await;
    let sale = shop
        .sale_in(LEAD_MS, json!({"units": UNITS, "buckets": 4}))
        .await;
    let shoppers: Vec<_> = stream::iter(0..SHOPPERS)
        .map(|n| {
            let sale = &sale;
            async move { sale.shopper(&format!("racer-{n}")).await }
        })
        .buffer_unordered(CONNECTIONS)
        .collect()
        .await;
    sale.opened().await;

    // Attempts of one shopper are far apart, so that all shoppers race at once.
    let attempts = (0..ATTEMPTS_EACH).flat_map(|attempt| {
        shoppers
            .iter()
            .map(move |shopper| (shopper, format!("attempt-{attempt}")))
    });
    let answers: BTreeMap<String, usize> = stream::iter(attempts)
        .map(|(shopper, key)| async move {
            // Without the place in line that a "sold out" gives: each attempt
            // is for the gates to decide. A 503 of a busy machine is no answer.
            let mut answer = Answer::of(shopper.claim_request(&key, "{}")).await;
            for _ in 0..AGAIN_MAX {
                if answer.status != 503 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
                answer = Answer::of(shopper.claim_request(&key, "{}")).await;
            }
            format!("{} {}", answer.status, answer.text("error"))
        })
        .buffer_unordered(CONNECTIONS)
        .fold(BTreeMap::new(), |mut counts, answer| async move {
            *counts.entry(answer).or_default() += 1;
            counts
        })
        .await;
    println!("{answers:?}");
    let count = |answer: &str| answers.get(answer).copied().unwrap_or(0);
    assert_eq!(answers.values().sum::<usize>(), SHOPPERS * ATTEMPTS_EACH);
    assert_eq!(count("201 "), UNITS, "{answers:?}");
    // Everything else is the same claim again, or "sold out".
    assert_eq!(
        count("201 ") + count("200 ") + count("409 sold_out"),
        SHOPPERS * ATTEMPTS_EACH,
        "{answers:?}"
    );

    let report = sale
        .admin(reqwest::Method::GET, "/report", &json!(null))
        .await
        .json;
    let units = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(units("units"), UNITS as u64);
    assert_eq!(units("free"), 0);
    assert_eq!(
        units("held") + units("paying") + units("paid") + units("in_flight"),
        UNITS as u64
    );
}
