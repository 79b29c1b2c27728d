//! Whole drills against a sale in memory: a good one passes, and each fault
//! breaks the promise that it is about.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod fake;

use drill::config::Stripe;
use drill::{Config, Crowd, Mode, Outcome, Progress, Target};
use fake::Fault;

async fn drill(fault: Fault, change: impl FnOnce(&mut Crowd)) -> Outcome {
    let base_url = fake::start(fault).await;
    let mut crowd = Crowd {
        shoppers: 300,
        units: 40,
        pay_window_s: Some(4),
        waitlist_pay_window_s: Some(4),
        claim_spread_s: 0,
        ..Crowd::default()
    };
    change(&mut crowd);
    drill::run(Config {
        target: Target {
            token_url: format!("{base_url}/_dev/token"),
            base_url,
            admin_token: "admin".into(),
            stripe: Stripe::default(),
        },
        crowd,
        progress: Progress::Quiet,
    })
    .await
    .unwrap()
}

fn broken(outcome: &Outcome) -> Vec<&'static str> {
    outcome.audit.broken().map(|check| check.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_sells_every_unit() {
    let outcome = drill(Fault::None, |_| {}).await;
    println!("{outcome}");
    assert!(outcome.passed());
    assert_eq!(outcome.entries, 300);
    assert_eq!(outcome.shoppers.values().sum::<u64>(), 300);
    let paid = outcome.shoppers["paid"]
        + outcome
            .shoppers
            .get("confirmed, not seen as paid")
            .unwrap_or(&0);
    assert_eq!(paid, 40);
    assert!(outcome.polls > 5 * outcome.origin_status_calls);
    let claims = outcome.counts.iter().filter(|count| count.call == "claim");
    let claims: u64 = claims.map(|count| count.count).sum();
    assert_eq!(outcome.audit.answer.count as u64, claims);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_race_sells_every_unit() {
    let outcome = drill(Fault::None, |crowd| crowd.mode = Mode::Race).await;
    println!("{outcome}");
    assert!(outcome.passed());
}

#[tokio::test(flavor = "multi_thread")]
async fn units_that_nobody_wants_are_left() {
    let outcome = drill(Fault::None, |crowd| crowd.shoppers = 20).await;
    println!("{outcome}");
    assert!(outcome.passed());
    assert!(outcome.counts.iter().any(|count| count.call == "end sale"));
}

#[tokio::test(flavor = "multi_thread")]
async fn overselling_is_seen() {
    let outcome = drill(Fault::Oversell, |crowd| crowd.claim_spread_s = 1).await;
    assert!(broken(&outcome).contains(&"never oversold"), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_yes_is_seen() {
    let outcome = drill(Fault::ForgetYes, |_| {}).await;
    assert!(
        broken(&outcome).contains(&"every answer is kept"),
        "{outcome}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_money_is_seen() {
    let outcome = drill(Fault::LoseMoney, |crowd| crowd.sale_limit_s = Some(8)).await;
    assert!(
        broken(&outcome).contains(&"captures belong to paid orders"),
        "{outcome}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_never_end_are_seen() {
    let outcome = drill(Fault::NeverSweep, |crowd| crowd.sale_limit_s = Some(8)).await;
    assert!(
        broken(&outcome).contains(&"no unit is stranded"),
        "{outcome}"
    );
}
