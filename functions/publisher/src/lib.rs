//! The publisher: tells the edge of a sale, in CloudFront's key-value store.
//!
//! It is a function of its own since the store has no endpoint in the gates'
//! network, and one writer is enough: it reads the ledger and nothing else. What
//! it writes only lets the edge say no, or a ticket, sooner than the origin would.
//! But an edge that is behind says no to who is admitted by now: a run that could
//! not write fails.

mod store;

use std::collections::HashMap;
use std::time::Duration;

use domain::edge::{self, Document};
use domain::{Sale, SaleId};
use jiff::{SignedDuration, Timestamp};
use ledger::{Error, Ledger};
use runtime::{Clock, Environment, EventFunction, Invocation, looks};
use token::EdgeKeys;
use tokio::sync::Mutex;

use store::{Alone, Store, Written};

/// Sales are looked at this often, and each document is written as often at
/// most.
const INTERVAL: Duration = Duration::from_secs(1);

/// A sale's document is written from so long before its opening.
const AHEAD: SignedDuration = SignedDuration::from_hours(1);

/// The publisher function.
#[derive(Debug)]
pub struct PublisherFunction {
    clock: Clock,
    ledger: Ledger,
    /// None without an edge: there is nothing to do.
    store: Option<Store>,
    keys: EdgeKeys,
    origin: Option<String>,
}

/// What one run has told. The next run of an environment knows nothing of it:
/// in between, another environment's may have told something else.
#[derive(Default)]
pub struct Run {
    alone: Option<Alone>,
    told: HashMap<SaleId, Document>,
    secrets: HashMap<SaleId, String>,
    failures: u32,
}

impl EventFunction for PublisherFunction {
    type Event = serde_json::Value;
    type Answer = ();

    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        Ok(Self {
            clock: environment.clock,
            ledger: Ledger::connect(environment)?,
            store: Store::connect(environment),
            keys: EdgeKeys::load(settings)?,
            origin: settings.get("ALLOWED_ORIGIN").map(str::to_owned),
        })
    }

    async fn handle(&self, _event: Self::Event, invocation: Invocation) -> anyhow::Result<()> {
        // Looks follow each other: none waits for the lock.
        let run = Mutex::new(Run::default());
        let look = async || self.tick(&mut *run.lock().await).await;
        let looked = looks(self.clock, invocation.end(), look).await;
        let failures = run.into_inner().failures;
        // A run that failed sounds the alarm: an edge that is behind says no to
        // those who are admitted.
        anyhow::ensure!(failures == 0, "{failures} times the edge was not told");
        looked
    }
}

impl PublisherFunction {
    /// Looks at every sale once. The next look begins so long after this one began;
    /// `None` if there is no sale to tell of. A document that can't be written is
    /// tried again with the next look.
    ///
    /// # Errors
    /// Sales can't be read.
    pub async fn tick(&self, run: &mut Run) -> Result<Option<Duration>, Error> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let now = self.clock.now();
        let mut watched = false;
        for id in self.ledger.sales(true).await? {
            let sale = match self.ledger.sale(&id).await {
                Ok(Some(sale)) => sale,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(sale = %id, %error, "a sale can't be read");
                    (watched, run.failures) = (true, run.failures + 1);
                    continue;
                }
            };
            if now < sale.config.opens_at.at - AHEAD {
                continue;
            }
            watched = true;
            if let Err(error) = self.tell(store, run, &sale, now).await {
                tracing::warn!(sale = %id, error, "the edge was not told");
                run.failures += 1;
            }
        }
        Ok(watched.then_some(INTERVAL))
    }

    async fn tell(
        &self,
        store: &Store,
        run: &mut Run,
        sale: &Sale,
        now: Timestamp,
    ) -> Result<(), String> {
        let secret = self.secret(run, sale, now).await?;
        let keys = self.keys.texts();
        let origin = self.origin.as_deref();
        let document = Document::of(sale, secret.as_deref(), &keys, origin, now);
        let told = run.told.get(&sale.id);
        if told.is_some_and(|told| !document.is_news_after(told)) {
            return Ok(());
        }
        let key = edge::key(&sale.id);
        let written = store.put(&mut run.alone, &key, &document).await?;
        if written == Written::Done {
            tracing::info!(sale = %sale.id, version = document.version, "the edge was told");
        }
        run.told.insert(sale.id.clone(), document);
        Ok(())
    }

    /// The draw's secret, once the edge may know it.
    async fn secret(
        &self,
        run: &mut Run,
        sale: &Sale,
        now: Timestamp,
    ) -> Result<Option<String>, String> {
        if !edge::may_know_secret(sale, now) {
            return Ok(None);
        }
        if !run.secrets.contains_key(&sale.id) {
            let secret = self.ledger.draw_secret(&sale.id).await;
            if let Some(secret) = secret.map_err(|error| error.to_string())? {
                run.secrets.insert(sale.id.clone(), secret);
            }
        }
        Ok(run.secrets.get(&sale.id).cloned())
    }
}
