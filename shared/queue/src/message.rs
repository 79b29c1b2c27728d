//! What is sent. Additions must be optional: a message may be older than the
//! worker that reads it.

use domain::{BucketId, ClaimId, Money, Order, OrderStatus, SaleId, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A message of a bucket's group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Message {
    /// A gate said yes.
    ClaimCreated(ClaimCreated),
    /// A gate is frozen.
    Recover(Recover),
    /// A bucket has units that another lacks.
    Rebalance(Rebalance),
}

/// A yes that shall become an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimCreated {
    /// Which claim; names sale and bucket.
    pub claim: ClaimId,
    /// Whose.
    pub shopper: ShopperId,
    /// Units.
    pub quantity: u32,
    /// For all units.
    #[serde(flatten)]
    pub money: Money,
    /// How many units the customer may have.
    pub limit: u32,
    /// When the gate said yes, in ms since 1970.
    #[serde(with = "domain::order::millis")]
    pub claimed_at: Timestamp,
    /// When it must be paid, in ms since 1970.
    #[serde(with = "domain::order::millis")]
    pub pay_by: Timestamp,
    /// The life of the gate that said yes; 0 if the sender did not know.
    #[serde(default)]
    pub epoch: u64,
}

/// A bucket to be made true from the ledger. A barrier: it stands in the
/// bucket's own group, so what was sent before it is in the ledger by the time
/// that it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recover {
    /// Of which sale.
    pub sale: SaleId,
    /// Which bucket.
    pub bucket: BucketId,
    /// The life that was found frozen.
    pub epoch: u64,
    /// When, in ms since 1970.
    #[serde(with = "domain::order::millis")]
    pub seen_at: Timestamp,
}

/// Free units to be moved to another bucket, by the one writer of the bucket
/// that has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebalance {
    /// Of which sale.
    pub sale: SaleId,
    /// The bucket that has them.
    pub from: BucketId,
    /// The bucket that gets them.
    pub to: BucketId,
    /// At most so many.
    pub units: u32,
    /// When that was seen, in ms since 1970.
    #[serde(with = "domain::order::millis")]
    pub seen_at: Timestamp,
}

/// Of everyone who finds the same within so many milliseconds, one is heard.
const AGAIN_MS: i64 = 10_000;

impl Message {
    /// Which bucket it is about.
    pub fn bucket(&self) -> (SaleId, BucketId) {
        match self {
            Self::ClaimCreated(created) => (created.claim.sale().clone(), created.claim.bucket()),
            Self::Recover(recover) => (recover.sale.clone(), recover.bucket),
            Self::Rebalance(asked) => (asked.sale.clone(), asked.from),
        }
    }

    /// The group: one for each bucket.
    pub fn group(&self) -> String {
        let (sale, bucket) = self.bucket();
        crate::group(&sale, bucket)
    }

    /// What SQS recognises a repeat by, for five minutes.
    pub fn deduplication_id(&self) -> String {
        match self {
            Self::ClaimCreated(created) => created.claim.to_string(),
            Self::Recover(Recover {
                sale,
                bucket,
                epoch,
                seen_at,
            }) => {
                let slice = seen_at.as_millisecond() / AGAIN_MS;
                format!("recover_{sale}_{bucket}_{epoch}_{slice}")
            }
            Self::Rebalance(Rebalance {
                sale,
                from,
                seen_at,
                ..
            }) => {
                let slice = seen_at.as_millisecond() / AGAIN_MS;
                format!("rebalance_{sale}_{from}_{slice}")
            }
        }
    }
}

impl ClaimCreated {
    /// The order that it shall become.
    pub fn order(&self, now: Timestamp) -> Order {
        Order {
            claim: self.claim.clone(),
            shopper: self.shopper.clone(),
            quantity: self.quantity,
            money: self.money,
            status: OrderStatus::PendingPayment,
            pay_by: self.pay_by,
            pay_until: None,
            intent: None,
            attempt: 0,
            claimed_at: self.claimed_at,
            changed_at: now,
            void_reason: None,
        }
    }
}
