//! What is sent. Additions must be optional: a message may be older than the
//! worker that reads it.

use domain::{ClaimId, Money, Order, OrderStatus, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A message of a bucket's group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Message {
    /// A gate said yes.
    ClaimCreated(ClaimCreated),
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
}

impl Message {
    /// The group: one for each bucket.
    pub fn group(&self) -> String {
        let Self::ClaimCreated(claim) = self;
        crate::group(claim.claim.sale(), claim.claim.bucket())
    }

    /// What SQS recognises a repeat by, for five minutes.
    pub fn deduplication_id(&self) -> String {
        let Self::ClaimCreated(claim) = self;
        claim.claim.to_string()
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
