//! Sales that are paid through Stripe, for which localstripe stands in: whole
//! ones with a crowd, and what goes wrong between us and a provider.
//!
//! `make test` runs small ones; `make stripe` also those that are ignored here,
//! which are the same at full size.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::time::Duration;

use drill::config::Shares;
use drill::{Config, Crowd, Mode, Progress};
use local::Options;
use reqwest::Method;
use serde_json::{Value, json};
use tests::deliveries::Way;
use tests::link::Condition;
use tests::shopper::order_path;
use tests::stripe::{BAD_CARD, Capture, GOOD_CARD, StripeShop, disagreements};
use tests::{Answer, OnSale, Shop, Shopper, all, eventually};
use tokio::time::{Instant, sleep};

/// How long a unit waits for a payment that was begun and not made, in seconds.
const INTENT_S: u32 = 12;

/// A race for so many units in which a fifth are declined first and a tenth
/// abandon what they won.
fn crowd(units: u32, sale: &str) -> Crowd {
    Crowd {
        shoppers: units + units / 2,
        units,
        buckets: Some(4),
        mode: Mode::Race,
        pay_window_s: Some((units / 8).max(8)),
        waitlist_pay_window_s: Some((units / 16).max(8)),
        claim_spread_s: 1,
        sale_limit_s: Some(900),
        shares: Shares {
            decline: 20.0,
            never_pay: 10.0,
            ..Crowd::default().shares
        },
        sale: Some(sale.parse().unwrap()),
        ..Crowd::default()
    }
}

