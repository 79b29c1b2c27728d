//! The units of a live sale change under its claims, one change at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use domain::{BucketId, Order};
use futures::future::join_all;
use jiff::SignedDuration;
use ledger::orders::Outcome;
use ledger::resize::Resize;
use ledger::{Error, Ledger};
use testing::{Fate, World, judged};

const BUCKET: BucketId = BucketId(0);

async fn begin(world: &World) -> Resize {
    let begun = world.ledger.begin_resize(&world.sale, world.now()).await;
    begun.unwrap().unwrap()
}

async fn capacity(world: &World) -> u32 {
    let row = world.ledger.bucket(&world.sale, BUCKET).await;
    let row = row.unwrap().unwrap();
    assert_eq!(row.allotted + row.spare, row.capacity);
    row.capacity
}

async fn orders(world: &World, count: u32) -> Vec<Order> {
    let mut orders = Vec::new();
    for n in 0..count {
        let pay_by = world.now() + SignedDuration::from_mins(10);
        let hold = world.claim(0, &format!("u_{n}"), pay_by).await;
        orders.push(world.unwritten(&hold).await);
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capacity_never_falls_below_what_is_allotted() {
    let world = World::open(&[30]).await;
    let orders = orders(&world, 20).await;
    let create = async |pair| {
        let created = Ledger::create_orders(&world.ledger, &world.sale, BUCKET, 1, 1, pair);
        created.await.unwrap()
    };
    let resize = begin(&world).await;
    let shrink = async {
        let (mut from, mut refused) = (30, 0);
        for _ in 0..10 {
            let lowered = world
                .ledger
                .resize_bucket(&resize, (BUCKET, 1), from, from - 3);
            match lowered.await {
                Ok(()) => from -= 3,
                Err(Error::Conflict) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        refused
    };
    let (refused, outcomes) = tokio::join!(shrink, join_all(orders.chunks(2).map(create)));
    let created = outcomes.concat();
    let created = created
        .iter()
        .filter(|one| **one == Outcome::Created)
        .count();
    assert_eq!(world.allotted(0).await as usize, created);
    let left = capacity(&world).await;
    assert!(
        created > 0 && left < 30,
        "they met: {created} of {left}, {refused} refused"
    );
}

#[tokio::test]
async fn a_change_that_is_sent_twice_is_made_once() {
    let world = World::open(&[30]).await;
    let resize = begin(&world).await;
    for _ in 0..2 {
        let moved = world
            .ledger
            .resize_bucket(&resize, (BUCKET, 1), 30, 20)
            .await;
        moved.unwrap();
        assert_eq!(capacity(&world).await, 20);
    }
}

#[tokio::test]
async fn an_older_change_moves_nothing_once_another_has_begun() {
    let world = World::open(&[30]).await;
    let older = begin(&world).await;
    let newer = begin(&world).await;
    let moved = world
        .ledger
        .resize_bucket(&older, (BUCKET, 1), 30, 20)
        .await;
    assert!(matches!(moved, Err(Error::Conflict)), "{moved:?}");
    let ended = world.ledger.end_resize(older, 20).await;
    assert!(matches!(ended, Err(Error::Conflict)), "{ended:?}");
    assert_eq!(capacity(&world).await, 30);

    let moved = world
        .ledger
        .resize_bucket(&newer, (BUCKET, 1), 30, 25)
        .await;
    moved.unwrap();
    let sale = world.ledger.end_resize(newer, 25).await.unwrap();
    assert_eq!((sale.config.units, sale.resizing), (25, None));
}

/// Both rows refuse it when it is sent again. Taken for one that was not made, its units
/// would go back to the gate that they came from, and be sold by both.
#[tokio::test]
async fn a_move_whose_answer_was_lost_is_known_as_made() {
    let world = World::open(&[6, 1]).await;
    let tokens = Arc::new(Mutex::new(BTreeSet::new()));
    let environment = judged(&world.environment, {
        let tokens = Arc::clone(&tokens);
        move |asked| {
            if asked.action != "TransactWriteItems" {
                return Fate::Passed;
            }
            // The first one with its repetitions, which the service knows by their token.
            let token = asked.body["ClientRequestToken"].to_string();
            let mut tokens = tokens.lock().unwrap();
            tokens.insert(token);
            match tokens.len() {
                1 => Fate::Unanswered,
                _ => Fate::Passed,
            }
        }
    });
    let ledger = Ledger::connect(&environment).unwrap();
    let lives = [(BUCKET, 1), (BucketId(1), 1)];
    let moved = ledger.move_capacity(&world.sale, lives, 3).await;
    assert!(moved.unwrap());
    assert!(tokens.lock().unwrap().len() > 1, "it was sent once");
    let other = world.ledger.bucket(&world.sale, BucketId(1)).await;
    assert_eq!(capacity(&world).await, 3);
    assert_eq!(other.unwrap().unwrap().capacity, 4);
    // The control: one that is refused was not made.
    begin(&world).await;
    let moved = ledger.move_capacity(&world.sale, lives, 1).await;
    assert!(!moved.unwrap());
    assert_eq!(capacity(&world).await, 3);
}
