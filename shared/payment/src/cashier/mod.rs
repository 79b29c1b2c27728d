//! The rules of money, once, for the functions of payment, claim and sweeper.
//!
//! Which intent pays an order is in our own record alone; an event's metadata
//! only tells which row to read. An event is applied by its intent and by the
//! transitions that exist, so deliveries may be late, doubled or reordered.
//!
//! Work may stop between any two steps. What it leaves, and what mends it:
//!
//! | stopped after | found as | mended by |
//! |---|---|---|
//! | the attempt began | `PAYING` without intent | the next tap on Pay asks for the intent with the same key; at `pay_until` the sweeper does, and cancels it |
//! | the provider made the intent | the same | the same: the key gives the same intent |
//! | the provider made none | the same | the next tap, or the sweeper: it is asked again, makes none again, and the attempt ends |
//! | an attempt without intent was ended | `PENDING_PAYMENT` | the next tap begins another, with keys of its own |
//! | the intent was bound | `PAYING` with intent | the next tap shows the same intent |
//! | the shopper confirmed it | `PAYING`, captured at the provider | the webhook; if it is lost, cancelling at `pay_until` tells |
//! | the order was paid | `PAID`, the gate still has a deadline | the sweeper drops it |
//! | a decline was noted, the intent not cancelled | `PENDING_PAYMENT` with intent | whoever begins another attempt, ends the hold or gives it back cancels it first; if it captured after all, it pays the order |
//! | the intent was cancelled | `PAYING` past `pay_until` | the next sweep cancels again, then releases |
//! | a refund was owed | `REFUND_PENDING` | the sweeper asks again with the same key |
//! | the provider gave the money back | the same | the same: the key gives the same refund |
//! | a confirmed refund did not get through | `REFUND_PENDING` again, by the event that says so | the same: the provider asks its bank anew |
//!
//! An effect and its event are one transaction, so an event whose answer was
//! lost is recognised when it is delivered again.
//!
//! A call of the cashier has one deadline, whatever it asks of whom: whoever
//! waits hears of it from us, and not from the gateway in front. What it cuts
//! off has stopped between two steps.

mod begin;
mod close;
mod free;
mod refunds;
mod settle;

pub use begin::{Begun, Refusal};
pub use close::IntentEnd;
pub use refunds::Refunds;
pub use settle::Applied;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use ledger::Ledger;
use runtime::{Clock, Environment};
use tokio::time::timeout;

use crate::measured::Measured;
use crate::{Error, Provider};

/// How often an order is read again that others keep changing.
const TRIES: u32 = 20;

/// How long an intent can be paid, in seconds, if `PAYMENT_INTENT_S` does not
/// say otherwise. A hold that lasts longer keeps its intent open as long.
const INTENT_S: u32 = 900;

/// How long one call may take, if its function does not say otherwise.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// Applies the rules with one ledger and one provider.
#[derive(Debug, Clone)]
pub struct Cashier {
    ledger: Ledger,
    provider: Arc<dyn Provider>,
    clock: Clock,
    intent_life: SignedDuration,
    patience: Duration,
}

impl Cashier {
    /// A cashier for the provider that the settings name.
    ///
    /// # Errors
    /// A setting is missing or can't be read.
    pub fn connect(environment: &Environment, ledger: &Ledger) -> anyhow::Result<Self> {
        let intent_s = environment
            .settings
            .parse_or("PAYMENT_INTENT_S", INTENT_S)?;
        Ok(Self {
            ledger: ledger.clone(),
            provider: crate::provider(environment, ledger)?,
            clock: environment.clock,
            intent_life: SignedDuration::from_secs(intent_s.into()),
            patience: PATIENCE,
        })
    }

    /// The same cashier, for a function whose own time is another.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same cashier with another provider.
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn Provider>) -> Self {
        Self {
            provider: Arc::new(Measured(provider)),
            ..self
        }
    }

    /// The provider.
    pub fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    /// This work, if it is done in time.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let done = timeout(self.patience, work).await;
        done.map_err(|_| Error(format!("not within {:?}", self.patience)))?
    }
}
