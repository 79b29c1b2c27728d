//! When nobody looks after a sale any more it is reconciled to its end, once.

use domain::BucketId;
use ledger::Transaction;
use ledger::key;
use ledger::payments::{Refund, RefundReason};
use reconcile::report::{Done, Kind};
use testing::World;

use crate::{SECOND, found, paid, run};

/// A sale of two units that is over, of which one is paid.
async fn closed() -> World {
    let world = World::open(&[2]).await;
    let order = paid(&world, 0, "u").await;
    let tag = &world.address(0).tag;
    world.gate.settle(tag, &order.claim).await.unwrap();
    let now = world.now();
    let ended = world.ledger.change_sale(&world.sale, |sale| {
        sale.switches.ended = true;
        sale.ended_at = Some(now);
        Ok::<_, std::convert::Infallible>(())
    });
    let sale = ended.await.unwrap().unwrap().unwrap();
    assert!(world.ledger.close_sale(&sale).await.unwrap());
    world
}

async fn is_left(world: &World) -> bool {
    !world.ledger.unreconciled().await.unwrap().is_empty()
}

#[tokio::test]
async fn a_sale_that_is_over_is_reconciled_once() {
    let world = closed().await;
    assert!(is_left(&world).await);
    let report = run(&world, SECOND).await;
    assert!(report.closed && report.complete, "{report:?}");
    assert_eq!(found(&report), []);
    assert!(!is_left(&world).await);
    let again = run(&world, SECOND).await;
    assert_eq!(again.at, report.at, "it was not read again");
}

#[tokio::test]
async fn a_refund_that_comes_up_later_has_it_reconciled_again() {
    let world = closed().await;
    run(&world, SECOND).await;
    let order = world.find(&world.claim_id(0, "u")).await.unwrap();
    let intent = "another-intent".parse().unwrap();
    let reason = RefundReason::OtherIntent;
    let refund = Refund::owed(&order.claim, &intent, order.money, reason, world.now());
    let owed = world.ledger.owe_refund(&order, &refund, None).await;
    owed.unwrap();
    assert!(is_left(&world).await);
}

#[tokio::test]
async fn what_needs_a_person_is_said_for_a_day() {
    let world = closed().await;
    let mut writes = Transaction::new();
    let row = key::bucket(&world.sale, BucketId(0));
    writes.update(&row, "ADD spare :n").number(":n", -1);
    world
        .ledger
        .table()
        .write_or_conflict(&writes)
        .await
        .unwrap();
    let wrong = (Kind::SpareWrong, Done::NeedsPerson);
    for _ in 0..2 {
        let report = run(&world, SECOND).await;
        assert!(found(&report).contains(&wrong), "{report:?}");
        assert!(is_left(&world).await);
    }
    run(&world, SECOND * 3600 * 25).await;
    assert!(!is_left(&world).await);
}
