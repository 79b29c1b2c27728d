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

/// Where work stops; requests to AWS services are counted from 1.
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
    let (stop, environment) = Stop::at(environment, point);
    tokio::select! {
        biased;
        () = stop.reached.notified() => None,
        done = work(environment) => Some(done),
    }
}

/// Does `work`, and in the middle of it, at `point`, all of `other`. What
/// `other` came to is `None` if the work made fewer requests.
pub async fn interrupted_at<T, U>(
    environment: &Environment,
    point: Point,
    other: impl Future<Output = U>,
    work: impl AsyncFnOnce(Environment) -> T,
) -> (T, Option<U>) {
    let (stop, environment) = Stop::at(environment, point);
    let mut work = std::pin::pin!(work(environment));
    tokio::select! {
        biased;
        () = stop.reached.notified() => {}
        done = &mut work => return (done, None),
    }
    let came_to = other.await;
    stop.go_on.notify_one();
    (work.await, Some(came_to))
}

#[derive(Debug)]
struct Stop {
    point: Point,
    requests: AtomicUsize,
    reached: Notify,
    go_on: Notify,
}

impl Stop {
    /// An environment whose requests are counted, and stop at a point.
    fn at(environment: &Environment, point: Point) -> (Arc<Self>, Environment) {
        let stop = Arc::new(Self {
            point,
            requests: AtomicUsize::new(0),
            reached: Notify::new(),
            go_on: Notify::new(),
        });
        // Without one of its own, the SDK takes the same.
        let inner = environment.aws.http_client();
        let inner = inner.unwrap_or_else(database::http_client);
        let client = StoppingClient {
            inner,
            stop: Arc::clone(&stop),
        };
        let environment = Environment {
            aws: environment.aws.to_builder().http_client(client).build(),
            ..environment.clone()
        };
        (stop, environment)
    }

    async fn wait(&self) {
        self.reached.notify_one();
        self.go_on.notified().await;
    }
}

#[derive(Debug)]
struct StoppingClient {
    inner: SharedHttpClient,
    stop: Arc<Stop>,
}

impl HttpClient for StoppingClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(StoppingConnector {
            inner: self.inner.http_connector(settings, components),
            stop: Arc::clone(&self.stop),
        })
    }
}

#[derive(Debug)]
struct StoppingConnector {
    inner: SharedHttpConnector,
    stop: Arc<Stop>,
}

impl HttpConnector for StoppingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let number = self.stop.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let stop = Arc::clone(&self.stop);
        let inner = self.inner.clone();
        HttpConnectorFuture::new(async move {
            if stop.point == Point::BeforeRequest(number) {
                stop.wait().await;
            }
            let answer = inner.call(request).await;
            if stop.point == Point::AfterRequest(number) {
                stop.wait().await;
            }
            answer
        })
    }
}
