//! Stops a piece of work at one of its requests: what a function that is
//! killed, or runs into its time limit, leaves behind. Or holds it there while
//! something else happens: the race that would take luck to meet.
//!
//! A saga is proved by stopping it at every point in turn and doing it again:
//!
//! ```no_run
//! # async fn pay(_: &ledger::Ledger) {}
//! # async fn example(environment: runtime::Environment, ledger: ledger::Ledger) {
//! for request in 1.. {
//!     let stopped = testing::stopped_at(
//!         &environment,
//!         testing::Point::BeforeRequest(request),
//!         async |environment| pay(&ledger::Ledger::connect(&environment).unwrap()).await,
//!     );
//!     if stopped.await.is_some() {
//!         break; // it ran to its end with fewer requests
//!     }
//!     pay(&ledger).await; // must come out as if nothing had happened
//! }
//! # }
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use runtime::Environment;
use tokio::sync::Notify;

use crate::database;

/// Where work stops; its requests are counted from 1: those to AWS services,
/// and what else is made a step of [`Steps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The request is not sent.
    BeforeRequest(usize),
    /// The request is carried out, its answer is never seen.
    AfterRequest(usize),
}

/// Does `work` until it reaches `point`, then drops it where it is. `None`
/// means that it was stopped, otherwise it made fewer requests.
pub async fn stopped_at<T>(
    environment: &Environment,
    point: Point,
    work: impl AsyncFnOnce(Environment) -> T,
) -> Option<T> {
    let steps = Steps::to(point);
    let environment = steps.counted(environment);
    steps.stop(work(environment)).await
}

/// Does `work`, and in the middle of it, at `point`, all of `other`. What
/// `other` came to is `None` if the work made fewer requests.
pub async fn interrupted_at<T, U>(
    environment: &Environment,
    point: Point,
    other: impl Future<Output = U>,
    work: impl AsyncFnOnce(Environment) -> T,
) -> (T, Option<U>) {
    let steps = Steps::to(point);
    let mut work = std::pin::pin!(work(steps.counted(environment)));
    tokio::select! {
        biased;
        () = steps.0.reached.notified() => {}
        done = &mut work => return (done, None),
    }
    let came_to = other.await;
    steps.0.go_on.notify_one();
    (work.await, Some(came_to))
}

/// The steps of a piece of work that is to stop at one of them.
#[derive(Debug, Clone)]
pub struct Steps(Arc<Stop>);

#[derive(Debug)]
struct Stop {
    point: Point,
    steps: AtomicUsize,
    reached: Notify,
    go_on: Notify,
}

impl Steps {
    /// As many as lead to this point.
    pub fn to(point: Point) -> Self {
        Self(Arc::new(Stop {
            point,
            steps: AtomicUsize::new(0),
            reached: Notify::new(),
            go_on: Notify::new(),
        }))
    }

    /// The same environment, whose requests to AWS services are steps.
    pub fn counted(&self, environment: &Environment) -> Environment {
        // Without one of its own, the SDK takes the same.
        let inner = environment.aws.http_client();
        let inner = inner.unwrap_or_else(database::http_client);
        let client = StoppingClient {
            inner,
            steps: self.clone(),
        };
        Environment {
            aws: environment.aws.to_builder().http_client(client).build(),
            ..environment.clone()
        }
    }

    /// Does something that is one step.
    pub async fn step<T>(&self, work: impl Future<Output = T>) -> T {
        let number = self.0.steps.fetch_add(1, Ordering::SeqCst) + 1;
        if self.0.point == Point::BeforeRequest(number) {
            self.wait().await;
        }
        let done = work.await;
        if self.0.point == Point::AfterRequest(number) {
            self.wait().await;
        }
        done
    }

    /// Does `work` until the point is reached, then drops it where it is:
    /// `None`.
    pub async fn stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.0.reached.notified() => None,
            done = work => Some(done),
        }
    }

    async fn wait(&self) {
        self.0.reached.notify_one();
        self.0.go_on.notified().await;
    }
}

#[derive(Debug)]
struct StoppingClient {
    inner: SharedHttpClient,
    steps: Steps,
}

impl HttpClient for StoppingClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(StoppingConnector {
            inner: self.inner.http_connector(settings, components),
            steps: self.steps.clone(),
        })
    }
}

#[derive(Debug)]
struct StoppingConnector {
    inner: SharedHttpConnector,
    steps: Steps,
}

impl HttpConnector for StoppingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (steps, inner) = (self.steps.clone(), self.inner.clone());
        HttpConnectorFuture::new(async move {
            // Not called before its step has come.
            steps.step(async { inner.call(request).await }).await
        })
    }
}
