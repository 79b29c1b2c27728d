//! The sandbox's side: its webhooks are delivered once or more, out of order,
//! and again until they are taken. Another provider delivers its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::client::{Lane, Request};
use crate::record::Call;
use crate::wire::Event;
use crate::world::{World, count};

/// Copies of an event arrive within this time. Events that are nearer to each
/// other than that are shuffled, those of one payment too.
const SCATTER: Duration = Duration::from_millis(1_500);

/// A provider gives up after so many refusals of one delivery.
const ATTEMPTS_MAX: u32 = 8;

/// When the copies of one event arrive.
#[derive(Debug)]
pub(crate) struct Delivery {
    delays: Vec<Duration>,
    seed: u64,
}

impl Delivery {
    /// 1 to `copies_max` copies at any time within the scatter.
    pub(crate) fn drawn(rng: &mut SmallRng, copies_max: u32) -> Self {
        let copies = rng.random_range(1..=copies_max.max(1));
        Self {
            delays: (0..copies)
                .map(|_| SCATTER.mul_f64(rng.random_range(0.0..1.0)))
                .collect(),
            seed: rng.random(),
        }
    }
}

/// Delivers in the background. The world counts what is under way.
pub(crate) fn deliver(world: Arc<World>, event: Event, delivery: Delivery) {
    let event = Arc::new(event);
    for (copy, delay) in delivery.delays.into_iter().enumerate() {
        let (world, event) = (world.clone(), event.clone());
        let rng = SmallRng::seed_from_u64(delivery.seed ^ copy as u64);
        count(&world.tally.deliveries);
        tokio::spawn(async move {
            sleep(delay).await;
            deliver_one(&world, &event, rng).await;
            world.tally.deliveries.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn deliver_one(world: &World, event: &Event, mut rng: SmallRng) {
    for attempt in 0..ATTEMPTS_MAX {
        let request = Request::new(Call::Webhook, "/v1/webhooks/sandbox")
            .header("sandbox-signature", &event.signature)
            .body(event.payload.as_str());
        if world.client.send(Lane::Winner, request).await.is_success() {
            return;
        }
        let backoff = Duration::from_millis(500 << attempt.min(4));
        sleep(backoff.mul_f64(rng.random_range(0.5..1.5))).await;
    }
    world.note("a webhook was refused eight times and given up");
}
