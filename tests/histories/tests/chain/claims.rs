//! The claim function.

use claim_function::ClaimFunction;
use domain::{ClaimId, OrderStatus, ShopperId};
use runtime::Environment;
use serde_json::json;
use testing::session;

use crate::world::{Work, World};

/// A tap that is repeated until it is answered.
pub(crate) struct AtHome(ShopperId);

async fn claim(world: &World<'_>, environment: &Environment, shopper: &ShopperId) {
    let (status, body) = world.claim(environment, shopper, None).await;
    world.demand(matches!(status, 200 | 201), (status, body));
}

/// One claim, whose message is stored.
async fn is_told(world: &World<'_>, shopper: &ShopperId) {
    claim(world, &world.environment(), shopper).await;
    let seen = world.seen().await;
    let due: usize = seen.buckets.iter().map(|bucket| bucket.due.len()).sum();
    let queued: usize = seen.buckets.iter().map(|bucket| bucket.queued).sum();
    world.demand((due, queued) == (1, 1), &seen.buckets);
}

impl Work for AtHome {
    const NAME: &'static str = "claim";
    const UNITS: [u32; 2] = [2, 1];

    async fn prepare(world: &World<'_>) -> Self {
        Self(world.shopper(0, 0))
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        claim(world, &environment, &self.0).await;
    }

    async fn check(&self, world: &World<'_>) {
        is_told(world, &self.0).await;
    }
}

/// The same with an empty home.
pub(crate) struct Elsewhere(ShopperId);

impl Work for Elsewhere {
    const NAME: &'static str = "claim in another bucket";
    const UNITS: [u32; 2] = [0, 2];

    async fn prepare(world: &World<'_>) -> Self {
        Self(world.shopper(0, 0))
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        claim(world, &environment, &self.0).await;
    }

    async fn check(&self, world: &World<'_>) {
        is_told(world, &self.0).await;
    }
}

/// A hold that its shopper gives back.
pub(crate) struct GiveBack(ShopperId, ClaimId);

impl Work for GiveBack {
    const NAME: &'static str = "release (give back)";
    const UNITS: [u32; 2] = [1, 1];

    async fn prepare(world: &World<'_>) -> Self {
        let shopper = world.shopper(0, 0);
        let order = world.ordered(&shopper).await;
        Self(shopper, order.claim)
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        let parameters = json!({"claim": self.1});
        let change = session(self.0.as_str(), &[]);
        let route = "DELETE /v1/claims/{claim}";
        let call = world.call::<ClaimFunction>(&environment, route, parameters, change);
        let (status, body) = call.await;
        world.demand(status == 200, (status, body));
    }

    async fn check(&self, world: &World<'_>) {
        let order = world.order(&self.1).await.unwrap();
        world.demand(order.status == OrderStatus::Cancelled, &order);
    }
}
