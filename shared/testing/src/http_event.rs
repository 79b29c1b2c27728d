//! Calls as API Gateway's HTTP API hands them to a function (payload 2.0).

use serde_json::{Value, json};

/// A call of a route such as `GET /v1/orders/{order}`, with its path
/// parameters in place, and whatever else of the event is given.
///
/// # Panics
/// If `route` is not a method and a path.
pub fn http_event(route: &str, parameters: &Value, change: Value) -> Value {
    let (method, template) = route.split_once(' ').expect("a method and a path");
    let mut path = template.to_owned();
    for (name, value) in parameters.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        path = path.replace(&format!("{{{name}}}"), value);
    }
    let mut event = json!({
        "version": "2.0", "routeKey": route, "rawPath": path, "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "pathParameters": parameters,
        "requestContext": {
            "accountId": "1", "apiId": "a", "domainName": "d", "domainPrefix": "d",
            "requestId": "r", "routeKey": route, "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000", "timeEpoch": 1_767_225_600_000_u64,
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1",
                     "sourceIp": "192.0.2.1", "userAgent": "test"},
        },
        "isBase64Encoded": false,
    });
    merge(&mut event, change);
    event
}

/// The part of an event that says whose session it is, with its scopes.
pub fn session(subject: &str, scopes: &[&str]) -> Value {
    let claims = json!({"sub": subject, "scope": scopes.join(" ")});
    json!({"requestContext": {"authorizer": {"jwt": {"claims": claims, "scopes": null}}}})
}

/// Lays one document over another, member by member.
pub fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}
