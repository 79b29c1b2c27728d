//! Answers that the gateway gives by itself.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// `{"message": …}`, as API Gateway words its own answers.
pub(crate) fn message(status: StatusCode, message: &str) -> Response<Body> {
    json(status, &json!({ "message": message }))
}

/// JSON with a status.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
