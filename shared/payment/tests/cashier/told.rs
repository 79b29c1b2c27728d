//! What the rules of money tell, as metrics.

use std::sync::atomic::Ordering;

use payment::{Applied, Cashier, Event, IntentEnd};
use runtime::Metric;
use testing::{Metrics, metrics_of};

use crate::world::{BadLine, MINUTE, World, success};

async fn told(cashier: &Cashier, event: &Event, comes_to: Applied) -> Metrics {
    let (applied, metrics) = metrics_of(cashier.apply(event)).await;
    assert_eq!(applied.unwrap(), comes_to);
    let order = event.order.as_ref().unwrap().to_string();
    let intent = event.intent.as_ref().unwrap().to_string();
    metrics.hold_none_of(["shopper-1", &order, &intent, &event.id]);
    metrics
}

#[tokio::test]
async fn a_capture_without_an_order_is_counted_once() {
    let world = World::new().await;
    let order = world.paying("shopper-1").await;
    let missing = world
        .bucket
        .unwritten("shopper-2", world.now(), MINUTE)
        .claim
        .order();
    let intent = order.intent.unwrap();
    let event = success("evt_1", &intent, &missing, "999900 INR");
    let metrics = told(&world.cashier, &event, Applied::Parked).await;
    assert_eq!(metrics.overall(Metric::PaymentParked), [1.0]);
    // The order may name any sale.
    assert!(
        metrics
            .of(Metric::PaymentParked, &world.bucket.sale)
            .is_empty()
    );

    let (again, metrics) = metrics_of(world.cashier.apply(&event)).await;
    assert_eq!(again.unwrap(), Applied::Parked);
    // What was kept before may never have been told.
    assert_eq!(metrics.overall(Metric::PaymentParked), [1.0]);
}

#[tokio::test]
async fn a_contradiction_is_counted() {
    let world = World::new().await;
    let order = world.paying("shopper-1").await;
    let intent = order.intent.clone().unwrap();
    let event = success("evt_1", &intent, &order.claim.order(), "0 INR");
    let metrics = told(&world.cashier, &event, Applied::Mismatch).await;
    assert_eq!(metrics.overall(Metric::PaymentMismatch), [1.0]);
    let sale = &world.bucket.sale;
    assert_eq!(metrics.of(Metric::PaymentMismatch, sale), [1.0]);
    assert!(metrics.overall(Metric::RefundOwed).is_empty());
}

#[tokio::test]
async fn a_refund_is_counted_when_it_is_owed_and_while_it_is_not_confirmed() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());
    let order = world.paying("shopper-1").await;
    world.expire(&order, MINUTE * 16).await;
    line.refunds_unanswered.store(2, Ordering::SeqCst);
    let intent = order.intent.clone().unwrap();
    let event = success("evt_1", &intent, &order.claim.order(), "999900 INR");
    let metrics = told(&cashier, &event, Applied::Refund).await;
    let sale = &world.bucket.sale;
    for metric in [Metric::RefundOwed, Metric::RefundUnconfirmed] {
        assert_eq!(metrics.overall(metric), [1.0], "{metric:?}");
        assert_eq!(metrics.of(metric, sale), [1.0], "{metric:?}");
    }
    let refunds = || cashier.settle_refunds(sale, world.bucket.id);
    // Refused again, then confirmed.
    for (unconfirmed, pending) in [(&[1.0][..], 1), (&[], 0)] {
        let (settled, metrics) = metrics_of(refunds()).await;
        assert_eq!(settled.unwrap().pending, pending);
        assert_eq!(metrics.overall(Metric::RefundUnconfirmed), unconfirmed);
        assert!(metrics.overall(Metric::RefundOwed).is_empty());
    }
}

#[tokio::test]
async fn calls_of_the_provider_are_measured_and_its_failures_counted() {
    let world = World::new().await;
    let line = BadLine::to(&world);
    let cashier = world.cashier.clone().with_provider(line.clone());
    let order = world.order("shopper-1").await;
    let (begun, metrics) = metrics_of(cashier.begin(order)).await;
    let begun = begun.unwrap();
    assert_eq!(metrics.overall(Metric::ProviderErrors), [0.0]);
    let latencies = metrics.overall(Metric::ProviderLatency);
    assert_eq!(latencies.len(), 1);
    assert!((0.001..60_000.0).contains(&latencies[0]), "{latencies:?}");
    let secret = begun.intent.client_secret.as_str();
    metrics.hold_none_of(["shopper-1", secret, begun.intent.id.as_str()]);

    line.down.store(true, Ordering::SeqCst);
    let (end, metrics) = metrics_of(cashier.close_intent(&begun.order)).await;
    assert_eq!(end.unwrap(), IntentEnd::Unreachable);
    assert_eq!(metrics.overall(Metric::ProviderErrors), [1.0]);
    assert_eq!(metrics.overall(Metric::IntentUnreachable), [1.0]);
    let sale = &world.bucket.sale;
    assert_eq!(metrics.of(Metric::IntentUnreachable, sale), [1.0]);
    metrics.hold_none_of(["shopper-1", begun.intent.id.as_str()]);
}
