//! A draw that is over, as it is published, and each way in which it could lie.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};

use domain::admission::Admission;
use domain::draw::{Drawn, commitment};
use domain::id::hex;
use serde_json::{Value, json};
use verify::{Check, Entry, Evidence, check, find};

const SECRET: [u8; 32] = [7; 32];
const ENTRIES: u64 = 20_000;
const SAMPLE: u32 = 4;

fn entry(n: u64) -> Entry {
    let pass = format!("{n:032x}").parse().unwrap();
    Entry {
        ticket: Some(Drawn::of(&SECRET, &pass).ticket),
        pass,
    }
}

fn everyone() -> Vec<Entry> {
    (0..ENTRIES).map(entry).collect()
}

/// As `GET /v1/sales/{sale}` and the report say it: 1,000 units, and three rounds, in the
/// last of which those are asked again who were asked before.
fn published() -> (Value, Value) {
    let counted = everyone()
        .iter()
        .filter(|entry| Drawn::of(&SECRET, &entry.pass).is_counted(SAMPLE))
        .count() as u64;
    let admission = Admission {
        entries: counted * u64::from(SAMPLE),
        scale: counted * u64::from(SAMPLE),
        ..Admission::default()
    };
    let round = |number: u32, admitted: u64, offered: u64| {
        json!({"round": number, "threshold": admission.threshold_for(admitted),
            "admitted": admitted, "offered": offered, "at": "2027-11-11T12:00:05Z"})
    };
    let rounds = [
        round(1, 1_100, 1_000),
        round(2, 1_155, 50),
        round(3, 1_155, 1),
    ];
    let sale = json!({
        "sale_id": "phone", "units": 1_000, "mode": "draw", "commitment": commitment(&SECRET),
        "draw": {"secret": hex(&SECRET), "sample": SAMPLE, "entries": admission.entries,
            "scale": admission.scale, "threshold": rounds[2]["threshold"], "round": 3,
            "admitted": 1_155},
    });
    let report = json!({
        "sale": {"sale_id": "phone", "no_show_percent": 10, "commitment": sale["commitment"]},
        "units": 1_000, "held": 0, "paying": 1, "paid": 990, "rounds": rounds,
    });
    (sale, report)
}

fn checked(sale: &Value, report: &Value, entries: Vec<Entry>) -> Vec<Check> {
    let evidence = Evidence {
        report: Some(serde_json::from_value(report.clone()).unwrap()),
        entries,
        all: true,
    };
    let sale = serde_json::from_value(sale.clone()).unwrap();
    check(&sale, &evidence)
}

fn wrong(sale: &Value, report: &Value, entries: Vec<Entry>) -> Vec<Check> {
    let mut checks = checked(sale, report, entries);
    checks.retain(|check| !check.holds());
    checks
}

#[test]
fn a_draw_as_it_was_fits() {
    let (sale, report) = published();
    let checks = checked(&sale, &report, everyone());
    assert_eq!(checks.len(), 9);
    assert!(checks.iter().all(Check::holds), "{checks:?}");
}

#[test]
fn whatever_is_changed_does_not_fit() {
    let other = hex(&[8; 32]);
    let changes: [(&str, &str, Value, &str); 15] = [
        (
            "sale",
            "/draw/secret",
            json!(other),
            "the secret is the one",
        ),
        ("sale", "/draw/secret", json!("07"), "the secret is the one"),
        ("sale", "/commitment", json!(other), "the secret is the one"),
        ("sale", "/draw/threshold", json!(0.06), "the line was drawn"),
        ("sale", "/draw/admitted", json!(1_156), "the line was drawn"),
        ("sale", "/draw/scale", json!(10_000), "the line was drawn"),
        ("sale", "/draw/entries", json!(30_000), "the count of"),
        ("sale", "/draw/round", json!(4), "3 rounds"),
        (
            "report",
            "/sale/commitment",
            json!(other),
            "the report is of",
        ),
        ("report", "/rounds/0/admitted", json!(1_101), "3 rounds"),
        ("report", "/rounds/0/offered", json!(900), "3 rounds"),
        ("report", "/rounds/1/threshold", json!(0.01), "3 rounds"),
        ("report", "/rounds/1/round", json!(1), "3 rounds"),
        ("report", "/rounds/1/admitted", json!(1_200), "3 rounds"),
        ("report", "/paid", json!(1_000), "1001 of 1000 units"),
    ];
    for (object, place, value, expected) in changes {
        let (mut sale, mut report) = published();
        let of = if object == "sale" {
            &mut sale
        } else {
            &mut report
        };
        *of.pointer_mut(place).unwrap() = value;
        let wrong = wrong(&sale, &report, everyone());
        assert!(
            wrong.iter().any(|check| check.what.starts_with(expected)),
            "{place}: {wrong:?}"
        );
    }
}

