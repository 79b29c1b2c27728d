//! A bucket whose server forgot it: made true from the ledger, once, whatever
//! stops or comes late.

use std::convert::Infallible;

use domain::draw::arrival;
use domain::order::VoidReason;
use domain::slot::GateAddress;
use domain::{BucketId, ClaimId, OrderStatus};
use gate::{Ask, Decision, Hold};
use order_function::OrderFunction;
use queue::{Message, Recover};
use runtime::{Environment, EventFunction};
use serde_json::json;
use testing::{GateServers, Point, World, gates, interrupted_at, stopped_at};

use crate::dead_letters::DeadLetters;
use crate::worker::{MINUTE, Worker, deliver, failed};

/// A worker on servers that can lose everything.
async fn start(servers: &GateServers, capacities: &[u32]) -> Worker {
    let world = World::new(servers, capacities, json!({})).await;
    Worker::of(world, DeadLetters::start(true).await, &[]).await
}

/// The primary forgets data and scripts, as a server does that is started
/// anew.
fn forget(servers: &GateServers) {
    let mut server = servers.connect(0).unwrap();
    redis::cmd("FLUSHALL").exec(&mut server).unwrap();
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server).unwrap();
}

fn barrier(world: &World, epoch: u64) -> String {
    let recover = Message::Recover(Recover {
        sale: world.sale.clone(),
        bucket: BucketId(0),
        epoch,
        seen_at: world.now(),
    });
    serde_json::to_string(&recover).unwrap()
}

/// Where the ledger says that the gate is.
async fn address(world: &World) -> GateAddress {
    let gates = world.ledger.gates(&world.sale).await.unwrap().unwrap();
    gates.of(BucketId(0)).unwrap().clone()
}

/// A claim at the gate as it is published now.
async fn claim(world: &World, shopper: &str) -> Result<Decision, gate::Error> {
    let claim = world.claim_id(0, shopper);
    let ask = Ask {
        shopper: &shopper.parse().unwrap(),
        claim: &claim,
        quantity: 1,
        limit: 1,
        pay_by: world.now() + MINUTE,
        rate_per_s: None,
    };
    let address = address(world).await;
    world.gate.bucket(&address).claim(&ask).await
}

async fn claimed(world: &World, shopper: &str) -> Hold {
    match claim(world, shopper).await {
        Ok(Decision::Claimed(hold)) => hold,
        other => panic!("no yes but {other:?}"),
    }
}

async fn left(world: &World) -> u64 {
    world.left(0).await
}

/// Free, held and sold units are all that there are.
async fn adds_up(world: &World, capacity: u64) {
    let tag = &world.address(0).tag;
    let (view, holds) = world.gate.holds(tag).await.unwrap();
    let held: u32 = holds.iter().map(|hold| hold.taken_here).sum();
    let paid = world.count(0, OrderStatus::Paid).await as u64;
    assert_eq!(view.left + u64::from(held) + paid, capacity);
}

#[tokio::test]
async fn what_the_ledger_knows_is_back_and_nothing_else_is_open() {
    let servers = gates::start();
    let worker = start(&servers, &[6]).await;
    let world = &worker.world;
    let (holds, messages) = worker.claims(0, 0..4, MINUTE).await;
    assert_eq!(worker.deliver(&messages[..2]).await, failed(&[]));
    // One gave back, and had the chance.
    let given = [world.find(&holds[0].claim).await.unwrap()];
    let (bucket, cancelled) = (BucketId(0), OrderStatus::Cancelled);
    let (ledger, now) = (&world.ledger, world.now());
    let released = ledger.release(&world.sale, bucket, &given, cancelled, now);
    assert_eq!(released.await.unwrap().len(), 1);
    forget(&servers);
    let frozen = claim(world, "v").await;
    assert!(matches!(frozen, Err(gate::Error::Frozen)), "{frozen:?}");

    // Two yeses are still in the queue, before the barrier.
    let mut batch = messages[2..].to_vec();
    batch.push(barrier(world, 1));
    assert_eq!(worker.deliver(&batch).await, failed(&[]));
    assert_eq!(address(world).await.epoch, 2);
    assert_eq!(left(world).await, 3);
    let tag = &world.address(0).tag;
    assert_eq!(world.gate.look(tag).await.unwrap().due, 3);
    adds_up(world, 6).await;
    // Who held a unit holds it, who gave it back had it.
    for shopper in ["u_0", "u_1", "u_2", "u_3"] {
        let again = claim(world, shopper).await;
        assert!(
            matches!(again, Ok(Decision::Same(_))),
            "{shopper}: {again:?}"
        );
    }
    claimed(world, "v").await;
    // The same barrier again, or one of a life that is open, changes nothing.
    for epoch in [1, 2] {
        assert_eq!(worker.deliver(&[barrier(world, epoch)]).await, failed(&[]));
        assert_eq!(address(world).await.epoch, 2);
        assert_eq!(left(world).await, 2);
    }
}

