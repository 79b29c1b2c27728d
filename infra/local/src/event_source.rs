//! Lambda's event-source mapping: takes batches off a queue, hands them to a
//! function and deletes what it did not report as failed.
//!
//! As in the cloud, a batch may mix groups, but no group is in two batches at
//! once, and it is the *function's* business to report, after a failure, the
//! later messages of that group too: what is not reported is deleted.
//!
//! As there, too, what was reported as failed stays hidden until the queue's
//! visibility timeout is over (minutes), unless the function had it shown earlier.
//! Only a batch whose function did not come to its end shows again after
//! [`EventSource::retry`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::environments::Pool;
use crate::fifo::Message;
use crate::queue::{self, Queue};
use crate::template::REGION;

/// How long one poll waits for a message.
const WAIT: Duration = Duration::from_secs(20);

/// One queue that feeds one function.
pub(crate) struct EventSource {
    pub(crate) queue: Arc<Queue>,
    pub(crate) pool: Arc<Pool>,
    /// Messages in a batch, at most.
    pub(crate) batch_size: usize,
    /// Batches at the same time, at most.
    pub(crate) concurrency: usize,
    /// Does the function report which messages failed?
    pub(crate) partial: bool,
    /// When messages show again whose function did not come to its end.
    pub(crate) retry: Duration,
}

impl EventSource {
    /// Polls until told to stop.
    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let source = Arc::new(self);
        let slots = Arc::new(Semaphore::new(source.concurrency));
        let poll = async {
            // A slot first: a batch that waits for one would age in flight.
            while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
                // What nobody can take is not received either.
                source.pool.alive().await;
                let visibility = source.queue.visibility();
                let batch = source
                    .queue
                    .receive(source.batch_size, visibility, WAIT)
                    .await;
                if batch.is_empty() {
                    continue;
                }
                let source = Arc::clone(&source);
                tokio::spawn(async move {
                    source.hand_over(batch).await;
                    drop(slot);
                });
            }
        };
        tokio::select! {
            () = poll => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }

    async fn hand_over(&self, batch: Vec<Message>) {
        let (failed, ended) = match serde_json::to_vec(&self.event(&batch)) {
            Err(error) => {
                tracing::error!(%error, "a batch can't be handed over");
                (all(&batch), false)
            }
            Ok(event) => match self.pool.invoke(event).await {
                Ok(answer) if self.partial => (failures(&batch, &answer), true),
                Ok(_) => (HashSet::new(), true),
                Err(error) => {
                    tracing::warn!(queue = self.queue.name(), %error, "a batch failed");
                    (all(&batch), false)
                }
            },
        };
        let retry = self.retry.min(self.queue.visibility());
        for message in &batch {
            let receipt = message.receipt();
            let done = match (failed.contains(message.id.as_str()), ended) {
                (true, true) => continue,
                (true, false) => self.queue.change_visibility(&receipt, retry),
                (false, _) => self.queue.delete(&receipt),
            };
            if let Err(error) = done {
                // It shows again by itself, and is handled again.
                tracing::warn!(queue = self.queue.name(), ?error, "a receipt is of no use");
            }
        }
    }

    fn event(&self, batch: &[Message]) -> SqsEvent {
        let arn = self.queue.arn();
        let mut event = SqsEvent::default();
        event.records = batch
            .iter()
            .map(|message| {
                let mut record = SqsMessage::default();
                record.message_id = Some(message.id.clone());
                record.receipt_handle = Some(message.receipt());
                record.body = Some(message.body.clone());
                record.md5_of_body = Some(queue::md5_of(&message.body));
                record.attributes = queue::attributes(message)
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect();
                record.event_source_arn = Some(arn.clone());
                record.event_source = Some("aws:sqs".to_owned());
                record.aws_region = Some(REGION.to_owned());
                record
            })
            .collect();
        event
    }
}

fn all(batch: &[Message]) -> HashSet<&str> {
    batch.iter().map(|message| message.id.as_str()).collect()
}

