//! The queues behind SQS's own protocol (AWS JSON 1.0), for the real SDK.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::serve::ListenerExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::fifo::{NewMessage, ReceiptError};
use crate::queue::{self, Queue};
use crate::template::ACCOUNT;

/// SQS's limit of a message, and of a batch.
const MESSAGE_MAX: usize = 1024 * 1024;
/// Messages in a batch, at most.
const BATCH_MAX: usize = 10;
/// A long poll, at most.
const WAIT_MAX_S: u64 = 20;

const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

struct Server {
    url: String,
    queues: Vec<Arc<Queue>>,
}

/// Serves the queues until told to stop. `url` is where they are reached.
pub(crate) async fn serve(
    url: String,
    queues: Vec<Arc<Queue>>,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) {
    let app = Router::new()
        .fallback(answer)
        .layer(DefaultBodyLimit::max(2 * MESSAGE_MAX))
        .with_state(Arc::new(Server { url, queues }));
    let listener = listener.tap_io(|stream| {
        // Answers are small and awaited.
        let _ = stream.set_nodelay(true);
    });
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the queue server stopped");
    }
}

async fn answer(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let action = headers
        .get("x-amz-target")
        .and_then(|target| target.to_str().ok()?.strip_prefix("AmazonSQS."))
        .unwrap_or_default();
    let (status, value, error) = match server.act(action, &body).await {
        Ok(value) => (StatusCode::OK, value, None),
        Err(error) => {
            let body = json!({
                "__type": format!("com.amazonaws.sqs#{}", error.name),
                "message": error.message,
            });
            let code = HeaderValue::from_str(&format!("{};Sender", error.query_code));
            (StatusCode::BAD_REQUEST, body, code.ok())
        }
    };
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-amz-json-1.0"),
    );
    if let Some(error) = error {
        headers.insert(QUERY_ERROR, error);
    }
    response
}

/// An error in SQS's two spellings.
struct Error {
    name: &'static str,
    query_code: &'static str,
    message: String,
}

impl Error {
    fn of(name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            query_code: name,
            message: message.into(),
        }
    }

    fn parameter(message: impl Into<String>) -> Self {
        Self::of("InvalidParameterValue", message)
    }

    fn missing(parameter: &str) -> Self {
        Self::of(
            "MissingParameter",
            format!("The request must contain the parameter {parameter}."),
        )
    }
}

