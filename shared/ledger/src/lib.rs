//! The ledger.

/// What can go wrong at the ledger.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not answer, is throttled, or another write was in the way.
    #[error("the ledger does not answer: {0}")]
    Unavailable(String),
    /// A condition did not hold: someone else changed the row.
    #[error("the row was changed by another write")]
    Conflict,
    /// A row can't be read, or a request is not valid: a fault of ours.
    #[error("the ledger is broken: {0}")]
    Broken(String),
}
