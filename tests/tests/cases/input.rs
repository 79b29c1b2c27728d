//! Every call and every field: what is not as documented is refused by name,
//! is never a fault of ours, and changes nothing.

use reqwest::Method;
use serde_json::{Value, json};
use tests::shopper::{claim_path, order_path};
use tests::{Answer, OnSale, Shop, Shopper};

/// Bodies that are no JSON object.
const NO_OBJECTS: [&str; 12] = [
    "{",
    "[]",
    "\"text\"",
    "1",
    "null",
    "{} {}",
    "{} x",
    "{'a': 1}",
    "{\"a\": 1,}",
    "{\"a\": 1, \"a\": 1}",
    "{\"a\": {\"b\": 1, \"b\": 2}}",
    "NaN",
];

/// A call that takes a body.
struct Call<'a> {
    name: &'static str,
    method: Method,
    path: String,
    shopper: Option<&'a Shopper<'a>>,
}

impl Call<'_> {
    /// The call with whatever its caller has, and this body.
    async fn with(&self, sale: &OnSale<'_>, body: impl Into<reqwest::Body>) -> Answer {
        let request = match self.shopper {
            None => sale.shop.admin_request(self.method.clone(), &self.path),
            Some(shopper) => shopper
                .request(self.method.clone(), &self.path)
                .header("sale-pass", &shopper.pass)
                .header("idempotency-key", "a-key-for-input"),
        };
        Answer::of(request.body(body)).await
    }
}

/// Every call that takes a body, on a sale with a claim.
fn calls<'a>(
    sale: &OnSale<'_>,
    shopper: &'a Shopper<'a>,
    claim: &Value,
    intent: &str,
) -> Vec<Call<'a>> {
    let shoppers = [
        ("passes", sale.path("/passes")),
        ("entries", sale.path("/entries")),
        ("waitlist", sale.path("/waitlist")),
        ("claims", sale.path("/claims")),
        ("payments", order_path(claim, "/payments")),
        ("confirm", format!("/v1/sandbox/intents/{intent}/confirm")),
    ];
    let admin = [
        "/load",
        "/pause",
        "/resume",
        "/end",
        "/force-sold-out",
        "/waitlist-only",
        "/extend-pay-window",
    ];
    let merchant = |name, method: Method, path| Call {
        name,
        method,
        path,
        shopper: None,
    };
    let shoppers = shoppers.map(|(name, path)| Call {
        name,
        method: Method::POST,
        path,
        shopper: Some(shopper),
    });
    let below = admin.map(|rest| {
        merchant(
            rest,
            Method::POST,
            format!("/v1/admin/sales/{}{rest}", sale.id),
        )
    });
    let whole = [
        merchant("create", Method::POST, "/v1/admin/sales".to_owned()),
        merchant(
            "change",
            Method::PATCH,
            format!("/v1/admin/sales/{}", sale.id),
        ),
    ];
    shoppers.into_iter().chain(below).chain(whole).collect()
}

/// A sale in which one unit is held and being paid.
async fn held<'a>(shop: &'a Shop) -> (OnSale<'a>, String) {
    let sale = shop.sale(json!({"units": 5})).await;
    let shopper = sale.shopper("holder").await;
    sale.opened().await;
    shopper.hold().await;
    let name = shopper.name.clone();
    drop(shopper);
    (sale, name)
}

