//! How a gate fails. Never as "empty": what is not known is refused.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What can go wrong at a gate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bucket's script is gone or of another epoch: frozen until it is
    /// recovered from the ledger.
    #[error("the bucket is frozen")]
    Frozen,
    /// The bucket's counter is missing: it was never loaded, or was lost.
    #[error("the bucket is not loaded")]
    NotReady,
    /// The cluster does not answer in time, or not as it should.
    #[error("the gate does not answer: {0}")]
    Unavailable(String),
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
            Self::Frozen
        } else {
            // The text of an error may quote the command, and a command holds
            // the shopper: only its kind is passed on.
            Self::Unavailable(format!(
                "{:?} {}",
                error.kind(),
                error.code().unwrap_or_default()
            ))
        }
    }
}
