//! Claims become orders: each once, within the limit and the cap.

use domain::Order;
use domain::OrderStatus;
use domain::order::VoidReason;
use ledger::Ledger;
use ledger::orders::Outcome;
use testing::{Bucket, Point, stopped_at};

use crate::shelf::Shelf;

const REFUSED_CAP: Outcome = Outcome::Refused(VoidReason::Cap);
const REFUSED_LIMIT: Outcome = Outcome::Refused(VoidReason::Limit);

fn shoppers(shelf: &Shelf, range: std::ops::Range<u32>) -> Vec<Order> {
    range.map(|n| shelf.first(&format!("u_{n}"))).collect()
}

#[tokio::test]
async fn ten_orders_are_one_transaction() {
    let shelf = Shelf::new(10).await;
    let orders = shoppers(&shelf, 0..10);
    // With a second request it would have been stopped there.
    let done = stopped_at(
        &shelf.environment,
        Point::BeforeRequest(2),
        async |environment| {
            let Bucket { sale, id, .. } = &shelf.bucket;
            let ledger = Ledger::connect(&environment).unwrap();
            ledger
                .create_orders(sale, *id, 1, 1, &orders)
                .await
                .unwrap()
        },
    );
    assert_eq!(done.await.unwrap(), vec![Outcome::Created; 10]);
    assert_eq!(shelf.row().await.allotted, 10);
    assert_eq!(shelf.orders().await.len(), 10);
}

#[tokio::test]
async fn the_same_claim_again_is_the_order_that_exists() {
    let shelf = Shelf::new(10).await;
    let orders = shoppers(&shelf, 0..3);
    shelf.create(1, &orders).await;
    for again in shelf.create(1, &orders).await {
        assert!(matches!(again, Outcome::Existing(_)), "{again:?}");
    }
    // New ones beside it are written all the same.
    let outcomes = shelf.create(1, &shoppers(&shelf, 2..5)).await;
    assert!(matches!(outcomes[0], Outcome::Existing(_)));
    assert_eq!(outcomes[1..], [Outcome::Created, Outcome::Created]);
    assert_eq!(shelf.row().await.allotted, 5);
    assert_eq!(shelf.units_of("u_2").await, 1);
}

#[tokio::test]
async fn a_second_claim_of_a_customer_is_refused() {
    let shelf = Shelf::new(10).await;
    shelf.create(1, &[shelf.first("u")]).await;
    let outcomes = shelf
        .create(1, &[shelf.another("u", "key-0002"), shelf.first("v")])
        .await;
    assert_eq!(outcomes, [REFUSED_LIMIT, Outcome::Created]);
    assert_eq!(shelf.row().await.allotted, 2);
    assert_eq!(shelf.units_of("u").await, 1);
}

/// One key is one order, whatever the gates of two buckets said.
#[tokio::test]
async fn a_key_that_was_answered_by_two_buckets_is_one_order() {
    let shelf = Shelf::new(10).await;
    let order = shelf.first("u");
    assert_eq!(shelf.create(5, &[order.clone()]).await, [Outcome::Created]);
    let elsewhere = domain::BucketId(1);
    let (sale, row) = (&shelf.bucket.sale, ledger::orders::Bucket::new(10, 1));
    shelf
        .ledger
        .put_bucket(sale, elsewhere, &row)
        .await
        .unwrap();
    let twin = [Order {
        claim: order.claim.in_bucket(elsewhere),
        ..order
    }];
    for _ in 0..2 {
        let outcome = shelf.ledger.create_orders(sale, elsewhere, 1, 5, &twin);
        let refused = Outcome::Refused(VoidReason::Repeated);
        assert_eq!(outcome.await.unwrap(), [refused]);
    }
    assert_eq!(shelf.units_of("u").await, 1);
    // Another key is another order.
    let other = shelf.another("u", "key-0002");
    assert_eq!(shelf.create(5, &[other]).await, [Outcome::Created]);
}

#[tokio::test]
async fn two_claims_of_one_customer_fit_in_a_batch_if_the_limit_says_so() {
    for (limit, second) in [(2, Outcome::Created), (1, REFUSED_LIMIT)] {
        let shelf = Shelf::new(10).await;
        let pair = [shelf.first("u"), shelf.another("u", "key-0002")];
        let outcomes = shelf.create(limit, &pair).await;
        assert_eq!(outcomes, [Outcome::Created, second]);
        assert_eq!(shelf.row().await.allotted, limit);
        assert_eq!(shelf.units_of("u").await, i64::from(limit));
    }
    let shelf = Shelf::new(10).await;
    let two = Order {
        quantity: 2,
        ..shelf.first("u")
    };
    let outcomes = shelf
        .create(2, &[two, shelf.another("u", "key-0002")])
        .await;
    assert_eq!(outcomes, [Outcome::Created, REFUSED_LIMIT]);
}

