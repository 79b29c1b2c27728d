//! One call of Stripe's API: key, version, time-outs, repetitions.
//!
//! | Stripe answers | here |
//! |---|---|
//! | nothing in time, 409, 429, 5xx | asked again, a few times, within the deadline; then [`Failure::Unknown`] |
//! | 5xx that it has kept for the key | [`Failure::Kept`]: the same key gets the same answer for a day |
//! | 401, 403 | [`Failure::Unknown`]: a key of ours is wrong, which says nothing of the payment |
//! | any other 4xx | [`Failure::Refused`]: it was understood, and not done |
//!
//! `Stripe-Should-Retry` has the last word on whether to ask again.

use std::time::Duration;

use form_urlencoded::Serializer;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::objects;
use crate::{Error, NoIntent};

/// The version of the API that this is written for. An account's own default
/// may change with a click; this does not.
const VERSION: &str = "2025-03-31.basil";

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Longest wait for one answer.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// Longest wait for a call, all its repetitions included. How many calls there
/// is time for, the cashier decides.
const CALL_MAX: Duration = Duration::from_millis(4_500);
/// How often one call is made at most.
const ATTEMPTS_MAX: u32 = 3;
/// The first wait before a repetition is up to so long, the next up to twice.
const BACKOFF: Duration = Duration::from_millis(250);
/// A connection that was idle for so long may be dead: a function sleeps
/// between its calls without noticing.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// A page of a hundred intents with their charges has about half a megabyte.
const ANSWER_MAX_BYTES: usize = 4 << 20;

/// Why a call came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// Stripe understood, and did nothing.
    Refused {
        /// HTTP status, 400 to 499.
        status: StatusCode,
        /// Stripe's error code, or its type.
        reason: String,
    },
    /// Stripe failed at it, and has kept that answer for the idempotency key.
    Kept,
    /// It may have been done or not.
    Unknown(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { status, reason } => {
                write!(f, "Stripe refuses: {} {reason}", status.as_u16())
            }
            Self::Kept => f.write_str("Stripe failed, and says so again for the same key"),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

impl From<Failure> for NoIntent {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused { .. } => Self::Refused(failure.to_string()),
            Failure::Kept => Self::Spent,
            Failure::Unknown(why) => Self::Unknown(Error(why)),
        }
    }
}

/// A document, and whether Stripe had answered the same key before.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) document: T,
    /// Then it is as it was at that time, not as it is now.
    pub(super) replayed: bool,
}

/// Calls one base URL with one key.
pub(super) struct Client {
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    key: SecretString,
}

/// What is sent, without the key.
struct Call<'a> {
    method: Method,
    url: String,
    form: Option<String>,
    idempotency_key: Option<&'a str>,
}

