//! The order function: a bucket's messages in their order, one at a time. A
//! worker may stop after any step, or sleep until another has its message.

use std::fmt;

use crate::gate::{Ask, Decision, Record, Release, Stock};
use crate::guard::Guard;
use crate::ledger::{Order, Outcome, Status, VoidReason};
use crate::queue::{Message, delete};
use crate::sale::{KEYS, Key, Sale};
use crate::state::State;

/// A worker with a message, and its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Work {
    /// The group.
    pub bucket: u8,
    /// The message.
    pub message: Message,
    /// What it does next.
    pub step: Step,
}

/// A step of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// On the word of a gate of this life.
    CreateOrder(u8),
    /// Asks the gate of this life for the unit.
    Adopt(u8),
    /// Takes the yes back.
    Void(VoidReason),
    /// The gate of this bucket follows a claim that was voided.
    Finish(u8, VoidReason),
    /// The life after this one.
    BeginLife(u8),
    /// What this life has to know.
    WholeBucket(u8),
    /// Makes the gate true.
    Load(Stock),
    /// Opens it in this life.
    ScriptLoad(u8),
    /// Tells the shoppers' side.
    PublishLife(u8),
    /// The message was handled.
    Delete,
}

impl fmt::Debug for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateOrder(life) => write!(to, "create_orders in life {life}"),
            Self::Adopt(life) => write!(to, "adopt in life {life}"),
            Self::Void(reason) => write!(to, "void as {reason:?}"),
            Self::Finish(at, reason) => write!(to, "finish {reason:?} at gate {at}"),
            Self::BeginLife(seen) => write!(to, "begin_life after {seen}"),
            Self::WholeBucket(life) => write!(to, "whole_bucket for life {life}"),
            Self::Load(truth) => write!(to, "load {truth:?}"),
            Self::ScriptLoad(life) => write!(to, "SCRIPT LOAD of life {life}"),
            Self::PublishLife(life) => write!(to, "publish_life {life}"),
            Self::Delete => write!(to, "delete the message"),
        }
    }
}

impl Step {
    /// Whether a stop or a silent gate here makes for one life more.
    pub fn recovers(&self) -> bool {
        matches!(
            self,
            Self::WholeBucket(_) | Self::Load(_) | Self::ScriptLoad(_) | Self::PublishLife(_)
        )
    }
}

/// What is done with a message first; the clock is read here.
pub fn receive(sale: &Sale, state: &State, bucket: u8, message: Message) -> Step {
    match message {
        Message::ClaimCreated { key, .. } if state.late[key] => Step::Void(VoidReason::NoOrder),
        Message::ClaimCreated { epoch, .. } => Step::CreateOrder(epoch),
        Message::Recover { epoch } => {
            let row = &state.ledger.buckets[usize::from(bucket)];
            let closed = row.closed >= epoch && sale.keeps(Guard::RecoverClosed);
            let open = state.gates[usize::from(bucket)].serves(sale, epoch) && !closed;
            if row.published != epoch || open {
                return Step::Delete;
            }
            Step::BeginLife(row.epoch)
        }
    }
}

/// A worker goes on. `None`: it can't now.
pub fn go_on(sale: &Sale, state: &mut State, work: Work) -> Option<Option<Step>> {
    match work.message {
        Message::ClaimCreated { key, epoch } => write(sale, state, work, key, epoch),
        Message::Recover { epoch } => Some(recover(sale, state, work, epoch)),
    }
}

