//! A bucket with orders, written as the order worker writes them.

use domain::{BucketId, ClaimId, Money, Order, OrderStatus, SaleId, ShopperId};
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use ledger::orders::Outcome;

/// Bucket 3 of the sale `sale`.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Which sale.
    pub sale: SaleId,
    /// Which bucket of it.
    pub id: BucketId,
    ledger: Ledger,
}

impl Bucket {
    /// Writes the bucket's row with so many units.
    ///
    /// # Panics
    /// If it can't be written.
    pub async fn create(ledger: &Ledger, capacity: u32) -> Self {
        let bucket = Self {
            sale: "sale".parse().unwrap(),
            id: BucketId(3),
            ledger: ledger.clone(),
        };
        let row = ledger::orders::Bucket::new(capacity, 1);
        ledger
            .put_bucket(&bucket.sale, bucket.id, &row)
            .await
            .expect("a bucket");
        bucket
    }

    /// An order for one unit at INR 9999.00 that this shopper may begin to
    /// pay for another `pay_window`; a negative one has passed.
    ///
    /// # Panics
    /// If it can't be written, or no unit is left.
    pub async fn order(&self, shopper: &str, now: Timestamp, pay_window: SignedDuration) -> Order {
        let order = self.unwritten(shopper, now, pay_window);
        let outcomes = self
            .ledger
            .create_orders(&self.sale, self.id, 1, 10, std::slice::from_ref(&order))
            .await
            .expect("an answer");
        assert_eq!(outcomes, [Outcome::Created]);
        order
    }

    /// The same order while its message is still in the queue.
    ///
    /// # Panics
    /// If `shopper` is not an id.
    pub fn unwritten(&self, shopper: &str, now: Timestamp, pay_window: SignedDuration) -> Order {
        let shopper: ShopperId = shopper.parse().unwrap();
        let key = "test-key".parse().unwrap();
        Order {
            claim: ClaimId::derive(&self.sale, self.id, &shopper, &key),
            shopper,
            quantity: 1,
            money: Money {
                amount: 999_900,
                currency: "INR".parse().unwrap(),
            },
            status: OrderStatus::PendingPayment,
            pay_by: now + pay_window,
            pay_until: None,
            intent: None,
            attempt: 0,
            claimed_at: now,
            changed_at: now,
            void_reason: None,
        }
    }
}
