//! A provider for local runs and rehearsals. Its books are rows of the ledger
//! table that nothing else reads, so they outlive every function.
//!
//! A real provider's server calls our webhook. The sandbox has no server, and
//! a function inside a private network can't call its own API. So it hands
//! the signed event to whoever confirmed the intent, and they deliver it: the
//! webhook sees the same bytes, header and signature as from a real provider,
//! and a test can hold an event back, reorder it, or deliver it five times.
//!
//! An intent that was declined can be confirmed again until it is cancelled, as
//! Stripe's can: whoever releases a hold must close its intent first.
//!
//! Whoever knows the webhook secret speaks for the provider, here as anywhere.
//! A refund of a capture of which only such an event told is therefore booked
//! as captured and given back, so that the books balance.

use std::str::FromStr;

use async_trait::async_trait;
use domain::order::{millis, millis_option};
use domain::{BucketId, IntentId, Money, OrderId, SaleId, id};
use jiff::Timestamp;
use ledger::{Ledger, Transaction, key};
use runtime::{Clock, Environment};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::signature::WebhookSecrets;
use crate::{
    CancelOutcome, CreateIntent, Error, Event, Intent, IntentStatus, NoIntent, Provider,
    ProviderPayment, RefundOutcome, RefundRequest, WebhookError,
};

/// Its name in paths, rows and `PAYMENT_PROVIDER`.
pub const NAME: &str = "sandbox";

/// How often a change is tried that another one came between.
const ATTEMPTS: u32 = 10;

/// The provider.
#[derive(Debug, Clone)]
pub struct SandboxProvider {
    ledger: Ledger,
    secrets: WebhookSecrets,
    clock: Clock,
}

/// What the shopper's bank says when an intent is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Captures what the intent asks for, or, to rehearse a provider that
    /// goes wrong, something else.
    Succeed(Option<Money>),
    /// Captures nothing.
    Decline,
}

/// An event as the provider would send it to our webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignedEvent {
    /// The body, to the byte.
    pub payload: String,
    /// The value of the signature's header.
    pub signature: String,
}

/// Why an intent can't be confirmed.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// There is no such intent with this secret.
    #[error("there is no such intent")]
    NotFound,
    /// It succeeded, was cancelled, or its time is over.
    #[error("the intent is not open")]
    NotOpen,
    /// The books can't be read.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Open,
    Succeeded,
    Declined,
    Cancelled,
}

/// An intent in the books. `refunded` is that of `refund_key`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    intent: IntentId,
    order_id: OrderId,
    #[serde(flatten)]
    money: Money,
    status: Status,
    #[serde(with = "millis")]
    open_until: Timestamp,
    captured: Option<Money>,
    #[serde(with = "millis_option")]
    captured_at: Option<Timestamp>,
    refunded: Option<Money>,
    refund_key: Option<String>,
    version: u64,
}

impl SandboxProvider {
    /// A provider that keeps its books in this ledger's table.
    ///
    /// # Errors
    /// `WEBHOOK_SECRETS` is missing, or holds an empty secret.
    pub fn connect(environment: &Environment, ledger: &Ledger) -> anyhow::Result<Self> {
        Ok(Self {
            ledger: ledger.clone(),
            secrets: WebhookSecrets::from_settings(&environment.settings)?,
            clock: environment.clock,
        })
    }

