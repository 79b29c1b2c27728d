//! Applying events: late, doubled, reordered, contradictory.

use domain::order::RefundStatus;
use domain::{IntentId, OrderStatus};
use futures::future::join_all;
use ledger::payments::{EventStatus, RefundReason};
use payment::sandbox::Verdict;
use payment::{Applied, Event, EventKind};
use testing::Bucket;

use crate::world::{MINUTE, World, inr, success};

/// C03: however often, and under whichever id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_pays_once() {
    let world = World::new().await;
    let order = world.paying("a").await;
    let event = world.confirm(&order, Verdict::Succeed(None)).await;
    let five = join_all((0..5).map(|_| world.cashier.apply(&event))).await;
    let five: Vec<_> = five.into_iter().map(Result::unwrap).collect();
    let paid = five.iter().filter(|a| **a == Applied::Paid).count();
    assert_eq!(paid, 1, "{five:?}");
    assert!(
        five.iter()
            .all(|a| matches!(a, Applied::Paid | Applied::AlreadyPaid))
    );

    let at = world.read(&order).await;
    assert_eq!(at.status, OrderStatus::Paid);
    let renamed = Event {
        id: "evt_other".to_owned(),
        ..event.clone()
    };
    let tomorrow = world.cashier_in(MINUTE * 24 * 60);
    for late in [&renamed, &event] {
        assert_eq!(tomorrow.apply(late).await.unwrap(), Applied::AlreadyPaid);
    }
    let failed = Event {
        id: "evt_failed".to_owned(),
        kind: EventKind::Failed,
        ..event
    };
    assert_eq!(
        tomorrow.apply(&failed).await.unwrap(),
        Applied::AlreadyApplied
    );
    assert_eq!(world.read(&order).await, at);
    assert!(world.refunds().await.is_empty());
}

/// C06: only the exact amount in the exact currency pays; what was captured
/// otherwise goes back once.
#[tokio::test]
async fn amount_and_currency_match_to_the_unit() {
    let world = World::new().await;
    let wrong = [
        ("100 INR", Some(inr(100))),
        ("999899 INR", Some(inr(999_899))),
        ("999901 INR", Some(inr(999_901))),
        (
            "999900 USD",
            "USD".parse().ok().map(|currency| domain::Money {
                amount: 999_900,
                currency,
            }),
        ),
        ("0 INR", None),
        ("-999900 INR", None),
        ("\"999900\" INR", None),
        ("null INR", None),
    ];
    for (index, (said, goes_back)) in wrong.into_iter().enumerate() {
        let order = world.paying(&format!("shopper-{index}")).await;
        let intent = order.intent.clone().unwrap();
        let event = success(&format!("evt_{index}"), &intent, &order.claim.order(), said);
        assert_eq!(
            world.cashier.apply(&event).await.unwrap(),
            Applied::Mismatch,
            "{said}"
        );
        let again = world.cashier.apply(&event).await.unwrap();
        assert_eq!(again, Applied::AlreadyApplied, "{said}");
        assert_ne!(world.read(&order).await.status, OrderStatus::Paid, "{said}");
        let refunds = world.refunds().await;
        let refund = refunds.iter().find(|refund| refund.intent == intent);
        assert_eq!(refund.map(|refund| refund.money), goes_back, "{said}");
        assert!(refund.is_none_or(
            |r| r.status == RefundStatus::Refunded && r.reason == RefundReason::Mismatch
        ));
        if goes_back.is_some() {
            // One intent can't go back and pay as well.
            let exact = success("evt_exact", &intent, &order.claim.order(), "999900 INR");
            world.cashier.apply(&exact).await.unwrap();
            assert_ne!(world.read(&order).await.status, OrderStatus::Paid, "{said}");
            // But the shopper can still pay.
            assert!(
                world
                    .cashier
                    .begin(world.read(&order).await)
                    .await
                    .unwrap()
                    .new
            );
        }
    }
    let order = world.paying("exact").await;
    let intent = order.intent.clone().unwrap();
    let event = success("evt_lower", &intent, &order.claim.order(), "999900 inr");
    assert_eq!(world.cashier.apply(&event).await.unwrap(), Applied::Paid);
}