#[tokio::test]
async fn beyond_the_cap_the_first_are_created_and_the_rest_refused() {
    let shelf = Shelf::new(4).await;
    let outcomes = shelf.create(1, &shoppers(&shelf, 0..10)).await;
    assert_eq!(outcomes[..4], [const { Outcome::Created }; 4]);
    assert_eq!(outcomes[4..], [REFUSED_CAP; 6]);
    assert_eq!(shelf.row().await.allotted, 4);
    assert_eq!(shelf.orders().await.len(), 4);
    // A refusal takes nothing from its customer.
    assert_eq!(shelf.units_of("u_9").await, 0);

    let full = shelf.create(1, &shoppers(&shelf, 10..12)).await;
    assert_eq!(full, [REFUSED_CAP, REFUSED_CAP]);
    assert_eq!(shelf.row().await.allotted, 4);
}

#[tokio::test]
async fn a_smaller_claim_takes_the_last_unit() {
    let shelf = Shelf::new(2).await;
    let of = |shopper: &str, quantity| Order {
        quantity,
        ..shelf.first(shopper)
    };
    let outcomes = shelf.create(2, &[of("a", 1), of("b", 2), of("c", 1)]).await;
    assert_eq!(outcomes, [Outcome::Created, REFUSED_CAP, Outcome::Created]);
    assert_eq!(shelf.row().await.spare, 0);
}

#[tokio::test]
async fn duplicates_second_claims_and_the_cap_in_one_batch() {
    let shelf = Shelf::new(4).await;
    shelf.create(1, &shoppers(&shelf, 0..2)).await;
    let outcomes = shelf
        .create(
            1,
            &[
                shelf.first("u_0"),
                shelf.another("u_1", "key-0002"),
                shelf.first("a"),
                shelf.first("a"),
                shelf.first("b"),
                shelf.first("c"),
                shelf.another("b", "key-0003"),
            ],
        )
        .await;
    assert!(matches!(outcomes[0], Outcome::Existing(_)), "{outcomes:?}");
    assert_eq!(outcomes[1..3], [REFUSED_LIMIT, Outcome::Created]);
    assert!(matches!(outcomes[3], Outcome::Existing(_)), "{outcomes:?}");
    assert_eq!(
        outcomes[4..],
        [Outcome::Created, REFUSED_CAP, REFUSED_LIMIT]
    );
    assert_eq!(shelf.row().await.allotted, 4);
}

#[tokio::test]
async fn an_answer_that_is_lost_changes_nothing() {
    for request in 1..=4 {
        let shelf = Shelf::new(3).await;
        let orders = shoppers(&shelf, 0..5);
        let stopped = stopped_at(
            &shelf.environment,
            Point::AfterRequest(request),
            async |environment| {
                let Bucket { sale, id, .. } = &shelf.bucket;
                let ledger = Ledger::connect(&environment).unwrap();
                ledger
                    .create_orders(sale, *id, 1, 1, &orders)
                    .await
                    .unwrap()
            },
        );
        let stopped = stopped.await;
        let outcomes = shelf.create(1, &orders).await;
        for outcome in &outcomes[..3] {
            assert!(
                matches!(outcome, Outcome::Created | Outcome::Existing(_)),
                "{request}: {outcome:?}, stopped: {stopped:?}"
            );
        }
        assert_eq!(outcomes[3..], [REFUSED_CAP, REFUSED_CAP]);
        assert_eq!(shelf.row().await.allotted, 3);
        assert_eq!(shelf.units_of("u_0").await, 1);
    }
}

#[tokio::test]
async fn a_claim_that_was_voided_stays_voided() {
    let shelf = Shelf::new(3).await;
    let order = shelf.first("u");
    let voided = shelf
        .ledger
        .void(&order, VoidReason::NoOrder, shelf.now())
        .await
        .unwrap();
    assert_eq!(voided.status, OrderStatus::Voided);
    let outcomes = shelf.create(1, std::slice::from_ref(&order)).await;
    assert_eq!(outcomes, [Outcome::Existing(Box::new(voided.clone()))]);
    assert_eq!(shelf.row().await.allotted, 0);
    // The first reason stands.
    let again = shelf.ledger.void(&order, VoidReason::Cap, shelf.now());
    assert_eq!(again.await.unwrap(), voided);
}

#[tokio::test]
async fn an_order_that_exists_is_not_voided() {
    let shelf = Shelf::new(3).await;
    let order = shelf.first("u");
    shelf.create(1, std::slice::from_ref(&order)).await;
    let stands = shelf.ledger.void(&order, VoidReason::NoOrder, shelf.now());
    assert_eq!(stands.await.unwrap(), order);
    assert_eq!(shelf.row().await.allotted, 1);
}
