//! F: the server's clock, and clocks that disagree.

use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{Answer, Shop, Shopper, all, now, until, until_after};

#[tokio::test]
async fn f01_a_time_without_an_offset_is_no_time() {
    let shop = Shop::quiet().await;
    let create = async |changes: Value| {
        shop.admin(Method::POST, "/v1/admin/sales", &shop.draft(changes).into())
            .await
    };
    for wrong in [
        json!("2036-11-11T12:00:00"),
        json!("2036-11-11 12:00"),
        json!("2036-11-11T12:00:00-00:00"),
        json!("2036-02-30T00:00:00Z"),
        json!("2036-11-01T01:30[America/New_York]"),
        json!("2036-11-01T01:30:00-04:00[America/New_York]"),
        json!("2036-11-11T24:00:00Z"),
        json!("2036-11-11T12:00:00+5:30"),
        json!("11/11/2036"),
        json!("tomorrow"),
        json!(""),
        json!(2_109_024_000),
        json!(2_109_024_000_000_u64),
        json!(null),
        json!("2020-01-01T00:00:00Z"),
    ] {
        create(json!({"opens_at": wrong}))
            .await
            .expect_fields(&["opens_at"]);
    }
    let opens = "2036-11-11T12:00:00+05:30";
    for closes in [opens, "2036-11-11T11:59:59+05:30", "2036-11-11T06:30:00Z"] {
        let changes = json!({"opens_at": opens, "closes_at": closes});
        create(changes).await.expect_fields(&["closes_at"]);
    }
    let made = create(json!({"opens_at": opens})).await.expect(201).json;
    assert_eq!(made["opens_at"], "2036-11-11T12:00:00.000+05:30");
    let at: Timestamp = made["opens_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(at, "2036-11-11T06:30:00Z".parse().unwrap());
}

/// This machine is client and server: whatever was answered before the
/// opening was asked too early, whatever was asked after it was not.
#[tokio::test(flavor = "multi_thread")]
async fn f01_f03_a_sale_opens_to_the_millisecond_by_the_servers_clock() {
    let shop = Shop::quiet().await;
    // An odd instant, in an odd offset.
    let opens = now() + SignedDuration::from_millis(1_637);
    let local = jiff::tz::Offset::from_seconds(19_800)
        .unwrap()
        .to_datetime(opens);
    let text = format!("{local:.3}+05:30");
    let sale = shop.sale(json!({"opens_at": text, "units": 250})).await;
    assert_eq!(sale.opens_at, opens);
    let crowd = sale.crowd(4).await;
    until(opens - SignedDuration::from_millis(150)).await;
    let (mut early, mut open) = (0, 0);
    while now() < opens + SignedDuration::from_millis(150) {
        let tried = all(crowd.iter().map(|shopper| async move {
            let sent = now();
            // What the client believes the time to be does not matter.
            let request = shopper
                .claim_request(&shopper.key(), "{}")
                .header("date", "Fri, 01 Jan 2038 00:00:00 GMT");
            (sent, Answer::of(request).await, now())
        }))
        .await;
        for (sent, answer, received) in tried {
            if received < opens {
                answer.expect_problem(425, "not_open");
                early += 1;
            } else if sent >= opens {
                assert!(matches!(answer.status, 200 | 201), "{:#}", answer.json);
                open += 1;
            }
        }
    }
    assert!(early > 3 && open > 3, "{early} before, {open} after");
}

#[tokio::test]
async fn f03_the_status_tells_the_servers_time() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    for _ in 0..50 {
        let before = now();
        let answer = shop.get(&sale.path("/status")).await.expect(200);
        let told: Timestamp = answer.text("server_time").parse().unwrap();
        assert!((before..=now()).contains(&told), "{told}");
        assert_eq!(answer.header("cache-control"), "public, max-age=1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f04_clocks_that_disagree_sell_no_unit_twice_and_lose_none() {
    let mut options = Shop::options();
    let seconds = SignedDuration::from_secs;
    options.schedules = false;
    options.skew = [
        ("claim-function".to_owned(), seconds(2)),
        ("order-function".to_owned(), seconds(5)),
    ]
    .into();
    let shop = Shop::start(options).await;
    let changes = json!({"units": 20, "buckets": 2, "pay_window_s": 12});
    let sale = shop.sale_in(4_000, changes).await;
    let crowd = sale.crowd(40).await;
    // The claim function believes that it is open 2 s early, and no earlier.
    until(sale.opens_at - SignedDuration::from_millis(2_300)).await;
    crowd[0].claim().await.expect_problem(425, "not_open");
    until_after(sale.opens_at, -1_000).await;
    // A pass is not good before the opening by anyone's clock but the claim
    // function's own, so this is decided by one clock.
    let answers = all(crowd.iter().map(Shopper::claim_patiently)).await;
    let won: Vec<_> = crowd
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_yes())
        .collect();
    assert_eq!(won.len(), 20);
    for (shopper, answer) in &won {
        shopper.ordered(&answer.json).await;
    }
    // Half of them pay, while one sweeper is behind and another ahead.
    let (behind, ahead) = (
        shop.sweeper_ahead(seconds(-2)).await,
        shop.sweeper_ahead(seconds(2)).await,
    );
    all(won[..10]
        .iter()
        .map(|(shopper, answer)| shopper.pay(&answer.json)))
    .await;
    let pay_by: Timestamp = won[19].1.text("pay_by").parse().unwrap();
    // Both look at a moment when the order function's clock says expired and
    // the payment function's does not: the ledger's row decides.
    until(pay_by - seconds(3)).await;
    behind.sweep().await.unwrap();
    behind.keep_up().await.unwrap();
    ahead.sweep().await.unwrap();
    ahead.keep_up().await.unwrap();
    let (shopper, answer) = won[19];
    let payment = shopper.begin_payment(&answer.json).await.expect(201).json;
    until(pay_by + seconds(2)).await;
    ahead.sweep().await.unwrap();
    ahead.keep_up().await.unwrap();
    behind.sweep().await.unwrap();
    behind.keep_up().await.unwrap();
    let event = shopper.confirm(&payment, "succeed", None).await;
    event.deliver(shopper).await.expect(200);
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.count("expired")), (11, 9));
    assert_eq!(books.count("free"), 9);
}
