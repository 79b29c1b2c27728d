//! The reconciler against real gates, the real ledger and the sandbox provider.

#![allow(clippy::unwrap_used)]

mod books;
mod closed;
mod counters;
mod size;
mod told;

use domain::{Order, OrderStatus};
use gate::Hold;
use jiff::SignedDuration;
use payment::sandbox::{SandboxProvider, Verdict};
use payment::{Cashier, Refusal};
use reconcile::report::{Done, Kept, Kind, Report};
use reconciler_function::ReconcilerFunction;
use runtime::EventFunction;
use testing::World;

const SECOND: SignedDuration = SignedDuration::from_secs(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A reconciler that is started when so much time has passed.
async fn reconciler(world: &World, later: SignedDuration) -> ReconcilerFunction {
    let environment = world.later(later);
    ReconcilerFunction::start(&environment).await.unwrap()
}

/// What one run some time later leaves.
async fn kept(world: &World, later: SignedDuration) -> Kept {
    reconciler(world, later).await.run().await.unwrap();
    let kept = Kept::of(&world.ledger, &world.sale).await.unwrap();
    kept.unwrap()
}

/// What one run some time later finds.
async fn run(world: &World, later: SignedDuration) -> Report {
    kept(world, later).await.newest
}

fn found(report: &Report) -> Vec<(Kind, Done)> {
    let all = report.mismatches.iter();
    all.map(|one| (one.kind, one.done)).collect()
}

/// A claim that can be paid for ten minutes.
async fn claim(world: &World, bucket: u16, shopper: &str) -> Hold {
    let pay_by = world.now() + MINUTE * 10;
    world.claim(bucket, shopper, pay_by).await
}

async fn ordered(world: &World, bucket: u16, shopper: &str) -> Order {
    let hold = claim(world, bucket, shopper).await;
    world.order(&hold).await
}

/// An order that is paid; the gate was not told.
async fn paid(world: &World, bucket: u16, shopper: &str) -> Order {
    let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
    let sandbox = SandboxProvider::connect(&world.environment, &world.ledger).unwrap();
    let begun = cashier.begin(ordered(world, bucket, shopper).await).await;
    let begun = begun.unwrap();
    let (intent, secret) = (&begun.intent.id, &begun.intent.client_secret);
    let verdict = Verdict::Succeed(None);
    let confirmed = sandbox.confirm(intent, secret, verdict, world.now());
    confirmed.await.unwrap();
    let paid = cashier.begin(begun.order.clone()).await;
    assert!(matches!(paid, Err(Refusal::AlreadyPaid)), "{paid:?}");
    let order = world.find(&begun.order.claim).await.unwrap();
    assert_eq!(order.status, OrderStatus::Paid);
    order
}

async fn given_back(world: &World, bucket: u16, shopper: &str) -> Order {
    let order = ordered(world, bucket, shopper).await;
    let (id, to) = (order.claim.bucket(), OrderStatus::Cancelled);
    let orders = std::slice::from_ref(&order);
    let released = world
        .ledger
        .release(&world.sale, id, orders, to, world.now());
    assert_eq!(released.await.unwrap().len(), 1);
    order
}
