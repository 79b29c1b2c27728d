//! A: units are never sold twice, and never lost.

use std::time::Duration;

use domain::order::VoidReason;
use domain::{BucketId, ClaimId, IdempotencyKey, Money, ShopperId};
use gate::{Ask, Decision};
use jiff::SignedDuration;
use local::{Faults, Options};
use queue::{ClaimCreated, Message};
use serde_json::{Value, json};
use tests::link::Condition;
use tests::shopper::order_path;
use tests::wire::{HttpWire, Trouble};
use tests::{Answer, Link, OnSale, Shop, Shopper, all, eventually, now, until_after};
use tokio::time::Instant;

/// How many answers have this status.
fn count(answers: &[Answer], status: u16) -> usize {
    answers
        .iter()
        .filter(|answer| answer.status == status)
        .count()
}

async fn claims(crowd: &[Shopper<'_>]) -> Vec<Answer> {
    all(crowd.iter().map(Shopper::claim_patiently)).await
}

/// A claim that the queue may carry although no gate said yes.
fn unfounded(sale: &OnSale<'_>, bucket: u16, shopper: &str) -> ClaimCreated {
    let shopper: ShopperId = shopper.parse().unwrap();
    let key: IdempotencyKey = "no-gate-said-yes".parse().unwrap();
    let at = now();
    ClaimCreated {
        claim: ClaimId::derive(&sale.sale_id(), BucketId(bucket), &shopper, &key),
        shopper,
        quantity: 1,
        money: Money {
            amount: 999_900,
            currency: "INR".parse().unwrap(),
        },
        limit: 1,
        claimed_at: at,
        pay_by: at + SignedDuration::from_secs(100),
        epoch: 1,
    }
}

/// The claim as the API shows it, as far as the helpers read it.
fn shown(claim: &ClaimId) -> Value {
    json!({"claim_id": claim, "order": {"order_id": claim.order()}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a01_120_payers_for_4_units_get_4() {
    let shop = Shop::open().await;
    let sale = shop.sale_in(2_500, json!({"units": 4, "buckets": 8})).await;
    let crowd = sale.crowd(120).await;
    sale.opened().await;
    // The control: whoever decides by what can be seen before the claim sells
    // as often as somebody looks.
    let seen = all(crowd.iter().map(|_| sale.status())).await;
    assert!(seen.iter().filter(|status| status["free"] == 4).count() > 4);

    let answers = claims(&crowd).await;
    let won: Vec<_> = crowd
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_yes())
        .collect();
    assert_eq!(won.len(), 4);
    let lost: Vec<_> = crowd
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| !answer.is_yes())
        .collect();
    for (_, answer) in &lost {
        let answer = (*answer).clone().expect_problem(409, "sold_out");
        assert!(
            answer.json["waitlist_position"].is_u64(),
            "{:#}",
            answer.json
        );
        assert!(!answer.text("entry_token").is_empty());
    }
    let positions: std::collections::BTreeSet<_> = lost
        .iter()
        .map(|(_, answer)| answer.json["waitlist_position"].as_u64())
        .collect();
    assert!(
        positions.len() > 100,
        "places in line are told apart: {}",
        positions.len()
    );

    all(won.iter().map(|(shopper, answer)| async move {
        shopper.ordered(&answer.json).await;
        assert_eq!(shopper.pay(&answer.json).await["status"], "PAID");
    }))
    .await;
    // Those who lost try to pay what they can guess.
    let real = order_path(&won[0].1.json, "/payments");
    let last = real.rfind('/').unwrap() - 1;
    let mut guess = real.clone();
    guess.replace_range(
        last..=last,
        if real.as_bytes()[last] == b'0' {
            "1"
        } else {
            "0"
        },
    );
    for (loser, _) in &lost[..20] {
        for path in [&real, &guess] {
            let tried = loser.request(reqwest::Method::POST, path);
            Answer::of(tried).await.expect_problem(404, "not_found");
        }
    }
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("paid"),
            books.count("allotted"),
            books.count("free")
        ),
        (4, 4, 0)
    );
    assert_eq!(sale.reaches("SOLD_OUT").await["stock"], "SOLD_OUT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a02_units_sold_are_units_whatever_the_buckets() {
    let shop = Shop::quiet().await;
    let cases = [1, 2, 7, 8, 9, 17].map(|units| [1, 8].map(|buckets| (units, buckets)));
    all(cases.into_iter().flatten().map(|(units, buckets)| {
        let shop = &shop;
        async move {
            let sale = shop.sale(json!({"units": units, "buckets": buckets})).await;
            let books = sale.rest().await;
            assert_eq!((books.count("units"), books.count("free")), (units, units));
            sale.opened().await;
            let (mut sold, mut refused) = (0, 0);
            while refused < 3 {
                let answer = sale.crowd(1).await[0].claim_patiently().await;
                if answer.is_yes() {
                    assert_eq!(refused, 0, "a unit was found after a refusal");
                    sold += 1;
                } else {
                    answer.expect_problem(409, "sold_out");
                    refused += 1;
                }
            }
            assert_eq!(sold, units, "{units} units in {buckets} buckets");
            assert_eq!(sale.rest().await.count("held"), units);
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a03_a_returned_unit_is_sold_by_instances_that_said_sold_out() {
    let shop = Shop::open().await;
    let sale = shop
        .sale_in(
            5_000,
            json!({"units": 10, "buckets": 1, "pay_window_s": 12}),
        )
        .await;
    let crowd = sale.crowd(500).await;
    sale.opened().await;
    let answers = claims(&crowd).await;
    // On a machine that is too slow, a hold may lapse while others still claim.
    let lapsed = sale.books().await.count("expired");
    assert_eq!(count(&answers, 201), 10, "{lapsed} lapsed meanwhile");
    assert_eq!(count(&answers, 409), 490);
    // Losers take nothing: the counter is empty, not below.
    assert_eq!(sale.books().await.count("free"), 0);
    let (won, lost): (Vec<_>, Vec<_>) = crowd.iter().zip(&answers).partition(|(_, a)| a.is_yes());
    all(won[1..].iter().map(|(shopper, answer)| async move {
        shopper.ordered(&answer.json).await;
        shopper.pay(&answer.json).await;
    }))
    .await;
    // One hold is left to lapse; the first in line gets its unit.
    let first = lost
        .iter()
        .min_by_key(|(_, answer)| answer.json["waitlist_position"].as_u64());
    first.unwrap().0.claim_when_admitted().await;
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("expired")), (0, 1));
    assert_eq!((books.count("paid"), books.count("held")), (9, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a05_the_last_unit_is_found_in_whichever_bucket() {
    let shop = Shop::quiet().await;
    all((0..8).map(|place| {
        let shop = &shop;
        async move {
            let sale = shop.sale(json!({"units": 1, "buckets": 8})).await;
            if place > 0 {
                sale.move_units(0, place, 1).await;
            }
            let home = (place + 3) % 8;
            let (u, v) = (sale.shopper_at(home).await, sale.shopper_at(home).await);
            sale.opened().await;
            assert_eq!(sale.status().await["stock"], "AVAILABLE");
            let first = u.claim_patiently().await.expect(201);
            let claim: ClaimId = first.text("claim_id").parse().unwrap();
            assert_eq!(claim.bucket(), BucketId(place));
            let again = u.claim_as("another-key").await.expect(200);
            assert_eq!(again.text("claim_id"), first.text("claim_id"));
            v.claim_patiently().await.expect_problem(409, "sold_out");
            // The shopper is marked at home: no second unit by that route.
            let sale_id = sale.sale_id();
            let gates = sale.gates().await;
            let gate = shop.gate().bucket(gates.of(BucketId(home)).unwrap());
            let shopper: ShopperId = u.name.parse().unwrap();
            let key: IdempotencyKey = "by-another-route".parse().unwrap();
            let ask = Ask {
                shopper: &shopper,
                claim: &ClaimId::derive(&sale_id, BucketId(home), &shopper, &key),
                quantity: 1,
                limit: 1,
                pay_by: now() + SignedDuration::from_secs(60),
                rate_per_s: None,
            };
            assert!(matches!(
                gate.claim(&ask).await.unwrap(),
                Decision::Holds(_, 1)
            ));
            assert_eq!(sale.rest().await.count("held"), 1);
        }
    }))
    .await;
}

#[tokio::test]
async fn a06_messages_beyond_the_cap_leave_no_order_behind() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    sale.opened().await;
    let crowd = sale.crowd(3).await;
    crowd[0].hold().await;
    let claims = [1, 2].map(|n| unfounded(&sale, 0, &crowd[n].name));
    let records = claims.clone().map(|claim| {
        let id = claim.claim.to_string();
        json!({"messageId": id, "body": serde_json::to_string(&Message::ClaimCreated(claim)).unwrap(),
            "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs"})
    });
    let event = json!({"Records": records});
    for _ in 0..2 {
        let answer = shop.system.invoke("order-function", &event).await.unwrap();
        assert_eq!(answer, json!({"batchItemFailures": []}));
    }
    for (claim, shopper) in claims.iter().zip(&crowd[1..]) {
        let claim = shown(&claim.claim);
        let read = shopper.read_claim(&claim).await.expect(200);
        assert_eq!(
            (read.text("status"), read.text("reason")),
            ("VOIDED", "cap")
        );
        assert!(!read.text("detail").is_empty());
        shopper
            .begin_payment(&claim)
            .await
            .expect_problem(409, "not_payable");
    }
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("held"),
            books.count("voided"),
            books.count("free")
        ),
        (1, 2, 0)
    );
    assert!(books.orders().all(|order| order.get("intent").is_none()));
    // Nothing of their limit is used up.
    let names = claims.map(|claim| claim.shopper);
    let customers = shop.ledger().customers(&sale.sale_id(), &names).await;
    let customers = customers.unwrap();
    let used = |name: &ShopperId| customers.get(name).map_or(0, |row| row.units);
    assert_eq!(names.each_ref().map(used), [0, 0]);
    let holder: ShopperId = crowd[0].name.parse().unwrap();
    let control = shop.ledger().customers(&sale.sale_id(), [&holder]).await;
    assert_eq!(control.unwrap()[&holder].units, 1);
}

#[tokio::test]
async fn a08_a_gate_that_drifts_is_made_to_agree_with_the_ledger() {
    let shop = Shop::start(Options {
        schedules: false,
        event_sources: false,
        ..Shop::options()
    })
    .await;
    let sale = shop
        .sale(json!({"units": 40, "buckets": 4, "pay_window_s": 600}))
        .await;
    sale.opened().await;
    // (c) Five claims are in flight: their messages wait.
    let mut in_flight = Vec::new();
    for _ in 0..5 {
        in_flight.push(sale.shopper_at(2).await);
    }
    assert_eq!(count(&claims(&in_flight).await, 201), 5);
    let gate = shop.gate();
    let gates = sale.gates().await.addresses;
    gate.put(&gates[0], 3).await.unwrap(); // (a)
    assert_eq!(gate.take(&gates[1], 2).await.unwrap(), 2); // (b)
    let free = async || -> Vec<u64> {
        let report = sale.report().await;
        (0..4)
            .map(|n| report["buckets"][n]["free"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(free().await, [13, 8, 5, 10]);
    let sweeper = shop.sweeper().await;
    sweeper.sweep().await.unwrap();
    sweeper.keep_up().await.unwrap();
    assert_eq!(
        free().await,
        [10, 8, 5, 10],
        "too many is lowered at once, the rest is not"
    );
    sweeper.sweep().await.unwrap();
    sweeper.keep_up().await.unwrap();
    assert_eq!(
        free().await,
        [10, 8, 5, 10],
        "seen twice, but only just now"
    );
    // Another gap than before starts anew.
    assert_eq!(gate.take(&gates[1], 1).await.unwrap(), 1);
    let minute = shop.sweeper_ahead(SignedDuration::from_secs(60)).await;
    minute.sweep().await.unwrap();
    minute.keep_up().await.unwrap();
    assert_eq!(
        free().await,
        [10, 7, 5, 10],
        "the gap is not the one that was seen"
    );
    let two = shop.sweeper_ahead(SignedDuration::from_secs(120)).await;
    two.sweep().await.unwrap();
    two.keep_up().await.unwrap();
    assert_eq!(free().await, [10, 10, 5, 10], "the same gap, seen before");
    assert_eq!(sale.count("in_flight").await, 5);
}

#[tokio::test]
async fn a08_a_standing_system_heals_its_gates_by_itself() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 20, "buckets": 2})).await;
    sale.opened().await;
    let (gate, gates) = (shop.gate(), sale.gates().await.addresses);
    gate.put(&gates[0], 3).await.unwrap();
    sale.comes_to("free", 20).await;
    gate.take(&gates[1], 2).await.unwrap();
    sale.comes_to("free", 20).await;
    sale.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a09_units_are_never_lowered_below_what_is_sold() {
    let shop = Shop::quiet().await;
    let sale = shop
        .sale_in(1_500, json!({"units": 100, "buckets": 4}))
        .await;
    let crowd = sale.crowd(60).await;
    sale.opened().await;
    assert_eq!(count(&claims(&crowd).await, 201), 60);
    sale.comes_to("held", 60).await;
    // All but the version, which counts the sale's writes.
    let shown = async || {
        let mut report = sale.report().await;
        report["sale"]["version"].take();
        report
    };
    let before = shown().await;
    sale.resize(json!(50))
        .await
        .expect_problem(409, "units_in_use");
    for wrong in [json!(0), json!(-1), json!(1.5), json!("60"), json!(null)] {
        sale.resize(wrong).await.expect_fields(&["units"]);
    }
    assert_eq!(shown().await, before, "nothing changed");
    assert_eq!(sale.resize(json!(60)).await.expect(200).json["units"], 60);
    let late = sale.crowd(1).await;
    late[0]
        .claim_patiently()
        .await
        .expect_problem(409, "sold_out");
    let books = sale.rest().await;
    assert_eq!((books.count("units"), books.count("free")), (60, 0));
}

/// Claims of a crowd beside a change of the units; so many are told yes. Never are
/// more held than there are.
async fn rush(sale: &OnSale<'_>, crowd: &[Shopper<'_>], units: u32) -> (usize, Answer) {
    let watched = async {
        loop {
            let report = sale.report().await;
            let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
            assert!(number(&report, "held") <= number(&report, "units"));
            for bucket in report["buckets"].as_array().unwrap() {
                let allotted = number(bucket, "allotted");
                assert!(allotted <= number(bucket, "capacity"), "{bucket}");
            }
        }
    };
    let (answers, resized) = tokio::select! {
        done = async { tokio::join!(claims(crowd), sale.resize(json!(units))) } => done,
        () = watched => unreachable!("it is watched to the end"),
    };
    let yes = answers.iter().filter(|answer| answer.is_yes()).count();
    (yes, resized)
}

/// A sale of 100 units of which 60 are held.
async fn with_60_held(shop: &Shop) -> OnSale<'_> {
    let sale = shop
        .sale_in(1_500, json!({"units": 100, "buckets": 4}))
        .await;
    let crowd = sale.crowd(60).await;
    sale.opened().await;
    assert_eq!(count(&claims(&crowd).await, 201), 60);
    drop(crowd);
    sale.comes_to("held", 60).await;
    sale
}

#[tokio::test(flavor = "multi_thread")]
async fn a09_units_are_lowered_under_load_as_far_as_they_are_free() {
    let shop = Shop::quiet().await;
    // Lowered before the rush, it sells no more; below what is held it never goes.
    let sale = with_60_held(&shop).await;
    let crowd = sale.crowd(100).await;
    sale.resize(json!(70)).await.expect(200);
    let (yes, resized) = rush(&sale, &crowd, 50).await;
    resized.expect_problem(409, "units_in_use");
    assert_eq!(yes, 10);
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("units"),
            books.count("held"),
            books.count("free")
        ),
        (70, 70, 0)
    );
    // Of 40 that are free, 20 are taken out and 20 claimed: there is one for each.
    let sale = with_60_held(&shop).await;
    let crowd = sale.crowd(20).await;
    let (yes, resized) = rush(&sale, &crowd, 80).await;
    assert_eq!(resized.expect(200).json["units"], 80);
    assert_eq!(yes, 20);
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("units"),
            books.count("held"),
            books.count("free")
        ),
        (80, 80, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_who_saw_an_old_status_gets_no_unit() {
    let shop = Shop::open().await;
    let sale = shop.sale_in(1_200, json!({})).await;
    let crowd = sale.crowd(21).await;
    sale.opened().await;
    let kept = sale.status().await;
    assert_eq!(
        (&kept["stock"], &kept["free"]),
        (&json!("AVAILABLE"), &json!(1))
    );
    crowd[0].claim_patiently().await.expect(201);
    for answer in claims(&crowd[1..]).await {
        answer.expect_problem(409, "sold_out");
    }
    let told = Instant::now();
    sale.reaches("ALL_CLAIMED").await;
    assert!(
        told.elapsed() < Duration::from_millis(2_500),
        "{:?}",
        told.elapsed()
    );
    sale.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11a_a_slow_ledger_does_not_decide_claims() {
    let link = Link::new().await;
    let mut options = Shop::options();
    options.schedules = false;
    let variable = ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), link.url());
    options
        .settings
        .insert("order-function".to_owned(), [variable].into());
    let shop = Shop::start(options).await;
    link.lead_to(shop.system.dynamodb_url());
    link.turn(Condition::Slow(Duration::from_secs(2)));
    let sale = shop
        .sale_in(1_200, json!({"units": 20, "buckets": 2}))
        .await;
    let crowd = sale.crowd(40).await;
    sale.opened().await;
    let answers = claims(&crowd).await;
    assert_eq!((count(&answers, 201), count(&answers, 409)), (20, 20));
    sale.comes_to("held", 20).await;
    sale.rest().await;
}

