//! What a payment provider must be able to do.
//!
//! The shape is Stripe's: an intent is created once for an idempotency key,
//! the shopper's client confirms it with its secret, signed webhooks tell what
//! became of it, and cancelling it decides whether it was captured.

use async_trait::async_trait;
use domain::{BucketId, IntentId, Money, OrderId, SaleId};
use jiff::Timestamp;

use crate::{Event, SandboxProvider};

/// The provider does not answer, or not usefully. Nothing is known; trying
/// again with the same idempotency key is safe.
#[derive(Debug, thiserror::Error)]
#[error("the payment provider does not answer: {0}")]
pub struct Error(pub String);

/// Why there is no intent.
#[derive(Debug, thiserror::Error)]
pub enum NoIntent {
    /// The provider understood, and makes none.
    #[error("the payment provider makes no intent: {0}")]
    Refused(String),
    /// The provider failed, and has kept that as its answer to this key. An
    /// intent may be left, but its secret went to nobody, and never will: so
    /// nobody can confirm it.
    #[error("the payment provider failed, and says so again for the same key")]
    Spent,
    /// Nothing is known: there may be one, whose secret the same key gives.
    #[error(transparent)]
    Unknown(#[from] Error),
}

/// Asks for an intent.
#[derive(Debug, Clone)]
pub struct CreateIntent {
    /// For this order; goes into the intent's metadata.
    pub order: OrderId,
    /// Of this sale; goes into the intent's metadata.
    pub sale: SaleId,
    /// The whole order.
    pub money: Money,
    /// The same key is the same intent, whatever happened to the answer.
    pub idempotency_key: String,
    /// Not to be confirmed from then on.
    pub expires_at: Timestamp,
}

/// An intent as the provider has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The provider's id.
    pub id: IntentId,
    /// With this the shopper's client confirms it.
    pub client_secret: String,
    /// What is asked for.
    pub money: Money,
    /// Where it is.
    pub status: IntentStatus,
}

/// Where an intent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentStatus {
    /// It can be confirmed.
    Open,
    /// This was captured.
    Succeeded(Money),
    /// The shopper's bank said no. It can be confirmed again, until it is
    /// cancelled.
    Declined,
    /// It can't be confirmed any more, and nothing was captured.
    Cancelled,
}

/// What cancelling an intent came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// Nothing was captured, and nothing will be.
    Cancelled,
    /// Too late: this was captured.
    AlreadySucceeded(Money),
}

/// Asks for a capture to go back.
#[derive(Debug, Clone)]
pub struct RefundRequest {
    /// What was captured by this intent.
    pub intent: IntentId,
    /// For this order.
    pub order: OrderId,
    /// All of the capture.
    pub money: Money,
    /// The same key is the same refund, whatever happened to the answer.
    pub idempotency_key: String,
}

/// What a refund came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundOutcome {
    /// The provider confirms it.
    Refunded,
    /// The provider has taken it on; a webhook or the next request tells.
    Pending,
}

/// A capture in the provider's own books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPayment {
    /// By this intent.
    pub intent: IntentId,
    /// For this order.
    pub order: OrderId,
    /// What was captured.
    pub captured: Money,
    /// When.
    pub captured_at: Timestamp,
    /// What went back.
    pub refunded: Option<Money>,
}

/// Why a webhook is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Not signed with a current secret, or not lately.
    #[error("the signature is not valid")]
    InvalidSignature,
    /// Signed, but not an event.
    #[error("the event can't be read: {0}")]
    Malformed(String),
}

/// A payment provider.
#[async_trait]
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Its name in paths and rows.
    fn name(&self) -> &'static str;

    /// The header that carries the signature of its webhooks.
    fn signature_header(&self) -> &'static str;

    /// Whether it can take exactly this; a sale at another price is not made.
    ///
    /// # Errors
    /// It can't: what is wrong with the amount, in words that follow its name.
    fn takes(&self, money: Money) -> Result<(), String>;

    /// Reads a webhook: the signature first, over exactly these bytes.
    ///
    /// # Errors
    /// It is not signed, or can't be read.
    fn verify_webhook(
        &self,
        signature: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Event, WebhookError>;

    /// Creates an intent, or finds the one of this key.
    ///
    /// # Errors
    /// There is none, or nothing is known.
    async fn create_intent(&self, request: &CreateIntent) -> Result<Intent, NoIntent>;

    /// The intent of this order, if there is one of this id.
    ///
    /// # Errors
    /// No answer.
    async fn intent(&self, intent: &IntentId, order: &OrderId) -> Result<Option<Intent>, Error>;

    /// The order that the provider has noted for an intent; `None` if it does
    /// not know the intent.
    ///
    /// # Errors
    /// No answer.
    async fn order_of(&self, intent: &IntentId) -> Result<Option<OrderId>, Error>;

    /// Sees to it that an intent captures nothing from now on.
    ///
    /// # Errors
    /// No answer: it may still capture.
    async fn cancel(&self, intent: &IntentId, order: &OrderId) -> Result<CancelOutcome, Error>;

    /// Gives a capture back.
    ///
    /// # Errors
    /// No answer: it may have gone back.
    async fn refund(&self, request: &RefundRequest) -> Result<RefundOutcome, Error>;

    /// Every capture for orders of one bucket, from the provider's books: all
    /// that was captured before this is called. Intents are made from `since`
    /// on, the sale's opening.
    ///
    /// # Errors
    /// No answer.
    async fn list(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        since: Timestamp,
    ) -> Result<Vec<ProviderPayment>, Error>;

    /// The sandbox, if that is what this is: only its intents can be confirmed
    /// through us.
    fn as_sandbox(&self) -> Option<&SandboxProvider> {
        None
    }
}
