//! E: limits under parallelism, odd numbers, and other people's things.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tests::shopper::{claim_path, order_path};
use tests::{Answer, Shop, all, eventually};
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn e01_one_shopper_in_parallel_gets_one_of_each() {
    let shop = Shop::open().await;
    let changes = json!({"units": 20, "buckets": 8, "mode": "draw", "draw_window_ms": 2_500});
    let sale = shop.sale_in(1_500, changes).await;
    let sessions = [shop.session("ada"), shop.session("ada")];
    let passes = all((0..50).map(|n| {
        let request = shop
            .request(Method::POST, &sale.path("/passes"))
            .bearer_auth(&sessions[n % 2]);
        let device = json!({"device": format!("device-{}", n % 5)});
        Answer::of(request.body(device.to_string()))
    }))
    .await;
    assert_eq!(
        passes.iter().filter(|answer| answer.status == 201).count(),
        1
    );
    let ids: BTreeSet<_> = passes.iter().map(|answer| answer.text("pass_id")).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");

    // Signed in twice.
    let devices = [sale.shopper("ada").await, sale.shopper("ada").await];
    let ada = &devices[0];
    sale.opened().await;
    let entries = all((0..50).map(|n| devices[n % 2].enter())).await;
    assert_eq!(
        entries.iter().filter(|answer| answer.status == 201).count(),
        1
    );
    let tickets: BTreeSet<_> = entries
        .iter()
        .map(|answer| answer.json["ticket"].to_string())
        .collect();
    assert_eq!(tickets.len(), 1, "{tickets:?}");
    assert_eq!(sale.reaches("LIVE").await["draw"]["entries"], 1);

    // The home bucket is empty, so that all of them overflow together.
    let id = ada.name.parse().unwrap();
    let home = domain::bucket::home(&id, 8).0;
    let there = sale.report().await["buckets"][usize::from(home)]["free"]
        .as_u64()
        .unwrap();
    sale.move_units(home, (home + 1) % 8, there as u32).await;
    let claims = all((0..50).map(|n| {
        let device = &devices[n % 2];
        async move { device.claim_as(&format!("key-number-{n}")).await }
    }))
    .await;
    let yes: Vec<_> = claims.iter().filter(|answer| answer.status < 300).collect();
    let ids: BTreeSet<_> = yes.iter().map(|answer| answer.text("claim_id")).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert!(
        claims
            .iter()
            .all(|answer| answer.status < 500 || answer.status == 503)
    );
    ada.ordered(&yes[0].json).await;
    let books = sale.rest().await;
    assert_eq!((books.count("held"), books.count("free")), (1, 19));
}

/// With a limit above one, it is the units that count.
#[tokio::test(flavor = "multi_thread")]
async fn e01_a_limit_above_one_is_kept_in_parallel() {
    let shop = Shop::open().await;
    let sale = shop
        .sale(json!({"units": 40, "buckets": 4, "limit_per_customer": 3}))
        .await;
    let ada = sale.shopper("ada").await;
    sale.opened().await;
    let claims = all((0..40).map(|n| {
        let ada = &ada;
        let body = if n % 2 == 0 {
            r#"{"quantity": 2}"#
        } else {
            "{}"
        };
        async move { ada.claim_with(&format!("key-number-{n}"), body).await }
    }))
    .await;
    for answer in &claims {
        assert!(
            matches!(answer.status, 200 | 201 | 202 | 409 | 503),
            "{:#}",
            answer.json
        );
    }
    let books = sale.rest().await;
    assert_eq!(
        books.count("held"),
        3,
        "as many as allowed, in whichever parts"
    );
}

