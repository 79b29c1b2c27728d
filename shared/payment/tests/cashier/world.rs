//! A bucket of orders, a cashier with the sandbox, and a provider that fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{BucketId, IntentId, Money, Order, OrderId, SaleId};
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use ledger::payments::Refund;
use payment::sandbox::{SandboxProvider, Verdict};
use payment::{
    CancelOutcome, Cashier, CreateIntent, Error, Event, Intent, NoIntent, Provider,
    ProviderPayment, RefundOutcome, RefundRequest, WebhookError,
};
use runtime::{Clock, Environment};
use serde_json::json;
use testing::Bucket;

pub(crate) const MINUTE: SignedDuration = SignedDuration::from_mins(1);

pub(crate) struct World {
    pub(crate) environment: Environment,
    pub(crate) ledger: Ledger,
    pub(crate) bucket: Bucket,
    pub(crate) cashier: Cashier,
    pub(crate) sandbox: SandboxProvider,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (environment, ledger) = testing::ledger().await;
        let settings = ["TABLE_NAME", "AWS_ENDPOINT_URL_DYNAMODB"]
            .map(|name| (name, environment.settings.require(name).unwrap()))
            .into_iter()
            .chain([
                ("PAYMENT_PROVIDER", "sandbox"),
                ("WEBHOOK_SECRETS", "whsec_test"),
            ])
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let environment = Environment {
            settings,
            ..environment
        };
        Self {
            bucket: Bucket::create(&ledger, 10).await,
            cashier: Cashier::connect(&environment, &ledger).unwrap(),
            sandbox: SandboxProvider::connect(&environment, &ledger).unwrap(),
            environment,
            ledger,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// An order that can be paid for ten minutes.
    pub(crate) async fn order(&self, shopper: &str) -> Order {
        self.bucket.order(shopper, self.now(), MINUTE * 10).await
    }

    /// An order whose payment has begun.
    pub(crate) async fn paying(&self, shopper: &str) -> Order {
        let order = self.order(shopper).await;
        self.cashier.begin(order).await.unwrap().order
    }

    /// An order whose shopper has paid, of which we do not know yet.
    pub(crate) async fn captured(&self, shopper: &str) -> Order {
        let order = self.paying(shopper).await;
        self.confirm(&order, Verdict::Succeed(None)).await;
        order
    }

    pub(crate) async fn confirm(&self, order: &Order, verdict: Verdict) -> Event {
        let intent = self.intent(order).await;
        let event = self
            .sandbox
            .confirm(&intent.id, &intent.client_secret, verdict, self.now())
            .await
            .unwrap();
        let body = event.payload.as_bytes();
        self.sandbox
            .verify_webhook(&event.signature, body, self.now())
            .unwrap()
    }

    pub(crate) async fn intent(&self, order: &Order) -> Intent {
        let id = order.intent.as_ref().unwrap();
        let found = self.sandbox.intent(id, &order.claim.order()).await;
        found.unwrap().unwrap()
    }

    pub(crate) async fn read(&self, order: &Order) -> Order {
        self.ledger.order(&order.claim).await.unwrap().unwrap()
    }

    pub(crate) async fn refunds(&self) -> Vec<Refund> {
        let Bucket { sale, id, .. } = &self.bucket;
        self.ledger.refunds(sale, *id).await.unwrap()
    }

    /// Captures in the provider's books.
    pub(crate) async fn books(&self) -> Vec<ProviderPayment> {
        self.sandbox
            .list(&self.bucket.sale, self.bucket.id, Timestamp::UNIX_EPOCH)
            .await
            .unwrap()
    }

    /// How many intents the provider has, open or not.
    pub(crate) async fn intents(&self) -> usize {
        let partition = ledger::key::sandbox_partition(&self.bucket.sale, self.bucket.id);
        self.ledger
            .table()
            .query(&partition, "")
            .await
            .unwrap()
            .len()
    }

    /// The same cashier at another time.
    pub(crate) fn cashier_in(&self, later: SignedDuration) -> Cashier {
        let environment = Environment {
            clock: Clock::skewed(later),
            ..self.environment.clone()
        };
        Cashier::connect(&environment, &self.ledger).unwrap()
    }

    /// Ends the hold as the sweeper does, some time later.
    pub(crate) async fn expire(&self, order: &Order, later: SignedDuration) -> usize {
        let released = self
            .ledger
            .release(
                &self.bucket.sale,
                self.bucket.id,
                std::slice::from_ref(order),
                domain::OrderStatus::Expired,
                self.now() + later,
            )
            .await;
        released.unwrap().len()
    }
}

/// What a test says that a provider said.
pub(crate) fn success(id: &str, intent: &IntentId, order: &OrderId, money: &str) -> Event {
    let (amount, currency) = money.split_once(' ').unwrap();
    let amount: serde_json::Value = serde_json::from_str(amount).unwrap();
    let body = json!({
        "id": id,
        "type": "payment_intent.succeeded",
        "intent": intent,
        "amount": amount,
        "currency": currency,
        "metadata": {"order_id": order},
    });
    Event::parse(body.to_string().as_bytes()).unwrap()
}

pub(crate) fn inr(amount: u64) -> Money {
    Money {
        amount,
        currency: "INR".parse().unwrap(),
    }
}

/// The sandbox behind a bad line.
#[derive(Debug)]
pub(crate) struct BadLine {
    sandbox: SandboxProvider,
    /// Nothing gets through.
    pub(crate) down: AtomicBool,
    /// Nothing comes back.
    pub(crate) silent: AtomicBool,
    /// So many intents are not made.
    pub(crate) intents_refused: AtomicUsize,
    /// So many refunds are not carried out.
    pub(crate) refunds_refused: AtomicUsize,
    /// So many refunds are carried out, but their answers are lost.
    pub(crate) refunds_unanswered: AtomicUsize,
    /// The keys under which refunds were asked for.
    pub(crate) refund_keys: Mutex<Vec<String>>,
}

impl BadLine {
    pub(crate) fn to(world: &World) -> Arc<Self> {
        Arc::new(Self {
            sandbox: world.sandbox.clone(),
            down: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            intents_refused: AtomicUsize::new(0),
            refunds_refused: AtomicUsize::new(0),
            refunds_unanswered: AtomicUsize::new(0),
            refund_keys: Mutex::default(),
        })
    }

