//! Stripe: payment intents for cards, by plain calls of its API.
//!
//! | module | subject |
//! |---|---|
//! | `client` | one call: key, version, time-outs, repetitions |
//! | `objects` | Stripe's documents, as far as they are read |
//! | `amount` | amounts as Stripe counts them |
//! | `event` | its webhooks, once verified |
//! | `books` | its own books: every capture of a sale |
//!
//! What is not obvious:
//!
//! - **Intents have no end of their own.** They can be confirmed until they
//!   are cancelled, so whoever ends a hold cancels first, and asks what became
//!   of an intent that can't be cancelled.
//! - **A key gets its first answer again** for at least a day, as it was then.
//!   So an intent that is found by its key is read anew. And where that answer
//!   was a failure, the next key of the same row (`key`, `key-2`, …) is used:
//!   the secret of an intent that the failed call may have left went to nobody,
//!   so nobody can confirm it; a refund that it may have left is found first.
//!   A row has an end: the next intent is one of another attempt, whose row is
//!   its own, and a refund goes on with a key for each hour.
//! - **A refund that failed** at the bank is asked for again under a key of its
//!   own, a few times; then a person must find another way.

mod amount;
mod books;
mod client;
mod event;
mod objects;

use async_trait::async_trait;
use domain::{BucketId, IntentId, Money, OrderId, SaleId};
use jiff::Timestamp;
use runtime::{Clock, Environment};
use serde::de::DeserializeOwned;

use crate::signature::WebhookSecrets;
use crate::{
    CancelOutcome, CreateIntent, Error, Event, Intent, NoIntent, Provider, ProviderPayment,
    RefundOutcome, RefundRequest, WebhookError,
};
use books::Books;
use client::{Answer, Client, Failure};
use objects::{BUCKET, ORDER, Page, PaymentIntent, Refund, SALE};

/// Its name in paths, rows and `PAYMENT_PROVIDER`.
pub const NAME: &str = "stripe";

/// Where it is, if `STRIPE_URL` does not say otherwise.
const URL: &str = "https://api.stripe.com";

/// So many keys has a row.
const KEYS_MAX: usize = 3;

/// So many refunds of one capture may fail at the bank.
const REFUNDS_FAILED_MAX: usize = 3;

/// Refunds of one capture that are read; Stripe gives no more on a page.
const REFUNDS: &str = "100";

/// The provider.
#[derive(Debug)]
pub struct StripeProvider {
    client: Client,
    secrets: WebhookSecrets,
    books: Books,
    clock: Clock,
}

impl StripeProvider {
    /// Stripe, with the key `PROVIDER_KEY` and webhooks signed with one of
    /// `WEBHOOK_SECRETS`. `STRIPE_URL` names a stand-in.
    ///
    /// A key that is none is found by the first call: the sale goes on without
    /// payments until the right one is put in.
    ///
    /// # Errors
    /// A setting is missing or not usable, or there are no root certificates.
    pub fn connect(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        Ok(Self {
            client: Client::new(
                settings.get("STRIPE_URL").unwrap_or(URL),
                settings.secret("PROVIDER_KEY")?,
            )?,
            secrets: WebhookSecrets::from_settings(settings)?,
            books: Books::default(),
            clock: environment.clock,
        })
    }