#[tokio::test]
async fn a_body_that_is_no_object_is_refused_by_every_call() {
    let shop = Shop::quiet().await;
    let (sale, name) = held(&shop).await;
    let shopper = sale.shopper(&name).await;
    let claim = shopper.claim().await.expect(200).json;
    let payment = shopper.begin_payment(&claim).await.expect(201).json;
    let before = sale.books().await.report;
    for call in calls(
        &sale,
        &shopper,
        &claim,
        payment["intent_id"].as_str().unwrap(),
    ) {
        let deep = "[".repeat(20_000);
        let long = format!("{{\"x\": \"{}\"", "y".repeat(200_000));
        for body in NO_OBJECTS.into_iter().chain([deep.as_str(), long.as_str()]) {
            let answer = call.with(&sale, body.to_owned()).await;
            let shown = &body[..body.len().min(40)];
            assert_eq!(
                (answer.status, answer.error()),
                (400, "malformed_request"),
                "{} {shown}",
                call.name
            );
            assert!(!answer.text("detail").is_empty());
        }
        let large = format!("{{\"x\": \"{}\"}}", "y".repeat(256 * 1024));
        let large = call.with(&sale, large).await;
        assert_eq!(
            (large.status, large.error()),
            (413, "body_too_large"),
            "{}",
            call.name
        );
        let binary = call.with(&sale, vec![0xff, 0xfe, b'{', b'}']).await;
        assert_eq!(
            (binary.status, binary.error()),
            (400, "malformed_request"),
            "{}",
            call.name
        );
        let unknown = call.with(&sale, r#"{"no_such_field": 1}"#).await;
        assert_eq!(unknown.status, 422, "{}: {:#}", call.name, unknown.json);
        assert!(
            unknown.fields().contains(&"no_such_field"),
            "{}: {:#}",
            call.name,
            unknown.json
        );
    }
    assert_eq!(sale.books().await.report, before, "nothing changed");
}

#[tokio::test]
async fn a_wrong_field_is_named_by_every_call() {
    let shop = Shop::quiet().await;
    let (sale, name) = held(&shop).await;
    let shopper = sale.shopper(&name).await;
    let claim = shopper.claim().await.expect(200).json;
    let payment = shopper.begin_payment(&claim).await.expect(201).json;
    let intent = payment["intent_id"].as_str().unwrap();
    let before = sale.books().await.report;
    let calls = calls(&sale, &shopper, &claim, intent);
    let long = "d".repeat(129);
    let secret = &payment["client_secret"];
    let captured = |amount: Value, currency: Value| {
        json!({"client_secret": secret, "outcome": "succeed",
            "captured": {"amount": amount, "currency": currency}})
    };
    let cases: [(&str, &str, Vec<Value>); 14] = [
        (
            "passes",
            "device",
            vec![
                json!({}),
                json!({"device": ""}),
                json!({"device": 1}),
                json!({"device": null}),
                json!({"device": ["d"]}),
                json!({"device": "a\nb"}),
                json!({"device": "ä"}),
                json!({"device": long}),
            ],
        ),
        (
            "passes",
            "attestation",
            vec![
                json!({"device": "d", "attestation": 1}),
                json!({"device": "d", "attestation": null}),
                json!({"device": "d", "attestation": {}}),
            ],
        ),
        (
            "claims",
            "quantity",
            vec![
                json!({"quantity": 0}),
                json!({"quantity": 2}),
                json!({"quantity": "1"}),
                json!({"quantity": null}),
                json!({"quantity": 1.5}),
                json!({"quantity": [1]}),
            ],
        ),
        (
            "confirm",
            "client_secret",
            vec![
                json!({"outcome": "succeed"}),
                json!({"outcome": "decline", "client_secret": 1}),
                json!({"outcome": "succeed", "client_secret": null}),
            ],
        ),
        (
            "confirm",
            "outcome",
            vec![
                json!({"client_secret": secret}),
                json!({"client_secret": secret, "outcome": "perhaps"}),
                json!({"client_secret": secret, "outcome": true}),
                json!({"client_secret": secret, "outcome": null}),
                json!({"client_secret": secret, "outcome": ""}),
            ],
        ),
        (
            "confirm",
            "captured",
            vec![
                json!({"client_secret": secret, "outcome": "succeed", "captured": 1}),
                json!({"client_secret": secret, "outcome": "succeed", "captured": null}),
                json!({"client_secret": secret, "outcome": "succeed", "captured": []}),
            ],
        ),
        (
            "confirm",
            "captured.x",
            vec![json!({"client_secret": secret, "outcome": "succeed",
                "captured": {"amount": 1, "currency": "INR", "x": 1}})],
        ),
        (
            "confirm",
            "captured.amount",
            vec![
                captured(json!(-1), json!("INR")),
                captured(json!("1"), json!("INR")),
                captured(json!(1.5), json!("INR")),
                captured(json!(null), json!("INR")),
                captured(json!(1_u64 << 53), json!("INR")),
                json!({"client_secret": secret, "outcome": "succeed", "captured": {"currency": "INR"}}),
            ],
        ),
        (
            "confirm",
            "captured.currency",
            vec![
                captured(json!(1), json!("inr")),
                captured(json!(1), json!("XXX")),
                captured(json!(1), json!(1)),
                captured(json!(1), json!(null)),
                json!({"client_secret": secret, "outcome": "succeed", "captured": {"amount": 1}}),
            ],
        ),
        (
            "/force-sold-out",
            "on",
            vec![json!({"on": 1}), json!({"on": "true"}), json!({"on": null})],
        ),
        (
            "/waitlist-only",
            "on",
            vec![json!({"on": 0}), json!({"on": []})],
        ),
        (
            "/extend-pay-window",
            "seconds",
            vec![
                json!({}),
                json!({"seconds": 0}),
                json!({"seconds": -1}),
                json!({"seconds": 86_401}),
                json!({"seconds": 1.0}),
                json!({"seconds": "60"}),
                json!({"seconds": null}),
            ],
        ),
        (
            "change",
            "name",
            vec![
                json!({"name": ""}),
                json!({"name": null}),
                json!({"units": 4, "name": 1}),
            ],
        ),
        (
            "change",
            "units",
            vec![
                json!({"units": 0}),
                json!({"units": "5"}),
                json!({"units": 100_001}),
                json!({"units": null}),
                json!({"units": 5.0}),
            ],
        ),
    ];
    for (name, field, bodies) in cases {
        let call = calls.iter().find(|call| call.name == name).unwrap();
        for body in bodies {
            let answer = call.with(&sale, body.to_string()).await;
            assert_eq!(answer.fields(), [field], "{name} {body}: {:#}", answer.json);
            answer.expect_fields(&[field]);
        }
    }
    // A secret that is none opens nothing, whatever its length.
    let confirm = calls.iter().find(|call| call.name == "confirm").unwrap();
    for wrong in ["", "x", &"s".repeat(100_000)] {
        let body = json!({"client_secret": wrong, "outcome": "succeed"});
        let answer = confirm.with(&sale, body.to_string()).await;
        answer.expect_problem(404, "not_found");
    }
    for bucket in ["x", "-1", "1", "99999999999", "1.0", "", "%00"] {
        let rest = format!("/report?bucket={bucket}");
        sale.admin(Method::GET, &rest, &Value::Null)
            .await
            .expect_fields(&["bucket"]);
    }
    // Once open, nothing but units can be changed.
    for changes in [
        json!({"name": "Other"}),
        json!({"price": {"amount": 1, "currency": "INR"}}),
        json!({"limit_per_customer": 3}),
        json!({"mode": "draw"}),
        json!({"buckets": 2}),
        json!({"units": 4, "name": "Other"}),
    ] {
        sale.admin(Method::PATCH, "", &changes)
            .await
            .expect_problem(409, "sale_started");
    }
    sale.admin(Method::PATCH, "", &json!({"sale_id": "other"}))
        .await
        .expect_fields(&["sale_id"]);
    assert_eq!(sale.books().await.report, before, "nothing changed");
}

#[tokio::test]
async fn every_field_of_a_sale_is_checked() {
    let shop = Shop::quiet().await;
    let no_text = [json!(1), json!(null), json!(true), json!([]), json!({})];
    let no_number = [
        json!("1"),
        json!(null),
        json!(true),
        json!([1]),
        json!(1.5),
        json!(1e300),
        json!(-1),
    ];
    let words = |field: &'static str, more: Vec<Value>| {
        (field, no_text.iter().cloned().chain(more).collect())
    };
    let numbers = |field: &'static str, more: Vec<Value>| {
        (field, no_number.iter().cloned().chain(more).collect())
    };
    let long = |length: usize| json!("x".repeat(length));
    let cases: Vec<(&str, Vec<Value>)> = vec![
        words(
            "sale_id",
            vec![
                json!(""),
                json!("a{b}"),
                json!("{"),
                json!("}"),
                json!("x:stock"),
                json!("fs1111:b3"),
                json!("phöne"),
                json!("a b"),
                json!("a/b"),
                json!("../x"),
                json!("a\u{0}"),
                long(65),
                long(200),
            ],
        ),
        words(
            "sku",
            vec![
                json!(""),
                json!("  "),
                json!("a\nb"),
                json!("\u{0}"),
                long(65),
            ],
        ),
        words(
            "name",
            vec![
                json!(""),
                json!(" "),
                json!("a\tb"),
                json!("a\u{85}b"),
                long(201),
            ],
        ),
        words("mode", vec![json!(""), json!("lottery"), json!("Draw")]),
        words("opens_at", vec![json!("soon")]),
        words(
            "closes_at",
            vec![json!("later"), json!("2020-01-01T00:00:00Z")],
        ),
        numbers("units", vec![json!(0), json!(100_001)]),
        numbers("buckets", vec![json!(0), json!(401)]),
        numbers("limit_per_customer", vec![json!(0), json!(251)]),
        numbers("pay_window_s", vec![json!(0), json!(86_401)]),
        numbers("waitlist_pay_window_s", vec![json!(0), json!(86_401)]),
        numbers("claim_spread_s", vec![json!(61)]),
        numbers("no_show_percent", vec![json!(101)]),
        numbers("expected_entries", vec![json!(100_000_001)]),
        numbers("ledger_only_rate_per_s", vec![json!(1_001)]),
        numbers("race_rate_per_s", vec![json!(0), json!(1_000_001)]),
        (
            "price",
            vec![json!(1), json!(null), json!("1 INR"), json!([])],
        ),
        ("identity_limits", vec![json!(1), json!(null), json!([])]),
    ];
    let mut cases: Vec<(String, Value)> = cases
        .into_iter()
        .flat_map(|(field, values)| {
            let change = move |value| (field.to_owned(), json!({field: value}));
            values.into_iter().map(change)
        })
        .collect();
    for (field, value) in [
        ("price.amount", json!({"amount": "1", "currency": "INR"})),
        ("price.amount", json!({"amount": null, "currency": "INR"})),
        ("price.amount", json!({"amount": true, "currency": "INR"})),
        ("price.amount", json!({"amount": [], "currency": "INR"})),
        ("price.amount", json!({"amount": -1, "currency": "INR"})),
        ("price.amount", json!({"currency": "INR"})),
        ("price.currency", json!({"amount": 1})),
        ("price.currency", json!({"amount": 1, "currency": "inr"})),
        ("price.currency", json!({"amount": 1, "currency": "ABC"})),
        ("price.currency", json!({"amount": 1, "currency": 356})),
        (
            "price.display",
            json!({"amount": 1, "currency": "INR", "display": "x"}),
        ),
    ] {
        cases.push((field.to_owned(), json!({"price": value})));
    }
    for kind in ["phone", "address", "email", "instrument", "device"] {
        for limit in [json!(0), json!(1_001), json!("1"), json!(null), json!(1.5)] {
            let field = format!("identity_limits.{kind}");
            cases.push((field, json!({"identity_limits": {kind: limit}})));
        }
    }
    let unknown = json!({"identity_limits": {"shoe_size": 1}});
    cases.push(("identity_limits.shoe_size".to_owned(), unknown));
    // What belongs to the other mode is no field of this one.
    let window = "draw_window_ms".to_owned();
    cases.push((window.clone(), json!({"draw_window_ms": 500})));
    let rate = json!({"mode": "draw", "race_rate_per_s": 5});
    cases.push(("race_rate_per_s".to_owned(), rate));
    let outside = [json!(0), json!(99), json!(3_600_001)];
    for value in no_number.iter().cloned().chain(outside) {
        cases.push((
            window.clone(),
            json!({"mode": "draw", "draw_window_ms": value}),
        ));
    }
    // By a new sale, and by a change of one that has not opened.
    let create = async |draft: Value| shop.admin(Method::POST, "/v1/admin/sales", &draft).await;
    let sale = shop
        .sale_in(3_600_000, json!({"sale_id": "the-only-one"}))
        .await;
    for (field, change) in &cases {
        let mut draft = shop.draft(change.clone());
        if field == "mode" {
            // Of no mode, its field would be unknown too.
            draft.remove("race_rate_per_s");
        }
        let created = create(draft.into()).await;
        let changed = sale.admin(Method::PATCH, "", change).await;
        for answer in [created, changed] {
            assert_eq!(answer.fields(), [field], "{change}: {:#}", answer.json);
            answer.expect_fields(&[field]);
        }
    }
    let after = sale.admin(Method::GET, "", &Value::Null).await.expect(200);
    assert_eq!(after.json, sale.made, "nothing was changed");
    // What is missing is named; all that is wrong is told at once.
    for field in [
        "sale_id", "sku", "name", "price", "units", "opens_at", "mode",
    ] {
        let mut draft = shop.draft(json!({}));
        draft.remove(field);
        draft.remove("race_rate_per_s");
        create(draft.into()).await.expect_fields(&[field]);
    }
    let mut many = shop.draft(json!({"units": 0, "name": "", "price": 1}));
    many.insert("colour".into(), "red".into());
    create(many.into())
        .await
        .expect_fields(&["colour", "name", "price", "units"]);
    let listed = shop
        .admin(Method::GET, "/v1/admin/sales", &Value::Null)
        .await
        .expect(200);
    assert_eq!(listed.json["sales"], json!([sale.made]), "none was made");
    // The same name twice.
    let draft: Value = shop.draft(json!({})).into();
    create(draft.clone()).await.expect(201);
    create(draft).await.expect_problem(409, "sale_exists");
}

