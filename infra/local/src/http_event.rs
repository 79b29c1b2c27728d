//! HTTP requests as functions see them, and their answers: API Gateway's
//! payload format 2.0.

use std::collections::HashMap;
use std::net::IpAddr;

use aws_lambda_events::encodings::Body as EventBody;
use aws_lambda_events::event::apigw::{
    ApiGatewayRequestAuthorizer, ApiGatewayRequestAuthorizerJwtDescription,
    ApiGatewayV2httpRequest, ApiGatewayV2httpResponse,
};
use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::authorizer::Session;
use crate::template::ACCOUNT;

/// What the gateway found out about a request.
pub(crate) struct Routed<'a> {
    pub(crate) route_key: &'a str,
    pub(crate) path_parameters: HashMap<String, String>,
    pub(crate) session: Option<Session>,
    pub(crate) source: IpAddr,
    pub(crate) now: Timestamp,
    pub(crate) request_id: String,
}

/// The event for a function, as JSON.
pub(crate) fn request(
    mut parts: Parts,
    body: &Bytes,
    routed: Routed<'_>,
) -> anyhow::Result<Vec<u8>> {
    let mut event = ApiGatewayV2httpRequest::default();
    event.version = Some("2.0".to_owned());
    event.route_key = Some(routed.route_key.to_owned());
    event.raw_path = Some(parts.uri.path().to_owned());
    let query = parts.uri.query().unwrap_or_default();
    event.raw_query_string = Some(query.to_owned());
    if !query.is_empty() {
        event.query_string_parameters = query.parse().unwrap_or_default();
    }
    event.cookies = cookies(&mut parts.headers);
    event.headers = joined(std::mem::take(&mut parts.headers));
    // The gateway's own, whatever was sent.
    let forwarded = HeaderName::from_static("x-forwarded-proto");
    event
        .headers
        .insert(forwarded, HeaderValue::from_static("https"));
    event.path_parameters = routed.path_parameters;
    if !body.is_empty() {
        let text = is_text(&event.headers)
            .then(|| std::str::from_utf8(body).ok())
            .flatten();
        event.is_base64_encoded = text.is_none();
        event.body = Some(text.map_or_else(|| STANDARD.encode(body), str::to_owned));
    }

    let context = &mut event.request_context;
    context.route_key = event.route_key.clone();
    context.account_id = Some(ACCOUNT.to_owned());
    context.stage = Some("$default".to_owned());
    context.request_id = Some(routed.request_id);
    context.apiid = Some("local".to_owned());
    context.domain_prefix = Some("local".to_owned());
    let host = event.headers.get(header::HOST);
    context.domain_name = host.and_then(|host| host.to_str().ok()).map(str::to_owned);
    context.time = Some(routed.now.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string());
    context.time_epoch = routed.now.as_millisecond();
    context.authorizer = routed.session.map(|session| {
        let mut jwt = ApiGatewayRequestAuthorizerJwtDescription::default();
        jwt.claims = session.claims;
        jwt.scopes = session.scopes;
        let mut authorizer = ApiGatewayRequestAuthorizer::default();
        authorizer.jwt = Some(jwt);
        authorizer
    });
    let http = &mut context.http;
    http.method = parts.method;
    http.path = event.raw_path.clone();
    http.protocol = Some(protocol(parts.version).to_owned());
    http.source_ip = Some(routed.source.to_string());
    let agent = event.headers.get(header::USER_AGENT);
    http.user_agent = agent
        .and_then(|agent| agent.to_str().ok())
        .map(str::to_owned);
    Ok(serde_json::to_vec(&event)?)
}

/// The client's answer, from the JSON that a function gave.
///
/// # Errors
/// It is no answer in payload format 2.0.
pub(crate) fn response(payload: &[u8]) -> anyhow::Result<Response<Body>> {
    let payload: ApiGatewayV2httpResponse = serde_json::from_slice(payload)?;
    let body = match payload.body {
        None | Some(EventBody::Empty) => Bytes::new(),
        Some(EventBody::Text(text)) if payload.is_base64_encoded => STANDARD.decode(text)?.into(),
        Some(EventBody::Text(text)) => text.into(),
        Some(EventBody::Binary(bytes)) => bytes.into(),
        Some(other) => anyhow::bail!("the body is {other:?}"),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(u16::try_from(payload.status_code)?)?;
    let headers = response.headers_mut();
    *headers = payload.headers;
    headers.extend(payload.multi_value_headers);
    for cookie in payload.cookies {
        headers.append(header::SET_COOKIE, HeaderValue::from_str(&cookie)?);
    }
    // The gateway frames the answer itself.
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("text/plain;charset=UTF-8"));
    Ok(response)
}

/// Cookies are taken out of the headers, one by one.
fn cookies(headers: &mut HeaderMap) -> Option<Vec<String>> {
    if !headers.contains_key(header::COOKIE) {
        return None;
    }
    let cookies = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .map(|cookie| cookie.trim().to_owned())
        .collect();
    headers.remove(header::COOKIE);
    Some(cookies)
}

