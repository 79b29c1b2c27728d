//! The queue between a yes and its order: SQS FIFO, one group for each bucket.
//!
//! A yes is only told once its message is stored. Within a group one worker
//! reads at a time, so no two writers meet on a bucket's row.

mod message;

pub use message::{ClaimCreated, Message, Rebalance, Recover};

use std::time::Duration;

use aws_sdk_sqs::Client;
use domain::BucketId;
use jiff::Timestamp;
use runtime::Environment;

/// Longest wait for the queue to store a message: within the time that a
/// claim may take, and far below the gateway's 30 s.
const SEND_MAX: Duration = Duration::from_millis(2_500);

/// The message was not stored, or nobody knows. Sending again is safe:
/// everything behind is keyed by the claim.
#[derive(Debug, thiserror::Error)]
#[error("the queue does not answer: {0}")]
pub struct Error(pub String);

/// The sending side of a queue.
#[derive(Debug, Clone)]
pub struct Queue {
    client: Client,
    url: String,
}

impl Queue {
    /// Connects to the queue that `QUEUE_URL` names: yeses on their way.
    ///
    /// # Errors
    /// The variable is not set.
    pub fn connect(environment: &Environment) -> anyhow::Result<Self> {
        Self::at(environment, "QUEUE_URL")
    }

    /// Connects to the queue that `DEAD_LETTER_QUEUE_URL` names: what nobody
    /// can read.
    ///
    /// # Errors
    /// The variable is not set.
    pub fn dead_letters(environment: &Environment) -> anyhow::Result<Self> {
        Self::at(environment, "DEAD_LETTER_QUEUE_URL")
    }

    fn at(environment: &Environment, variable: &str) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        let mut config = aws_sdk_sqs::config::Builder::from(&environment.aws);
        if let Some(url) = settings.get("AWS_ENDPOINT_URL_SQS") {
            config = config.endpoint_url(url);
        }
        Ok(Self {
            client: Client::from_conf(config.build()),
            url: settings.require(variable)?.to_owned(),
        })
    }

    /// Stores a message in its bucket's group.
    ///
    /// # Errors
    /// Not stored, or nobody knows.
    pub async fn send(&self, message: &Message) -> Result<(), Error> {
        let body = serde_json::to_string(message).map_err(|error| Error(error.to_string()))?;
        self.store(&message.group(), &message.deduplication_id(), &body)
            .await
    }

    /// Stores a message once more, behind what its group holds by now.
    ///
    /// # Errors
    /// Not stored, or nobody knows.
    pub async fn send_behind(&self, message: &Message, now: Timestamp) -> Result<(), Error> {
        let body = serde_json::to_string(message).map_err(|error| Error(error.to_string()))?;
        // A name of its own: as a repeat of the first it would be dropped.
        let name = format!("{}_{}", message.deduplication_id(), now.as_millisecond());
        self.store(&message.group(), &name, &body).await
    }

    /// Stores a body as it came, under the id of the message that it was.
    ///
    /// # Errors
    /// Not stored, or nobody knows.
    pub async fn send_raw(&self, message_id: &str, body: &str) -> Result<(), Error> {
        self.store("unreadable", message_id, body).await
    }

    /// Has a message that was received, and not deleted, shown again after so
    /// long; until then its group waits.
    ///
    /// # Errors
    /// Not done, or nobody knows: it is shown again when the queue's own time
    /// is over.
    pub async fn show_again(&self, receipt: &str, after: Duration) -> Result<(), Error> {
        let change = self
            .client
            .change_message_visibility()
            .queue_url(&self.url)
            .receipt_handle(receipt)
            .visibility_timeout(i32::try_from(after.as_secs()).unwrap_or(i32::MAX))
            .send();
        match tokio::time::timeout(SEND_MAX, change).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error(runtime::cause(&error).to_owned())),
            Err(_) => Err(Error("time-out".to_owned())),
        }
    }

    async fn store(&self, group: &str, deduplication_id: &str, body: &str) -> Result<(), Error> {
        let send = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_group_id(group)
            .message_deduplication_id(deduplication_id)
            .message_body(body)
            .send();
        match tokio::time::timeout(SEND_MAX, send).await {
            Ok(Ok(stored)) if stored.message_id().is_some() => Ok(()),
            Ok(Ok(_)) => Err(Error("no message id".to_owned())),
            // Debug of an SDK error may quote the body, which names a shopper.
            Ok(Err(error)) => Err(Error(
                error
                    .as_service_error()
                    .map_or("no connection", |_| "refused")
                    .to_owned(),
            )),
            Err(_) => Err(Error("time-out".to_owned())),
        }
    }
}

/// The group of a bucket.
pub(crate) fn group(sale: &domain::SaleId, bucket: BucketId) -> String {
    format!("{sale}.{bucket}")
}
