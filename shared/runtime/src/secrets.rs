//! Secrets by reference: the variable `X_SECRET` holds the ARN or the name of
//! a secret of Secrets Manager, whose text becomes the setting `X`.
//!
//! They are read once, when an environment starts. Environments that run keep
//! what they have read: a secret that is changed is known to all of a function
//! once the function is deployed anew, or any variable of it was changed.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::Builder;
use aws_sdk_secretsmanager::config::retry::RetryConfig;
use aws_sdk_secretsmanager::config::timeout::TimeoutConfig;
use futures::future::try_join_all;

use crate::Settings;
use crate::settings::REFERENCE;

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Longest wait for all attempts together: Lambda gives a start 10 s.
const FETCH_MAX: Duration = Duration::from_secs(6);
/// How often a secret is asked for.
const ATTEMPTS: u32 = 3;

/// A secret that a variable names can't be read.
#[derive(Debug, thiserror::Error)]
#[error("the secret that the variable {variable} names {problem}")]
pub struct SecretUnavailable {
    variable: String,
    problem: String,
}

/// Adds the settings that are given by reference, all of them at once. Those
/// that are given directly are not asked for.
///
/// # Errors
/// One of them can't be read, or it is empty.
pub(crate) async fn fetch(
    settings: &mut Settings,
    aws: &SdkConfig,
) -> Result<(), SecretUnavailable> {
    let references: Vec<_> = settings.references().collect();
    if references.is_empty() {
        return Ok(());
    }
    let client = client(aws);
    let asked = references
        .into_iter()
        .map(|(name, secret)| read(&client, name, secret));
    let values = try_join_all(asked).await?;
    settings.extend(values);
    Ok(())
}

fn client(aws: &SdkConfig) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_MAX)
        .operation_attempt_timeout(ANSWER_MAX)
        .operation_timeout(FETCH_MAX)
        .build();
    let config = Builder::from(aws)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts);
    Client::from_conf(config.build())
}

/// The setting `name`, and the text of the secret.
async fn read(
    client: &Client,
    name: &str,
    secret: &str,
) -> Result<(String, String), SecretUnavailable> {
    let unavailable = |problem: String| SecretUnavailable {
        variable: format!("{name}{REFERENCE}"),
        problem,
    };
    let asked = client.get_secret_value().secret_id(secret).send().await;
    // The error itself is not passed on: it may hold the answer.
    let answer = asked.map_err(|error| {
        let cause = crate::cause(&error);
        unavailable(format!("can't be read: {cause}"))
    })?;
    match answer.secret_string {
        Some(text) if !text.is_empty() => Ok((name.to_owned(), text)),
        _ => Err(unavailable("holds no text".to_owned())),
    }
}

#[cfg(test)]
mod tests;
