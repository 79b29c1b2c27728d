//! G10: one ticket for each pass, and nobody can steer it.

use std::collections::BTreeSet;

use serde_json::json;
use tests::{Shop, Shopper, all};

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
    assert_eq!(
        shop.get(&sale.path("")).await.expect(200).json["commitment"],
        commitment
    );
    sale.rest().await;
}
