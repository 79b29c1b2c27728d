//! The controller function.

use runtime::{Environment, EventFunction, Invocation};

/// The controller function.
#[derive(Debug)]
pub struct ControllerFunction;

impl EventFunction for ControllerFunction {
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
