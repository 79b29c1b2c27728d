//! G10: one ticket for each pass, and nobody can steer it.

use std::collections::BTreeSet;

use domain::draw::{Drawn, Ticket, secret_bytes};
use domain::{PassId, ShopperId};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{Answer, OnSale, Shop, Shopper, all, until_after};
use token::EdgeKeys;

const EDGE_KEY: &str = "edge-key-for-tests-0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn g10_a_pass_has_one_ticket_and_a_late_tap_ranks_behind() {
    let shop = Shop::open().await;
    let changes = json!({"mode": "draw", "draw_window_ms": 2_000, "units": 5});
    let sale = shop.sale_in(1_500, changes).await;
    let public = shop.get(&sale.path("")).await.expect(200).json;
    let commitment = public["commitment"].clone();
    assert_eq!(commitment.as_str().unwrap().len(), 64);
    let crowd = sale.crowd(40).await;
    // Before the opening there is no ticket to be had.
    crowd[0].enter().await.expect_problem(425, "not_open");
    assert!(public.get("secret").is_none());
    sale.opened().await;
    let taps = all((0..50).map(|_| crowd[0].enter())).await;
    let tickets: BTreeSet<_> = taps
        .iter()
        .map(|answer| answer.json["ticket"].to_string())
        .collect();
    assert_eq!(tickets.len(), 1, "{tickets:?}");
    let entries = all(crowd[1..39].iter().map(Shopper::enter)).await;
    let ticket = |answer: &tests::Answer| answer.json["ticket"].as_f64().unwrap();
    let drawn: Vec<f64> = entries.iter().map(ticket).collect();
    assert!(drawn.iter().all(|ticket| (0.0..1.0).contains(ticket)));
    // Not in the order in which they came.
    assert!(!drawn.is_sorted());
    let status = sale.reaches("LIVE").await;
    // Counted to within a percent: two of them may share a register.
    let counted = status["draw"]["entries"].as_u64().unwrap();
    assert!((38..=39).contains(&counted), "{counted}");
    let late = crowd[39].enter().await.expect(201);
    assert!(ticket(&late) >= 1.0, "{:#}", late.json);
    assert!(
        late.json["position"].as_u64() >= Some(counted),
        "{:#}",
        late.json
    );
    // The ticket of the draw is proved by its token, also after the window.
    assert_eq!(
        crowd[0].enter().await.expect(200).json["ticket"],
        taps[0].json["ticket"]
    );
    assert_eq!(sale.status().await["draw"]["entries"], counted);
    // The best tickets are admitted: as many as there are units, and it is
    // a comparison with the public threshold.
    let threshold = sale.status().await["draw"]["threshold"].as_f64().unwrap();
    for (shopper, answer) in crowd[1..39].iter().zip(&entries) {
        let claim = shopper.claim().await;
        if ticket(answer) < threshold {
            assert!(
                claim.is_yes() || claim.error() == "sold_out",
                "{:#}",
                claim.json
            );
        } else if claim.error() == "not_admitted" {
            assert_eq!(claim.status, 403);
        }
    }
    let public = shop.get(&sale.path("")).await.expect(200).json;
    assert_eq!(public["commitment"], commitment);
    assert!(public.get("draw").is_none());
    sale.rest().await;
    // Over: everyone can draw their ticket again.
    sale.turn("end").await;
    let public = shop.get(&sale.path("")).await.expect(200).json;
    let secret = secret_bytes(public["draw"]["secret"].as_str().unwrap()).unwrap();
    assert_eq!(domain::draw::commitment(&secret), commitment);
    assert_eq!(public["draw"]["entries"], counted);
    let id = sale.sale_id();
    let mut told = Vec::new();
    let drawn = crowd[..1].iter().zip(&taps);
    for (shopper, answer) in drawn.chain(crowd[1..39].iter().zip(&entries)) {
        let name: ShopperId = shopper.name.parse().unwrap();
        let pass = shop.ledger().pass(&id, &name).await.unwrap().unwrap();
        let again = Drawn::of(&secret, &pass.pass_id).ticket;
        assert_eq!(ticket(answer), again.0);
        told.push(verify::Entry {
            pass: pass.pass_id,
            ticket: Some(Ticket(ticket(answer))),
        });
    }
    // And so does the command for anyone; not if one entry or the secret is another.
    let report = sale.report().await;
    let wrong = |public: &Value, entries: Vec<verify::Entry>| {
        let evidence = verify::Evidence {
            report: Some(serde_json::from_value(report.clone()).unwrap()),
            entries,
            all: true,
        };
        let public = serde_json::from_value(public.clone()).unwrap();
        let mut checks = verify::check(&public, &evidence);
        checks.retain(|check| !check.holds());
        checks
    };
    assert_eq!(wrong(&public, told.clone()), []);
    let mut forged = told.clone();
    forged[3].ticket = Some(Ticket(0.000_001));
    assert_eq!(wrong(&public, forged).len(), 1);
    let mut other = public.clone();
    other["draw"]["secret"] = "07".repeat(32).into();
    assert!(!wrong(&other, told).is_empty());
}

/// What the edge and the draw know of a shopper.
struct Known {
    drawn: Drawn,
    receipt: String,
}