/// Of these the events' reader makes the call's address.
#[tokio::test]
async fn headers_that_are_no_address_break_nothing() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    for (header, value, status) in [
        ("x-forwarded-proto", "a b", 200),
        ("x-forwarded-proto", "javascript:", 200),
        ("host", "a b", 400),
    ] {
        let call = shop.request(Method::GET, &sale.path("/status"));
        let answer = Answer::of(call.header(header, value)).await;
        assert_eq!(answer.status, status, "{header}: {value}");
    }
    // What was sent and is no text is wrong, and not missing.
    let shopper = sale.shopper("umlaut").await;
    let call = shopper.request(Method::POST, &sale.path("/claims"));
    let call = call.header("idempotency-key", "schlüssel-eins".as_bytes());
    let answer = Answer::of(call).await;
    let answer = answer.expect_problem(400, "invalid_idempotency_key");
    assert!(
        answer.text("detail").contains("must be"),
        "{:#}",
        answer.json
    );
}

#[tokio::test]
async fn names_that_are_none_and_long_headers_break_nothing() {
    let shop = Shop::quiet().await;
    let (sale, name) = held(&shop).await;
    let shopper = sale.shopper(&name).await;
    let claim = shopper.claim().await.expect(200).json;
    let before = sale.books().await.report;
    for odd in [
        "none",
        "a%7Bb%7D",
        "%20",
        "x%3Astock",
        "..%2F..",
        "%F0%9F%98%80",
        "cl_x",
        &"x".repeat(300),
    ] {
        let calls = [
            (Method::GET, format!("/v1/sales/{odd}")),
            (Method::GET, format!("/v1/sales/{odd}/status")),
            (Method::GET, format!("/v1/claims/{odd}")),
            (Method::DELETE, format!("/v1/claims/{odd}")),
            (Method::GET, format!("/v1/orders/{odd}")),
            (Method::POST, format!("/v1/orders/{odd}/payments")),
            (Method::POST, format!("/v1/webhooks/{odd}")),
        ];
        for (method, path) in calls {
            let answer = Answer::of(shopper.request(method.clone(), &path)).await;
            assert_eq!(answer.status, 404, "{method} {path}: {:#}", answer.json);
        }
        let body = json!({"client_secret": "x", "outcome": "succeed"}).to_string();
        let confirm = shop.request(Method::POST, &format!("/v1/sandbox/intents/{odd}/confirm"));
        let answer = Answer::of(confirm.body(body)).await;
        assert_eq!(answer.status, 404, "{odd}: {:#}", answer.json);
        let none = Value::Null;
        for (method, rest, body) in [
            (Method::GET, "", &none),
            (Method::GET, "/report", &none),
            (Method::GET, "/preflight", &none),
            (Method::PATCH, "", &json!({"units": 1})),
            (Method::POST, "/load", &none),
            (Method::POST, "/pause", &none),
            (Method::POST, "/resume", &none),
            (Method::POST, "/end", &none),
            (Method::POST, "/force-sold-out", &json!({"on": true})),
            (Method::POST, "/waitlist-only", &none),
            (Method::POST, "/extend-pay-window", &json!({"seconds": 60})),
        ] {
            let path = format!("/v1/admin/sales/{odd}{rest}");
            let answer = shop.admin(method, &path, body).await;
            assert_eq!(answer.status, 404, "{path}: {:#}", answer.json);
        }
        for rest in ["passes", "entries", "claims", "waitlist"] {
            let request = shopper
                .request(Method::POST, &format!("/v1/sales/{odd}/{rest}"))
                .header("sale-pass", &shopper.pass)
                .header("idempotency-key", "a-key-for-input")
                .body(if rest == "passes" {
                    r#"{"device": "d"}"#
                } else {
                    "{}"
                });
            assert_eq!(Answer::of(request).await.status, 404, "{odd} {rest}");
        }
    }
    let paths = [
        claim_path(&claim),
        order_path(&claim, ""),
        sale.path("/claims"),
        sale.path("/passes"),
    ];
    for path in &paths {
        for name in [
            "x-long",
            "sale-pass",
            "sale-entry",
            "idempotency-key",
            "sandbox-signature",
        ] {
            let request = shopper
                .request(Method::POST, path)
                .header(name, "x".repeat(10_240));
            let answer = Answer::of(request).await;
            assert!(
                (400..500).contains(&answer.status),
                "{path} {name}: {}",
                answer.status
            );
        }
    }
    // Webhooks: nothing that is not signed over these bytes is read.
    for (payload, signature) in [
        ("", ""),
        ("{}", ""),
        ("{}", "t=1"),
        ("{}", "v1=00"),
        ("{}", "t=abc,v1=00"),
        ("{}", "t=1,t=2,v1=00"),
        ("{", "x"),
        ("[]", "t=99999999999999999999,v1="),
    ] {
        let answer = shop.webhook(payload, signature).await;
        assert_eq!(
            answer.status, 400,
            "{payload} {signature}: {:#}",
            answer.json
        );
    }
    for payload in ["[]", "{", "null", "{} {}", r#"{"id":"a","id":"b"}"#] {
        let answer = shop.forge_webhook(payload).await;
        answer.expect_problem(400, "malformed_request");
    }
    // Signed, and not what it must be.
    let event = json!({
        "id": "evt_odd", "type": "payment_intent.succeeded", "intent": "pi_odd",
        "amount": 999_900, "currency": "INR", "metadata": {"order_id": "ord_odd"},
    });
    let told = async |member: &str, value: Option<Value>| {
        let mut event = event.clone();
        match value {
            Some(value) => event[member] = value,
            None => drop(event.as_object_mut().unwrap().remove(member)),
        }
        shop.forge_webhook(&event.to_string()).await
    };
    let no_text = || [None, Some(json!(1)), Some(json!(null)), Some(json!(["x"]))];
    let empty = [Some(json!("")), Some(json!("e".repeat(256)))];
    for (member, more) in [
        ("id", empty.to_vec()),
        ("type", vec![]),
        ("intent", vec![Some(json!("a b")), Some(json!(""))]),
    ] {
        for value in no_text().into_iter().chain(more) {
            let shown = format!("{member} {value:?}");
            let answer = told(member, value).await;
            let answer = answer.expect_problem(400, "malformed_request");
            let detail = answer.text("detail");
            let named = format!("{member} is missing or not usable");
            assert!(detail.ends_with(&named), "{shown}: {detail}");
        }
    }
    // Whose money it is can't be told: it is asked for again.
    for value in no_text().into_iter().chain([
        Some(json!({})),
        Some(json!({"order_id": null})),
        Some(json!({"order_id": ""})),
        Some(json!({"order_id": "ord_odd"})),
    ]) {
        let answer = told("metadata", value).await;
        answer.expect_problem(404, "not_found");
    }
    for kind in ["", "charge.succeeded"] {
        let answer = told("type", Some(json!(kind))).await.expect(200);
        assert_eq!(answer.text("result"), "ignored", "{kind}");
    }
    assert_eq!(sale.books().await.report, before, "nothing changed");
}

