//! Stripe's documents, as far as they are read. Members that are not named
//! here are passed over, so that Stripe can add some.

use std::collections::HashMap;

use domain::{IntentId, Money, OrderId};
use jiff::Timestamp;
use serde::Deserialize;

use super::amount::from_stripe;
use crate::{CancelOutcome, Error, IntentStatus, ProviderPayment};

/// The order that an intent is for, in its metadata.
pub(super) const ORDER: &str = "order_id";
/// Its sale.
pub(super) const SALE: &str = "sale_id";
/// Its bucket.
pub(super) const BUCKET: &str = "bucket";

/// Something that may be missing, `null`, or of another shape.
type Metadata = HashMap<String, String>;

/// A payment intent. Amounts are in Stripe's units of `currency`.
#[derive(Debug, Deserialize)]
pub(super) struct PaymentIntent {
    pub(super) id: IntentId,
    amount: u64,
    /// What was captured.
    #[serde(default)]
    amount_received: u64,
    currency: String,
    status: Status,
    #[serde(default)]
    client_secret: Option<ClientSecret>,
    #[serde(default)]
    metadata: Metadata,
    /// Of the newest attempt, until another one is made.
    #[serde(default)]
    last_payment_error: Option<serde::de::IgnoredAny>,
    /// In seconds since 1970.
    pub(super) created: i64,
    /// Only where it was asked for: else it is an id.
    #[serde(default)]
    latest_charge: Option<LatestCharge>,
}

/// With it the shopper's client confirms an intent: never logged.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct ClientSecret(String);

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    RequiresCapture,
    Processing,
    Succeeded,
    Canceled,
    /// One that Stripe added since: neither open nor over.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum LatestCharge {
    Whole(Charge),
    #[allow(dead_code)] // only its shape tells it from the other
    Id(String),
}

/// A charge: what one attempt to pay came to.
#[derive(Debug, Deserialize)]
struct Charge {
    created: i64,
    #[serde(default)]
    amount_refunded: u64,
}

/// A refund. Its amount is in Stripe's units.
#[derive(Debug, Deserialize)]
pub(super) struct Refund {
    pub(super) amount: u64,
    /// `None` is for refunds that began without one.
    #[serde(default)]
    pub(super) status: Option<RefundStatus>,
    #[serde(default)]
    pub(super) payment_intent: Option<IntentId>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// Where a refund is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RefundStatus {
    Pending,
    RequiresAction,
    Succeeded,
    Failed,
    Canceled,
    #[serde(other)]
    Unknown,
}

/// A page of a list, newest first.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    pub(super) data: Vec<T>,
    pub(super) has_more: bool,
}

/// The body of an answer that is no success.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Failure {
    #[serde(default)]
    pub(super) error: Reason,
}

/// Why. Its message is left out: it may repeat what was sent.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Reason {
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) code: Option<String>,
}

/// An event that a webhook carries. What happened is in `data.object`.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) data: Data,
}

/// Where an event has its object.
#[derive(Debug, Deserialize)]
pub(super) struct Data {
    pub(super) object: serde_json::Value,
}

impl PaymentIntent {
    /// As the trait has it.
    ///
    /// # Errors
    /// It lacks something that we asked for.
    pub(super) fn shown(self) -> Result<crate::Intent, Error> {
        let money = from_stripe(self.amount, &self.currency);
        let money = money.ok_or_else(|| odd(&self.id, "has no amount that we ask for"))?;
        let status = self.intent_status()?;
        let Some(ClientSecret(client_secret)) = self.client_secret else {
            return Err(odd(&self.id, "came without its client secret"));
        };
        Ok(crate::Intent {
            id: self.id,
            client_secret,
            money,
            status,
        })
    }

    fn intent_status(&self) -> Result<IntentStatus, Error> {
        Ok(match self.status {
            Status::RequiresPaymentMethod if self.last_payment_error.is_some() => {
                IntentStatus::Declined
            }
            // What is being processed may still come to either: it is not
            // over, and the shopper's client knows how to go on.
            Status::RequiresPaymentMethod
            | Status::RequiresConfirmation
            | Status::RequiresAction
            | Status::RequiresCapture
            | Status::Processing => IntentStatus::Open,
            Status::Succeeded => IntentStatus::Succeeded(self.captured()?),
            Status::Canceled => IntentStatus::Cancelled,
            Status::Unknown => return Err(odd(&self.id, "has a status that is not known")),
        })
    }

    /// Whether nothing will be captured by it from now on.
    ///
    /// # Errors
    /// It is not over.
    pub(super) fn end(&self) -> Result<CancelOutcome, Error> {
        match self.status {
            Status::Canceled => Ok(CancelOutcome::Cancelled),
            Status::Succeeded => Ok(CancelOutcome::AlreadySucceeded(self.captured()?)),
            _ => Err(odd(
                &self.id,
                "can't be cancelled now, and may still capture",
            )),
        }
    }

    /// What was captured, to the unit.
    fn captured(&self) -> Result<Money, Error> {
        from_stripe(self.amount_received, &self.currency)
            .ok_or_else(|| odd(&self.id, "captured what is no amount of ours"))
    }

    /// What was captured, if that can be read as money.
    pub(super) fn captured_legibly(&self) -> Option<Money> {
        self.captured().ok()
    }

    /// The order that it was made for; none if it is no intent of ours.
    pub(super) fn order(&self) -> Option<OrderId> {
        order(&self.metadata)
    }

    /// Its capture, as the books have it; none if nothing was captured for an
    /// order of ours.
    ///
    /// # Errors
    /// It captured something that can't be read.
    pub(super) fn payment(&self) -> Result<Option<ProviderPayment>, Error> {
        let Some(order) = self.order().filter(|_| self.status == Status::Succeeded) else {
            return Ok(None);
        };
        let Some(LatestCharge::Whole(charge)) = &self.latest_charge else {
            return Err(odd(&self.id, "came without its charge"));
        };
        let illegible = || odd(&self.id, "has books that can't be read");
        let refunded = match charge.amount_refunded {
            0 => None,
            amount => Some(from_stripe(amount, &self.currency).ok_or_else(illegible)?),
        };
        Ok(Some(ProviderPayment {
            intent: self.id.clone(),
            order,
            captured: self.captured()?,
            captured_at: Timestamp::from_second(charge.created).map_err(|_| illegible())?,
            refunded,
        }))
    }
}

impl Refund {
    /// Whether it gave money back, or will.
    pub(super) fn is_live(&self) -> bool {
        !matches!(
            self.status,
            Some(RefundStatus::Failed | RefundStatus::Canceled)
        )
    }

    /// Whether it is confirmed.
    pub(super) fn is_done(&self) -> bool {
        self.status == Some(RefundStatus::Succeeded)
    }

    /// The order that it was asked for; none if we did not ask.
    pub(super) fn order(&self) -> Option<OrderId> {
        self.metadata.as_ref().and_then(order)
    }
}

fn order(metadata: &Metadata) -> Option<OrderId> {
    metadata.get(ORDER)?.parse().ok()
}

fn odd(intent: &IntentId, what: &str) -> Error {
    Error(format!("the intent {} {what}", intent.as_str()))
}