/// Whether a new claim was voided before is asked of the ledger, and not for long: who
/// has a unit hears that it is being confirmed, and nobody that there is none.
#[tokio::test(flavor = "multi_thread")]
async fn a11a_a_ledger_that_is_slow_with_orders_turns_no_yes_into_a_no() {
    let wire = HttpWire::new(7).await;
    let mut options = Shop::options();
    options.schedules = false;
    let variable = ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), wire.url());
    options
        .settings
        .insert("claim-function".to_owned(), [variable].into());
    let shop = Shop::start(options).await;
    wire.lead_to(shop.system.dynamodb_url());
    let sale = shop
        .sale_in(1_500, json!({"units": 40, "buckets": 4}))
        .await;
    let crowd = sale.crowd(40).await;
    sale.opened().await;
    // Rows of orders come within twenty seconds, the sale's as ever.
    wire.trouble(Trouble {
        only: Some("C#"),
        late: 1.0,
        late_by: Duration::from_secs(20),
        ..Trouble::default()
    });
    let answers = all(crowd.iter().map(Shopper::claim)).await;
    for answer in &answers {
        // A look that was early by chance is told as it was seen.
        assert!(
            matches!(answer.status, 201..=202 | 503),
            "{:#}",
            answer.json
        );
    }
    assert!(count(&answers, 202) > 20, "{answers:#?}");
    wire.trouble(Trouble::default());
    for (shopper, first) in crowd.iter().zip(&answers) {
        let again = shopper.claim_patiently().await;
        if first.is_yes() {
            let again = again.expect(200);
            assert_eq!(again.text("claim_id"), first.text("claim_id"));
        }
    }
    sale.comes_to("held", 40).await;
    sale.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11b_without_one_primary_nobody_hears_sold_out_by_guess() {
    let mut options = Shop::options();
    options.primaries = 3;
    options.replicas = 0;
    options.node_timeout = Duration::from_secs(2);
    options.schedules = false;
    let shop = Shop::start(options).await;
    let sale = shop.sale_in(1_500, json!({"units": 6, "buckets": 6})).await;
    let crowd = sale.crowd(40).await;
    sale.opened().await;
    shop.system.gate().unwrap().kill(0);
    let answers = all(crowd.iter().map(Shopper::claim)).await;
    // Units of buckets that answer may be sold; nobody is told that all are
    // gone while some can't be seen.
    for answer in &answers {
        match answer.status {
            201 | 202 => {}
            _ => {
                assert_eq!(answer.status, 503, "{:#}", answer.json);
                assert!(!answer.header("retry-after").is_empty());
            }
        }
    }
    let yes = answers.iter().filter(|answer| answer.is_yes()).count();
    assert!(
        (1..=4).contains(&yes),
        "{yes} units of the buckets that are left"
    );
    // It comes back with nothing in its memory, and everyone is answered.
    shop.system.gate().unwrap().restart(0).unwrap();
    let decided = all(crowd.iter().map(|shopper| {
        eventually("a claim is decided", 60, async || {
            Some(shopper.claim().await).filter(|answer| answer.status != 503)
        })
    }))
    .await;
    let held = decided.iter().filter(|answer| answer.status < 300).count();
    assert_eq!((held, count(&decided, 409)), (6, 34));
    sale.comes_to("held", 6).await;
    let sweeper = shop.sweeper().await;
    sweeper.sweep().await.unwrap();
    sweeper.keep_up().await.unwrap();
    let books = sale.rest().await;
    assert_eq!((books.count("held"), books.count("free")), (6, 0));
    assert_eq!(books.count("voided"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a11c_without_gates_every_claim_is_refused_for_now() {
    let mut options = Shop::options();
    options.schedules = false;
    let shop = Shop::start(options).await;
    let sale = shop
        .sale_in(1_000, json!({"units": 30, "buckets": 2}))
        .await;
    let crowd = sale.crowd(30).await;
    sale.opened().await;
    assert_eq!(count(&claims(&crowd[..10]).await, 201), 10);
    let gates = shop.system.gate().unwrap();
    gates.kill(0);
    let refused = async |from: usize| {
        for shopper in &crowd[from..from + 5] {
            let answer = shopper.claim().await;
            assert_eq!(answer.status, 503, "{:#}", answer.json);
            assert!(!answer.header("retry-after").is_empty());
        }
    };
    refused(10).await;
    // What comes back empty is not taken for empty stock, nor for full.
    gates.restart(0).unwrap();
    eventually("the bucket is seen and frozen", 10, async || {
        let answer = crowd[15].claim().await;
        assert_eq!(answer.status, 503, "{:#}", answer.json);
        (answer.error() == "frozen").then_some(())
    })
    .await;
    refused(16).await;
    // What was answered yes stands in the ledger.
    let ledger = shop.ledger();
    let mut held = 0;
    for bucket in 0..2 {
        let whole = ledger
            .whole_bucket(&sale.sale_id(), BucketId(bucket))
            .await
            .unwrap();
        assert!(whole.bucket.allotted <= whole.bucket.capacity);
        held += whole.bucket.allotted;
    }
    assert_eq!(held, 10);
}

#[tokio::test]
async fn a12_a_yes_that_was_not_queued_is_not_told_and_not_lost() {
    let link = Link::new().await;
    let mut options = Shop::options();
    options.schedules = false;
    let variable = ("AWS_ENDPOINT_URL_SQS".to_owned(), link.url());
    options
        .settings
        .insert("claim-function".to_owned(), [variable].into());
    let shop = Shop::start(options).await;
    link.lead_to(shop.system.sqs_url());
    let sale = shop.sale(json!({"units": 3, "pay_window_s": 10})).await;
    let crowd = sale.crowd(4).await;
    sale.opened().await;
    link.turn(Condition::Cut);
    for shopper in &crowd[..3] {
        let answer = shopper.claim().await.expect_problem(503, "unavailable");
        assert!(!answer.header("retry-after").is_empty());
    }
    // The script has taken the units all the same.
    assert_eq!(
        (sale.count("free").await, sale.count("in_flight").await),
        (0, 3)
    );
    link.turn(Condition::Up);
    // (1) The same key, (2) another key: one claim, one order.
    let same = crowd[0].claim().await.expect(200);
    let other = crowd[1].claim_as("another-key").await.expect(200);
    for (shopper, claim) in [(&crowd[0], &same), (&crowd[1], &other)] {
        shopper.ordered(&claim.json).await;
        let again = shopper.claim().await.expect(200);
        assert_eq!(again.text("claim_id"), claim.text("claim_id"));
    }
    for (shopper, claim) in [(&crowd[0], &same), (&crowd[1], &other)] {
        shopper.pay(&claim.json).await;
    }
    // (3) The third never returns: the unit does, once.
    let sweepers = [
        shop.sweeper_ahead(SignedDuration::from_secs(30)).await,
        shop.sweeper().await,
    ];
    sweepers[1].sweep().await.unwrap();
    sweepers[1].keep_up().await.unwrap();
    assert_eq!(sale.count("free").await, 0, "not before its deadline");
    for _ in 0..2 {
        sweepers[0].sweep().await.unwrap();
        sweepers[0].keep_up().await.unwrap();
    }
    assert_eq!(sale.count("free").await, 1);
    crowd[3].claim().await.expect(201);
    // Who comes back after that hears what became of the claim; another key
    // is another claim, and the unit is gone.
    let again = crowd[2].claim().await.expect(200);
    assert_eq!(again.text("status"), "VOIDED");
    crowd[2]
        .claim_as("another-key")
        .await
        .expect_problem(409, "sold_out");
    sale.comes_to("held", 1).await;
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.count("voided")), (2, 1));
}

/// The queue stores a message and its answer is lost, again and again: nobody
/// hears yes, and the message is one order all the same.
#[tokio::test(flavor = "multi_thread")]
async fn h05_a_message_that_was_stored_and_not_acknowledged_is_one_order() {
    let wire = HttpWire::new(5).await;
    let mut options = Shop::options();
    options.schedules = false;
    let variable = ("AWS_ENDPOINT_URL_SQS".to_owned(), wire.url());
    options
        .settings
        .insert("claim-function".to_owned(), [variable].into());
    let shop = Shop::start(options).await;
    wire.lead_to(shop.system.sqs_url());
    let sale = shop.sale(json!({"units": 3, "pay_window_s": 60})).await;
    let crowd = sale.crowd(3).await;
    sale.opened().await;
    wire.trouble(Trouble {
        unanswered: 1.0,
        ..Trouble::default()
    });
    for shopper in &crowd {
        shopper.claim().await.expect_problem(503, "unavailable");
    }
    sale.comes_to("held", 3).await;
    assert!(wire.hit() > 3, "the sender tries again by itself");
    wire.trouble(Trouble::default());
    for shopper in &crowd {
        let again = shopper.claim().await.expect(200);
        assert_eq!(again.text("status"), "ORDERED");
        shopper.pay(&again.json).await;
    }
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.orders().count()), (3, 3));
}

