//! What a sweep tells, as metrics.

use domain::{Order, OrderStatus};
use jiff::SignedDuration;
use ledger::payments::{Refund, RefundReason};
use payment::sandbox::{SandboxProvider, Verdict};
use payment::{Cashier, Refusal};
use runtime::Metric;
use serde_json::json;
use testing::{Metrics, World, gates, metrics_of};

use crate::{MINUTE, SECOND, sweeper};

/// What one sweep some time later tells.
async fn told_swept(world: &World, later: SignedDuration) -> Metrics {
    let sweeper = sweeper(world, later).await;
    let (swept, metrics) = metrics_of(sweeper.sweep()).await;
    assert!(swept.unwrap());
    metrics
}

/// What one look at refunds and counters some time later tells.
async fn told_kept(world: &World, later: SignedDuration) -> Metrics {
    let sweeper = sweeper(world, later).await;
    let (kept, metrics) = metrics_of(sweeper.keep_up()).await;
    assert!(kept.unwrap());
    metrics
}

/// An order of this shopper whose hold ends in a minute.
async fn ordered(world: &World, bucket: u16, shopper: &str) -> Order {
    let pay_by = world.now() + MINUTE;
    let hold = world.claim(bucket, shopper, pay_by).await;
    world.order(&hold).await
}

#[tokio::test]
async fn every_hold_that_ends_is_counted_and_its_lag_is_told() {
    let world = World::open(&[10, 10]).await;
    for n in 0..5 {
        ordered(&world, n % 2, &format!("shopper-{n}")).await;
    }
    let metrics = told_swept(&world, MINUTE + SECOND * 5).await;
    let expired = metrics.of(Metric::HoldsExpired, &world.sale);
    assert_eq!(expired.iter().sum::<f64>(), 5.0);
    let lags = metrics.overall(Metric::ReleaseLag);
    assert_eq!(lags.len(), 5);
    assert_eq!(lags, metrics.of(Metric::ReleaseLag, &world.sale));
    // The sweeper's clock is 65 s ahead, the deadlines were 60 s ahead.
    for lag in lags {
        assert!((5_000.0..60_000.0).contains(lag), "{lags:?}");
    }
    metrics.hold_none_of(["shopper-"]);

    let again = told_swept(&world, MINUTE + SECOND * 6).await;
    assert!(again.overall(Metric::ReleaseLag).is_empty());
}

#[tokio::test]
async fn what_another_sweeper_left_half_done_has_a_lag_too() {
    let world = World::open(&[5]).await;
    let order = ordered(&world, 0, "shopper-1").await;
    let (sale, orders) = (&world.sale, [order]);
    let now = world.now();
    let bucket = domain::BucketId(0);
    let expired = OrderStatus::Expired;
    let released = world.ledger.release(sale, bucket, &orders, expired, now);
    assert_eq!(released.await.unwrap().len(), 1);
    let metrics = told_swept(&world, MINUTE + SECOND * 5).await;
    let lags = metrics.overall(Metric::ReleaseLag);
    assert_eq!(lags.len(), 1);
    assert!((5_000.0..60_000.0).contains(&lags[0]), "{lags:?}");
}

#[tokio::test]
async fn a_claim_without_an_order_is_counted_once_as_voided() {
    let world = World::open(&[5]).await;
    world.claim(0, "shopper-1", world.now() + MINUTE).await;
    let metrics = told_swept(&world, MINUTE + SECOND * 5).await;
    let sale = world.sale.to_string();
    let voided = [("sale", sale.as_str()), ("reason", "no_order")];
    assert_eq!(metrics.series(Metric::ClaimsVoided, &voided), [1.0]);
    assert_eq!(metrics.overall(Metric::ReleaseLag).len(), 1);
    metrics.hold_none_of(["shopper-1"]);
    let again = told_swept(&world, MINUTE + SECOND * 6).await;
    assert!(again.series(Metric::ClaimsVoided, &voided).is_empty());
}

#[tokio::test]
async fn a_comparison_tells_where_every_unit_is() {
    let world = World::open(&[10, 10]).await;
    let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
    let sandbox = SandboxProvider::connect(&world.environment, &world.ledger).unwrap();
    // Two on their way, one ordered, one being paid, one paid.
    for n in 0..2 {
        let pay_by = world.now() + MINUTE * 10;
        world.claim(n, &format!("shopper-{n}"), pay_by).await;
    }
    ordered(&world, 0, "shopper-2").await;
    let order = ordered(&world, 1, "shopper-3").await;
    cashier.begin(order).await.unwrap();
    let order = ordered(&world, 0, "shopper-4").await;
    let begun = cashier.begin(order).await.unwrap();
    let secret = &begun.intent.client_secret;
    let verdict = Verdict::Succeed(None);
    let confirmed = sandbox.confirm(&begun.intent.id, secret, verdict, world.now());
    confirmed.await.unwrap();
    let paid = cashier.begin(begun.order).await;
    assert!(matches!(paid, Err(Refusal::AlreadyPaid)), "{paid:?}");

    let metrics = told_kept(&world, SECOND).await;
    let one = |metric| {
        let values = metrics.of(metric, &world.sale);
        assert_eq!(values.len(), 1, "{metric:?}: {values:?}");
        values[0]
    };
    assert_eq!(one(Metric::UnitsHeld), 3.0);
    assert_eq!(one(Metric::UnitsPaying), 1.0);
    assert_eq!(one(Metric::UnitsPaid), 1.0);
    for nothing in [
        Metric::GateGap,
        Metric::GateMismatch,
        Metric::FrozenBuckets,
        Metric::OverdueHolds,
        Metric::RefundsPending,
    ] {
        assert_eq!(one(nothing), 0.0, "{nothing:?}");
    }
    let intent = begun.intent.id.to_string();
    metrics.hold_none_of(["shopper-", &intent, secret]);
}

