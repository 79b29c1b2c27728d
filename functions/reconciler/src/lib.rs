//! The reconciler: proves that every claim ended in exactly one place, and that
//! gates, bucket rows and orders count the same units.
//!
//! It runs each minute while a sale is on, and once more when nobody looks
//! after it any more. It asks each bucket's partition and what the orders there
//! lead to (their customers, refunds, captures), never the whole table. A sale
//! that is on moves while it is read: what does not agree is looked at a second
//! time, and only what is found twice counts. Any number may run at once.
//!
//! A counter is corrected by the rule that the sweeper has too, and a hold that
//! outlived its order is ended at the gate. Nothing in the ledger is ever
//! changed: what is wrong there needs a person, and raises the alarm.

mod books;
mod bucket;
mod look;
mod tell;

use std::sync::Arc;
use std::time::Duration;

use domain::Sale;
use futures::{FutureExt, StreamExt, stream};
use gate::Gate;
use jiff::SignedDuration;
use ledger::sales::Unreconciled;
use ledger::{Error, Ledger};
use payment::Provider;
use reconcile::report::{Kept, Report};
use runtime::{Clock, Environment, EventFunction, Invocation, is_near};

/// What does not agree is looked at again after this: longer than a gap must
/// last before a gate is raised.
const AGAIN: Duration = Duration::from_millis(2_100);

/// A closed sale in which something needs a person is looked at for so long
/// after its end. Then what was found is left as it is.
const GIVE_UP: SignedDuration = SignedDuration::from_hours(24);

/// Sales reconciled at the same time.
const SALES: usize = 4;

/// The reconciler function.
#[derive(Debug)]
pub struct ReconcilerFunction {
    clock: Clock,
    gate: Gate,
    ledger: Ledger,
    provider: Arc<dyn Provider>,
}

impl EventFunction for ReconcilerFunction {
    type Event = serde_json::Value;
    type Answer = ();

    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            clock: environment.clock,
            gate: Gate::connect(environment)?,
            provider: payment::provider(environment, &ledger)?,
            ledger,
        })
    }

    async fn handle(&self, _event: Self::Event, invocation: Invocation) -> anyhow::Result<()> {
        let left = invocation.end() - self.clock.now();
        let left = Duration::try_from(left).unwrap_or_default();
        if tokio::time::timeout(left, self.run()).await.is_err() {
            tracing::error!("sales were not reconciled in time");
        }
        Ok(())
    }
}

impl ReconcilerFunction {
    /// Reconciles every sale that is on, and those that ended since.
    ///
    /// # Errors
    /// The list of sales can't be read.
    pub async fn run(&self) -> Result<(), Error> {
        let sales = self.ledger.unreconciled().await?;
        stream::iter(sales)
            .for_each_concurrent(SALES, |of| async move {
                match self.reconcile(&of).boxed().await {
                    Ok(Some(report)) => tell::reconciled(&of.sale, &report),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(sale = %of.sale, %error, "a sale was not reconciled");
                        tell::failed(&of.sale);
                    }
                }
            })
            .await;
        Ok(())
    }

    /// Reconciles a sale, if it has begun, and keeps what it came to.
    async fn reconcile(&self, of: &Unreconciled) -> Result<Option<Report>, Error> {
        let now = self.clock.now();
        let begun = |sale: &Sale| of.closed || is_near(sale, now);
        let Some(sale) = self.ledger.sale(&of.sale).await?.filter(begun) else {
            return Ok(None);
        };
        let Some(gates) = self.ledger.gates(&of.sale).await?.filter(|_| sale.loaded) else {
            // Nothing was ever given out.
            if of.closed {
                self.ledger.reconciled(of).await?;
            }
            return Ok(None);
        };
        let first = self.look(&sale, &gates, of.closed).await?;
        let report = if look::is_in_doubt(&first) {
            tokio::time::sleep(AGAIN).await;
            // As it is by then: it may have been recovered, or changed.
            let now = self.ledger.sale(&of.sale).await?;
            let gates = self.ledger.gates(&of.sale).await?.unwrap_or(gates);
            let sale = now.as_ref().unwrap_or(&sale);
            let second = self.look(sale, &gates, of.closed).await?;
            look::seen_twice(first, second)
        } else {
            first
        };
        Kept::save(&self.ledger, &of.sale, &report).await?;
        let over = sale.ended_at.is_some_and(|at| now - at > GIVE_UP);
        let proved = report.complete && report.mismatches.is_empty();
        if of.closed && (proved || over) {
            self.ledger.reconciled(of).await?;
        }
        Ok(Some(report))
    }
}
