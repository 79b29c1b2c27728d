//! The way from a provider to our webhook, on which events are doubled,
//! shuffled, or lost, and delivered again until they are taken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::eventually;

/// Copies of an event arrive within this time: events that are nearer to each
/// other are shuffled.
const SCATTER: Duration = Duration::from_millis(1_500);

/// A delivery that was refused is tried again after so long.
const AGAIN: Duration = Duration::from_millis(500);

/// A provider gives up after so many refusals.
const ATTEMPTS_MAX: u32 = 40;

/// The longest wait until everything is delivered, in seconds.
const QUIET_LIMIT_S: u64 = 120;

/// How events fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each arrives 1 to 3 times, in any order.
    Shuffled,
    /// None arrives, although the provider is told that it did.
    Lost,
}

/// The way. The provider is given [`Deliveries::url`] before it is known where
/// the webhook is.
#[derive(Debug)]
pub struct Deliveries {
    url: String,
    webhook: Arc<OnceLock<String>>,
    way: watch::Sender<Way>,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

/// How many of what.
#[derive(Debug, Default)]
struct Counts {
    under_way: AtomicUsize,
    events: AtomicUsize,
    copies: AtomicUsize,
    given_up: AtomicUsize,
}

/// What an event consists of.
#[derive(Debug, Clone)]
struct Sent {
    signature: String,
    body: Bytes,
}

impl Deliveries {
    /// A way on which what happens is drawn from a seed.
    pub async fn new(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let webhook = Arc::<OnceLock<String>>::default();
        let counts = Arc::<Counts>::default();
        let (way, seen) = watch::channel(Way::Shuffled);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let (known, counted) = (Arc::clone(&webhook), Arc::clone(&counts));
        let take = async move |headers: HeaderMap, body: Bytes| {
            let nth = counted.events.fetch_add(1, Ordering::Relaxed);
            if *seen.borrow() == Way::Lost {
                return;
            }
            let signature = headers["stripe-signature"].to_str().unwrap().to_owned();
            let mut dice = SmallRng::seed_from_u64(seed ^ nth as u64);
            for _ in 0..dice.random_range(1..=3) {
                let sent = Sent {
                    signature: signature.clone(),
                    body: body.clone(),
                };
                let delay = SCATTER.mul_f64(dice.random_range(0.0..1.0));
                let (http, counts) = (http.clone(), Arc::clone(&counted));
                let webhook = known.get().expect("the webhook is known").clone();
                counts.under_way.fetch_add(1, Ordering::Relaxed);
                counts.copies.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    sleep(delay).await;
                    if !deliver(&http, &webhook, &sent).await {
                        counts.given_up.fetch_add(1, Ordering::Relaxed);
                    }
                    counts.under_way.fetch_sub(1, Ordering::Relaxed);
                });
            }
        };
        let app = Router::new().route("/", post(take));
        let task = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("it serves");
        });
        Self {
            url,
            webhook,
            way,
            counts,
            task,
        }
    }

    /// Where the provider is to send its events.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Leads to this webhook from now on.
    pub fn lead_to(&self, webhook: String) {
        self.webhook.set(webhook).expect("a way is led once");
    }

    /// Changes how events fare that come from now on.
    pub fn turn(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Events that the provider sent, and copies of them that were delivered.
    pub fn seen(&self) -> (usize, usize) {
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        (count(&self.counts.events), count(&self.counts.copies))
    }

    /// Waits until nothing is under way.
    ///
    /// # Panics
    /// It takes too long, or a delivery was refused for good.
    pub async fn quiet(&self) {
        eventually("every event is delivered", QUIET_LIMIT_S, async || {
            (self.counts.under_way.load(Ordering::Relaxed) == 0).then_some(())
        })
        .await;
        assert_eq!(self.counts.given_up.load(Ordering::Relaxed), 0);
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Delivers until it is taken; whether it was.
async fn deliver(http: &reqwest::Client, webhook: &str, sent: &Sent) -> bool {
    for _ in 0..ATTEMPTS_MAX {
        let request = http
            .post(webhook)
            .header("content-type", "application/json; charset=utf-8")
            .header("stripe-signature", &sent.signature)
            .body(sent.body.clone());
        if request
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            return true;
        }
        sleep(AGAIN).await;
    }
    false
}
