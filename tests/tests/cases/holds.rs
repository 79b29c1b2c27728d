//! B: holds end once, at their time, and their units come back.

use std::time::Duration;

use domain::{BucketId, OrderStatus};
use jiff::{SignedDuration, Timestamp};
use local::Options;
use serde_json::{Value, json};
use tests::{Answer, Shop, Shopper, all, eventually, now, until, until_after};

/// A system in which an intent can be paid for so many seconds.
async fn with_intents_of(seconds: u32, schedules: bool) -> Shop {
    let options = Options {
        schedules,
        ..Shop::options()
    };
    Shop::start(Shop::with_intents_of(seconds, options)).await
}

fn time(of: &Value, name: &str) -> Timestamp {
    of[name].as_str().unwrap().parse().unwrap()
}

/// The provider's word that an intent was paid, signed as it signs.
async fn late_success(shop: &Shop, payment: &Value) -> Answer {
    let intent = payment["intent_id"].as_str().unwrap();
    let payload = json!({
        "id": format!("evt_late_{intent}"), "type": "payment_intent.succeeded", "intent": intent,
        "amount": payment["amount"], "currency": payment["currency"],
        "metadata": {"order_id": payment["order_id"]},
    });
    shop.forge_webhook(&payload.to_string()).await
}

#[tokio::test]
async fn b01_an_expired_holder_does_not_disturb_the_new_one() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"pay_window_s": 2})).await;
    let crowd = sale.crowd(2).await;
    let (a, b) = (&crowd[0], &crowd[1]);
    sale.opened().await;
    let old = a.hold().await;
    b.claim().await.expect_problem(409, "sold_out");
    let new = b.claim_when_admitted().await.json;
    b.ordered(&new).await;
    let before = b.read_claim(&new).await.json;

    assert_eq!(
        a.read_claim(&old).await.expect(200).text("status"),
        "EXPIRED"
    );
    // Neither the old key nor a new one revives it, or takes another unit.
    for key in [a.key(), "a-new-key".to_owned()] {
        let again = a.claim_as(&key).await.expect(200);
        assert_eq!(again.json["claim_id"], old["claim_id"]);
        assert_eq!(again.text("status"), "EXPIRED");
    }
    let refused = a.begin_payment(&old).await;
    assert!(
        matches!(refused.error(), "expired" | "not_payable"),
        "{:#}",
        refused.json
    );
    assert_eq!(refused.status, 409);
    assert_eq!(
        b.read_claim(&new).await.json,
        before,
        "no deadline has moved"
    );
    assert_eq!(b.pay(&new).await["status"], "PAID");
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.count("expired")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_many_holds_that_lapse_together_come_back_once() {
    let shop = Shop::open().await;
    let changes = json!({"units": 300, "buckets": 8, "pay_window_s": 5});
    let sale = shop.sale_in(3_000, changes).await;
    let crowd = sale.crowd(340).await;
    sale.opened().await;
    let answers = all(crowd.iter().map(Shopper::claim_patiently)).await;
    let last = answers
        .iter()
        .filter(|answer| answer.is_yes())
        .map(|a| time(&a.json, "pay_by"));
    let last = last.max().unwrap();
    let waiting: Vec<_> = crowd
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| !answer.is_yes())
        .map(|(shopper, _)| shopper)
        .collect();
    assert_eq!(waiting.len(), 40);
    // They ask all the time, also while the holds are swept.
    let bought = all(waiting.iter().map(|shopper| shopper.claim_when_admitted())).await;
    assert!(bought.iter().all(Answer::is_yes));
    sale.comes_to("expired", 300).await;
    let took = now() - last;
    assert!(
        took < SignedDuration::from_secs(10),
        "swept {took:#} after the last deadline"
    );
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("held")), (260, 40));
}

