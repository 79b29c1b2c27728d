//! The entry function.

use api::{Call, HttpFunction, Problem, Reply};
use runtime::Environment;

/// The entry function.
#[derive(Debug)]
pub struct EntryFunction;

impl HttpFunction for EntryFunction {
    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            _ => Err(Problem::not_found()),
        }
    }
}