/// The line is forgotten, too; the sale's row knows how long it was.
#[tokio::test]
async fn who_comes_late_after_a_recovery_is_behind_who_came_before() {
    const BEFORE: u64 = 80;
    let servers = gates::start();
    let worker = start(&servers, &[4, 4]).await;
    let world = &worker.world;
    let known = world.ledger.change_sale(&world.sale, |sale| {
        sale.admission.late = BEFORE;
        Ok::<_, Infallible>(())
    });
    known.await.unwrap().unwrap().unwrap();
    forget(&servers);
    assert_eq!(worker.deliver(&[barrier(world, 1)]).await, failed(&[]));
    let pass = "pass-of-v".parse().unwrap();
    let local = world.gate.arrive(&world.address(0).tag, &pass).await;
    let place = arrival(local.unwrap(), BucketId(0), 2);
    assert!(place > BEFORE, "{place}");
}

#[tokio::test]
async fn a_yes_of_an_earlier_life_is_adopted_while_there_are_units() {
    let servers = gates::start();
    let worker = start(&servers, &[2]).await;
    let world = &worker.world;
    // Both got a yes of the gate; the functions are slow to send.
    let (late, messages) = worker.claims(0, 0..2, MINUTE).await;
    forget(&servers);
    worker.deliver(&[barrier(world, 1)]).await;
    assert_eq!(left(world).await, 2);
    // Meanwhile another has one of the units.
    let other = claimed(world, "v").await;

    for _ in 0..2 {
        assert_eq!(worker.deliver(&messages).await, failed(&[]));
        assert_eq!(left(world).await, 0);
        let adopted = worker.order(&late[0].claim).await;
        assert_eq!(adopted.status, OrderStatus::PendingPayment);
        let forgotten = worker.order(&late[1].claim).await;
        assert_eq!(forgotten.void_reason, Some(VoidReason::Forgotten));
    }
    let message = worker.message(&other).await;
    let message = message.replace("\"epoch\":1", "\"epoch\":2");
    assert_eq!(worker.deliver(&[message]).await, failed(&[]));
    let order = worker.order(&other.claim).await;
    assert_eq!(order.status, OrderStatus::PendingPayment);
    assert_eq!(world.allotted(0).await, 2);
    adds_up(world, 2).await;
}

/// A shopper who asks again under the same key after the recovery, while the
/// first message is late: one claim, one unit.
#[tokio::test]
async fn the_same_key_before_and_after_is_one_claim() {
    let servers = gates::start();
    let worker = start(&servers, &[2]).await;
    let world = &worker.world;
    let (late, messages) = worker.claims(0, 0..1, MINUTE).await;
    forget(&servers);
    worker.deliver(&[barrier(world, 1)]).await;
    assert_eq!(claimed(world, "u_0").await.claim, late[0].claim);
    assert_eq!(worker.deliver(&messages).await, failed(&[]));
    assert_eq!(left(world).await, 1);
    assert_eq!(world.allotted(0).await, 1);
    adds_up(world, 2).await;
}

/// A late claim of an earlier life must not stand in front of the recovery
/// that it waits for: in a group nothing passes what is in front.
#[tokio::test]
async fn a_late_claim_makes_room_for_the_recovery_that_it_waits_for() {
    let servers = gates::start();
    let worker = start(&servers, &[2]).await;
    let world = &worker.world;
    let (late, messages) = worker.claims(0, 0..1, MINUTE).await;
    forget(&servers);
    worker.deliver(&[barrier(world, 1)]).await;
    forget(&servers);
    assert_eq!(worker.deliver(&messages).await, failed(&[]));
    assert_eq!(world.find(&late[0].claim).await, None);
    // What it sent: first a recovery of the life that is frozen, then itself.
    let behind = worker.letters.bodies();
    assert!(behind[0].contains("\"Recover\"") && behind[0].contains("\"epoch\":2"));
    assert_eq!(behind[1], messages[0]);
    assert_eq!(worker.deliver(&behind).await, failed(&[]));
    let order = worker.order(&late[0].claim).await;
    assert_eq!(order.status, OrderStatus::PendingPayment);
    assert_eq!(left(world).await, 1);
    adds_up(world, 2).await;
}

fn points() -> impl Iterator<Item = Point> {
    (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)])
}