#[tokio::test]
async fn b06_one_run_of_the_sweeper_sweeps_again_and_again() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 3, "pay_window_s": 3})).await;
    let crowd = sale.crowd(3).await;
    sale.opened().await;
    // Started once, as a schedule does; it must outlive several deadlines.
    let event = json!({});
    let run = shop.system.invoke("sweeper-function", &event);
    let check = async {
        for shopper in &crowd {
            let claim = shopper.hold().await;
            until(time(&claim, "pay_by")).await;
            shopper.order_is(&claim, "EXPIRED").await;
            let late = now() - time(&claim, "pay_by");
            assert!(late < SignedDuration::from_secs(5), "{late:#}");
        }
    };
    tokio::select! {
        ended = run => panic!("the sweeper ended while a sale is live: {ended:?}"),
        () = check => {}
    }
    assert_eq!(sale.rest().await.count("free"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_sweepers_that_overlap_release_each_unit_once() {
    let shop = Shop::quiet().await;
    let changes = json!({"units": 100, "buckets": 4, "pay_window_s": 3});
    let sale = shop.sale_in(1_500, changes).await;
    let crowd = sale.crowd(100).await;
    sale.opened().await;
    all(crowd.iter().map(Shopper::hold)).await;
    let sweepers = [
        shop.sweeper().await,
        shop.sweeper().await,
        shop.sweeper().await,
    ];
    until_after(now(), 3_100).await;
    // A sweeper that stopped between ledger and gate.
    let (ledger, id) = (shop.ledger(), sale.sale_id());
    let whole = ledger.whole_bucket(&id, BucketId(0)).await.unwrap();
    let one = &whole.orders[..1];
    let ended = ledger
        .release(&id, BucketId(0), one, OrderStatus::Expired, now())
        .await
        .unwrap();
    assert_eq!(ended.len(), 1);
    let report = sale.report().await;
    // The control: the unit is missing at the gate, and the report says why.
    assert_eq!(
        (&report["free"], &report["returning"]),
        (&json!(0), &json!(1))
    );

    let swept = tokio::join!(
        sweepers[0].sweep(),
        sweepers[1].sweep(),
        sweepers[2].keep_up()
    );
    assert!(swept.0.is_ok() && swept.1.is_ok() && swept.2.is_ok());
    sweepers[0].sweep().await.unwrap();
    let books = sale.rest().await;
    assert_eq!((books.count("free"), books.count("allotted")), (100, 0));
    assert_eq!(books.count("expired"), 100);
}

#[tokio::test]
async fn b08_a_unit_that_is_being_paid_is_not_released() {
    let shop = with_intents_of(6, false).await;
    let sale = shop.sale(json!({"units": 3, "pay_window_s": 3})).await;
    let crowd = sale.crowd(3).await;
    sale.opened().await;
    let mut claims = Vec::new();
    for shopper in &crowd {
        claims.push(shopper.hold().await);
    }
    let mut payments = Vec::new();
    for n in [0, 1] {
        payments.push(crowd[n].begin_payment(&claims[n]).await.expect(201).json);
    }
    let sweeper = shop.sweeper().await;
    until_after(time(&claims[2], "pay_by"), 200).await;
    for _ in 0..2 {
        sweeper.sweep().await.unwrap();
        sweeper.keep_up().await.unwrap();
    }
    // Who taps Pay after the deadline gets no intent.
    let late = crowd[2].begin_payment(&claims[2]).await;
    assert_eq!(late.status, 409, "{:#}", late.json);
    let books = sale.books().await;
    assert_eq!(
        (
            books.count("paying"),
            books.count("free"),
            books.count("expired")
        ),
        (2, 1, 1)
    );
    let no_intent = books.order_of(&crowd[2].name);
    assert!(no_intent[0].get("intent").is_none());

    // The first one's webhook comes; the second one's never does.
    let event = crowd[0].confirm(&payments[0], "succeed", None).await;
    event.deliver(&crowd[0]).await.expect(200);
    until_after(time(&payments[1], "expires_at"), 200).await;
    for _ in 0..2 {
        sweeper.sweep().await.unwrap();
        sweeper.keep_up().await.unwrap();
    }
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("paid"),
            books.count("expired"),
            books.count("free")
        ),
        (1, 2, 2)
    );
    crowd[1]
        .try_confirm(&payments[1], "succeed", None)
        .await
        .expect_problem(409, "not_payable");
}

