//! C: every capture is a paid order's, or goes back once.

use std::time::Duration;

use domain::{ClaimId, OrderStatus};
use local::Faults;
use serde_json::{Value, json};
use tests::{Shop, all, eventually};

fn success(id: &str, payment: &Value, order: &Value) -> Value {
    json!({
        "id": id, "type": "payment_intent.succeeded", "intent": payment["intent_id"],
        "amount": payment["amount"], "currency": payment["currency"],
        "metadata": {"order_id": order},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn c02_c04_taps_on_pay_open_one_intent() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let claim = shopper.hold().await;
    let path = tests::shopper::order_path(&claim, "/payments");
    // The same key, no key, ten keys: side by side, on as many instances.
    let answers = all((0..30).map(|n| {
        let request = shopper.request(reqwest::Method::POST, &path);
        let request = match n % 3 {
            0 => request.header("idempotency-key", "the-same-key"),
            1 => request,
            _ => request.header("idempotency-key", format!("key-number-{n}")),
        };
        tests::Answer::of(request)
    }))
    .await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(created, 1);
    for answer in &answers {
        assert!(matches!(answer.status, 200 | 201), "{:#}", answer.json);
        assert_eq!(answer.json["intent_id"], answers[0].json["intent_id"]);
    }
    let payment = &answers[0].json;
    let events = [
        shopper.confirm(payment, "succeed", None).await,
        shopper.confirm(payment, "succeed", None).await,
    ];
    for event in &events {
        event.deliver(&shopper).await.expect(200);
    }
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("paid"),
            books.payments().count(),
            books.refunds().count()
        ),
        (1, 1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c03_a_payment_that_is_told_again_and_again_is_one() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let claim = shopper.hold().await;
    let payment = shopper.begin_payment(&claim).await.expect(201).json;
    let event = shopper.confirm(&payment, "succeed", None).await;
    let answers = all((0..5).map(|_| event.deliver(&shopper))).await;
    let results: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.expect(200))
        .collect();
    assert_eq!(
        results
            .iter()
            .filter(|answer| answer.text("result") == "paid")
            .count(),
        1
    );
    let claim: ClaimId = claim["claim_id"].as_str().unwrap().parse().unwrap();
    let ledger = shop.ledger();
    let paid = ledger.order(&claim).await.unwrap().unwrap();
    assert_eq!((paid.status, paid.attempt), (OrderStatus::Paid, 1));
    // The same payment under another event, and under others of other types.
    let again = success("evt_again", &payment, &payment["order_id"]);
    let of_type = |name: &str| {
        let mut event = again.clone();
        event["id"] = format!("evt_of_{name}").into();
        event["type"] = name.into();
        event
    };
    for (event, result) in [
        (again.clone(), "already_applied"),
        (of_type("charge.succeeded"), "ignored"),
        (of_type("payment_intent.payment_failed"), "already_applied"),
        (of_type("payment_intent.canceled"), "already_applied"),
    ] {
        for _ in 0..2 {
            let answer = shop.forge_webhook(&event.to_string()).await.expect(200);
            assert_eq!(answer.text("result"), result, "{event}");
        }
    }
    let after = ledger.order(&claim).await.unwrap().unwrap();
    assert_eq!(after, paid, "paid once, and not written since");
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.refunds().count()), (1, 0));
}

