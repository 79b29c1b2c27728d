//! Queries that a merchant mistyped: each is refused, and all of it is named.

#![allow(clippy::unwrap_used)]

use admin_function::AdminFunction;
use api::HttpFunction;
use serde_json::{Value, json};
use testing::World;

/// Status and document of a call with this query.
async fn ask(function: &AdminFunction, world: &World, route: &str, query: &str) -> (u16, Value) {
    let mut change = testing::session("merchant", &["sales.admin"]);
    change["rawQueryString"] = query.into();
    let event = testing::http_event(route, &json!({"sale": world.sale.to_string()}), change);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let response = api::invoke(function, request).await;
    let status = response.status().as_u16();
    (status, serde_json::from_slice(response.body()).unwrap())
}

const LIST: &str = "GET /v1/admin/sales";
const PREFLIGHT: &str = "GET /v1/admin/sales/{sale}/preflight";
const REPORT: &str = "GET /v1/admin/sales/{sale}/report";

#[tokio::test(flavor = "multi_thread")]
async fn every_parameter_that_is_wrong_or_unknown_is_named() {
    let world = World::open(&[6, 4]).await;
    let function = AdminFunction::start(&world.environment).await.unwrap();
    for (route, query, expected) in [
        (PREFLIGHT, "shopers=5000&seconds=10", &["shopers"][..]),
        (
            PREFLIGHT,
            "shoppers=x&seconds=0&units=&api_quota=%2B1&quota=1&a=1",
            &["shoppers", "units", "seconds", "api_quota", "a", "quota"],
        ),
        (REPORT, "bucket=2", &["bucket"]),
        (REPORT, "bucket=x&buckets=1", &["bucket", "buckets"]),
        (
            LIST,
            "after=a%20b&limit=101&page=2",
            &["after", "limit", "page"],
        ),
    ] {
        let (status, problem) = ask(&function, &world, route, query).await;
        assert_eq!((status, &problem["error"]), (422, &json!("invalid_field")));
        let errors = problem["errors"].as_array().unwrap().iter();
        let fields: Vec<_> = errors
            .map(|error| error["field"].as_str().unwrap())
            .collect();
        assert_eq!(fields, expected, "{query}");
    }
}

/// A change to more buckets stopped before it had written them.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_not_loaded_is_not_found() {
    let world = World::open(&[6, 4]).await;
    let more = world.ledger.change_sale(&world.sale, |sale| {
        sale.config.buckets = 3;
        Ok::<_, std::convert::Infallible>(())
    });
    more.await.unwrap().unwrap().unwrap();
    let function = AdminFunction::start(&world.environment).await.unwrap();
    for (query, expected) in [("bucket=1", 200), ("bucket=2", 404), ("bucket=3", 422)] {
        let (status, answer) = ask(&function, &world, REPORT, query).await;
        assert_eq!(status, expected, "{query}: {answer:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_sent_twice_is_not_read_once() {
    let world = World::open(&[6, 4]).await;
    let function = AdminFunction::start(&world.environment).await.unwrap();
    for (route, query, name) in [
        (REPORT, "bucket=1&bucket=2", "bucket"),
        (REPORT, "bucket=1&bucket=1", "bucket"),
        (PREFLIGHT, "seconds=10&units=1&seconds=10", "seconds"),
        (LIST, "limit=1&%6Cimit=2", "limit"),
    ] {
        let (status, problem) = ask(&function, &world, route, query).await;
        assert_eq!(
            (status, &problem["error"]),
            (400, &json!("malformed_request"))
        );
        let expected = format!("parameter \"{name}\" is given twice");
        assert_eq!(problem["detail"], expected, "{query}");
    }
    let (status, report) = ask(&function, &world, REPORT, "bucket=1").await;
    assert_eq!((status, &report["bucket"]), (200, &json!(1)));
}
