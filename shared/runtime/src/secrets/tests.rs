//! Secrets from a stub that answers as the documentation says Secrets Manager
//! does.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::BehaviorVersion;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::Environment;

/// What no log and no error may show.
const VALUE: &str = "the-value-that-nobody-may-see";

/// A stub of `GetSecretValue`, and what it was asked for.
struct Stub {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// Answers until the test's runtime ends.
    async fn start() -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        let router = Router::new().fallback(async move |headers: HeaderMap, body: String| {
            assert_eq!(headers["x-amz-target"], "secretsmanager.GetSecretValue");
            let request: Value = serde_json::from_str(&body).unwrap();
            let id = request["SecretId"].as_str().unwrap().to_owned();
            log.lock().unwrap().push(id.clone());
            let (status, answer) = answer(&id).await;
            (status, answer.to_string())
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }

    /// What these variables become.
    async fn fetch(&self, variables: &[(&str, &str)]) -> Result<Settings, SecretUnavailable> {
        let aws = aws_config::defaults(BehaviorVersion::latest())
            .empty_test_environment()
            .test_credentials()
            .region("eu-west-1")
            .endpoint_url(&self.url)
            .load()
            .await;
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut settings: Settings = variables.collect();
        fetch(&mut settings, &aws).await?;
        Ok(settings)
    }
}

/// The service's answer for a secret, by its name.
async fn answer(id: &str) -> (StatusCode, Value) {
    let error =
        |status, kind: &str, message: &str| (status, json!({"__type": kind, "Message": message}));
    let bad = StatusCode::BAD_REQUEST;
    let described = |value: Value| {
        let mut answer = json!({
            "ARN": format!("arn:aws:secretsmanager:eu-west-1:000000000000:secret:{id}-a1b2c3"),
            "CreatedDate": 1.523477145713e9,
            "Name": id,
            "VersionId": "EXAMPLE1-90ab-cdef-fedc-ba987SECRET1",
            "VersionStages": ["AWSCURRENT"],
        });
        for (name, value) in value.as_object().unwrap() {
            answer[name] = value.clone();
        }
        (StatusCode::OK, answer)
    };
    match id {
        "missing" => error(
            bad,
            "ResourceNotFoundException",
            "Secrets Manager can't find the specified secret.",
        ),
        "forbidden" => error(
            bad,
            "AccessDeniedException",
            "User: arn:aws:sts::000000000000:assumed-role/r/f is not authorized to perform: \
             secretsmanager:GetSecretValue on resource: forbidden",
        ),
        "broken" => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalServiceError",
            "An error occurred on the server side.",
        ),
        "binary" => described(json!({"SecretBinary": "dGhlLXZhbHVl"})),
        "empty" => described(json!({"SecretString": ""})),
        "odd" => described(json!({"SecretString": [VALUE]})),
        "slow" => std::future::pending().await,
        _ => described(json!({"SecretString": format!("{VALUE} of {id}")})),
    }
}

#[tokio::test]
async fn a_reference_becomes_the_setting() {
    let stub = Stub::start().await;
    let settings = stub
        .fetch(&[
            ("PASS_KEYS_SECRET", "one"),
            ("EDGE_KEY_SECRET", "two"),
            ("TABLE_NAME", "t"),
        ])
        .await
        .unwrap();
    assert_eq!(
        settings.require("PASS_KEYS").unwrap(),
        format!("{VALUE} of one")
    );
    assert_eq!(
        settings.require("EDGE_KEY").unwrap(),
        format!("{VALUE} of two")
    );
    assert_eq!(settings.require("TABLE_NAME").unwrap(), "t");
    assert_eq!(stub.asked(), ["one", "two"]);
    assert!(!format!("{settings:?}").contains(VALUE));
}

#[tokio::test]
async fn a_value_that_is_given_wins_and_nothing_is_asked_for() {
    let stub = Stub::start().await;
    let settings = stub
        .fetch(&[
            ("PASS_KEYS_SECRET", "missing"),
            ("PASS_KEYS", "given"),
            ("GATE_PASSWORD_SECRET", ""),
            ("_SECRET", "missing"),
        ])
        .await
        .unwrap();
    assert_eq!(settings.require("PASS_KEYS").unwrap(), "given");
    assert_eq!(settings.get("GATE_PASSWORD"), None);
    assert!(stub.asked().is_empty());
    // An empty value is none.
    let settings = stub.fetch(&[("A_SECRET", "a"), ("A", "")]).await.unwrap();
    assert_eq!(settings.require("A").unwrap(), format!("{VALUE} of a"));
}

#[tokio::test]
async fn an_error_names_the_variable_and_no_value() {
    let stub = Stub::start().await;
    for (secret, problem, attempts) in [
        ("missing", "can't be read: ResourceNotFoundException", 1),
        ("forbidden", "can't be read: AccessDeniedException", 1),
        ("broken", "can't be read: InternalServiceError", 3),
        ("binary", "holds no text", 1),
        ("empty", "holds no text", 1),
        ("odd", "can't be read: an error without a code", 1),
    ] {
        let error = stub
            .fetch(&[("EDGE_KEY_SECRET", secret)])
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the secret that the variable EDGE_KEY_SECRET names {problem}")
        );
        assert!(!format!("{error:?}").contains(VALUE), "{error:?}");
        let asked = stub.asked().into_iter().filter(|id| id == secret).count();
        assert_eq!(asked, attempts, "{secret}");
    }
}

#[tokio::test]
async fn a_start_does_not_wait_for_ever() {
    let stub = Stub::start().await;
    let before = std::time::Instant::now();
    let error = stub
        .fetch(&[("EDGE_KEY_SECRET", "slow")])
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("time-out"), "{error}");
    assert!(before.elapsed() <= FETCH_MAX + Duration::from_secs(1));
}

/// A function's start in a process of its own, with these variables: those of
/// a process can't be changed while it runs.
fn start(variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "secrets::tests::as_a_function_does", "--ignored"])
        .arg("--nocapture")
        .env_clear()
        .envs([
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_LAMBDA_LOG_LEVEL", "trace"),
        ])
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[tokio::test]
#[ignore = "started by the test below, as a process"]
async fn as_a_function_does() {
    crate::init_telemetry(&Settings::from_process());
    let environment = Environment::load().await;
    tracing::info!(?environment, "started");
    println!("{environment:#?}");
    environment.unwrap().settings.require("EDGE_KEY").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_starts_with_its_secrets_and_shows_none() {
    let stub = Stub::start().await;
    for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SECRETS_MANAGER"] {
        for secret in ["good", "odd"] {
            let output = start(&[(variable, &stub.url), ("EDGE_KEY_SECRET", secret)]);
            let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.success(), secret == "good", "{shown}");
            assert!(shown.contains("EDGE_KEY"), "{shown}");
            assert!(!shown.contains(VALUE), "{shown}");
        }
    }
    assert_eq!(stub.asked(), ["good", "good", "odd", "odd"]);
}
