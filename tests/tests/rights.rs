//! Functions have the rights that they need, and no others. The runner refuses
//! a call that the template does not grant; here, a day of a store uses every
//! right that it grants.

#![allow(clippy::unwrap_used)] // a panic is a test's report

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use domain::{BucketId, ClaimId, IdempotencyKey, Money, SaleId, ShopperId};
use futures::FutureExt;
use gate::{Ask, Decision};
use jiff::SignedDuration;
use local::template::Right;
use local::{Options, own_template};
use queue::{ClaimCreated, Message};
use reqwest::Method;
use serde_json::json;
use tests::{Answer, OnSale, Shop, all, eventually, now};

/// Beyond this, a right that was not used will not be.
const REST_LIMIT_S: u64 = 20;

/// What is wrong with the rights that this template grants; nothing, if every
/// one was used and no other was needed.
async fn check(name: &str, template: &str) -> Result<(), String> {
    let file = std::env::temp_dir().join(format!("{name}-{}.yaml", std::process::id()));
    std::fs::write(&file, template).unwrap();
    let shop = Shop::start(Options {
        template: Some(file.clone()),
        ..Shop::options()
    })
    .await;
    std::fs::remove_file(file).unwrap();
    // A call that is refused fails the day, sooner or later; the right is the
    // cause.
    let broken = tokio::select! {
        ended = AssertUnwindSafe(day(&shop)).catch_unwind() => ended.err(),
        () = refused(&shop) => None,
    };
    let missing = shop.system.missing_rights();
    if !missing.is_empty() {
        return Err(format!("needed and not granted: {}", listed(&missing)));
    }
    if let Some(broken) = broken {
        std::panic::resume_unwind(broken);
    }
    match shop.system.unused_rights() {
        unused if unused.is_empty() => Ok(()),
        unused => Err(format!("granted and not needed: {}", listed(&unused))),
    }
}

fn listed(rights: &BTreeMap<String, BTreeSet<Right>>) -> String {
    let all = rights.iter().flat_map(|(function, rights)| {
        let rights = rights.iter();
        rights.map(move |right| format!("{function}: {right}"))
    });
    all.collect::<Vec<_>>().join(", ")
}

