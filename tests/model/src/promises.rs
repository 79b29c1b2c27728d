//! What must hold: in every state, and where nothing more comes by itself.

use stateright::{Model, Property};

use crate::ledger::{Status, VoidReason};
use crate::payment::{IntentStatus, Refund};
use crate::sale::{Action, Sale};
use crate::shopper::Answer;
use crate::state::State;
use crate::sweeper;

/// P1: live and paid orders never exceed the units.
pub const NEVER_OVERSELL: &str = "P1 never oversell";
/// P2: at the end every unit is paid, or can be claimed.
pub const STRAND_NOTHING: &str = "P2 strand nothing";
/// P3: a customer holds at most the limit, and a key has one order.
pub const LIMIT: &str = "P3 one customer, one key";
/// A 201 is not taken back while its deadline lies ahead.
pub const A_YES_STANDS: &str = "P5 a yes stands";
/// P7: a capture pays its order or goes back, once.
pub const MONEY: &str = "P7 money";
/// Who paid while the hold lived has the unit.
pub const PAID_IN_TIME: &str = "P7 paid in time";
/// A customer is not charged twice for an order.
pub const CHARGED_ONCE: &str = "P7 charged once";
/// An open gate never shows more than the ledger lets it give out.
pub const CONSERVED: &str = "units are conserved";
/// A frozen bucket opens as soon as everybody has done their work.
pub const RECOVERS: &str = "a frozen bucket waits for no deadline";
/// An open bucket is frozen by the loss of its primary, by nothing else.
pub const STAYS_OPEN: &str = "an open bucket stays open";
/// Without a failover the gates alone keep the limit: no order is refused for
/// it, and a unit that was taken away from home has its mark there.
pub const GATES_KNOW: &str = "the gates keep the limit";

/// All of them.
pub fn all() -> Vec<Property<Sale>> {
    vec![
        Property::always(NEVER_OVERSELL, never_oversell),
        Property::always(STRAND_NOTHING, strand_nothing),
        Property::always(LIMIT, limit),
        Property::always(A_YES_STANDS, a_yes_stands),
        Property::always(MONEY, money),
        Property::always(PAID_IN_TIME, paid_in_time),
        Property::always(CHARGED_ONCE, charged_once),
        Property::always(CONSERVED, conserved),
        Property::always(RECOVERS, recovers),
        Property::always(STAYS_OPEN, stays_open),
        Property::always(GATES_KNOW, gates_know),
    ]
}

fn never_oversell(sale: &Sale, state: &State) -> bool {
    let buckets = (0..sale.buckets as u8).map(|at| (state.ledger.buckets[usize::from(at)], at));
    let within = buckets.clone().all(|(row, at)| {
        let held = state.ledger.held(at);
        held <= row.capacity && row.spare == row.capacity - held
    });
    let capacity: i8 = buckets.map(|(row, _)| row.capacity).sum();
    within && capacity == sale.units.iter().sum::<u8>() as i8
}

fn limit(sale: &Sale, state: &State) -> bool {
    let live = |key: usize| {
        let of = state.ledger.orders[key].iter().flatten();
        of.filter(|order| order.status.holds_units()).count()
    };
    let one = sale.keys().all(|key| live(key) <= 1);
    one && sale.keys().all(|key| {
        let same = sale
            .keys()
            .filter(|other| sale.shopper[*other] == sale.shopper[key]);
        same.map(live).sum::<usize>() <= usize::from(sale.limit)
    })
}

fn a_yes_stands(sale: &Sale, state: &State) -> bool {
    sale.keys().all(|key| {
        let Answer::Created(at) = state.answers[key] else {
            return true;
        };
        let order = state.ledger.order(key, at);
        !order.is_some_and(|order| {
            use VoidReason::{Cap, Forgotten};
            matches!(order.status, Status::Voided(Cap | Forgotten))
        })
    })
}

fn gates_know(sale: &Sale, state: &State) -> bool {
    sale.failovers > 0
        || sale.ledger_only
        || sale.keys().all(|key| {
            use VoidReason::{Limit, Repeated};
            let mut rows = state.ledger.orders[key].iter().flatten();
            let refused = |status| matches!(status, Status::Voided(Limit | Repeated));
            !rows.any(|order| refused(order.status)) && is_marked(sale, state, key)
        })
}

/// Whether a hold away from home, that was not voided, is known at home.
fn is_marked(sale: &Sale, state: &State, key: usize) -> bool {
    let home = sale.home[key];
    let away = 1 - home;
    let stock = |at: u8| &state.gates[usize::from(at)].primary.stock;
    let taken = stock(away).records[key].filter(|_| stock(away).due[key]);
    let order = state.ledger.order(key, away);
    let voided = order.is_some_and(|order| matches!(order.status, Status::Voided(_)));
    let mark = stock(home).records[key].filter(|_| stock(home).counted[key]);
    taken.is_none_or(|hold| hold.at != away) || voided || mark.is_some()
}

