//! The controller: opens a sale by the server's clock, counts the draw, sets
//! the threshold and raises it while units are left, says "all claimed" and
//! "sold out", and closes what is over.
//!
//! It decides nothing itself: [`domain::admission::step`] does, from what the
//! gates show. The sale's version lets one of any number of controllers write.

mod look;
mod tell;

use std::time::{Duration, Instant};

use domain::{Sale, SaleId, admission};
use futures::future::join_all;
use gate::Gate;
use jiff::{SignedDuration, Timestamp};
use ledger::sales::Round;
use ledger::{Error, Ledger};
use runtime::{Clock, Environment, EventFunction, Invocation, Seldom, is_near, looks};

/// Looks at live sales this often. Returned units are offered within the two
/// seconds of the promise: at most this, the sweeper's interval, and the time
/// that both take.
const INTERVAL: Duration = Duration::from_millis(500);

/// Looks this often around the opening.
const INTERVAL_OPENING: Duration = Duration::from_millis(250);

/// A claim that was let in when the sale ended has its hold after at most this:
/// an old copy of the sale (a second), then the claim function's time-out.
const UNDER_WAY_MAX: SignedDuration = SignedDuration::from_secs(10);

/// Longest look at one sale; shorter than what a run has left at its end.
const LOOK_MAX: Duration = Duration::from_secs(3);

/// The controller function.
#[derive(Debug)]
pub struct ControllerFunction {
    clock: Clock,
    gate: Gate,
    ledger: Ledger,
    /// Looks at a sale that were told of.
    told: Seldom<SaleId>,
}

impl EventFunction for ControllerFunction {
    type Event = serde_json::Value;
    type Answer = ();

    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self {
            clock: environment.clock,
            gate: Gate::connect(environment)?,
            ledger: Ledger::connect(environment)?,
            told: Seldom::every(tell::INTERVAL),
        })
    }

    async fn handle(&self, _event: Self::Event, invocation: Invocation) -> anyhow::Result<()> {
        looks(self.clock, invocation.end(), || self.tick()).await
    }
}

impl ControllerFunction {
    /// Looks at every sale that is near or live once. The next look begins so
    /// long after this one began; `None` if there is nothing to watch.
    ///
    /// # Errors
    /// The list of sales can't be read.
    pub async fn tick(&self) -> Result<Option<Duration>, Error> {
        let sales = self.ledger.sales(true).await?;
        // All at once, and each for a bounded time: a sale whose gates do not
        // answer keeps neither the others nor this run's end waiting.
        let looks = sales.iter().map(|id| async move {
            match tokio::time::timeout(LOOK_MAX, self.step(id)).await {
                Ok(Ok(pause)) => pause,
                Ok(Err(error)) => {
                    tracing::warn!(sale = %id, %error, "a look at a sale failed");
                    tell::failed(id);
                    Some(INTERVAL)
                }
                Err(_) => {
                    tracing::warn!(sale = %id, "a look at a sale took too long");
                    tell::failed(id);
                    Some(INTERVAL)
                }
            }
        });
        Ok(join_all(looks).await.into_iter().flatten().min())
    }

    async fn step(&self, id: &SaleId) -> Result<Option<Duration>, Error> {
        let now = self.clock.now();
        let Some(sale) = self.ledger.sale(id).await? else {
            return Ok(None);
        };
        let opens_at = sale.config.opens_at.at;
        if !sale.loaded && sale.has_ended(now) {
            return self.end_unloaded(&sale, now).await;
        }
        if !is_near(&sale, now) || !sale.loaded {
            return Ok(None);
        }
        let Some(gates) = self.ledger.gates(id).await? else {
            return Ok(None);
        };
        let seen = self.look(&sale, &gates).await;
        let next = admission::step(&sale, seen, now);
        if next != sale {
            self.publish(&sale, &next).await?;
        }
        tell::gates(&sale, &next);
        if seen.complete {
            tell::look(&self.told, &next, seen, Instant::now());
        } else {
            tell::failed(id);
        }
        let settled = is_quiet(&sale, now) && seen.complete && seen.due == 0;
        if settled && self.ledger.close_sale(&sale).await? {
            tracing::info!(sale = %id, "the sale is over and settled");
            return Ok(None);
        }
        let opening = (opens_at - now).abs() < SignedDuration::from_secs(10);
        Ok(Some(if opening { INTERVAL_OPENING } else { INTERVAL }))
    }

    /// Ends and closes a sale whose gates were never loaded, or taken apart by a
    /// change that stopped: nothing of it is seen there.
    async fn end_unloaded(&self, sale: &Sale, now: Timestamp) -> Result<Option<Duration>, Error> {
        let mut next = sale.clone();
        next.end(now);
        if next != *sale {
            self.publish(sale, &next).await?;
        }
        let closed = is_quiet(sale, now) && self.ledger.close_sale(sale).await?;
        Ok((!closed).then_some(INTERVAL))
    }

    /// Writes what the step came to; another controller may have been first.
    async fn publish(&self, sale: &Sale, next: &Sale) -> Result<(), Error> {
        let admission = next.admission;
        let round = (admission.round > sale.admission.round).then_some(Round {
            round: admission.round,
            // Not when the look began: units that came back meanwhile were seen,
            // and are offered now.
            at: self.clock.now(),
            threshold: admission.threshold,
            admitted: admission.admitted,
            offered: admission.offered,
        });
        match self.ledger.save_sale(next, round.as_ref()).await {
            Ok(_) => {
                tracing::info!(
                    sale = %sale.id, state = ?next.state, round = admission.round,
                    threshold = admission.threshold, free = next.free, "published"
                );
                Ok(())
            }
            Err(Error::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a claim that was let in just before the end has shown itself by now.
fn is_quiet(sale: &Sale, now: Timestamp) -> bool {
    sale.ended_at.is_some_and(|at| now - at > UNDER_WAY_MAX)
}
