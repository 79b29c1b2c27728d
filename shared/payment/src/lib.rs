//! Payment: the provider behind a small trait, and the rules of money.
//!
//! | module | subject |
//! |---|---|
//! | [`provider`] | what a provider must be able to do; made for Stripe |
//! | [`signature`] | signed webhooks: who sent these bytes, and when |
//! | [`event`] | what a verified webhook says |
//! | [`sandbox`] | a provider for local runs and rehearsals |
//! | [`stripe`] | the real one |
//! | [`cashier`] | the rules: begin, apply an event, close an intent, refund |
//!
//! The promise: every captured payment belongs to a `PAID` order, or goes
//! back exactly once.

pub mod cashier;
pub mod event;
mod measured;
pub mod provider;
pub mod sandbox;
pub mod signature;
pub mod stripe;

pub use cashier::{Applied, Begun, Cashier, IntentEnd, Refunds, Refusal};
pub use event::{Event, EventKind};
pub use provider::{
    CancelOutcome, CreateIntent, Error, Intent, IntentStatus, NoIntent, Provider, ProviderPayment,
    RefundOutcome, RefundRequest, WebhookError,
};
pub use sandbox::SandboxProvider;
pub use stripe::StripeProvider;

use std::sync::Arc;

use ledger::Ledger;
use measured::Measured;
use runtime::Environment;

/// The provider that `PAYMENT_PROVIDER` names.
///
/// # Errors
/// There is no such provider, or it lacks a setting.
pub fn provider(environment: &Environment, ledger: &Ledger) -> anyhow::Result<Arc<dyn Provider>> {
    let provider: Arc<dyn Provider> = match environment.settings.require("PAYMENT_PROVIDER")? {
        sandbox::NAME => Arc::new(SandboxProvider::connect(environment, ledger)?),
        stripe::NAME => Arc::new(StripeProvider::connect(environment)?),
        other => {
            anyhow::bail!("PAYMENT_PROVIDER is {other:?}; there are \"sandbox\" and \"stripe\"")
        }
    };
    Ok(Arc::new(Measured(provider)))
}