/// What came back, whatever it is.
struct Raw {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Client {
    /// A client for a base URL such as `https://api.stripe.com`.
    ///
    /// # Errors
    /// The URL is not usable, the key would travel in the clear, or there are
    /// no root certificates.
    pub(super) fn new(base: &str, key: SecretString) -> anyhow::Result<Self> {
        let base = base.trim_end_matches('/').to_owned();
        let uri: hyper::Uri = base.parse()?;
        let own = matches!(uri.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
        anyhow::ensure!(
            uri.scheme_str() == Some("https") || (uri.scheme_str() == Some("http") && own),
            "the variable STRIPE_URL must begin with https://"
        );
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_MAX));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        // The provider of cryptography that the AWS SDK has.
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = Http::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { http, base, key })
    }

    /// Reads a document.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let mut url = format!("{}{path}", self.base);
        if !query.is_empty() {
            url.push('?');
            url.push_str(&encoded(query));
        }
        let call = Call {
            method: Method::GET,
            url,
            form: None,
            idempotency_key: None,
        };
        self.call(&call).await.map(|answer| answer.document)
    }

    /// Does something that is the same done twice.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let call = Call {
            method: Method::POST,
            url: format!("{}{path}", self.base),
            form: Some(String::new()),
            idempotency_key: None,
        };
        self.call(&call).await.map(|answer| answer.document)
    }

    /// Does something once for a key.
    pub(super) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        key: &str,
    ) -> Result<Answer<T>, Failure> {
        let call = Call {
            method: Method::POST,
            url: format!("{}{path}", self.base),
            form: Some(encoded(form)),
            idempotency_key: Some(key),
        };
        self.call(&call).await
    }

    async fn call<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<Answer<T>, Failure> {
        let deadline = Instant::now() + CALL_MAX;
        let mut attempt = 0;
        loop {
            let sent = timeout_at(deadline, timeout(ATTEMPT_MAX, self.send(call))).await;
            let raw = match sent {
                Ok(Ok(raw)) => raw,
                Ok(Err(_)) | Err(_) => Err("no answer in time".to_owned()),
            };
            attempt += 1;
            let again = raw.as_ref().map_or(true, Raw::should_be_repeated);
            let wait = BACKOFF * 2u32.pow(attempt - 1);
            let wait = wait.mul_f64(fastrand::f64());
            if !again || attempt == ATTEMPTS_MAX || Instant::now() + wait >= deadline {
                return match raw {
                    Ok(raw) => raw.read(),
                    Err(why) => Err(Failure::Unknown(why)),
                };
            }
            sleep(wait).await;
        }
    }

    async fn send(&self, call: &Call<'_>) -> Result<Raw, String> {
        let request = self.request(call).map_err(|error| error.to_string())?;
        // What hyper says of a failure names no header and no body.
        let response = self.http.request(request).await;
        let response = response.map_err(|error| innermost(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
        Ok(Raw {
            status: parts.status,
            headers: parts.headers,
            body: body.map_err(|error| innermost(&*error))?.to_bytes(),
        })
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut secret = HeaderValue::try_from(format!("Bearer {}", self.key.expose_secret()))?;
        secret.set_sensitive(true);
        let mut request = Request::builder()
            .method(&call.method)
            .uri(&call.url)
            .header(AUTHORIZATION, secret)
            .header("stripe-version", VERSION);
        if let Some(key) = call.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if call.form.is_some() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let body = call.form.clone().unwrap_or_default();
        request.body(Full::from(body))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stripe at {}", self.base)
    }
}

impl Raw {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    fn is_kept_failure(&self) -> bool {
        self.status.is_server_error() && self.is_replayed()
    }

    fn should_be_repeated(&self) -> bool {
        match self.header("stripe-should-retry") {
            Some("true") => true,
            Some("false") => false,
            _ if self.is_kept_failure() => false,
            _ => {
                matches!(
                    self.status,
                    StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS
                ) || self.status.is_server_error()
            }
        }
    }

    fn read<T: DeserializeOwned>(self) -> Result<Answer<T>, Failure> {
        let replayed = self.is_replayed();
        if self.status.is_success() {
            // Not the text of the error: it may repeat what was received.
            let document = serde_json::from_slice(&self.body);
            let document = document.map_err(|error| {
                Failure::Unknown(format!(
                    "Stripe's answer can't be read, at line {} column {}",
                    error.line(),
                    error.column()
                ))
            })?;
            return Ok(Answer { document, replayed });
        }
        if self.is_kept_failure() {
            return Err(Failure::Kept);
        }
        let status = self.status;
        let failure: objects::Failure = serde_json::from_slice(&self.body).unwrap_or_default();
        let reason = failure.error.code.or(failure.error.kind);
        let reason = reason.unwrap_or_else(|| "without a reason".to_owned());
        let nothing_is_known = !status.is_client_error()
            || matches!(
                status,
                StatusCode::UNAUTHORIZED
                    | StatusCode::FORBIDDEN
                    | StatusCode::CONFLICT
                    | StatusCode::TOO_MANY_REQUESTS
            );
        if !nothing_is_known {
            return Err(Failure::Refused { status, reason });
        }
        // By this number Stripe finds the call in its own log.
        let request = self.header("request-id").unwrap_or("without a number");
        Err(Failure::Unknown(format!(
            "Stripe answers {} {reason} to request {request}",
            status.as_u16()
        )))
    }
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