impl From<ReceiptError> for Error {
    fn from(error: ReceiptError) -> Self {
        match error {
            ReceiptError::Invalid => {
                Self::of("ReceiptHandleIsInvalid", "The receipt handle is not valid.")
            }
            ReceiptError::Expired => Self::parameter("The receipt handle has expired."),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Named {
    queue_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Of<T> {
    queue_url: String,
    #[serde(flatten)]
    rest: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Send {
    message_body: String,
    message_group_id: Option<String>,
    message_deduplication_id: Option<String>,
    delay_seconds: Option<u32>,
    #[serde(default)]
    message_attributes: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<T> {
    entries: Vec<Entry<T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<T> {
    id: String,
    #[serde(flatten)]
    entry: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Receive {
    max_number_of_messages: Option<usize>,
    visibility_timeout: Option<u64>,
    wait_time_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Receipt {
    receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeVisibility {
    receipt_handle: String,
    visibility_timeout: u64,
}

#[derive(Deserialize)]
struct Nothing {}

impl Server {
    async fn act(&self, action: &str, body: &[u8]) -> Result<Value, Error> {
        match action {
            "GetQueueUrl" => {
                let Named { queue_name } = read(body)?;
                let queue = self.named(&queue_name)?;
                Ok(json!({"QueueUrl": format!("{}/{ACCOUNT}/{}", self.url, queue.name())}))
            }
            "GetQueueAttributes" => {
                let (queue, Nothing {}) = self.of(body)?;
                Ok(json!({ "Attributes": queue_attributes(queue) }))
            }
            "SendMessage" => {
                let (queue, message) = self.of(body)?;
                send(queue, message)
            }
            "SendMessageBatch" => {
                let (queue, batch) = self.of::<Batch<Send>>(body)?;
                let size: usize = batch
                    .entries
                    .iter()
                    .map(|e| e.entry.message_body.len())
                    .sum();
                if size > MESSAGE_MAX {
                    return Err(Error {
                        query_code: "AWS.SimpleQueueService.BatchRequestTooLong",
                        ..Error::of("BatchRequestTooLong", "The batch is too long.")
                    });
                }
                each(batch.entries, |message| send(queue, message))
            }
            "ReceiveMessage" => {
                let (queue, receive) = self.of(body)?;
                self.receive(queue, receive).await
            }
            "DeleteMessage" => {
                let (queue, Receipt { receipt_handle }) = self.of(body)?;
                queue.delete(&receipt_handle)?;
                Ok(json!({}))
            }
            "DeleteMessageBatch" => {
                let (queue, batch) = self.of::<Batch<Receipt>>(body)?;
                each(batch.entries, |receipt| {
                    queue.delete(&receipt.receipt_handle)?;
                    Ok(json!({}))
                })
            }
            "ChangeMessageVisibility" => {
                let (queue, change) = self.of::<ChangeVisibility>(body)?;
                let visibility = Duration::from_secs(change.visibility_timeout);
                queue.change_visibility(&change.receipt_handle, visibility)?;
                Ok(json!({}))
            }
            other => Err(Error::of(
                "UnsupportedOperation",
                format!("The local queue does not know {other}."),
            )),
        }
    }

    async fn receive(&self, queue: &Queue, request: Receive) -> Result<Value, Error> {
        let limit = request.max_number_of_messages.unwrap_or(1);
        if !(1..=BATCH_MAX).contains(&limit) {
            return Err(Error::parameter(
                "MaxNumberOfMessages must be from 1 to 10.",
            ));
        }
        let visibility = request.visibility_timeout.map(Duration::from_secs);
        let visibility = visibility.unwrap_or_else(|| queue.visibility());
        let wait = request.wait_time_seconds.unwrap_or(0).min(WAIT_MAX_S);
        let messages = queue
            .receive(limit, visibility, Duration::from_secs(wait))
            .await;
        if messages.is_empty() {
            return Ok(json!({}));
        }
        let messages = messages.iter().map(|message| {
            let attributes: Map<String, Value> = queue::attributes(message)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            json!({
                "MessageId": message.id,
                "ReceiptHandle": message.receipt(),
                "Body": message.body,
                "MD5OfBody": queue::md5_of(&message.body),
                "Attributes": attributes,
            })
        });
        Ok(json!({"Messages": messages.collect::<Vec<_>>()}))
    }

    fn of<T: DeserializeOwned>(&self, body: &[u8]) -> Result<(&Queue, T), Error> {
        let Of { queue_url, rest } = read(body)?;
        let name = queue_url.rsplit('/').next().unwrap_or_default();
        Ok((self.named(name)?, rest))
    }

    fn named(&self, name: &str) -> Result<&Queue, Error> {
        let queue = self.queues.iter().find(|queue| queue.name() == name);
        queue.map(AsRef::as_ref).ok_or_else(|| Error {
            query_code: "AWS.SimpleQueueService.NonExistentQueue",
            ..Error::of("QueueDoesNotExist", "The specified queue does not exist.")
        })
    }
}

fn send(queue: &Queue, message: Send) -> Result<Value, Error> {
    let group = message
        .message_group_id
        .ok_or_else(|| Error::missing("MessageGroupId"))?;
    let deduplication = message.message_deduplication_id.ok_or_else(|| {
        Error::parameter("The queue should have MessageDeduplicationId provided explicitly.")
    })?;
    for (name, value) in [
        ("MessageGroupId", &group),
        ("MessageDeduplicationId", &deduplication),
    ] {
        let plain = value.bytes().all(|byte| byte.is_ascii_graphic());
        if value.is_empty() || value.len() > 128 || !plain {
            return Err(Error::parameter(format!(
                "{name} must be 1 to 128 letters, digits and punctuation."
            )));
        }
    }
    if message.message_body.is_empty() {
        return Err(Error::missing("MessageBody"));
    }
    if message.message_body.len() > MESSAGE_MAX {
        return Err(Error::parameter(
            "The message is longer than 1048576 bytes.",
        ));
    }
    if message.delay_seconds.is_some_and(|seconds| seconds > 0) {
        return Err(Error::parameter("A FIFO queue delays no single message."));
    }
    if !message.message_attributes.is_empty() {
        return Err(Error::of(
            "UnsupportedOperation",
            "The local queue keeps no message attributes.",
        ));
    }
    let md5 = queue::md5_of(&message.message_body);
    let (id, sequence) = queue.put(NewMessage {
        group,
        deduplication,
        body: message.message_body,
    });
    Ok(json!({
        "MessageId": id,
        "MD5OfMessageBody": md5,
        "SequenceNumber": queue::sequence_number(sequence),
    }))
}

/// The answer to a batch: each entry succeeds or fails by itself.
fn each<T>(
    entries: Vec<Entry<T>>,
    act: impl Fn(T) -> Result<Value, Error>,
) -> Result<Value, Error> {
    if entries.is_empty() {
        return Err(Error {
            query_code: "AWS.SimpleQueueService.EmptyBatchRequest",
            ..Error::of("EmptyBatchRequest", "The batch is empty.")
        });
    }
    if entries.len() > BATCH_MAX {
        return Err(Error {
            query_code: "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            ..Error::of(
                "TooManyEntriesInBatchRequest",
                "At most 10 entries in a batch.",
            )
        });
    }
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for Entry { id, entry } in entries {
        match act(entry) {
            Ok(mut value) => {
                value["Id"] = id.into();
                successful.push(value);
            }
            Err(error) => failed.push(json!({
                "Id": id,
                "Code": error.name,
                "Message": error.message,
                "SenderFault": true,
            })),
        }
    }
    Ok(json!({"Successful": successful, "Failed": failed}))
}

fn queue_attributes(queue: &Queue) -> Value {
    let (waiting, hidden) = queue.counts();
    let mut attributes = json!({
        "ApproximateNumberOfMessages": waiting.to_string(),
        "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
        "ApproximateNumberOfMessagesDelayed": "0",
        "FifoQueue": "true",
        "QueueArn": queue.arn(),
        "VisibilityTimeout": queue.visibility().as_secs().to_string(),
    });
    if let (Some(arn), Some(receives)) = (queue.dead_letter_arn(), queue.receives_max()) {
        let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": receives});
        attributes["RedrivePolicy"] = policy.to_string().into();
    }
    attributes
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::parameter(error.to_string()))
}