/// C06: an illegible amount does not hide what the provider's books show.
#[tokio::test]
async fn an_illegible_capture_goes_back_as_booked() {
    let world = World::new().await;
    let order = world.paying("a").await;
    world.confirm(&order, Verdict::Succeed(Some(inr(5)))).await;
    let intent = order.intent.clone().unwrap();
    let event = success("evt_1", &intent, &order.claim.order(), "null INR");
    assert_eq!(
        world.cashier.apply(&event).await.unwrap(),
        Applied::Mismatch
    );
    assert_eq!(world.refunds().await[0].money, inr(5));
    assert_eq!(world.books().await[0].refunded, Some(inr(5)));
}

/// B10: the money of a hold that has ended goes back, and nothing revives it.
#[tokio::test]
async fn a_late_success_goes_back_once() {
    let world = World::new().await;
    let order = world.paying("a").await;
    assert_eq!(world.expire(&order, MINUTE * 16).await, 1);
    let intent = order.intent.clone().unwrap();
    let event = success("evt_late", &intent, &order.claim.order(), "999900 INR");
    let four = join_all((0..4).map(|_| world.cashier.apply(&event))).await;
    let refunds = four
        .iter()
        .filter(|a| matches!(a, Ok(Applied::Refund)))
        .count();
    assert_eq!(refunds, 1, "{four:?}");
    let renamed = Event {
        id: "evt_again".to_owned(),
        ..event
    };
    assert_eq!(
        world.cashier.apply(&renamed).await.unwrap(),
        Applied::AlreadyApplied
    );
    assert_eq!(world.read(&order).await.status, OrderStatus::Expired);
    let (_, shown) = world
        .ledger
        .order_with_refund(&order.claim)
        .await
        .unwrap()
        .unwrap();
    let shown = shown.unwrap();
    assert_eq!(
        (shown.status, shown.money),
        (RefundStatus::Refunded, order.money)
    );
    assert_eq!(world.refunds().await.len(), 1);
    assert_eq!(world.books().await[0].refunded, Some(order.money));
    // The unit is someone else's now.
    let bucket = world
        .ledger
        .bucket(&world.bucket.sale, world.bucket.id)
        .await
        .unwrap();
    assert_eq!(bucket.unwrap().allotted, 0);
}

/// C02: a second capture of a paid order goes back whole, whichever comes
/// first.
#[tokio::test]
async fn a_second_capture_goes_back() {
    for paid_first in [true, false] {
        let world = World::new().await;
        let order = world.paying("a").await;
        let id = order.claim.order();
        let own = success("evt_1", &order.intent.clone().unwrap(), &id, "999900 INR");
        let other = success("evt_2", &"pi_other".parse().unwrap(), &id, "999900 INR");
        let events = if paid_first {
            [&own, &other]
        } else {
            [&other, &own]
        };
        for event in events {
            world.cashier.apply(event).await.unwrap();
        }
        for event in events {
            let again = world.cashier.apply(event).await.unwrap();
            assert!(matches!(
                again,
                Applied::AlreadyPaid | Applied::AlreadyApplied
            ));
        }
        let read = world.read(&order).await;
        assert_eq!(
            (read.status, read.intent),
            (OrderStatus::Paid, order.intent.clone())
        );
        let refunds = world.refunds().await;
        assert_eq!(refunds.len(), 1);
        assert_eq!(refunds[0].intent.as_str(), "pi_other");
        assert_eq!(refunds[0].reason, RefundReason::OtherIntent);
    }
}

/// C02: the same where both are told at once, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn captures_that_are_told_side_by_side_pay_once_and_go_back_once() {
    let world = World::new().await;
    for n in 0..8 {
        let order = world.paying(&format!("shopper{n}")).await;
        let id = order.claim.order();
        let beside: IntentId = format!("pi_other_{n}").parse().unwrap();
        let name = |which: &str| format!("evt_{which}_{n}");
        let own = success(
            &name("own"),
            order.intent.as_ref().unwrap(),
            &id,
            "999900 INR",
        );
        let other = success(&name("other"), &beside, &id, "999900 INR");
        let told = (0..8).map(|k| {
            world
                .cashier
                .apply(if (n + k) % 2 == 0 { &own } else { &other })
        });
        let told = join_all(told).await;
        // One that came between others' writes would be delivered again.
        let applied: Vec<_> = told.into_iter().flatten().collect();
        let paid = applied.iter().filter(|one| **one == Applied::Paid).count();
        assert!(paid <= 1, "{applied:?}");
        for event in [&own, &other] {
            world.cashier.apply(event).await.unwrap();
        }
        let read = world.read(&order).await;
        assert_eq!(
            (read.status, read.intent),
            (OrderStatus::Paid, order.intent.clone())
        );
        let mut refunds = world.refunds().await;
        refunds.retain(|refund| refund.order_id == id);
        assert_eq!(refunds.len(), 1);
        assert_eq!(
            (&refunds[0].intent, refunds[0].money),
            (&beside, order.money)
        );
    }
    let Bucket { sale, id, .. } = &world.bucket;
    let row = world.ledger.bucket(sale, *id).await.unwrap().unwrap();
    assert_eq!(row.allotted, 8, "no second unit");
}

