//! A DynamoDB in this process, reached over HTTP by the real SDK.

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use dynoxide::Database;
use ledger::Ledger;
use runtime::{Clock, Environment};
use tokio::net::TcpListener;

const TABLE: &str = "ledger";

/// Variables that environments of this crate may have.
const VARIABLES: [&str; 9] = [
    "TABLE_NAME",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "PAYMENT_PROVIDER",
    "REHEARSAL",
    "WEBHOOK_SECRETS",
    "GATE_URL",
    "GATE_ACK_WAIT_MS",
    "AWS_ENDPOINT_URL_SQS",
    "QUEUE_URL",
];

/// An empty ledger that nobody else uses, and its environment: further
/// connections, as other execution environments have them, are made with
/// [`Ledger::connect`]. It lives as long as the test's runtime.
///
/// # Panics
/// If it can't be set up.
pub async fn ledger() -> (Environment, Ledger) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let database = Database::memory().expect("a database");
    tokio::spawn(dynoxide::server::serve_with_shutdown(
        listener,
        database,
        std::future::pending(),
    ));
    let url = format!("http://{address}");
    let aws = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "testing"))
        .endpoint_url(&url)
        .http_client(http_client())
        .load()
        .await;
    create_table(&Client::new(&aws)).await;
    let settings = [
        ("TABLE_NAME", TABLE),
        ("AWS_ENDPOINT_URL_DYNAMODB", &url),
        ("PAYMENT_PROVIDER", "sandbox"),
        ("REHEARSAL", "true"),
        ("WEBHOOK_SECRETS", "whsec_test"),
    ];
    let environment = Environment {
        settings: variables(&settings).collect(),
        aws,
        clock: Clock::system(),
    };
    let ledger = Ledger::connect(&environment).expect("settings are given");
    (environment, ledger)
}

fn variables(given: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
}

/// The same environment with further variables.
pub fn with_variables(environment: &Environment, further: &[(&str, &str)]) -> Environment {
    let kept = VARIABLES
        .into_iter()
        .filter_map(|name| Some((name, environment.settings.get(name)?)));
    let kept: Vec<_> = kept.chain(further.iter().copied()).collect();
    Environment {
        settings: variables(&kept).collect(),
        ..environment.clone()
    }
}

/// The SDK's own client, named here so that it can be wrapped.
pub fn http_client() -> SharedHttpClient {
    Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
        .build_https()
}

async fn create_table(client: &Client) {
    let attribute = |name| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .expect("name and type are given")
    };
    let key = |name, part| {
        KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(part)
            .build()
            .expect("name and type are given")
    };
    client
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("pk"))
        .attribute_definitions(attribute("sk"))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .send()
        .await
        .expect("a table");
}
