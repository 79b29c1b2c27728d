//! The command, with reports as the API gives them, and each way in which they may
//! not be closed.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const THEN: &str = "2026-11-11T12:00:05.000+05:30";

fn id(kind: &str, bucket: u16, n: u32) -> String {
    format!("{kind}_fs1111_{bucket:03}_{n:032x}")
}

fn order(bucket: u16, n: u32, status: &str) -> Value {
    json!({
        "claim_id": id("cl", bucket, n), "order_id": id("ord", bucket, n),
        "shopper": "someone-in-particular", "quantity": 1, "amount": 10_005, "currency": "KWD",
        "status": status, "pay_by": THEN, "claimed_at": THEN, "changed_at": THEN,
        "intent": format!("pi_{n}"),
    })
}

fn payment(bucket: u16, n: u32, refund_amount: u64) -> Value {
    json!({
        "intent": format!("pi_{n}"), "order_id": id("ord", bucket, n), "amount": 10_005,
        "currency": "KWD", "status": "succeeded", "captured_at": THEN,
        "refunded": refund_amount > 0, "refund_amount": refund_amount,
    })
}

/// A sale of two buckets: two orders paid, one that expired and was paid too late.
fn good() -> (Value, Vec<Value>) {
    let sale = json!({
        "sale": {"sale_id": "fs1111", "name": "Phone"}, "units": 3,
        "buckets": [{"bucket": 0, "paid": 1}, {"bucket": 1, "paid": 1}],
    });
    let bucket = |n: u16, orders: Value, payments: Value, refunds: Value| {
        json!({"sale_id": "fs1111", "bucket": n, "capacity": 2, "allotted": 1, "epoch": 1,
            "orders": orders, "payments": payments, "refunds": refunds})
    };
    let refund = json!({
        "intent": "pi_2", "order_id": id("ord", 0, 2), "amount": 10_005, "currency": "KWD",
        "reason": "late", "status": "REFUNDED", "changed_at": THEN,
    });
    let buckets = vec![
        bucket(
            0,
            json!([order(0, 1, "PAID"), order(0, 2, "EXPIRED")]),
            json!([payment(0, 1, 0), payment(0, 2, 10_005)]),
            json!([refund]),
        ),
        bucket(
            1,
            json!([order(1, 3, "PAID")]),
            json!([payment(1, 3, 0)]),
            json!([]),
        ),
    ];
    (sale, buckets)
}

/// Runs the command.
fn books(sale: &Value, buckets: &[Value]) -> Output {
    let name = format!("books-{}-{:p}.json", std::process::id(), sale);
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, sale.to_string()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_books"))
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for report in buckets {
        // Of a sale that it refuses it reads no further.
        if let Err(error) = writeln!(input, "{report}") {
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(file).unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn books_that_agree_are_closed_with_their_sums() {
    let (sale, buckets) = good();
    let output = books(&sale, &buckets);
    assert_eq!(
        text(&output.stdout),
        "fs1111\n  captured    3: KWD 30.015\n  gone back   1: KWD 10.005\n  \
         paid orders 2: KWD 20.010\nThe books agree.\n"
    );
    assert_eq!(output.status.code(), Some(0));
}

/// The control: whatever differs is told with its order and ends with 1. All kinds
/// are held against the rules themselves, in `reconcile::money`.
#[test]
fn every_difference_is_told_and_ends_with_one() {
    type Change = fn(&mut Vec<Value>);
    let cases: [(&str, Change); 7] = [
        ("paid_without_capture", |all| all[1]["payments"] = json!([])),
        ("capture_unaccounted", |all| all[1]["orders"] = json!([])),
        ("captured_twice", |all| {
            let mut second = payment(1, 3, 0);
            second["intent"] = "pi_second".into();
            all[1]["payments"].as_array_mut().unwrap().push(second);
        }),
        ("capture_wrong", |all| {
            all[1]["payments"][0]["amount"] = 10_004.into();
        }),
        ("refund_missing", |all| {
            all[0]["payments"][1]["refund_amount"] = 0.into();
        }),
        ("refunded_twice", |all| {
            all[0]["payments"][1]["refund_amount"] = 20_010.into();
        }),
        ("refund_overdue", |all| {
            all[0]["refunds"][0]["status"] = "REFUND_PENDING".into();
        }),
    ];
    for (kind, change) in cases {
        let (sale, mut buckets) = good();
        change(&mut buckets);
        let output = books(&sale, &buckets);
        let said = text(&output.stdout);
        let told = format!("DIFFERS  {kind} ord_fs1111_");
        assert!(said.contains(&told), "{kind}: {said}");
        assert!(said.ends_with("Differences: 1.\n"), "{kind}: {said}");
        assert!(!said.contains("someone"), "{said}");
        assert_eq!(output.status.code(), Some(1), "{kind}");
    }
}

/// Books of which a part is not there are not closed, and not called wrong either.
#[test]
fn what_is_not_the_whole_sale_is_refused() {
    type Change = fn(&mut Value, &mut Vec<Value>);
    let cases: [(&str, Change); 6] = [
        ("missing: {1}", |_, all| drop(all.pop())),
        ("bucket 0 is there twice", |_, all| all.push(all[0].clone())),
        ("no bucket 2", |_, all| all[1]["bucket"] = 2.into()),
        ("not of fs1111", |_, all| all[1]["sale_id"] = "other".into()),
        ("report number 2", |_, all| {
            all[1] = json!({"error": "unavailable", "status": 503});
        }),
        ("sale_id", |sale, _| sale["sale"] = json!({})),
    ];
    for (why, change) in cases {
        let (mut sale, mut buckets) = good();
        change(&mut sale, &mut buckets);
        let output = books(&sale, &buckets);
        assert_eq!(output.status.code(), Some(2), "{why}");
        let said = text(&output.stderr);
        assert!(said.contains(why), "{why}: {said}");
        assert_eq!(text(&output.stdout), "", "{why}");
    }
}
