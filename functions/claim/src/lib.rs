//! The claim function.

use api::{Call, HttpFunction, Problem, Reply};
use runtime::Environment;

/// The claim function.
#[derive(Debug)]
pub struct ClaimFunction;

impl HttpFunction for ClaimFunction {
    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            _ => Err(Problem::not_found()),
        }
    }
}
