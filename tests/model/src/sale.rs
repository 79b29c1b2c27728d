//! A sale to be looked at: its size, what may go wrong, which guards are out;
//! and every action that is possible in it.

use stateright::{Model, Property};

use crate::guard::Guard;
use crate::ledger::Status;
use crate::order;
use crate::payment::{self, ATTEMPTS, IntentStatus, Pay, Reply};
use crate::promises;
use crate::queue::{Message, delete, send};
use crate::rebalance::Move;
use crate::shopper;
use crate::state::State;
use crate::sweeper::{self, Compare};

/// Buckets at most.
pub const BUCKETS: usize = 2;
/// Idempotency keys at most.
pub const KEYS: usize = 3;

/// A shopper's key: it names the claim in every bucket.
pub type Key = usize;

/// How orders are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payment {
    /// Not at all.
    Never,
    /// In one step, before `pay_by`.
    AtOnce,
    /// As the cashier does.
    InSteps,
}

/// A small sale.
#[derive(Debug, Clone)]
pub struct Sale {
    /// What it is about.
    pub name: &'static str,
    /// Buckets of it.
    pub buckets: usize,
    /// Units of each.
    pub units: [u8; BUCKETS],
    /// The shopper of each key that is used.
    pub shopper: Vec<u8>,
    /// The home bucket of each key.
    pub home: Vec<u8>,
    /// Units that a shopper may hold.
    pub limit: u8,
    /// Calls of each key.
    pub calls: u8,
    /// Primaries that are lost.
    pub failovers: u8,
    /// A demoted primary lives on, with its scripts.
    pub demoted_keeps_scripts: bool,
    /// Recoveries that stop half-way, or find the gate silent.
    pub stops: u8,
    /// Messages that two workers have at a time.
    pub overlaps: u8,
    /// Sweeps at a time.
    pub sweeps: usize,
    /// Gate and ledger are compared.
    pub compares: bool,
    /// How orders are paid.
    pub payment: Payment,
    /// Answers of the provider without an intent.
    pub refusals: u8,
    /// The provider may capture what it said it had cancelled.
    pub captures_cancelled: bool,
    /// Units that are moved from bucket 0 to bucket 1.
    pub moves: u8,
    /// Claims are taken without gates, too, at any time.
    pub ledger_only: bool,
    /// Guards that are taken out.
    pub without: Vec<Guard>,
    /// The promise that is looked at; none: all.
    pub promise: Option<&'static str>,
}

impl Sale {
    /// Whether a guard is in.
    pub fn keeps(&self, guard: Guard) -> bool {
        !self.without.contains(&guard)
    }

    /// The keys that are used.
    pub fn keys(&self) -> std::ops::Range<Key> {
        0..self.shopper.len()
    }
}

/// One atomic step of somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A shopper asks for a unit.
    Ask(Key),
    /// A shopper asks to whom no gate answers.
    AskByLedger(Key),
    /// A call goes on; whether a replica answers `WAIT`.
    Call(usize, bool),
    /// A call stops.
    CallStops(usize),
    /// The replica catches up.
    Replicate(u8),
    /// The replica is promoted.
    FailOver(u8),
    /// Who finds a bucket frozen has it recovered.
    AskRecovery(u8),
    /// A worker receives the first message; the other one still has it.
    Receive(u8, bool),
    /// A worker goes on; whether it lives to delete the message.
    Work(usize, bool),
    /// A worker stops; or the gate does not answer it.
    WorkStops(usize, bool),
    /// A sweeper looks at a deadline.
    Look(u8, Key),
    /// A sweeper goes on; what the provider says to it.
    Sweep(usize, Reply),
    /// A sweeper stops.
    SweepStops(usize),
    /// A sweeper compares; whether there is something to see.
    Compare(u8, bool),
    /// A comparison goes on.
    Compares,
    /// It stops.
    CompareStops,
    /// `pay_by` passes.
    PayBy(Key),
    /// `pay_until` passes.
    PayUntil(Key),
    /// The order is paid, all at once.
    Paid(Key),
    /// The shopper taps on Pay.
    Pay(Key),
    /// The shopper's card is charged.
    Confirm(Key, u8),
    /// The shopper's card is declined.
    Decline(Key, u8),
    /// An event of success arrives; whether another call has it, too.
    Deliver(Key, u8, bool),
    /// An event of failure arrives.
    Failed(Key, u8),
    /// The payment function goes on; what the provider says to it.
    Pays(usize, Reply),
    /// It stops.
    PayStops(usize),
    /// The provider is asked for money back.
    Refund(Key, u8),
    /// That it was given is noted.
    Refunded(Key, u8),
    /// A unit is to go to the other bucket.
    Move,
    /// The move goes on.
    Moves,
    /// Who moves it stops.
    MoveStops,
    /// The move took too long; whether somebody is still at it.
    GiveUpMove(bool),
}

