//! Answers: JSON with a cache rule. What is not said to be public is private.

use lambda_http::http::{StatusCode, header};
use lambda_http::{Body, Response};
use serde::Serialize;

use crate::Problem;

/// Who may keep an answer, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Nobody: private answers and every error.
    Never,
    /// Anyone, for so many seconds.
    Public(u32),
}

/// An answer that worked.
#[derive(Debug, Clone)]
pub struct Reply {
    status: StatusCode,
    cache: Cache,
    body: Vec<u8>,
}

impl Reply {
    /// JSON with a status.
    ///
    /// # Errors
    /// The value can't be written as JSON: a fault of ours.
    pub fn json(status: StatusCode, value: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value)
            .map_err(|error| Problem::new(crate::Code::Internal).because(error))?;
        Ok(Self {
            status,
            cache: Cache::Never,
            body,
        })
    }

    /// JSON with 200.
    ///
    /// # Errors
    /// The value can't be written as JSON: a fault of ours.
    pub fn ok(value: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::OK, value)
    }

    /// JSON with 201, or 200 if it was there already.
    ///
    /// # Errors
    /// The value can't be written as JSON: a fault of ours.
    pub fn created(new: bool, value: &impl Serialize) -> Result<Self, Problem> {
        Self::json(
            if new {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            },
            value,
        )
    }

    /// May be kept.
    #[must_use]
    pub fn cached(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// As API Gateway takes it.
    pub fn into_response(self) -> Response<Body> {
        build(self.status, "application/json", self.cache, None, self.body)
    }
}

impl Problem {
    /// As API Gateway takes it.
    pub fn into_response(self) -> Response<Body> {
        let body = self.body().to_string().into_bytes();
        build(
            self.code.status(),
            "application/problem+json",
            Cache::Never,
            self.retry_after_s,
            body,
        )
    }
}

fn build(
    status: StatusCode,
    content_type: &'static str,
    cache: Cache,
    retry_after_s: Option<u32>,
    body: Vec<u8>,
) -> Response<Body> {
    let mut response = Response::new(Body::Text(String::from_utf8_lossy(&body).into_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    let cache = match cache {
        Cache::Never => header::HeaderValue::from_static("no-store"),
        Cache::Public(seconds) => format!("public, max-age={seconds}")
            .parse()
            .unwrap_or(header::HeaderValue::from_static("no-store")),
    };
    headers.insert(header::CACHE_CONTROL, cache);
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
