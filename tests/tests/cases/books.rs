//! The rules by which every other test judges a sale.

use serde_json::json;
use tests::books::{Books, Rules};

fn good() -> Books {
    let bucket = json!({"capacity": 3, "allotted": 2, "free": 1, "held": 1, "paying": 0,
        "paid": 1});
    let mut report = bucket.clone();
    report["units"] = 3.into();
    report["buckets"] = json!([bucket]);
    report["sale"] = json!({"limit_per_customer": 1});
    let order = |shopper: &str, status: &str| {
        json!({"shopper": shopper, "quantity": 1, "status": status, "order_id": shopper,
            "intent": shopper, "amount": 5, "currency": "INR"})
    };
    let payment = |intent: &str, returned: u32| {
        json!({"intent": intent, "order_id": intent, "amount": 5, "currency": "INR",
            "refunded": returned > 0, "refund_amount": returned})
    };
    Books {
        report,
        buckets: vec![json!({
            "capacity": 3,
            "orders": [order("a", "PAID"), order("b", "PAYING"), order("c", "EXPIRED")],
            "payments": [payment("a", 0), payment("c", 5)],
            "refunds": [{"intent": "c", "amount": 5}],
        })],
    }
}

#[test]
fn good_books_balance() {
    assert_eq!(good().broken(Rules::AtRest), Vec::<String>::new());
}

/// Each rule is broken by one change, and by nothing else.
#[test]
fn every_rule_can_be_broken() {
    type Change = fn(&mut Books);
    let cases: [(&str, Change); 10] = [
        ("INV-A", |b| b.report["buckets"][0]["allotted"] = 4.into()),
        ("INV-A", |b| b.report["buckets"][0]["free"] = (-1).into()),
        ("INV-A", |b| b.buckets[0]["capacity"] = 4.into()),
        ("INV-B", |b| b.report["free"] = 2.into()),
        ("INV-B", |b| b.report["allotted"] = 3.into()),
        ("INV-C", |b| {
            b.buckets[0]["payments"][0]["amount"] = 4.into()
        }),
        ("INV-C", |b| {
            b.buckets[0]["payments"][1]["refund_amount"] = 10.into()
        }),
        ("INV-C", |b| b.buckets[0]["refunds"] = json!([])),
        ("INV-C", |b| b.buckets[0]["payments"] = json!([])),
        ("INV-D", |b| {
            b.buckets[0]["orders"][1]["shopper"] = "a".into()
        }),
    ];
    for (n, (rule, change)) in cases.into_iter().enumerate() {
        let mut books = good();
        change(&mut books);
        let broken = books.broken(Rules::AtRest);
        assert!(!broken.is_empty(), "case {n}");
        assert!(
            broken.iter().all(|says| says.starts_with(rule)),
            "{n}: {broken:?}"
        );
    }
}
