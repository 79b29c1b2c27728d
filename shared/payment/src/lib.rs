//! Payment.

/// The provider does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the payment provider does not answer: {0}")]
pub struct Error(pub String);
