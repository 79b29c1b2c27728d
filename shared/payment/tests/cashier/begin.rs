//! Beginning to pay.

use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::OrderStatus;
use futures::future::join_all;
use payment::sandbox::{ConfirmError, Verdict};
use payment::{Applied, CreateIntent, IntentEnd, Provider, Refusal};

use crate::world::{BadLine, MINUTE, World, success};

/// C04, C02: ten taps, one payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_taps_give_one_intent() {
    let world = World::new().await;
    let order = world.order("a").await;
    let taps = join_all((0..10).map(|_| world.cashier.begin(order.clone()))).await;
    let taps: Vec<_> = taps.into_iter().map(Result::unwrap).collect();
    assert!(taps.iter().all(|tap| tap.intent == taps[0].intent));
    assert_eq!(taps.iter().filter(|tap| tap.new).count(), 1);
    assert_eq!(world.intents().await, 1);
    let paying = world.read(&order).await;
    assert_eq!((paying.status, paying.attempt), (OrderStatus::Paying, 1));
    // The control: a key for each tap, as all ten saw an order that waits.
    for tap in 1..=10 {
        let id = order.claim.order();
        let request = CreateIntent {
            idempotency_key: format!("{id}-tap-{tap}"),
            sale: world.bucket.sale.clone(),
            order: id,
            money: order.money,
            expires_at: order.pay_by,
        };
        world.sandbox.create_intent(&request).await.unwrap();
    }
    assert_eq!(world.intents().await, 11);
}

/// B08: paying begins before `pay_by`, or not at all; the hold then lasts as
/// long as the intent.
#[tokio::test]
async fn paying_begins_before_the_deadline() {
    let world = World::new().await;
    let late = world.bucket.order("late", world.now(), -MINUTE).await;
    let refused = world.cashier.begin(late.clone()).await;
    assert!(matches!(refused, Err(Refusal::Expired)));
    assert_eq!(world.read(&late).await, late);
    assert_eq!(world.intents().await, 0);

    // A stale read does not help: the ledger compares as well.
    let stale = domain::Order {
        pay_by: world.now() + MINUTE,
        ..late.clone()
    };
    let refused = world.cashier.begin(stale).await;
    assert!(matches!(refused, Err(Refusal::Expired)));
    assert_eq!(world.intents().await, 0);

    let soon = world.bucket.order("soon", world.now(), MINUTE / 30).await;
    let begun = world.cashier.begin(soon.clone()).await.unwrap();
    assert!(begun.order.pay_until.unwrap() >= world.now() + MINUTE * 14);
    assert_eq!(begun.order, world.read(&soon).await);
    // What the sweeper read before can't release it.
    assert_eq!(world.expire(&soon, MINUTE).await, 0);
}

#[tokio::test]
async fn what_has_ended_is_not_payable() {
    let world = World::new().await;
    let order = world.order("a").await;
    assert_eq!(world.expire(&order, MINUTE * 11).await, 1);
    let refused = world.cashier.begin(order).await;
    assert!(matches!(refused, Err(Refusal::Expired)));

    let paid = world.captured("b").await;
    // No webhook yet: the provider is asked before a payment is shown as open.
    let refused = world.cashier.begin(paid.clone()).await;
    assert!(matches!(refused, Err(Refusal::AlreadyPaid)));
    assert_eq!(world.read(&paid).await.status, OrderStatus::Paid);
}

/// The provider is away: the hold stays, and the same intent is asked for
/// when it is back.
#[tokio::test]
async fn a_provider_that_is_away_costs_no_hold() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());
    let order = world.order("a").await;
    line.down.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let refused = cashier.begin(world.read(&order).await).await;
        assert!(matches!(refused, Err(Refusal::Provider(_))));
    }
    line.down.store(false, Ordering::SeqCst);
    let begun = cashier.begin(world.read(&order).await).await.unwrap();
    assert_eq!((begun.order.attempt, begun.new), (1, true));
    assert_eq!(world.intents().await, 1);
}

/// The provider makes no intent of it: the attempt is over, and the next tap
/// begins another, with a key of its own.
#[tokio::test]
async fn an_attempt_without_an_intent_is_none() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());
    let order = world.order("a").await;
    line.intents_refused.store(2, Ordering::SeqCst);
    for attempt in [1, 2] {
        let refused = cashier.begin(world.read(&order).await).await;
        assert!(matches!(refused, Err(Refusal::Unpayable(_))));
        let waits = world.read(&order).await;
        assert_eq!(
            (waits.status, waits.attempt),
            (OrderStatus::PendingPayment, attempt)
        );
        assert_eq!((waits.pay_by, waits.pay_until), (order.pay_by, None));
    }
    let begun = cashier.begin(world.read(&order).await).await.unwrap();
    assert_eq!((begun.order.attempt, begun.new), (3, true));
    assert_eq!(world.intents().await, 1);
}

