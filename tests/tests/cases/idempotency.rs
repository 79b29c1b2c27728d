//! D: one key, one claim; a refusal is not remembered.

use std::time::Duration;

use local::Faults;
use reqwest::Method;
use serde_json::{Value, json};
use tests::link::Condition;
use tests::{Answer, Link, OnSale, Shop, Shopper, all, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn d01_a_key_names_one_claim_of_one_shopper_in_one_sale() {
    let shop = Shop::open().await;
    let first = shop
        .sale(json!({"units": 9, "limit_per_customer": 2}))
        .await;
    let second = shop.sale(json!({"units": 9})).await;
    let (a, b) = (first.shopper("ada").await, first.shopper("bob").await);
    let elsewhere = second.shopper("ada").await;
    second.opened().await;
    let key = "one-and-the-same-key";
    let claim = a.claim_as(key).await.expect(201);
    // Another sale, another shopper: another claim.
    for other in [elsewhere.claim_as(key).await, b.claim_as(key).await] {
        assert_ne!(other.expect(201).json["claim_id"], claim.json["claim_id"]);
    }
    let reused = a.claim_with(key, r#"{"quantity": 2}"#).await;
    reused.expect_problem(422, "idempotency_key_reused");
    assert_eq!(
        a.claim_as(key).await.expect(200).json["claim_id"],
        claim.json["claim_id"]
    );
    // At another address it is that address's own key.
    a.ordered(&claim.json).await;
    let path = tests::shopper::order_path(&claim.json, "/payments");
    let pay = a
        .request(Method::POST, &path)
        .header("idempotency-key", key);
    Answer::of(pay).await.expect(201);

    // Twice at once: one 201, one 200, one claim.
    let c = first.shopper("cleo").await;
    let twice = all([key, key].map(|key| c.claim_as(key))).await;
    let mut statuses: Vec<_> = twice.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 201]);
    assert_eq!(twice[0].json["claim_id"], twice[1].json["claim_id"]);

    // No key, or none that is one.
    let d = first.shopper("dora").await;
    let without = d.sale_request(Method::POST, "/claims").body("{}");
    Answer::of(without)
        .await
        .expect_problem(400, "invalid_idempotency_key");
    let long = "k".repeat(256);
    for wrong in [
        "",
        "k",
        "seven77",
        &long,
        "with a space",
        "key-one-a,key-two-b",
        "tab\tinside-it",
    ] {
        d.claim_as(wrong)
            .await
            .expect_problem(400, "invalid_idempotency_key");
    }
    // A header that is sent twice arrives as one with a comma.
    let doubled = d
        .claim_request("first-key-1", "{}")
        .header("idempotency-key", "second-key");
    Answer::of(doubled)
        .await
        .expect_problem(400, "invalid_idempotency_key");
    let strange = d.claim_request("schlüssel-nr-1", "{}");
    Answer::of(strange)
        .await
        .expect_problem(400, "invalid_idempotency_key");
    assert_eq!(first.rest().await.orders().count(), 3);
}

#[tokio::test]
async fn d03_k04_a_claim_ends_by_its_own_deadline_and_can_be_tried_again() {
    let link = Link::new().await;
    let mut options = Shop::options();
    let variable = ("AWS_ENDPOINT_URL_SQS".to_owned(), link.url());
    options
        .settings
        .insert("claim-function".to_owned(), [variable].into());
    let shop = Shop::start(options).await;
    link.lead_to(shop.system.sqs_url());
    let sale = shop.sale(json!({"units": 2})).await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    // The queue takes the call and says nothing: the function answers before
    // it is ended.
    link.turn(Condition::Silent);
    let answers = all(crowd.iter().map(Shopper::claim)).await;
    for answer in answers {
        answer.expect_problem(503, "unavailable");
    }
    link.turn(Condition::Up);
    let first = crowd[0].claim().await.expect(200);
    let second = crowd[1].claim_as("a-new-key-after-it").await.expect(200);
    // And once more, as if the answer had been lost behind the queue.
    for (shopper, claim) in [(&crowd[0], &first), (&crowd[1], &second)] {
        shopper.ordered(&claim.json).await;
        let again = shopper.claim().await.expect(200);
        assert_eq!(again.json["claim_id"], claim.json["claim_id"]);
        assert_eq!(again.text("status"), "ORDERED");
    }
    let books = sale.rest().await;
    assert_eq!((books.orders().count(), books.count("held")), (2, 2));
}