/// What was told is found at once, by whichever instance is asked, and does
/// not go back to what it was.
#[tokio::test(flavor = "multi_thread")]
async fn i04_what_was_told_is_found_at_once() {
    let shop = Shop::open().await;
    let sale = shop
        .sale_in(2_000, json!({"units": 100, "buckets": 4}))
        .await;
    let crowd = sale.crowd(100).await;
    sale.opened().await;
    all(crowd.iter().map(|shopper| async move {
        let claim = shopper.claim_patiently().await.expect(201).json;
        let mut ordered = false;
        for _ in 0..10 {
            let read = shopper.read_claim(&claim).await.expect(200);
            let status = read.text("status").to_owned();
            assert!(
                status == "ORDERED" || (status == "CLAIMED" && !ordered),
                "{status}"
            );
            ordered |= status == "ORDERED";
        }
        shopper.ordered(&claim).await;
        let payment = shopper.begin_payment(&claim).await;
        assert_eq!(payment.status, 201, "{:#}", payment.json);
    }))
    .await;
    sale.rest().await;
}

#[tokio::test]
async fn a14a_a_unit_that_never_existed_is_not_given_back() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 2})).await;
    let crowd = sale.crowd(3).await;
    sale.opened().await;
    // The gate believes in a third unit.
    shop.gate()
        .put(&sale.gates().await.addresses[0], 1)
        .await
        .unwrap();
    let answers = claims(&crowd).await;
    assert_eq!(count(&answers, 201), 3);
    sale.comes_to("voided", 1).await;
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("held")), (0, 2));
    let (voided, answer) = {
        let found = books
            .orders()
            .find(|order| order["status"] == "VOIDED")
            .unwrap();
        let n = crowd
            .iter()
            .position(|shopper| found["shopper"] == shopper.name)
            .unwrap();
        (&crowd[n], &answers[n])
    };
    voided
        .begin_payment(&answer.json)
        .await
        .expect_problem(409, "not_payable");
    let sweeper = shop.sweeper().await;
    sweeper.sweep().await.unwrap();
    sweeper.keep_up().await.unwrap();
    assert_eq!(sale.rest().await.count("free"), 0);
}

