//! Whole sales with a crowd that behaves as crowds do, audited afterwards.

use drill::Outcome;
use drill::config::{Config, Crowd, Mode, Progress, Stripe, Target};
use tests::Shop;

async fn drill(crowd: Crowd) -> Outcome {
    // A payment whose webhook is lost is found when its intent ends: the
    // provider's 15 minutes would be the length of the test.
    let options = Shop::with_intents_of(10, local::Options::default());
    let shop = Shop::start(options).await;
    let base_url = shop.system.base_url().to_owned();
    let target = Target {
        token_url: format!("{base_url}/_dev/token"),
        admin_token: shop.system.admin_token().unwrap(),
        stripe: Stripe::default(),
        base_url,
    };
    let config = Config {
        target,
        crowd,
        progress: Progress::Quiet,
    };
    drill::run(config).await.expect("the drill runs to its end")
}

/// A sale in which 15 % never pay: each of their units is offered again within
/// two seconds, and sold while someone wants it.
#[tokio::test(flavor = "multi_thread")]
async fn p2_units_of_those_who_never_pay_are_sold() {
    let outcome = drill(Crowd {
        shoppers: 800,
        units: 100,
        buckets: Some(4),
        // A busy machine is slow: who takes part is in the window all the same.
        passes_per_s: 200,
        draw_window_ms: Some(6_000),
        pay_window_s: Some(6),
        waitlist_pay_window_s: Some(5),
        claim_spread_s: 1,
        ..Crowd::default()
    })
    .await;
    let lapsed = outcome.audit.release.count;
    assert!(lapsed >= 5, "{lapsed} holds lapsed: nothing was rehearsed");
    let prompt = outcome
        .audit
        .checks
        .iter()
        .filter(|check| check.promise == "P2");
    assert!(prompt.clone().count() >= 1);
    assert!(prompt.clone().all(|check| check.ok), "{outcome}");
    assert!(outcome.passed(), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_race_keeps_every_promise_too() {
    let outcome = drill(Crowd {
        shoppers: 500,
        units: 60,
        buckets: Some(4),
        mode: Mode::Race,
        pay_window_s: Some(6),
        waitlist_pay_window_s: Some(5),
        claim_spread_s: 1,
        ..Crowd::default()
    })
    .await;
    assert!(outcome.passed(), "{outcome}");
}
