//! The status function.

use api::{Call, HttpFunction, Problem, Reply};
use runtime::Environment;

/// The status function.
#[derive(Debug)]
pub struct StatusFunction;

impl HttpFunction for StatusFunction {
    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            _ => Err(Problem::not_found()),
        }
    }
}
