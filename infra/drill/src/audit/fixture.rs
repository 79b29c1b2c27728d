//! A small sale whose report keeps every promise, for tests to break.
//!
//! Four units in two buckets; opening at 0 ms, holds end after 10 s. Bucket 0
//! sold one unit and has one left. In bucket 1 one unit was paid, one lapsed,
//! was paid for too late and refunded, and was then sold in a second round.

use domain::order::{OrderStatus, RefundStatus};
use domain::{BucketId, ClaimId, Money};
use jiff::Timestamp;

use super::{Ledger, Promise, Told, audit};
use crate::wire::{
    BucketReport, BucketSummary, OrderLine, PaymentLine, PaymentStatus, RefundLine, Round, Summary,
};

/// So many milliseconds after the opening.
pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_794_378_600_000 + ms).unwrap()
}

pub(super) fn claim(bucket: u16, n: u32) -> ClaimId {
    ClaimId::derive(
        &"s".parse().unwrap(),
        BucketId(bucket),
        &format!("shopper-{bucket}-{n}").parse().unwrap(),
        &"attempt-1".parse().unwrap(),
    )
}

fn price() -> Money {
    Told::default().price
}

fn order(bucket: u16, n: u32, status: OrderStatus, claimed_ms: i64) -> OrderLine {
    let claim = claim(bucket, n);
    OrderLine {
        order_id: claim.order(),
        claim_id: claim,
        shopper: format!("shopper-{bucket}-{n}"),
        quantity: 1,
        money: price(),
        status,
        pay_by: Some(at(claimed_ms + 10_000)),
        pay_until: None,
        claimed_at: Some(at(claimed_ms)),
        changed_at: Some(at(claimed_ms + 3_000)),
        released_at: None,
        intent: None,
        void_reason: None,
    }
}

fn payment(bucket: u16, n: u32) -> PaymentLine {
    PaymentLine {
        intent: format!("pi_{bucket}_{n}").parse().unwrap(),
        order_id: claim(bucket, n).order(),
        money: price(),
        status: PaymentStatus::Succeeded,
        refunded: false,
        refund_amount: 0,
    }
}

/// The one that lapsed.
pub(super) fn expired(ledger: &mut Ledger) -> &mut OrderLine {
    ledger.buckets[1]
        .orders
        .iter_mut()
        .find(|order| order.status == OrderStatus::Expired)
        .unwrap()
}

/// The whole report, and what its shoppers were told.
pub(super) fn good() -> (Ledger, Told) {
    let bucket = |bucket, free, paid| BucketSummary {
        bucket,
        capacity: 2,
        allotted: paid,
        free,
        paid,
        ..BucketSummary::default()
    };
    let round = |round, ms, admitted: u32| Round {
        round,
        at: Some(at(ms)),
        admitted: admitted.into(),
        threshold: f64::from(admitted) / 20.0,
    };
    let mut lapsed = order(1, 1, OrderStatus::Expired, 0);
    lapsed.changed_at = Some(at(10_400));
    let mut late = payment(1, 1);
    (late.refunded, late.refund_amount) = (true, late.money.amount);
    let refund = RefundLine {
        intent: late.intent.clone(),
        money: late.money,
        status: RefundStatus::Refunded,
    };
    let ledger = Ledger {
        summary: Summary {
            units: 4,
            free: 1,
            paid: 3,
            buckets: vec![bucket(0, 1, 1), bucket(1, 0, 2)],
            rounds: vec![round(1, 0, 5), round(2, 10_900, 7)],
            ..Summary::default()
        },
        buckets: vec![
            BucketReport {
                bucket: 0,
                orders: vec![order(0, 0, OrderStatus::Paid, 0)],
                payments: vec![payment(0, 0)],
                refunds: vec![],
            },
            BucketReport {
                bucket: 1,
                orders: vec![
                    order(1, 0, OrderStatus::Paid, 0),
                    lapsed,
                    order(1, 2, OrderStatus::Paid, 11_500),
                ],
                payments: vec![payment(1, 0), payment(1, 2), late],
                refunds: vec![refund],
            },
        ],
    };
    let mut told = Told {
        units: 4,
        entrants: 20,
        tickets: (0..100).map(|n| (f64::from(n) + 0.5) / 100.0).collect(),
        served: vec![0.025, 0.075, 0.325],
        answered_ms: (1..=100).collect(),
        ..Told::default()
    };
    for order in ledger.orders() {
        told.promised(order.claim_id.clone(), Promise::Yes);
        if order.status == OrderStatus::Paid {
            told.paid.insert(order.order_id.clone());
        }
    }
    (ledger, told)
}

/// The change breaks this check and no other.
pub(super) fn breaks(name: &str, change: impl FnOnce(&mut Ledger, &mut Told)) {
    let (mut ledger, mut told) = good();
    change(&mut ledger, &mut told);
    let audit = audit(&ledger, &told);
    let broken: Vec<_> = audit.broken().map(|check| check.name).collect();
    assert_eq!(broken, [name], "{:#?}", audit.broken().collect::<Vec<_>>());
}

/// The change misses this figure, no other, and breaks no promise.
pub(super) fn misses(name: &str, change: impl FnOnce(&mut Told)) {
    let (ledger, mut told) = good();
    change(&mut told);
    let audit = audit(&ledger, &told);
    let missed: Vec<_> = audit.missed().map(|figure| figure.name).collect();
    assert_eq!(missed, [name], "{:#?}", audit.figures);
    assert!(audit.passed(), "{:#?}", audit.broken().collect::<Vec<_>>());
}