    async fn line(&self) -> Result<(), Error> {
        if self.silent.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_secs(10)).await;
            panic!("nobody hung up");
        }
        if self.down.load(Ordering::SeqCst) {
            return Err(Error("no route".to_owned()));
        }
        Ok(())
    }
}

fn takes_one(counter: &AtomicUsize) -> bool {
    counter
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        })
        .is_ok()
}

#[async_trait]
impl Provider for BadLine {
    fn name(&self) -> &'static str {
        self.sandbox.name()
    }
    fn signature_header(&self) -> &'static str {
        self.sandbox.signature_header()
    }
    fn takes(&self, money: Money) -> Result<(), String> {
        self.sandbox.takes(money)
    }
    fn verify_webhook(
        &self,
        signature: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Result<Event, WebhookError> {
        self.sandbox.verify_webhook(signature, body, now)
    }
    async fn create_intent(&self, request: &CreateIntent) -> Result<Intent, NoIntent> {
        self.line().await?;
        if takes_one(&self.intents_refused) {
            return Err(NoIntent::Refused("402".to_owned()));
        }
        self.sandbox.create_intent(request).await
    }
    async fn intent(&self, intent: &IntentId, order: &OrderId) -> Result<Option<Intent>, Error> {
        self.line().await?;
        self.sandbox.intent(intent, order).await
    }
    async fn order_of(&self, intent: &IntentId) -> Result<Option<OrderId>, Error> {
        self.line().await?;
        self.sandbox.order_of(intent).await
    }
    async fn cancel(&self, intent: &IntentId, order: &OrderId) -> Result<CancelOutcome, Error> {
        self.line().await?;
        self.sandbox.cancel(intent, order).await
    }
    async fn refund(&self, request: &RefundRequest) -> Result<RefundOutcome, Error> {
        self.line().await?;
        let key = request.idempotency_key.clone();
        self.refund_keys.lock().unwrap().push(key);
        if takes_one(&self.refunds_refused) {
            return Err(Error("402".to_owned()));
        }
        let outcome = self.sandbox.refund(request).await?;
        if takes_one(&self.refunds_unanswered) {
            return Err(Error("connection cut".to_owned()));
        }
        Ok(outcome)
    }
    async fn list(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        since: Timestamp,
    ) -> Result<Vec<ProviderPayment>, Error> {
        self.sandbox.list(sale, bucket, since).await
    }
}
