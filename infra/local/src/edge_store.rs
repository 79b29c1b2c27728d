//! CloudFront's key-value store behind its own protocol (REST, JSON), for the
//! real SDK: keys, and one ETag of the whole store that every write must name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use axum::{Router, serve};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::template::ACCOUNT;

/// The largest key and value, in bytes.
const KEY_MAX: usize = 512;
const VALUE_MAX: usize = 1_024;

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

/// The only store.
#[derive(Debug, Default)]
pub(crate) struct EdgeStore(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    version: u64,
    values: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct NewValue {
    #[serde(rename = "Value")]
    value: String,
}

impl EdgeStore {
    /// Its name for functions.
    pub(crate) fn arn() -> String {
        format!(
            "arn:aws:cloudfront::{ACCOUNT}:key-value-store/00000000-0000-4000-8000-000000000000"
        )
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.kept().values.get(key).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn etag(&self) -> String {
        format!("E{:013}", self.version)
    }

    fn described(&self) -> Value {
        let size: usize = self
            .values
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        json!({"ItemCount": self.values.len(), "TotalSizeInBytes": size})
    }
}

/// Serves the store until told to stop.
pub(crate) async fn serve_store(
    store: Arc<EdgeStore>,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) {
    let app = Router::new()
        .route("/key-value-stores/{arn}", get(describe))
        .route("/key-value-stores/{arn}/keys/{key}", get(read).put(write))
        .with_state(store);
    let served = serve(listener, app)
        .with_graceful_shutdown(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the edge's store stopped");
    }
}

async fn describe(State(store): State<Arc<EdgeStore>>, Path(arn): Path<String>) -> Response<Body> {
    if arn != EdgeStore::arn() {
        return refused(StatusCode::NOT_FOUND, "ResourceNotFoundException");
    }
    let kept = store.kept();
    let mut described = kept.described();
    described["KvsARN"] = arn.into();
    described["Created"] = 0.into();
    described["Status"] = "READY".into();
    answer(&described, Some(&kept.etag()))
}

async fn read(
    State(store): State<Arc<EdgeStore>>,
    Path((arn, key)): Path<(String, String)>,
) -> Response<Body> {
    let kept = store.kept();
    let Some(value) = kept.values.get(&key).filter(|_| arn == EdgeStore::arn()) else {
        return refused(StatusCode::NOT_FOUND, "ResourceNotFoundException");
    };
    let mut answered = kept.described();
    answered["Key"] = key.into();
    answered["Value"] = value.clone().into();
    answer(&answered, None)
}

async fn write(
    State(store): State<Arc<EdgeStore>>,
    Path((arn, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let Ok(NewValue { value }) = serde_json::from_slice(&body) else {
        return refused(StatusCode::BAD_REQUEST, "ValidationException");
    };
    if key.len() > KEY_MAX || value.len() > VALUE_MAX {
        return refused(StatusCode::BAD_REQUEST, "ValidationException");
    }
    if arn != EdgeStore::arn() {
        return refused(StatusCode::NOT_FOUND, "ResourceNotFoundException");
    }
    let mut kept = store.kept();
    if headers.get(header::IF_MATCH) != HeaderValue::from_str(&kept.etag()).ok().as_ref() {
        return refused(StatusCode::CONFLICT, "ConflictException");
    }
    kept.values.insert(key, value);
    kept.version += 1;
    answer(&kept.described(), Some(&kept.etag()))
}

fn answer(value: &Value, etag: Option<&str>) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        headers.insert(header::ETAG, etag);
    }
    response
}

fn refused(status: StatusCode, name: &'static str) -> Response<Body> {
    let mut response = answer(&json!({"Message": name}), None);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(ERROR_TYPE, HeaderValue::from_static(name));
    response
}
