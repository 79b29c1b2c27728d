//! Free units that move between buckets: gate and ledger alike, and a stop
//! anywhere loses none.

use std::sync::Mutex;

use domain::BucketId;
use domain::bucket::{UNITS_MOVED_MAX, UNITS_PER_BUCKET_MAX};
use jiff::SignedDuration;
use order_function::OrderFunction;
use queue::{Message, Rebalance};
use runtime::EventFunction;
use sweeper_function::SweeperFunction;
use testing::{Fate, Point, World, judged, stopped_at};

use crate::worker::{MINUTE, Worker, deliver, failed};

fn moves(world: &World, units: u32) -> String {
    moves_from(world, 0, units)
}

fn moves_from(world: &World, from: u16, units: u32) -> String {
    let asked = Message::Rebalance(Rebalance {
        sale: world.sale.clone(),
        from: BucketId(from),
        to: BucketId(1),
        units,
        seen_at: world.now(),
    });
    serde_json::to_string(&asked).unwrap()
}

async fn capacities(world: &World) -> (u32, u32) {
    let capacity = async |bucket| {
        let row = world.ledger.bucket(&world.sale, BucketId(bucket)).await;
        let row = row.unwrap().unwrap();
        assert_eq!(row.allotted + row.spare, row.capacity);
        row.capacity
    };
    (capacity(0).await, capacity(1).await)
}

async fn left(world: &World) -> (u64, u64) {
    (world.left(0).await, world.left(1).await)
}

#[tokio::test]
async fn what_is_free_moves_and_what_is_held_stays() {
    let worker = Worker::start(&[6, 1]).await;
    let world = &worker.world;
    let (_, messages) = worker.claims(0, 0..2, MINUTE).await;
    worker.deliver(&messages).await;
    assert_eq!(worker.deliver(&[moves(world, 3)]).await, failed(&[]));
    assert_eq!(capacities(world).await, (3, 4));
    assert_eq!(left(world).await, (1, 4));
    // More than there is: what there is.
    worker.deliver(&[moves(world, 3)]).await;
    assert_eq!(capacities(world).await, (2, 5));
    assert_eq!(left(world).await, (0, 5));
    worker.deliver(&[moves(world, 3)]).await;
    assert_eq!(capacities(world).await, (2, 5));
}

#[tokio::test]
async fn units_stay_while_the_merchant_changes_their_number() {
    let worker = Worker::start(&[6, 1]).await;
    let world = &worker.world;
    let begun = world.ledger.begin_resize(&world.sale, world.now()).await;
    let resize = begun.unwrap().unwrap();
    worker.deliver(&[moves(world, 3)]).await;
    assert_eq!(
        (capacities(world).await, left(world).await),
        ((6, 1), (6, 1))
    );
    world.ledger.end_resize(resize, 7).await.unwrap();
    worker.deliver(&[moves(world, 3)]).await;
    assert_eq!(
        (capacities(world).await, left(world).await),
        ((3, 4), (3, 4))
    );
}

#[tokio::test]
async fn a_full_bucket_takes_no_more() {
    let full = UNITS_PER_BUCKET_MAX;
    let worker = Worker::start(&[full, full, full]).await;
    let world = &worker.world;
    worker.deliver(&[moves(world, full - 1)]).await;
    assert_eq!(capacities(world).await, (1, UNITS_MOVED_MAX - 1));
    worker.deliver(&[moves_from(world, 2, 9)]).await;
    worker.deliver(&[moves_from(world, 2, 9)]).await;
    assert_eq!(capacities(world).await, (1, UNITS_MOVED_MAX));
    assert_eq!(world.left(2).await, u64::from(full - 1));
}

/// A bucket that was full from the beginning and has sold everything gets units
/// late in the sale: it gives out no more than its own share in any second.
#[tokio::test]
async fn a_bucket_that_sold_its_share_gets_more() {
    let worker = Worker::start(&[6, UNITS_PER_BUCKET_MAX]).await;
    let world = &worker.world;
    worker.deliver(&[moves(world, 2)]).await;
    assert_eq!(capacities(world).await, (4, UNITS_PER_BUCKET_MAX + 2));
}

/// Units that are missing at a gate come back, also while the sweeper asks in
/// vain for moves: a stopped change of units is named in the sale's row.
#[tokio::test]
async fn a_move_that_is_refused_keeps_no_gate_from_being_repaired() {
    let worker = Worker::start(&[20, 1]).await;
    let world = &worker.world;
    let begun = world.ledger.begin_resize(&world.sale, world.now()).await;
    begun.unwrap().unwrap();
    assert_eq!(world.gate.take(world.address(0), 8).await.unwrap(), 8);
    for seconds in (60..=180).step_by(10) {
        let later = world.later(SignedDuration::from_secs(seconds));
        let later = runtime::Environment {
            clock: later.clock,
            ..worker.environment.clone()
        };
        let function = OrderFunction::start(&later).await.unwrap();
        deliver(&function, world, &[moves(world, 4)]).await;
        let sweeper = SweeperFunction::start(&later).await.unwrap();
        sweeper.sweep().await.unwrap();
        assert!(sweeper.keep_up().await.unwrap());
        assert_eq!(capacities(world).await, (20, 1));
    }
    assert_eq!(left(world).await, (20, 1));
}

/// The ledger has moved them, and its answer is lost with all repetitions of it.
#[tokio::test]
async fn units_whose_move_was_not_answered_are_at_one_gate() {
    let worker = Worker::start(&[6, 1]).await;
    let world = &worker.world;
    let first = Mutex::new(None);
    let environment = judged(&worker.environment, move |asked| {
        if asked.action != "TransactWriteItems" {
            return Fate::Passed;
        }
        let token = &asked.body["ClientRequestToken"];
        let mut first = first.lock().unwrap();
        match first.get_or_insert_with(|| token.clone()) == token {
            true => Fate::Unanswered,
            false => Fate::Passed,
        }
    });
    let function = OrderFunction::start(&environment).await.unwrap();
    deliver(&function, world, &[moves(world, 3)]).await;
    assert_eq!(
        (capacities(world).await, left(world).await),
        ((3, 4), (3, 4))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_anywhere_makes_no_unit_and_the_comparison_finds_those_on_the_way() {
    let points = (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)]);
    let mut stops = 0;
    for point in points {
        let worker = Worker::start(&[6, 1]).await;
        let world = &worker.world;
        let body = [moves(world, 3)];
        let stopped = stopped_at(&worker.environment, point, async |environment| {
            let function = OrderFunction::start(&environment).await.unwrap();
            deliver(&function, world, &body).await;
        });
        let stopped = stopped.await.is_none();
        let before = left(world).await;
        let (here, there) = before;
        let (one, other) = capacities(world).await;
        assert_eq!(one + other, 7, "{point:?}");
        // Never more to claim than the ledger will sell.
        assert!(here <= one.into() && there <= other.into(), "{point:?}");
        if !stopped {
            break;
        }
        stops += 1;
        // Not while the move could still be under way.
        for seconds in [1, 4, 70, 80] {
            let later = world.later(SignedDuration::from_secs(seconds));
            let sweeper = SweeperFunction::start(&later).await.unwrap();
            sweeper.sweep().await.unwrap();
            assert!(sweeper.keep_up().await.unwrap());
            let (here, there) = left(world).await;
            assert!(here <= one.into() && there <= other.into(), "{point:?}");
            assert!(seconds > 60 || before == (here, there), "{point:?}");
        }
        assert_eq!(left(world).await, (one.into(), other.into()), "{point:?}");
    }
    assert!(stops >= 8, "{stops}");
}