/// Whoever heard that there is no intent ends the attempt that asked for it, and
/// no later one.
#[tokio::test]
async fn only_the_attempt_that_asked_ends() {
    let world = World::new().await;
    let (order, now) = (world.order("a").await, world.now());
    let begin = async |order| world.ledger.begin_payment(order, now, now + MINUTE).await;
    let end = async |order| world.ledger.end_unbound(order, now).await;
    let first = begin(&order).await.unwrap().unwrap();
    let waits = end(&first).await.unwrap().unwrap();
    assert_eq!(world.read(&order).await, waits);
    assert_eq!(end(&first).await.unwrap(), None);
    let second = begin(&waits).await.unwrap().unwrap();
    assert_eq!(end(&first).await.unwrap(), None);
    assert_eq!(world.read(&order).await, second);
}

/// Nobody waits for a provider that says nothing: we answer before the gateway
/// does.
#[tokio::test]
async fn silence_is_answered() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    line.silent.store(true, Ordering::SeqCst);
    let (order, paying) = (world.order("a").await, world.paying("b").await);
    let hurried = world.cashier.clone().with_provider(line);
    let hurried = hurried.with_patience(Duration::from_millis(100));
    for order in [&order, &paying] {
        let refused = hurried.begin(order.clone()).await;
        assert!(matches!(refused, Err(Refusal::Provider(_))), "{refused:?}");
    }
    let end = hurried.close_intent(&paying).await.unwrap();
    assert_eq!(end, IntentEnd::Unreachable);
    let id = order.claim.order();
    let told = success("evt_1", &"pi_other".parse().unwrap(), &id, "999900 INR");
    let refused = hurried.apply(&told).await;
    assert!(matches!(refused, Err(Refusal::Provider(_))), "{refused:?}");
}

/// After a decline the next attempt has its own intent, and the first one can
/// capture nothing any more.
#[tokio::test]
async fn a_declined_intent_is_closed_before_the_next() {
    let world = World::new().await;
    let first = world.paying("a").await;
    let secret = world.intent(&first).await.client_secret;
    let declined = world.confirm(&first, Verdict::Decline).await;
    assert_eq!(
        world.cashier.apply(&declined).await.unwrap(),
        Applied::Declined
    );
    let waiting = world.read(&first).await;
    assert_eq!(waiting.status, OrderStatus::PendingPayment);
    assert_eq!(waiting.pay_by, first.pay_by);

    let second = world.cashier.begin(waiting).await.unwrap();
    assert!(second.new);
    assert_ne!(Some(&second.intent.id), first.intent.as_ref());
    let again = world
        .sandbox
        .confirm(
            first.intent.as_ref().unwrap(),
            &secret,
            Verdict::Succeed(None),
            world.now(),
        )
        .await;
    assert!(matches!(again, Err(ConfirmError::NotOpen)));
    // A decline that is delivered again does not end the second attempt.
    let repeated = world.cashier.apply(&declined).await.unwrap();
    assert_eq!(repeated, Applied::AlreadyApplied);
    assert_eq!(world.read(&first).await.status, OrderStatus::Paying);
}

/// The operator gives more time to an order whose payment has begun: its intent
/// ends as it was to, and the shopper gets another.
#[tokio::test]
async fn an_order_that_got_more_time_gets_another_intent() {
    for captured in [false, true] {
        let world = World::new().await;
        let order = world.paying("a").await;
        let ends = order.pay_until.unwrap();
        assert!(
            world
                .ledger
                .extend(&order, ends + MINUTE * 9)
                .await
                .unwrap()
        );
        let order = world.read(&order).await;
        if captured {
            world.confirm(&order, Verdict::Succeed(None)).await;
        }
        let later = world.cashier_in(ends - world.now() + MINUTE);
        let begun = later.begin(order.clone()).await;
        if captured {
            assert!(matches!(begun, Err(Refusal::AlreadyPaid)), "{begun:?}");
            continue;
        }
        let begun = begun.unwrap();
        assert_ne!(Some(&begun.intent.id), order.intent.as_ref());
        assert_eq!(begun.order.attempt, 2);
        assert!(begun.order.pay_until > Some(ends));
        // The first one can't be paid any more.
        let secret = world.intent(&order).await.client_secret;
        let id = order.intent.as_ref().unwrap();
        let late = world
            .sandbox
            .confirm(id, &secret, Verdict::Succeed(None), world.now());
        assert!(matches!(late.await, Err(ConfirmError::NotOpen)));
    }
}
