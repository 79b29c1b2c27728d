//! The drill stands in for a CDN: one cached copy of the status for all
//! shoppers, kept as long as the origin allows, refreshed by one call however
//! many ask.
//!
//! Each waiting page would look at that copy once a second. Most of them would
//! learn nothing, and hundreds of thousands of such looks cost this machine
//! more than the sale does. So who waits behind the threshold sleeps until the
//! copy says that their turn has come, or that the sale is over; the looks are
//! counted as if they had been made.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use domain::sale::SaleState;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::client::{Client, Lane, Request};
use crate::record::{Call, lock};
use crate::wire;

/// A page asks for the status so often, give or take a fifth.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// The origin failed: its last answer is served for so long before it is
/// asked again.
const ERROR_AGE: Duration = Duration::from_secs(1);

/// A copy is never fetched more often than this.
const AGE_MIN: Duration = Duration::from_millis(50);

/// What a shopper's page acts on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Status {
    pub(crate) state: SaleState,
    pub(crate) threshold: f64,
    pub(crate) round: u32,
    pub(crate) paused: bool,
}

impl Status {
    /// Nobody who waits gets anything any more.
    fn is_final(&self) -> bool {
        matches!(self.state, SaleState::SoldOut | SaleState::Ended)
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Edge {
    path: String,
    copy: Mutex<Copy>,
    polls: AtomicU64,
}

#[derive(Debug)]
struct Copy {
    status: Status,
    /// Who waits for the threshold, by ticket and number. Tickets are never
    /// negative, so their bits are in their order.
    line: BTreeMap<(u64, u32), oneshot::Sender<()>>,
    /// Everyone was sent home.
    closed: bool,
}

impl Edge {
    pub(crate) fn new(sale: &domain::SaleId) -> Self {
        Self {
            path: format!("/v1/sales/{sale}/status"),
            copy: Mutex::new(Copy {
                status: Status {
                    state: SaleState::Scheduled,
                    threshold: 0.0,
                    round: 0,
                    paused: false,
                },
                line: BTreeMap::new(),
                closed: false,
            }),
            polls: AtomicU64::new(0),
        }
    }

    /// How often shoppers asked.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// The newest copy.
    pub(crate) fn last(&self) -> Status {
        self.copy().status
    }

    /// A shopper asks.
    pub(crate) fn poll(&self) -> Status {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.last()
    }

    /// A shopper asks until its ticket is below the threshold, or the sale is
    /// over for all.
    pub(crate) async fn turn(&self, ticket: f64, number: u32) {
        let (called, turn) = oneshot::channel();
        {
            let mut copy = self.copy();
            if copy.closed || ticket < copy.status.threshold || copy.status.is_final() {
                return;
            }
            copy.line.insert((ticket.to_bits(), number), called);
        }
        // Dropped with the whole line: as good as called.
        let _ = turn.await;
    }

    /// Calls everyone who waits; nobody waits any more.
    pub(crate) fn close(&self) {
        let mut copy = self.copy();
        copy.closed = true;
        copy.line.clear();
    }

    /// Fetches a copy whenever the last one has aged.
    pub(crate) async fn keep_fresh(&self, client: &Client) -> Infallible {
        loop {
            let request = Request::new(Call::Status, self.path.clone());
            let answer = client.send(Lane::Direct, request).await;
            let read = if answer.is_success() {
                answer.read::<wire::Status>()
            } else {
                None
            };
            let age = match read {
                Some(status) => {
                    self.update(Status {
                        state: status.state,
                        threshold: status.draw.threshold,
                        round: status.draw.round,
                        paused: status.paused,
                    });
                    answer.max_age.max(AGE_MIN)
                }
                None => ERROR_AGE,
            };
            let waiting = self.copy().line.len() as f64;
            let looks = waiting * age.as_secs_f64() / POLL.as_secs_f64();
            self.polls.fetch_add(looks as u64, Ordering::Relaxed);
            sleep(age).await;
        }
    }

    fn update(&self, status: Status) {
        let mut copy = self.copy();
        copy.status = status;
        if status.is_final() {
            copy.line.clear();
        } else {
            let behind = copy.line.split_off(&(status.threshold.to_bits(), 0));
            // Dropping the others' ends calls them.
            copy.line = behind;
        }
    }

    fn copy(&self) -> MutexGuard<'_, Copy> {
        lock(&self.copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn only_those_below_the_threshold_are_called() {
        let edge = Edge::new(&"sale".parse().unwrap());
        let live = |threshold| Status {
            state: SaleState::Live,
            threshold,
            round: 1,
            paused: false,
        };
        edge.update(live(0.1));
        assert!(edge.turn(0.05, 1).now_or_never().is_some());
        let mut near = Box::pin(edge.turn(0.2, 2));
        let mut far = Box::pin(edge.turn(0.3, 3));
        let mut late = Box::pin(edge.turn(1.5, 4));
        for one in [&mut near, &mut far, &mut late] {
            assert!(one.now_or_never().is_none());
        }
        edge.update(live(0.3));
        assert!((&mut near).now_or_never().is_some());
        assert!((&mut far).now_or_never().is_none(), "not below it");
        edge.update(Status {
            state: SaleState::SoldOut,
            ..live(0.3)
        });
        assert!((&mut far).now_or_never().is_some());
        assert!((&mut late).now_or_never().is_some());
    }
}
