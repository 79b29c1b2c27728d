//! Gate against ledger: the ledger is right, and what is on its way is no
//! difference.

use domain::{BucketId, OrderStatus};
use ledger::{Transaction, key};
use testing::{World, gates};

use crate::{MINUTE, SECOND, keep_up, sweep};

#[tokio::test]
async fn a_gate_that_has_too_much_is_lowered_at_once() {
    let world = World::open(&[10]).await;
    let hold = world.claim(0, "u", world.now() + MINUTE * 10).await;
    world.order(&hold).await;
    world.gate.put(world.address(0), 3).await.unwrap();
    keep_up(&world, SECOND).await;
    assert_eq!(world.left(0).await, 9);
}

#[tokio::test]
async fn a_gate_that_has_too_little_is_raised_the_second_time() {
    let world = World::open(&[10]).await;
    world.gate.take(world.address(0), 2).await.unwrap();
    keep_up(&world, SECOND).await;
    assert_eq!(world.left(0).await, 8);
    keep_up(&world, MINUTE).await;
    assert_eq!(world.left(0).await, 10);
    keep_up(&world, MINUTE * 2).await;
    assert_eq!(world.left(0).await, 10);
}

#[tokio::test]
async fn a_gap_that_closes_by_itself_is_left_alone() {
    let world = World::open(&[10]).await;
    let address = world.address(0);
    world.gate.take(address, 2).await.unwrap();
    keep_up(&world, SECOND).await;
    world.gate.put(address, 2).await.unwrap();
    keep_up(&world, MINUTE).await;
    assert_eq!(world.left(0).await, 10);
}

/// The gate gives up first; the ledger follows as soon as it can, and that may be later
/// than a gap must last.
#[tokio::test]
async fn what_a_change_of_units_took_is_not_given_back() {
    let world = World::open(&[10]).await;
    let begun = world.ledger.begin_resize(&world.sale, world.now()).await;
    let resize = begun.unwrap().unwrap();
    world.gate.take(world.address(0), 2).await.unwrap();
    for later in [SECOND, SECOND * 6] {
        keep_up(&world, later).await;
        assert_eq!(world.left(0).await, 8);
    }
    // The control: the change is over, and left the ledger as it was.
    world.ledger.end_resize(resize, 10).await.unwrap();
    for later in [SECOND * 7, SECOND * 12] {
        keep_up(&world, later).await;
    }
    assert_eq!(world.left(0).await, 10);
}

#[tokio::test]
async fn claims_on_their_way_are_no_gap() {
    let world = World::open(&[10]).await;
    for n in 0..5 {
        let pay_by = world.now() + MINUTE * 10;
        let hold = world.claim(0, &format!("u_{n}"), pay_by).await;
        if n < 2 {
            world.order(&hold).await;
        }
    }
    for later in [SECOND, MINUTE, MINUTE * 2] {
        keep_up(&world, later).await;
        assert_eq!(world.left(0).await, 5);
    }
}

/// A row that was read before holds ended, and their orders after it: what lapsed must
/// not seem to be too much at the gate.
#[tokio::test]
async fn a_row_that_is_older_than_its_orders_judges_no_gate() {
    let world = World::open(&[10]).await;
    let pay_by = world.now() + MINUTE * 10;
    world.order(&world.claim(0, "u", pay_by).await).await;
    let mut writes = Transaction::new();
    let row = key::bucket(&world.sale, BucketId(0));
    let older = writes.update(&row, "ADD allotted :one, spare :less");
    older.number(":one", 1).number(":less", -1);
    let written = world.ledger.table().write(&writes).await;
    written.unwrap().unwrap();
    keep_up(&world, SECOND).await;
    assert_eq!(world.left(0).await, 9);
}

#[tokio::test]
async fn a_frozen_bucket_is_not_touched() {
    let servers = gates::start();
    let world = World::new(&servers, &[10], serde_json::json!({})).await;
    world.gate.put(world.address(0), 3).await.unwrap();
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec(&mut servers.connect(0).unwrap())
        .unwrap();
    keep_up(&world, SECOND).await;
    keep_up(&world, MINUTE).await;
    assert_eq!(world.left(0).await, 13);
}

#[tokio::test]
async fn a_deadline_that_the_gate_has_lost_is_found_in_the_ledger() {
    let world = World::open(&[10]).await;
    let hold = world.claim(0, "u", world.now() + SECOND).await;
    world.order(&hold).await;
    let due = format!("{{{}}}:due", world.address(0).tag);
    redis::cmd("ZREM")
        .arg(due)
        .arg(hold.claim.to_string())
        .exec(&mut gates::shared().connect(0).unwrap())
        .unwrap();
    sweep(&world, MINUTE).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 0);
    keep_up(&world, MINUTE).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 1);
    assert_eq!(world.allotted(0).await, 0);
    // The gate gives nothing back for what it does not know; comparison does.
    keep_up(&world, MINUTE * 2).await;
    assert_eq!(world.left(0).await, 9);
    keep_up(&world, MINUTE * 3).await;
    assert_eq!(world.left(0).await, 10);
}

