//! K: stages, headers, preflights, caches.

use std::collections::BTreeSet;

use local::Options;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tests::link::Condition;
use tests::{Answer, Link, Shop, Shopper, all, eventually};

/// A call as API Gateway hands it to a function, on some stage.
fn event(stage: &str, route: &str, raw_path: &str, parameters: Value) -> Value {
    let (method, _) = route.split_once(' ').unwrap();
    json!({
        "version": "2.0", "routeKey": route, "rawPath": raw_path, "rawQueryString": "",
        "headers": {}, "pathParameters": parameters, "isBase64Encoded": false,
        "requestContext": {
            "accountId": "1", "apiId": "a", "domainName": "d", "domainPrefix": "d",
            "requestId": "r", "routeKey": route, "stage": stage,
            "time": "01/Jan/2026:00:00:00 +0000", "timeEpoch": 1_767_225_600_000_u64,
            "http": {"method": method, "path": raw_path, "protocol": "HTTP/1.1",
                     "sourceIp": "192.0.2.1", "userAgent": "test"},
        },
    })
}

/// The same with a shopper's session, headers and a body.
fn claim_event(stage: &str, raw_path: &str, sale: &str, shopper: &Shopper<'_>) -> Value {
    let route = "POST /v1/sales/{sale}/claims";
    let mut event = event(stage, route, raw_path, json!({"sale": sale}));
    let claims = json!({"sub": shopper.name});
    event["requestContext"]["authorizer"] = json!({"jwt": {"claims": claims, "scopes": null}});
    event["body"] = "{}".into();
    event
}

async fn invoke(shop: &Shop, function: &str, event: &Value) -> (u64, Value) {
    let answer = shop.system.invoke(function, event).await.unwrap();
    let body = answer["body"].as_str().unwrap_or("null");
    let status = answer["statusCode"].as_u64().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn k01_the_stage_is_no_part_of_a_path() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"sale_id": "prod", "units": 9})).await;
    sale.opened().await;
    let mut seen = Vec::new();
    for (stage, prefix) in [
        ("$default", ""),
        ("prod", "/prod"),
        ("$default", "/shop/api"),
        ("prod", "/prod/prod"),
    ] {
        let raw = format!("{prefix}/v1/sales/prod/status");
        let event = event(
            stage,
            "GET /v1/sales/{sale}/status",
            &raw,
            json!({"sale": "prod"}),
        );
        let (status, mut body) = invoke(&shop, "status-function", &event).await;
        assert_eq!(status, 200, "{stage} {raw}: {body}");
        body["server_time"] = Value::Null;
        seen.push(body);

        let shopper = sale.crowd(1).await.remove(0);
        let raw = format!("{prefix}/v1/sales/prod/claims");
        let mut event = claim_event(stage, &raw, "prod", &shopper);
        event["headers"] = json!({"sale-pass": shopper.pass, "idempotency-key": shopper.key()});
        let (status, body) = invoke(&shop, "claim-function", &event).await;
        assert_eq!(
            (status, &body["sale_id"]),
            (201, &json!("prod")),
            "{stage} {raw}: {body}"
        );
    }
    assert!(seen.iter().all(|body| body == &seen[0]));
    // An encoded slash separates nothing; a path that is none is not found.
    for path in [
        "/v1/sales/prod%2Fstatus",
        "/v1/sales/prod/status/",
        "/v1//sales/prod/status",
        "/v1/sales//status",
        "/v1/sales/pro%64x/status",
        "/v1/sales/%00/status",
        "/v1/sales/a%7Bb%7D/status",
        "/prod/v1/sales/prod/status",
        "/v1/sales/%ff/status",
    ] {
        let answer = shop.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {:#}", answer.json);
        assert!(answer.json.is_object(), "{path}");
    }
    assert_eq!(shop.get("/v1/sales/pro%64/status").await.status, 200);
    // A route that is wired to the wrong function is not found there.
    let odd = event("prod", "GET /v1/nowhere", "/v1/nowhere", json!({}));
    assert_eq!(invoke(&shop, "status-function", &odd).await.0, 404);
}

/// A body that is said to be base64 and is none is what was sent wrongly: each
/// call that reads its body refuses it, and the next call is answered.
#[tokio::test]
async fn c12_a_body_that_is_no_base64_is_refused() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    let shopper = sale.shopper("ada").await;
    sale.opened().await;
    let claim = claim_event("$default", "/v1/sales/x/claims", &sale.id, &shopper);
    let route = "POST /v1/webhooks/{provider}";
    let to = json!({"provider": "sandbox"});
    let webhook = event("$default", route, "/v1/webhooks/sandbox", to);
    for (function, mut event, error) in [
        ("claim-function", claim, "malformed_request"),
        ("payment-function", webhook, "invalid_signature"),
    ] {
        event["headers"] = json!({"sale-pass": shopper.pass, "idempotency-key": shopper.key()});
        event["isBase64Encoded"] = true.into();
        // The last one would do, taken as it is.
        for body in ["%%%", "e30", "e30=\n", "é", "{}"] {
            event["body"] = body.into();
            let (status, answer) = invoke(&shop, function, &event).await;
            assert_eq!((status, &answer["error"]), (400, &json!(error)), "{body}");
        }
    }
    // The control: the same claim, encoded as it should be.
    let mut event = claim_event("$default", "/v1/sales/x/claims", &sale.id, &shopper);
    event["headers"] = json!({"sale-pass": shopper.pass, "idempotency-key": shopper.key()});
    event["isBase64Encoded"] = true.into();
    event["body"] = "e30=".into();
    assert_eq!(invoke(&shop, "claim-function", &event).await.0, 201);
}

