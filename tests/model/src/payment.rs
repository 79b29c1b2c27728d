//! The cashier and the provider. An order's attempts each have one intent; the
//! shopper confirms it when they like, its events come when they like.

use crate::guard::Guard;
use crate::ledger::{Order, Status};
use crate::sale::{Key, Sale};
use crate::state::State;
use crate::sweeper;

/// Attempts that an order is given here.
pub const ATTEMPTS: u8 = 2;

/// An intent at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IntentStatus {
    /// Not made.
    #[default]
    None,
    /// Can be confirmed.
    Open,
    /// Declined once: can be confirmed again.
    Declined,
    /// Holds money.
    Captured,
    /// Never will.
    Cancelled,
}

/// What the provider says to who asks for an attempt's intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Here it is, new or as it was.
    Intent,
    /// It makes none; asked again, it may.
    Refused,
    /// It failed, maybe after it made one, and keeps that as its answer.
    Spent,
}

/// A refund's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Refund {
    /// No row.
    #[default]
    None,
    /// `REFUND_PENDING`.
    Owed,
    /// `REFUNDED`.
    Refunded,
}

/// The intent of an attempt, with what is known of it on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Intent {
    /// At the provider.
    pub status: IntentStatus,
    /// The provider says to its key, for ever, that there is none.
    pub spent: bool,
    /// The shopper's page has it.
    pub shown: bool,
    /// It captured while it was the order's, and the hold lived.
    pub in_time: bool,
    /// An event that was not accepted yet.
    pub succeeded: bool,
    /// An event that was not accepted yet.
    pub failed: bool,
    /// The refund's row.
    pub refund: Refund,
    /// How often the provider gave the money back.
    pub given_back: u8,
}

/// A call of the payment function, and its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pay {
    /// Whose order.
    pub key: Key,
    /// What it does next.
    pub step: Step,
}

/// A step of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Cancels the declined intent of the order.
    CancelDeclined(Order),
    /// The next attempt.
    BeginPayment(Order),
    /// The provider's intent of this attempt.
    CreateIntent(u8),
    /// Into the order's row.
    BindIntent(u8),
    /// There is no intent for this attempt.
    EndUnbound(u8),
    /// A capture of this attempt's intent, and the order as it was read.
    Settle(u8, Order),
}

/// The shopper taps on Pay.
pub fn pay(state: &State, key: Key) -> Option<Step> {
    let order = state.ledger.order(key, 0)?;
    match order.status {
        Status::PendingPayment if !state.late[key] && order.attempt < ATTEMPTS => {
            Some(if order.intent {
                Step::CancelDeclined(order)
            } else {
                Step::BeginPayment(order)
            })
        }
        Status::Paying if !state.closed[key] && !order.intent => {
            Some(Step::CreateIntent(order.attempt))
        }
        _ => None,
    }
}

/// A call goes on; what the provider says, should it be asked for an intent.
pub fn go_on(sale: &Sale, state: &mut State, call: Pay, reply: Reply) -> Option<Step> {
    let key = call.key;
    match call.step {
        Step::CancelDeclined(order) => {
            if sale.keeps(Guard::CancelDeclined) && !cancel(state, key, order.attempt) {
                return Some(Step::Settle(order.attempt, order));
            }
            Some(Step::BeginPayment(order))
        }
        Step::BeginPayment(order) => {
            let begun = state.ledger.begin_payment(key, 0, order);
            begun.then_some(Step::CreateIntent(order.attempt + 1))
        }
        Step::CreateIntent(attempt) => Some(if create_intent(state, key, attempt, reply) {
            Step::BindIntent(attempt)
        } else {
            Step::EndUnbound(attempt)
        }),
        Step::BindIntent(attempt) => {
            bind(sale, state, key, attempt);
            None
        }
        Step::EndUnbound(attempt) => {
            state.ledger.end_unbound(sale, key, 0, attempt);
            None
        }
        Step::Settle(attempt, order) => {
            let read = settle(sale, state, key, attempt, order);
            if read.is_none() {
                state.intent(key, attempt).succeeded = false;
            }
            read.map(|order| Step::Settle(attempt, order))
        }
    }
}

/// Whether the provider answers with an intent.
fn create_intent(state: &mut State, key: Key, attempt: u8, reply: Reply) -> bool {
    let intent = state.intent(key, attempt);
    intent.spent |= reply == Reply::Spent;
    if intent.status == IntentStatus::None && reply != Reply::Refused {
        intent.status = IntentStatus::Open;
    }
    reply == Reply::Intent && !intent.spent
}

fn bind(sale: &Sale, state: &mut State, key: Key, attempt: u8) {
    if state.ledger.bind_intent(sale, key, 0, attempt) {
        state.intent(key, attempt).shown = true;
    }
}

/// Whether it holds no money and never will.
fn cancel(state: &mut State, key: Key, attempt: u8) -> bool {
    let intent = state.intent(key, attempt);
    if intent.status == IntentStatus::Captured {
        return false;
    }
    intent.status = IntentStatus::Cancelled;
    true
}

/// The sweeper closes the intent of an order that is being paid, or was declined.
pub fn close_intent(
    sale: &Sale,
    state: &mut State,
    key: Key,
    order: Order,
    reply: Reply,
) -> sweeper::Step {
    if !sale.keeps(Guard::CloseIntent) {
        return sweeper::Step::Release(order);
    }
    if !order.intent && !create_intent(state, key, order.attempt, reply) {
        return sweeper::Step::EndUnbound(order.attempt);
    }
    if !cancel(state, key, order.attempt) {
        return sweeper::Step::Settle(order.attempt, order);
    }
    sweeper::Step::Release(order)
}

/// Decides where a capture belongs. The order as it is now, if it changed since
/// it was read.
pub fn settle(
    sale: &Sale,
    state: &mut State,
    key: Key,
    attempt: u8,
    order: Order,
) -> Option<Order> {
    let own = order.intent && order.attempt == attempt;
    let decided = match order.status {
        Status::Paid if own => true,
        Status::PendingPayment | Status::Paying if own => state.ledger.pay(sale, key, 0, attempt),
        Status::Paying if !order.intent => {
            if create_intent(state, key, order.attempt, Reply::Intent) {
                bind(sale, state, key, order.attempt);
            } else {
                state.ledger.end_unbound(sale, key, 0, order.attempt);
            }
            false
        }
        _ => owe_refund(sale, state, key, attempt, order),
    };
    if decided {
        return None;
    }
    state.ledger.order(key, 0)
}

/// Whether the refund is owed, now or before.
fn owe_refund(sale: &Sale, state: &mut State, key: Key, attempt: u8, read: Order) -> bool {
    let same = state.ledger.order(key, 0) == Some(read) || !sale.keeps(Guard::RefundStatus);
    let intent = state.intent(key, attempt);
    if intent.refund == Refund::None && same {
        intent.refund = Refund::Owed;
    }
    intent.refund != Refund::None
}

/// Asks the provider for the money back, under the intent's own key.
pub fn refund(sale: &Sale, state: &mut State, key: Key, attempt: u8) -> Option<()> {
    let most = if sale.keeps(Guard::RefundKey) { 1 } else { 2 };
    let intent = state.intent(key, attempt);
    (intent.refund == Refund::Owed && intent.given_back < most).then(|| intent.given_back += 1)
}

/// Notes that the provider did.
pub fn refunded(state: &mut State, key: Key, attempt: u8) -> Option<()> {
    let intent = state.intent(key, attempt);
    let given = intent.refund == Refund::Owed && intent.given_back > 0;
    given.then(|| intent.refund = Refund::Refunded)
}