/// A failover in the middle of a recovery may let a script be loaded where its
/// hash is not: the second one, or the first one if a life was closed before. A
/// closed life is recovered though its gate is open: nobody believes it.
fn stays_open(sale: &Sale, state: &State) -> bool {
    sale.failovers > u8::from(!sale.ledger_only)
        || (0..sale.buckets).all(|at| {
            let (node, row) = (&state.gates[at].primary, &state.ledger.buckets[at]);
            let published = row.published;
            let loaded = node.scripts & (1 << published) != 0;
            !loaded || row.closed >= published || node.stock.epoch == published
        })
}

fn conserved(sale: &Sale, state: &State) -> bool {
    (0..sale.buckets as u8).all(|at| {
        let gate = &state.gates[usize::from(at)];
        let row = &state.ledger.buckets[usize::from(at)];
        let open = gate.serves(sale, row.published) && row.closed < row.published;
        !open || sweeper::gap(state, at, &gate.primary.stock) <= 0
    })
}

fn money(sale: &Sale, state: &State) -> bool {
    sale.keys().all(|key| {
        let order = state.ledger.order(key, 0);
        let intents = state.intents[key].iter().zip(1u8..);
        let mut captured = intents.clone().map(|(intent, attempt)| {
            let pays = order.is_some_and(|order| {
                order.status == Status::Paid && order.intent && order.attempt == attempt
            });
            (*intent, pays)
        });
        captured.all(|(intent, pays)| {
            let captured = intent.status == IntentStatus::Captured;
            let goes_back = intent.refund != Refund::None;
            let back = intent.refund == Refund::Refunded && intent.given_back == 1;
            intent.given_back <= 1
                && !(pays && goes_back)
                && (captured || !pays && !goes_back)
                && (!captured || pays || back || !at_rest(sale, state))
        })
    })
}

fn paid_in_time(sale: &Sale, state: &State) -> bool {
    let mut intents = sale.keys().flat_map(|key| state.intents[key]);
    !intents.any(|intent| intent.in_time && intent.refund != Refund::None)
}

fn charged_once(sale: &Sale, state: &State) -> bool {
    let captured = |key: usize| {
        let intents = state.intents[key].iter();
        intents
            .filter(|intent| intent.status == IntentStatus::Captured)
            .count()
    };
    sale.keys().all(|key| captured(key) <= 1)
}

/// Nothing more comes by itself.
fn at_rest(sale: &Sale, state: &State) -> bool {
    nothing_more(sale, state, |_| true)
}

fn recovers(sale: &Sale, state: &State) -> bool {
    let open = (0..sale.buckets).all(|at| {
        let row = &state.ledger.buckets[at];
        state.gates[at].serves(sale, row.published) && row.closed < row.published
    });
    let is_work = |action: &Action| !matches!(action, Action::PayBy(_) | Action::PayUntil(_));
    open || !nothing_more(sale, state, is_work)
}

fn nothing_more(sale: &Sale, state: &State, of: impl Fn(&Action) -> bool) -> bool {
    let mut actions = Vec::new();
    sale.actions(state, &mut actions);
    actions.retain(|action| action.is_progress() && of(action));
    !actions
        .into_iter()
        .any(|action| sale.next_state(state, action).is_some())
}

/// A worker that slept, a move that stopped or a primary that came back may leave
/// a gate with too few: where a sale has no comparison, that is what it would see
/// and raise.
fn strand_nothing(sale: &Sale, state: &State) -> bool {
    let mends = !sale.compares && (sale.overlaps + sale.moves > 0 || sale.demoted_keeps_scripts);
    let sold_or_free = (0..sale.buckets as u8).all(|at| {
        let (gate, row) = (
            &state.gates[usize::from(at)],
            &state.ledger.buckets[usize::from(at)],
        );
        let stock = &gate.primary.stock;
        let paid = state.ledger.held(at);
        gate.serves(sale, row.published)
            && row.epoch == row.published
            && row.closed < row.published
            && (stock.left == row.capacity - paid || mends && stock.left < row.capacity - paid)
            && stock.due == [false; crate::sale::KEYS]
            && state.groups[usize::from(at)].is_empty()
    });
    let mut rows = state.ledger.orders.iter().flatten().flatten();
    let ended = rows.all(|order| !matches!(order.status, Status::PendingPayment | Status::Paying));
    (sold_or_free && ended) || !at_rest(sale, state)
}
