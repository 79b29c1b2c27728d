//! D03: each piece of work is stopped before and after every one of its
//! requests, the provider's included, and done again. It must come out as if
//! nothing had happened.

use domain::{Order, OrderStatus};
use ledger::Ledger;
use payment::{Cashier, IntentEnd, Refusal};
use runtime::Environment;
use testing::Point;

use crate::world::{MINUTE, World, success};

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