#[tokio::test]
async fn a14b_a_second_claim_of_a_shopper_gives_its_unit_back_once() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 4, "buckets": 2})).await;
    let shopper = sale.shopper_at(0).await;
    sale.opened().await;
    shopper.hold().await;
    // A gate that has forgotten the shopper says yes a second time.
    let mut second = unfounded(&sale, 1, &shopper.name);
    let gates = sale.gates().await;
    let gate = shop.gate().bucket(gates.of(BucketId(1)).unwrap());
    let ask = Ask {
        shopper: &second.shopper.clone(),
        claim: &second.claim.clone(),
        quantity: 1,
        limit: 1,
        pay_by: second.pay_by,
        rate_per_s: None,
    };
    assert!(matches!(
        gate.claim(&ask).await.unwrap(),
        Decision::Claimed(_)
    ));
    assert_eq!(sale.count("free").await, 2);
    let queue = shop.system.queue().unwrap();
    // Delivered twice, in two lives.
    for copy in ["first", "second"] {
        second.claimed_at = now();
        let message = Message::ClaimCreated(second.clone());
        queue.send(
            &message.group(),
            copy,
            &serde_json::to_string(&message).unwrap(),
        );
    }
    sale.comes_to("voided", 1).await;
    eventually("both copies are handled", 10, async || {
        (queue.counts() == (0, 0)).then_some(())
    })
    .await;
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("allotted")), (3, 1));
    let claim = shown(&second.claim);
    assert_eq!(shopper.read_claim(&claim).await.text("reason"), "limit");
}

