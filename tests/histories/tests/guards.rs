//! Each guard is taken out in turn, and the histories must find what it
//! guards. `--nocapture` shows how they did.

use histories::bench::Twin;
use histories::promises::STRAND_NOTHING;
use histories::promises::{A_YES_STANDS, CONSERVED, LIMIT, MONEY, NEVER_OVERSELL, REFERENCE};
use histories::proxy::Script;
use histories::run::{Plan, run};
use histories::services::Edit;
use histories::step::Faults;
use serde_json::{Value, json};

/// Histories in which a break is found, or the guard is of no use.
const COUNT: u64 = 2_000;

/// Without a guard, histories from a seed on break one of these promises. The
/// seed is one from which it does not take long.
fn breaks(name: &str, seed: u64, promises: &[&str], faults: Faults, twin: Twin) {
    let report = run(&Plan {
        faults,
        twin,
        seed,
        count: COUNT,
        benches: 1,
        shrinks: 60,
    });
    let failure = report.failure.unwrap_or_else(|| {
        panic!("without {name} {COUNT} histories break nothing");
    });
    println!("without {name}: {failure}\n");
    let which = |promise: &&str| failure.why.starts_with(*promise);
    assert!(promises.iter().any(which), "{promises:?}: {}", failure.why);
}

fn ledger(edit: Edit) -> Twin {
    Twin {
        ledger: Some(edit),
        ..Twin::default()
    }
}

fn script(guard: &'static str, instead: &'static str) -> Twin {
    Twin {
        script: Some(Script { guard, instead }),
        ..Twin::default()
    }
}

/// Puts another condition in the place of a part of one.
fn weaken(request: &mut Value, guard: &str, instead: &str) -> Option<Value> {
    let parts = request["TransactItems"].as_array_mut();
    for part in parts.into_iter().flatten() {
        for kind in ["Update", "Put", "ConditionCheck"] {
            let condition = part
                .get_mut(kind)
                .and_then(|kind| kind.get_mut("ConditionExpression"));
            if let Some(Value::String(condition)) = condition {
                *condition = condition.replace(guard, instead);
            }
        }
    }
    None
}

#[test]
fn the_cap() {
    let edit: Edit = |_, request| weaken(request, "spare >= :units AND epoch", "epoch");
    breaks(
        "the cap",
        1,
        &[NEVER_OVERSELL],
        Faults::ComeBack,
        ledger(edit),
    );
}

#[test]
fn the_limit() {
    let edit: Edit = |_, request| {
        weaken(
            request,
            "#units <= :room",
            "#units <= :room OR #units > :room",
        )
    };
    breaks(
        "the customer's limit",
        110,
        &[LIMIT],
        Faults::Covered,
        ledger(edit),
    );
}

#[test]
fn one_order_a_key() {
    let guard = "NOT contains(claims, :digest)";
    let edit: Edit = |_, request| {
        weaken(
            request,
            "NOT contains(claims, :digest)",
            "(contains(claims, :digest) OR NOT contains(claims, :digest))",
        )
    };
    breaks(guard, 70, &[LIMIT], Faults::Covered, ledger(edit));
}

#[test]
fn the_life_of_an_order() {
    let edit: Edit = |_, request| {
        weaken(
            request,
            "spare >= :units AND epoch = :epoch",
            "spare >= :units AND (epoch = :epoch OR epoch <> :epoch)",
        )
    };
    let promises = [CONSERVED, REFERENCE];
    breaks(
        "the order's epoch",
        1,
        &promises,
        Faults::Covered,
        ledger(edit),
    );
}

/// The sweeper's answers as if it had been written. A worker's does not: that
/// claim was made before.
#[test]
fn the_tombstone() {
    let edit: Edit = |operation, request| {
        let row = &request["Item"];
        let buries = operation == "PutItem"
            && row["void_reason"]["S"] == "no_order"
            && row["claimed_at"] == row["changed_at"];
        buries.then(|| json!({}))
    };
    let promises = [CONSERVED, REFERENCE];
    breaks("the tombstone", 1, &promises, Faults::Covered, ledger(edit));
}

#[test]
fn the_refund() {
    let edit: Edit = |_, request| {
        let parts = request["TransactItems"].as_array();
        let mut parts = parts.into_iter().flatten();
        let owed = |part: &Value| part["Put"]["Item"]["status"]["S"] == "REFUND_PENDING";
        parts.any(owed).then(|| json!({}))
    };
    breaks("the refund", 40, &[MONEY], Faults::Covered, ledger(edit));
}

#[test]
fn only_who_removes_the_deadline() {
    let guard = "if redis.call('ZREM', KEYS[2], claim) == 0 then return 0 end";
    let twin = script(guard, "redis.call('ZREM', KEYS[2], claim)");
    breaks("ZREM", 1, &[CONSERVED], Faults::Covered, twin);
}

#[test]
fn the_limit_of_the_script() {
    let guard = "elseif mine and units + quantity > limit then";
    let twin = script(guard, "elseif false then");
    breaks("the script's limit", 1, &[REFERENCE], Faults::Covered, twin);
}

#[test]
fn the_life_in_the_hash() {
    let twin = script("if epoch ~= EPOCH then return {'STALE'} end", "");
    breaks(
        "the hash's epoch",
        135,
        &[REFERENCE],
        Faults::ComeBack,
        twin,
    );
}

#[test]
fn the_comparison() {
    let guard = "redis.call('HINCRBY', KEYS[1], 'left', -gap)";
    let twin = script(guard, "");
    breaks(
        "the comparison",
        20,
        &[STRAND_NOTHING],
        Faults::Covered,
        twin,
    );
}

#[test]
fn the_look_before_a_yes() {
    let twin = Twin {
        unlooked: true,
        ..Twin::default()
    };
    breaks("the look", 410, &[A_YES_STANDS], Faults::Covered, twin);
}