/// A gate with one unit too many, and the claim of it still on its way when
/// gate and ledger are compared: nobody could read a counter below zero.
#[tokio::test]
async fn a_counter_is_never_lowered_below_zero() {
    let world = World::open(&[1]).await;
    let pay_by = world.now() + MINUTE * 10;
    world.gate.put(world.address(0), 1).await.unwrap();
    let first = world.claim(0, "u", pay_by).await;
    world.order(&first).await;
    world.claim(0, "v", pay_by).await; // its message is on its way
    keep_up(&world, SECOND).await;
    // Unreadable if it were below zero.
    assert_eq!(world.left(0).await, 0);
}

/// The server was started anew and knows neither holds nor scripts.
#[tokio::test]
async fn holds_of_a_frozen_bucket_end_in_the_ledger() {
    let world = World::open(&[5]).await;
    let hold = world.claim(0, "u", world.now() + MINUTE).await;
    world.order(&hold).await;
    let tag = &world.address(0).tag;
    redis::cmd("DEL")
        .arg(&[format!("{{{tag}}}:stock"), format!("{{{tag}}}:due")])
        .exec(&mut testing::gates::shared().connect(0).unwrap())
        .unwrap();
    let mut gates = world.gates.clone();
    gates.addresses[0].epoch += 1;
    world
        .ledger
        .save_gates(&world.sale, &gates, 0)
        .await
        .unwrap();
    keep_up(&world, MINUTE / 2).await;
    assert_eq!(world.allotted(0).await, 1);
    keep_up(&world, MINUTE * 2).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 1);
    assert_eq!(world.allotted(0).await, 0);
}

/// No gate answers at all.
#[tokio::test]
async fn holds_end_in_the_ledger_while_the_gates_are_away() {
    let servers = gates::start();
    let world = World::new(&servers, &[60], serde_json::json!({})).await;
    // More than one release takes.
    for n in 0..50 {
        let hold = world
            .claim(0, &format!("u_{n}"), world.now() + MINUTE)
            .await;
        world.order(&hold).await;
    }
    servers.kill(0);
    keep_up(&world, MINUTE / 2).await;
    assert_eq!(world.allotted(0).await, 50);
    keep_up(&world, MINUTE * 2).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 50);
    assert_eq!(world.allotted(0).await, 0);
}

/// An operator gave more time while the gates are away, and stopped before every
/// order had it: from their own deadline on nobody could pay the others.
#[tokio::test]
async fn more_time_reaches_the_orders_of_gates_that_are_away() {
    let servers = gates::start();
    let world = World::new(&servers, &[2], serde_json::json!({})).await;
    let hold = world.claim(0, "u", world.now() + MINUTE).await;
    world.order(&hold).await;
    servers.kill(0);
    let floor = world.now() + MINUTE * 10;
    let changed = world.ledger.change_sale(&world.sale, |sale| {
        sale.pay_by_min = Some(sale.extended(floor));
        Ok::<_, std::convert::Infallible>(())
    });
    changed.await.unwrap().unwrap().unwrap();
    keep_up(&world, MINUTE * 2).await;
    let order = world.find(&hold.claim).await.unwrap();
    assert_eq!(order.status, OrderStatus::PendingPayment);
    assert_eq!(order.pay_by.as_millisecond(), floor.as_millisecond());
    keep_up(&world, MINUTE * 12).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 1);
}

/// A gate that is open in a life that was closed while it was away.
#[tokio::test]
async fn a_gate_that_nobody_believes_is_not_compared_but_recovered() {
    for (mode, left, frozen) in [(0, 7, 0.0), (20, 10, 1.0)] {
        let config = serde_json::json!({"ledger_only_rate_per_s": mode});
        let world = World::new(gates::shared(), &[7], config).await;
        world.gate.put(world.address(0), 3).await.unwrap();
        let closed = world.ledger.close_life(&world.sale, domain::BucketId(0), 1);
        assert!(closed.await.unwrap());
        let sweeper = crate::sweeper(&world, SECOND).await;
        let (swept, metrics) = testing::metrics_of(sweeper.keep_up()).await;
        assert!(swept.unwrap());
        assert_eq!(world.left(0).await, left);
        let told = metrics.of(runtime::Metric::FrozenBuckets, &world.sale);
        assert_eq!(told, [frozen]);
    }
}
