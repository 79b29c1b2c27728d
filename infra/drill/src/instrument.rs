//! What a winner pays with: the shopper's client at the provider, as its own
//! library does it.

use tokio::time::{Instant, sleep};

use crate::client::{Answer, Lane, Request};
use crate::record::Call;
use crate::shopper::Shopper;
use crate::wire;

/// What the shopper's bank says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Card {
    /// Yes.
    Good,
    /// No.
    Bad,
}

impl Card {
    /// The sandbox's word for it.
    fn outcome(self) -> &'static str {
        match self {
            Self::Good => "succeed",
            Self::Bad => "decline",
        }
    }

    /// Stripe's own card for it, in test mode.
    fn payment_method(self) -> &'static str {
        match self {
            Self::Good => "pm_card_visa",
            Self::Bad => "pm_card_chargeCustomerFail",
        }
    }
}

/// A confirmation that the provider took, whatever the bank said.
#[derive(Debug)]
pub(crate) enum Confirmed {
    /// Its event is left to whoever confirmed.
    Event(wire::Event),
    /// It delivers its event itself.
    Told,
}

impl Shopper {
    /// Gives the instrument to the provider; again, if it does not answer.
    /// `None` if it refuses.
    pub(crate) async fn confirm(&mut self, intent: &wire::Intent, card: Card) -> Option<Confirmed> {
        let deadline = self.deadline();
        while Instant::now() < deadline {
            let stripe = &self.world.config.target.stripe;
            let answer = match (&stripe.url, &stripe.publishable_key) {
                (Some(url), Some(key)) => self.at_stripe(url, key, intent, card).await,
                _ => self.at_sandbox(intent, card).await,
            };
            match (&stripe.url, answer.status) {
                // 402: the bank said no, and the intent stays open.
                (Some(_), 200 | 402) => return Some(Confirmed::Told),
                (None, 200) => {
                    let confirmation = answer.read::<wire::Confirmation>()?;
                    return Some(Confirmed::Event(confirmation.event));
                }
                _ => {}
            }
            let wait = answer.wait(&mut self.rng)?;
            sleep(wait).await;
        }
        None
    }

    async fn at_stripe(&self, url: &str, key: &str, intent: &wire::Intent, card: Card) -> Answer {
        let url = url.trim_end_matches('/');
        let url = format!("{url}/v1/payment_intents/{}/confirm", intent.intent_id);
        let request = Request::new(Call::Confirm, url).form(&[
            ("key", key),
            ("client_secret", &intent.client_secret),
            ("payment_method", card.payment_method()),
        ]);
        self.world.client.send(Lane::Winner, request).await
    }

    async fn at_sandbox(&self, intent: &wire::Intent, card: Card) -> Answer {
        let body = serde_json::json!({
            "client_secret": intent.client_secret,
            "outcome": card.outcome(),
        });
        let path = format!("/v1/sandbox/intents/{}/confirm", intent.intent_id);
        let request = Request::new(Call::Confirm, path).body(body.to_string());
        self.world.client.send(Lane::Winner, request).await
    }
}