async fn known(sale: &OnSale<'_>, shopper: &Shopper<'_>) -> Known {
    let ledger = sale.shop.ledger();
    let id = sale.sale_id();
    let name: ShopperId = shopper.name.parse().unwrap();
    let pass: PassId = ledger.pass(&id, &name).await.unwrap().unwrap().pass_id;
    let secret = ledger.draw_secret(&id).await.unwrap().unwrap();
    let keys = [("EDGE_KEY".to_owned(), EDGE_KEY.to_owned())];
    let keys = EdgeKeys::load(&keys.into_iter().collect()).unwrap();
    Known {
        drawn: Drawn::of(&secret_bytes(&secret).unwrap(), &pass),
        receipt: keys.receipt(&id, &pass, &name),
    }
}

/// A receipt of the edge is a tap in the window and nothing else: the ticket
/// is drawn here, and who is not in the sample is not counted, however they
/// came.
#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_of_the_edge_is_a_tap_and_one_in_k_is_counted() {
    let mut options = Shop::options();
    options
        .secrets
        .insert("EdgeKey".to_owned(), EDGE_KEY.into());
    let shop = Shop::start(options).await;
    let changes = json!({"mode": "draw", "draw_window_ms": 2_500, "units": 5,
        "expected_entries": 20_000, "claim_spread_s": 0});
    let sale = shop.sale_in(2_000, changes).await;
    let race = shop.sale_in(2_000, json!({"units": 5})).await;
    let crowd = sale.crowd(60).await;
    let racer = race.shopper("racer").await;
    let mut all_known = Vec::new();
    for shopper in &crowd {
        all_known.push(known(&sale, shopper).await);
    }
    sale.opened().await;
    // Half of them past the edge, twice; the others have its receipts.
    let (here, edge) = crowd.split_at(30);
    for _ in 0..2 {
        for answer in all(here.iter().map(Shopper::enter)).await {
            assert!(matches!(answer.status, 200 | 201), "{:#}", answer.json);
        }
    }
    let sampled = all_known[..30]
        .iter()
        .filter(|known| known.drawn.is_counted(4))
        .count() as u64;
    assert!((1..30).contains(&sampled), "{sampled}");
    // Tapped in the window and here after it, as when a call was turned away: the
    // receipt's holder is drawn, and counted if that is the lot.
    until_after(sale.opens_at, 2_600).await;
    let mut later = 0;
    for (shopper, known) in edge.iter().zip(&all_known[30..]) {
        let entered = shopper
            .request(Method::POST, &sale.path("/entries"))
            .header("sale-pass", &shopper.pass)
            .header("sale-entry", &known.receipt);
        let entered = Answer::of(entered).await;
        assert!(matches!(entered.status, 200 | 201), "{:#}", entered.json);
        assert_eq!(entered.json["ticket"], known.drawn.ticket.0);
        later += u64::from(known.drawn.is_counted(4));
    }
    assert!(later > 0);
    sale.reaches("LIVE").await;
    assert_eq!(
        sale.status().await["draw"]["entries"],
        4 * (sampled + later)
    );

    let threshold = sale.status().await["draw"]["threshold"].as_f64().unwrap();
    let send = |shopper: &Shopper<'_>, rest: &str, entry: &str| {
        let key = format!("key-of-{}", shopper.name);
        let request = shopper
            .request(Method::POST, &shopper.sale.path(rest))
            .header("sale-pass", &shopper.pass)
            .header("sale-entry", entry)
            .header("idempotency-key", key);
        Answer::of(request)
    };
    for (shopper, known) in edge.iter().zip(&all_known[30..]) {
        let claim = send(shopper, "/claims", &known.receipt).await;
        if known.drawn.ticket.0 < threshold {
            assert!(
                claim.is_yes() || claim.error() == "sold_out",
                "{:#}",
                claim.json
            );
        } else if claim.error() == "not_admitted" {
            assert_eq!(claim.json["ticket"], known.drawn.ticket.0);
        } else {
            // Admission went on meanwhile.
            assert!(
                claim.is_yes() || claim.error() == "sold_out",
                "{:#}",
                claim.json
            );
        }
    }
    // Late, with a receipt: the ticket of the draw, signed from now on.
    let late = send(&edge[0], "/entries", &all_known[30].receipt).await;
    let late = late.expect(200);
    assert_eq!(late.json["ticket"], all_known[30].drawn.ticket.0);
    let again = send(&edge[0], "/entries", late.text("entry_token")).await;
    assert_eq!(again.expect(200).json["ticket"], late.json["ticket"]);
    // Without one: behind the draw.
    let forgot = edge[1].enter().await.expect(201);
    assert!(forgot.json["ticket"].as_f64().unwrap() >= 1.0);
    // Another's, and none of a draw.
    for rest in ["/claims", "/entries"] {
        for (shopper, receipt) in [
            (&edge[2], all_known[33].receipt.as_str()),
            (&edge[2], "edge."),
            (&racer, &known(&race, &racer).await.receipt),
        ] {
            let refused = send(shopper, rest, receipt).await;
            refused.expect_problem(401, "invalid_entry");
        }
    }
}