/// Repeated headers become one, joined by commas; bytes beyond ASCII are read
/// as Latin-1, so that whatever arrives can be written as JSON.
fn joined(mut headers: HeaderMap) -> HeaderMap {
    let plain = |value: &HeaderValue| value.as_bytes().is_ascii();
    if headers.keys_len() == headers.len() && headers.values().all(plain) {
        return headers;
    }
    let names: Vec<_> = headers.keys().cloned().collect();
    for name in names {
        let mut value = String::new();
        for (index, one) in headers.get_all(&name).iter().enumerate() {
            if index > 0 {
                value.push(',');
            }
            value.extend(one.as_bytes().iter().map(|byte| char::from(*byte)));
        }
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Bodies that are handed over as they are. Anything else is base64.
fn is_text(headers: &HeaderMap) -> bool {
    let Some(kind) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
    else {
        return true;
    };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind.as_str(),
            "application/json"
                | "application/javascript"
                | "application/xml"
                | "application/x-www-form-urlencoded"
        )
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use serde_json::{Value, json};

    fn event(request: Request<()>, body: &'static [u8]) -> Value {
        let routed = Routed {
            route_key: "POST /v1/things/{thing}",
            path_parameters: [("thing".to_owned(), "a/b".to_owned())].into(),
            session: Some(Session {
                claims: [("sub".to_owned(), "ada".to_owned())].into(),
                scopes: None,
            }),
            source: [127, 0, 0, 1].into(),
            now: "2026-11-29T19:36:00Z".parse().unwrap(),
            request_id: "id".to_owned(),
        };
        let (parts, ()) = request.into_parts();
        let event = super::request(parts, &Bytes::from_static(body), routed).unwrap();
        serde_json::from_slice(&event).unwrap()
    }

    fn post() -> axum::http::request::Builder {
        Request::post("/v1/things/a%2Fb?x=1&x=2&y=%20")
    }

    #[test]
    fn a_request_becomes_the_event_of_payload_2() {
        let request = post()
            .header("Host", "api.example")
            .header("User-Agent", "test")
            .header("X-Many", "one")
            .header("X-Many", "two")
            .header("Cookie", "a=1; b=2")
            .header("Content-Type", "application/json")
            .body(())
            .unwrap();
        let event = event(request, b"{\"a\":1}");
        assert_eq!(event["version"], "2.0");
        assert_eq!(event["routeKey"], "POST /v1/things/{thing}");
        assert_eq!(event["rawPath"], "/v1/things/a%2Fb");
        assert_eq!(event["rawQueryString"], "x=1&x=2&y=%20");
        assert_eq!(
            event["queryStringParameters"],
            json!({"x": "1,2", "y": " "})
        );
        assert_eq!(event["pathParameters"], json!({"thing": "a/b"}));
        assert_eq!(event["cookies"], json!(["a=1", "b=2"]));
        assert_eq!(event["headers"]["x-many"], "one,two");
        assert_eq!(event["headers"].get("cookie"), None);
        assert_eq!(event["body"], "{\"a\":1}");
        assert_eq!(event["isBase64Encoded"], false);
        let context = &event["requestContext"];
        assert_eq!(context["stage"], "$default");
        assert_eq!(context["time"], "29/Nov/2026:19:36:00 +0000");
        assert_eq!(context["timeEpoch"], 1_795_980_960_000_i64);
        assert_eq!(context["domainName"], "api.example");
        assert_eq!(context["authorizer"]["jwt"]["claims"]["sub"], "ada");
        assert_eq!(context["http"]["method"], "POST");
        assert_eq!(context["http"]["sourceIp"], "127.0.0.1");
        assert_eq!(context["http"]["userAgent"], "test");
    }

    #[test]
    fn what_is_no_text_is_base64() {
        for (kind, body) in [
            ("application/octet-stream", &b"plain"[..]),
            ("application/json", &b"\xff"[..]),
        ] {
            let request = post().header("Content-Type", kind).body(()).unwrap();
            let event = event(request, body);
            assert_eq!(event["body"], STANDARD.encode(body));
            assert_eq!(event["isBase64Encoded"], true);
        }
    }

    #[test]
    fn a_strange_header_value_breaks_nothing() {
        let request = post()
            .header("X-Name", HeaderValue::from_bytes(b"caf\xe9").unwrap())
            .body(())
            .unwrap();
        assert_eq!(event(request, b"")["headers"]["x-name"], "café");
    }

    #[test]
    fn an_answer_is_taken_apart() {
        let payload = json!({
            "statusCode": 201,
            "headers": {"retry-after": "1"},
            "multiValueHeaders": {},
            "cookies": ["a=1"],
            "body": "aGk=",
            "isBase64Encoded": true,
        });
        let response = response(payload.to_string().as_bytes()).unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["set-cookie"], "a=1");
        assert_eq!(
            response.headers()["content-type"],
            "text/plain;charset=UTF-8"
        );
        assert!(super::response(b"\"hello\"").is_err());
        assert!(super::response(br#"{"statusCode": 99999, "cookies": []}"#).is_err());
    }
}