/// The ids that the function reported. An answer that can't be read, or names
/// a message that was not in the batch, fails the whole batch.
fn failures<'a>(batch: &'a [Message], answer: &[u8]) -> HashSet<&'a str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        batch_item_failures: Option<Vec<Failure>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Failure {
        item_identifier: String,
    }
    let ids = all(batch);
    let Ok(answer) = serde_json::from_slice::<Value>(answer) else {
        return ids;
    };
    if answer.is_null() {
        return HashSet::new();
    }
    let Ok(answer) = serde_json::from_value::<Answer>(answer) else {
        return ids;
    };
    let mut failed = HashSet::new();
    for failure in answer.batch_item_failures.unwrap_or_default() {
        match ids.get(failure.item_identifier.as_str()) {
            Some(id) => failed.insert(*id),
            None => return ids,
        };
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use aws_config::SdkConfig;
    use futures::future::BoxFuture;
    use runtime::{Clock, Environment, Invocation, Settings};
    use serde_json::json;

    use crate::functions::Instance;
    use crate::template;

    /// Bodies of all batches, of the one test that uses [`start`].
    static BATCHES: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

    /// Reports every message whose body is `bad`.
    struct Picky;

    impl Instance for Picky {
        fn handle<'a>(
            &'a self,
            event: &'a [u8],
            _: Invocation,
        ) -> BoxFuture<'a, anyhow::Result<Vec<u8>>> {
            Box::pin(async move {
                let event: SqsEvent = serde_json::from_slice(event)?;
                let body = |record: &SqsMessage| record.body.clone().unwrap();
                let failures: Vec<Value> = event
                    .records
                    .iter()
                    .filter(|record| body(record) == "bad")
                    .map(|record| json!({"itemIdentifier": record.message_id}))
                    .collect();
                let bodies = event.records.iter().map(body).collect();
                BATCHES.lock().unwrap().push(bodies);
                Ok(json!({ "batchItemFailures": failures })
                    .to_string()
                    .into_bytes())
            })
        }
    }

    fn start(_: Environment) -> BoxFuture<'static, anyhow::Result<Box<dyn Instance>>> {
        Box::pin(async { Ok(Box::new(Picky) as Box<dyn Instance>) })
    }

    fn queues() -> Vec<Arc<Queue>> {
        let queue = |id: &str, redrive| template::Queue {
            id: id.to_owned(),
            name: format!("{id}.fifo"),
            visibility: Duration::from_millis(200),
            deduplicate_by_group: true,
            redrive,
        };
        Queue::all(&[
            queue("work", Some(("dead".to_owned(), 2))),
            queue("dead", None),
        ])
        .unwrap()
    }

    #[tokio::test]
    async fn a_failed_message_comes_again_and_ends_as_a_dead_letter() {
        let (_stop, stopped) = watch::channel(false);
        let environment = Environment {
            settings: Settings::default(),
            aws: SdkConfig::builder().build(),
            clock: Clock::system(),
        };
        let timeout = Duration::from_secs(5);
        let pool = Pool::new(
            "f".to_owned(),
            timeout,
            9,
            start,
            environment,
            stopped.clone(),
        );
        let queue = Arc::clone(&queues()[1]);
        for (group, body) in [("a", "good"), ("a", "bad"), ("a", "late"), ("b", "other")] {
            queue.send(group, body, body);
        }
        let source = EventSource {
            queue: Arc::clone(&queue),
            pool: Arc::new(pool),
            batch_size: 2,
            concurrency: 1,
            partial: true,
            retry: Duration::from_millis(50),
        };
        let running = tokio::spawn(source.run(stopped));
        let end = std::time::Instant::now() + Duration::from_secs(5);
        while !queue.messages().is_empty() && std::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        running.abort();
        let letters: Vec<String> = queue
            .dead_letters()
            .into_iter()
            .map(|one| one.body)
            .collect();
        assert_eq!(letters, ["bad"]);
        let batches = BATCHES.lock().unwrap().clone();
        assert_eq!(batches[0], ["good", "bad"]);
        assert_eq!(batches[1], ["other"], "the group of the bad one is locked");
        assert_eq!(batches[2], ["bad", "late"]);
        assert_eq!(batches.len(), 3);
    }

    #[tokio::test]
    async fn what_a_function_reports_is_believed_only_if_it_makes_sense() {
        let queue = &queues()[1];
        queue.send("a", "1", "1");
        queue.send("a", "2", "2");
        let batch = queue
            .receive(10, Duration::from_secs(60), Duration::ZERO)
            .await;
        let failed = |answer: Value| failures(&batch, answer.to_string().as_bytes()).len();
        assert_eq!(failed(json!(null)), 0);
        assert_eq!(failed(json!({})), 0);
        assert_eq!(failed(json!({"batchItemFailures": null})), 0);
        assert_eq!(failed(json!({"batchItemFailures": []})), 0);
        let report = |id: &str| json!({"batchItemFailures": [{"itemIdentifier": id}]});
        assert_eq!(failed(report(&batch[1].id)), 1);
        assert_eq!(failed(report("unknown")), 2);
        assert_eq!(failed(report("")), 2);
        assert_eq!(
            failed(json!({"batchItemFailures": [{"itemIdentifier": null}]})),
            2
        );
        assert_eq!(failed(json!({"batchItemFailures": [{"other": "x"}]})), 2);
        assert_eq!(failed(json!("all is well")), 2);
    }
}