async fn refused(shop: &Shop) {
    while shop.system.missing_rights().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Everything that any function ever does with table or queue.
async fn day(shop: &Shop) {
    let queue = shop.system.queue().unwrap();
    queue.send("nobody", "unreadable", "no message");

    // Scripts are forgotten before any other sale has its own: the sweeper
    // finds the first one frozen, a late claim has the second one recovered.
    shop.sale(json!({})).await;
    let frozen = shop.sale(json!({})).await;
    let mut primary = shop.system.gate().unwrap().connect(0).unwrap();
    let forget = redis::cmd("SCRIPT").arg("FLUSH").exec(&mut primary);
    forget.unwrap();
    // A yes of an earlier life comes now: it is sent behind the recovery. And one of a
    // sale that is not there, which can't be written however often it comes.
    for sale in [frozen.sale_id(), "not-there".parse().unwrap()] {
        let late = late(&sale);
        let body = serde_json::to_string(&late).unwrap();
        queue.send(&late.group(), &late.deduplication_id(), &body);
    }

    let draw = shop
        .sale(json!({
            "mode": "draw",
            "units": 4,
            "buckets": 2,
            "identity_limits": {"device": 9},
        }))
        .await;
    let race = shop.sale(json!({"units": 2, "pay_window_s": 2})).await;
    let crowd = draw.crowd(2).await;
    let idle = race.shopper("idle").await;
    let preflight = race.admin(Method::GET, "/preflight", &json!(null)).await;
    preflight.expect(200);
    draw.opened().await;
    draw.resize(json!(6)).await.expect(200);
    draw.status().await;
    tokio::join!(
        async {
            all(crowd.iter().map(|shopper| shopper.enter())).await;
            let (payer, other) = (&crowd[0], &crowd[1]);
            let bought = payer.claim_when_admitted().await.json;
            payer.ordered(&bought).await;
            assert_eq!(payer.pay(&bought).await["status"], "PAID");
            let returned = other.claim_when_admitted().await.json;
            other.ordered(&returned).await;
            other.give_back(&returned).await.expect(200);
            let told = other.sale_request(Method::POST, "/waitlist");
            Answer::of(told).await.expect(201);
        },
        async {
            race.opened().await;
            unsent(&race).await;
            let lapsed = idle.hold().await;
            idle.order_is(&lapsed, "EXPIRED").await;
        }
    );
    for sale in [&draw, &race] {
        sale.rest().await;
        sale.turn("end").await;
    }
    // Those that close the sales are still at it.
    eventually("both sales are closed", REST_LIMIT_S * 2, async || {
        let open = shop.ledger().sales(true).await.unwrap();
        let left = [&draw, &race].map(|sale| open.contains(&sale.sale_id()));
        (left == [false, false]).then_some(())
    })
    .await;
    without_gates(shop).await;
    for _ in 0..REST_LIMIT_S * 10 {
        if shop.system.unused_rights().is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// A claim while no gate answers.
async fn without_gates(shop: &Shop) {
    let sale = shop
        .sale(json!({"units": 2, "ledger_only_rate_per_s": 100}))
        .await;
    let shopper = sale.shopper("in-the-dark").await;
    sale.opened().await;
    let gates = shop.system.gate().unwrap();
    gates.kill(0);
    eventually("a claim is taken without gates", REST_LIMIT_S, async || {
        (shopper.claim().await.status == 202).then_some(())
    })
    .await;
    gates.restart(0).unwrap();
}

/// The message of a claim of which no gate knows any more.
fn late(sale: &SaleId) -> Message {
    let shopper: ShopperId = "late".parse().unwrap();
    let key: IdempotencyKey = "key-of-the-late".parse().unwrap();
    Message::ClaimCreated(ClaimCreated {
        claim: ClaimId::derive(sale, BucketId(0), &shopper, &key),
        shopper,
        quantity: 1,
        money: Money {
            amount: 999_900,
            currency: "INR".parse().unwrap(),
        },
        limit: 1,
        claimed_at: now(),
        pay_by: now() + SignedDuration::from_mins(5),
        epoch: 0,
    })
}

/// A claim whose function ended before it told anyone: no order follows, and
/// the sweeper buries it.
async fn unsent(sale: &OnSale<'_>) {
    let shopper: ShopperId = "lost".parse().unwrap();
    let key: IdempotencyKey = "key-of-the-lost".parse().unwrap();
    let bucket = BucketId(0);
    let claim = ClaimId::derive(&sale.sale_id(), bucket, &shopper, &key);
    let gates = sale.gates().await;
    let gate = sale.shop.gate().bucket(gates.of(bucket).unwrap());
    let ask = Ask {
        shopper: &shopper,
        claim: &claim,
        quantity: 1,
        limit: 1,
        pay_by: now() + SignedDuration::from_millis(100),
        rate_per_s: None,
    };
    let decision = gate.claim(&ask).await.unwrap();
    assert!(matches!(decision, Decision::Claimed(_)), "{decision:?}");
    eventually("the claim is buried", REST_LIMIT_S, async || {
        sale.shop.ledger().order(&claim).await.unwrap()
    })
    .await;
}

fn real() -> String {
    std::fs::read_to_string(own_template()).unwrap()
}

/// The template with the policy of one function changed.
fn changed(function: &str, from: &str, to: &str) -> String {
    let template = real();
    let (before, rest) = template.split_once(&format!("\n  {function}:\n")).unwrap();
    assert!(rest.contains(from), "{function} has no {from}");
    let rest = rest.replacen(from, to, 1);
    format!("{before}\n  {function}:\n{rest}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_is_needed_and_no_other_is() {
    assert_eq!(check("rights", &real()).await, Ok(()));
}

/// The control: what the test above says when a right is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_named() {
    for (function, right) in [
        ("AdminFunction", "dynamodb:ConditionCheckItem"),
        ("SweeperFunction", "dynamodb:BatchGetItem"),
        ("OrderFunction", "sqs:SendMessage"),
    ] {
        let without = changed(function, right, "dynamodb:DescribeTable");
        let said = check(function, &without).await.unwrap_err();
        let expected = format!("needed and not granted: {function}: {right} on arn:aws:");
        assert!(said.starts_with(&expected), "{said}");
    }
}

/// The control: what the test above says when a right is not needed.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_not_needed_is_named() {
    let more = changed(
        "StatusFunction",
        "dynamodb:GetItem",
        "dynamodb:GetItem, dynamodb:Scan",
    );
    let said = check("superfluous", &more).await.unwrap_err();
    assert_eq!(
        said,
        "granted and not needed: StatusFunction: dynamodb:Scan on \
         arn:aws:dynamodb:us-east-1:000000000000:table/ledger"
    );
}