/// Parameters of the calls that have some.
#[tokio::test]
async fn every_parameter_is_a_number_within_its_limits() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    let preflight = format!("/v1/admin/sales/{}/preflight", sale.id);
    let list = "/v1/admin/sales";
    for (path, name, most) in [
        (preflight.as_str(), "shoppers", 1_000_000_000_u64),
        (&preflight, "units", 100_000),
        (&preflight, "seconds", 86_400),
        (&preflight, "api_quota", 10_000_000),
        (&preflight, "concurrency_quota", 10_000_000),
        (list, "limit", 100),
    ] {
        let ask = async |value: &str| {
            let path = format!("{path}?{name}={value}");
            shop.admin(Method::GET, &path, &Value::Null).await
        };
        let beyond = (most + 1).to_string();
        for value in [
            "0",
            "-1",
            "+1",
            "%2B1",
            "",
            "x",
            "1.0",
            "1e1",
            "0x1",
            "%201",
            "%00",
            "null",
            "18446744073709551616",
            beyond.as_str(),
        ] {
            let answer = ask(value).await;
            assert_eq!(answer.fields(), [name], "{name}={value}: {:#}", answer.json);
            answer.expect_fields(&[name]);
        }
        for value in ["1", "01", most.to_string().as_str()] {
            ask(value).await.expect(200);
        }
    }
}

