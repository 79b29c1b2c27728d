//! The claim function: one script, one replica, one message, one answer. A call
//! may stop after any step, and several calls of one key run at a time.

use crate::gate::{Ask, Decision, Record, Release};
use crate::guard::Guard;
use crate::queue::{Message, send};
use crate::sale::{Key, Sale};
use crate::state::State;

/// A call on its way, and its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// Its key.
    pub key: Key,
    /// What it does next.
    pub step: Step,
}

/// A step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Asks the home bucket, again.
    Home,
    /// Looks whether another bucket has units, or this very claim.
    Glance {
        /// Home could be asked.
        home: bool,
    },
    /// Marks the shopper at home.
    Mark,
    /// Takes the unit where the mark leads.
    ClaimMarked {
        /// The mark; 0: home could not be asked.
        turn: u8,
        /// The mark was there before.
        complete: bool,
    },
    /// Erases a mark that led nowhere.
    Erase {
        /// The mark.
        turn: u8,
        /// Starts over.
        again: bool,
    },
    /// `WAIT`, and a look at the claim.
    Replicated {
        /// The claim's bucket.
        at: u8,
        /// The life that it was claimed in.
        epoch: u8,
    },
    /// Whether the bucket's life is closed.
    Believed {
        /// The claim's bucket.
        at: u8,
        /// The life that it was claimed in.
        epoch: u8,
    },
    /// Without a gate: closes the life that the row was read in.
    CloseLife {
        /// The claim's bucket.
        at: u8,
        /// The life.
        epoch: u8,
    },
    /// Without a gate: the message.
    SendByLedger {
        /// The claim's bucket.
        at: u8,
        /// The life that was closed for it.
        epoch: u8,
    },
    /// The message.
    Send {
        /// The claim's bucket.
        at: u8,
        /// The life that it was claimed in.
        epoch: u8,
        /// Whether a replica has it.
        replicated: bool,
    },
}

/// What a shopper was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// Nothing.
    None,
    /// 202.
    Confirming,
    /// 201: the claim in this bucket.
    Created(u8),
}

/// The life in which a bucket's claim script runs, if it does: an environment
/// may have read the address before a later life was published.
fn life(sale: &Sale, state: &State, at: u8) -> Option<u8> {
    let gate = &state.gates[usize::from(at)];
    (1..=state.ledger.buckets[usize::from(at)].published).find(|epoch| gate.serves(sale, *epoch))
}

/// A call begins. `None`: nothing came of it.
pub fn ask(sale: &Sale, state: &mut State, key: Key) -> Option<()> {
    let open = life(sale, state, sale.home[key]).is_some();
    if state.asked[key] >= sale.calls || state.late[key] || (!open && sale.buckets == 1) {
        return None;
    }
    state.asked[key] += 1;
    let next = home(sale, state, key);
    // Sold out, or held: whoever asks again finds the same.
    if next.is_none() && sale.buckets == 1 {
        return None;
    }
    state.call(key, next);
    Some(())
}

/// A call begins to which no gate answers, whoever else they answer. `None`:
/// nothing came of it.
pub fn ask_by_ledger(sale: &Sale, state: &mut State, key: Key) -> Option<()> {
    if !sale.ledger_only || state.asked[key] >= sale.calls || state.late[key] {
        return None;
    }
    let places = [sale.home[key], 1 - sale.home[key]];
    let has_some = |at: &u8| state.ledger.buckets[usize::from(*at)].spare >= 1;
    let at = places.into_iter().take(sale.buckets).find(has_some)?;
    state.asked[key] += 1;
    let epoch = state.ledger.buckets[usize::from(at)].epoch;
    let step = if sale.keeps(Guard::CloseFirst) {
        Step::CloseLife { at, epoch }
    } else {
        Step::SendByLedger { at, epoch }
    };
    state.call(key, Some(step));
    Some(())
}

