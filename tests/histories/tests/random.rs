//! Random histories, compared after every step with the books.
//!
//! `HISTORIES=10000 HISTORIES_SEED=1 cargo test --workspace --test random`

use histories::run::{Plan, run};
use histories::step::Faults;

/// As many as fit into half a minute on two cores.
const COUNT: u64 = 480;

#[test]
fn every_history_keeps_every_promise() {
    let report = run(&Plan::from_environment(Faults::Covered, COUNT));
    println!("{report}");
    if let Some(failure) = report.failure {
        panic!("{failure}");
    }
}

/// The known limit: yeses can be voided then, but nothing is oversold, no limit
/// exceeded, no money kept.
#[test]
fn a_primary_that_comes_back_breaks_no_promise_of_the_ledger() {
    let report = run(&Plan::from_environment(Faults::ComeBack, COUNT / 4));
    println!("{report}");
    if let Some(failure) = report.failure {
        panic!("{failure}");
    }
}
