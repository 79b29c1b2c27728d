//! A queue that lives in memory: the rules of [`crate::fifo`] with a clock, a
//! dead-letter queue, and a bell for those who wait for messages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use md5::{Digest, Md5};
use runtime::Clock;
use tokio::sync::Notify;

use crate::fifo::{Faults, Fifo, Message, NewMessage, ReceiptError, Rules};
use crate::template::{self, ACCOUNT, REGION};

/// One queue. Messages are inspected and sent by tests; functions use its URL.
#[derive(Debug)]
pub struct Queue {
    id: String,
    name: String,
    fifo: Mutex<Fifo>,
    dead_letters: Option<Arc<Queue>>,
    changed: Notify,
    clock: Clock,
}

impl Queue {
    fn new(queue: &template::Queue, dead_letters: Option<Arc<Queue>>) -> Self {
        Self {
            id: queue.id.clone(),
            name: queue.name.clone(),
            fifo: Mutex::new(Fifo::new(Rules {
                visibility: queue.visibility,
                deduplicate_by_group: queue.deduplicate_by_group,
                receives_max: queue.redrive.as_ref().map(|(_, receives)| *receives),
            })),
            dead_letters,
            changed: Notify::new(),
            clock: Clock::system(),
        }
    }

    /// The queues of a template, dead-letter queues first.
    pub(crate) fn all(queues: &[template::Queue]) -> anyhow::Result<Vec<Arc<Self>>> {
        let mut made: Vec<Arc<Self>> = Vec::new();
        let (redriven, plain): (Vec<_>, Vec<_>) =
            queues.iter().partition(|queue| queue.redrive.is_some());
        for queue in plain.into_iter().chain(redriven) {
            let letters = match &queue.redrive {
                None => None,
                Some((target, _)) => {
                    let target = made.iter().find(|made| made.id == *target);
                    Some(Arc::clone(
                        target.context("a dead-letter queue has none itself")?,
                    ))
                }
            };
            made.push(Arc::new(Self::new(queue, letters)));
        }
        Ok(made)
    }

    /// The logical id in the template.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name, ending in `.fifo`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Amazon resource name.
    pub fn arn(&self) -> String {
        format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{}", self.name)
    }

    /// Puts a message in. Gives its id and sequence number.
    pub fn send(&self, group: &str, deduplication: &str, body: &str) -> (String, u64) {
        let message = NewMessage {
            group: group.to_owned(),
            deduplication: deduplication.to_owned(),
            body: body.to_owned(),
        };
        self.put(message)
    }

    pub(crate) fn put(&self, message: NewMessage) -> (String, u64) {
        let sent = self.lock().send(Instant::now(), self.now_ms(), message);
        self.changed.notify_waiters();
        sent
    }

    /// All messages, those in flight included, in order.
    pub fn messages(&self) -> Vec<Message> {
        self.lock().messages()
    }

    /// How many messages are not in flight, and how many are.
    pub fn counts(&self) -> (usize, usize) {
        self.lock().counts(Instant::now())
    }

    /// Messages that were received too often.
    pub fn dead_letters(&self) -> Vec<Message> {
        let letters = self.dead_letters.as_ref();
        letters.map(|queue| queue.messages()).unwrap_or_default()
    }

    /// Lets things go wrong with messages that are sent from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub(crate) fn visibility(&self) -> Duration {
        self.lock().rules.visibility
    }

    pub(crate) fn receives_max(&self) -> Option<u32> {
        self.lock().rules.receives_max
    }

    pub(crate) fn dead_letter_arn(&self) -> Option<String> {
        self.dead_letters.as_ref().map(|queue| queue.arn())
    }

    /// Receives up to `limit` messages; waits for one for so long.
    pub(crate) async fn receive(
        &self,
        limit: usize,
        visibility: Duration,
        wait: Duration,
    ) -> Vec<Message> {
        let end = Instant::now() + wait;
        loop {
            // Armed before looking, so that a message that arrives in
            // between rings.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let now = Instant::now();
            let (received, dead, next) = {
                let mut fifo = self.lock();
                let (received, dead) = fifo.receive(now, self.now_ms(), limit, visibility);
                (received, dead, fifo.next_visible(now))
            };
            for letter in dead {
                tracing::warn!(queue = self.name, group = letter.group, "a dead letter");
                if let Some(queue) = &self.dead_letters {
                    queue.lock().accept(letter);
                    queue.changed.notify_waiters();
                }
            }
            if !received.is_empty() || now >= end {
                return received;
            }
            let until = next.map_or(end, |next| next.min(end));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    pub(crate) fn delete(&self, receipt: &str) -> Result<(), ReceiptError> {
        let deleted = self.lock().delete(Instant::now(), receipt);
        self.changed.notify_waiters();
        deleted
    }

    pub(crate) fn change_visibility(
        &self,
        receipt: &str,
        visibility: Duration,
    ) -> Result<(), ReceiptError> {
        let now = Instant::now();
        let changed = self.lock().change_visibility(now, receipt, visibility);
        self.changed.notify_waiters();
        changed
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    fn lock(&self) -> MutexGuard<'_, Fifo> {
        self.fifo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The MD5 of a body, as SQS tells it.
pub(crate) fn md5_of(body: &str) -> String {
    let digest = Md5::digest(body);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A message's attributes, as SQS names them.
pub(crate) fn attributes(message: &Message) -> Vec<(&'static str, String)> {
    let first = message.first_received_ms.unwrap_or(message.sent_ms);
    vec![
        ("ApproximateReceiveCount", message.receives.to_string()),
        ("ApproximateFirstReceiveTimestamp", first.to_string()),
        ("SentTimestamp", message.sent_ms.to_string()),
        ("SenderId", "AIDALOCAL".to_owned()),
        ("SequenceNumber", sequence_number(message.sequence)),
        ("MessageGroupId", message.group.clone()),
        ("MessageDeduplicationId", message.deduplication.clone()),
    ]
}

/// SQS's sequence numbers have twenty digits.
pub(crate) fn sequence_number(sequence: u64) -> String {
    format!("{sequence:020}")
}
