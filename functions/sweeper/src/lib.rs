//! The sweeper function.

use runtime::{Environment, EventFunction, Invocation};

/// The sweeper function.
#[derive(Debug)]
pub struct SweeperFunction;

impl EventFunction for SweeperFunction {
    type Event = serde_json::Value;
    type Answer = serde_json::Value;

    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(
        &self,
        _event: Self::Event,
        _invocation: Invocation,
    ) -> anyhow::Result<Self::Answer> {
        Ok(serde_json::Value::Null)
    }
}
