//! The gate.

/// What can go wrong at a gate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bucket's script is gone: frozen until it is recovered.
    #[error("the bucket is frozen")]
    Frozen,
    /// The bucket's counter is missing: it was never loaded, or was lost.
    #[error("the bucket is not loaded")]
    NotReady,
    /// The cluster does not answer.
    #[error("the gate does not answer: {0}")]
    Unavailable(String),
}
