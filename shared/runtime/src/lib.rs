//! What every function finds around it: its settings and secrets, the clock,
//! the AWS configuration, the log and the metrics; and how a function that is
//! fed events is run.

mod aws;
mod clock;
mod function;
pub mod metrics;
mod secrets;
mod settings;
mod telemetry;

pub use aws::cause;
pub use clock::Clock;
pub use function::{EventFunction, Invocation, serve};
pub use metrics::Metric;
pub use secrets::SecretUnavailable;
pub use settings::{MissingSetting, REFERENCE, Settings};
pub use telemetry::{init as init_telemetry, start as start_telemetry};

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
        let aws = aws_config::load_from_env().await;
        let mut settings = Settings::from_process();
        secrets::fetch(&mut settings, &aws).await?;
        Ok(Self {
            settings,
            aws,
            clock: Clock::system(),
        })
    }
}