    /// Confirms an intent, as the shopper's client does at a provider, and
    /// hands over the event. Confirming again in the same way gives the same
    /// event, signed anew.
    ///
    /// # Errors
    /// No such intent, or it is not open.
    pub async fn confirm(
        &self,
        intent: &IntentId,
        client_secret: &str,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<SignedEvent, ConfirmError> {
        let expected = self.client_secret(intent);
        if !bool::from(expected.as_bytes().ct_eq(client_secret.as_bytes())) {
            return Err(ConfirmError::NotFound);
        }
        let order = order_in(intent).ok_or(ConfirmError::NotFound)?;
        let confirmed = self
            .change(intent, &order, |row| {
                let mut row = row.cloned()?;
                if row.can_be_confirmed() && now < row.open_until {
                    match verdict {
                        Verdict::Succeed(instead) => {
                            row.status = Status::Succeeded;
                            row.captured = Some(instead.unwrap_or(row.money));
                            row.captured_at = Some(now);
                        }
                        Verdict::Decline => row.status = Status::Declined,
                    }
                }
                Some(row)
            })
            .await?;
        let row = confirmed.ok_or(ConfirmError::NotFound)?;
        let kind = match (verdict, row.status) {
            (Verdict::Succeed(_), Status::Succeeded) => "payment_intent.succeeded",
            (Verdict::Decline, Status::Declined) => "payment_intent.payment_failed",
            _ => return Err(ConfirmError::NotOpen),
        };
        let money = row.captured.unwrap_or(row.money);
        let payload = json!({
            "id": format!("evt_{}", digest(&[kind, intent.as_str()])),
            "type": kind,
            "intent": intent,
            "amount": money.amount,
            "currency": money.currency,
            "metadata": {"order_id": order, "sale_id": order.sale()},
        })
        .to_string();
        let signature = self.secrets.sign(payload.as_bytes(), now);
        Ok(SignedEvent { payload, signature })
    }

    fn client_secret(&self, intent: &IntentId) -> String {
        self.secrets.mac("client_secret", intent.as_str())
    }

    /// Changes a row, or makes one, unless nothing changes. `None` if
    /// `decide` gives none.
    async fn change(
        &self,
        intent: &IntentId,
        order: &OrderId,
        decide: impl Fn(Option<&Row>) -> Option<Row> + Send,
    ) -> Result<Option<Row>, Error> {
        let key = key::sandbox_intent(&order.claim(), intent);
        for _ in 0..ATTEMPTS {
            let read: Option<Row> = self.ledger.table().get(&key).await.map_err(unavailable)?;
            let Some(mut next) = decide(read.as_ref()) else {
                return Ok(None);
            };
            let version = read.as_ref().map(|row| row.version);
            if read.is_some_and(|row| row.same_as(&next)) {
                return Ok(Some(next));
            }
            let mut writes = Transaction::new();
            next.version = version.map_or(0, |version| version + 1);
            let part = writes.put(&key, &next).map_err(unavailable)?;
            match version {
                Some(version) => part.only_if("version = :read").number(":read", version),
                None => part.only_new(),
            };
            let written = self.ledger.table().write(&writes).await;
            if written.map_err(unavailable)?.is_ok() {
                return Ok(Some(next));
            }
        }
        Err(Error("too many changes of one intent at a time".to_owned()))
    }

    fn shown(&self, row: Row) -> Intent {
        Intent {
            client_secret: self.client_secret(&row.intent),
            money: row.money,
            status: match (row.status, row.captured) {
                (Status::Succeeded, captured) => {
                    IntentStatus::Succeeded(captured.unwrap_or(row.money))
                }
                (Status::Open, _) => IntentStatus::Open,
                (Status::Declined, _) => IntentStatus::Declined,
                (Status::Cancelled, _) => IntentStatus::Cancelled,
            },
            id: row.intent,
        }
    }
}

#[async_trait]
impl Provider for SandboxProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature_header(&self) -> &'static str {
        "sandbox-signature"
    }

    fn takes(&self, _: Money) -> Result<(), String> {
        Ok(())
    }

    fn verify_webhook(
        &self,
        signature: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Event, WebhookError> {
        self.secrets.verify(signature, body, now)?;
        Event::parse(body)
    }

    async fn create_intent(&self, request: &CreateIntent) -> Result<Intent, NoIntent> {
        let intent = intent_id(&request.order, &request.idempotency_key)?;
        let new = Row {
            intent: intent.clone(),
            order_id: request.order.clone(),
            money: request.money,
            status: Status::Open,
            open_until: request.expires_at,
            captured: None,
            captured_at: None,
            refunded: None,
            refund_key: None,
            version: 0,
        };
        let made = self.change(&intent, &request.order, |row| {
            Some(row.unwrap_or(&new).clone())
        });
        let none = || Error("the intent was not created".to_owned());
        Ok(self.shown(made.await?.ok_or_else(none)?))
    }

    async fn intent(&self, intent: &IntentId, order: &OrderId) -> Result<Option<Intent>, Error> {
        let key = key::sandbox_intent(&order.claim(), intent);
        let row: Option<Row> = self.ledger.table().get(&key).await.map_err(unavailable)?;
        // Its key names the bucket, and not which of its orders.
        let of_order = row.filter(|row| row.order_id == *order);
        Ok(of_order.map(|row| self.shown(row)))
    }

    async fn order_of(&self, intent: &IntentId) -> Result<Option<OrderId>, Error> {
        Ok(order_in(intent))
    }

    async fn cancel(&self, intent: &IntentId, order: &OrderId) -> Result<CancelOutcome, Error> {
        let ended = self.change(intent, order, |row| {
            let mut row = row.cloned()?;
            if row.can_be_confirmed() {
                row.status = Status::Cancelled;
            }
            Some(row)
        });
        // What is not in the books can't be confirmed.
        Ok(match ended.await?.and_then(|row| row.captured) {
            Some(captured) => CancelOutcome::AlreadySucceeded(captured),
            None => CancelOutcome::Cancelled,
        })
    }

    async fn refund(&self, request: &RefundRequest) -> Result<RefundOutcome, Error> {
        let now = self.clock.now();
        let booked = self.change(&request.intent, &request.order, |row| {
            let mut row = row.cloned().unwrap_or_else(|| Row {
                intent: request.intent.clone(),
                order_id: request.order.clone(),
                money: request.money,
                status: Status::Succeeded,
                open_until: now,
                captured: None,
                captured_at: None,
                refunded: None,
                refund_key: None,
                version: 0,
            });
            if row.captured.is_none() {
                row.status = Status::Succeeded;
                row.captured = Some(request.money);
                row.captured_at = Some(now);
            }
            if row.refunded.is_none() {
                row.refunded = Some(request.money);
                row.refund_key = Some(request.idempotency_key.clone());
            }
            Some(row)
        });
        match booked.await? {
            Some(row) if row.refund_key.as_ref() == Some(&request.idempotency_key) => {
                Ok(RefundOutcome::Refunded)
            }
            _ => Err(Error("the capture went back under another key".to_owned())),
        }
    }

    async fn list(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        _: Timestamp,
    ) -> Result<Vec<ProviderPayment>, Error> {
        let partition = key::sandbox_partition(sale, bucket);
        let rows = self.ledger.table().query(&partition, "").await;
        let mut payments = Vec::new();
        for item in rows.map_err(unavailable)? {
            let row: Row = serde_dynamo::from_item(item).map_err(unavailable)?;
            if let (Some(captured), Some(captured_at)) = (row.captured, row.captured_at) {
                payments.push(ProviderPayment {
                    intent: row.intent,
                    order: row.order_id,
                    captured,
                    captured_at,
                    refunded: row.refunded,
                });
            }
        }
        Ok(payments)
    }

    fn as_sandbox(&self) -> Option<&SandboxProvider> {
        Some(self)
    }
}

impl Row {
    fn can_be_confirmed(&self) -> bool {
        matches!(self.status, Status::Open | Status::Declined)
    }

    fn same_as(&self, other: &Self) -> bool {
        self.status == other.status && self.refund_key == other.refund_key
    }
}

/// `sbx_{sale}_{bucket}_{digest}_{key}`: the id says whose it is, so that an
/// intent can be found by its id alone, and the same key gives the same id.
fn intent_id(order: &OrderId, idempotency_key: &str) -> Result<IntentId, Error> {
    let order = order.to_string();
    let place = order.strip_prefix("ord_").unwrap_or(&order);
    let key = digest(&[idempotency_key]);
    IntentId::from_str(&format!("sbx_{place}_{key}")).map_err(|error| Error(error.to_string()))
}

fn order_in(intent: &IntentId) -> Option<OrderId> {
    let (place, _) = intent.as_str().strip_prefix("sbx_")?.rsplit_once('_')?;
    format!("ord_{place}").parse().ok()
}

fn digest(parts: &[&str]) -> String {
    id::hex(&Sha256::digest(parts.join(" "))[..8])
}

fn unavailable(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}
