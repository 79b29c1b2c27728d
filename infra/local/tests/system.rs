//! The running system, from outside: what the gateway answers by itself, and
//! the stand-ins behind the real SDK.

use aws_sdk_sqs::config::Builder;
use local::{Options, System};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

/// A system whose queue is left alone.
async fn system() -> anyhow::Result<System> {
    let options = Options {
        schedules: false,
        event_sources: false,
        ..Options::default()
    };
    System::start(options).await
}

async fn call(system: &System, method: Method, path: &str, token: Option<&str>) -> (u16, Value) {
    let mut request = Client::new().request(method, format!("{}{path}", system.base_url()));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.expect("the gateway answers");
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn the_gateway_answers_for_itself() {
    let mut system = system().await.unwrap();
    let message = |text: &str| json!({ "message": text });

    let unknown = call(&system, Method::GET, "/v1/nowhere", None).await;
    assert_eq!(unknown, (404, message("Not Found")));
    let unsigned = call(&system, Method::POST, "/v1/sales/s/claims", None).await;
    assert_eq!(unsigned, (401, message("Unauthorized")));
    let shopper = system.session_token("ada").unwrap();
    let forbidden = call(&system, Method::GET, "/v1/admin/sales", Some(&shopper)).await;
    assert_eq!(forbidden, (403, message("Forbidden")));
    let merchant = system.admin_token().unwrap();
    let allowed = call(&system, Method::GET, "/v1/admin/sales", Some(&merchant)).await;
    assert!(![401, 403, 500].contains(&allowed.0), "{allowed:?}");

    let client = Client::new();
    let url = format!("{}/v1/sales/s/claims", system.base_url());
    for (origin, allowed) in [
        ("https://shop.example", true),
        ("https://evil.example", false),
    ] {
        let preflight = client
            .request(Method::OPTIONS, &url)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .send()
            .await
            .unwrap();
        assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
        assert_eq!(
            preflight
                .headers()
                .contains_key("access-control-allow-origin"),
            allowed
        );
        let refused = client
            .post(&url)
            .header("origin", origin)
            .send()
            .await
            .unwrap();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(
            refused
                .headers()
                .contains_key("access-control-allow-origin"),
            allowed
        );
    }

    let long = client
        .get(&url)
        .header("x-long", "x".repeat(10_240))
        .send()
        .await
        .unwrap();
    assert_eq!(long.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let big = client
        .post(&url)
        .bearer_auth(&shopper)
        .body(vec![b' '; 10 * 1024 * 1024 + 1]);
    assert_eq!(
        big.send().await.unwrap().status(),
        StatusCode::PAYLOAD_TOO_LARGE
    );

    system.stop().await;
    system.stop().await;
    assert!(client.get(&url).send().await.is_err());
}

#[tokio::test]
async fn the_development_identity_provider_issues_tokens_that_count() {
    let system = system().await.unwrap();
    let client = Client::new();
    let ask = async |path: &str, body: Value| -> Value {
        let url = format!("{}/_dev/{path}", system.base_url());
        client
            .post(url)
            .json(&body)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    };
    let tokens = ask("token", json!({"subs": ["a", "b"], "scope": "sales.admin"})).await;
    assert_eq!(tokens["access_tokens"].as_array().unwrap().len(), 2);
    let token = tokens["access_tokens"][1].as_str().unwrap();
    let answer = call(&system, Method::GET, "/v1/admin/sales", Some(token)).await;
    assert!(![401, 403, 500].contains(&answer.0), "{answer:?}");
    let expired = ask("token", json!({"sub": "a", "ttl_s": -1})).await;
    let expired = expired["access_token"].as_str().unwrap();
    assert_eq!(
        call(&system, Method::GET, "/v1/orders/o", Some(expired))
            .await
            .0,
        401
    );
    let attestation = ask(
        "attestation",
        json!({"sub": "a", "sale": "s", "phone": "+49"}),
    )
    .await;
    assert!(attestation["attestation"].is_string());
    let wrong = ask("token", json!({"sub": 1})).await;
    assert!(wrong["message"].is_string());
    let keys = call(&system, Method::GET, "/_dev/.well-known/jwks.json", None).await;
    assert_eq!(keys.1["keys"][0]["kty"], "RSA");
}

#[tokio::test]
async fn the_queue_speaks_to_the_real_sdk() {
    let system = system().await.unwrap();
    let config = Builder::from(system.aws())
        .endpoint_url(system.sqs_url())
        .build();
    let sqs = aws_sdk_sqs::Client::from_conf(config);
    let url = system.queue_url().unwrap();

    let named = sqs
        .get_queue_url()
        .queue_name("claim-queue.fifo")
        .send()
        .await
        .unwrap();
    assert_eq!(named.queue_url(), Some(url.as_str()));
    let missing = sqs
        .get_queue_url()
        .queue_name("none.fifo")
        .send()
        .await
        .unwrap_err();
    assert!(missing.into_service_error().is_queue_does_not_exist());

    let send = |id: &str| {
        let message = sqs.send_message().queue_url(&url).message_body("one");
        message.message_group_id("g").message_deduplication_id(id)
    };
    let first = send("1").send().await.unwrap();
    assert_eq!(
        first.md5_of_message_body(),
        Some("f97c5d29941bfb1b2fdab0874906ab82")
    );
    let again = send("1").send().await.unwrap();
    assert_eq!(again.message_id(), first.message_id());
    assert!(send("").send().await.is_err());
    let ungrouped = sqs.send_message().queue_url(&url).message_body("one");
    assert!(
        ungrouped
            .message_deduplication_id("2")
            .send()
            .await
            .is_err()
    );
    send("2").send().await.unwrap();

    let receive = || {
        sqs.receive_message()
            .queue_url(&url)
            .max_number_of_messages(1)
    };
    let received = receive().send().await.unwrap();
    let receipt = received.messages()[0].receipt_handle().unwrap().to_owned();
    assert!(
        receive().send().await.unwrap().messages().is_empty(),
        "the group is locked"
    );
    let delete = sqs
        .delete_message()
        .queue_url(&url)
        .receipt_handle(&receipt);
    delete.send().await.unwrap();
    let next = receive().wait_time_seconds(1).send().await.unwrap();
    let receipt = next.messages()[0].receipt_handle().unwrap();
    let show = sqs
        .change_message_visibility()
        .queue_url(&url)
        .receipt_handle(receipt);
    show.visibility_timeout(0).send().await.unwrap();
    assert_eq!(system.queue().unwrap().counts(), (1, 0));
}

#[tokio::test]
async fn the_table_is_the_templates() {
    let system = system().await.unwrap();
    let config = aws_sdk_dynamodb::config::Builder::from(system.aws())
        .endpoint_url(system.dynamodb_url())
        .build();
    let dynamodb = aws_sdk_dynamodb::Client::from_conf(config);
    let table = dynamodb
        .describe_table()
        .table_name("ledger")
        .send()
        .await
        .unwrap();
    let keys = table.table().unwrap().key_schema();
    assert_eq!(keys[0].attribute_name(), "pk");
    assert_eq!(keys[1].attribute_name(), "sk");
}

#[tokio::test]
async fn a_choice_for_a_function_that_does_not_exist_is_refused() {
    let options = Options {
        skew: [(
            "clam-function".to_owned(),
            jiff::SignedDuration::from_secs(1),
        )]
        .into(),
        ..Options::default()
    };
    let error = System::start(options).await.unwrap_err().to_string();
    assert!(error.contains("clam-function"), "{error}");
}