#[test]
fn one_forged_entry_is_found_and_named() {
    let (sale, report) = published();
    let mut entries = everyone();
    let forged = entries[77].pass.clone();
    entries[77].ticket = Some(domain::draw::Ticket(0.000_1));
    let found = wrong(&sale, &report, entries);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].wrong.len(), 1);
    assert!(found[0].wrong[0].starts_with(forged.as_str()));
    // One pass in the place of another.
    let mut entries = everyone();
    entries[77].pass = entry(78).pass;
    assert_eq!(wrong(&sale, &report, entries).len(), 2, "ticket and pass");
}

#[test]
fn entries_that_are_missing_or_chosen_do_not_fit_the_count() {
    let (sale, report) = published();
    let half = everyone().split_off(ENTRIES as usize / 2);
    let found = wrong(&sale, &report, half);
    assert!(found[0].what.starts_with("the count of"), "{found:?}");
    // As many, but those with low tickets: as if passes could be chosen.
    let low = (0..)
        .map(entry)
        .filter(|entry| entry.ticket.unwrap().0 < 0.5)
        .take(ENTRIES as usize)
        .collect();
    let found = wrong(&sale, &report, low);
    let last = found.last().unwrap();
    assert!(last.what.ends_with("below the threshold"), "{found:?}");
}

#[test]
fn a_pass_has_its_place() {
    let (sale, _) = published();
    let sale: verify::Published = serde_json::from_value(sale).unwrap();
    let winner = everyone()
        .into_iter()
        .find(|entry| entry.ticket.unwrap().0 < sale.draw.threshold)
        .unwrap();
    let found = find(&sale.draw, &winner.pass).unwrap();
    assert!(found.admitted && found.place.unwrap() <= sale.draw.admitted);
    assert_eq!(Some(found.ticket), winner.ticket);
}

/// The command's answer and exit code.
fn run(sale: &Value, more: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = command.stdin.take().unwrap();
    // It may have ended without a look at it.
    let _ = stdin.write_all(sale.to_string().as_bytes());
    drop(stdin);
    let output = command.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

#[test]
fn the_command_says_what_it_found() {
    let (mut sale, _) = published();
    let pass = entry(5).pass;
    let place = (entry(5).ticket.unwrap().0 * sale["draw"]["entries"].as_f64().unwrap()) as u64 + 1;
    let (said, code) = run(&sale, &["--pass", pass.as_str()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains(&format!("{pass}: number {place} of ")),
        "{said}"
    );
    let long = format!("{pass}0");
    let upper = format!("{:032X}", 0xfade);
    for slip in ["zzz", "", &long, &upper] {
        let (said, code) = run(&sale, &["--pass", slip]);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("32 hexadecimal digits in lower case"),
            "{said}"
        );
    }
    sale["draw"]["secret"] = json!(hex(&[8; 32]));
    let (said, code) = run(&sale, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("WRONG  the secret is the one"), "{said}");
    for (mode, draw) in [("race", json!({})), ("draw", Value::Null)] {
        (sale["mode"], sale["draw"]) = (mode.into(), draw);
        let (said, code) = run(&sale, &[]);
        assert_eq!(code, Some(2), "{said}");
    }
    assert_eq!(run(&Value::Null, &["no-such-file"]).1, Some(2));
}

#[test]
fn a_line_without_a_pass_id_is_named() {
    let pass = entry(5).pass;
    let read = verify::read_entries(&format!("# pass ticket\n\n{pass} 0.25\n")).unwrap();
    assert_eq!(read[0].pass, pass);
    let error = verify::read_entries(&format!("{pass}\nzzz 0.25\n")).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "line 2 has no pass id: a pass id is 32 hexadecimal digits in lower case"
    );
}
