//! Every function of the chain is stopped after each of its steps, commands of
//! the gates among them; started again as the cloud does, stopped again; and
//! started once more. Nothing may be lost, sold twice or kept.
//!
//! `cargo test --workspace --test chain -- --nocapture` prints the table.

#![allow(clippy::unwrap_used)]

mod claims;
mod money;
mod orders;
mod sweeps;
mod world;

use std::sync::Mutex;
use std::thread;

use histories::bench::{Bench, Twin};

use crate::world::{Line, twice};

#[test]
fn every_function_may_stop_after_each_step_twice() {
    let chain: [fn(&Bench) -> Line; 12] = [
        twice::<claims::AtHome>,
        twice::<claims::Elsewhere>,
        twice::<orders::Batch>,
        twice::<money::Pay>,
        twice::<money::Webhook>,
        twice::<money::LateWebhook>,
        twice::<sweeps::Expire>,
        twice::<sweeps::Close>,
        twice::<claims::GiveBack>,
        twice::<sweeps::Offer>,
        twice::<orders::Recovery>,
        twice::<orders::Move>,
    ];
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let (next, lines) = (Mutex::new(chain.iter().enumerate()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let bench = Bench::new(Twin::default());
                loop {
                    let Some((at, line)) = next.lock().unwrap().next() else {
                        break;
                    };
                    let line = line(&bench);
                    lines.lock().unwrap().push((at, line));
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap();
    lines.sort_by_key(|(at, _)| *at);
    println!("| function | steps | stops tried | then, all invariants held |");
    println!("|---|---|---|---|");
    for (_, line) in &lines {
        println!("{line}");
    }
    assert_eq!(lines.len(), chain.len());
}
