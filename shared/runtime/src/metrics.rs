//! Metrics in CloudWatch's embedded format: one JSON object a line on standard
//! output, beside the log. CloudWatch Logs makes metrics of it, so that no
//! function calls anybody to be counted.
//!
//! Every metric is in the list below, with its unit and its dimensions, and in
//! `docs/logging.md` with what it means. A dimension is a sale, an answer or a
//! reason: the types let nothing else in, a shopper least of all.
//!
//! # Why by hand
//!
//! `metrics` with `metrics_cloudwatch_embedded` (0.10) is kept and small, but
//! does something else. It accumulates in one recorder of the process, and
//! then a gauge that was set once is written for ever, also of a sale that is
//! long over; of a histogram's values it drops all after the hundredth between
//! two flushes, which one sweep's lapsed holds exceed; and a metric has one set
//! of dimensions, so that whatever an alarm counts over all sales is recorded
//! twice. `metrique` has none of these faults and brings thirty crates. What
//! is needed here is one document for one fact.

use std::future::Future;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use domain::SaleId;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{Clock, Settings};

/// Where metrics are found if `METRICS_NAMESPACE` does not say otherwise.
const NAMESPACE: &str = "FlashSale";

/// The format takes so many values of a metric in one document.
const VALUES_MAX: usize = 100;

/// A set of dimensions; a metric has one series for each of its sets.
type Dimensions = &'static [&'static str];

/// One series, over all sales.
const OVERALL: &[Dimensions] = &[&[]];
/// A series for each sale.
const SALE: &[Dimensions] = &[&["sale"]];
/// A series for each sale, and one over all: alarms can't add up.
const BOTH: &[Dimensions] = &[&[], &["sale"]];
/// A series for each sale and answer.
const ANSWER: &[Dimensions] = &[&["sale", "answer"]];
/// A series for each sale and reason.
const REASON: &[Dimensions] = &[&["sale", "reason"]];

/// Every metric, with its name, unit and dimensions.
macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $unit:ident, $dimensions:ident;)*) => {
        /// What is measured.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Metric { $($(#[$doc])* $variant),* }

        impl Metric {
            /// Every metric.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in CloudWatch.
            pub fn name(self) -> &'static str { match self { $(Self::$variant => $name),* } }
            /// Its unit, as CloudWatch knows it.
            pub fn unit(self) -> &'static str { match self { $(Self::$variant => stringify!($unit)),* } }
            /// Its sets of dimensions.
            pub fn dimensions(self) -> &'static [Dimensions] { match self { $(Self::$variant => $dimensions),* } }
        }
    };
}