/// What is no attestation is never taken for one, and leaves nothing behind.
#[tokio::test]
async fn an_attestation_that_is_none_gets_no_pass() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({})).await;
    let session = shop.session("ada");
    let ask = async |body: Value| {
        let request = shop.request(Method::POST, &sale.path("/passes"));
        Answer::of(request.bearer_auth(&session).body(body.to_string())).await
    };
    for text in ["", "x", "a.b.c", "..", "é", &session, &"x".repeat(100_000)] {
        let answer = ask(json!({"device": "d", "attestation": text})).await;
        answer.expect_problem(401, "invalid_attestation");
    }
    ask(json!({"device": "d"})).await.expect(201);
}

/// What a call does not read changes nothing of its answer.
#[tokio::test]
async fn what_is_not_read_changes_nothing() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 9})).await;
    let crowd = sale.crowd(3).await;
    sale.opened().await;
    // Parameters of calls that have none.
    for path in [sale.path("?units=5"), sale.path("/status?a=1&a=2")] {
        shop.get(&path).await.expect(200);
    }
    let admin = format!("/v1/admin/sales/{}?bucket=x", sale.id);
    let read = shop.admin(Method::GET, &admin, &Value::Null).await;
    assert_eq!(read.expect(200).json["units"], 9);
    // A body is JSON, whatever it is called.
    for (shopper, kind) in crowd
        .iter()
        .zip(["text/plain", "application/xml", "image/png"])
    {
        let claim = shopper.claim_request(&shopper.key(), r#"{"quantity": 1}"#);
        let claim = Answer::of(claim.header("content-type", kind)).await;
        let claim = claim.expect(201).json;
        shopper.ordered(&claim).await;
        // And none is asked for to give a hold back.
        let back = shopper.request(Method::DELETE, &claim_path(&claim));
        let back = Answer::of(back.body("{")).await.expect(200);
        assert_eq!(back.text("status"), "CANCELLED");
    }
    assert_eq!(sale.rest().await.count("free"), 9);
}
