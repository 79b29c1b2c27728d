//! The order function.

use domain::order::VoidReason;
use domain::{BucketId, ClaimId, OrderStatus};
use gate::{Ask, Decision};
use histories::bench::flush_scripts;
use queue::{ClaimCreated, Message, Queue, Rebalance, Recover};
use runtime::Environment;

use crate::world::{Work, World};

/// Two claims that become orders, and one that exceeds its customer's limit.
pub(crate) struct Batch([ClaimId; 3]);

impl Work for Batch {
    const NAME: &'static str = "order (two written, one voided)";
    const UNITS: [u32; 2] = [4, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let (one, other) = (world.shopper(0, 0), world.shopper(0, 1));
        let first = world.claimed(&one).await;
        let second = world.claimed(&other).await;
        // A gate that has forgotten the first says yes to the second key.
        let key = "my-second-try".parse().unwrap();
        let third = ClaimId::derive(&world.sale.id, BucketId(0), &one, &key);
        let gates = world.seen().await.gates;
        let bucket = world.bench.gate.bucket(gates.of(BucketId(0)).unwrap());
        let now = world.now();
        let ask = Ask {
            shopper: &one,
            claim: &third,
            quantity: 1,
            limit: 9,
            pay_by: world.sale.pay_by(now),
            rate_per_s: None,
        };
        let said = bucket.claim(&ask).await.unwrap();
        assert!(matches!(said, Decision::Claimed(_)), "{said:?}");
        let created = Message::ClaimCreated(ClaimCreated {
            claim: third.clone(),
            shopper: one.clone(),
            quantity: 1,
            money: world.sale.config.price,
            limit: 1,
            claimed_at: now,
            pay_by: ask.pay_by,
            epoch: bucket.epoch(),
        });
        send(world, &created).await;
        Self([first, second, third])
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        world.deliver(&environment, 0).await;
    }

    async fn check(&self, world: &World<'_>) {
        for (claim, reason) in self.0.iter().zip([None, None, Some(VoidReason::Limit)]) {
            let order = world.order(claim).await.unwrap();
            let live = order.status == OrderStatus::PendingPayment;
            world.demand(
                order.void_reason == reason && live == reason.is_none(),
                &order,
            );
        }
    }
}

async fn send(world: &World<'_>, message: &Message) {
    let queue = Queue::connect(&world.environment()).unwrap();
    queue.send(message).await.unwrap();
}

/// A frozen bucket with an order, and with a yes whose message is on its way.
pub(crate) struct Recovery;

impl Work for Recovery {
    const NAME: &'static str = "order (recovery)";
    const UNITS: [u32; 2] = [3, 0];

    async fn prepare(world: &World<'_>) -> Self {
        world.ordered(&world.shopper(0, 0)).await;
        world.claimed(&world.shopper(0, 1)).await;
        let mut server = world.bench.server(0);
        redis::cmd("FLUSHALL").exec(&mut server).unwrap();
        flush_scripts(&mut server);
        let recover = Message::Recover(Recover {
            sale: world.sale.id.clone(),
            bucket: BucketId(0),
            epoch: 1,
            seen_at: world.now(),
        });
        send(world, &recover).await;
        Self
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        world.deliver(&environment, 0).await;
    }

    async fn check(&self, world: &World<'_>) {
        let seen = world.seen().await;
        let bucket = &seen.buckets[0];
        let is_true = bucket.open && bucket.left == 1 && bucket.due.len() == 2;
        world.demand(is_true, bucket);
    }
}

/// Units that move to a bucket that has none.
pub(crate) struct Move;

impl Work for Move {
    const NAME: &'static str = "order (rebalancing)";
    const UNITS: [u32; 2] = [3, 0];

    async fn prepare(world: &World<'_>) -> Self {
        let asked = Message::Rebalance(Rebalance {
            sale: world.sale.id.clone(),
            from: BucketId(0),
            to: BucketId(1),
            units: 1,
            seen_at: world.now(),
        });
        send(world, &asked).await;
        Self
    }

    async fn run(&self, world: &World<'_>, environment: Environment) {
        world.deliver(&environment, 0).await;
    }

    /// Each run may move one more: what is free, and no more than that.
    async fn check(&self, world: &World<'_>) {
        let seen = world.seen().await;
        let free: u32 = seen.buckets.iter().map(|bucket| bucket.left).sum();
        world.demand(free <= 3 && seen.buckets[1].row.capacity > 0, &seen.buckets);
    }
}