metrics! {
    /// Claims, by what was answered. Claim function.
    Claims = "claims", Count, ANSWER;

    /// Looks at a sale that saw all of it; 0 from the sweeper, so that silence
    /// can be told from no sale. Controller.
    ControllerLook = "controller_look", Count, BOTH;
    /// Looks at a sale that failed, or did not see every bucket. Controller.
    LooksFailed = "looks_failed", Count, BOTH;
    /// 1 while no gate of a sale answers. Controller.
    GatesAway = "gates_away", Count, BOTH;
    /// Units that can be claimed. Controller.
    UnitsFree = "units_free", Count, SALE;
    /// Entries of the draw so far. Controller.
    Entries = "entries", Count, SALE;
    /// Tickets below it may claim. Controller.
    AdmissionThreshold = "admission_threshold", None, SALE;
    /// Places in line that the threshold admits. Controller.
    Admitted = "admitted", Count, SALE;
    /// How often the threshold was raised. Controller.
    AdmissionRound = "admission_round", Count, SALE;

    /// Sweeps of a sale that swept all of it; 0 from the controller. Sweeper.
    SweeperLook = "sweeper_look", Count, BOTH;
    /// Units claimed and not paid, or on their way between gate and ledger.
    /// Sweeper.
    UnitsHeld = "units_held", Count, SALE;
    /// Units whose payment has begun. Sweeper.
    UnitsPaying = "units_paying", Count, SALE;
    /// Units that are paid. Sweeper.
    UnitsPaid = "units_paid", Count, SALE;
    /// Units by which gates and ledger differ, those too that will arrive by
    /// themselves. Sweeper.
    GateGap = "gate_gap", Count, SALE;
    /// Buckets whose counter was wrong and was corrected. Sweeper and
    /// reconciler.
    GateMismatch = "gate_mismatch", Count, BOTH;
    /// Buckets whose claim script is gone. Sweeper.
    FrozenBuckets = "frozen_buckets", Count, BOTH;
    /// Holds that should have ended three seconds ago. Sweeper.
    OverdueHolds = "overdue_holds", Count, BOTH;
    /// Refunds that are owed and not confirmed. Sweeper.
    RefundsPending = "refunds_pending", Count, BOTH;
    /// Holds that ended unpaid. Sweeper.
    HoldsExpired = "holds_expired", Count, SALE;
    /// From a hold's deadline until its units were free again. Sweeper.
    ReleaseLag = "release_lag_ms", Milliseconds, BOTH;

    /// Reconciliations of a sale that read all of it; 0 for one that did not.
    /// Reconciler.
    Reconciled = "reconciled", Count, BOTH;
    /// What did not agree in a sale and needs a person. Reconciler.
    Unreconciled = "unreconciled", Count, BOTH;

    /// Orders that were written. Order function.
    OrdersWritten = "orders_written", Count, BOTH;
    /// Claims that were voided, by why. Order function and sweeper.
    ClaimsVoided = "claims_voided", Count, REASON;
    /// Buckets that were made true from the ledger. Order function.
    BucketsRecovered = "buckets_recovered", Count, BOTH;
    /// Messages of a batch. Order function.
    BatchSize = "batch_size", Count, OVERALL;
    /// From a claim's message being sent until it was taken on. Order function.
    MessageAge = "message_age_ms", Milliseconds, OVERALL;

    /// Captures for an order that does not exist, or not yet. Payment.
    PaymentParked = "payment_parked", Count, OVERALL;
    /// Payments that contradict our record. Payment, claim, sweeper.
    PaymentMismatch = "payment_mismatch", Count, BOTH;
    /// Captures that go back. Payment, claim, sweeper.
    RefundOwed = "refund_owed", Count, BOTH;
    /// Refunds that were asked for without an answer. Payment, claim,
    /// sweeper.
    RefundUnconfirmed = "refund_unconfirmed", Count, BOTH;
    /// Holds that could not end, since their payment could not be closed.
    /// Claim and sweeper.
    IntentUnreachable = "intent_unreachable", Count, BOTH;
    /// Calls of the payment provider: 1 if it did not answer, else 0. Whoever
    /// calls it.
    ProviderErrors = "provider_errors", Count, OVERALL;
    /// How long a call of the payment provider took. Whoever calls it.
    ProviderLatency = "provider_latency_ms", Milliseconds, OVERALL;
}

/// Values of one moment, of one sale or of all: a line.
#[derive(Debug)]
#[must_use = "it is not written yet"]
pub struct Line<'a> {
    sale: Option<&'a SaleId>,
    /// Dimensions and notes whose values the code itself names.
    words: Vec<(&'static str, &'static str)>,
    values: Vec<(Metric, Vec<f64>)>,
}

/// A line about one sale. It must exist: a name that somebody made up would
/// be a new series each time.
pub fn of(sale: &SaleId) -> Line<'_> {
    Line {
        sale: Some(sale),
        words: Vec::new(),
        values: Vec::new(),
    }
}

/// A line about no sale.
pub fn overall() -> Line<'static> {
    Line {
        sale: None,
        words: Vec::new(),
        values: Vec::new(),
    }
}

