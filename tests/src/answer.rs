//! Answers of the API.

use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// One answer, whatever it is.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Every header.
    pub headers: HeaderMap,
    /// The body as JSON; `null` if it is something else.
    pub json: Value,
}

impl Answer {
    /// Sends a request.
    ///
    /// # Panics
    /// Nothing came back: the gateway answers everything.
    pub async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the gateway answers");
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await.unwrap_or_default();
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Self {
            status,
            headers,
            json,
        }
    }

    /// The problem's code, or nothing.
    pub fn error(&self) -> &str {
        self.json["error"].as_str().unwrap_or_default()
    }

    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// A member of the body that is a text, or nothing.
    pub fn text(&self, member: &str) -> &str {
        self.json[member].as_str().unwrap_or_default()
    }

    /// The fields that the problem names, sorted.
    pub fn fields(&self) -> Vec<&str> {
        let errors = self.json["errors"].as_array();
        let mut fields: Vec<&str> = errors
            .into_iter()
            .flatten()
            .filter_map(|error| error["field"].as_str())
            .collect();
        fields.sort_unstable();
        fields
    }

    /// A claim that was answered yes: 201, or 202 where no replica was quick
    /// enough.
    pub fn is_yes(&self) -> bool {
        matches!(self.status, 201 | 202)
    }

    /// Asserts a status; the answer goes on.
    ///
    /// # Panics
    /// It is another one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:#}", self.json);
        self
    }

    /// Asserts a problem document with this status and code.
    ///
    /// # Panics
    /// It is another answer, or not a whole problem document.
    #[track_caller]
    pub fn expect_problem(self, status: u16, error: &str) -> Self {
        assert_eq!(
            (self.status, self.error()),
            (status, error),
            "{:#}",
            self.json
        );
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.json["status"], status);
        for member in ["type", "title"] {
            assert!(self.json[member].is_string(), "{member}: {:#}", self.json);
        }
        self
    }

    /// Asserts that exactly these fields were refused.
    ///
    /// # Panics
    /// It is another answer.
    #[track_caller]
    pub fn expect_fields(self, fields: &[&str]) -> Self {
        let answer = self.expect_problem(422, "invalid_field");
        assert_eq!(answer.fields(), fields, "{:#}", answer.json);
        answer
    }
}
