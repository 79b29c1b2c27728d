//! G: units that come back go to those who wait, one for each.

use std::collections::BTreeSet;

use domain::{BucketId, bucket};
use jiff::Timestamp;
use serde_json::json;
use tests::{Answer, Shop, Shopper, all, eventually, now};

/// Everyone asks, is told "sold out", and has a place in line from then on.
async fn wait_in_line(crowd: &[Shopper<'_>]) {
    for shopper in crowd {
        shopper
            .claim_patiently()
            .await
            .expect_problem(409, "sold_out");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g07_two_who_are_offered_one_unit_do_not_both_get_it() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"pay_window_s": 2})).await;
    let crowd = sale.crowd(4).await;
    sale.opened().await;
    crowd[0].hold().await;
    wait_in_line(&crowd[1..]).await;
    // Nobody comes for the unit, so more of the line are admitted.
    let three = eventually("all of the line are admitted", 20, async || {
        let report = sale.report().await;
        let draw = &report["sale"]["draw"];
        (draw["admitted"].as_u64() >= Some(3) && report["free"] == 1).then_some(draw.clone())
    })
    .await;
    assert!(three["round"].as_u64() >= Some(2), "{three}");
    let answers = all(crowd[1..].iter().map(Shopper::claim_patiently)).await;
    let yes = answers.iter().filter(|answer| answer.is_yes()).count();
    assert_eq!(yes, 1, "{answers:#?}");
    for answer in answers.into_iter().filter(|answer| !answer.is_yes()) {
        answer.expect_problem(409, "sold_out");
    }
    assert_eq!(sale.rest().await.count("held"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g08_as_many_are_admitted_as_units_came_back() {
    let shop = Shop::quiet().await;
    let sale = shop
        .sale_in(1_500, json!({"units": 20, "buckets": 2}))
        .await;
    let crowd = sale.crowd(20).await;
    let line = sale.crowd(30).await;
    sale.opened().await;
    let claims = all(crowd.iter().map(Shopper::hold)).await;
    all(crowd[..15]
        .iter()
        .zip(&claims)
        .map(|(shopper, claim)| shopper.pay(claim)))
    .await;
    let controllers = [
        shop.controller().await,
        shop.controller().await,
        shop.controller().await,
    ];
    controllers[0].tick().await.unwrap();
    wait_in_line(&line).await;
    let admitted = async || -> (u64, u64) {
        // Any number of controllers at once, twice over.
        for _ in 0..2 {
            let looks = controllers.iter().map(|controller| controller.tick());
            for look in futures::future::join_all(looks).await {
                look.unwrap();
            }
        }
        let draw = &sale.report().await["sale"]["draw"];
        (
            draw["admitted"].as_u64().unwrap(),
            draw["round"].as_u64().unwrap(),
        )
    };
    assert_eq!(admitted().await.0, 0, "nothing came back yet");
    for (shopper, claim) in crowd[15..17].iter().zip(&claims[15..]) {
        shopper.give_back(claim).await.expect(200);
    }
    assert_eq!(
        admitted().await,
        (2, 1),
        "two came back, two are admitted, once"
    );
    // One of them comes; the other's unit is still theirs to take, and no
    // more are admitted for it.
    let mut came = None;
    for shopper in &line {
        if shopper.claim().await.is_yes() {
            came = Some(shopper);
            break;
        }
    }
    assert!(came.is_some());
    assert_eq!(admitted().await, (2, 1));
    // Units that are taken out are taken from those that came back.
    sale.resize(json!(19)).await.expect(200);
    assert_eq!(admitted().await, (2, 1));
    let answers = all(line.iter().map(Shopper::claim_patiently)).await;
    assert_eq!(
        answers.iter().filter(|answer| answer.status == 201).count(),
        0
    );
    let books = sale.rest().await;
    assert_eq!((books.count("units"), books.count("free")), (19, 0));
    assert_eq!((books.count("paid"), books.count("held")), (15, 4));
}

#[tokio::test]
async fn g09_a_unit_that_changes_hands_again_and_again_is_sold_in_the_end() {
    let shop = Shop::open().await;
    let sale = shop
        .sale(json!({"pay_window_s": 2, "waitlist_pay_window_s": 3}))
        .await;
    let crowd = sale.crowd(4).await;
    let (a, b, c, d) = (&crowd[0], &crowd[1], &crowd[2], &crowd[3]);
    sale.opened().await;
    let first = a.hold().await;
    wait_in_line(&crowd[1..]).await;
    // A lets it lapse, and so does B; C gives it back; D pays.
    let second = b.claim_when_admitted().await.json;
    assert_eq!(a.read_claim(&first).await.text("status"), "EXPIRED");
    b.ordered(&second).await;
    let third = c.claim_when_admitted().await.json;
    assert_eq!(b.read_claim(&second).await.text("status"), "EXPIRED");
    let pay_by: Timestamp = second["pay_by"].as_str().unwrap().parse().unwrap();
    assert!((now() - pay_by).as_secs_f64() < 8.0, "C waited for long");
    c.ordered(&third).await;
    c.give_back(&third).await.expect(200);
    let last = d.claim_when_admitted().await.json;
    d.ordered(&last).await;
    assert_eq!(d.pay(&last).await["status"], "PAID");
    for shopper in [b, c] {
        let old = shopper.claim_as("with-the-old-offer").await.expect(200);
        assert!(matches!(old.text("status"), "EXPIRED" | "CANCELLED"));
    }
    let books = sale.rest().await;
    assert_eq!(
        (
            books.count("paid"),
            books.count("expired"),
            books.count("cancelled")
        ),
        (1, 2, 1)
    );
    sale.reaches("SOLD_OUT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_everyone_hears_at_once_and_keeps_their_place() {
    let shop = Shop::open().await;
    keep_their_place(&shop, 1).await;
    keep_their_place(&shop, 4).await;
}

async fn keep_their_place(shop: &Shop, buckets: u16) {
    let sale = shop
        .sale_in(2_000, json!({"units": 10, "buckets": buckets}))
        .await;
    let crowd = sale.crowd(70).await;
    let late = sale.crowd(20).await;
    sale.opened().await;
    let answers = all(crowd.iter().map(Shopper::claim_patiently)).await;
    let sold = now();
    sale.reaches("ALL_CLAIMED").await;
    let heard = (now() - sold).as_secs_f64();
    assert!(heard < 2.0, "told {heard} s after the last unit");
    let place = |answer: &Answer| {
        let told = answer.clone().expect_problem(409, "sold_out");
        told.json["waitlist_position"].as_u64().expect("a place")
    };
    let lost = crowd.iter().zip(&answers).filter(|(_, a)| !a.is_yes());
    let line: Vec<_> = lost.map(|(one, answer)| (one, place(answer))).collect();
    assert_eq!(line.len(), 60);
    let latecomers = all(late.iter().map(Shopper::claim_patiently)).await;
    let latecomers: Vec<_> = late.iter().zip(latecomers.iter().map(place)).collect();
    let places: BTreeSet<_> = line.iter().chain(&latecomers).map(|(_, at)| at).collect();
    assert_eq!(places.len(), 80, "no two have the same");
    // Each bucket counts those whose home it is.
    let of = |home: u16, all: &[(&Shopper<'_>, u64)]| -> Vec<u64> {
        let home = BucketId(home);
        let at_home = |name: &str| bucket::home(&name.parse().unwrap(), buckets) == home;
        let here = all.iter().filter(|(one, _)| at_home(&one.name));
        here.map(|(_, at)| *at).collect()
    };
    for home in 0..buckets {
        let worst = of(home, &line).into_iter().max();
        for late in of(home, &latecomers) {
            assert!(
                Some(late) > worst,
                "{home}: {late}, the line ends at {worst:?}"
            );
        }
    }
    // Asked again, the place is the same or better, and nobody is let in.
    for (shopper, first) in line.into_iter().chain(latecomers) {
        let again = eventually("the instance knows of the line", 5, async || {
            Some(shopper.claim().await).filter(|again| again.status == 403)
        });
        let again = again.await.expect_problem(403, "not_admitted");
        let position = again.json["position"].as_u64().expect("a place");
        assert!(position <= first, "{:#}", again.json);
    }
    sale.rest().await;
}