#[tokio::test]
async fn k02_headers_count_whatever_their_case() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 9})).await;
    sale.opened().await;
    let crowd = sale.crowd(4).await;
    let headers = |pass: &str, key: &str, shopper: &Shopper<'_>| json!({pass: shopper.pass, key: shopper.key()});
    for (shopper, (pass, key)) in crowd.iter().zip([
        ("sale-pass", "idempotency-key"),
        ("Sale-Pass", "Idempotency-Key"),
        ("SALE-PASS", "IDEMPOTENCY-KEY"),
    ]) {
        let mut event = claim_event("$default", "/v1/sales/x/claims", &sale.id, shopper);
        event["headers"] = headers(pass, key, shopper);
        event["cookies"] = json!(["session=something", "a=b"]);
        assert_eq!(
            invoke(&shop, "claim-function", &event).await.0,
            201,
            "{pass}"
        );
    }
    let last = &crowd[3];
    for (key, status) in [
        ("key-one-a,key-two-b", 400),
        ("key-é-inside", 400),
        ("", 400),
    ] {
        let mut event = claim_event("$default", "/v1/sales/x/claims", &sale.id, last);
        event["headers"] = json!({"sale-pass": last.pass, "idempotency-key": key});
        assert_eq!(
            invoke(&shop, "claim-function", &event).await.0,
            status,
            "{key}"
        );
    }
    // A session comes in Authorization alone.
    let cookie = shop
        .request(Method::POST, &sale.path("/claims"))
        .header("cookie", format!("session={}", last.session))
        .header("sale-pass", &last.pass)
        .header("idempotency-key", last.key());
    assert_eq!(Answer::of(cookie).await.status, 401);
    // Headers that are nobody's business break nothing.
    let strange = last
        .sale_request(Method::POST, "/claims?a=1&a=2")
        .header("idempotency-key", last.key())
        .header("x-many", "one")
        .header("x-many", "two, three")
        .header(
            "x-latin",
            reqwest::header::HeaderValue::from_bytes(b"caf\xe9").unwrap(),
        );
    Answer::of(strange).await.expect(201);
    assert_eq!(sale.rest().await.count("held"), 4);
}

#[tokio::test]
async fn k03_a_preflight_needs_no_token_and_every_error_can_be_read() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    let shopper = sale.shopper("ada").await;
    let asked = "authorization,content-type,idempotency-key,sale-entry,sale-pass";
    let (ours, theirs) = ("https://shop.example", "https://evil.example");
    let paths =
        ["/passes", "/entries", "/claims", "/waitlist", "/status"].map(|rest| sale.path(rest));
    let others = ["/v1/orders/o/payments", "/v1/claims/c"].map(str::to_owned);
    for path in paths.iter().chain(&others) {
        let preflight = async |origin: &str| {
            Answer::of(
                shop.request(Method::OPTIONS, path)
                    .header("origin", origin)
                    .header("access-control-request-method", "POST")
                    .header("access-control-request-headers", asked),
            )
            .await
        };
        let answer = preflight(ours).await;
        assert!((200..300).contains(&answer.status), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), ours);
        let allowed: BTreeSet<_> = answer
            .header("access-control-allow-headers")
            .split(',')
            .collect();
        assert!(
            asked.split(',').all(|name| allowed.contains(name)),
            "{allowed:?}"
        );
        assert!(
            answer
                .header("access-control-max-age")
                .parse::<u32>()
                .unwrap()
                > 0
        );
        assert!(
            preflight(theirs)
                .await
                .header("access-control-allow-origin")
                .is_empty()
        );
    }
    // Errors of each kind, from the gateway and from functions.
    let readable = async |status: u16, request: RequestBuilder| {
        let answer = Answer::of(request.header("origin", ours)).await;
        let answer = answer.expect(status);
        assert_eq!(
            answer.header("access-control-allow-origin"),
            ours,
            "{status}"
        );
        assert_eq!(
            answer.header("access-control-expose-headers"),
            "retry-after"
        );
        assert!(answer.header("access-control-allow-credentials").is_empty());
        answer
    };
    let claim = |shopper: &Shopper<'_>| shopper.claim_request(&shopper.key(), "{}");
    let slow = shop.sale(json!({"units": 9, "race_rate_per_s": 1})).await;
    let hasty = slow.crowd(5).await;
    sale.opened().await;
    slow.opened().await;
    let sessionless = shop.request(Method::POST, &sale.path("/claims"));
    readable(401, sessionless).await;
    readable(400, shopper.claim_request("short", "{}")).await;
    readable(404, shop.request(Method::GET, "/v1/sales/none")).await;
    let unknown = shopper.claim_request(&shopper.key(), r#"{"x": 1}"#);
    readable(422, unknown).await;
    shopper.claim().await.expect(201);
    let late = sale.shopper("late").await;
    readable(409, claim(&late)).await;
    // All at once are more than one in a second.
    let answers = all(hasty.iter().map(|one| Answer::of(claim(one)))).await;
    let refused = answers.iter().position(|answer| answer.status == 429);
    let again = claim(&hasty[refused.unwrap()]);
    eventually(
        "a second has begun in which one was let in",
        10,
        async || {
            let first = Answer::of(claim(slow.crowd(1).await.first().unwrap())).await;
            first.is_yes().then_some(())
        },
    )
    .await;
    let busy = readable(429, again).await;
    assert!(!busy.header("retry-after").is_empty());
    // A function that dies is answered for by the gateway.
    shop.system.kill("claim-function").unwrap();
    readable(500, claim(&late)).await;
    shop.system.revive("claim-function").unwrap();
    sale.turn("pause").await;
    let paused = eventually("the pause is seen", 5, async || {
        let answer = late.claim().await;
        (answer.error() == "paused").then_some(claim(&late))
    });
    let paused = readable(503, paused.await).await;
    assert!(!paused.header("retry-after").is_empty());
    let foreign = Answer::of(claim(&late).header("origin", theirs)).await;
    assert!(foreign.header("access-control-allow-origin").is_empty());
}

