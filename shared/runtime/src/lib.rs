//! What every function finds around it: its settings, the clock, the AWS
//! configuration, the log and the metrics; and how a function that is fed events
//! is run.

mod clock;
mod function;
pub mod metrics;
mod settings;
mod telemetry;

pub use clock::Clock;
pub use function::{EventFunction, Invocation, serve};
pub use metrics::Metric;
pub use settings::{MissingSetting, Settings};
pub use telemetry::{init as init_telemetry, start as start_telemetry};

/// The surroundings of one execution environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The function's variables.
    pub settings: Settings,
    /// Region, credentials and HTTP client for AWS calls.
    pub aws: aws_config::SdkConfig,
    /// Where "now" comes from.
    pub clock: Clock,
}

impl Environment {
    /// As Lambda set it up: variables of the process, the default AWS chain.
    pub async fn load() -> Self {
        Self {
            settings: Settings::from_process(),
            aws: aws_config::load_from_env().await,
            clock: Clock::system(),
        }
    }
}