#[tokio::test]
async fn c05_an_event_that_is_early_is_asked_for_again_and_never_pays_for_another() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let faults = Faults {
        delay: Duration::from_secs(3),
        copies: 0,
        ..Faults::default()
    };
    shop.system.queue().unwrap().set_faults(faults);
    let claim = shopper.claim().await.expect(201).json;
    let order = &claim["order"]["order_id"];
    let odd = json!({"intent_id": "pi_of_nobody", "amount": 999_900, "currency": "INR"});
    let early = success("evt_early", &odd, order).to_string();
    let answer = shop
        .forge_webhook(&early)
        .await
        .expect_problem(404, "not_found");
    assert!(!answer.text("detail").is_empty());
    shopper.ordered(&claim).await;
    // Delivered again, it is seen to be no payment of ours, and goes back.
    let answer = shop.forge_webhook(&early).await.expect(200);
    assert_eq!(answer.text("result"), "refund");
    assert_eq!(
        shopper.read_order(&claim).await.text("status"),
        "PENDING_PAYMENT"
    );
    assert_eq!(shopper.pay(&claim).await["status"], "PAID");
    eventually("the refund is confirmed", 15, async || {
        let books = sale.books().await;
        books
            .refunds()
            .all(|refund| refund["status"] == "REFUNDED")
            .then_some(())
    })
    .await;
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.refunds().count()), (1, 1));
    // An order that never was: not swallowed, and no fault of ours either.
    let mut never = order.as_str().unwrap().to_owned();
    never.replace_range(never.len() - 4.., "0000");
    let never = success("evt_never", &odd, &never.into()).to_string();
    for _ in 0..2 {
        shop.forge_webhook(&never)
            .await
            .expect_problem(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c06_c13_only_the_exact_amount_pays() {
    let shop = Shop::open().await;
    let price = json!({"amount": 10_000, "currency": "JPY"});
    let wrong = [
        json!({"amount": 100, "currency": "JPY"}),
        json!({"amount": 1_000_000, "currency": "JPY"}),
        json!({"amount": 9_999, "currency": "JPY"}),
        json!({"amount": 10_001, "currency": "JPY"}),
        json!({"amount": 0, "currency": "JPY"}),
        json!({"amount": 10_000, "currency": "USD"}),
    ];
    let sale = shop.sale_in(900, json!({"units": 7, "price": price})).await;
    let crowd = sale.crowd(7).await;
    sale.opened().await;
    all(crowd.iter().enumerate().map(|(n, shopper)| {
        let captured = wrong.get(n).cloned();
        async move {
            let claim = shopper.hold().await;
            let payment = shopper.begin_payment(&claim).await.expect(201).json;
            assert_eq!(
                (&payment["amount"], &payment["currency"]),
                (&json!(10_000), &json!("JPY"))
            );
            let event = shopper.confirm(&payment, "succeed", captured.clone()).await;
            let answer = event.deliver(shopper).await.expect(200);
            let (result, status) = match captured {
                None => ("paid", "PAID"),
                Some(_) => ("mismatch", "PAYING"),
            };
            assert_eq!(answer.text("result"), result, "{captured:?}");
            let order = shopper.read_order(&claim).await.json;
            if captured.is_none() {
                assert_eq!(order["status"], status);
                assert_eq!(order["display"], "JPY 10000");
            } else {
                assert_ne!(order["status"], "PAID");
            }
        }
    }))
    .await;
    eventually("what was captured wrongly went back", 15, async || {
        let books = sale.books().await;
        books
            .refunds()
            .all(|refund| refund["status"] == "REFUNDED")
            .then_some(())
    })
    .await;
    let books = sale.books().await;
    assert_eq!(books.count("paid"), 1);
    // Of nothing, nothing goes back.
    assert_eq!(books.refunds().count(), 5);
}

#[tokio::test]
async fn c07_an_intent_pays_the_order_it_was_made_for() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 2})).await;
    let crowd = sale.crowd(2).await;
    let (a, b) = (&crowd[0], &crowd[1]);
    sale.opened().await;
    let claims = [a.hold().await, b.hold().await];
    let payment = a.begin_payment(&claims[0]).await.expect(201).json;
    b.begin_payment(&claims[1]).await.expect(201);
    a.confirm(&payment, "succeed", None).await;
    // A's intent, B's order.
    let crossed = success("evt_crossed", &payment, &claims[1]["order"]["order_id"]);
    let answer = shop.forge_webhook(&crossed.to_string()).await;
    assert!(answer.status < 500, "{:#}", answer.json);
    assert_ne!(answer.text("result"), "paid");
    assert_ne!(b.read_order(&claims[1]).await.text("status"), "PAID");
    // For its own order it counts, if the crossed event did not return it.
    let own = success("evt_own", &payment, &payment["order_id"]);
    shop.forge_webhook(&own.to_string()).await.expect(200);
    assert_ne!(b.read_order(&claims[1]).await.text("status"), "PAID");
    // B can't bring A's intent along.
    let path = tests::shopper::order_path(&claims[1], "/payments");
    let body = json!({"intent_id": payment["intent_id"]}).to_string();
    let request = b.request(reqwest::Method::POST, &path).body(body);
    tests::Answer::of(request)
        .await
        .expect_fields(&["intent_id"]);
    sale.books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c13_c15_amounts_are_the_same_from_price_to_capture() {
    let shop = Shop::open().await;
    let cases = [
        (10_000, "JPY", "JPY 10000"),
        (10_000, "KRW", "KRW 10000"),
        (10_000, "VND", "VND 10000"),
        (10_000, "HUF", "HUF 100.00"),
        (10_005, "KWD", "KWD 10.005"),
        (10, "KWD", "KWD 0.010"),
        (999_900, "INR", "INR 9999.00"),
        (1_999, "USD", "USD 19.99"),
        (1, "USD", "USD 0.01"),
        (1_999, "EUR", "EUR 19.99"),
        (26_390, "EUR", "EUR 263.90"),
        (820, "EUR", "EUR 8.20"),
        (58_242, "EUR", "EUR 582.42"),
        (9_999_999_999, "EUR", "EUR 99999999.99"),
        ((1_u64 << 53) - 1, "EUR", "EUR 90071992547409.91"),
    ];
    all(cases.into_iter().map(|(amount, currency, display)| {
        let shop = &shop;
        async move {
            let price = json!({"amount": amount, "currency": currency});
            let sale = shop.sale(json!({"price": price})).await;
            assert_eq!(sale.made["price"], price);
            assert_eq!(sale.made["display_price"], display);
            let public = shop.get(&sale.path("")).await.expect(200).json;
            assert_eq!(public["price"]["amount"], amount);
            assert_eq!(public["price"]["display"], display);
            let shopper = sale.shopper("ada").await;
            sale.opened().await;
            let claim = shopper.hold().await;
            let payment = shopper.begin_payment(&claim).await.expect(201).json;
            assert_eq!(
                (&payment["amount"], &payment["currency"]),
                (&amount.into(), &currency.into())
            );
            let order = shopper.pay(&claim).await;
            assert_eq!(
                (&order["status"], &order["display"]),
                (&json!("PAID"), &json!(display))
            );
            let books = sale.rest().await;
            assert!(books.payments().all(|payment| payment["amount"] == amount));
        }
    }))
    .await;
    for amount in [
        json!(19.99),
        json!("100.50"),
        json!("1999"),
        json!(1e3),
        json!(-1),
    ] {
        let draft = shop.draft(json!({"price": {"amount": amount, "currency": "JPY"}}));
        let answer = shop
            .admin(reqwest::Method::POST, "/v1/admin/sales", &draft.into())
            .await;
        answer.expect_fields(&["price.amount"]);
    }
}

