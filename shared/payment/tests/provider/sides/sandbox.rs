//! The sandbox, on a table of its own.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use domain::IntentId;
use payment::sandbox::{SandboxProvider, Verdict};
use payment::{Intent, Provider};
use runtime::Clock;

use super::{Sent, Side};

pub(crate) struct Sandbox {
    provider: SandboxProvider,
    clock: Clock,
    sent: Mutex<BTreeMap<String, Sent>>,
}

impl Sandbox {
    pub(crate) async fn start() -> Self {
        let (environment, ledger) = testing::ledger().await;
        Self {
            provider: SandboxProvider::connect(&environment, &ledger).unwrap(),
            clock: environment.clock,
            sent: Mutex::default(),
        }
    }
}

#[async_trait]
impl Side for Sandbox {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    async fn confirm(&self, intent: &Intent, good: bool) -> bool {
        let verdict = if good {
            Verdict::Succeed(None)
        } else {
            Verdict::Decline
        };
        let (id, secret) = (&intent.id, &intent.client_secret);
        let confirmed = self.provider.confirm(id, secret, verdict, self.clock.now());
        let Ok(event) = confirmed.await else {
            return false;
        };
        let sent = Sent {
            signature: event.signature,
            body: event.payload.into_bytes(),
        };
        let mut all = self.sent.lock().unwrap();
        all.insert(id.as_str().to_owned(), sent);
        true
    }

    async fn told(&self, intent: &IntentId) -> Sent {
        self.sent.lock().unwrap()[intent.as_str()].clone()
    }
}
