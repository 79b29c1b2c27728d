//! The providers, each with what a shopper's client does there.

pub(crate) mod sandbox;
pub(crate) mod stripe;

use async_trait::async_trait;
use domain::IntentId;
use payment::{Intent, Provider};

/// An event as the provider sends it to us.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// The signature's header.
    pub(crate) signature: String,
    /// The bytes.
    pub(crate) body: Vec<u8>,
}

/// A provider and its shoppers.
#[async_trait]
pub(crate) trait Side: Sync {
    /// The provider.
    fn provider(&self) -> &dyn Provider;

    /// The shopper's client confirms an intent, with a card that is good or
    /// one whose bank says no. Whether the provider let it.
    async fn confirm(&self, intent: &Intent, good: bool) -> bool;

    /// The newest event that the provider has sent about an intent. Waits for
    /// it, where it takes its time.
    async fn told(&self, intent: &IntentId) -> Sent;
}
