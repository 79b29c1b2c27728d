//! How the ledger fails, sorted by what the caller can do about it.

/// What can go wrong at the ledger.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not answer, is throttled, or other writes were in the way for
    /// longer than the retries last. Nothing is known; trying again is safe.
    #[error("the ledger does not answer: {0}")]
    Unavailable(String),
    /// A condition did not hold: someone else changed the row.
    #[error("the row was changed by another write")]
    Conflict,
    /// A row can't be read, or a request is not valid: a fault of ours.
    #[error("the ledger is broken: {0}")]
    Broken(String),
}

impl Error {
    /// Whether trying again can help.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Broken(_))
    }
}
