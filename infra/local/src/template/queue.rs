//! Queues, and the events by which they feed functions.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;
use super::names::queue_name;
use super::properties::{self, Number};

/// One FIFO queue.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The logical id.
    pub id: String,
    /// The name, ending in `.fifo`.
    pub name: String,
    /// How long a received message stays hidden.
    pub visibility: Duration,
    /// Is a deduplication id good for its group only?
    pub deduplicate_by_group: bool,
    /// The dead-letter queue's logical id, and the receives before it.
    pub redrive: Option<(String, u32)>,
}

/// A queue that feeds a function.
#[derive(Debug, Clone)]
pub struct QueueEvent {
    /// The function's logical id.
    pub function: String,
    /// The queue's logical id.
    pub queue: String,
    /// Messages in a batch, at most.
    pub batch_size: usize,
    /// Batches at the same time, at most.
    pub concurrency: Option<usize>,
    /// Does the function report which messages of a batch failed?
    pub partial: bool,
}

/// SQS's own default.
const DEFAULT_VISIBILITY_S: u64 = 30;

pub(super) fn read(scope: &Scope, id: &str, given: Option<&Yaml>) -> anyhow::Result<Queue> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        #[serde(default)]
        fifo_queue: bool,
        deduplication_scope: Option<String>,
        visibility_timeout: Option<Number>,
        redrive_policy: Option<Redrive>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Redrive {
        dead_letter_target_arn: String,
        max_receive_count: Number,
    }
    let read: Read = properties::read(
        scope,
        given,
        &[
            "FifoQueue",
            "DeduplicationScope",
            "VisibilityTimeout",
            "RedrivePolicy",
        ],
        &[
            "FifoThroughputLimit",
            "KmsDataKeyReusePeriodSeconds",
            "KmsMasterKeyId",
            "MessageRetentionPeriod",
            "QueueName",
            "RedriveAllowPolicy",
            "SqsManagedSseEnabled",
            "Tags",
        ],
    )?;
    ensure!(read.fifo_queue, "the runner knows FIFO queues only");
    let redrive = match read.redrive_policy {
        None => None,
        Some(policy) => {
            let target = by_arn(scope, &policy.dead_letter_target_arn)?;
            Some((target, policy.max_receive_count.0 as u32))
        }
    };
    Ok(Queue {
        id: id.to_owned(),
        name: queue_name(id),
        visibility: Duration::from_secs(
            read.visibility_timeout
                .map_or(DEFAULT_VISIBILITY_S, |Number(seconds)| seconds),
        ),
        deduplicate_by_group: read.deduplication_scope.as_deref() == Some("messageGroup"),
        redrive,
    })
}

pub(super) fn event(
    scope: &Scope,
    function: &str,
    given: Option<&Yaml>,
) -> anyhow::Result<QueueEvent> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        queue: String,
        batch_size: Option<Number>,
        #[serde(default)]
        function_response_types: Vec<String>,
        scaling_config: Option<Scaling>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Scaling {
        maximum_concurrency: Option<Number>,
    }
    let read: Read = properties::read(
        scope,
        given,
        &[
            "Queue",
            "BatchSize",
            "FunctionResponseTypes",
            "ScalingConfig",
        ],
        &[],
    )?;
    let partial = match read.function_response_types.as_slice() {
        [] => false,
        [one] if one == "ReportBatchItemFailures" => true,
        other => bail!("the runner does not know the response types {other:?}"),
    };
    let queue = by_arn(scope, &read.queue)?;
    Ok(QueueEvent {
        function: function.to_owned(),
        queue,
        batch_size: read.batch_size.map_or(10, |Number(size)| size as usize),
        concurrency: read
            .scaling_config
            .and_then(|scaling| scaling.maximum_concurrency)
            .map(|Number(limit)| limit as usize),
        partial,
    })
}

/// The logical id of the queue with this ARN.
fn by_arn(scope: &Scope, arn: &str) -> anyhow::Result<String> {
    scope
        .resource_with("Arn", arn)
        .map(str::to_owned)
        .with_context(|| format!("{arn} is no queue of the template"))
}