    /// An intent as it is now, if there is one.
    async fn find(&self, intent: &IntentId) -> Result<Option<PaymentIntent>, Error> {
        let path = format!("/v1/payment_intents/{}", intent.as_str());
        match self.client.get(&path, &[]).await {
            Ok(found) => Ok(Some(found)),
            Err(Failure::Refused { status, .. }) if status.as_u16() == 404 => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Posts under the first of these keys that has no failure as its answer.
    async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        keys: impl Iterator<Item = String> + Send,
    ) -> Result<Answer<T>, Failure> {
        for key in keys {
            match self.client.post_once(path, form, &key).await {
                Err(Failure::Kept) => {}
                answered => return answered,
            }
        }
        Err(Failure::Kept)
    }
}

/// `key`, `key-2`, …
fn row(key: &str) -> impl Iterator<Item = String> {
    (1..=KEYS_MAX).map(move |nth| match nth {
        1 => key.to_owned(),
        _ => format!("{key}-{nth}"),
    })
}

#[async_trait]
impl Provider for StripeProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature_header(&self) -> &'static str {
        "stripe-signature"
    }

    fn takes(&self, money: Money) -> Result<(), String> {
        amount::to_stripe(money).map(|_| ())
    }

    fn verify_webhook(
        &self,
        signature: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Event, WebhookError> {
        self.secrets.verify(signature, body, now)?;
        event::read(body)
    }

    async fn create_intent(&self, request: &CreateIntent) -> Result<Intent, NoIntent> {
        let amount = amount::to_stripe(request.money);
        let refused = |why| NoIntent::Refused(format!("{} {why}", request.money));
        let amount = amount.map_err(refused)?.to_string();
        let currency = request.money.currency.code().to_ascii_lowercase();
        let (order, sale) = (request.order.to_string(), request.sale.to_string());
        let bucket = request.order.bucket().0.to_string();
        // The same for one key, always: Stripe refuses a key with other
        // parameters. So the end of the hold, which an operator may move, is
        // not among them.
        let form: [(&str, &str); 6] = [
            ("amount", &amount),
            ("currency", &currency),
            // Cards, and the wallets that carry them, say yes or no at once. A
            // transfer that takes days would outlive every hold.
            ("payment_method_types[0]", "card"),
            (&format!("metadata[{ORDER}]"), &order),
            (&format!("metadata[{SALE}]"), &sale),
            (&format!("metadata[{BUCKET}]"), &bucket),
        ];
        let keys = row(&request.idempotency_key);
        let answer: Answer<PaymentIntent> =
            self.post_once("/v1/payment_intents", &form, keys).await?;
        let made = if answer.replayed {
            let found = self.find(&answer.document.id).await?;
            found.ok_or_else(|| Error("Stripe no longer has the intent of a key".to_owned()))?
        } else {
            answer.document
        };
        let intent = made.shown()?;
        // Its secret is shown to nobody.
        if intent.money != request.money {
            return Err(NoIntent::Refused(format!(
                "Stripe made an intent of {} for {}",
                intent.money, request.money
            )));
        }
        Ok(intent)
    }

    async fn intent(&self, intent: &IntentId, order: &OrderId) -> Result<Option<Intent>, Error> {
        let found = self.find(intent).await?;
        let of_order = found.filter(|found| found.order().as_ref() == Some(order));
        of_order.map(PaymentIntent::shown).transpose()
    }

    async fn order_of(&self, intent: &IntentId) -> Result<Option<OrderId>, Error> {
        Ok(self.find(intent).await?.and_then(|found| found.order()))
    }

    async fn cancel(&self, intent: &IntentId, _: &OrderId) -> Result<CancelOutcome, Error> {
        // Without a key: cancelled twice is cancelled once, and a key would
        // get a failure again instead of another try.
        let path = format!("/v1/payment_intents/{}/cancel", intent.as_str());
        match self.client.post::<PaymentIntent>(&path).await {
            Ok(cancelled) => cancelled.end(),
            // Too late, or done before.
            Err(Failure::Refused { .. }) => match self.find(intent).await? {
                Some(found) => found.end(),
                // It was made here once. So this is another account's key, and
                // that account's books don't say whether it captured.
                None => Err(Error("Stripe does not know an intent of ours".to_owned())),
            },
            Err(failure) => Err(failure.into()),
        }
    }

    async fn refund(&self, request: &RefundRequest) -> Result<RefundOutcome, Error> {
        let whole = amount::to_stripe(request.money);
        let whole = whole.map_err(|why| Error(format!("{} {why}", request.money)))?;
        let intent = request.intent.as_str();
        // Before anything is asked for: what became of what was. A key alone
        // would not do, since Stripe forgets it, and its first answer stays
        // "pending" when the refund no longer is.
        let query = [("payment_intent", intent), ("limit", REFUNDS)];
        let before: Page<Refund> = self.client.get("/v1/refunds", &query).await?;
        let sum = |of: fn(&Refund) -> bool| -> u64 {
            let amounts = before.data.iter().filter(|refund| of(refund));
            amounts.map(|refund| refund.amount).sum()
        };
        let live = sum(Refund::is_live);
        if live >= whole {
            return Ok(if sum(Refund::is_done) >= whole {
                RefundOutcome::Refunded
            } else {
                RefundOutcome::Pending
            });
        }
        let failed = before.data.iter().filter(|refund| !refund.is_live());
        if failed.count() >= REFUNDS_FAILED_MAX {
            return Err(Error(format!(
                "{REFUNDS_FAILED_MAX} refunds of {intent} failed at the bank: a person must give \
                 the money back in another way"
            )));
        }
        let key = match before.data.len() {
            0 => request.idempotency_key.clone(),
            refunds => format!("{}-after-{refunds}", request.idempotency_key),
        };
        let rest = (whole - live).to_string();
        let order = request.order.to_string();
        let form: [(&str, &str); 3] = [
            ("payment_intent", intent),
            ("amount", &rest),
            (&format!("metadata[{ORDER}]"), &order),
        ];
        // A row that is used up would keep the money for a day. There is one
        // refund all the same: what an earlier key left is found above, and
        // Stripe gives no more back than was captured.
        let hour = self.clock.now().as_second().div_euclid(3_600);
        let keys = row(&key).chain([format!("{key}-hour-{hour}")]);
        let answer: Answer<Refund> = self.post_once("/v1/refunds", &form, keys).await?;
        Ok(
            if answer.document.is_done() && sum(Refund::is_done) == live {
                RefundOutcome::Refunded
            } else {
                RefundOutcome::Pending
            },
        )
    }

    async fn list(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        since: Timestamp,
    ) -> Result<Vec<ProviderPayment>, Error> {
        let now = self.clock.now();
        self.books.of(&self.client, sale, bucket, since, now).await
    }
}