/// Whoever says where they come from gets no share of their own by it, and takes
/// none from whom they name.
#[tokio::test(flavor = "multi_thread")]
async fn e03_no_header_gives_a_rate_of_its_own() {
    let shop = Shop::quiet().await;
    let changes = json!({"units": 60, "race_rate_per_s": 1});
    let sale = shop.sale_in(2_000, changes).await;
    let crowd = sale.crowd(60).await;
    sale.opened().await;
    let begun = Instant::now();
    let answers = all(crowd.iter().enumerate().map(|(n, shopper)| {
        let claim = shopper.claim_request(&shopper.key(), "{}");
        // Each its own, twice, or the same of all.
        let claim = match n % 3 {
            0 => claim.header("x-forwarded-for", format!("192.0.2.{n}, 10.0.0.1")),
            1 => claim
                .header("x-forwarded-for", format!("2001:db8::{n}"))
                .header("x-forwarded-for", format!("198.51.100.{n}")),
            _ => claim.header("x-forwarded-for", "203.0.113.7"),
        };
        Answer::of(claim)
    }))
    .await;
    let seconds = begun.elapsed().as_secs() as usize + 1;
    let yes = answers.iter().filter(|answer| answer.is_yes()).count();
    assert!((1..=seconds).contains(&yes), "{yes} within {seconds} s");
    for answer in answers.into_iter().filter(|answer| !answer.is_yes()) {
        let busy = answer.expect_problem(429, "too_many_requests");
        assert!(!busy.header("retry-after").is_empty());
    }
    let victim = sale.shopper("whom-they-named").await;
    let claim = victim.claim_request(&victim.key(), "{}");
    let claim = claim.header("x-forwarded-for", "203.0.113.7");
    eventually(
        "a second comes in which the victim is first",
        10,
        async || Some(Answer::of(claim.try_clone().unwrap()).await).filter(Answer::is_yes),
    )
    .await;
}

