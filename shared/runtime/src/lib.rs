//! What every function finds around it: its settings and secrets, the clock,
//! the AWS configuration, the log and the metrics; and how a function that is
//! fed events is run, or looks again and again.

mod aws;
mod clock;
mod function;
mod looks;
pub mod metrics;
mod secrets;
mod seldom;
mod settings;
mod telemetry;

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;

pub use aws::cause;
pub use clock::Clock;
pub use function::{EventFunction, Invocation, serve};
pub use looks::{is_near, looks};
pub use metrics::Metric;
pub use secrets::SecretUnavailable;
pub use seldom::Seldom;
pub use settings::{MissingSetting, REFERENCE, Settings};
pub use telemetry::{init as init_telemetry, start as start_telemetry};

/// Longest wait for one answer of a service. Without one, a call that hangs lasts
/// as long as its function.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// Longest wait for a call, the client's own retries included.
const CALL_MAX: Duration = Duration::from_secs(10);

/// The surroundings of one execution environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The function's variables, and secrets.
    pub settings: Settings,
    /// Region, credentials and HTTP client for AWS calls.
    pub aws: aws_config::SdkConfig,
    /// Where "now" comes from.
    pub clock: Clock,
}

impl Environment {
    /// As Lambda set it up: variables of the process and the secrets that they
    /// name, the default AWS chain.
    ///
    /// # Errors
    /// A secret can't be read: Lambda then reports a failed start.
    pub async fn load() -> Result<Self, SecretUnavailable> {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(ATTEMPT_MAX)
            .operation_timeout(CALL_MAX)
            .build();
        let aws = aws_config::from_env().timeout_config(timeouts).load().await;
        let mut settings = Settings::from_process();
        secrets::fetch(&mut settings, &aws).await?;
        Ok(Self {
            settings,
            aws,
            clock: Clock::system(),
        })
    }
}