/// What costs nothing is paid by the tap on Pay and by nobody else, once, while
/// the hold lasts; without a tap the hold ends like any other.
#[tokio::test(flavor = "multi_thread")]
async fn what_costs_nothing_is_paid_without_a_provider() {
    let shop = Shop::open().await;
    let price = json!({"amount": 0, "currency": "INR"});
    let changes = json!({"units": 2, "price": price, "pay_window_s": 3});
    let sale = shop.sale(changes).await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    let claims = [crowd[0].hold().await, crowd[1].hold().await];
    let answers = all((0..10).map(|_| crowd[0].begin_payment(&claims[0]))).await;
    let new = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(new, 1);
    for answer in answers {
        assert!(matches!(answer.status, 200 | 201), "{:#}", answer.json);
        assert_eq!(
            (answer.text("status"), answer.text("provider")),
            ("paid", "none")
        );
        assert_eq!(answer.json.get("client_secret"), None);
    }
    crowd[0].order_is(&claims[0], "PAID").await;
    crowd[1].order_is(&claims[1], "EXPIRED").await;
    let late = crowd[1].begin_payment(&claims[1]).await;
    late.expect_problem(409, "expired");
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.payments().count()), (1, 0));
}

/// A hold that is given back takes no money any more, although the intent of its
/// declined attempt could be confirmed again; and what was paid meanwhile is no
/// hold that could be given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_given_back_only_once_its_declined_intent_is_closed() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 2})).await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    for (shopper, pays) in crowd.iter().zip([false, true]) {
        let claim = shopper.hold().await;
        let payment = shopper.begin_payment(&claim).await.expect(201).json;
        shopper.give_back(&claim).await.expect(409);
        let declined = shopper.confirm(&payment, "decline", None).await;
        declined.deliver(shopper).await.expect(200);
        if pays {
            // Of which nobody tells.
            shopper.confirm(&payment, "succeed", None).await;
            let answer = shopper.give_back(&claim).await;
            answer.expect_problem(409, "not_cancellable");
            shopper.order_is(&claim, "PAID").await;
            continue;
        }
        let answer = shopper.give_back(&claim).await.expect(200);
        assert_eq!(answer.text("status"), "CANCELLED");
        shopper
            .try_confirm(&payment, "succeed", None)
            .await
            .expect_problem(409, "not_payable");
    }
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("paid"),
            books.payments().count(),
            books.refunds().count()
        ),
        (1, 1, 0)
    );
}
