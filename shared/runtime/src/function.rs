//! Functions that are fed events by a queue or a schedule.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use lambda_runtime::{LambdaEvent, service_fn};
use serde::{Serialize, de::DeserializeOwned};

use crate::Environment;

/// A run ends so long before Lambda would end it.
const MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// One run of a function.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Lambda's id of the run.
    pub request_id: String,
    /// When Lambda ends it.
    pub deadline: Timestamp,
}

impl Invocation {
    /// When a run that could go on ends by itself, a few seconds before Lambda
    /// would end it.
    pub fn end(&self) -> Timestamp {
        self.deadline - MARGIN
    }
}

/// A function fed events: `start` once in each execution environment, then
/// `handle` for one event at a time.
pub trait EventFunction: Sized + Send + Sync + 'static {
    /// What arrives.
    type Event: DeserializeOwned + Send;
    /// What goes back.
    type Answer: Serialize + Send;

    /// Connects to what it needs.
    ///
    /// # Errors
    /// A setting is missing: Lambda then reports a failed start.
    fn start(environment: &Environment) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Handles one event.
    ///
    /// # Errors
    /// The run failed as a whole and Lambda may try it again.
    fn handle(
        &self,
        event: Self::Event,
        invocation: Invocation,
    ) -> impl Future<Output = anyhow::Result<Self::Answer>> + Send;
}

type Work<'a, T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + Send + 'a>>;

/// Runs `F` under Lambda.
///
/// # Errors
/// The function could not start.
pub async fn serve<F: EventFunction>() -> Result<(), lambda_runtime::Error> {
    let environment = Environment::load().await?;
    crate::start_telemetry(&environment.settings);
    let function = Arc::new(F::start(&environment).await?);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<F::Event>| {
        let function = Arc::clone(&function);
        async move {
            let deadline = Timestamp::from_millisecond(event.context.deadline as i64)?;
            let invocation = Invocation {
                request_id: event.context.request_id,
                deadline,
            };
            // Boxed: the compiler otherwise lays the whole work of a function
            // out in one type, and gives up on the deepest.
            let work: Work<'_, F::Answer> = Box::pin(function.handle(event.payload, invocation));
            work.await.map_err(|error| {
                tracing::error!(error = format!("{error:#}"), "run failed");
                lambda_runtime::Error::from(error)
            })
        }
    }))
    .await
}