fn write(sale: &Sale, state: &mut State, work: Work, key: Key, epoch: u8) -> Option<Option<Step>> {
    let at = work.bucket;
    let gate = &mut state.gates[usize::from(at)];
    Some(match work.step {
        Step::CreateOrder(life) => match state.ledger.create_order(sale, key, at, life) {
            Outcome::Created => Some(Step::Delete),
            Outcome::Existing(order) => Some(finish(at, order)),
            Outcome::Refused(reason) => Some(Step::Void(reason)),
            Outcome::Outdated(now) if life == epoch => Some(Step::Adopt(now)),
            // Yet another life since: the queue delivers it again.
            Outcome::Outdated(_) => None,
        },
        Step::Adopt(life) if gate.serves(sale, life) => {
            let ask = Ask {
                key,
                at,
                mark: false,
                turn: 0,
                limit: u8::MAX,
            };
            let adopted = match gate.primary.stock.claim(sale, &ask) {
                Decision::Claimed(_) => true,
                Decision::Same(record) => record.here > 0,
                Decision::Holds | Decision::Empty => false,
            };
            Some(if adopted {
                Step::CreateOrder(life)
            } else {
                Step::Void(VoidReason::Forgotten)
            })
        }
        // Not decided yet: the queue delivers it again, and again, until nobody
        // can pay it any more.
        Step::Adopt(_) if state.late[key] => Some(Step::Void(VoidReason::NoOrder)),
        Step::Adopt(_) if !sale.keeps(Guard::Requeue) => return None,
        Step::Adopt(_) => {
            let group = &mut state.groups[usize::from(at)];
            let recover = |message: &Message| matches!(message, Message::Recover { .. });
            group.iter().position(recover)?;
            delete(group, work.message);
            group.push(work.message);
            None
        }
        Step::Void(reason) => Some(finish(at, state.ledger.void(key, at, reason))),
        Step::Finish(gate, reason) => {
            let stock = &mut state.gates[usize::from(gate)].primary.stock;
            stock.release(sale, key, at, ending(reason));
            let home = sale.home[key];
            let marked = sale.buckets > 1 && gate == at && home != at;
            Some(if marked {
                Step::Finish(home, reason)
            } else {
                Step::Delete
            })
        }
        _ => None,
    })
}

fn finish(at: u8, order: Order) -> Step {
    match order.status {
        Status::Voided(reason) => Step::Finish(at, reason),
        _ => Step::Delete,
    }
}

/// How the gate follows a void.
pub fn ending(reason: VoidReason) -> Release {
    if reason.returns_units() {
        Release::Voided
    } else {
        Release::Forget
    }
}

fn recover(sale: &Sale, state: &mut State, work: Work, asked: u8) -> Option<Step> {
    let at = usize::from(work.bucket);
    let gate = &mut state.gates[at];
    Some(match work.step {
        Step::BeginLife(seen) => match state.ledger.begin_life(sale, work.bucket, seen, asked) {
            Some(epoch) => Step::WholeBucket(epoch),
            None => Step::Delete,
        },
        Step::WholeBucket(epoch) => Step::Load(truth(state, work.bucket, epoch)),
        Step::Load(truth) => {
            let later = gate.primary.stock.epoch > truth.epoch;
            if later && sale.keeps(Guard::LoadEpoch) {
                return Some(Step::Delete);
            }
            gate.primary.stock = truth;
            Step::ScriptLoad(truth.epoch)
        }
        Step::ScriptLoad(epoch) => {
            gate.primary.scripts |= 1 << epoch;
            Step::PublishLife(epoch)
        }
        Step::PublishLife(epoch) => {
            state.ledger.publish_life(sale, work.bucket, epoch);
            Step::Delete
        }
        _ => Step::Delete,
    })
}

fn truth(state: &State, at: u8, epoch: u8) -> Stock {
    let capacity = state.ledger.buckets[usize::from(at)].capacity;
    let mut stock = Stock {
        epoch,
        left: capacity - state.ledger.held(at),
        turn: 8 * epoch,
        ..Stock::default()
    };
    for key in 0..KEYS {
        let Some(order) = state.ledger.order(key, at) else {
            continue;
        };
        let counts = !matches!(order.status, Status::Voided(_));
        let (here, turn) = (1, 0);
        stock.records[key] = Some(Record { at, here, turn });
        stock.counted[key] = counts;
        stock.taken += u8::from(counts);
        stock.due[key] = matches!(order.status, Status::PendingPayment | Status::Paying);
    }
    stock
}
