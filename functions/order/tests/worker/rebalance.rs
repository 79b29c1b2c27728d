//! Free units that move between buckets: gate and ledger alike, and a stop
//! anywhere loses none.

use domain::BucketId;
use jiff::SignedDuration;
use order_function::OrderFunction;
use queue::{Message, Rebalance};
use runtime::EventFunction;
use sweeper_function::SweeperFunction;
use testing::{Point, World, stopped_at};

use crate::worker::{MINUTE, Worker, deliver, failed};

fn moves(world: &World, units: u32) -> String {
    let asked = Message::Rebalance(Rebalance {
        sale: world.sale.clone(),
        from: BucketId(0),
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
    let worker = Worker::start(&[6, 249]).await;
    let world = &worker.world;
    worker.deliver(&[moves(world, 2)]).await;
    assert_eq!(
        (capacities(world).await, left(world).await),
        ((6, 249), (6, 249))
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
            assert!(sweeper.sweep(true).await.unwrap());
            let (here, there) = left(world).await;
            assert!(here <= one.into() && there <= other.into(), "{point:?}");
            assert!(seconds > 60 || before == (here, there), "{point:?}");
        }
        assert_eq!(left(world).await, (one.into(), other.into()), "{point:?}");
    }
    assert!(stops >= 8, "{stops}");
}
