//! A bucket, and orders that are about to be written.

use domain::{BucketId, ClaimId, Order};
use jiff::{SignedDuration, Timestamp};
use ledger::orders::Outcome;
use ledger::{Ledger, key};
use runtime::Environment;
use testing::Bucket;

pub(crate) struct Shelf {
    pub(crate) environment: Environment,
    pub(crate) ledger: Ledger,
    pub(crate) bucket: Bucket,
}

impl Shelf {
    pub(crate) async fn new(capacity: u32) -> Self {
        let (environment, ledger) = testing::ledger().await;
        Self {
            bucket: Bucket::create(&ledger, capacity).await,
            environment,
            ledger,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// The order of a shopper's first claim.
    pub(crate) fn first(&self, shopper: &str) -> Order {
        let window = SignedDuration::from_mins(10);
        self.bucket.unwritten(shopper, self.now(), window)
    }

    /// The order of another claim of the same shopper.
    pub(crate) fn another(&self, shopper: &str, key: &str) -> Order {
        let order = self.first(shopper);
        let key = key.parse().unwrap();
        Order {
            claim: ClaimId::derive(&self.bucket.sale, self.bucket.id, &order.shopper, &key),
            ..order
        }
    }

    pub(crate) async fn create(&self, limit: u32, orders: &[Order]) -> Vec<Outcome> {
        let Bucket { sale, id, .. } = &self.bucket;
        let created = self.ledger.create_orders(sale, *id, 1, limit, orders).await;
        created.unwrap()
    }

    pub(crate) async fn row(&self) -> ledger::orders::Bucket {
        let Bucket { sale, id, .. } = &self.bucket;
        let row = self.ledger.bucket(sale, *id).await.unwrap().unwrap();
        assert_eq!(row.allotted + row.spare, row.capacity);
        row
    }

    /// Every order of the bucket.
    pub(crate) async fn orders(&self) -> Vec<Order> {
        let Bucket { sale, id, .. } = &self.bucket;
        self.ledger.whole_bucket(sale, *id).await.unwrap().orders
    }

    /// Units that a customer holds.
    pub(crate) async fn units_of(&self, shopper: &str) -> i64 {
        let key = key::limit(&self.bucket.sale, &shopper.parse().unwrap());
        let row: Option<std::collections::HashMap<String, serde_json::Value>> =
            self.ledger.table().get(&key).await.unwrap();
        row.map_or(0, |row| row["units"].as_i64().unwrap())
    }

    pub(crate) fn id(&self) -> BucketId {
        self.bucket.id
    }
}
