//! The pass function.

use api::{Call, HttpFunction, Problem, Reply};
use runtime::Environment;

/// The pass function.
#[derive(Debug)]
pub struct PassFunction;

impl HttpFunction for PassFunction {
    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            _ => Err(Problem::not_found()),
        }
    }
}