#[tokio::test]
async fn a14c_a_message_behind_its_deadline_makes_no_order() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"pay_window_s": 3})).await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    let queue = shop.system.queue().unwrap();
    queue.set_faults(Faults {
        delay: Duration::from_secs(4),
        copies: 1,
        ..Faults::default()
    });
    let claim = crowd[0].claim().await.expect(201);
    until_after(now(), 3_200).await;
    let sweeper = shop.sweeper().await;
    sweeper.sweep().await.unwrap();
    assert_eq!(
        sale.count("free").await,
        1,
        "returned before its message came"
    );
    queue.set_faults(Faults::default());
    let other = crowd[1].claim().await.expect(201);
    crowd[1].ordered(&other.json).await;
    eventually("the late message is handled", 10, async || {
        (queue.counts() == (0, 0)).then_some(())
    })
    .await;
    let read = crowd[0].read_claim(&claim.json).await.expect(200);
    assert_eq!(
        (read.text("status"), read.text("reason")),
        ("VOIDED", "no_order")
    );
    crowd[0]
        .begin_payment(&claim.json)
        .await
        .expect_problem(409, "not_payable");
    let books = sale.books().await;
    assert_eq!((books.count("free"), books.count("voided")), (0, 1));
    assert!(books.count("held") <= 1);
}

