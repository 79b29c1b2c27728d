//! The drill stands in for a CDN: one cached copy of the status for all
//! shoppers, kept as long as the origin allows, refreshed by one call however
//! many ask.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use domain::sale::SaleState;

use crate::client::{Client, Lane, Request};
use crate::record::Call;
use crate::wire;

/// The origin failed: its last answer is served for so long before it is
/// asked again.
const ERROR_AGE: Duration = Duration::from_secs(1);

/// What a shopper's page acts on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Status {
    pub(crate) state: SaleState,
    pub(crate) threshold: f64,
    pub(crate) round: u32,
    pub(crate) paused: bool,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    status: Status,
    fresh_until: Instant,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Edge {
    path: String,
    copy: RwLock<Kept>,
    refresh: tokio::sync::Mutex<()>,
    polls: AtomicU64,
}

impl Edge {
    pub(crate) fn new(sale: &domain::SaleId) -> Self {
        Self {
            path: format!("/v1/sales/{sale}/status"),
            copy: RwLock::new(Kept {
                status: Status {
                    state: SaleState::Scheduled,
                    threshold: 0.0,
                    round: 0,
                    paused: false,
                },
                fresh_until: Instant::now(),
            }),
            refresh: tokio::sync::Mutex::new(()),
            polls: AtomicU64::new(0),
        }
    }

    /// How often shoppers asked.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// The newest copy, whatever its age.
    pub(crate) fn last(&self) -> Status {
        self.copy().status
    }

    /// A shopper asks.
    pub(crate) async fn poll(&self, client: &Client) -> Status {
        self.polls.fetch_add(1, Ordering::Relaxed);
        let copy = self.copy();
        if Instant::now() < copy.fresh_until {
            return copy.status;
        }
        // Boxed: one shopper in a thousand refreshes, the rest need no room.
        Box::pin(self.refreshed(client, copy.fresh_until)).await
    }

    async fn refreshed(&self, client: &Client, seen: Instant) -> Status {
        let _one = self.refresh.lock().await;
        let copy = self.copy();
        if copy.fresh_until != seen {
            // Another asked meanwhile: its answer is everyone's.
            return copy.status;
        }
        let request = Request::new(Call::Status, self.path.clone());
        let answer = client.send(Lane::Direct, request).await;
        let read = if answer.is_success() {
            answer.read::<wire::Status>()
        } else {
            None
        };
        let (status, age) = match read {
            Some(status) => (
                Status {
                    state: status.state,
                    threshold: status.draw.threshold,
                    round: status.draw.round,
                    paused: status.paused,
                },
                answer.max_age,
            ),
            None => (copy.status, ERROR_AGE),
        };
        let mut place = self.copy.write().unwrap_or_else(PoisonError::into_inner);
        *place = Kept {
            status,
            fresh_until: Instant::now() + age,
        };
        status
    }

    fn copy(&self) -> Kept {
        *self.copy.read().unwrap_or_else(PoisonError::into_inner)
    }
}