#[tokio::test]
async fn sweeps_are_heard_of_now_and_then() {
    let world = World::open(&[10, 10]).await;
    let sweeper = sweeper(&world, SECOND).await;
    let ((), metrics) = metrics_of(async {
        for _ in 0..3 {
            assert!(sweeper.sweep().await.unwrap());
        }
    })
    .await;
    // The heartbeat, and the nought by which the controller's silence is heard.
    assert_eq!(metrics.overall(Metric::SweeperLook), [1.0]);
    assert_eq!(metrics.overall(Metric::ControllerLook), [0.0]);
}

#[tokio::test]
async fn gaps_are_told_and_corrections_counted() {
    let world = World::open(&[10, 10]).await;
    world.gate.put(world.address(0), 3).await.unwrap();
    world.gate.take(world.address(1), 2).await.unwrap();
    // Too many is lowered at once, too few only if it stays so.
    for (later, gap, corrected) in [
        (SECOND, 5.0, 1.0),
        (MINUTE, 2.0, 1.0),
        (MINUTE * 2, 0.0, 0.0),
    ] {
        let metrics = told_kept(&world, later).await;
        assert_eq!(metrics.of(Metric::GateGap, &world.sale), [gap], "{later}");
        let mismatch = metrics.overall(Metric::GateMismatch);
        assert_eq!(mismatch, [corrected], "{later}");
    }
}

#[tokio::test]
async fn frozen_buckets_are_told_and_their_orders_still_counted() {
    let servers = gates::start();
    let world = World::new(&servers, &[10, 10], json!({})).await;
    ordered(&world, 0, "shopper-1").await;
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec(&mut servers.connect(0).unwrap())
        .unwrap();
    let metrics = told_kept(&world, SECOND).await;
    assert_eq!(metrics.overall(Metric::FrozenBuckets), [2.0]);
    assert_eq!(metrics.of(Metric::FrozenBuckets, &world.sale), [2.0]);
    assert_eq!(metrics.of(Metric::UnitsHeld, &world.sale), [1.0]);
}

#[tokio::test]
async fn holds_that_the_gate_has_lost_are_told_as_overdue() {
    let world = World::open(&[10]).await;
    let order = ordered(&world, 0, "shopper-1").await;
    let due = format!("{{{}}}:due", world.address(0).tag);
    redis::cmd("ZREM")
        .arg(due)
        .arg(order.claim.to_string())
        .exec(&mut gates::shared().connect(0).unwrap())
        .unwrap();
    let metrics = told_kept(&world, MINUTE * 2).await;
    assert_eq!(metrics.overall(Metric::OverdueHolds), [1.0]);
    assert_eq!(metrics.of(Metric::OverdueHolds, &world.sale), [1.0]);
    // Ended by the comparison, without the gate: no lag can be told.
    assert_eq!(metrics.of(Metric::HoldsExpired, &world.sale), [1.0]);
    assert!(metrics.overall(Metric::ReleaseLag).is_empty());
}

#[tokio::test]
async fn a_comparison_that_did_not_see_everything_is_no_sum() {
    let world = World::open(&[10, 10]).await;
    // One bucket's row can't be read.
    let mut damage = ledger::Transaction::new();
    let row = ledger::key::bucket(&world.sale, domain::BucketId(1));
    damage.put(&row, &json!({"capacity": "many"})).unwrap();
    let table = world.ledger.table();
    table.write_or_conflict(&damage).await.unwrap();
    let metrics = told_kept(&world, SECOND).await;
    assert!(metrics.of(Metric::UnitsHeld, &world.sale).is_empty());
    assert_eq!(metrics.overall(Metric::FrozenBuckets), [0.0]);
    // Its deadlines can be swept all the same.
    let swept = told_swept(&world, SECOND).await;
    assert_eq!(swept.overall(Metric::SweeperLook), [1.0]);
}

#[tokio::test]
async fn refunds_that_the_provider_does_not_make_are_told() {
    let world = World::open(&[5]).await;
    let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
    let order = ordered(&world, 0, "shopper-1").await;
    let begun = cashier.begin(order).await.unwrap();
    let (claim, intent) = (&begun.order.claim, &begun.intent.id);
    let money = begun.order.money;
    let refund = Refund::owed(claim, intent, money, RefundReason::Late, world.now());
    let owed = world.ledger.owe_refund(&begun.order, &refund, None).await;
    owed.unwrap();
    // The provider's books can't be read.
    let mut damage = ledger::Transaction::new();
    let row = ledger::key::sandbox_intent(claim, intent);
    damage.put(&row, &json!({"status": 7})).unwrap();
    let table = world.ledger.table();
    table.write_or_conflict(&damage).await.unwrap();

    let metrics = told_kept(&world, SECOND).await;
    assert_eq!(metrics.overall(Metric::RefundsPending), [1.0]);
    assert_eq!(metrics.of(Metric::RefundsPending, &world.sale), [1.0]);
    assert_eq!(metrics.overall(Metric::RefundUnconfirmed), [1.0]);
    assert_eq!(metrics.overall(Metric::ProviderErrors), [1.0]);
    metrics.hold_none_of(["shopper-1", intent.as_str()]);
}
