//! An HTTP API of API Gateway, on one machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::serve::ListenerExt;
use runtime::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

use crate::authorizer::{Authorizer, Refusal, Session};
use crate::cors::Cors;
use crate::environments::{InvokeError, Pool};
use crate::http_event;
use crate::identity::{self, Identity};
use crate::reply::message;
use crate::routes::{Prepared, Routes};

/// API Gateway's limit of a body.
const BODY_MAX: usize = 10 * 1024 * 1024;
/// API Gateway's limit of the request line and all headers together.
const HEAD_MAX: usize = 10_240;

const REQUEST_ID: HeaderName = HeaderName::from_static("apigw-requestid");

/// What the gateway knows.
pub(crate) struct Gateway {
    pub(crate) routes: Routes,
    pub(crate) authorizer: Option<Authorizer>,
    pub(crate) cors: Option<Cors>,
    pub(crate) identity: Arc<Identity>,
    /// Functions by logical id.
    pub(crate) pools: BTreeMap<String, Arc<Pool>>,
}

/// Serves until told to stop.
pub(crate) async fn serve(
    gateway: Gateway,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) {
    let app = Router::new()
        .fallback(answer)
        .with_state(Arc::new(gateway))
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = listener.tap_io(|stream| {
        // Answers are small and awaited.
        let _ = stream.set_nodelay(true);
    });
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the gateway stopped");
    }
}

async fn answer(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if parts.uri.path().starts_with(identity::PREFIX) {
        return gateway.development(parts, body).await;
    }
    let origin = parts.headers.get(header::ORIGIN).cloned();
    if let Some(cors) = &gateway.cors
        && parts.method == Method::OPTIONS
    {
        return cors.preflight(origin.as_ref());
    }
    let request_id = Uuid::new_v4().to_string();
    let mut response = match gateway.call(parts, body, peer, &request_id).await {
        Ok(response) | Err(response) => response,
    };
    if let Some(cors) = &gateway.cors {
        cors.apply(response.headers_mut(), origin.as_ref());
    }
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

impl Gateway {
    /// One call of a function. `Err` holds the gateway's own answer.
    async fn call(
        &self,
        parts: Parts,
        body: Body,
        peer: SocketAddr,
        request_id: &str,
    ) -> Result<Response<Body>, Response<Body>> {
        if head_size(&parts) > HEAD_MAX {
            return Err(message(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "Request Header Fields Too Large",
            ));
        }
        let host = parts.headers.get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok());
        if host.is_none_or(|host| host.parse::<Authority>().is_err()) {
            return Err(message(StatusCode::BAD_REQUEST, "Bad Request"));
        }
        let (route, path_parameters) = self
            .routes
            .find(parts.method.as_str(), parts.uri.path())
            .ok_or_else(|| message(StatusCode::NOT_FOUND, "Not Found"))?;
        let session = self.authorize(route, &parts).map_err(refused)?;
        let body = whole(body).await?;
        let routed = http_event::Routed {
            route_key: &route.key,
            path_parameters,
            session,
            source: peer.ip(),
            now: Clock::system().now(),
            request_id: request_id.to_owned(),
        };
        let event = http_event::request(parts, &body, routed).map_err(|error| {
            tracing::error!(%error, "the request can't be handed over");
            message(StatusCode::BAD_REQUEST, "Bad Request")
        })?;
        let pool = self.pools.get(&route.function);
        let answer = pool
            .ok_or(InvokeError::Unknown)
            .map(|pool| pool.invoke(event));
        let answer = match answer {
            Ok(run) => run.await,
            Err(error) => Err(error),
        };
        match answer.map(|payload| http_event::response(&payload)) {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                tracing::error!(route = route.key, %error, "the answer can't be read");
                Err(internal_server_error())
            }
            Err(InvokeError::TooLarge) => Err(too_large()),
            Err(InvokeError::Failed(_) | InvokeError::Killed | InvokeError::Unknown) => {
                Err(internal_server_error())
            }
            Err(InvokeError::Throttled | InvokeError::TimedOut) => Err(message(
                StatusCode::SERVICE_UNAVAILABLE,
                "Service Unavailable",
            )),
        }
    }

    fn authorize(&self, route: &Prepared, parts: &Parts) -> Result<Option<Session>, Refusal> {
        match &self.authorizer {
            Some(authorizer) => authorizer.check(&route.access, &parts.headers),
            // Without an authorizer no route asks for a token.
            None => Ok(None),
        }
    }

    /// The runner's own routes. Signing many tokens takes long, so it must
    /// not hold up the calls beside it.
    async fn development(&self, parts: Parts, body: Body) -> Response<Body> {
        let body = match whole(body).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        let identity = Arc::clone(&self.identity);
        tokio::task::spawn_blocking(move || identity.answer(&parts.method, parts.uri.path(), &body))
            .await
            .unwrap_or_else(|_| internal_server_error())
    }
}

async fn whole(body: Body) -> Result<Bytes, Response<Body>> {
    to_bytes(body, BODY_MAX).await.map_err(|_| too_large())
}

fn too_large() -> Response<Body> {
    message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
}

fn refused(refusal: Refusal) -> Response<Body> {
    let (status, text, challenge) = match refusal {
        Refusal::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized", "Bearer"),
        Refusal::Forbidden => (
            StatusCode::FORBIDDEN,
            "Forbidden",
            "Bearer error=\"insufficient_scope\"",
        ),
    };
    let mut response = message(status, text);
    response.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static(challenge),
    );
    response
}

fn internal_server_error() -> Response<Body> {
    message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
}

/// Bytes of the request line and the headers, as they were sent.
fn head_size(parts: &Parts) -> usize {
    let target = parts
        .uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    let line = parts.method.as_str().len() + target + "  HTTP/1.1\r\n".len();
    let headers = parts.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + headers.sum::<usize>()
}
