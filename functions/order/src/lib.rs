//! The order function: makes a bucket's yeses real, in their order, one
//! transaction for a batch.
//!
//! What the ledger refuses is voided and the shopper learns why, before any
//! money moves. A message that can't be read goes to the dead-letter queue by
//! itself; a ledger that does not answer leaves the messages in the queue.

mod batch;
mod pace;
mod rebalance;
mod recover;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use domain::slot::Gates;
use domain::{BucketId, SaleId};
use futures::future::join_all;
use gate::Gate;
use jiff::Timestamp;
use ledger::Ledger;
use queue::{Message, Queue};
use runtime::{Clock, Environment, EventFunction, Invocation, Metric, metrics};

/// What failed is tried again after a second, then after two, four …
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// … but not more rarely. Fifty receives, after which a message is a dead
/// letter, take a quarter of an hour.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// The order function.
#[derive(Debug)]
pub struct OrderFunction {
    clock: Clock,
    dead_letters: Queue,
    gate: Gate,
    ledger: Ledger,
    pace: pace::Pace,
    queue: Queue,
    gates: tokio::sync::Mutex<BTreeMap<SaleId, Gates>>,
}

/// A message that could be read.
#[derive(Debug)]
struct Received {
    message_id: String,
    message: Message,
}

impl EventFunction for OrderFunction {
    type Event = SqsEvent;
    type Answer = SqsBatchResponse;

    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self {
            clock: environment.clock,
            dead_letters: Queue::dead_letters(environment)?,
            gate: Gate::connect(environment)?,
            ledger: Ledger::connect(environment)?,
            pace: pace::Pace::load(&environment.settings)?,
            queue: Queue::connect(environment)?,
            gates: tokio::sync::Mutex::default(),
        })
    }

    async fn handle(
        &self,
        event: SqsEvent,
        invocation: Invocation,
    ) -> anyhow::Result<SqsBatchResponse> {
        let begun = tokio::time::Instant::now();
        let count = event.records.len();
        let receipts = receipts(&event);
        metrics::overall()
            .value(Metric::BatchSize, count as f64)
            .values(Metric::MessageAge, ages_ms(&event, self.clock.now()))
            .write();
        let (groups, unreadable) = sort(event.records);
        let mut failed = self.set_apart(unreadable).await;
        for ((sale, bucket), messages) in groups {
            if let Err(error) = self.write(&sale, bucket, &messages).await {
                tracing::error!(
                    request_id = invocation.request_id, %sale, %bucket, %error,
                    messages = messages.len(), "orders were not written; the queue keeps them"
                );
                failed.extend(messages.into_iter().map(|message| message.message_id));
            }
        }
        self.show_again(&receipts, &failed).await;
        self.pace.keep(begun, count).await;
        tracing::info!(
            request_id = invocation.request_id,
            messages = count,
            failed = failed.len(),
            "batch handled"
        );
        Ok(answer(failed))
    }
}

impl OrderFunction {
    /// Moves messages that nobody can read to the dead-letter queue. Failing
    /// them would do that too, but only after all receives, and until then
    /// their bucket's group would wait behind them.
    async fn set_apart(&self, unreadable: Vec<(String, String)>) -> HashSet<String> {
        let mut failed = HashSet::new();
        for (message_id, body) in unreadable {
            if let Err(error) = self.dead_letters.send_raw(&message_id, &body).await {
                tracing::error!(message_id, %error, "an unreadable message stays in the queue");
                failed.insert(message_id);
            }
        }
        failed
    }

    /// Has what failed delivered again soon. By itself it would be hidden for the
    /// queue's visibility timeout, which is minutes, and the bucket with it:
    /// recovery and all.
    async fn show_again(&self, receipts: &BTreeMap<String, Receipt>, failed: &HashSet<String>) {
        let shown = failed.iter().filter_map(|id| receipts.get(id)).map(
            |Receipt { handle, receives }| async {
                let shown = self.queue.show_again(handle, pause(*receives)).await;
                if let Err(error) = shown {
                    tracing::warn!(%error, "what failed comes again later than it could");
                }
            },
        );
        join_all(shown).await;
    }
}

/// How a message that failed is shown again.
struct Receipt {
    handle: String,
    /// How often it was received.
    receives: u32,
}

/// The receipts of a batch, by message id.
fn receipts(event: &SqsEvent) -> BTreeMap<String, Receipt> {
    let receipt = |record: &SqsMessage| {
        let receives = record.attributes.get("ApproximateReceiveCount");
        let receipt = Receipt {
            handle: record.receipt_handle.clone()?,
            receives: receives.and_then(|n| n.parse().ok()).unwrap_or(1),
        };
        Some((record.message_id.clone()?, receipt))
    };
    event.records.iter().filter_map(receipt).collect()
}

/// How long a message waits that failed so often: as long as others of its
/// bucket wait behind it.
fn pause(receives: u32) -> Duration {
    (PAUSE_FIRST * 2u32.saturating_pow(receives.saturating_sub(1))).min(PAUSE_MAX)
}

/// How long ago each message was sent, in milliseconds; of those that say so.
fn ages_ms(event: &SqsEvent, now: Timestamp) -> impl Iterator<Item = f64> {
    let sent_ms = |record: &SqsMessage| -> Option<i64> {
        record.attributes.get("SentTimestamp")?.parse().ok()
    };
    let sent = event.records.iter().filter_map(sent_ms);
    // The queue's clock may be ahead of ours.
    sent.map(move |ms| now.as_millisecond().saturating_sub(ms).max(0) as f64)
}

/// Messages by bucket.
type Groups = BTreeMap<(SaleId, BucketId), Vec<Received>>;

/// Sorts messages by bucket, each bucket's in their order, and sets apart
/// those that can't be read: message id and body.
fn sort(records: Vec<SqsMessage>) -> (Groups, Vec<(String, String)>) {
    let mut groups = Groups::new();
    let mut unreadable = Vec::new();
    for record in records {
        let message_id = record.message_id.unwrap_or_default();
        let body = record.body.unwrap_or_default();
        match serde_json::from_str::<Message>(&body) {
            Ok(message) => {
                let group = groups.entry(message.bucket()).or_default();
                group.push(Received {
                    message_id,
                    message,
                });
            }
            Err(error) => {
                // The body may name a shopper; where and what is enough.
                tracing::error!(message_id, line = error.line(), column = error.column(),
                    category = ?error.classify(), "a message can't be read");
                unreadable.push((message_id, body));
            }
        }
    }
    (groups, unreadable)
}

/// Message ids, not receipt handles: a list of another shape would fail, or
/// delete, the whole batch.
fn answer(failed: HashSet<String>) -> SqsBatchResponse {
    let mut answer = SqsBatchResponse::default();
    let mut failed: Vec<_> = failed.into_iter().collect();
    failed.sort();
    answer.batch_item_failures = failed
        .into_iter()
        .map(|id| {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            failure
        })
        .collect();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_waits_longer() {
        let pauses = [1, 2, 3, 5, 6, 50].map(|receives| pause(receives).as_secs());
        assert_eq!(pauses, [1, 2, 4, 16, 20, 20]);
    }
}
