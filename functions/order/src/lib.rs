//! The order function.

use runtime::{Environment, EventFunction, Invocation};

/// The order function.
#[derive(Debug)]
pub struct OrderFunction;

impl EventFunction for OrderFunction {
    type Event = aws_lambda_events::event::sqs::SqsEvent;
    type Answer = aws_lambda_events::event::sqs::SqsBatchResponse;

    async fn start(_environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self)
    }

    async fn handle(
        &self,
        _event: Self::Event,
        _invocation: Invocation,
    ) -> anyhow::Result<Self::Answer> {
        Ok(aws_lambda_events::event::sqs::SqsBatchResponse::default())
    }
}
