//! Each guard is taken out in turn, and what it guards must break.

use model::guard::Guard;
use model::promises::{
    A_YES_STANDS, CHARGED_ONCE, CONSERVED, GATES_KNOW, LIMIT, MONEY, NEVER_OVERSELL, PAID_IN_TIME,
    RECOVERS, STAYS_OPEN, STRAND_NOTHING,
};
use model::sale::Sale;
use model::{small, trace};
use stateright::{Checker, Model};

/// The shortest way to where a promise is broken without a guard.
fn way(sale: Sale) -> Option<Vec<String>> {
    let checker = sale.clone().checker().threads(1).spawn_bfs().join();
    let found = checker.discoveries().into_values().next();
    found.map(|path| trace::lines(&sale, path))
}

fn breaks(sale: Sale, guard: Guard, promise: &'static str) {
    let name = sale.name;
    let way = way(Sale {
        without: vec![guard],
        promise: Some(promise),
        ..sale
    });
    let way = way.unwrap_or_else(|| panic!("{guard:?} guards nothing of {promise} in {name}"));
    println!(
        "without {guard:?}, {name}, {promise}:\n  {}",
        way.join("\n  ")
    );
}

#[test]
fn orders() {
    breaks(small::demoted(), Guard::Cap, NEVER_OVERSELL);
    breaks(small::frozen_home_of_two_keys(), Guard::Limit, LIMIT);
    breaks(small::frozen_home(), Guard::OneOrderAKey, LIMIT);
    breaks(small::plain(), Guard::NewOrder, CONSERVED);
    breaks(small::failover(), Guard::OrderEpoch, CONSERVED);
}

#[test]
fn holds() {
    breaks(small::money(), Guard::ReleaseStatus, MONEY);
    breaks(small::plain(), Guard::Zrem, CONSERVED);
    breaks(small::plain(), Guard::Tombstone, CONSERVED);
    breaks(small::marks(), Guard::Turn, GATES_KNOW);
}

#[test]
fn lives() {
    breaks(small::failover(), Guard::Barrier, A_YES_STANDS);
    breaks(small::slept(), Guard::BeginPublished, A_YES_STANDS);
    breaks(
        small::slept_and_stopped(),
        Guard::PublishEpoch,
        STRAND_NOTHING,
    );
    breaks(small::slept(), Guard::LoadEpoch, STAYS_OPEN);
    breaks(small::failovers(), Guard::HashEpoch, CONSERVED);
    breaks(small::failover(), Guard::LookAfterSend, A_YES_STANDS);
    breaks(small::failover(), Guard::LookAtLife, A_YES_STANDS);
    breaks(small::failovers(), Guard::Requeue, RECOVERS);
    breaks(small::stopped(), Guard::Requeue, RECOVERS);
}

#[test]
fn without_gates() {
    breaks(small::apart(), Guard::Cap, NEVER_OVERSELL);
    breaks(small::apart(), Guard::LookAtClosed, A_YES_STANDS);
    breaks(small::apart(), Guard::CloseFirst, A_YES_STANDS);
    breaks(small::apart(), Guard::RecoverClosed, RECOVERS);
    breaks(small::away_from_home(), Guard::OneOrderAKey, LIMIT);
}

#[test]
fn money() {
    breaks(small::captured_late(), Guard::PayStatus, NEVER_OVERSELL);
    breaks(small::money(), Guard::CloseIntent, PAID_IN_TIME);
    breaks(small::money(), Guard::CancelDeclined, CHARGED_ONCE);
    breaks(small::captured_late(), Guard::RefundKey, MONEY);
    breaks(small::unmade(), Guard::BindPaying, CHARGED_ONCE);
    breaks(small::unmade(), Guard::EndUnbound, PAID_IN_TIME);
}

/// Of a capture that is the order's to the unit, the decision never changes
/// between reading and writing: an intent captures only after its attempt was
/// the order's, and attempts only grow. The guard is for captures of another
/// amount, which the model does not have.
#[test]
fn a_refund_decided_for_an_older_order_is_right_here() {
    let sale = Sale {
        without: vec![Guard::RefundStatus],
        promise: Some(MONEY),
        ..small::captured_late()
    };
    assert_eq!(way(sale), None);
}

#[test]
fn moves() {
    breaks(small::moved(), Guard::MoveBegun, CONSERVED);
    breaks(small::moved_and_failed(), Guard::MoveEpoch, CONSERVED);
    breaks(small::moved(), Guard::PutSeen, CONSERVED);
}