/// A recovery came before the message of a claim, which was voided then; the gate,
/// which forgot it, says yes to the same key.
#[tokio::test]
async fn a14d_a_yes_to_a_claim_that_was_voided_is_not_told() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 2})).await;
    let shopper = sale.shopper_at(0).await;
    sale.opened().await;
    let order = unfounded(&sale, 0, &shopper.name).order(now());
    let ledger = shop.ledger();
    let void = ledger.void(&order, VoidReason::Forgotten, now());
    void.await.unwrap();
    let told = shopper.claim_as("no-gate-said-yes").await.expect(200);
    assert_eq!(told.json["claim_id"], json!(order.claim));
    assert_eq!(
        (told.text("status"), told.text("reason")),
        ("VOIDED", "forgotten")
    );
    assert_eq!(sale.count("free").await, 1);
    // A claim that was forgotten gives no unit back; a comparison misses this one.
    for seconds in [5, 10, 15] {
        let later = SignedDuration::from_secs(seconds);
        let sweeper = shop.sweeper_ahead(later).await;
        sweeper.sweep().await.unwrap();
        sweeper.keep_up().await.unwrap();
    }
    assert_eq!(sale.count("free").await, 2, "nobody holds it");
    // The control: a claim that nobody voided is told as a new one.
    shopper.claim_as("another-key-of-it").await.expect(201);
}

/// Everybody who is left is at home in a bucket that is empty: it gets half of
/// what another has, and nothing is lost on the way.
#[tokio::test(flavor = "multi_thread")]
async fn free_units_move_to_where_there_are_none() {
    let shop = Shop::open().await;
    let sale = shop
        .sale(json!({"units": 40, "buckets": 2, "limit_per_customer": 20}))
        .await;
    let shopper = sale.shopper_at(0).await;
    sale.opened().await;
    let all_of_it = shopper.claim_with("key-0001", r#"{"quantity": 20}"#).await;
    all_of_it.expect(201);
    eventually("units have moved", 20, async || {
        let report = sale.report().await;
        (report["buckets"][0]["free"] == 10).then_some(())
    })
    .await;
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("held")), (20, 20));
    assert_eq!(books.report["buckets"][0]["capacity"], 30);
    assert_eq!(books.report["buckets"][1]["capacity"], 10);
}
