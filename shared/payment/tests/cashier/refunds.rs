//! Refunds: owed until the provider confirms them, made once.

use std::sync::atomic::Ordering;

use domain::order::RefundStatus;
use payment::{Applied, Event, EventKind, Refunds};

use crate::world::{BadLine, MINUTE, World, success};

/// C08, C09: refused, cut off, repeated: pending until confirmed, one key,
/// one refund.
#[tokio::test]
async fn a_refund_is_owed_until_it_is_confirmed() {
    for (refused, unanswered) in [(3, 0), (0, 3), (2, 1)] {
        let world = World::new().await;
        let line = BadLine::to(&world);
        let cashier = world.cashier.clone().with_provider(line.clone());
        line.refunds_refused.store(refused, Ordering::SeqCst);
        line.refunds_unanswered.store(unanswered, Ordering::SeqCst);
        let order = world.paying("a").await;
        world.expire(&order, MINUTE * 16).await;
        let intent = order.intent.clone().unwrap();
        let event = success("evt_1", &intent, &order.claim.order(), "999900 INR");
        assert_eq!(cashier.apply(&event).await.unwrap(), Applied::Refund);
        for _ in 0..2 {
            assert_eq!(world.refunds().await[0].status, RefundStatus::RefundPending);
            let settled = settle(&world, &cashier).await;
            assert_eq!(
                settled,
                Refunds {
                    refunded: 0,
                    pending: 1
                }
            );
        }
        assert_eq!(settle(&world, &cashier).await.refunded, 1);
        assert_eq!(settle(&world, &cashier).await, Refunds::default());
        assert_eq!(world.refunds().await[0].status, RefundStatus::Refunded);
        assert_eq!(world.books().await[0].refunded, Some(order.money));
        let keys = line.refund_keys.lock().unwrap().clone();
        assert_eq!(keys.len(), 4);
        assert!(
            keys.iter().all(|key| *key == format!("refund-{intent}")),
            "{keys:?}"
        );
    }
}

async fn settle(world: &World, cashier: &payment::Cashier) -> Refunds {
    let bucket = &world.bucket;
    cashier
        .settle_refunds(&bucket.sale, bucket.id)
        .await
        .unwrap()
}

/// C09: the provider's own word that the money went back, twice.
#[tokio::test]
async fn a_refund_can_be_confirmed_by_an_event() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());
    line.refunds_unanswered.store(1, Ordering::SeqCst);
    let order = world.paying("a").await;
    world.expire(&order, MINUTE * 16).await;
    let intent = order.intent.clone().unwrap();
    let event = success("evt_1", &intent, &order.claim.order(), "999900 INR");
    cashier.apply(&event).await.unwrap();
    let confirmed = Event {
        id: "evt_2".to_owned(),
        kind: EventKind::Refunded,
        ..event
    };
    assert_eq!(cashier.apply(&confirmed).await.unwrap(), Applied::Refund);
    assert_eq!(
        cashier.apply(&confirmed).await.unwrap(),
        Applied::AlreadyApplied
    );
    assert_eq!(settle(&world, &cashier).await, Refunds::default());
}

/// C09: a refund went through and failed at the bank, and the news of its success
/// comes last: what the provider's books say counts.
#[tokio::test]
async fn an_event_that_comes_late_confirms_nothing() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());
    line.refunds_refused.store(2, Ordering::SeqCst);
    let order = world.captured("a").await;
    world.expire(&order, MINUTE * 16).await;
    let intent = order.intent.clone().unwrap();
    let event = success("evt_1", &intent, &order.claim.order(), "999900 INR");
    cashier.apply(&event).await.unwrap();
    let late = Event {
        id: "evt_2".to_owned(),
        kind: EventKind::Refunded,
        ..event
    };
    assert!(cashier.apply(&late).await.is_err());
    assert_eq!(world.refunds().await[0].status, RefundStatus::RefundPending);
    assert_eq!(world.books().await[0].refunded, None);
    assert_eq!(settle(&world, &cashier).await.refunded, 1);
    assert_eq!(world.books().await[0].refunded, Some(order.money));
}

/// The control of "one key": the sandbox, like Stripe, notices a second one.
#[tokio::test]
async fn another_key_would_be_another_refund() {
    use payment::{Provider, RefundRequest};
    let world = World::new().await;
    let order = world.captured("a").await;
    let mut request = RefundRequest {
        intent: order.intent.clone().unwrap(),
        order: order.claim.order(),
        money: order.money,
        idempotency_key: "first".to_owned(),
    };
    assert!(world.sandbox.refund(&request).await.is_ok());
    assert!(world.sandbox.refund(&request).await.is_ok());
    request.idempotency_key = "second".to_owned();
    assert!(world.sandbox.refund(&request).await.is_err());
}

/// A bank may refuse a refund after its provider confirmed it: it is owed
/// again, until it is confirmed again. The event itself changes no money, so
/// one that comes late is put right by the provider's word.
#[tokio::test]
async fn a_refund_that_did_not_get_through_is_owed_again() {
    let world = World::new().await;
    let order = world.captured("a").await;
    world.expire(&order, MINUTE * 16).await;
    let intent = order.intent.clone().unwrap();
    let told = |id: &str, kind| Event {
        id: id.to_owned(),
        kind,
        intent: Some(intent.clone()),
        order: Some(order.claim.order()),
    };
    let late = success("evt_1", &intent, &order.claim.order(), "999900 INR");
    let failed = told("evt_2", EventKind::RefundFailed);
    // Of a refund that nobody owes it says nothing.
    let applied = world.cashier.apply(&failed).await.unwrap();
    assert_eq!(applied, Applied::AlreadyApplied);
    assert_eq!(world.cashier.apply(&late).await.unwrap(), Applied::Refund);
    assert_eq!(world.refunds().await[0].status, RefundStatus::Refunded);
    for _ in 0..2 {
        assert_eq!(world.cashier.apply(&failed).await.unwrap(), Applied::Refund);
        let again = world.cashier.apply(&failed).await.unwrap();
        assert_eq!(again, Applied::AlreadyApplied);
        assert_eq!(world.refunds().await[0].status, RefundStatus::RefundPending);
        assert_eq!(settle(&world, &world.cashier).await.refunded, 1);
        assert_eq!(world.refunds().await[0].status, RefundStatus::Refunded);
    }
    assert_eq!(world.refunds().await.len(), 1);
    assert_eq!(world.books().await[0].refunded, Some(order.money));
}
