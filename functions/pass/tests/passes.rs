//! Passes against the ledger's table in an emulator, called as API Gateway
//! calls.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

use api::HttpFunction;
use domain::Sale;
use domain::config::SaleConfig;
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use pass_function::PassFunction;
use runtime::{Clock, Environment, Settings};
use serde_json::{Value, json};
use token::Keys;

const ATTESTATION_KEY: &str = "attestation-key-for-tests-0123456789";

/// A table, a sale that opens in ten minutes, and the function.
struct World {
    ledger: Ledger,
    function: PassFunction,
    keys: Keys,
    clock: Clock,
    sale: Sale,
}

impl World {
    async fn new(identity_limits: Value) -> Self {
        let (found, ledger) = testing::ledger().await;
        let kept = |name| (name, found.settings.require(name).unwrap());
        let settings: Settings = [
            kept("TABLE_NAME"),
            kept("AWS_ENDPOINT_URL_DYNAMODB"),
            ("PASS_KEYS", "pass-key-for-tests-0123456789abcdef"),
            ("EDGE_KEY", "edge-key-for-tests-0123456789abcdef"),
            ("IDENTITY_KEY", "identity-key-for-tests-0123456789ab"),
            ("ATTESTATION_KEY", ATTESTATION_KEY),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        let environment = Environment { settings, ..found };
        let opens_at = environment.clock.now() + SignedDuration::from_mins(10);
        let Value::Object(members) = json!({
            "sku": "PHONE-1", "name": "Phone", "price": {"amount": 999_900, "currency": "INR"},
            "units": 100, "opens_at": opens_at.to_string(), "mode": "draw",
            "identity_limits": identity_limits,
        }) else {
            unreachable!()
        };
        let config = SaleConfig::read(members).unwrap();
        let sale = Sale::new("phone".parse().unwrap(), config, String::new());
        ledger.create_sale(&sale, "").await.unwrap();
        Self {
            ledger,
            function: PassFunction::start(&environment).await.unwrap(),
            keys: Keys::load(&environment.settings).unwrap(),
            clock: environment.clock,
            sale,
        }
    }

    async fn ask(&self, shopper: Option<&str>, sale: &str, body: &str) -> (u16, Value) {
        let mut change = shopper.map_or(json!({}), |name| testing::session(name, &[]));
        change["body"] = body.into();
        let route = "POST /v1/sales/{sale}/passes";
        let event = testing::http_event(route, &json!({"sale": sale}), change);
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        let response = api::invoke(&self.function, request).await;
        assert_eq!(response.headers()["cache-control"], "no-store");
        let body = serde_json::from_slice(response.body()).unwrap();
        (response.status().as_u16(), body)
    }

    async fn pass(&self, shopper: &str, device: &str, facts: Option<Value>) -> (u16, Value) {
        let mut body = json!({"device": device});
        if let Some(facts) = facts {
            body["attestation"] = self.attestation(shopper, facts).into();
        }
        self.ask(Some(shopper), "phone", &body.to_string()).await
    }

    fn attestation(&self, shopper: &str, facts: Value) -> String {
        let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
        header.typ = Some("attestation+jwt".to_owned());
        let mut claims = json!({
            "aud": "phone", "sub": shopper, "exp": self.clock.now().as_second() + 600,
        });
        for (name, value) in facts.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let key = jsonwebtoken::EncodingKey::from_secret(ATTESTATION_KEY.as_bytes()).unwrap();
        jsonwebtoken::encode(&header, &claims, &key).unwrap()
    }
}

#[tokio::test]
async fn asking_again_gives_the_same_pass() {
    let world = World::new(json!({})).await;
    let (status, first) = world.pass("u_1", "phone-1", None).await;
    assert_eq!(status, 201, "{first}");
    let (status, again) = world.pass("u_1", "tablet-2", None).await;
    assert_eq!(status, 200);
    assert_eq!(again["pass_id"], first["pass_id"]);
    let (_, other) = world.pass("u_2", "phone-1", None).await;
    assert_ne!(other["pass_id"], first["pass_id"]);

    let opens_at: Timestamp = first["valid_from"].as_str().unwrap().parse().unwrap();
    assert_eq!(opens_at, world.sale.config.opens_at.at);
    let claims = |pass: &Value, shopper: &str, now| {
        let shopper = shopper.parse().unwrap();
        world
            .keys
            .pass_of(pass["pass"].as_str(), &world.sale.id, &shopper, now)
    };
    let second = SignedDuration::from_secs(1);
    assert!(claims(&first, "u_1", opens_at - second).is_err());
    assert!(claims(&first, "u_2", opens_at).is_err());
    // The device is that of the first time.
    assert_eq!(claims(&again, "u_1", opens_at).unwrap().device, "phone-1");
}

#[tokio::test]
async fn parallel_requests_are_one_account() {
    let world = World::new(json!({"device": 1})).await;
    let answers = futures::future::join_all((0..50).map(|_| world.pass("u_1", "d", None))).await;
    let new = answers.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(new, 1);
    for (status, pass) in &answers {
        assert!(matches!(status, 200 | 201), "{pass}");
        assert_eq!(pass["pass_id"], answers[0].1["pass_id"]);
    }
}

#[tokio::test]
async fn parallel_accounts_do_not_exceed_a_limit() {
    let world = World::new(json!({"email": 2})).await;
    // One mailbox, spelled differently.
    let mailbox = |n| json!({"email": format!("A.b+{n}@GoogleMail.com")});
    let shoppers: Vec<_> = (0..10).map(|n| format!("u_{n}")).collect();
    let asked = shoppers.iter().enumerate();
    let asked = asked.map(|(n, shopper)| world.pass(shopper, "d", Some(mailbox(n))));
    let mut passed = 0;
    for (status, answer) in futures::future::join_all(asked).await {
        match status {
            201 => passed += 1,
            403 => {
                assert_eq!(answer["error"], "identity_limit");
                assert!(!answer.to_string().contains("mail"), "{answer}");
            }
            // Parallel writes were in the way for too long: nothing is lost.
            503 => {}
            _ => panic!("{status} {answer}"),
        }
    }
    for shopper in &shoppers {
        let (status, _) = world.pass(shopper, "d", Some(mailbox(99))).await;
        passed += usize::from(status == 201);
    }
    assert_eq!(passed, 2);
    let (status, _) = world
        .pass("u_99", "d", Some(json!({"email": "a.b@example.org"})))
        .await;
    assert_eq!(status, 201);
}

#[tokio::test]
async fn a_refused_account_is_not_counted_elsewhere() {
    let world = World::new(json!({"phone": 1, "address": 1})).await;
    let facts = |phone, address| Some(json!({"phone": phone, "address": address}));
    let (status, _) = world
        .pass("u_1", "d", facts("1111111111", "1 A Road"))
        .await;
    assert_eq!(status, 201);
    let (status, _) = world.pass("u_2", "d", facts("2222222222", "1 A Rd.")).await;
    assert_eq!(status, 403);
    // The phone of the refused one is still free.
    let (status, _) = world
        .pass("u_3", "d", facts("2222222222", "2 B Road"))
        .await;
    assert_eq!(status, 201);
}

#[tokio::test]
async fn what_the_sale_limits_must_be_attested() {
    let world = World::new(json!({"phone": 1})).await;
    for facts in [
        None,
        Some(json!({})),
        Some(json!({"phone": ""})),
        Some(json!({"email": "a@example.org"})),
    ] {
        let (status, answer) = world.pass("u_1", "d", facts).await;
        assert_eq!(
            (status, &answer["error"]),
            (401, &json!("invalid_attestation"))
        );
    }
    let another = world.attestation("u_2", json!({"phone": "1111111111"}));
    let body = json!({"device": "d", "attestation": another}).to_string();
    let (status, _) = world.ask(Some("u_1"), "phone", &body).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn refusals_say_what_is_wrong() {
    let world = World::new(json!({})).await;
    let good = r#"{"device":"d"}"#;
    for (shopper, sale, body, expected) in [
        (None, "phone", good, (401, "unauthenticated")),
        (Some("u_1"), "other", good, (404, "not_found")),
        (Some("u_1"), "a{b}", good, (404, "not_found")),
        (Some("u_1"), "phone", "{}", (422, "invalid_field")),
        (
            Some("u_1"),
            "phone",
            r#"{"device":"d","x":1}"#,
            (422, "invalid_field"),
        ),
        (Some("u_1"), "phone", "[", (400, "malformed_request")),
    ] {
        let (status, answer) = world.ask(shopper, sale, body).await;
        assert_eq!((status, answer["error"].as_str().unwrap()), expected);
    }
    let mut ended = world.sale.clone();
    ended.switches.ended = true;
    world.ledger.save_sale(&ended, None).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_050)).await;
    let (status, answer) = world.pass("u_1", "d", None).await;
    assert_eq!((status, &answer["error"]), (410, &json!("ended")));
}

