//! Orders that cost nothing.

use domain::{Order, OrderStatus};
use futures::future::join_all;
use payment::Refusal;

use crate::world::{MINUTE, World, inr};

/// An order of this price that can be paid for ten minutes.
async fn order(world: &World, shopper: &str, amount: u64) -> Order {
    let bucket = &world.bucket;
    let order = Order {
        money: inr(amount),
        ..bucket.unwritten(shopper, world.now(), MINUTE * 10)
    };
    let orders = std::slice::from_ref(&order);
    let written = world
        .ledger
        .create_orders(&bucket.sale, bucket.id, 1, 10, orders);
    written.await.unwrap();
    order
}

#[tokio::test]
async fn what_costs_nothing_is_paid_once_and_without_a_provider() {
    let world = World::new().await;
    let order = order(&world, "a", 0).await;
    let taps = join_all((0..10).map(|_| world.cashier.confirm_free(order.clone()))).await;
    let taps: Vec<(bool, Order)> = taps.into_iter().map(Result::unwrap).collect();
    assert_eq!(taps.iter().filter(|(new, _)| *new).count(), 1);
    assert!(
        taps.iter()
            .all(|(_, paid)| paid.status == OrderStatus::Paid)
    );
    let paid = world.read(&order).await;
    assert_eq!((paid.status, paid.intent), (OrderStatus::Paid, None));
    assert_eq!(world.intents().await, 0);
    // Nor is a provider asked by the other way.
    let other = world.cashier.begin(self::order(&world, "b", 0).await).await;
    assert!(matches!(other, Err(Refusal::Free)), "{other:?}");
    assert_eq!(world.intents().await, 0);
}

/// The hold of a free unit ends like any other; and nothing that costs
/// something is ever free, whatever the caller says.
#[tokio::test]
async fn nothing_else_is_paid_that_way() {
    let world = World::new().await;
    let late = order(&world, "late", 0).await;
    world.expire(&late, MINUTE * 11).await;
    let refused = world.cashier.confirm_free(late).await;
    assert!(matches!(refused, Err(Refusal::Expired)), "{refused:?}");

    let lapsed = order(&world, "lapsed", 0).await;
    let later = world.cashier_in(MINUTE * 11);
    let refused = later.confirm_free(lapsed.clone()).await;
    assert!(matches!(refused, Err(Refusal::Expired)));
    assert_eq!(
        world.read(&lapsed).await.status,
        OrderStatus::PendingPayment
    );

    let dear = order(&world, "dear", 1).await;
    let claimed = Order {
        money: inr(0),
        ..dear.clone()
    };
    assert!(world.cashier.confirm_free(claimed).await.is_err());
    assert_eq!(world.read(&dear).await.status, OrderStatus::PendingPayment);
}