#[tokio::test]
async fn k05_only_what_everyone_may_see_is_kept() {
    let link = Link::new().await;
    let mut options = Options {
        schedules: false,
        ..Shop::options()
    };
    let variable = ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), link.url());
    options
        .settings
        .insert("status-function".to_owned(), [variable].into());
    let shop = Shop::start(options).await;
    link.lead_to(shop.system.dynamodb_url());
    // A sale that is asked for before it exists.
    let unknown = shop
        .get("/v1/sales/made-later/status")
        .await
        .expect_problem(404, "not_found");
    assert_eq!(unknown.header("cache-control"), "no-store");
    let sale = shop.sale_in(1_500, json!({"sale_id": "made-later"})).await;
    let shopper = sale.shopper("ada").await;
    let early = shopper.claim().await.expect_problem(425, "not_open");
    let public = |answer: Answer, age: &str| {
        assert_eq!(
            answer.expect(200).header("cache-control"),
            format!("public, max-age={age}")
        );
    };
    public(shop.get(&sale.path("/status")).await, "1");
    public(shop.get(&sale.path("")).await, "60");
    public(shop.get("/.well-known/jwks.json").await, "300");
    // A failure of a moment is not kept, and is over at once.
    link.turn(Condition::Cut);
    for rest in ["/status", ""] {
        let failed = shop
            .get(&sale.path(rest))
            .await
            .expect_problem(503, "unavailable");
        assert_eq!(failed.header("cache-control"), "no-store");
        assert!(!failed.header("retry-after").is_empty());
    }
    link.turn(Condition::Up);
    public(shop.get(&sale.path("/status")).await, "1");

    sale.opened().await;
    let claimed = shopper.claim().await.expect(201);
    shopper.ordered(&claimed.json).await;
    let own = [
        early,
        claimed.clone(),
        shopper.claim().await.expect(200),
        shopper.claim_as("short").await.expect(400),
        shopper.enter().await,
        shopper.read_claim(&claimed.json).await.expect(200),
        shopper.read_order(&claimed.json).await.expect(200),
        shopper.begin_payment(&claimed.json).await.expect(201),
        shopper.give_back(&claimed.json).await.expect(409),
        shop.webhook("{}", "t=1,v1=00").await.expect(400),
        sale.admin(Method::GET, "", &Value::Null).await.expect(200),
        sale.admin(Method::GET, "/report", &Value::Null)
            .await
            .expect(200),
        sale.admin(Method::GET, "/preflight", &Value::Null)
            .await
            .expect(200),
        sale.admin(Method::POST, "/pause", &Value::Null)
            .await
            .expect(200),
        sale.resize(json!(-1)).await.expect(422),
    ];
    for answer in own {
        assert_eq!(
            answer.header("cache-control"),
            "no-store",
            "{:#}",
            answer.json
        );
    }
    // What the gateway answers by itself names no cache, and is no 2xx.
    let refused = Client::new().get(format!("{}/v1/orders/x", shop.system.base_url()));
    let refused = Answer::of(refused).await;
    assert_eq!(refused.status, 401);
    assert!(!refused.header("cache-control").contains("public"));
}
