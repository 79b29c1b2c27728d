//! Claims that are taken while the gates are away.

use futures::future::join_all;
use jiff::SignedDuration;
use ledger::without_gates::{Confirming, Permit, Window};
use testing::Bucket;

use crate::shelf::Shelf;

const WINDOW: Window = Window {
    claims: 5,
    number: 1_000,
};

fn taken(shelf: &Shelf, shopper: &str) -> Confirming {
    let now = shelf.now();
    let order = shelf
        .bucket
        .unwritten(shopper, now, SignedDuration::from_mins(10));
    Confirming {
        claim: order.claim,
        quantity: 1,
        pay_by: order.pay_by,
        taken_at: now,
        epoch: 1,
    }
}

async fn permit(shelf: &Shelf, shopper: &str, window: Window) -> Permit {
    let Bucket { sale, id, .. } = &shelf.bucket;
    let taken = taken(shelf, shopper);
    let shopper = shopper.parse().unwrap();
    let permit = shelf
        .ledger
        .take_permit(sale, *id, window, &shopper, &taken, None);
    permit.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_lets_so_many_through_however_many_ask_at_once() {
    let shelf = Shelf::new(10).await;
    let shoppers: Vec<_> = (0..40).map(|n| format!("u_{n}")).collect();
    let permits = shoppers
        .iter()
        .map(|shopper| permit(&shelf, shopper, WINDOW));
    let permits = join_all(permits).await;
    let of = |what| permits.iter().filter(|permit| **permit == what).count();
    assert_eq!((of(Permit::Taken), of(Permit::Busy)), (5, 35));
    // Nobody who was not let through is noted.
    for (shopper, permit) in shoppers.iter().zip(&permits) {
        let (sale, shopper) = (&shelf.bucket.sale, shopper.parse().unwrap());
        let noted = shelf.ledger.confirming(sale, &shopper).await.unwrap();
        assert_eq!(noted.is_some(), *permit == Permit::Taken);
    }
    let next = Window {
        number: WINDOW.number + 1,
        ..WINDOW
    };
    assert_eq!(permit(&shelf, "later", next).await, Permit::Taken);
}

#[tokio::test]
async fn a_shopper_is_noted_once_and_a_repetition_takes_no_permit() {
    let shelf = Shelf::new(10).await;
    assert_eq!(permit(&shelf, "u", WINDOW).await, Permit::Taken);
    for _ in 0..10 {
        assert_eq!(permit(&shelf, "u", WINDOW).await, Permit::Other);
    }
    let others = ["a", "b", "c", "d", "e"].map(|shopper| permit(&shelf, shopper, WINDOW));
    let others = join_all(others).await;
    let taken = others.iter().filter(|permit| **permit == Permit::Taken);
    assert_eq!(taken.count(), 4);
}
