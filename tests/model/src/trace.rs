//! A way to a state, in the code's words.

use stateright::Path;

use crate::payment::Reply;
use crate::sale::{Action, Sale};
use crate::state::State;

/// A line a step.
pub fn lines(sale: &Sale, path: Path<State, Action>) -> Vec<String> {
    let steps = path.into_vec().into_iter();
    steps
        .filter_map(|(state, action)| Some(line(sale, &state, action?)))
        .collect()
}

fn line(sale: &Sale, state: &State, action: Action) -> String {
    match action {
        Action::Ask(key) => format!("key {key} asks its home bucket {}", sale.home[key]),
        Action::AskByLedger(key) => format!("no gate answers key {key}"),
        Action::Call(at, acked) => {
            let call = state.calls[at];
            let silent = if acked { "" } else { ", no replica answers" };
            format!("claim function, key {}: {:?}{silent}", call.key, call.step)
        }
        Action::Work(at, _) => match state.workers[at] {
            Some(work) => format!(
                "order function, bucket {}, {:?}: {:?}",
                work.bucket, work.message, work.step
            ),
            None => String::new(),
        },
        Action::Sweep(at, reply) => match state.sweeps[at] {
            Some(sweep) => format!(
                "sweeper, claim of key {} in bucket {}: {:?}{}",
                sweep.key,
                sweep.at,
                sweep.step,
                without(reply)
            ),
            None => String::new(),
        },
        Action::Pays(at, reply) => match state.pays[at] {
            Some(call) => format!(
                "payment function, key {}: {:?}{}",
                call.key,
                call.step,
                without(reply)
            ),
            None => String::new(),
        },
        Action::Compares => format!("sweeper: {:?}", state.compare),
        Action::Moves => format!("rebalancing: {:?}", state.moving),
        other => format!("{other:?}"),
    }
}

fn without(reply: Reply) -> &'static str {
    match reply {
        Reply::Intent => "",
        Reply::Refused => ", the provider refuses",
        Reply::Spent => ", the provider keeps its failure",
    }
}
