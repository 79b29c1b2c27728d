//! D03: each piece of work is stopped before and after every one of its
//! requests, the provider's included, and done again. It must come out as if
//! nothing had happened.

use std::sync::atomic::Ordering;

use domain::{Order, OrderStatus};
use ledger::Ledger;
use payment::{Cashier, IntentEnd, Refusal};
use runtime::Environment;
use testing::Point;

use crate::world::{BadLine, MINUTE, World, success};

/// Every point of a piece of work, until one lies behind its end.
async fn at_every_point(check: impl AsyncFn(Point) -> bool) {
    for kind in [
        Point::BeforeRequest as fn(usize) -> Point,
        Point::AfterRequest,
    ] {
        let mut requests = 0;
        while check(kind(requests + 1)).await {
            requests += 1;
        }
        assert!(
            requests >= 3,
            "work of {requests} requests is not worth stopping"
        );
    }
}

fn cashier(environment: &Environment) -> Cashier {
    let ledger = Ledger::connect(environment).unwrap();
    Cashier::connect(environment, &ledger).unwrap()
}

#[tokio::test]
async fn beginning_can_stop_anywhere() {
    at_every_point(async |point| {
        let world = World::new().await;
        let order = world.order("a").await;
        let begin =
            async |environment: Environment| cashier(&environment).begin(order.clone()).await;
        let stopped = testing::stopped_at(&world.environment, point, begin).await;
        let again = world.cashier.begin(world.read(&order).await).await.unwrap();
        assert_eq!(again.order.attempt, 1);
        assert_eq!(world.intents().await, 1, "{point:?}");
        let paid = success(
            "evt_1",
            &again.intent.id,
            &order.claim.order(),
            "999900 INR",
        );
        world.cashier.apply(&paid).await.unwrap();
        assert_eq!(world.read(&order).await.status, OrderStatus::Paid);
        stopped.is_none()
    })
    .await;
}

#[tokio::test]
async fn what_stopped_beginning_can_expire() {
    at_every_point(async |point| {
        let world = World::new().await;
        let order = world.order("a").await;
        let begin =
            async |environment: Environment| cashier(&environment).begin(order.clone()).await;
        let stopped = testing::stopped_at(&world.environment, point, begin).await;
        let left = world.read(&order).await;
        if left.status == OrderStatus::Paying {
            let later = world.cashier_in(MINUTE * 16);
            let end = later.close_intent(&left).await.unwrap();
            assert_eq!(
                end,
                IntentEnd::MayExpire(Box::new(left.clone())),
                "{point:?}"
            );
        }
        assert_eq!(world.expire(&left, MINUTE * 16).await, 1);
        let refused = world.cashier.begin(left).await;
        assert!(matches!(refused, Err(Refusal::Expired)));
        stopped.is_none()
    })
    .await;
}

/// An attempt that gets no intent ends, whoever asks for it.
#[tokio::test]
async fn what_got_no_intent_can_stop_anywhere() {
    for expires in [false, true] {
        at_every_point(async |point| {
            let world = World::new().await;
            let order = world.order("a").await;
            let line = BadLine::to(&world);
            line.intents_refused.store(usize::MAX, Ordering::SeqCst);
            let taps = async |environment: Environment| {
                let cashier = cashier(&environment).with_provider(line.clone());
                for _ in 0..2 {
                    let refused = cashier.begin(order.clone()).await;
                    assert!(matches!(refused, Err(Refusal::Unpayable(_))), "{refused:?}");
                }
            };
            let stopped = testing::stopped_at(&world.environment, point, taps).await;
            let left = world.read(&order).await;
            assert_eq!(left.intent, None);
            if expires {
                let later = world.cashier_in(MINUTE * 16).with_provider(line.clone());
                let end = later.close_intent(&left).await.unwrap();
                let left = world.read(&order).await;
                assert_eq!(left.status, OrderStatus::PendingPayment);
                assert_eq!(end, IntentEnd::MayExpire(Box::new(left.clone())));
                assert_eq!(world.expire(&left, MINUTE * 16).await, 1);
            } else {
                let begun = world.cashier.begin(left).await.unwrap();
                assert_eq!(world.read(&order).await, begun.order);
                assert_eq!(world.intents().await, 1, "{point:?}");
            }
            stopped.is_none()
        })
        .await;
    }
}

