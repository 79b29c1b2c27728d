//! The admin function.

use api::{Call, HttpFunction, Problem, Reply};
use runtime::Environment;

/// The admin function.
#[derive(Debug)]
pub struct AdminFunction;

impl HttpFunction for AdminFunction {
    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            _ => Err(Problem::not_found()),
        }
    }
}
