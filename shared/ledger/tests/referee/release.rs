//! Holds end, and capacities move.

use domain::{Order, OrderStatus};
use futures::future::join_all;
use jiff::SignedDuration;
use ledger::Error;
use ledger::orders::Outcome;
use testing::Bucket;

use crate::shelf::Shelf;

async fn release(shelf: &Shelf, orders: &[Order], to: OrderStatus) -> usize {
    let Bucket { sale, id, .. } = &shelf.bucket;
    let released = shelf.ledger.release(sale, *id, orders, to, shelf.now());
    released.await.unwrap().len()
}

async fn written(shelf: &Shelf, count: u32) -> Vec<Order> {
    let orders: Vec<Order> = (0..count).map(|n| shelf.first(&format!("u_{n}"))).collect();
    assert_eq!(
        shelf.create(1, &orders).await,
        vec![Outcome::Created; count as usize]
    );
    orders
}

#[tokio::test]
async fn units_go_back_to_bucket_and_customer_once() {
    let shelf = Shelf::new(10).await;
    let orders = written(&shelf, 3).await;
    assert_eq!(release(&shelf, &orders[..2], OrderStatus::Expired).await, 2);
    assert_eq!(shelf.row().await.allotted, 1);
    assert_eq!(shelf.units_of("u_0").await, 0);
    assert_eq!(shelf.units_of("u_2").await, 1);

    // Again, with one that still holds: only that one ends.
    assert_eq!(release(&shelf, &orders, OrderStatus::Expired).await, 1);
    assert_eq!(release(&shelf, &orders, OrderStatus::Cancelled).await, 0);
    assert_eq!(shelf.row().await.allotted, 0);
    assert_eq!(shelf.units_of("u_0").await, 0);
    let statuses: Vec<_> = shelf.orders().await.iter().map(|o| o.status).collect();
    assert_eq!(statuses, [OrderStatus::Expired; 3]);
    // The order of a customer whose hold ended is never revived.
    let again = shelf.create(1, &orders[..1]).await;
    assert!(matches!(again[0], Outcome::Existing(_)));
    assert_eq!(shelf.row().await.allotted, 0);
}

#[tokio::test]
async fn releases_at_the_same_time_are_one() {
    let shelf = Shelf::new(40).await;
    let orders = written(&shelf, 20).await;
    let releases = (0..4).map(|_| release(&shelf, &orders, OrderStatus::Expired));
    let ended: usize = join_all(releases).await.into_iter().sum();
    assert_eq!(ended, 20);
    assert_eq!(shelf.row().await.allotted, 0);
}

#[tokio::test]
async fn what_is_being_paid_is_not_released_by_an_old_view() {
    let shelf = Shelf::new(10).await;
    let orders = written(&shelf, 2).await;
    let until = shelf.now() + SignedDuration::from_mins(15);
    let paying = shelf
        .ledger
        .begin_payment(&orders[0], shelf.now(), until)
        .await
        .unwrap();
    assert_eq!(release(&shelf, &orders, OrderStatus::Expired).await, 1);
    assert_eq!(shelf.row().await.allotted, 1);
    let stands = shelf.ledger.order(&orders[0].claim).await.unwrap().unwrap();
    assert_eq!(stands.status, OrderStatus::Paying, "{paying:?}");
    // A paid order has no way back at all.
    let paid = Order {
        status: OrderStatus::Paid,
        ..stands
    };
    assert_eq!(release(&shelf, &[paid], OrderStatus::Expired).await, 0);
}

#[tokio::test]
async fn a_deadline_that_was_extended_meanwhile_holds() {
    let shelf = Shelf::new(10).await;
    let orders = written(&shelf, 1).await;
    let later = orders[0].pay_by + SignedDuration::from_mins(5);
    assert!(shelf.ledger.extend(&orders[0], later).await.unwrap());
    assert_eq!(release(&shelf, &orders, OrderStatus::Expired).await, 0);
    assert_eq!(shelf.row().await.allotted, 1);
    // Never earlier, and not once it is over.
    assert!(!shelf.ledger.extend(&orders[0], later).await.unwrap());
    let extended = Order {
        pay_by: later,
        ..orders[0].clone()
    };
    let extended = [extended];
    assert_eq!(release(&shelf, &extended, OrderStatus::Expired).await, 1);
    let latest = later + SignedDuration::from_mins(5);
    assert!(!shelf.ledger.extend(&extended[0], latest).await.unwrap());
}

#[tokio::test]
async fn a_bucket_with_orders_is_not_written_anew() {
    let shelf = Shelf::new(10).await;
    let Bucket { sale, id, .. } = &shelf.bucket;
    let anew = ledger::orders::Bucket::new(20, 1);
    shelf.ledger.put_bucket(sale, *id, &anew).await.unwrap();
    written(&shelf, 1).await;
    let refused = shelf.ledger.put_bucket(sale, *id, &anew).await;
    assert!(matches!(refused, Err(Error::Conflict)), "{refused:?}");
    assert_eq!(shelf.row().await.allotted, 1);
}
