//! Calls of the API: bounded, timed, counted.

use std::time::{Duration, Instant};

use anyhow::Context;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::record::{Call, Record};
use crate::wire::Problem;

/// Which queue for a connection a call stands in. With a hundred thousand
/// entries waiting, a winner must not stand behind them: the shoppers of a
/// real sale have their own connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Passes, entries, a race's first claims, and claims of those who were
    /// refused before.
    Crowd,
    /// Those who are admitted, and their payments.
    Winner,
    /// The CDN and the merchant: own connections, never in a queue.
    Direct,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    call: Call,
    path: String,
    token: Option<&'a str>,
    headers: Vec<(&'static str, &'a str)>,
    body: Option<String>,
    content_type: &'static str,
}

impl<'a> Request<'a> {
    pub(crate) fn new(call: Call, path: impl Into<String>) -> Self {
        Self {
            call,
            path: path.into(),
            token: None,
            headers: Vec::new(),
            body: None,
            content_type: "application/json",
        }
    }

    pub(crate) fn token(mut self, token: &'a str) -> Self {
        self.token = Some(token);
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// A body of fields, as a browser's form has it. Their values need no
    /// escapes.
    pub(crate) fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let pairs = fields.iter().map(|(name, value)| format!("{name}={value}"));
        self.content_type = "application/x-www-form-urlencoded";
        self.body(pairs.collect::<Vec<_>>().join("&"))
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    /// HTTP status; 0 if there was none.
    pub(crate) status: u16,
    /// The problem, if it is one.
    pub(crate) problem: Problem,
    /// When to try again, as the answer says.
    retry_after: Option<Duration>,
    /// How long the answer may be kept.
    pub(crate) max_age: Duration,
    /// From the sending to the last byte.
    pub(crate) took: Duration,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn is(&self, error: &str) -> bool {
        self.problem.error == error
    }

    /// The body of a success.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The body of a success, for callers who can't go on without.
    pub(crate) fn require<T: DeserializeOwned>(&self, what: &str) -> anyhow::Result<T> {
        anyhow::ensure!(
            self.is_success(),
            "{what}: {} {} {}",
            self.status,
            self.problem.error,
            self.problem
                .detail
                .clone()
                .unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned()),
        );
        serde_json::from_slice(&self.body).with_context(|| format!("{what}: unreadable answer"))
    }

    /// How long to wait before trying again, if trying again helps: what the
    /// answer says and up to half as much again, so that those who were
    /// turned away together don't come back together.
    pub(crate) fn wait(&self, rng: &mut SmallRng) -> Option<Duration> {
        let base = match self.status {
            425 => self.retry_after.unwrap_or(Duration::from_millis(300)),
            0 | 408 | 429 | 500.. => self.retry_after.unwrap_or(Duration::from_secs(1)),
            _ => return None,
        };
        let base = base.clamp(Duration::from_millis(100), Duration::from_secs(60));
        Some(base.mul_f64(rng.random_range(1.0..1.5)))
    }
}

/// A bounded number of connections to one base URL.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    all: Semaphore,
    crowd: Semaphore,
    checkouts: Semaphore,
    pub(crate) record: Record,
}

impl Client {
    pub(crate) fn new(base_url: &str, connections: u32) -> anyhow::Result<Self> {
        let connections = connections as usize;
        let http = reqwest::Client::builder()
            .http1_only()
            .tcp_nodelay(true)
            .pool_max_idle_per_host(connections + 8)
            .timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self {
            http,
            base: base_url.trim_end_matches('/').to_owned(),
            all: Semaphore::new(connections),
            // A quarter is left to winners at any time.
            crowd: Semaphore::new((connections * 3 / 4).max(1)),
            checkouts: Semaphore::new(connections),
            record: Record::new(),
        })
    }

    /// A place among those who pay, until it is dropped. Were all winners at it
    /// together, each step of each would stand behind the step before of all
    /// others: nobody would have paid before the holds of all had lapsed.
    pub(crate) async fn checkout(&self) -> Option<SemaphorePermit<'_>> {
        let queued = Instant::now();
        let place = self.checkouts.acquire().await.ok();
        self.record.waited(queued.elapsed());
        place
    }

    /// Sends one call when a connection is free. Never fails: no answer is an
    /// answer with status 0, and counted as such.
    pub(crate) async fn send(&self, lane: Lane, request: Request<'_>) -> Answer {
        let queued = Instant::now();
        // The semaphores are never closed, so a permit is always had.
        let _crowd = match lane {
            Lane::Crowd => self.crowd.acquire().await.ok(),
            Lane::Winner | Lane::Direct => None,
        };
        let _permit = match lane {
            Lane::Direct => None,
            Lane::Crowd | Lane::Winner => self.all.acquire().await.ok(),
        };
        if lane != Lane::Direct {
            self.record.waited(queued.elapsed());
        }
        // Boxed from here on: only calls in flight need the room, not the
        // many who wait.
        Box::pin(self.exchange(request)).await
    }

    async fn exchange(&self, request: Request<'_>) -> Answer {
        let call = request.call;
        let sent = Instant::now();
        let mut answer = match self.attempt(request).await {
            Ok(answer) => answer,
            Err(error) => no_answer(&error),
        };
        answer.took = sent.elapsed();
        self.record
            .answered(call, answer.took, answer.status, &answer.problem.error);
        answer
    }

    async fn attempt(&self, request: Request<'_>) -> reqwest::Result<Answer> {
        // Sessions are issued elsewhere; their whole URL is the path.
        let url = if request.path.starts_with('/') {
            format!("{}{}", self.base, request.path)
        } else {
            request.path
        };
        let mut builder = self.http.request(request.call.method(), url);
        if let Some(token) = request.token {
            builder = builder.bearer_auth(token);
        }
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        if let Some(body) = request.body {
            builder = builder
                .header("content-type", request.content_type)
                .body(body);
        }
        let response = builder.send().await?;
        let status = response.status();
        let header = |name| response.headers().get(name)?.to_str().ok();
        let retry_after = header("retry-after")
            .and_then(|text| text.parse().ok())
            .map(Duration::from_secs);
        let max_age = header("cache-control").map_or(Duration::ZERO, max_age);
        let body = response.bytes().await?.to_vec();
        let problem = if status.is_success() {
            Problem::default()
        } else {
            serde_json::from_slice(&body).unwrap_or_default()
        };
        Ok(Answer {
            status: status.as_u16(),
            problem,
            retry_after,
            max_age,
            took: Duration::ZERO,
            body,
        })
    }
}

fn no_answer(error: &reqwest::Error) -> Answer {
    let why = if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "connect"
    } else {
        "broken"
    };
    Answer {
        status: 0,
        problem: Problem {
            error: why.to_owned(),
            detail: Some(error.to_string()),
            ..Problem::default()
        },
        retry_after: None,
        max_age: Duration::ZERO,
        took: Duration::ZERO,
        body: Vec::new(),
    }
}

/// The `max-age` of a Cache-Control header; what has none may not be kept.
fn max_age(header: &str) -> Duration {
    header
        .split(',')
        .find_map(|part| part.trim().strip_prefix("max-age="))
        .and_then(|seconds| seconds.parse().ok())
        .map_or(Duration::ZERO, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_age_is_read() {
        assert_eq!(max_age("public, max-age=1"), Duration::from_secs(1));
        assert_eq!(max_age("no-store"), Duration::ZERO);
    }
}
