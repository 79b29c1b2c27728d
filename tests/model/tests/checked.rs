//! Every state of a few small sales.

use model::sale::{Payment, Sale};
use model::trace;
use stateright::{Checker, Model};

fn sale(name: &'static str) -> Sale {
    Sale {
        name,
        buckets: 1,
        units: [1, 0],
        shopper: vec![0, 1],
        home: vec![0, 0],
        limit: 1,
        calls: 1,
        failovers: 0,
        demoted_keeps_scripts: false,
        stops: 0,
        overlaps: 0,
        sweeps: 1,
        payment: Payment::AtOnce,
        compares: false,
        moves: 0,
        without: vec![],
        promise: None,
    }
}

fn check(sale: Sale) {
    let begun = std::time::Instant::now();
    let checker = sale.clone().checker().threads(2).spawn_bfs().join();
    println!("{} without {:?}: {} states, depth {}, {:.1} s", sale.name, sale.without, checker.unique_state_count(), checker.max_depth(), begun.elapsed().as_secs_f32());
    for (promise, path) in checker.discoveries() {
        println!("  broken: {promise}");
        for line in trace::lines(&sale, path) { println!("    {line}"); }
    }
}


#[test]
fn explore() {
    use model::guard::Guard::*;
    let only = std::env::vars().find(|v| v.0 == "ONLY").map(|v| v.1).unwrap_or_default();
    let as_is = vec![LookAfterSend, Requeue];
    let all = vec![
        sale("plain"),
        Sale { compares: true, ..sale("compared") },
        Sale { sweeps: 2, calls: 2, overlaps: 1, ..sale("twice") },
        Sale { failovers: 1, ..sale("failover") },
        Sale { failovers: 1, sweeps: 0, stops: 1, overlaps: 1, ..sale("recovery") },
        Sale { failovers: 2, sweeps: 0, ..sale("failover2") },
        Sale { failovers: 2, sweeps: 0, demoted_keeps_scripts: true, ..sale("demoted") },
        Sale { shopper: vec![0], home: vec![0], payment: Payment::InSteps, ..sale("money") },
        Sale { buckets: 2, units: [1, 1], ..sale("buckets") },
        Sale { buckets: 2, units: [1, 0], moves: 1, shopper: vec![0], home: vec![1], ..sale("move") },
        Sale { buckets: 2, units: [1, 0], moves: 1, shopper: vec![0], home: vec![1], failovers: 1, compares: true, sweeps: 0, ..sale("movefail") },
        Sale { shopper: vec![0, 0], ..sale("keys") },
    ];
    for sale in all {
        let Some(rest) = only.strip_prefix(sale.name) else { continue };
        let mut sale = sale;
        if rest == "-as-is" { sale.without = as_is.clone(); }
        else if rest != "" { continue }
        check(sale);
    }
}
