//! What must not be seen is not: not in Debug, not in errors, not on the wire.

use payment::{Provider, StripeProvider};
use serde_json::json;

use crate::stub::{KEY, Reply, Stub, create, environment, intent, ok, order, pi};

#[tokio::test]
async fn no_key_and_no_secret_is_shown() {
    let echo = json!({"error": {
        "type": "invalid_request_error", "code": "api_key_expired",
        "message": format!("Expired API Key provided: {KEY}"),
    }});
    let mut texts = Vec::new();
    for reply in [
        Reply::Of(401, vec![], echo.clone()),
        Reply::Of(400, vec![], echo.clone()),
        Reply::Of(200, vec![], echo),
        Reply::Of(200, vec![], json!({"id": "pi_1_secret_2"})),
    ] {
        let stub = Stub::with([reply]).await;
        texts.push(format!("{:?}", stub.provider));
        let error = stub.provider.intent(&pi(), &order()).await.unwrap_err();
        texts.extend([error.to_string(), format!("{error:?}")]);
    }
    let environment = environment("http://127.0.0.1:1", KEY).await;
    texts.push(format!("{environment:?}"));
    let nobody = StripeProvider::connect(&environment).unwrap();
    let error = nobody.create_intent(&create()).await.unwrap_err();
    texts.push(error.to_string());
    for text in texts {
        for secret in [KEY, "whsec", "_secret_"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test]
async fn a_key_does_not_travel_in_the_clear() {
    for url in [
        "http://api.stripe.com",
        "http://10.0.0.1",
        "http://127.0.0.1.example",
        "ftp://127.0.0.1",
        "api.stripe.com",
        "",
    ] {
        let environment = environment(url, KEY).await;
        let connected = StripeProvider::connect(&environment);
        // Nothing is Stripe itself.
        assert_eq!(connected.is_ok(), url.is_empty(), "{url}");
    }
}

/// A key that is no key of Stripe's, such as the random value that a deployment
/// begins with, costs payments and nothing else.
#[tokio::test]
async fn a_key_that_is_none_is_found_by_the_first_call() {
    for key in ["random0123", "line\nbreak"] {
        let environment = environment("http://127.0.0.1:1", key).await;
        let connected = StripeProvider::connect(&environment).unwrap();
        assert!(connected.intent(&pi(), &order()).await.is_err());
    }
    let stub = Stub::with([ok(intent("succeeded"))]).await;
    assert!(stub.provider.intent(&pi(), &order()).await.is_ok());
}
