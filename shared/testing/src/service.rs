//! A service that answers some requests as a test likes: what no emulator
//! does by itself.

use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use runtime::Environment;
use serde_json::Value;

use crate::database;

/// A request, read.
#[derive(Debug)]
pub struct Asked {
    /// `PutItem`, `TransactWriteItems`, ….
    pub action: String,
    /// Its parameters.
    pub body: Value,
}

/// What happens to a request.
#[derive(Debug)]
pub enum Fate {
    /// The service sees it.
    Passed,
    /// It is answered in its place, with this status.
    Answered(u16, Value),
    /// The service carries it out, and the answer is lost.
    Unanswered,
    /// The service sees it so much later.
    Late(Duration),
}

type Judge = dyn Fn(&Asked) -> Fate + Send + Sync;

/// The same environment with a service in between that this decides about.
pub fn judged(
    environment: &Environment,
    judge: impl Fn(&Asked) -> Fate + Send + Sync + 'static,
) -> Environment {
    let inner = environment.aws.http_client();
    let client = Service {
        inner: inner.unwrap_or_else(database::http_client),
        judge: Arc::new(judge),
    };
    Environment {
        aws: environment.aws.to_builder().http_client(client).build(),
        ..environment.clone()
    }
}

struct Service {
    inner: SharedHttpClient,
    judge: Arc<Judge>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl HttpClient for Service {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            inner: self.inner.http_connector(settings, components),
            judge: Arc::clone(&self.judge),
        })
    }
}

struct Connector {
    inner: SharedHttpConnector,
    judge: Arc<Judge>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let action = target.rsplit('.').next().unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        let fate = (self.judge)(&Asked {
            action: action.to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        });
        let inner = self.inner.clone();
        HttpConnectorFuture::new(async move {
            match fate {
                Fate::Passed => inner.call(request).await,
                Fate::Late(by) => {
                    tokio::time::sleep(by).await;
                    inner.call(request).await
                }
                Fate::Unanswered => {
                    inner.call(request).await?;
                    Err(ConnectorError::io("the connection is gone".into()))
                }
                Fate::Answered(status, body) => {
                    let status = StatusCode::try_from(status)
                        .map_err(|error| ConnectorError::other(error.into(), None))?;
                    let mut answer = HttpResponse::new(status, body.to_string().into());
                    let headers = answer.headers_mut();
                    headers.insert("content-type", "application/x-amz-json-1.0");
                    Ok(answer)
                }
            }
        })
    }
}
