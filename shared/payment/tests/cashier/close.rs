//! Closing an intent before its hold ends.

use std::sync::atomic::Ordering;

use domain::{Order, OrderStatus};
use payment::sandbox::{ConfirmError, Verdict};
use payment::{Applied, IntentEnd};

use crate::world::{BadLine, MINUTE, World, inr};

/// B11: the provider is asked before a hold ends; its webhook was lost.
#[tokio::test]
async fn a_lost_webhook_does_not_cost_the_payment() {
    let world = World::new().await;
    let order = world.paying("a").await;
    let event = world.confirm(&order, Verdict::Succeed(None)).await;
    let line = BadLine::to(&world);
    let later = world.cashier_in(MINUTE * 16).with_provider(line.clone());

    line.down.store(true, Ordering::SeqCst);
    let end = later.close_intent(&order).await.unwrap();
    assert_eq!(end, IntentEnd::Unreachable);
    assert_eq!(world.read(&order).await, order);

    line.down.store(false, Ordering::SeqCst);
    assert_eq!(later.close_intent(&order).await.unwrap(), IntentEnd::Paid);
    let paid = world.read(&order).await;
    assert_eq!(paid.status, OrderStatus::Paid);
    // What the sweeper read before can't release it. The control: without
    // asking, nothing in the row would have told that it was paid.
    assert_eq!(world.expire(&order, MINUTE * 16).await, 0);
    assert_eq!(later.apply(&event).await.unwrap(), Applied::AlreadyPaid);
    assert_eq!(world.read(&order).await, paid);
}

#[tokio::test]
async fn the_control_of_the_lost_webhook() {
    let world = World::new().await;
    let order = world.captured("a").await;
    assert_eq!(world.expire(&order, MINUTE * 16).await, 1);
}

/// B08: an unpaid intent is closed, then the hold ends once, and the shopper
/// can't pay any more.
#[tokio::test]
async fn an_unpaid_intent_is_closed_for_good() {
    let world = World::new().await;
    let order = world.paying("a").await;
    let secret = world.intent(&order).await.client_secret;
    for _ in 0..2 {
        let end = world.cashier.close_intent(&order).await.unwrap();
        assert_eq!(end, IntentEnd::MayExpire(Box::new(order.clone())));
    }
    let id = order.intent.as_ref().unwrap();
    let late = world
        .sandbox
        .confirm(id, &secret, Verdict::Succeed(None), world.now())
        .await;
    assert!(matches!(late, Err(ConfirmError::NotOpen)));
    assert_eq!(world.expire(&order, MINUTE * 16).await, 1);
    assert_eq!(world.expire(&order, MINUTE * 16).await, 0);
}

/// A wrong capture does not pay when it is found by asking, either.
#[tokio::test]
async fn a_wrong_capture_is_found_and_goes_back() {
    let world = World::new().await;
    let order = world.paying("a").await;
    world.confirm(&order, Verdict::Succeed(Some(inr(1)))).await;
    let end = world.cashier.close_intent(&order).await.unwrap();
    let IntentEnd::MayExpire(now) = end else {
        panic!("{end:?}");
    };
    assert_eq!(*now, world.read(&order).await);
    assert_eq!(world.refunds().await[0].money, inr(1));
    assert_eq!(world.expire(&now, MINUTE * 16).await, 1);
}

/// A capture of nothing is none: the hold ends, or another attempt begins.
#[tokio::test]
async fn a_capture_of_nothing_keeps_no_unit() {
    for pays_again in [false, true] {
        let world = World::new().await;
        let order = world.paying("a").await;
        world.confirm(&order, Verdict::Succeed(Some(inr(0)))).await;
        if pays_again {
            let begun = world.cashier.begin(order.clone()).await.unwrap();
            assert_eq!((begun.new, begun.order.attempt), (true, 2));
            continue;
        }
        let end = world.cashier.close_intent(&order).await.unwrap();
        assert!(matches!(end, IntentEnd::MayExpire(_)), "{end:?}");
        assert_eq!(world.expire(&order, MINUTE * 16).await, 1);
        assert_eq!(world.refunds().await, []);
    }
}

/// An order that waits again after a decline, with its intent: at the provider
/// that can be confirmed once more.
async fn declined(world: &World) -> Order {
    let order = world.paying("a").await;
    let declined = world.confirm(&order, Verdict::Decline).await;
    let applied = world.cashier.apply(&declined).await.unwrap();
    assert_eq!(applied, Applied::Declined);
    let order = world.read(&order).await;
    assert_eq!(order.status, OrderStatus::PendingPayment);
    order
}

/// A declined intent is closed before its hold ends: no later try of it can
/// take money for a unit that somebody else has.
#[tokio::test]
async fn a_declined_intent_is_closed_before_its_hold_ends() {
    let world = World::new().await;
    let order = declined(&world).await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());

    line.down.store(true, Ordering::SeqCst);
    let end = cashier.close_intent(&order).await.unwrap();
    assert_eq!(end, IntentEnd::Unreachable);

    line.down.store(false, Ordering::SeqCst);
    for _ in 0..2 {
        let end = cashier.close_intent(&order).await.unwrap();
        assert_eq!(end, IntentEnd::MayExpire(Box::new(order.clone())));
    }
    let id = order.intent.as_ref().unwrap();
    let secret = world.intent(&order).await.client_secret;
    let again = world
        .sandbox
        .confirm(id, &secret, Verdict::Succeed(None), world.now())
        .await;
    assert!(matches!(again, Err(ConfirmError::NotOpen)));
    assert_eq!(world.expire(&order, MINUTE * 11).await, 1);
    assert!(world.books().await.is_empty());
}

#[tokio::test]
async fn the_control_of_the_declined_intent() {
    let world = World::new().await;
    let order = declined(&world).await;
    // Released without asking: the intent still takes money.
    assert_eq!(world.expire(&order, MINUTE * 11).await, 1);
    world.confirm(&order, Verdict::Succeed(None)).await;
    assert_eq!(world.books().await.len(), 1);
}

/// The second try of a declined intent succeeded, and nobody told: it pays the
/// order, which is then not released.
#[tokio::test]
async fn a_declined_intent_that_succeeded_after_all_pays_its_order() {
    let world = World::new().await;
    let order = declined(&world).await;
    let event = world.confirm(&order, Verdict::Succeed(None)).await;
    let end = world.cashier.close_intent(&order).await.unwrap();
    assert_eq!(end, IntentEnd::Paid);
    assert_eq!(world.read(&order).await.status, OrderStatus::Paid);
    assert_eq!(world.expire(&order, MINUTE * 11).await, 0);
    let late = world.cashier.apply(&event).await.unwrap();
    assert_eq!(late, Applied::AlreadyPaid);
    assert_eq!(world.refunds().await, []);
}

/// An order that nobody began to pay has nothing to close, and nobody is asked.
#[tokio::test]
async fn what_was_never_begun_needs_no_provider() {
    let world = World::new().await;
    let order = world.order("a").await;
    let line = BadLine::to(&world);
    line.down.store(true, Ordering::SeqCst);
    let cashier = world.cashier.clone().with_provider(line);
    let end = cashier.close_intent(&order).await.unwrap();
    assert_eq!(end, IntentEnd::MayExpire(Box::new(order)));
    assert_eq!(world.intents().await, 0);
}
