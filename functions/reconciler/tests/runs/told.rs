//! What a run tells, as metrics.

use domain::BucketId;
use ledger::{Transaction, key};
use runtime::Metric;
use testing::{Metrics, World, metrics_of};

use crate::{SECOND, ordered, reconciler};

async fn told(world: &World) -> Metrics {
    let reconciler = reconciler(world, SECOND).await;
    let (ran, metrics) = metrics_of(reconciler.run()).await;
    ran.unwrap();
    metrics
}

#[tokio::test]
async fn a_run_tells_that_it_saw_everything_and_what_needs_a_person() {
    let world = World::open(&[10, 10]).await;
    ordered(&world, 0, "shopper-1").await;
    let metrics = told(&world).await;
    assert_eq!(metrics.overall(Metric::Reconciled), [1.0]);
    assert_eq!(metrics.of(Metric::Reconciled, &world.sale), [1.0]);
    assert_eq!(metrics.overall(Metric::Unreconciled), [0.0]);
    assert!(metrics.overall(Metric::GateMismatch).is_empty());
    metrics.hold_none_of(["shopper-1"]);

    let mut writes = Transaction::new();
    let row = key::bucket(&world.sale, BucketId(0));
    writes.update(&row, "ADD allotted :n").number(":n", 1);
    world
        .ledger
        .table()
        .write_or_conflict(&writes)
        .await
        .unwrap();
    world.gate.put(world.address(1), 1).await.unwrap();
    let metrics = told(&world).await;
    // Neither the orders nor the capacity say so.
    assert_eq!(metrics.overall(Metric::Unreconciled), [2.0]);
    assert_eq!(metrics.of(Metric::Unreconciled, &world.sale), [2.0]);
    assert_eq!(metrics.overall(Metric::GateMismatch), [1.0]);
}

#[tokio::test]
async fn a_sale_that_can_not_be_read_is_told() {
    let world = World::open(&[10]).await;
    let mut writes = Transaction::new();
    let row = key::bucket(&world.sale, BucketId(0));
    let odd = serde_json::json!({"capacity": "many"});
    writes.put(&row, &odd).unwrap();
    world
        .ledger
        .table()
        .write_or_conflict(&writes)
        .await
        .unwrap();
    let metrics = told(&world).await;
    assert_eq!(metrics.overall(Metric::Reconciled), [0.0]);
    assert!(metrics.overall(Metric::Unreconciled).is_empty());
}
