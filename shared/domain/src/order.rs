//! Claims and orders: their states and the only transitions that exist.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{ClaimId, IntentId, ShopperId};
use crate::money::Money;

/// Where an order is. Its claim is in the same row: before the row exists the
/// claim is held by the gate alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OrderStatus {
    /// Held for the shopper until `pay_by`.
    PendingPayment,
    /// An intent is open at the provider; held until `pay_until`.
    Paying,
    /// Money was captured. Final.
    Paid,
    /// The deadline passed unpaid. Final.
    Expired,
    /// The shopper gave the hold back. Final.
    Cancelled,
    /// A yes that could not be kept, taken back before payment. Final.
    Voided,
}

impl OrderStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::PendingPayment,
        Self::Paying,
        Self::Paid,
        Self::Expired,
        Self::Cancelled,
        Self::Voided,
    ];

    /// Whether the order may go from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        use OrderStatus::{Cancelled, Expired, Paid, Paying, PendingPayment};
        matches!(
            (self, next),
            (PendingPayment, Paying | Expired | Cancelled)
                | (Paying, Paid | PendingPayment | Expired)
        )
    }

    /// Whether it counts against the bucket's capacity.
    pub fn holds_units(self) -> bool {
        matches!(self, Self::PendingPayment | Self::Paying | Self::Paid)
    }

    /// The name that the ledger stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::PendingPayment => "PENDING_PAYMENT",
            Self::Paying => "PAYING",
            Self::Paid => "PAID",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
            Self::Voided => "VOIDED",
        }
    }
}

/// Why a yes was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidReason {
    /// The bucket's capacity was reached: the unit never existed.
    Cap,
    /// The customer already has as many units as allowed.
    Limit,
    /// The gate forgot its yes in a failover, and has given the unit to
    /// another since.
    Forgotten,
    /// Another order of the same key stands, in another bucket.
    Repeated,
    /// No order existed at the deadline: the message was never sent or is late.
    NoOrder,
}

impl VoidReason {
    /// Whether the gate gets the units back: it took them, and they exist.
    pub fn returns_units(self) -> bool {
        !matches!(self, Self::Cap | Self::Forgotten)
    }

    /// The name that the ledger stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cap => "cap",
            Self::Forgotten => "forgotten",
            Self::Limit => "limit",
            Self::Repeated => "repeated",
            Self::NoOrder => "no_order",
        }
    }

    /// What the shopper is told.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cap | Self::Forgotten => "We could not confirm your unit; nothing was charged.",
            Self::Limit => "You already hold as many units as one customer may.",
            Self::Repeated => "This was one request, and it already has an order.",
            Self::NoOrder => "The hold could not be confirmed in time; nothing was charged.",
        }
    }
}

/// One row of the ledger: a claim and the order it became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Which claim; the order's id is derived from it.
    pub claim: ClaimId,
    /// Whose.
    pub shopper: ShopperId,
    /// Units.
    pub quantity: u32,
    /// For all units.
    #[serde(flatten)]
    pub money: Money,
    /// Where it is.
    pub status: OrderStatus,
    /// Paying must begin before this; in milliseconds since 1970.
    #[serde(with = "millis")]
    pub pay_by: Timestamp,
    /// While paying: when the intent ends.
    #[serde(
        with = "millis_option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub pay_until: Option<Timestamp>,
    /// The newest intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<IntentId>,
    /// How many intents were begun; part of the provider's idempotency key.
    #[serde(default)]
    pub attempt: u32,
    /// When the gate said yes.
    #[serde(with = "millis")]
    pub claimed_at: Timestamp,
    /// When the status last changed.
    #[serde(with = "millis")]
    pub changed_at: Timestamp,
    /// Why it was voided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void_reason: Option<VoidReason>,
}

impl Order {
    /// When the hold ends by itself, if it does.
    pub fn deadline(&self) -> Option<Timestamp> {
        match self.status {
            OrderStatus::PendingPayment => Some(self.pay_by),
            // The later of the two: the operator may have given more time than
            // the intent has.
            OrderStatus::Paying => self.pay_until.max(Some(self.pay_by)),
            _ => None,
        }
    }
}

/// What the shopper is told of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClaimStatus {
    /// Held; the order is being written.
    Claimed,
    /// Queued, but no replica acknowledged: the ledger decides.
    Confirming,
    /// The order exists and waits for payment.
    Ordered,
    /// Paid.
    Paid,
    /// Not paid in time.
    Expired,
    /// Given back.
    Cancelled,
    /// Taken back before payment.
    Voided,
}

impl From<OrderStatus> for ClaimStatus {
    fn from(status: OrderStatus) -> Self {
        match status {
            OrderStatus::PendingPayment | OrderStatus::Paying => Self::Ordered,
            OrderStatus::Paid => Self::Paid,
            OrderStatus::Expired => Self::Expired,
            OrderStatus::Cancelled => Self::Cancelled,
            OrderStatus::Voided => Self::Voided,
        }
    }
}

/// Where a refund is. It is a row of its own, since an order that is paid can
/// have a second capture that must go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundStatus {
    /// Owed; the provider has not confirmed it.
    RefundPending,
    /// The provider confirmed it.
    Refunded,
}

impl RefundStatus {
    /// The name that the ledger stores.
    pub fn name(self) -> &'static str {
        match self {
            Self::RefundPending => "REFUND_PENDING",
            Self::Refunded => "REFUNDED",
        }
    }
}

/// Instants as integer milliseconds since 1970, exact as a double.
pub mod millis {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes milliseconds.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(time.as_millisecond())
    }

    /// Reads milliseconds.
    ///
    /// # Errors
    /// Not an integer, or outside the years that jiff knows.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        Timestamp::from_millisecond(i64::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The same for a time that may be missing.
pub mod millis_option {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes milliseconds, or nothing.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_i64(time.as_millisecond()),
            None => to.serialize_none(),
        }
    }

    /// Reads milliseconds, or nothing.
    ///
    /// # Errors
    /// Not an integer, or outside the years that jiff knows.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Option::<i64>::deserialize(from)?
            .map(Timestamp::from_millisecond)
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_transitions_exist() {
        let mut allowed = Vec::new();
        for from in OrderStatus::ALL {
            for to in OrderStatus::ALL {
                if from.may_become(to) {
                    allowed.push(format!("{} > {}", from.name(), to.name()));
                }
            }
        }
        assert_eq!(
            allowed,
            [
                "PENDING_PAYMENT > PAYING",
                "PENDING_PAYMENT > EXPIRED",
                "PENDING_PAYMENT > CANCELLED",
                "PAYING > PENDING_PAYMENT",
                "PAYING > PAID",
                "PAYING > EXPIRED",
            ]
        );
    }

    #[test]
    fn what_is_final_stays() {
        for status in [
            OrderStatus::Paid,
            OrderStatus::Expired,
            OrderStatus::Cancelled,
            OrderStatus::Voided,
        ] {
            assert!(
                OrderStatus::ALL
                    .into_iter()
                    .all(|next| !status.may_become(next))
            );
        }
    }
}
