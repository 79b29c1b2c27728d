//! The queue.

/// The message was not stored, or nobody knows.
#[derive(Debug, thiserror::Error)]
#[error("the queue does not answer: {0}")]
pub struct Error(pub String);
