//! What a batch tells, as metrics.

use jiff::SignedDuration;
use runtime::Metric;
use testing::{Metrics, metrics_of};

use crate::worker::{IN_QUEUE, MINUTE, Worker};

const PAST: SignedDuration = SignedDuration::from_secs(-1);

async fn told(worker: &Worker, messages: &[String]) -> Metrics {
    metrics_of(worker.deliver(messages)).await.1
}

/// Claims that were voided for this reason.
fn voided(metrics: &Metrics, worker: &Worker, reason: &str) -> f64 {
    let sale = worker.world.sale.to_string();
    let dimensions = [("sale", sale.as_str()), ("reason", reason)];
    let values = metrics.series(Metric::ClaimsVoided, &dimensions);
    values.iter().sum()
}

#[tokio::test]
async fn a_batch_tells_its_size_its_age_and_its_orders() {
    let worker = Worker::start(&[10]).await;
    let (holds, messages) = worker.claims(0, 0..7, MINUTE).await;
    let metrics = told(&worker, &messages).await;
    assert_eq!(metrics.overall(Metric::BatchSize), [7.0]);
    let ages = metrics.overall(Metric::MessageAge);
    assert_eq!(ages.len(), 7);
    let least = IN_QUEUE.as_millis() as f64;
    for age in ages {
        assert!((least..least + 30_000.0).contains(age), "{ages:?}");
    }
    assert_eq!(metrics.overall(Metric::OrdersWritten), [7.0]);
    assert_eq!(metrics.of(Metric::OrdersWritten, &worker.world.sale), [7.0]);
    let claim = holds[0].claim.to_string();
    metrics.hold_none_of(["u_0", "u_1", &claim, "message-0"]);

    // The same messages again are a batch, and no orders.
    let again = told(&worker, &messages).await;
    assert_eq!(again.overall(Metric::BatchSize), [7.0]);
    assert_eq!(again.overall(Metric::OrdersWritten), [0.0]);
}

#[tokio::test]
async fn voids_are_counted_by_their_reason_and_once() {
    let worker = Worker::start(&[2, 3]).await;
    // The gate has forgotten winners: it holds units that do not exist.
    let address = worker.world.address(0);
    worker.world.gate.put(address, 3).await.unwrap();
    let (_, beyond) = worker.claims(0, 0..4, MINUTE).await;
    let metrics = told(&worker, &beyond).await;
    assert_eq!(voided(&metrics, &worker, "cap"), 2.0);
    assert_eq!(metrics.overall(Metric::OrdersWritten), [2.0]);
    assert_eq!(voided(&told(&worker, &beyond).await, &worker, "cap"), 0.0);

    // The same shopper, under the same key, in another bucket.
    let (_, second) = worker.claims(1, 0..1, MINUTE).await;
    let metrics = told(&worker, &second).await;
    assert_eq!(voided(&metrics, &worker, "repeated"), 1.0);

    let (_, late) = worker.claims(1, 10..11, PAST).await;
    let metrics = told(&worker, &late).await;
    assert_eq!(voided(&metrics, &worker, "no_order"), 1.0);
    metrics.hold_none_of(["u_10"]);
    assert_eq!(
        voided(&told(&worker, &late).await, &worker, "no_order"),
        0.0
    );
}
