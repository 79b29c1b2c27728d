//! The harness of the end-to-end tests: a whole system in process, the people
//! who use it, and the books that must balance afterwards.
//!
//! | module | what |
//! |---|---|
//! | [`shop`] | a running system, its merchant, and its parts for tests that reach behind the API |
//! | [`sale`] | one sale: shoppers, status, report, orders |
//! | [`shopper`] | one shopper: pass, entry, claim, payment |
//! | [`books`] | what must be true of a sale at any time, and when it has come to rest |
//! | [`link`] | a way to a server that a test can cut or slow down |
//! | [`wire`] | ways on which answers are lost, requests doubled, nodes cut off |
//! | [`faults`] | whole sales in which something breaks |
//! | [`stripe`] | a shop that is paid through Stripe, and Stripe's own books |
//! | [`deliveries`] | Stripe's webhooks, doubled, shuffled or lost |
//! | [`answer`] | what came back |
//!
//! Tests wait for conditions, never for a time that should be enough; only
//! deadlines of the system itself are slept through.

// A harness that can't go on has found what it was written to find: a panic
// at the call that failed is the report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

pub mod answer;
pub mod books;
pub mod deliveries;
pub mod faults;
pub mod link;
pub mod sale;
pub mod shop;
pub mod shopper;
pub mod stripe;
pub mod wire;

use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use runtime::Clock;
use tokio::time::{Instant, sleep};

pub use answer::Answer;
pub use link::Link;
pub use sale::OnSale;
pub use shop::Shop;
pub use shopper::Shopper;

/// Calls in flight at a time: fewer than a function has environments.
const PARALLEL: usize = 90;

/// This machine's time.
pub fn now() -> Timestamp {
    Clock::system().now()
}

/// Sleeps until an instant; not at all if it is over.
pub async fn until(at: Timestamp) {
    sleep(Duration::try_from(at - now()).unwrap_or_default()).await;
}

/// Sleeps until an instant and so many milliseconds.
pub async fn until_after(at: Timestamp, ms: i64) {
    until(at + jiff::SignedDuration::from_millis(ms)).await;
}

/// Waits until `check` gives something, and gives it.
///
/// # Panics
/// It took longer than `limit_s`.
pub async fn eventually<T>(
    what: &str,
    limit_s: u64,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + Duration::from_secs(limit_s);
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < end, "not within {limit_s} s: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Runs everything side by side, so many at a time, and keeps the order.
pub async fn all<F: Future>(work: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    stream::iter(work).buffered(PARALLEL).collect().await
}