/// C07: which intent pays which order is in our record, not in metadata.
#[tokio::test]
async fn one_intent_settles_one_order() {
    let world = World::new().await;
    let (a, b) = (world.paying("a").await, world.paying("b").await);
    let intent = a.intent.clone().unwrap();
    let crossed = success("evt_1", &intent, &b.claim.order(), "999900 INR");
    // The control: judged by metadata and amount alone, it would pay B.
    assert_eq!(crossed.kind, EventKind::Succeeded(Some(b.money)));
    assert_eq!(
        world.cashier.apply(&crossed).await.unwrap(),
        Applied::Mismatch
    );
    assert_eq!(world.read(&b).await, b);
    let kept = world
        .ledger
        .event("sandbox", "evt_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.status, EventStatus::Mismatch);
    // A's money did not go back in B's name, so it can still pay A.
    assert!(world.refunds().await.is_empty());
    let right = success("evt_2", &intent, &a.claim.order(), "999900 INR");
    assert_eq!(world.cashier.apply(&right).await.unwrap(), Applied::Paid);
    assert_eq!(world.read(&b).await, b);
}

/// C05: an event for an order that does not exist is neither dropped nor
/// accepted.
#[tokio::test]
async fn an_event_before_its_order_is_parked() {
    let world = World::new().await;
    let order = world.bucket.unwritten("a", world.now(), MINUTE);
    let intent = "pi_1".parse().unwrap();
    let event = success("evt_1", &intent, &order.claim.order(), "999900 INR");
    for _ in 0..3 {
        assert_eq!(world.cashier.apply(&event).await.unwrap(), Applied::Parked);
    }
    let kept = world
        .ledger
        .event("sandbox", "evt_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.status, EventStatus::Parked);

    // When it appears, the redelivery is judged like any other: no attempt of
    // this order asked for that intent.
    world.bucket.order("a", world.now(), MINUTE).await;
    assert_eq!(world.cashier.apply(&event).await.unwrap(), Applied::Refund);
    assert_eq!(
        world.cashier.apply(&event).await.unwrap(),
        Applied::AlreadyApplied
    );
    let kept = world
        .ledger
        .event("sandbox", "evt_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.status, EventStatus::Applied);
    assert_eq!(world.refunds().await.len(), 1);
}

/// An event can overtake the answer that would have told us the intent's id.
#[tokio::test]
async fn a_success_can_overtake_the_binding() {
    let world = World::new().await;
    let order = world.order("a").await;
    let now = world.now();
    let begun = world
        .ledger
        .begin_payment(&order, now, now + MINUTE)
        .await
        .unwrap()
        .unwrap();
    // Another instance created the intent and stopped.
    let probe = World::new().await;
    let twin = probe
        .cashier
        .begin(probe.bucket.order("a", now, MINUTE * 10).await)
        .await
        .unwrap();
    let event = success("evt_1", &twin.intent.id, &order.claim.order(), "999900 INR");
    assert_eq!(begun.intent, None);
    assert_eq!(world.cashier.apply(&event).await.unwrap(), Applied::Paid);
    assert_eq!(world.read(&order).await.intent, Some(twin.intent.id));
    assert!(world.refunds().await.is_empty());
}

/// A success that follows or overtakes the decline of its intent pays, while
/// the unit is held.
#[tokio::test]
async fn decline_and_success_commute() {
    for success_first in [true, false] {
        let world = World::new().await;
        let order = world.paying("a").await;
        let intent = order.intent.clone().unwrap();
        let paid = success("evt_1", &intent, &order.claim.order(), "999900 INR");
        let failed = Event {
            id: "evt_2".to_owned(),
            kind: EventKind::Failed,
            ..paid.clone()
        };
        let events = if success_first {
            [&paid, &failed]
        } else {
            [&failed, &paid]
        };
        for event in events {
            world.cashier.apply(event).await.unwrap();
        }
        assert_eq!(world.read(&order).await.status, OrderStatus::Paid);
        assert!(world.refunds().await.is_empty());
    }
}
