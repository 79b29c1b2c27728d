//! The rows of a sale's buckets.

use domain::BucketId;

use crate::shelf::Shelf;

#[tokio::test]
async fn rows_of_all_buckets_come_in_their_order() {
    let shelf = Shelf::new(10).await;
    let sale = "other".parse().unwrap();
    for n in 0..12u16 {
        let row = ledger::orders::Bucket::new(u32::from(n), 1);
        shelf
            .ledger
            .put_bucket(&sale, BucketId(n), &row)
            .await
            .unwrap();
    }
    let rows = shelf.ledger.buckets(&sale, 12).await.unwrap();
    let capacities: Vec<_> = rows.iter().map(|row| row.capacity).collect();
    assert_eq!(capacities, (0..12).collect::<Vec<_>>());
    assert!(shelf.ledger.buckets(&sale, 13).await.is_err());
}