async fn handle(environment: Environment, world: &World, bodies: &[String]) {
    let function = OrderFunction::start(&environment).await.unwrap();
    deliver(&function, world, bodies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_stops_anywhere_is_completed_by_the_next() {
    let mut stops = 0;
    let servers = gates::start();
    for point in points() {
        let worker = start(&servers, &[4]).await;
        let world = &worker.world;
        let (_, messages) = worker.claims(0, 0..1, MINUTE).await;
        worker.deliver(&messages).await;
        forget(&servers);
        let body = [barrier(world, 1)];
        let stopped = stopped_at(&worker.environment, point, async |environment| {
            handle(environment, world, &body).await;
        });
        let stopped = stopped.await.is_none();
        // Open only with the counter that the ledger has.
        if let Ok(Decision::Claimed(_)) = claim(world, "v").await {
            assert_eq!(left(world).await, 2, "{point:?}");
        }
        if !stopped {
            break;
        }
        stops += 1;
        let again = barrier(world, address(world).await.epoch);
        worker.deliver(&[again]).await;
        match claim(world, "v").await {
            Ok(Decision::Claimed(_) | Decision::Same(_)) => {}
            other => panic!("{point:?}: {other:?}"),
        }
        assert_eq!(left(world).await, 2, "{point:?}");
        adds_up(world, 4).await;
    }
    assert!(stops >= 8, "{stops}");
}

/// One worker sleeps in the middle of its recovery; the queue gave the message
/// to another, and a claim came in. Waking up, it does not forget the claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_slept_through_a_recovery_does_not_undo_it() {
    let mut met = 0;
    let servers = gates::start();
    for point in points() {
        let worker = start(&servers, &[4]).await;
        let world = &worker.world;
        forget(&servers);
        let body = [barrier(world, 1)];
        let meanwhile = async {
            worker.deliver(&body).await;
            claimed(world, "v").await;
        };
        let slow = async |environment| handle(environment, world, &body).await;
        let ((), slept) = interrupted_at(&worker.environment, point, meanwhile, slow).await;
        if slept.is_none() {
            break;
        }
        met += 1;
        assert_eq!(left(world).await, 3, "{point:?}");
        let same = claim(world, "v").await;
        assert!(matches!(same, Ok(Decision::Same(_))), "{point:?}: {same:?}");
        adds_up(world, 4).await;
    }
    assert!(met >= 8, "{met}");
}

/// Claims were taken while the gate was away, and it comes back as it was: open,
/// and without them. It is recovered all the same, and counts them.
#[tokio::test]
async fn a_life_that_was_closed_is_recovered_though_its_gate_is_open() {
    let servers = gates::start();
    let worker = start(&servers, &[4]).await;
    let world = &worker.world;
    let (_, yes) = worker.claims(0, 0..1, MINUTE).await;
    // The control: an open gate is left alone.
    worker.deliver(&[barrier(world, 1)]).await;
    assert_eq!(address(world).await.epoch, 1);

    let closed = world.ledger.close_life(&world.sale, BucketId(0), 1);
    assert!(closed.await.unwrap());
    let messages = [
        without_gate(world, "v").await,
        without_gate(world, "w").await,
    ];
    let mut batch = yes;
    batch.extend(messages);
    assert_eq!(worker.deliver(&batch).await, failed(&[]));
    assert_eq!(world.allotted(0).await, 3);
    // The gate knows one of the three.
    assert_eq!(left(world).await, 3);
    worker.deliver(&[barrier(world, 1)]).await;
    assert_eq!(address(world).await.epoch, 2);
    assert_eq!(left(world).await, 1);
    adds_up(world, 4).await;
    for shopper in ["u_0", "v", "w"] {
        let again = claim(world, shopper).await;
        assert!(matches!(again, Ok(Decision::Same(_))), "{again:?}");
    }
    claimed(world, "x").await;
    // The life that was begun is believed: nothing has closed it.
    worker.deliver(&[barrier(world, 2)]).await;
    assert_eq!(address(world).await.epoch, 2);
}

/// A claim that was taken without its gate comes behind the recovery: it is
/// adopted while there are units, and no yes has to make room for it.
#[tokio::test]
async fn a_claim_without_a_gate_behind_its_recovery_takes_nobodys_unit() {
    let servers = gates::start();
    let worker = start(&servers, &[2]).await;
    let world = &worker.world;
    let closed = world.ledger.close_life(&world.sale, BucketId(0), 1);
    assert!(closed.await.unwrap());
    forget(&servers);
    let messages = [
        without_gate(world, "v").await,
        without_gate(world, "w").await,
    ];
    worker.deliver(&[barrier(world, 1)]).await;
    // One unit is promised in the new life.
    let yes = claimed(world, "u").await;
    assert_eq!(worker.deliver(&messages).await, failed(&[]));
    let of = async |shopper| world.find(&world.claim_id(0, shopper)).await.unwrap();
    assert_eq!(of("v").await.status, OrderStatus::PendingPayment);
    assert_eq!(of("w").await.void_reason, Some(VoidReason::Forgotten));
    let message = Message::ClaimCreated(queue::ClaimCreated {
        epoch: 2,
        ..created(world, &yes.claim, "u").await
    });
    let message = serde_json::to_string(&message).unwrap();
    assert_eq!(worker.deliver(&[message]).await, failed(&[]));
    assert_eq!(of("u").await.status, OrderStatus::PendingPayment);
}

/// What the claim function sends for a shopper without asking the gate.
async fn without_gate(world: &World, shopper: &str) -> String {
    let created = created(world, &world.claim_id(0, shopper), shopper).await;
    serde_json::to_string(&Message::ClaimCreated(created)).unwrap()
}

async fn created(world: &World, claim: &ClaimId, shopper: &str) -> queue::ClaimCreated {
    let sale = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    queue::ClaimCreated {
        claim: claim.clone(),
        shopper: shopper.parse().unwrap(),
        quantity: 1,
        money: sale.config.price,
        limit: 1,
        claimed_at: world.now(),
        pay_by: world.now() + MINUTE,
        epoch: 1,
    }
}