/// Of two taps one gets an intent and one gets none, in any order: what was
/// shown to the shopper is what pays.
#[tokio::test]
async fn an_intent_that_is_shown_can_be_paid() {
    for refused_first in [false, true] {
        at_every_point(async |point| {
            let world = World::new().await;
            let order = world.order("a").await;
            let line = BadLine::to(&world);
            line.intents_refused.store(1, Ordering::SeqCst);
            let tap = async |environment: &Environment, refused: bool| {
                let cashier = cashier(environment);
                let cashier = match refused {
                    true => cashier.with_provider(line.clone()),
                    false => cashier,
                };
                let ledger = Ledger::connect(environment).unwrap();
                let order = ledger.order(&order.claim).await.unwrap().unwrap();
                cashier.begin(order).await
            };
            let other = tap(&world.environment, !refused_first);
            let (one, other) =
                testing::interrupted_at(&world.environment, point, other, async |environment| {
                    tap(&environment, refused_first).await
                })
                .await;
            let interrupted = other.is_some();
            let shown: Vec<_> = [Some(one), other].into_iter().flatten().flatten().collect();
            let now = world.read(&order).await;
            for begun in &shown {
                assert_eq!(Some(&begun.intent.id), now.intent.as_ref(), "{point:?}");
                assert_eq!(now.status, OrderStatus::Paying);
            }
            assert_eq!(shown.is_empty(), !interrupted && refused_first, "{point:?}");
            interrupted
        })
        .await;
    }
}

#[tokio::test]
async fn paying_can_stop_anywhere() {
    at_every_point(async |point| {
        let world = World::new().await;
        let order = world.captured("a").await;
        let event = success(
            "evt_1",
            order.intent.as_ref().unwrap(),
            &order.claim.order(),
            "999900 INR",
        );
        // As the webhook does, and then the shopper looks.
        let pay = async |environment: Environment| {
            let cashier = cashier(&environment);
            cashier.apply(&event).await.unwrap();
            cashier.close_intent(&order).await.unwrap()
        };
        let stopped = testing::stopped_at(&world.environment, point, pay).await;
        world.cashier.apply(&event).await.unwrap();
        assert_settled(&world, &order, OrderStatus::Paid).await;
        stopped.is_none()
    })
    .await;
}

#[tokio::test]
async fn giving_back_can_stop_anywhere() {
    at_every_point(async |point| {
        let world = World::new().await;
        let order = world.captured("a").await;
        assert_eq!(world.expire(&order, MINUTE * 16).await, 1);
        let event = success(
            "evt_1",
            order.intent.as_ref().unwrap(),
            &order.claim.order(),
            "999900 INR",
        );
        let apply = async |environment: Environment| cashier(&environment).apply(&event).await;
        let stopped = testing::stopped_at(&world.environment, point, apply).await;
        // The provider delivers again, and the sweeper goes round.
        world.cashier.apply(&event).await.unwrap();
        let bucket = &world.bucket;
        world
            .cashier
            .settle_refunds(&bucket.sale, bucket.id)
            .await
            .unwrap();
        assert_settled(&world, &order, OrderStatus::Expired).await;
        stopped.is_none()
    })
    .await;
}

#[tokio::test]
async fn closing_can_stop_anywhere() {
    at_every_point(async |point| {
        let world = World::new().await;
        let order = world.captured("a").await;
        let close =
            async |environment: Environment| cashier(&environment).close_intent(&order).await;
        let stopped = testing::stopped_at(&world.environment, point, close).await;
        let left = world.read(&order).await;
        if left.status == OrderStatus::Paying {
            let end = world.cashier.close_intent(&left).await.unwrap();
            assert_eq!(end, IntentEnd::Paid, "{point:?}");
        }
        assert_settled(&world, &order, OrderStatus::Paid).await;
        stopped.is_none()
    })
    .await;
}

/// P7: the capture belongs to a paid order, or went back once.
async fn assert_settled(world: &World, order: &Order, status: OrderStatus) {
    assert_eq!(world.read(order).await.status, status);
    let books = world.books().await;
    assert_eq!(books.len(), 1);
    let goes_back = (status != OrderStatus::Paid).then_some(order.money);
    assert_eq!(books[0].refunded, goes_back);
    assert_eq!(
        world.refunds().await.len(),
        usize::from(goes_back.is_some())
    );
}
