//! Gates that count otherwise than the ledger, and holds that outlived their
//! orders.

use gate::Release;
use reconcile::report::{Done, Kind};
use serde_json::json;
use testing::{World, gates};

use crate::{MINUTE, SECOND, claim, found, given_back, kept, ordered, paid, run};

#[tokio::test]
async fn a_sale_in_good_order_agrees_wherever_its_units_are() {
    let world = World::open(&[10, 10]).await;
    claim(&world, 0, "on-its-way").await;
    ordered(&world, 1, "held").await;
    let order = paid(&world, 0, "paid").await;
    let tag = &world.address(0).tag;
    world.gate.settle(tag, &order.claim).await.unwrap();
    let back = given_back(&world, 1, "back").await;
    let tag = &world.address(1).tag;
    let released = world.gate.release(tag, &back.claim, Release::Lapsed);
    assert!(released.await.unwrap());

    let report = run(&world, SECOND).await;
    assert_eq!(found(&report), []);
    assert!(report.complete && !report.closed);
    assert_eq!((report.compared, report.found), (2, 0));
    let counts = report.counts;
    assert_eq!((counts.units, counts.capacity), (20, 20));
    assert_eq!((counts.allotted, counts.spare), (2, 18));
    assert_eq!(
        (counts.free, counts.in_flight, counts.returning),
        (17, 1, 0)
    );
    assert_eq!((counts.held, counts.paying, counts.paid), (1, 0, 1));
    assert_eq!((counts.cancelled, counts.expired, counts.voided), (1, 0, 0));
}

#[tokio::test]
async fn a_gate_with_too_much_is_lowered_at_once_and_that_is_remembered() {
    let world = World::open(&[10]).await;
    ordered(&world, 0, "u").await;
    world.gate.put(world.address(0), 3).await.unwrap();
    let first = kept(&world, SECOND).await;
    assert_eq!(found(&first.newest), [(Kind::GateHigh, Done::Corrected)]);
    let one = &first.newest.mismatches[0];
    assert_eq!((one.expected, one.found), (9, 12));
    assert_eq!(world.left(0).await, 9);

    let second = kept(&world, SECOND * 2).await;
    assert_eq!(found(&second.newest), []);
    assert_eq!(second.log.len(), 1);
    assert_eq!(second.log[0].mismatch.kind, Kind::GateHigh);
}

#[tokio::test]
async fn a_gate_with_too_little_is_raised_once_the_gap_was_seen_twice() {
    let world = World::open(&[10]).await;
    world.gate.take(world.address(0), 2).await.unwrap();
    let report = run(&world, SECOND).await;
    assert_eq!(found(&report), [(Kind::GateLow, Done::Corrected)]);
    assert_eq!(world.left(0).await, 10);
}

/// The control: a gap that is not the same twice is left alone.
#[tokio::test]
async fn a_gap_that_closes_by_itself_is_no_mismatch() {
    let world = World::open(&[10]).await;
    let address = world.address(0);
    world.gate.take(address, 2).await.unwrap();
    let (report, ()) = tokio::join!(run(&world, SECOND), async {
        tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        world.gate.put(address, 2).await.unwrap();
    });
    assert_eq!(found(&report), []);
    assert_eq!(world.left(0).await, 10);
}

#[tokio::test]
async fn units_that_move_to_another_bucket_are_no_mismatch() {
    let world = World::open(&[10, 0]).await;
    let (from, to) = (world.address(0), world.address(1));
    let now = world.now();
    world.gate.begin_move(to, 0, now).await.unwrap();
    assert_eq!(world.gate.begin_move(from, 4, now).await.unwrap(), 4);
    let report = run(&world, SECOND).await;
    // Noted, not raised: who moves them may be on the way.
    assert_eq!(found(&report), [(Kind::GateLow, Done::Noted)]);
    assert_eq!(report.needs_person(), 0);
    assert_eq!(world.left(0).await, 6);
}

#[tokio::test]
async fn the_gate_follows_orders_that_ended_a_while_ago() {
    let world = World::open(&[10]).await;
    paid(&world, 0, "paid").await;
    given_back(&world, 0, "back").await;
    // Whoever ended them may be about to tell the gate.
    assert_eq!(found(&run(&world, SECOND).await), []);
    assert_eq!(world.left(0).await, 8);
    let report = run(&world, MINUTE).await;
    let ended = (Kind::HoldNotEnded, Done::Corrected);
    assert_eq!(found(&report), [ended, ended]);
    assert_eq!(world.left(0).await, 9);
    let tag = &world.address(0).tag;
    assert_eq!(world.gate.look(tag).await.unwrap().due, 0);
    assert_eq!(found(&run(&world, MINUTE).await), []);
}

#[tokio::test]
async fn without_gates_the_ledger_is_reconciled_all_the_same() {
    let servers = gates::start();
    let world = World::new(&servers, &[10], json!({})).await;
    ordered(&world, 0, "u").await;
    servers.kill(0);
    let report = run(&world, SECOND).await;
    assert!(!report.complete);
    assert_eq!((report.compared, report.counts.held), (0, 1));
    assert_eq!(found(&report), []);
}