impl Line<'_> {
    /// The `answer` or `reason` that it is about; under any other name a note
    /// that is no dimension, for whoever searches the lines.
    pub fn word(mut self, name: &'static str, word: &'static str) -> Self {
        self.words.push((name, word));
        self
    }

    /// One value.
    pub fn value(self, metric: Metric, value: f64) -> Self {
        self.values(metric, [value])
    }

    /// Each single value, so that percentiles can be told; none is nothing.
    pub fn values(mut self, metric: Metric, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().filter(|value| value.is_finite());
        let values: Vec<f64> = values.collect();
        if !values.is_empty() {
            self.values.push((metric, values));
        }
        self
    }

    /// Writes it where metrics go: nowhere, unless this is a function under
    /// Lambda, or a test listens.
    pub fn write(self) {
        if let Ok(heard) = HEARD.try_with(Arc::clone) {
            let lines = self.documents(NAMESPACE, Clock::system().now());
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.extend(lines.map(|line| line.to_string()));
        } else if let Some(namespace) = ON.get() {
            for line in self.documents(namespace, Clock::system().now()) {
                // In one piece, as the log's lines are. That nobody reads it
                // is no reason for a claim to fail.
                let _ = std::io::stdout()
                    .lock()
                    .write_all(format!("{line}\n").as_bytes());
            }
        }
    }

    /// The documents that hold all values: more than one if a metric has more
    /// values than fit into one.
    fn documents(&self, namespace: &str, now: Timestamp) -> impl Iterator<Item = Value> {
        let longest = self.values.iter().map(|(_, values)| values.len()).max();
        let count = longest.unwrap_or(0).div_ceil(VALUES_MAX);
        (0..count).map(move |part| self.document(part, namespace, now))
    }

    fn document(&self, part: usize, namespace: &str, now: Timestamp) -> Value {
        let mut root = Map::new();
        root.insert("timestamp".to_owned(), now.to_string().into());
        // What has no level is INFO to Lambda's filter. Said, it can be read.
        root.insert("level".to_owned(), "INFO".into());
        if let Some(sale) = self.sale {
            root.insert("sale".to_owned(), sale.as_str().into());
        }
        for (name, word) in &self.words {
            root.insert((*name).to_owned(), (*word).into());
        }
        let mut directives = Vec::new();
        for (metric, values) in &self.values {
            let Some(values) = values.chunks(VALUES_MAX).nth(part) else {
                continue;
            };
            let known = |set: &&Dimensions| set.iter().all(|name| root.contains_key(*name));
            let dimensions: Vec<_> = metric.dimensions().iter().filter(known).collect();
            debug_assert!(!dimensions.is_empty(), "{metric:?} lacks its dimensions");
            directives.push(json!({
                "Namespace": namespace,
                "Dimensions": dimensions,
                // To the second: a sale may be over within one minute.
                "Metrics": [{
                    "Name": metric.name(), "Unit": metric.unit(), "StorageResolution": 1,
                }],
            }));
            let value = match values {
                [value] => number(*value),
                values => values.iter().copied().map(number).collect(),
            };
            root.insert(metric.name().to_owned(), value);
        }
        let about = json!({"Timestamp": now.as_millisecond(), "CloudWatchMetrics": directives});
        root.insert("_aws".to_owned(), about);
        Value::Object(root)
    }
}

/// Whole numbers without a fraction: most are counts.
fn number(value: f64) -> Value {
    // Beyond this a double is no count any more.
    if value.fract() == 0.0 && value.abs() < 1e15 {
        (value as i64).into()
    } else {
        value.into()
    }
}

/// The namespace, once a function has started. One process may run several
/// functions, as the local system does: then none has, and nothing is written.
static ON: OnceLock<String> = OnceLock::new();

tokio::task_local! {
    /// Lines that the work of this task wrote, if somebody listens.
    static HEARD: Arc<Mutex<Vec<String>>>;
}

/// Lines go to standard output from now on. `METRICS_NAMESPACE` names the
/// place where CloudWatch puts them; a second call changes nothing.
pub(crate) fn start(settings: &Settings) {
    let namespace = settings.get("METRICS_NAMESPACE").unwrap_or(NAMESPACE);
    let _ = ON.set(namespace.to_owned());
}