#[tokio::test]
async fn d04_a_refusal_is_not_remembered() {
    let shop = Shop::open().await;
    let sale = shop
        .sale_in(1_500, json!({"units": 3, "pay_window_s": 4}))
        .await;
    let (k, l, m, n) = (
        sale.shopper("k").await,
        sale.shopper("l").await,
        sale.shopper("m").await,
        sale.shopper("n").await,
    );
    // K: before the opening.
    let early = k.claim().await.expect_problem(425, "not_open");
    assert!(early.json["opens_at"].is_string());
    sale.opened().await;
    let kept = k.claim().await.expect(201).json;
    // L: while the sale is paused, as everyone knows a second later.
    sale.turn("pause").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let paused = l.claim().await.expect_problem(503, "paused");
    assert!(!paused.header("retry-after").is_empty());
    sale.turn("resume").await;
    assert!(l.claim_patiently().await.status < 300);
    // N: with a session that is over.
    let expired = {
        let ask = shop.request(Method::POST, "/_dev/token");
        let body = json!({"sub": "n", "ttl_s": -60}).to_string();
        Answer::of(ask.body(body))
            .await
            .text("access_token")
            .to_owned()
    };
    let stale = shop
        .request(Method::POST, &sale.path("/claims"))
        .bearer_auth(expired)
        .header("sale-pass", &n.pass)
        .header("idempotency-key", n.key());
    assert_eq!(Answer::of(stale).await.status, 401);
    n.claim().await.expect(201);
    // M: sold out, then a unit comes back and M is next.
    m.claim().await.expect_problem(409, "sold_out");
    k.ordered(&kept).await;
    k.give_back(&kept).await.expect(200);
    m.claim_when_admitted().await;
    sale.rest().await;
}

/// A winner who did not hear the answer asks again, and meanwhile everything
/// was claimed, or the sale was stopped: the answer is their claim. One of them took
/// a place in line before there was a line.
#[tokio::test]
async fn d04_a_winner_hears_of_the_claim_whatever_became_of_the_sale() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 2})).await;
    let (a, b) = (sale.shopper("ada").await, sale.shopper("bob").await);
    let c = sale.shopper("cleo").await;
    sale.opened().await;
    c.enter().await.expect(201);
    let claims = [(&a, a.claim().await), (&c, c.claim().await)];
    sale.reaches("ALL_CLAIMED").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for (switch, status, error) in [
        ("resume", 409, "sold_out"),
        ("waitlist-only", 409, "sold_out"),
        ("force-sold-out", 409, "sold_out"),
        ("pause", 503, "paused"),
        ("end", 410, "ended"),
    ] {
        sale.turn(switch).await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        for (shopper, claim) in &claims {
            for key in [shopper.key(), "after-a-restart".to_owned()] {
                let again = shopper.claim_as(&key).await.expect(200);
                assert_eq!(again.json["claim_id"], claim.json["claim_id"], "{switch}");
            }
        }
        b.claim_as("some-other-key")
            .await
            .expect_problem(status, error);
        b.entry.get().expect("a place in line");
    }
    assert_eq!(sale.rest().await.count("held"), 2);
}

/// Two shoppers at home in a bucket of one unit, so that the second one was served by
/// the other; then the first one gives the unit back, and the bucket forgets all that
/// it knew. The second one, and their claim.
async fn served_elsewhere<'a>(sale: &'a OnSale<'a>) -> (Shopper<'a>, Value) {
    let (other, shopper) = (sale.shopper_at(0).await, sale.shopper_at(0).await);
    sale.opened().await;
    let first = other.hold().await;
    let claim = shopper.hold().await;
    assert!(claim["claim_id"].as_str().unwrap().contains("_001_"));
    give_back(&other, &first).await;
    (shopper, claim)
}

async fn give_back(shopper: &Shopper<'_>, claim: &Value) {
    let path = format!("/v1/claims/{}", claim["claim_id"].as_str().unwrap());
    let back = Answer::of(shopper.request(Method::DELETE, &path)).await;
    back.expect(200);
}