/// Sells so many units through Stripe, and compares its books with ours.
async fn sell(units: u32) {
    const SALE: &str = "through-stripe";
    let options = Shop::with_intents_of(INTENT_S, Options::default());
    let shop = StripeShop::start(options).await;
    let config = Config {
        target: shop.target(),
        crowd: crowd(units, SALE),
        progress: Progress::Quiet,
    };
    let outcome = drill::run(config).await.expect("the drill runs to its end");
    shop.deliveries.quiet().await;
    assert!(outcome.passed(), "{outcome}");
    let (events, copies) = shop.deliveries.seen();
    assert!(copies > events, "{copies} deliveries of {events} events");

    let path = format!("/v1/admin/sales/{SALE}");
    let made = shop.shop.admin(Method::GET, &path, &Value::Null).await;
    let sale = OnSale::new(&shop.shop, &made.expect(200).json);
    let books = sale.rest().await;
    let captures = shop.captures().await;
    let paid = books.count("paid");
    assert!(paid >= i64::from(units) / 2, "{paid} of {units} units");
    let wrong = disagreements(&books, &captures);
    assert!(wrong.is_empty(), "{wrong:#?}");

    // Money that is none of an order's: a second capture, another amount,
    // another currency, for a paid order and for one that ended.
    let with = |paid: bool| {
        let order = books.orders().find(|one| (one["status"] == "PAID") == paid);
        order.map(|order| order["order_id"].as_str().unwrap().to_owned())
    };
    let odd = [(999_900, "INR"), (999_800, "INR"), (999_900, "USD")];
    let mut beside = Vec::new();
    for order in [with(true), with(false)].iter().flatten() {
        for (amount, currency) in odd {
            beside.push(shop.capture_beside(order, amount, currency).await);
        }
    }
    assert!(beside.len() >= odd.len());
    eventually("what was captured beside goes back", 60, async || {
        let captures = shop.captures().await;
        let returned = captures.iter().filter(|capture| {
            beside.contains(&capture.intent) && capture.refunds == [capture.amount]
        });
        (returned.count() == beside.len()).then_some(())
    })
    .await;
    shop.deliveries.quiet().await;
    let books = sale.rest().await;
    assert_eq!(books.count("paid"), paid);
    let captures = shop.captures().await;
    let wrong = disagreements(&books, &captures);
    assert!(wrong.is_empty(), "{wrong:#?}");

    // The controls: books that can't agree are seen not to. What is given back
    // behind our back, and what is missing.
    let of_paid = |capture: &&Capture| capture.refunds.is_empty();
    let kept = captures.iter().find(of_paid).unwrap();
    let without: Vec<Capture> = captures
        .iter()
        .filter(|one| *one != kept)
        .cloned()
        .collect();
    assert!(!disagreements(&books, &without).is_empty());
    shop.refund_beside(&kept.intent).await;
    let wrong = disagreements(&books, &shop.captures().await);
    assert!(!wrong.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_through_stripe_agrees_with_its_books() {
    sell(60).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: make stripe"]
async fn a_larger_sale_through_stripe_agrees_with_its_books() {
    sell(500).await;
}

/// Taps on Pay as a page does, for as long as the provider does not answer.
/// What it was told meanwhile, and the payment.
async fn tap(shopper: &Shopper<'_>, claim: &Value) -> (Vec<Answer>, Value) {
    let path = order_path(claim, "/payments");
    let mut refused = Vec::new();
    loop {
        let answer = Answer::of(shopper.request(Method::POST, &path)).await;
        if answer.status != 503 {
            assert!(matches!(answer.status, 200 | 201), "{:#}", answer.json);
            return (refused, answer.json);
        }
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        refused.push(answer);
        sleep(Duration::from_secs(wait)).await;
    }
}

/// The provider does not answer for so long in the middle of a sale, at first
/// by silence, then by refusing to be called.
async fn without_provider(outage: Duration) {
    const SHOPPERS: usize = 12;
    let shop = StripeShop::start(Shop::options()).await;
    let sale = shop.shop.sale(json!({"units": SHOPPERS + 1})).await;
    let crowd = sale.crowd(SHOPPERS).await;
    sale.opened().await;
    let claims = all(crowd.iter().map(Shopper::hold)).await;
    // A third has paid, and a third has only begun to.
    let (before, rest) = claims.split_at(SHOPPERS / 3);
    let (begun, waiting) = rest.split_at(SHOPPERS / 3);
    let who = |n: usize| &crowd[n];
    let mut payments = Vec::new();
    for (n, claim) in before.iter().chain(begun).enumerate() {
        payments.push(who(n).begin_payment(claim).await.expect(201).json);
    }
    for payment in &payments[..before.len()] {
        assert_eq!(shop.confirm(payment, GOOD_CARD).await, 200);
    }

    shop.link.turn(Condition::Silent);
    let back = Instant::now() + outage;
    // Stripe itself is there for shoppers, whose payments count.
    for payment in &payments[before.len()..] {
        assert_eq!(shop.confirm(payment, GOOD_CARD).await, 200);
    }
    let first = before.len() + begun.len();
    let taps = all(waiting
        .iter()
        .enumerate()
        .map(|(n, claim)| tap(who(first + n), claim)));
    let outage = async {
        sleep(back.saturating_duration_since(Instant::now()) / 2).await;
        shop.link.turn(Condition::Cut);
        // Nobody loses a unit by it.
        assert_eq!(sale.count("free").await, 1);
        tokio::time::sleep_until(back).await;
        shop.link.turn(Condition::Up);
    };
    let (taps, ()) = tokio::join!(taps, outage);
    for (n, (refused, payment)) in taps.iter().enumerate() {
        assert!(!refused.is_empty(), "nobody noticed the outage");
        for answer in refused {
            let answer = answer.clone().expect_problem(503, "unavailable");
            assert!(answer.header("retry-after").parse::<u64>().unwrap() > 0);
        }
        assert_eq!(shop.confirm(payment, GOOD_CARD).await, 200);
        // Its intent is one, however often it was asked for.
        let again = who(first + n).begin_payment(&waiting[n]).await;
        if again.status == 200 {
            assert_eq!(again.json["intent_id"], payment["intent_id"]);
        }
    }
    for (n, claim) in claims.iter().enumerate() {
        who(n).order_is(claim, "PAID").await;
    }
    shop.deliveries.quiet().await;
    let books = sale.rest().await;
    let captures = shop.captures().await;
    assert_eq!(captures.len(), SHOPPERS);
    let wrong = disagreements(&books, &captures);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_costs_nobody_a_unit() {
    without_provider(Duration::from_secs(6)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "half a minute and more: make stripe"]
async fn a_provider_that_is_away_for_half_a_minute_costs_nobody_a_unit() {
    without_provider(Duration::from_secs(30)).await;
}

/// B11: of a payment whose webhook is lost the sweeper hears from Stripe, at the
/// end of the intent; and what nobody paid is cancelled there before its unit is
/// offered again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_webhook_loses_no_payment() {
    let shop = StripeShop::start(Shop::with_intents_of(4, Shop::options())).await;
    let changes = json!({"units": 2, "pay_window_s": 4});
    let sale = shop.shop.sale(changes).await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    let claims = [crowd[0].hold().await, crowd[1].hold().await];
    let payments = [
        crowd[0].begin_payment(&claims[0]).await.expect(201).json,
        crowd[1].begin_payment(&claims[1]).await.expect(201).json,
    ];
    shop.deliveries.turn(Way::Lost);
    assert_eq!(shop.confirm(&payments[0], GOOD_CARD).await, 200);
    assert_eq!(shop.confirm(&payments[1], BAD_CARD).await, 402);
    crowd[0].order_is(&claims[0], "PAID").await;
    crowd[1].order_is(&claims[1], "EXPIRED").await;
    // Its intent could have been tried again until then, and no longer.
    assert_eq!(shop.confirm(&payments[1], GOOD_CARD).await, 400);
    let books = sale.rest().await;
    assert_eq!((books.count("paid"), books.count("free")), (1, 1));
    let wrong = disagreements(&books, &shop.captures().await);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// After a decline the shopper tries again, here with another card on the same
/// intent and there by another tap on Pay; either way one intent captures.
#[tokio::test(flavor = "multi_thread")]
async fn a_declined_card_is_not_the_end() {
    let shop = StripeShop::start(Shop::options()).await;
    let sale = shop.shop.sale(json!({"units": 2})).await;
    let crowd = sale.crowd(2).await;
    sale.opened().await;
    for (shopper, taps_again) in crowd.iter().zip([false, true]) {
        let claim = shopper.hold().await;
        let first = shopper.begin_payment(&claim).await.expect(201).json;
        assert_eq!(shop.confirm(&first, BAD_CARD).await, 402);
        let payment = if taps_again {
            shopper.order_is(&claim, "PENDING_PAYMENT").await;
            let second = shopper.begin_payment(&claim).await.expect(201).json;
            assert_ne!(second["intent_id"], first["intent_id"]);
            assert_eq!(shop.confirm(&first, GOOD_CARD).await, 400);
            second
        } else {
            first
        };
        assert_eq!(shop.confirm(&payment, GOOD_CARD).await, 200);
        shopper.order_is(&claim, "PAID").await;
    }
    shop.deliveries.quiet().await;
    let books = sale.rest().await;
    let captures = shop.captures().await;
    assert_eq!(captures.len(), 2);
    let wrong = disagreements(&books, &captures);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What Stripe can't take exactly is refused when the sale is made, and asked for
/// in its own units otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_price_is_one_that_stripe_can_take() {
    let shop = StripeShop::start(Shop::options()).await;
    for (amount, currency, limit) in [
        (10_005, "KWD", 1),
        (5, "UGX", 1),
        (100_000_000, "USD", 1),
        (60_000_000, "USD", 2),
    ] {
        let price = json!({"amount": amount, "currency": currency});
        let draft = shop
            .shop
            .draft(json!({"price": price, "limit_per_customer": limit}));
        let made = shop
            .shop
            .admin(Method::POST, "/v1/admin/sales", &draft.into())
            .await;
        made.expect_fields(&["price.amount"]);
    }
    for (amount, currency) in [
        (999_900, "INR"),
        (1_999, "USD"),
        (10_000, "JPY"),
        (10_050, "KWD"),
    ] {
        let price = json!({"amount": amount, "currency": currency});
        let sale = shop.shop.sale(json!({"price": price})).await;
        let shopper = sale.shopper("ada").await;
        sale.opened().await;
        let claim = shopper.hold().await;
        let payment = shopper.begin_payment(&claim).await.expect(201).json;
        assert_eq!(payment["amount"], amount);
        assert_eq!(shop.confirm(&payment, GOOD_CARD).await, 200);
        shopper.order_is(&claim, "PAID").await;
        let books = sale.rest().await;
        assert!(books.payments().all(|one| one["amount"] == amount));
        let captures = shop.captures().await;
        let order = payment["order_id"].as_str().unwrap();
        let own: Vec<Capture> = captures
            .into_iter()
            .filter(|capture| capture.order == order)
            .collect();
        let wrong = disagreements(&books, &own);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
