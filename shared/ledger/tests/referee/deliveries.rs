//! Messages come more than once, in any order, to several workers at a time.

use std::collections::HashSet;

use domain::order::VoidReason;
use domain::{Order, OrderStatus};
use futures::{StreamExt, TryStreamExt, stream};
use ledger::orders::Outcome;
use ledger::{Error, Ledger, Transaction, key};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use testing::Bucket;

use crate::shelf::Shelf;

const SEED: u64 = 7;

/// One to five deliveries of each, shuffled, in batches of up to ten.
fn deliveries(orders: &[Order]) -> Vec<Vec<Order>> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut deliveries: Vec<Order> = orders
        .iter()
        .flat_map(|order| vec![order.clone(); random.random_range(1..=5)])
        .collect();
    deliveries.shuffle(&mut random);
    let mut batches = Vec::new();
    while !deliveries.is_empty() {
        let size = random.random_range(1..=10).min(deliveries.len());
        batches.push(deliveries.split_off(deliveries.len() - size));
    }
    batches
}

/// What a worker does with a batch; failed batches are delivered again.
async fn work(ledger: &Ledger, bucket: &Bucket, batch: &[Order]) -> Vec<Outcome> {
    loop {
        let written = ledger.create_orders(&bucket.sale, bucket.id, 1, 1, batch);
        match written.await {
            Ok(outcomes) => return outcomes,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_messages_are_an_order_for_each_claim() {
    let shelf = Shelf::new(2_000).await;
    let mut orders: Vec<Order> = (0..990).map(|n| shelf.first(&format!("u_{n}"))).collect();
    // Ten customers claim a second time.
    orders.extend((0..10).map(|n| shelf.another(&format!("u_{n}"), "key-0002")));
    let refused = stream::iter(deliveries(&orders))
        .map(|batch| {
            let (ledger, bucket) = (&shelf.ledger, &shelf.bucket);
            async move {
                let outcomes = work(ledger, bucket, &batch).await;
                let mut refused = Vec::new();
                for (order, outcome) in batch.iter().zip(outcomes) {
                    if let Outcome::Refused(reason) = outcome {
                        assert_eq!(reason, VoidReason::Limit);
                        let now = order.claimed_at;
                        ledger.void(order, reason, now).await.unwrap();
                        refused.push(order.claim.clone());
                    }
                }
                refused
            }
        })
        .buffer_unordered(8)
        .map(|refused| stream::iter(refused.into_iter()))
        .flatten()
        .collect::<HashSet<_>>()
        .await;
    // Which of a customer's two came first is chance; one was refused.
    assert_eq!(refused.len(), 10);
    assert_eq!(shelf.row().await.allotted, 990);
    let written = shelf.orders().await;
    let live = written
        .iter()
        .filter(|order| order.status == OrderStatus::PendingPayment);
    let customers: HashSet<_> = live.clone().map(|order| &order.shopper).collect();
    assert_eq!((live.count(), customers.len()), (990, 990));
    assert_eq!(written.len(), 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_holds_whatever_the_gates_said() {
    let shelf = Shelf::new(100).await;
    let orders: Vec<Order> = (0..300).map(|n| shelf.first(&format!("u_{n}"))).collect();
    stream::iter(deliveries(&orders))
        .for_each_concurrent(8, |batch| {
            let (ledger, bucket) = (&shelf.ledger, &shelf.bucket);
            async move {
                work(ledger, bucket, &batch).await;
            }
        })
        .await;
    assert_eq!(shelf.row().await.allotted, 100);
    assert_eq!(shelf.orders().await.len(), 100);
}

/// The guard taken out: the same transaction without the cap's condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_cap_the_same_deliveries_oversell() {
    let shelf = Shelf::new(100).await;
    let orders: Vec<Order> = (0..300).map(|n| shelf.first(&format!("u_{n}"))).collect();
    stream::iter(deliveries(&orders).concat())
        .map(Ok::<_, Error>)
        .try_for_each_concurrent(8, |order| {
            let shelf = &shelf;
            async move {
                let mut writes = Transaction::new();
                writes.put(&key::order(&order.claim), &order)?.only_new();
                writes
                    .update(
                        &key::bucket(&shelf.bucket.sale, shelf.id()),
                        "ADD allotted :units, spare :less",
                    )
                    .number(":units", order.quantity)
                    .number(":less", -i64::from(order.quantity));
                while shelf.ledger.table().write(&writes).await.is_err() {}
                Ok(())
            }
        })
        .await
        .unwrap();
    let partition = key::bucket_partition(&shelf.bucket.sale, shelf.id());
    let written = shelf.ledger.table().query(&partition, key::ORDER_PREFIX);
    assert_eq!(written.await.unwrap().len(), 300, "of 100");
}
