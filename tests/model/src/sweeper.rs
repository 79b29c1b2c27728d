//! The sweeper: the ledger decides what a deadline comes to, then the gate
//! follows; and the comparison of the two. Any number run at a time, and each
//! may stop after any step.

use crate::gate::{Release, Stock};
use crate::guard::Guard;
use crate::ledger::{Order, Status, VoidReason};
use crate::order::ending;
use crate::payment::{self, Reply};
use crate::sale::{KEYS, Key, Sale};
use crate::state::State;

/// A look at one deadline of a gate, and its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sweep {
    /// Whose deadline.
    pub key: Key,
    /// The claim's bucket.
    pub at: u8,
    /// What it does next.
    pub step: Step,
}

/// A step of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// No order: the claim is voided, then its unit, or its mark, goes.
    Bury {
        /// The gate that has the deadline.
        gate: u8,
    },
    /// Cancels the intent.
    CloseIntent(Order),
    /// There is none for this attempt.
    EndUnbound(u8),
    /// This attempt's intent had captured; the order as it was read.
    Settle(u8, Order),
    /// Ends the order as it was read.
    Release(Order),
    /// The gate gives the unit back, or forgets.
    GateRelease {
        /// Which gate.
        gate: u8,
        /// How.
        how: Release,
        /// The mark at home goes next.
        mark: bool,
    },
    /// The gate drops the deadline.
    GateSettle {
        /// Which gate.
        gate: u8,
    },
}

/// What a look at a key's deadline at a gate leads to.
pub fn look(state: &State, gate: u8, key: Key) -> Option<Sweep> {
    let stock = &state.gates[usize::from(gate)].primary.stock;
    let record = stock.records[key].filter(|_| stock.due[key]);
    let due = record.is_some();
    let at = record.map_or(gate, |record| record.at);
    let order = state.ledger.order(key, at);
    let step = match order.map(|order| (order, order.status)) {
        None if due && state.late[key] => Step::Bury { gate },
        None => return None,
        Some((order, _)) if at != gate => end_mark(gate, order),
        Some((order, Status::PendingPayment)) if state.late[key] && !order.intent => {
            Step::Release(order)
        }
        // A declined intent can be confirmed until it is cancelled.
        Some((order, Status::PendingPayment)) if state.late[key] => Step::CloseIntent(order),
        Some((order, Status::Paying)) if state.closed[key] => Step::CloseIntent(order),
        Some((_, Status::PendingPayment | Status::Paying)) => return None,
        Some((order, _)) if due => follow(gate, order),
        Some(_) => return None,
    };
    Some(Sweep { key, at, step })
}

fn end_mark(gate: u8, order: Order) -> Step {
    match order.status {
        Status::Voided(_) => follow(gate, order),
        _ => Step::GateSettle { gate },
    }
}

/// The gate follows an order that has ended.
fn follow(gate: u8, order: Order) -> Step {
    let how = match order.status {
        Status::Paid => return Step::GateSettle { gate },
        Status::Voided(reason) => ending(reason),
        _ => Release::Lapsed,
    };
    let mark = false;
    Step::GateRelease { gate, how, mark }
}

/// A sweep goes on; what the provider says, should it be asked for an intent.
pub fn go_on(sale: &Sale, state: &mut State, sweep: Sweep, reply: Reply) -> Option<Step> {
    let Sweep { key, at, step } = sweep;
    match step {
        Step::Bury { gate } => {
            let reason = VoidReason::NoOrder;
            let status = Status::Voided(reason);
            let stands = if sale.keeps(Guard::Tombstone) {
                state.ledger.void(key, at, reason)
            } else {
                let none = Order {
                    status,
                    attempt: 0,
                    intent: false,
                };
                state.ledger.order(key, at).unwrap_or(none)
            };
            match stands.status {
                Status::PendingPayment | Status::Paying if gate == at => None,
                Status::Voided(_) if gate != at => Some(Step::GateRelease {
                    gate: at,
                    how: Release::Voided,
                    mark: true,
                }),
                _ if gate != at => Some(end_mark(gate, stands)),
                _ => Some(follow(gate, stands)),
            }
        }
        Step::CloseIntent(order) => Some(payment::close_intent(sale, state, key, order, reply)),
        Step::EndUnbound(attempt) => {
            let waits = state.ledger.end_unbound(sale, key, at, attempt);
            waits.map(Step::Release)
        }
        Step::Settle(attempt, order) => {
            let read = payment::settle(sale, state, key, attempt, order);
            read.map(|order| Step::Settle(attempt, order))
        }
        Step::Release(read) => {
            let ended = state.ledger.release(sale, key, at, read);
            ended.then_some(Step::GateRelease {
                gate: at,
                how: Release::Lapsed,
                mark: false,
            })
        }
        Step::GateRelease { gate, how, mark } => {
            let stock = &mut state.gates[usize::from(gate)].primary.stock;
            stock.release(sale, key, at, how);
            mark.then_some(Step::GateRelease {
                gate: sale.home[key],
                how: Release::Forget,
                mark: false,
            })
        }
        Step::GateSettle { gate } => {
            state.gates[usize::from(gate)].primary.stock.settle(key, at);
            None
        }
    }
}

/// A comparison, and its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Reads the ledger after the gate.
    WholeBucket(u8, Stock),
    /// Corrects the gate, if it still is as it was read.
    Correct {
        /// The bucket.
        bucket: u8,
        /// As read.
        left: i8,
        /// As read.
        taken: u8,
        /// Gate minus ledger.
        gap: i8,
    },
}

/// What a gate shows too much (or, below zero, too little).
pub fn gap(state: &State, bucket: u8, seen: &Stock) -> i8 {
    let on_its_way = |key: &Key| match state.ledger.order(*key, bucket).map(|row| row.status) {
        None | Some(Status::Expired) => true,
        Some(Status::Voided(reason)) => reason.returns_units(),
        Some(_) => false,
    };
    let holds = (0..KEYS).filter(|key| seen.due[*key]);
    let holds = holds.filter(|key| seen.records[*key].is_some_and(|hold| hold.at == bucket));
    let on_their_way: i8 = holds
        .filter(on_its_way)
        .filter_map(|key| Some(seen.records[key]?.here))
        .sum();
    seen.left - (state.ledger.buckets[usize::from(bucket)].spare - on_their_way)
}

/// A comparison goes on.
pub fn compare(state: &mut State, compare: Compare) -> Option<Compare> {
    match compare {
        Compare::WholeBucket(bucket, seen) => {
            let gap = gap(state, bucket, &seen);
            let skips = gap < 0 && state.ledger.moving;
            (!skips).then_some(Compare::Correct {
                bucket,
                left: seen.left,
                taken: seen.taken,
                gap,
            })
        }
        Compare::Correct {
            bucket,
            left,
            taken,
            gap,
        } => {
            let stock = &mut state.gates[usize::from(bucket)].primary.stock;
            if (stock.left, stock.taken) == (left, taken) {
                correct(stock, gap);
            }
            None
        }
    }
}

/// `correct.lua`.
fn correct(stock: &mut Stock, gap: i8) {
    if gap >= 0 {
        let gap = gap.min(stock.left);
        stock.left -= gap;
        stock.gap = None;
    } else if stock.gap == Some(gap) {
        stock.left -= gap;
        stock.gap = None;
    } else {
        stock.gap = Some(gap);
    }
}
