//! Latencies and answers, by call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use jiff::Timestamp;
use serde::Serialize;

/// Every call that the drill makes, with its method and name.
macro_rules! calls {
    ($($variant:ident = $method:ident, $name:literal;)*) => {
        /// A call of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[allow(missing_docs)] // the names in the table below say it
        pub enum Call { $(#[serde(rename = $name)] $variant),* }

        impl Call {
            /// Every call.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// What the tables call it.
            pub fn name(self) -> &'static str { match self { $(Self::$variant => $name),* } }
            /// Its HTTP method.
            pub(crate) fn method(self) -> reqwest::Method {
                match self { $(Self::$variant => reqwest::Method::$method),* }
            }
        }
    };
}

calls! {
    Sessions = POST, "sessions";
    CreateSale = POST, "create sale";
    Preflight = GET, "preflight";
    Status = GET, "status (origin)";
    Pass = POST, "pass";
    Entry = POST, "entry";
    Claim = POST, "claim";
    ReadClaim = GET, "read claim";
    GiveBack = DELETE, "give back";
    ReadOrder = GET, "read order";
    Pay = POST, "pay";
    Confirm = POST, "confirm (provider)";
    Webhook = POST, "webhook";
    Report = GET, "report";
    End = POST, "end sale";
}

/// How long one call took, in milliseconds, from the sending to the last byte
/// of the answer.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// Which call.
    pub call: &'static str,
    /// How often.
    pub count: u64,
    /// Half of them were faster.
    pub p50_ms: f64,
    /// All but one in a hundred were faster.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// How often a call was answered so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Which call.
    pub call: &'static str,
    /// HTTP status; 0 if there was no answer.
    pub status: u16,
    /// The problem's code, or why there was no answer.
    pub error: String,
    /// How often.
    pub count: u64,
}

/// One claim that was sent, for those who want to know whose were slow, and
/// when.
#[derive(Debug, Clone)]
pub struct ClaimCall {
    /// Which shopper, by number: `shopper-7` is 7.
    pub shopper: u32,
    /// When it was sent.
    pub sent: Timestamp,
    /// Until the last byte of the answer.
    pub took: Duration,
    /// HTTP status; 0 if there was no answer.
    pub status: u16,
}

/// The name under which waiting for one of the drill's own connections is
/// shown: it is the drill's limit, not the system's time.
const OWN_WAIT: &str = "(wait for a connection)";

/// What is recorded while the drill runs.
#[derive(Debug)]
pub(crate) struct Record {
    latencies: Vec<Mutex<Histogram<u64>>>,
    waits: Mutex<Histogram<u64>>,
    counts: Mutex<BTreeMap<(Call, u16, String), u64>>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self {
            latencies: Call::ALL.iter().map(|_| Mutex::new(histogram())).collect(),
            waits: Mutex::new(histogram()),
            counts: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn answered(&self, call: Call, took: Duration, status: u16, error: &str) {
        lock(&self.latencies[call as usize]).saturating_record(micros(took));
        *lock(&self.counts)
            .entry((call, status, error.to_owned()))
            .or_default() += 1;
    }

    pub(crate) fn waited(&self, took: Duration) {
        lock(&self.waits).saturating_record(micros(took));
    }

    pub(crate) fn latencies(&self) -> Vec<Latency> {
        let calls = Call::ALL.iter().map(|call| call.name());
        calls
            .zip(&self.latencies)
            .chain([(OWN_WAIT, &self.waits)])
            .filter_map(|(call, histogram)| summary(call, &lock(histogram)))
            .collect()
    }

    pub(crate) fn counts(&self) -> Vec<Count> {
        lock(&self.counts)
            .iter()
            .map(|((call, status, error), count)| Count {
                call: call.name(),
                status: *status,
                error: error.clone(),
                count: *count,
            })
            .collect()
    }
}

/// A lock whose holder panicked still guards a number that is good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From 1 µs to 10 minutes with three digits; longer ones count as that.
#[allow(clippy::expect_used)] // constant bounds
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("bounds are valid")
}

fn micros(took: Duration) -> u64 {
    took.as_micros().try_into().unwrap_or(u64::MAX)
}

fn summary(call: &'static str, histogram: &Histogram<u64>) -> Option<Latency> {
    let ms = |micros: u64| micros as f64 / 1_000.0;
    (!histogram.is_empty()).then(|| Latency {
        call,
        count: histogram.len(),
        p50_ms: ms(histogram.value_at_quantile(0.5)),
        p99_ms: ms(histogram.value_at_quantile(0.99)),
        max_ms: ms(histogram.max()),
    })
}
