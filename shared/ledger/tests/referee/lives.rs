//! The lives of a bucket.

use jiff::SignedDuration;
use testing::Bucket;

use crate::shelf::Shelf;

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