/// Does `work` and keeps the lines that it writes, for tests. What it spawns
/// is not heard.
pub async fn heard<T>(work: impl Future<Output = T>) -> (T, Vec<String>) {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let done = HEARD.scope(Arc::clone(&lines), work).await;
    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    (done, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale() -> SaleId {
        "fs1111".parse().unwrap()
    }

    fn document(line: &Line<'_>) -> Value {
        let now = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        let mut documents = line.documents("Shop", now);
        let document = documents.next().unwrap();
        assert!(documents.next().is_none());
        document
    }

    #[test]
    fn a_line_is_a_document_of_the_embedded_format() {
        let sale = sale();
        let line = of(&sale)
            .value(Metric::UnitsFree, 12.0)
            .value(Metric::AdmissionThreshold, 0.25)
            .values(Metric::ReleaseLag, [400.0, 700.5]);
        assert_eq!(
            document(&line),
            json!({
                "_aws": {
                    "Timestamp": 1_700_000_000_123_u64,
                    "CloudWatchMetrics": [
                        {
                            "Namespace": "Shop", "Dimensions": [["sale"]],
                            "Metrics": [{
                                "Name": "units_free", "Unit": "Count", "StorageResolution": 1,
                            }],
                        },
                        {
                            "Namespace": "Shop", "Dimensions": [["sale"]],
                            "Metrics": [{
                                "Name": "admission_threshold", "Unit": "None",
                                "StorageResolution": 1,
                            }],
                        },
                        {
                            "Namespace": "Shop", "Dimensions": [[], ["sale"]],
                            "Metrics": [{
                                "Name": "release_lag_ms", "Unit": "Milliseconds",
                                "StorageResolution": 1,
                            }],
                        },
                    ],
                },
                "timestamp": "2023-11-14T22:13:20.123Z",
                "level": "INFO",
                "sale": "fs1111",
                "units_free": 12,
                "admission_threshold": 0.25,
                "release_lag_ms": [400, 700.5],
            })
        );
    }

    #[test]
    fn what_is_about_no_sale_has_no_series_of_one() {
        let line = overall()
            .word("call", "refund")
            .value(Metric::PaymentMismatch, 1.0);
        let document = document(&line);
        let directive = &document["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], json!([[]]));
        assert_eq!(document["call"], "refund");
    }

    #[test]
    fn more_values_than_fit_are_in_further_documents_and_all_there() {
        let sale = sale();
        let line = of(&sale)
            .value(Metric::HoldsExpired, 250.0)
            .values(Metric::ReleaseLag, (0..250).map(f64::from));
        let documents: Vec<Value> = line.documents("Shop", Timestamp::UNIX_EPOCH).collect();
        let lags = documents
            .iter()
            .flat_map(|document| document["release_lag_ms"].as_array().unwrap().clone());
        let all: Vec<i64> = lags.map(|lag| lag.as_i64().unwrap()).collect();
        assert_eq!(all, (0..250).collect::<Vec<_>>());
        assert_eq!(documents.len(), 3);
        // Counted once.
        let counted = documents.iter().filter_map(|one| one.get("holds_expired"));
        assert_eq!(counted.collect::<Vec<_>>(), [250]);
    }

    #[test]
    fn what_is_no_number_is_not_written() {
        let line = overall().values(Metric::MessageAge, [f64::NAN, f64::INFINITY]);
        assert_eq!(line.documents("Shop", Timestamp::UNIX_EPOCH).count(), 0);
    }

    #[tokio::test]
    async fn nothing_is_written_until_somebody_listens_and_then_only_to_them() {
        let write = || overall().value(Metric::BatchSize, 3.0).write();
        assert!(ON.get().is_none(), "a test is no function under Lambda");
        write();
        let ((), outer) = heard(async {
            write();
            let ((), inner) = heard(async { write() }).await;
            assert_eq!(inner.len(), 1);
        })
        .await;
        assert_eq!(outer.len(), 1);
        assert!(outer[0].contains("\"batch_size\":3"));
    }

    #[test]
    fn names_are_the_fields_words_and_no_two_are_one() {
        let mut names: Vec<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        for name in &names {
            let fits = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(fits), "{name}");
        }
        for metric in Metric::ALL {
            let in_ms = metric.name().ends_with("_ms");
            assert_eq!(in_ms, metric.unit() == "Milliseconds", "{metric:?}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Metric::ALL.len());
    }
}
