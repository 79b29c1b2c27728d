//! F: the server's clock, and clocks that disagree.

use jiff::{SignedDuration, Timestamp};
use local::Options;
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

/// Every function lives at this time. Its system starts so long before it.
async fn shop_before(at: Timestamp, ms: i64) -> (Shop, SignedDuration) {
    let skew = at - SignedDuration::from_millis(ms) - now();
    let functions = [
        "admin", "claim", "entry", "order", "pass", "payment", "status", "sweeper",
    ];
    let options = Options {
        schedules: false,
        skew: functions
            .map(|name| (format!("{name}-function"), skew))
            .into(),
        ..Shop::options()
    };
    (Shop::start(options).await, skew)
}

/// Clocks go back, or forward, two minutes after the opening: ten minutes to pay are
/// ten minutes, and what was said of the sale is what is told of it.
#[tokio::test(flavor = "multi_thread")]
async fn f02_no_clock_change_moves_a_deadline_or_a_closing() {
    for (opens, closes, minutes) in [
        // London, where 01:59:59+01:00 is followed by 01:00:00+00:00.
        (
            "2026-10-25T01:58:00.000+01:00",
            "2026-10-25T02:30:00.000Z",
            92,
        ),
        // And 00:59:59+00:00 by 02:00:00+01:00.
        (
            "2026-03-29T00:58:00.000Z",
            "2026-03-29T03:30:00.000+01:00",
            92,
        ),
    ] {
        let opens_at: Timestamp = opens.parse().unwrap();
        let (shop, skew) = shop_before(opens_at, 10_000).await;
        let changes = json!({"opens_at": opens, "closes_at": closes, "pay_window_s": 600});
        let sale = shop.sale(changes).await;
        assert_eq!(
            (&sale.made["opens_at"], &sale.made["closes_at"]),
            (&json!(opens), &json!(closes))
        );
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(time(closes) - opens_at, SignedDuration::from_mins(minutes));
        let shopper = sale.shopper("ada").await;
        until_after(opens_at - skew, 5).await;
        let status = sale.status().await;
        assert_eq!(
            (&status["opens_at"], &status["closes_at"]),
            (&json!(opens), &json!(closes))
        );
        let claimed = shopper.claim().await.expect(201).json;
        let order = shopper.ordered(&claimed).await;
        let (at, pay_by) = (now() + skew, time(claimed["pay_by"].as_str().unwrap()));
        assert_eq!(time(order["pay_by"].as_str().unwrap()), pay_by);
        let window = (pay_by - at).as_secs_f64();
        assert!((590.0..=600.0).contains(&window), "{window} s to pay");
        // The hold lasts until then, and not an hour more.
        for (after_s, free) in [(-2, 0), (1, 1)] {
            let then = pay_by + SignedDuration::from_secs(after_s) - now();
            let sweeper = shop.sweeper_ahead(then).await;
            sweeper.sweep().await.unwrap();
            sweeper.keep_up().await.unwrap();
            assert_eq!(sale.count("free").await, free, "{after_s} s after {pay_by}");
        }
        let order = shopper.read_order(&claimed).await.json;
        assert_eq!(order["status"], "EXPIRED");
    }
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
    // Nobody has swept yet: what a hold is, its own time says.
    let (other, held) = won[18];
    let theirs: Timestamp = held.text("pay_by").parse().unwrap();
    until(theirs.max(pay_by) + seconds(1)).await;
    let late = other.begin_payment(&held.json).await;
    late.expect_problem(409, "expired");
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
