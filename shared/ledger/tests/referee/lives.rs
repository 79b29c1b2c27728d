//! A life of a bucket has one writer. Whoever was faster may have stopped at any
//! point: each step is refused by what that one step left, and by nothing that
//! would have come after it.

use domain::BucketId;
use jiff::SignedDuration;
use testing::{Bucket, World};

use crate::shelf::Shelf;

const BUCKET: BucketId = BucketId(0);

async fn begin(world: &World, seen: u64, published: u64) -> Option<u64> {
    let (ledger, sale) = (&world.ledger, &world.sale);
    let begun = ledger.begin_life(sale, BUCKET, seen, published).await;
    begun.unwrap()
}

async fn publish(world: &World, epoch: u64) -> bool {
    let (ledger, sale) = (&world.ledger, &world.sale);
    ledger.publish_life(sale, BUCKET, epoch).await.unwrap()
}

/// The life of the row, and the published one.
async fn lives(world: &World) -> (u64, u64) {
    let row = world.ledger.bucket(&world.sale, BUCKET).await;
    let gates = world.ledger.gates(&world.sale).await.unwrap().unwrap();
    let published = gates.of(BUCKET).unwrap().epoch;
    (row.unwrap().unwrap().epoch, published)
}

/// Who began it may be about to give units out in it.
#[tokio::test]
async fn a_life_that_was_begun_is_not_begun_by_another() {
    let world = World::open(&[3]).await;
    assert_eq!(begin(&world, 1, 1).await, Some(2));
    assert_eq!(begin(&world, 1, 1).await, None);
    assert_eq!(lives(&world).await, (2, 1));
    assert_eq!(begin(&world, 2, 1).await, Some(3));
}

/// Claims are taken in it: nobody begins the next one who found an earlier one frozen.
#[tokio::test]
async fn no_life_follows_one_that_was_published_since() {
    let world = World::open(&[3]).await;
    assert_eq!(begin(&world, 1, 1).await, Some(2));
    assert!(publish(&world, 2).await);
    assert_eq!(begin(&world, 2, 1).await, None);
    assert_eq!(lives(&world).await, (2, 2));
    assert_eq!(begin(&world, 2, 2).await, Some(3));
}

/// Its gate may be loaded; that of the later life will be.
#[tokio::test]
async fn a_life_is_not_published_once_a_later_one_was_begun() {
    let world = World::open(&[3]).await;
    assert_eq!(begin(&world, 1, 1).await, Some(2));
    assert_eq!(begin(&world, 2, 1).await, Some(3));
    assert!(!publish(&world, 2).await);
    // Nor one that nobody began.
    assert!(!publish(&world, 4).await);
    assert_eq!(lives(&world).await, (3, 1));
    assert!(publish(&world, 3).await);
}

#[tokio::test]
async fn what_is_published_is_not_replaced_by_an_earlier_life() {
    let world = World::open(&[3]).await;
    assert_eq!(begin(&world, 1, 1).await, Some(2));
    assert!(publish(&world, 2).await);
    // One call did.
    assert!(!publish(&world, 2).await);
    let mut later = world.gates.clone();
    later.addresses[0].epoch = 5;
    let saved = world.ledger.save_gates(&world.sale, &later, 0).await;
    saved.unwrap();
    assert!(!publish(&world, 2).await);
    assert_eq!(lives(&world).await, (2, 5));
}

#[tokio::test]
async fn a_life_is_closed_for_good_and_only_while_it_is_the_rows() {
    let shelf = Shelf::new(10).await;
    let Bucket { sale, id, .. } = &shelf.bucket;
    let close = |epoch| shelf.ledger.close_life(sale, *id, epoch);
    assert!(!close(2).await.unwrap(), "it has not begun");
    assert_eq!(shelf.row().await.closed, 0);
    for _ in 0..2 {
        assert!(close(1).await.unwrap());
        assert_eq!(shelf.row().await.closed, 1);
    }
    // Orders are written in it all the same: the ledger decides.
    let now = shelf.now();
    shelf
        .bucket
        .order("u", now, SignedDuration::from_mins(10))
        .await;
    assert_eq!(shelf.row().await.spare, 9);
}