/// The first bucket's gate loses everything, and is recovered.
async fn forget_first_bucket(sale: &OnSale<'_>) {
    let first = async || {
        let gates = sale.shop.ledger().gates(&sale.sale_id()).await;
        gates.unwrap().unwrap().addresses.swap_remove(0)
    };
    let tag = first().await.tag;
    let mut primary = sale.shop.system.gate().unwrap().connect(0).unwrap();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{{{tag}}}:*"))
        .query(&mut primary)
        .unwrap();
    redis::cmd("DEL").arg(keys).exec(&mut primary).unwrap();
    sale.shop.sweeper().await.keep_up().await.unwrap();
    eventually("the bucket is recovered", 20, async || {
        (first().await.epoch > 1).then_some(())
    })
    .await;
    // As everyone knows a second later.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
}

/// A home that lives anew has forgotten that another bucket served the shopper.
/// Asked again it gives a unit, which the ledger would take back: what is told is
/// the claim that stands.
#[tokio::test(flavor = "multi_thread")]
async fn d03_the_claim_that_stands_is_told_though_its_mark_is_lost() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 2, "buckets": 2})).await;
    let (shopper, claim) = served_elsewhere(&sale).await;
    forget_first_bucket(&sale).await;
    for key in [shopper.key(), "after-a-restart".to_owned()] {
        let told = shopper.claim_as(&key).await.expect(200);
        assert_eq!(told.json["claim_id"], claim["claim_id"]);
    }
    // The unit that was given for nothing is free again.
    sale.comes_to("free", 1).await;
    assert_eq!(sale.rest().await.count("held"), 1);
}

/// The same, but that claim was given back: the new yes stands, and is told.
#[tokio::test(flavor = "multi_thread")]
async fn d03_a_claim_that_has_ended_hides_no_new_one() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 2, "buckets": 2})).await;
    let (shopper, claim) = served_elsewhere(&sale).await;
    give_back(&shopper, &claim).await;
    forget_first_bucket(&sale).await;
    let told = shopper.claim_as("after-a-restart").await.expect(201);
    shopper.ordered(&told.json).await;
    assert_eq!(sale.rest().await.count("held"), 1);
}

#[tokio::test]
async fn d05_a_body_counts_by_what_it_says() {
    let shop = Shop::open().await;
    let sale = shop
        .sale(json!({"units": 9, "limit_per_customer": 3}))
        .await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let key = shopper.key();
    let wrong = async |status: u16| {
        for body in [
            r#"{"quantity": 1, "quantity": 1}"#,
            r#"{"quantity": 1} x"#,
            r#"{"quantity": 1"#,
            "[]",
        ] {
            shopper
                .claim_with(&key, body)
                .await
                .expect_problem(400, "malformed_request");
        }
        for body in [r#"{"quantity": 1.0}"#, r#"{"quantity": "1"}"#] {
            shopper
                .claim_with(&key, body)
                .await
                .expect_fields(&["quantity"]);
        }
        let unknown = r#"{"quantity": 1, "colour": "red"}"#;
        shopper
            .claim_with(&key, unknown)
            .await
            .expect_fields(&["colour"]);
        let claim = shopper.claim_with(&key, "{}").await;
        assert_eq!(claim.status, status);
        claim.json["claim_id"].clone()
    };
    // The same before and after the first use.
    let first = wrong(201).await;
    assert_eq!(wrong(200).await, first);
    for body in ["{ \"quantity\"\n:\t1 }", r#"{"\u0071uantity":1}"#, "", "{}"] {
        let again = shopper.claim_with(&key, body).await.expect(200);
        assert_eq!(again.json["claim_id"], first);
    }
    assert_eq!(sale.rest().await.count("held"), 1);
}

/// H07's rule from outside: what the queue delivers twice is one order.
#[tokio::test]
async fn d03_a_message_that_is_delivered_again_is_one_order() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 12, "buckets": 2})).await;
    let queue = shop.system.queue().unwrap();
    queue.set_faults(Faults {
        copies: 3,
        delay: Duration::ZERO,
        ..Faults::default()
    });
    let crowd = sale.crowd(12).await;
    sale.opened().await;
    all(crowd.iter().map(Shopper::hold)).await;
    tests::eventually("the queue is empty", 10, async || {
        (queue.counts() == (0, 0)).then_some(())
    })
    .await;
    let books = sale.rest().await;
    assert_eq!((books.count("held"), books.orders().count()), (12, 12));
    assert!(queue.dead_letters().is_empty());
}
