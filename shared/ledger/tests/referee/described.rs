//! The table as the service describes it.

use aws_config::{BehaviorVersion, Region};
use axum::Router;
use ledger::{Description, Error, Table};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What a table is that a service describes so.
async fn described(table: Value) -> Result<Description, Error> {
    let answer = json!({"Table": table}).to_string();
    let router = Router::new().fallback(async move || answer.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let aws = aws_config::defaults(BehaviorVersion::latest())
        .empty_test_environment()
        .test_credentials()
        .region(Region::from_static("eu-west-1"))
        .endpoint_url(url)
        .load()
        .await;
    Table::new(aws_sdk_dynamodb::Client::new(&aws), "ledger")
        .describe()
        .await
}

#[tokio::test]
async fn a_table_tells_how_it_is_paid_and_what_it_takes() {
    let warm =
        json!({"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 8_000, "Status": "ACTIVE"});
    let table = json!({
        "TableName": "ledger",
        "TableStatus": "ACTIVE",
        "CreationDateTime": 1.421866952062e9,
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "WarmThroughput": warm,
    });
    assert_eq!(
        described(table).await.unwrap(),
        Description {
            status: "ACTIVE".to_owned(),
            on_demand: true,
            warm_writes: Some(8_000),
            warm_reads: Some(12_000),
        }
    );
    // A table that was never on demand has no summary.
    let table = json!({"TableName": "ledger", "TableStatus": "UPDATING"});
    assert_eq!(
        described(table).await.unwrap(),
        Description {
            status: "UPDATING".to_owned(),
            on_demand: false,
            warm_writes: None,
            warm_reads: None,
        }
    );
    let nothing = described(Value::Null).await;
    assert!(matches!(nothing, Err(Error::Unavailable(_))), "{nothing:?}");
}