impl Action {
    /// Whether it comes by itself: work that was begun, messages, time, and
    /// what schedules look for. The rest may never happen.
    pub fn is_progress(self) -> bool {
        matches!(
            self,
            Self::Call(_, true)
                | Self::AskRecovery(_)
                | Self::Receive(_, false)
                | Self::Work(_, true)
                | Self::Look(..)
                | Self::Sweep(_, Reply::Intent)
                | Self::Compare(_, true)
                | Self::Compares
                | Self::PayBy(_)
                | Self::PayUntil(_)
                | Self::Deliver(_, _, false)
                | Self::Failed(..)
                | Self::Pays(_, Reply::Intent)
                | Self::Refund(..)
                | Self::Refunded(..)
                | Self::Moves
                | Self::GiveUpMove(false)
        )
    }
}

impl Model for Sale {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.shopping(state, actions);
        for at in 0..self.buckets as u8 {
            self.keeping(state, at, actions);
        }
        for at in (0..2).filter(|at| state.workers[*at].is_some()) {
            actions.extend([
                Action::Work(at, true),
                Action::Work(at, false),
                Action::WorkStops(at, false),
                Action::WorkStops(at, true),
            ]);
        }
        for at in (0..2).filter(|at| state.sweeps[*at].is_some()) {
            actions.push(Action::SweepStops(at));
            actions.extend(replies(state).map(|reply| Action::Sweep(at, reply)));
        }
        if state.compare.is_some() {
            actions.extend([Action::Compares, Action::CompareStops]);
        }
        if self.payment == Payment::InSteps {
            self.paying(state, actions);
        }
        if state.moves > 0 && !state.ledger.moving {
            actions.push(Action::Move);
        }
        if state.moving.is_some() {
            actions.extend([Action::Moves, Action::MoveStops]);
        }
        if state.ledger.moving {
            actions.push(Action::GiveUpMove(state.moving.is_some()));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.act(&mut state, action)?;
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = promises::all();
        properties.retain(|one| self.promise.is_none_or(|name| name == one.name));
        properties
    }
}

impl Sale {
    fn shopping(&self, state: &State, actions: &mut Vec<Action>) {
        for key in self.keys() {
            if state.asked[key] < self.calls && !state.late[key] {
                actions.push(Action::Ask(key));
                if self.ledger_only {
                    actions.push(Action::AskByLedger(key));
                }
            }
            if state.claimed[key] && !state.late[key] {
                actions.push(Action::PayBy(key));
            }
            let paying = |at| {
                let order = state.ledger.order(key, at);
                order.is_some_and(|order| order.status == Status::Paying)
            };
            if state.late[key] && !state.closed[key] && (0..2).any(paying) {
                actions.push(Action::PayUntil(key));
            }
            let pending = |at| {
                let order = state.ledger.order(key, at);
                order.is_some_and(|order| order.status == Status::PendingPayment)
            };
            let at_once = self.payment == Payment::AtOnce;
            if at_once && !state.late[key] && (0..2).any(pending) {
                actions.push(Action::Paid(key));
            }
        }
        for at in 0..state.calls.len() {
            actions.push(Action::Call(at, true));
            let waits = matches!(state.calls[at].step, shopper::Step::Replicated { .. });
            if waits && state.failovers > 0 {
                actions.push(Action::Call(at, false));
            }
            actions.push(Action::CallStops(at));
        }
    }

    fn keeping(&self, state: &State, at: u8, actions: &mut Vec<Action>) {
        let bucket = usize::from(at);
        let gate = &state.gates[bucket];
        let row = &state.ledger.buckets[bucket];
        if state.failovers > 0 {
            actions.extend([Action::Replicate(at), Action::FailOver(at)]);
        }
        let open = gate.serves(self, row.published);
        let believed = row.closed < row.published || !self.keeps(Guard::RecoverClosed);
        let open = open && believed;
        if !open {
            actions.push(Action::AskRecovery(at));
        }
        if !state.groups[bucket].is_empty() {
            let busy = state.workers.iter().flatten().any(|work| work.bucket == at);
            actions.push(Action::Receive(at, busy));
        }
        if state.sweeps[..self.sweeps].contains(&None) {
            let sees = |key: &Key| sweeper::look(state, at, *key).is_some();
            let looks = self.keys().filter(sees);
            actions.extend(looks.map(|key| Action::Look(at, key)));
        }
        if self.compares && open && state.compare.is_none() {
            let gap = sweeper::gap(state, at, &gate.primary.stock);
            let sees = gap > 0 || gap < 0 && !state.ledger.moving;
            actions.push(Action::Compare(at, sees));
        }
    }