#[tokio::test]
async fn e04_a_quantity_is_a_whole_number_within_the_limit() {
    let shop = Shop::quiet().await;
    let sale = shop.sale(json!({"units": 5})).await;
    let ada = sale.shopper("ada").await;
    sale.opened().await;
    let before = sale.report().await;
    for quantity in [
        "-5",
        "-1",
        "0",
        "2",
        "1.5",
        "1.0",
        "\"1\"",
        "true",
        "null",
        "1e3",
        "4294967297",
        "9223372036854775808",
        "18446744073709551617",
        "-0",
        "[1]",
        "{}",
    ] {
        let body = format!(r#"{{"quantity": {quantity}}}"#);
        let answer = ada.claim_with(&ada.key(), &body).await;
        assert_eq!(
            answer.fields(),
            ["quantity"],
            "{quantity}: {:#}",
            answer.json
        );
        answer.expect_fields(&["quantity"]);
    }
    for quantity in ["1e400", "NaN", "Infinity", "01", "+1", "0x1", ""] {
        let body = format!(r#"{{"quantity": {quantity}}}"#);
        ada.claim_with(&ada.key(), &body)
            .await
            .expect_problem(400, "malformed_request");
    }
    assert_eq!(sale.report().await, before, "nothing was taken");
    // Left out, it is one.
    assert_eq!(
        ada.claim_with(&ada.key(), "{}").await.expect(201).json["quantity"],
        1
    );
}

#[tokio::test]
async fn e05_a_sale_holds_exactly_what_was_sent_or_is_refused() {
    let shop = Shop::quiet().await;
    let create = async |changes: Value| {
        shop.admin(Method::POST, "/v1/admin/sales", &shop.draft(changes).into())
            .await
    };
    let price = |amount: u64| json!({"price": {"amount": amount, "currency": "INR"}});
    for good in [
        json!({"units": 1}),
        json!({"units": 7, "buckets": 3}),
        json!({"units": 1, "buckets": 1}),
        json!({"units": 100_000}),
        price(1),
        price((1 << 53) - 1),
        json!({"pay_window_s": 86_400}),
    ] {
        let made = create(good.clone()).await.expect(201).json;
        for (name, value) in good.as_object().unwrap() {
            assert_eq!(&made[name], value, "{name}");
        }
        let sale = tests::OnSale::new(&shop, &made);
        assert_eq!(Some(sale.count("units").await), made["units"].as_i64());
    }
    let name = "n".repeat(1 << 17);
    let overflow = json!({"price": {"amount": (1_u64 << 53) - 1, "currency": "INR"},
        "limit_per_customer": 2});
    for (wrong, field) in [
        (json!({"units": 0}), "units"),
        (json!({"units": 10_000_000}), "units"),
        (json!({"units": 1_u64 << 31}), "units"),
        (json!({"units": (1_u64 << 32) + 5}), "units"),
        (json!({"units": (1_u64 << 53) + 1}), "units"),
        (price((1 << 53) + 1), "price.amount"),
        (price((1 << 63) - 1), "price.amount"),
        (overflow, "price.amount"),
        (json!({"buckets": 0}), "buckets"),
        (json!({"buckets": 10_000}), "buckets"),
        (json!({"units": 1_000, "buckets": 3}), "buckets"),
        (json!({"pay_window_s": 0}), "pay_window_s"),
        (json!({"pay_window_s": -1}), "pay_window_s"),
        (json!({"pay_window_s": 1_000_000_000}), "pay_window_s"),
        (json!({"name": name}), "name"),
    ] {
        create(wrong).await.expect_fields(&[field]);
    }
}

#[tokio::test]
async fn e06_what_belongs_to_another_is_not_there() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"units": 2})).await;
    let (a, b) = (sale.shopper("ada").await, sale.shopper("bob").await);
    sale.opened().await;
    let claim = a.hold().await;
    let before = a.read_claim(&claim).await.json;
    let calls = [
        (Method::GET, claim_path(&claim)),
        (Method::DELETE, claim_path(&claim)),
        (Method::GET, order_path(&claim, "")),
        (Method::POST, order_path(&claim, "/payments")),
    ];
    for (method, path) in &calls {
        let foreign = Answer::of(b.request(method.clone(), path)).await;
        let foreign = foreign.expect_problem(404, "not_found");
        // Nothing tells it from something that does not exist.
        let digit = path.rfind("_0").unwrap() + 4;
        let mut other = path.clone();
        other.replace_range(digit + 1..digit + 5, "0f0f");
        let missing = Answer::of(b.request(method.clone(), &other)).await;
        assert_eq!(missing.json, foreign.json, "{method} {path} {other}");
        assert_eq!(
            Answer::of(shop.request(method.clone(), path)).await.status,
            401
        );
    }
    // A's pass in B's hands.
    let borrowed = b
        .request(Method::POST, &sale.path("/claims"))
        .header("sale-pass", &a.pass)
        .header("idempotency-key", a.key());
    Answer::of(borrowed)
        .await
        .expect_problem(401, "invalid_pass");
    for path in ["", "/report", "/preflight"] {
        let path = format!("/v1/admin/sales/{}{path}", sale.id);
        assert_eq!(Answer::of(a.request(Method::GET, &path)).await.status, 403);
        assert_eq!(shop.get(&path).await.status, 401);
    }
    for switch in [
        "end",
        "pause",
        "load",
        "force-sold-out",
        "extend-pay-window",
    ] {
        let path = format!("/v1/admin/sales/{}/{switch}", sale.id);
        assert_eq!(Answer::of(a.request(Method::POST, &path)).await.status, 403);
    }
    assert_eq!(a.read_claim(&claim).await.json, before);
    // Ids say nothing of how many came before.
    let next = b.claim().await.expect(201);
    let digest = |claim: &Value| {
        claim["claim_id"].as_str().unwrap()[claim["claim_id"].as_str().unwrap().len() - 32..]
            .to_owned()
    };
    let (one, two) = (digest(&claim), digest(&next.json));
    let same = one.bytes().zip(two.bytes()).filter(|(a, b)| a == b).count();
    assert!(same < 16, "{one} {two}");
}
