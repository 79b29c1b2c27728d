//! The payment function.

use domain::{Order, OrderStatus, ShopperId};
use payment::sandbox::{SandboxProvider, SignedEvent, Verdict};
use payment::signature::WebhookSecrets;
use payment::{Cashier, Provider};
use payment_function::PaymentFunction;
use runtime::Environment;
use serde_json::json;
use testing::session;

use crate::world::{Answer, Work, World};

/// A tap on "pay".
pub(crate) struct Pay(ShopperId, Order);

async fn pay(world: &World<'_>, environment: &Environment, pay: &Pay) -> Answer {
    let parameters = json!({"order": pay.1.claim.order()});
    let mut change = session(pay.0.as_str(), &[]);
    change["body"] = "{}".into();
    let route = "POST /v1/orders/{order}/payments";
    let call = world.call::<PaymentFunction>(environment, route, parameters, change);
    let (status, body) = call.await;
    world.demand(matches!(status, 200 | 201), (status, &body));
    (status, body)
}

impl Work for Pay {
    const NAME: &'static str = "pay";
    const UNITS: [u32; 2] = [1, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let shopper = world.shopper(0, 0);
        let order = world.ordered(&shopper).await;
        Self(shopper, order)
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        pay(world, &environment, self).await;
    }

    async fn check(&self, world: &World<'_>) {
        let (_, body) = pay(world, &world.environment(), self).await;
        let order = world.order(&self.1.claim).await.unwrap();
        let intent = order.intent.as_ref().map(|intent| intent.as_str());
        world.demand(
            order.attempt == 1 && intent == body["intent_id"].as_str(),
            &order,
        );
        let bucket = order.claim.bucket();
        let partition = ledger::key::sandbox_partition(&world.sale.id, bucket);
        let intents = world.bench.ledger.table().query(&partition, "").await;
        world.demand(intents.unwrap().len() == 1, "one intent");
    }
}

/// Begins to pay, and asks the bank.
async fn confirmed(world: &World<'_>, order: &Order) -> (Order, SignedEvent) {
    let environment = world.environment();
    let ledger = &world.bench.ledger;
    let cashier = Cashier::connect(&environment, ledger).unwrap();
    let begun = cashier.begin(order.clone()).await.unwrap();
    let sandbox = SandboxProvider::connect(&environment, ledger).unwrap();
    let intent = &begun.intent;
    let verdict = Verdict::Succeed(None);
    let event = sandbox.confirm(&intent.id, &intent.client_secret, verdict, world.now());
    (begun.order, event.await.unwrap())
}

async fn deliver(world: &World<'_>, environment: &Environment, event: &SignedEvent) {
    let change = json!({
        "headers": {"sandbox-signature": event.signature},
        "body": event.payload,
    });
    let route = "POST /v1/webhooks/{provider}";
    let parameters = json!({"provider": "sandbox"});
    let call = world.call::<PaymentFunction>(environment, route, parameters, change);
    let (status, body) = call.await;
    world.demand(status == 200, (status, body));
}

/// The provider tells of a capture, until it is heard.
pub(crate) struct Webhook(Order, SignedEvent);

impl Work for Webhook {
    const NAME: &'static str = "webhook";
    const UNITS: [u32; 2] = [1, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let order = world.ordered(&world.shopper(0, 0)).await;
        let (order, event) = confirmed(world, &order).await;
        Self(order, event)
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        deliver(world, &environment, &self.1).await;
    }

    async fn check(&self, world: &World<'_>) {
        let order = world.order(&self.0.claim).await.unwrap();
        world.demand(order.status == OrderStatus::Paid, &order);
        let due = world.seen().await.buckets[0].due.len();
        world.demand(due == 0, "the deadline is dropped");
    }
}

/// It tells of one for a hold that has ended: the money goes back.
pub(crate) struct LateWebhook(Order, SignedEvent);

impl Work for LateWebhook {
    const NAME: &'static str = "webhook (too late)";
    const UNITS: [u32; 2] = [1, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let order = world.ordered(&world.shopper(0, 0)).await;
        let environment = world.environment();
        let ledger = &world.bench.ledger;
        let cashier = Cashier::connect(&environment, ledger).unwrap();
        let begun = cashier.begin(order).await.unwrap();
        world.wait(60);
        let expired = OrderStatus::Expired;
        let order = world.sweep_until(&begun.order.claim, expired).await;
        // The provider captured it after all.
        let payload = json!({
            "id": format!("evt_{}", order.claim.order()), "type": "payment_intent.succeeded",
            "intent": begun.intent.id,
            "amount": begun.intent.money.amount,
            "currency": begun.intent.money.currency,
            "metadata": {"order_id": order.claim.order()},
        })
        .to_string();
        let secrets = WebhookSecrets::from_settings(&environment.settings).unwrap();
        let signature = secrets.sign(payload.as_bytes(), world.now());
        world.told_after_all(&begun.intent.id, &order.claim);
        Self(order, SignedEvent { payload, signature })
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        deliver(world, &environment, &self.1).await;
    }

    async fn check(&self, world: &World<'_>) {
        let order = world.order(&self.0.claim).await.unwrap();
        world.demand(order.status == OrderStatus::Expired, &order);
        let sandbox = SandboxProvider::connect(&world.environment(), &world.bench.ledger);
        let bucket = order.claim.bucket();
        let books = sandbox
            .unwrap()
            .list(&world.sale.id, bucket, world.sale.config.opens_at.at)
            .await
            .unwrap();
        world.demand(books.len() <= 1, &books);
        let owed = world.seen().await.refunds;
        world.demand(owed.len() == 1, owed);
    }
}