#[tokio::test]
async fn b10_a_late_payment_is_refunded_and_the_new_holder_keeps_the_unit() {
    let shop = with_intents_of(2, true).await;
    // (a) after the new holder paid, (b) before the new holder claims.
    for after in [true, false] {
        let sale = shop
            .sale(json!({"pay_window_s": 2, "waitlist_pay_window_s": 60}))
            .await;
        let crowd = sale.crowd(2).await;
        let (a, b) = (&crowd[0], &crowd[1]);
        sale.opened().await;
        let old = a.hold().await;
        let payment = a.begin_payment(&old).await.expect(201).json;
        b.claim().await.expect_problem(409, "sold_out");
        a.order_is(&old, "EXPIRED").await;
        if !after {
            let answer = late_success(&shop, &payment).await.expect(200);
            assert_eq!(answer.text("result"), "refund");
        }
        let new = b.claim_when_admitted().await.json;
        b.ordered(&new).await;
        assert_eq!(b.pay(&new).await["status"], "PAID");
        for _ in 0..2 {
            let answer = late_success(&shop, &payment).await.expect(200);
            assert_ne!(answer.text("result"), "paid");
        }
        let refund = eventually("the refund is confirmed", 20, async || {
            let order = a.read_order(&old).await.json;
            (order["refund"]["status"] == "REFUNDED").then_some(order)
        })
        .await;
        assert_eq!(refund["status"], "EXPIRED");
        assert_eq!(refund["refund"]["amount"], payment["amount"]);
        let books = sale.rest().await;
        assert_eq!((books.count("paid"), books.refunds().count()), (1, 1));
        assert_eq!(books.order_of(&b.name)[0]["status"], "PAID");
    }
}

#[tokio::test]
async fn b11_the_provider_is_asked_before_a_payment_expires() {
    let shop = with_intents_of(2, false).await;
    let sale = shop.sale(json!({"pay_window_s": 2})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let claim = shopper.hold().await;
    let payment = shopper.begin_payment(&claim).await.expect(201).json;
    let event = shopper.confirm(&payment, "succeed", None).await;
    until_after(time(&payment, "expires_at"), 200).await;
    assert_eq!(
        shopper.read_order(&claim).await.text("status"),
        "PAYING",
        "nobody has told us"
    );
    shop.sweeper().await.sweep().await.unwrap();
    assert_eq!(shopper.read_order(&claim).await.text("status"), "PAID");
    // The webhook that was lost comes after all.
    assert_eq!(
        event.deliver(&shopper).await.expect(200).text("result"),
        "already_applied"
    );
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.refunds().count()), (1, 0));
}

/// What is left of the time after a deadline is no reason to keep a unit.
#[tokio::test]
async fn p2_each_returned_unit_is_on_offer_within_two_seconds() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 3, "pay_window_s": 3})).await;
    let crowd = sale.crowd(6).await;
    sale.opened().await;
    let mut last = now();
    for shopper in &crowd[..3] {
        last = last.max(time(&shopper.hold().await, "pay_by"));
    }
    for shopper in &crowd[3..] {
        shopper.claim().await.expect_problem(409, "sold_out");
    }
    let round = sale.status().await["draw"]["round"].clone();
    let status = eventually("three more are admitted", 12, async || {
        let status = sale.status().await;
        (status["free"] == 3 && status["draw"]["round"] != round).then_some(status)
    })
    .await;
    let late = now() - last;
    assert!(
        late < SignedDuration::from_millis(2_500),
        "offered {late:#} after, {status:#}"
    );
    all(crowd[3..].iter().map(Shopper::claim_when_admitted)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(sale.rest().await.count("held"), 3);
}