#[tokio::test]
async fn an_expired_count_refuses_nobody() {
    use domain::identity::IdentityKind;
    use ledger::passes::{Identity, Pass, PassOutcome};

    let world = World::new(json!({})).await;
    let issue = async |shopper: &str, issued_at: Timestamp, days: i64| {
        let pass = Pass {
            pass_id: token::new_pass_id().unwrap(),
            device: "d".to_owned(),
            issued_at,
            valid_from: issued_at,
            valid_until: issued_at,
            expires_at: (issued_at + SignedDuration::from_hours(24 * days)).as_second(),
        };
        let identity = Identity {
            kind: IdentityKind::Phone,
            hash: "00".to_owned(),
            limit: 1,
        };
        let shopper = shopper.parse().unwrap();
        world
            .ledger
            .issue_pass(&world.sale.id, &shopper, &pass, &[identity])
            .await
            .unwrap()
    };
    let now = world.clock.now();
    let day = SignedDuration::from_hours(24);
    assert_eq!(issue("u_1", now, 1).await, PassOutcome::Issued);
    let limit = PassOutcome::IdentityLimit(IdentityKind::Phone);
    assert_eq!(issue("u_2", now + day / 2, 1).await, limit);
    assert!(matches!(
        issue("u_1", now + day / 2, 1).await,
        PassOutcome::Existing(_)
    ));
    assert_eq!(issue("u_2", now + day, 1).await, PassOutcome::Issued);
    assert_eq!(issue("u_3", now + day, 1).await, limit);
}

#[tokio::test]
async fn a_subscription_is_made_once() {
    let world = World::new(json!({})).await;
    let shopper = "u_1".parse().unwrap();
    let subscribe = || {
        world
            .ledger
            .subscribe(&world.sale.id, &shopper, world.clock.now())
    };
    assert!(subscribe().await.unwrap());
    assert!(!subscribe().await.unwrap());
}
