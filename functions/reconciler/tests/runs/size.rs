//! The phone sale: 40 buckets of 250 orders.

use std::time::Instant;

use domain::{BucketId, ClaimId, Order, OrderStatus};
use ledger::{Transaction, key};
use testing::World;

use crate::{SECOND, found, run};

const BUCKETS: u16 = 40;
const UNITS: u32 = 250;
/// Passes that are in the table beside the orders: none of them is read.
const PASSES: u32 = 50_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; prints how long a run takes"]
async fn a_whole_launch_is_reconciled_within_seconds() {
    let world = World::open(&[UNITS; BUCKETS as usize]).await;
    let now = world.now();
    let timed = async |what: &str| {
        let begun = Instant::now();
        let report = run(&world, SECOND).await;
        let counts = report.counts;
        println!(
            "{what}: {} held, {} ms",
            counts.held,
            begun.elapsed().as_millis()
        );
        report
    };
    for bucket in (0..BUCKETS).map(BucketId) {
        let orders: Vec<Order> = (0..UNITS)
            .map(|n| {
                let shopper = format!("u_{}_{n}", bucket.0).parse().unwrap();
                let key = "test-key".parse().unwrap();
                Order {
                    claim: ClaimId::derive(&world.sale, bucket, &shopper, &key),
                    shopper,
                    quantity: 1,
                    money: domain::Money {
                        amount: 999_900,
                        currency: "INR".parse().unwrap(),
                    },
                    status: OrderStatus::PendingPayment,
                    pay_by: now + SECOND * 3_600,
                    pay_until: None,
                    intent: None,
                    attempt: 0,
                    claimed_at: now,
                    changed_at: now,
                    void_reason: None,
                }
            })
            .collect();
        let gate = world.address(bucket.0);
        assert_eq!(world.gate.take(gate, UNITS).await.unwrap(), UNITS);
        for batch in orders.chunks(10) {
            let ledger = &world.ledger;
            let made = ledger.create_orders(&world.sale, bucket, 1, 1, batch);
            assert_eq!(made.await.unwrap().len(), batch.len());
        }
    }
    let report = timed("orders alone").await;
    assert_eq!(found(&report), []);
    assert_eq!(report.counts.held, u64::from(UNITS) * u64::from(BUCKETS));
    for n in 0..PASSES {
        let mut writes = Transaction::new();
        let row = key::pass(&world.sale, &format!("p_{n}").parse().unwrap());
        writes
            .put(&row, &serde_json::json!({"pass_id": n}))
            .unwrap();
        world
            .ledger
            .table()
            .write_or_conflict(&writes)
            .await
            .unwrap();
    }
    timed("with passes").await;
}