/// A call goes on. `acked`: whether a replica answers `WAIT`.
pub fn go_on(sale: &Sale, state: &mut State, call: Call, acked: bool) -> Option<()> {
    let key = call.key;
    let other = 1 - sale.home[key];
    let home_bucket = usize::from(sale.home[key]);
    let next = match call.step {
        Step::Home => home(sale, state, key),
        Step::Glance { home } => {
            let stock = &state.gates[usize::from(other)].primary.stock;
            match stock.records[key] {
                Some(record) => again(state, key, record.at),
                None if stock.left < 1 => None,
                None if home => Some(Step::Mark),
                None => Some(Step::ClaimMarked {
                    turn: 0,
                    complete: false,
                }),
            }
        }
        Step::Mark => {
            life(sale, state, sale.home[key])?;
            let stock = &mut state.gates[home_bucket].primary.stock;
            let ask = Ask {
                key,
                at: other,
                mark: true,
                turn: 0,
                limit: sale.limit,
            };
            match stock.claim(sale, &ask) {
                Decision::Claimed(mark) => {
                    state.claimed[key] = true;
                    Some(Step::ClaimMarked {
                        turn: mark.turn,
                        complete: false,
                    })
                }
                Decision::Same(record) => complete(sale, state, key, record),
                Decision::Holds | Decision::Empty => None,
            }
        }
        Step::ClaimMarked { turn, complete } => {
            let limit = if complete { u8::MAX } else { sale.limit };
            claim_marked(sale, state, key, turn, limit, complete)
        }
        Step::Erase { turn, again } => {
            let stock = &mut state.gates[home_bucket].primary.stock;
            stock.release(sale, key, other, Release::Erase(turn));
            again.then_some(Step::Home)
        }
        Step::Replicated { at, epoch } => {
            let replicated = replicated(sale, state, key, at, epoch, acked);
            if sale.keeps(Guard::LookAfterSend) {
                let looks = replicated && sale.ledger_only && sale.keeps(Guard::LookAtClosed);
                if looks {
                    Some(Step::Believed { at, epoch })
                } else {
                    answer(state, key, at, replicated);
                    None
                }
            } else {
                Some(Step::Send {
                    at,
                    epoch,
                    replicated,
                })
            }
        }
        Step::Believed { at, epoch } => {
            let believed = state.ledger.buckets[usize::from(at)].closed < epoch;
            answer(state, key, at, believed);
            None
        }
        Step::CloseLife { at, epoch } => {
            let closed = state.ledger.close_life(at, epoch);
            closed.then_some(Step::SendByLedger { at, epoch })
        }
        Step::SendByLedger { at, epoch } => {
            let group = &mut state.groups[usize::from(at)];
            send(group, Message::ClaimCreated { key, epoch });
            state.claimed[key] = true;
            answer(state, key, at, false);
            None
        }
        Step::Send {
            at,
            epoch,
            replicated,
        } => {
            let group = &mut state.groups[usize::from(at)];
            send(group, Message::ClaimCreated { key, epoch });
            if sale.keeps(Guard::LookAfterSend) {
                Some(Step::Replicated { at, epoch })
            } else {
                answer(state, key, at, replicated);
                None
            }
        }
    };
    state.call(key, next);
    Some(())
}

fn home(sale: &Sale, state: &mut State, key: Key) -> Option<Step> {
    let at = sale.home[key];
    let Some(epoch) = life(sale, state, at) else {
        return Some(Step::Glance { home: false });
    };
    let ask = Ask {
        key,
        at,
        mark: false,
        turn: 0,
        limit: sale.limit,
    };
    let stock = &mut state.gates[usize::from(at)].primary.stock;
    match stock.claim(sale, &ask) {
        Decision::Claimed(_) => {
            state.claimed[key] = true;
            Some(secure(sale, at, epoch))
        }
        Decision::Same(record) => complete(sale, state, key, record),
        Decision::Empty if sale.buckets > 1 => Some(Step::Glance { home: true }),
        Decision::Empty | Decision::Holds => None,
    }
}

/// What home said of the claim may be a mark.
fn complete(sale: &Sale, state: &State, key: Key, record: Record) -> Option<Step> {
    if record.at == sale.home[key] {
        return again(state, key, record.at);
    }
    Some(Step::ClaimMarked {
        turn: record.turn,
        complete: true,
    })
}

fn claim_marked(
    sale: &Sale,
    state: &mut State,
    key: Key,
    turn: u8,
    limit: u8,
    complete: bool,
) -> Option<Step> {
    let at = 1 - sale.home[key];
    // Frozen: the mark stays, for the same key or the sweeper.
    let epoch = life(sale, state, at)?;
    let stock = &mut state.gates[usize::from(at)].primary.stock;
    let ask = Ask {
        key,
        at,
        mark: false,
        turn,
        limit,
    };
    match stock.claim(sale, &ask) {
        Decision::Claimed(_) => {
            state.claimed[key] = true;
            Some(secure(sale, at, epoch))
        }
        Decision::Same(_) => again(state, key, at),
        Decision::Empty if turn > 0 => Some(Step::Erase {
            turn,
            again: complete,
        }),
        Decision::Empty | Decision::Holds => None,
    }
}

/// The same claim: the message once more, if the ledger knows nothing of it.
fn again(state: &State, key: Key, at: u8) -> Option<Step> {
    let epoch = state.ledger.buckets[usize::from(at)].published;
    let unknown = state.ledger.order(key, at).is_none();
    unknown.then_some(Step::Replicated { at, epoch })
}

fn secure(sale: &Sale, at: u8, epoch: u8) -> Step {
    if sale.keeps(Guard::LookAfterSend) {
        Step::Send {
            at,
            epoch,
            replicated: false,
        }
    } else {
        Step::Replicated { at, epoch }
    }
}

fn replicated(sale: &Sale, state: &mut State, key: Key, at: u8, epoch: u8, acked: bool) -> bool {
    let gate = &mut state.gates[usize::from(at)];
    if acked && state.failovers > 0 {
        gate.replica.stock = gate.primary.stock;
    }
    let record = gate.primary.stock.records[key];
    let known = record.is_some_and(|record| record.at == at);
    acked && known && (!sale.keeps(Guard::LookAtLife) || gate.serves(sale, epoch))
}

fn answer(state: &mut State, key: Key, at: u8, replicated: bool) {
    let answer = if replicated {
        Answer::Created(at)
    } else {
        Answer::Confirming
    };
    state.answers[key] = state.answers[key].max(answer);
}
