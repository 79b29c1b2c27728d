//! G: a token is good for one purpose, one sale, one shopper. What can be done
//! to a token itself is in `shared/token`; this is what the API makes of it.

use domain::PassId;
use domain::draw::Ticket;
use jiff::SignedDuration;
use reqwest::Method;
use serde_json::json;
use tests::{Answer, OnSale, Shop, Shopper, all, eventually, now};
use token::Signer;

/// A draw that everyone of these has entered and is admitted to.
async fn admitted<'a>(sale: &'a OnSale<'a>, names: &[&str]) -> Vec<Shopper<'a>> {
    let mut crowd = Vec::new();
    for name in names {
        crowd.push(sale.shopper(name).await);
    }
    sale.opened().await;
    for shopper in &crowd {
        shopper.enter().await.expect(201);
    }
    sale.reaches("LIVE").await;
    crowd
}

/// A claim with these two tokens.
async fn claim(shopper: &Shopper<'_>, pass: &str, entry: &str) -> Answer {
    let request = shopper
        .request(Method::POST, &shopper.sale.path("/claims"))
        .header("sale-pass", pass)
        .header("sale-entry", entry)
        .header("idempotency-key", shopper.key());
    Answer::of(request).await
}

#[tokio::test]
async fn g02_g03_g04_g05_a_token_counts_where_it_belongs_and_nowhere_else() {
    let shop = Shop::open().await;
    let sale = shop.sale(json!({"mode": "draw", "units": 20})).await;
    let crowd = admitted(&sale, &["ada", "bob"]).await;
    let (a, b) = (&crowd[0], &crowd[1]);
    let (own_pass, own_entry) = (a.pass.as_str(), a.entry.get().unwrap().as_str());
    let other = shop.sale(json!({"mode": "draw", "units": 20})).await;
    let there = other.shopper("ada").await;
    other.opened().await;
    there.enter().await.expect(201);
    let parts: Vec<&str> = own_pass.split('.').collect();
    let unsigned = format!("{}.{}.", parts[0], parts[1]);
    let altered = format!("{}.{}A.{}", parts[0], parts[1], parts[2]);
    let long = "x".repeat(5_000);
    let mut first = None;
    // Forged, another's, another sale's, and tokens of another purpose.
    for pass in [
        "",
        "x",
        "a.b.c",
        &unsigned,
        &altered,
        &long,
        &b.pass,
        &there.pass,
        own_entry,
        &a.session,
    ] {
        let answer = claim(a, pass, own_entry)
            .await
            .expect_problem(401, "invalid_pass");
        // One answer for all of them: it tells a forger nothing.
        assert_eq!(
            &answer.json,
            first.get_or_insert_with(|| answer.json.clone())
        );
        for rest in ["/entries", "/waitlist"] {
            let tap = a.request(Method::POST, &sale.path(rest));
            let answer = Answer::of(tap.header("sale-pass", pass)).await;
            let answer = answer.expect_problem(401, "invalid_pass");
            assert_eq!(Some(&answer.json), first.as_ref(), "{rest}");
        }
    }
    // What was not sent at all is named.
    for (rest, header, error, status) in [
        ("/entries", "Sale-Pass", "invalid_pass", 401),
        ("/waitlist", "Sale-Pass", "invalid_pass", 401),
        ("/claims", "Sale-Pass", "invalid_pass", 401),
        ("/claims", "Sale-Entry", "invalid_entry", 401),
        ("/claims", "Idempotency-Key", "invalid_idempotency_key", 400),
    ] {
        let mut request = a.request(Method::POST, &sale.path(rest));
        let key = a.key();
        for (name, value) in [
            ("Sale-Pass", own_pass),
            ("Sale-Entry", own_entry),
            ("Idempotency-Key", key.as_str()),
        ] {
            if name != header {
                request = request.header(name, value);
            }
        }
        let answer = Answer::of(request).await.expect_problem(status, error);
        assert!(answer.text("detail").contains(header), "{:#}", answer.json);
    }
    let foreign = there.entry.get().unwrap();
    for entry in [
        "",
        "x",
        &b.entry.get().unwrap().clone(),
        foreign,
        own_pass,
        &a.session,
    ] {
        claim(a, own_pass, entry)
            .await
            .expect_problem(401, "invalid_entry");
    }
    // An entry that has ended, by our own key.
    let passes = a.request(Method::POST, &sale.path("/passes"));
    let passes = Answer::of(passes.body(r#"{"device": "d"}"#)).await;
    let pass_id: PassId = passes.expect(200).text("pass_id").parse().unwrap();
    let signer = Signer::load(&shop.environment("claim-function").settings).unwrap();
    let entry_until = |seconds| {
        let until = now() + SignedDuration::from_secs(seconds);
        let shopper = a.name.parse().unwrap();
        let entry = signer.entry(
            &sale.sale_id(),
            &shopper,
            &pass_id,
            Ticket(0.0),
            until,
            now(),
        );
        entry.unwrap()
    };
    claim(a, own_pass, &entry_until(-2))
        .await
        .expect_problem(401, "invalid_entry");
    assert_eq!(sale.count("free").await, 20);
    // The controls: with their own it goes, and so it would with one that lasts.
    claim(a, own_pass, own_entry).await.expect(201);
    claim(a, own_pass, &entry_until(60)).await.expect(200);
    let keys = shop.get("/.well-known/jwks.json").await.expect(200).json;
    let keys = keys["keys"].as_array().unwrap();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.get("d").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn g05_g07_an_admission_is_good_for_one_claim() {
    let shop = Shop::open().await;
    let sale = shop
        .sale(json!({"mode": "draw", "units": 20, "pay_window_s": 3}))
        .await;
    let crowd = admitted(&sale, &["paying", "lapsing", "leaving"]).await;
    let (paying, lapsing, leaving) = (&crowd[0], &crowd[1], &crowd[2]);
    // A hundred uses at once, on as many devices.
    let answers =
        all((0..100).map(|n| async move { paying.claim_as(&format!("device-{n:04}")).await }))
            .await;
    let ids: std::collections::BTreeSet<_> = answers
        .iter()
        .filter(|answer| answer.status < 300)
        .map(|answer| answer.text("claim_id"))
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let claim = answers.iter().find(|answer| answer.status < 300).unwrap();
    paying.ordered(&claim.json).await;
    assert_eq!(paying.pay(&claim.json).await["status"], "PAID");
    let lapsed = lapsing.hold().await;
    let left = leaving.hold().await;
    leaving.give_back(&left).await.expect(200);
    lapsing.order_is(&lapsed, "EXPIRED").await;
    for (shopper, status) in [
        (paying, "PAID"),
        (lapsing, "EXPIRED"),
        (leaving, "CANCELLED"),
    ] {
        for key in [shopper.key(), "a-new-attempt".to_owned()] {
            let again = shopper.claim_as(&key).await.expect(200);
            assert_eq!(again.text("status"), status);
        }
    }
    eventually("two units are free again", 10, async || {
        (sale.count("free").await == 19).then_some(())
    })
    .await;
    let books = sale.rest().await;
    assert_eq!(books.orders().count(), 3, "nobody was given a second one");
}
