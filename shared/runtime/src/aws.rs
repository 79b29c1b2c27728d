//! How a call to AWS failed.

use aws_sdk_secretsmanager::error::{ProvideErrorMetadata, SdkError};

/// Why a call to AWS has no answer, in a word: the service's code, or what
/// happened on the way. The error's own text may hold what was asked or
/// answered, and is not for logs.
pub fn cause<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> &str {
    error.code().unwrap_or(match error {
        SdkError::TimeoutError(_) => "time-out",
        SdkError::DispatchFailure(_) => "no connection",
        _ => "an error without a code",
    })
}