    fn paying(&self, state: &State, actions: &mut Vec<Action>) {
        let settles = |key, attempt| {
            state.pays.iter().flatten().any(|call| {
                matches!(call.step, payment::Step::Settle(of, _) if call.key == key && of == attempt)
            })
        };
        let free = state.pays.contains(&None);
        for key in self.keys() {
            if free {
                actions.push(Action::Pay(key));
            }
            for attempt in 1..=ATTEMPTS {
                let intent = &state.intents[key][usize::from(attempt) - 1];
                if intent.status == IntentStatus::None {
                    continue;
                }
                actions.extend([
                    Action::Confirm(key, attempt),
                    Action::Decline(key, attempt),
                    Action::Refund(key, attempt),
                    Action::Refunded(key, attempt),
                ]);
                if intent.succeeded && free {
                    actions.push(Action::Deliver(key, attempt, settles(key, attempt)));
                }
                if intent.failed {
                    actions.push(Action::Failed(key, attempt));
                }
            }
        }
        for at in (0..2).filter(|at| state.pays[*at].is_some()) {
            actions.push(Action::PayStops(at));
            actions.extend(replies(state).map(|reply| Action::Pays(at, reply)));
        }
    }

    fn act(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Ask(key) => shopper::ask(self, state, key)?,
            Action::AskByLedger(key) => shopper::ask_by_ledger(self, state, key)?,
            Action::Call(at, acked) => {
                let call = state.calls.remove(at);
                // It ends even where it finds nothing to do.
                let _ = shopper::go_on(self, state, call, acked);
            }
            Action::CallStops(at) => drop(state.calls.remove(at)),
            Action::Replicate(at) => {
                let gate = &mut state.gates[usize::from(at)];
                gate.replica.stock = gate.primary.stock;
            }
            Action::FailOver(at) => {
                state.failovers -= 1;
                state.gates[usize::from(at)].fail_over(self, state.failovers > 0);
                if state.failovers == 0 {
                    for gate in &mut state.gates {
                        gate.replica = Default::default();
                    }
                }
            }
            Action::AskRecovery(at) => self.ask_recovery(state, at)?,
            Action::Receive(at, again) => self.receive(state, at, again)?,
            Action::Work(at, deletes) => {
                let work = state.workers[at]?;
                let next = order::go_on(self, state, work)?;
                let done = next == Some(order::Step::Delete);
                if deletes && done {
                    delete(&mut state.groups[usize::from(work.bucket)], work.message);
                }
                if !deletes && !done {
                    return None;
                }
                let next = next.filter(|_| !done);
                state.workers[at] = next.map(|step| order::Work { step, ..work });
                state.workers.sort_by_key(Option::is_none);
            }
            Action::WorkStops(at, silent) => {
                let work = state.workers[at]?;
                if work.step.recovers() {
                    state.stops = state.stops.checked_sub(1)?;
                } else if silent {
                    return None;
                }
                if silent {
                    delete(&mut state.groups[usize::from(work.bucket)], work.message);
                }
                state.workers[at] = None;
                state.workers.sort_by_key(Option::is_none);
            }
            Action::Look(at, key) => {
                let look = sweeper::look(state, at, key)?;
                if state.sweeps.contains(&Some(look)) {
                    return None;
                }
                *state.sweeps.iter_mut().find(|sweep| sweep.is_none())? = Some(look);
            }
            Action::Sweep(at, reply) => {
                let sweep = state.sweeps[at]?;
                let asks = matches!(sweep.step, sweeper::Step::CloseIntent(order) if !order.intent);
                answer(state, reply, asks)?;
                let next = sweeper::go_on(self, state, sweep, reply);
                state.sweeps[at] = next.map(|step| sweeper::Sweep { step, ..sweep });
                state.sweeps.sort_by_key(Option::is_none);
            }
            Action::SweepStops(at) => {
                state.sweeps[at] = None;
                state.sweeps.sort_by_key(Option::is_none);
            }
            Action::Compare(at, _) => {
                let seen = state.gates[usize::from(at)].primary.stock;
                state.compare = Some(Compare::WholeBucket(at, seen));
            }
            Action::Compares => state.compare = sweeper::compare(state, state.compare?),
            Action::CompareStops => state.compare = None,
            Action::PayBy(key) => state.late[key] = true,
            Action::PayUntil(key) => state.closed[key] = true,
            Action::Paid(key) => self.paid(state, key)?,
            Action::Move => {
                state.moves -= 1;
                state.ledger.moving = true;
                state.moving = Some(Move::Take);
            }
            Action::Moves => state.moving = crate::rebalance::go_on(self, state, state.moving?),
            Action::MoveStops => state.moving = None,
            Action::GiveUpMove(_) => state.ledger.moving = false,
            _ => self.act_on_money(state, action)?,
        }
        Some(())
    }

    fn act_on_money(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Pay(key) => {
                let step = payment::pay(state, key)?;
                self.call_payment(state, Pay { key, step })?;
            }
            Action::Confirm(key, attempt) => {
                let order = state.ledger.order(key, 0)?;
                let held = matches!(order.status, Status::PendingPayment | Status::Paying);
                let own = order.attempt == attempt && order.intent;
                let intent = state.intent(key, attempt);
                let open = matches!(intent.status, IntentStatus::Open | IntentStatus::Declined);
                let late = intent.status == IntentStatus::Cancelled && self.captures_cancelled;
                if !intent.shown || !(open || late) {
                    return None;
                }
                intent.in_time = held && own && open;
                intent.status = IntentStatus::Captured;
                intent.succeeded = true;
            }
            Action::Decline(key, attempt) => {
                let intent = state.intent(key, attempt);
                if !intent.shown || intent.status != IntentStatus::Open {
                    return None;
                }
                intent.status = IntentStatus::Declined;
                intent.failed = true;
            }
            Action::Deliver(key, attempt, _) => {
                let order = state.ledger.order(key, 0)?;
                let step = payment::Step::Settle(attempt, order);
                self.call_payment(state, Pay { key, step })?;
            }
            Action::Failed(key, attempt) => {
                state.ledger.end_attempt(key, 0, attempt);
                state.intent(key, attempt).failed = false;
            }
            Action::Pays(at, reply) => {
                let call = state.pays[at]?;
                let asks = matches!(call.step, payment::Step::CreateIntent(_));
                answer(state, reply, asks)?;
                let next = payment::go_on(self, state, call, reply);
                state.pays[at] = next.map(|step| Pay { step, ..call });
                state.pays.sort_by_key(Option::is_none);
            }
            Action::PayStops(at) => {
                state.pays[at] = None;
                state.pays.sort_by_key(Option::is_none);
            }
            Action::Refund(key, attempt) => payment::refund(self, state, key, attempt)?,
            Action::Refunded(key, attempt) => payment::refunded(state, key, attempt)?,
            _ => return None,
        }
        Some(())
    }

    fn call_payment(&self, state: &mut State, call: Pay) -> Option<()> {
        *state.pays.iter_mut().find(|place| place.is_none())? = Some(call);
        Some(())
    }

    fn ask_recovery(&self, state: &mut State, at: u8) -> Option<()> {
        let epoch = state.ledger.buckets[usize::from(at)].published;
        let message = Message::Recover { epoch };
        let group = &mut state.groups[usize::from(at)];
        if group.contains(&message) {
            return None;
        }
        if self.keeps(Guard::Barrier) {
            send(group, message);
        } else {
            group.insert(0, message);
        }
        Some(())
    }

    fn receive(&self, state: &mut State, bucket: u8, again: bool) -> Option<()> {
        let message = *state.groups[usize::from(bucket)].first()?;
        if again {
            state.overlaps = state.overlaps.checked_sub(1)?;
        }
        let step = order::receive(self, state, bucket, message);
        if step == order::Step::Delete {
            delete(&mut state.groups[usize::from(bucket)], message);
            return Some(());
        }
        let place = state.workers.iter_mut().find(|work| work.is_none())?;
        *place = Some(order::Work {
            bucket,
            message,
            step,
        });
        Some(())
    }

    fn paid(&self, state: &mut State, key: Key) -> Option<()> {
        let live = |at: &u8| {
            let order = state.ledger.order(key, *at);
            order.is_some_and(|order| order.status == Status::PendingPayment)
        };
        let at = (0..2).find(live).filter(|_| !state.late[key])?;
        let order = state.ledger.order(key, at)?;
        let paid = crate::ledger::Order {
            status: Status::Paid,
            ..order
        };
        state.ledger.orders[key][usize::from(at)] = Some(paid);
        Some(())
    }
}

/// What the provider may say to who asks it.
fn replies(state: &State) -> impl Iterator<Item = Reply> {
    let possible = if state.refusals > 0 { 3 } else { 1 };
    let replies = [Reply::Intent, Reply::Refused, Reply::Spent];
    replies.into_iter().take(possible)
}

/// Counts an answer without an intent, which only who asks for one can get.
fn answer(state: &mut State, reply: Reply, asks: bool) -> Option<()> {
    if reply != Reply::Intent {
        state.refusals = state.refusals.checked_sub(1).filter(|_| asks)?;
    }
    Some(())
}
