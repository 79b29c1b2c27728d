//! Sweeper and controller.

use controller_function::ControllerFunction;
use domain::{ClaimId, Order, OrderStatus, ShopperId};
use payment::Cashier;
use payment::sandbox::{SandboxProvider, Verdict};
use runtime::{Environment, EventFunction};
use serde_json::json;
use testing::session;

use crate::world::{Work, World};

/// An order that nobody pays, and a yes whose message was lost.
pub(crate) struct Expire(ClaimId, ClaimId);

impl Work for Expire {
    const NAME: &'static str = "expire";
    const UNITS: [u32; 2] = [2, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let order = world.ordered(&world.shopper(0, 0)).await;
        let stray = world.unsent(&world.shopper(0, 1)).await;
        world.wait(60);
        Self(order.claim, stray)
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        world.sweep(&environment, false).await;
    }

    async fn check(&self, world: &World<'_>) {
        let ended = [
            (&self.0, OrderStatus::Expired),
            (&self.1, OrderStatus::Voided),
        ];
        for (claim, status) in ended {
            let order = world.order(claim).await.unwrap();
            world.demand(order.status == status, &order);
        }
        let bucket = &world.seen().await.buckets[0];
        world.demand(bucket.left == 2 && bucket.due.is_empty(), bucket);
    }
}

/// A hold that is over, whose shopper paid, of which nobody told.
pub(crate) struct Close(Order);

impl Work for Close {
    const NAME: &'static str = "expire (paid, the webhook lost)";
    const UNITS: [u32; 2] = [1, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let order = world.ordered(&world.shopper(0, 0)).await;
        let environment = world.environment();
        let ledger = &world.bench.ledger;
        let cashier = Cashier::connect(&environment, ledger).unwrap();
        let begun = cashier.begin(order).await.unwrap();
        let sandbox = SandboxProvider::connect(&environment, ledger).unwrap();
        let (intent, verdict) = (&begun.intent, Verdict::Succeed(None));
        let confirm = sandbox.confirm(&intent.id, &intent.client_secret, verdict, world.now());
        confirm.await.unwrap();
        world.wait(60);
        Self(begun.order)
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        world.sweep(&environment, false).await;
    }

    async fn check(&self, world: &World<'_>) {
        let order = world.order(&self.0.claim).await.unwrap();
        world.demand(order.status == OrderStatus::Paid, &order);
        let bucket = &world.seen().await.buckets[0];
        world.demand(bucket.left == 0 && bucket.due.is_empty(), bucket);
    }
}

/// Looks of the controller that are enough on a busy machine.
const LOOKS: usize = 5;

/// A unit comes back while somebody waits.
pub(crate) struct Offer {
    waits: ShopperId,
    entry: String,
}

async fn tick(environment: &Environment) {
    let controller = ControllerFunction::start(environment).await.unwrap();
    controller.tick().await.unwrap();
}

impl Work for Offer {
    const NAME: &'static str = "offer";
    const UNITS: [u32; 2] = [1, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let environment = world.environment();
        let has = world.shopper(0, 0);
        let order = world.ordered(&has).await;
        tick(&environment).await;
        let waits = world.shopper(0, 1);
        let (status, body) = world.claim(&environment, &waits, None).await;
        world.demand(status == 409, (status, &body));
        let entry = body["entry_token"].as_str().unwrap().to_owned();
        let route = "DELETE /v1/claims/{claim}";
        let (parameters, change) = (json!({"claim": order.claim}), session(has.as_str(), &[]));
        let call =
            world.call::<claim_function::ClaimFunction>(&environment, route, parameters, change);
        let (status, body) = call.await;
        world.demand(status == 200, (status, body));
        Self { waits, entry }
    }

    async fn run(&self, _: &World<'_>, environment: Environment) {
        tick(&environment).await;
    }

    async fn check(&self, world: &World<'_>) {
        let environment = world.environment();
        let ask = async || {
            world
                .claim(&environment, &self.waits, Some(&self.entry))
                .await
        };
        let mut answer = ask().await;
        // The next look, if a gate did not answer in time.
        for _ in 0..LOOKS {
            if answer.0 == 403 {
                tick(&environment).await;
                answer = ask().await;
            }
        }
        world.demand(answer.0 == 201, answer);
    }
}
