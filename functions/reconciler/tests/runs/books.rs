//! What is wrong in the ledger is named, and left as it is.

use domain::{BucketId, OrderStatus};
use ledger::payments::{Refund, RefundReason};
use ledger::{Transaction, key};
use reconcile::report::{Done, Kind};
use testing::{World, gates};

use crate::{MINUTE, SECOND, claim, found, ordered, paid, run};

/// Writes what no function writes.
async fn write(world: &World, writes: &Transaction) {
    world
        .ledger
        .table()
        .write_or_conflict(writes)
        .await
        .unwrap();
}

/// A sale with an order of each kind, in good order.
async fn good() -> World {
    let world = World::open(&[10, 10]).await;
    ordered(&world, 0, "held").await;
    let order = paid(&world, 0, "paid").await;
    let tag = &world.address(0).tag;
    world.gate.settle(tag, &order.claim).await.unwrap();
    world
}

fn person(kinds: &[Kind]) -> Vec<(Kind, Done)> {
    kinds
        .iter()
        .map(|kind| (*kind, Done::NeedsPerson))
        .collect()
}

#[tokio::test]
async fn sums_that_are_wrong_are_named_and_the_ledger_is_left_alone() {
    for (change, kinds) in [
        (
            "ADD allotted :n",
            &[Kind::AllottedWrong, Kind::SpareWrong][..],
        ),
        (
            "ADD allotted :n, #capacity :n",
            &[Kind::AllottedWrong, Kind::CapacityWrong],
        ),
        // Consistent in itself: only the sale's units say otherwise. The gate
        // follows the ledger.
        (
            "ADD spare :n, #capacity :n",
            &[Kind::GateLow, Kind::CapacityWrong],
        ),
    ] {
        let world = good().await;
        assert_eq!(found(&run(&world, SECOND).await), [], "before");
        let row = key::bucket(&world.sale, BucketId(0));
        let mut writes = Transaction::new();
        let part = writes.update(&row, change).number(":n", 1);
        if change.contains("#capacity") {
            part.name("#capacity", "capacity");
        }
        write(&world, &writes).await;
        let before = world.ledger.bucket(&world.sale, BucketId(0)).await.unwrap();
        let report = run(&world, SECOND).await;
        let mut named: Vec<_> = found(&report).into_iter().map(|(kind, _)| kind).collect();
        named.sort_unstable();
        let mut expected = kinds.to_vec();
        expected.sort_unstable();
        assert_eq!(named, expected, "{change}");
        assert!(report.needs_person() > 0, "{change}");
        let after = world.ledger.bucket(&world.sale, BucketId(0)).await.unwrap();
        assert_eq!(after, before);
    }
}

#[tokio::test]
async fn a_customers_row_that_is_wrong_is_named() {
    let world = good().await;
    let row = key::limit(&world.sale, &"held".parse().unwrap());
    let mut writes = Transaction::new();
    let part = writes.update(&row, "ADD #units :n");
    part.name("#units", "units").number(":n", -1);
    write(&world, &writes).await;
    let report = run(&world, SECOND).await;
    assert_eq!(found(&report), person(&[Kind::CustomerWrong]));
    let one = &report.mismatches[0];
    assert_eq!((one.expected, one.found), (1, 0));
    // By the claim, not by who they are.
    let claim = world.claim_id(0, "held").to_string();
    assert_eq!(one.about, Some(claim));

    let mut writes = Transaction::new();
    let part = writes.update(&row, "ADD #units :n DELETE claims :gone");
    let digest = world.claim_id(0, "held").digest().to_owned();
    let part = part.name("#units", "units").number(":n", 1);
    part.one_of_set(":gone", digest);
    write(&world, &writes).await;
    let report = run(&world, SECOND).await;
    assert_eq!(found(&report), person(&[Kind::CustomerLacksClaim]));
}

#[tokio::test]
async fn an_order_that_nobody_ends_is_named() {
    let world = good().await;
    assert_eq!(found(&run(&world, MINUTE * 10).await), []);
    let report = run(&world, MINUTE * 12).await;
    assert_eq!(found(&report), person(&[Kind::OrderOverdue]));
}

#[tokio::test]
async fn claims_that_are_nowhere_are_named() {
    let world = good().await;
    let hold = claim(&world, 1, "lost").await;
    // Due and without an order: it is the sweeper's, until it is long over.
    assert_eq!(found(&run(&world, SECOND).await), []);
    let late = run(&world, MINUTE * 12).await;
    let buried = (Kind::ClaimNotBuried, Done::NeedsPerson);
    assert!(found(&late).contains(&buried), "{late:?}");
    // Neither due nor ordered: its unit is in no count.
    let tag = &world.address(1).tag;
    world.gate.settle(tag, &hold.claim).await.unwrap();
    let report = run(&world, MINUTE * 12 + SECOND).await;
    let lost = (Kind::ClaimLost, Done::NeedsPerson);
    assert!(found(&report).contains(&lost), "{report:?}");
}

#[tokio::test]
async fn one_key_with_orders_in_two_buckets_is_named() {
    let world = good().await;
    let first = ordered(&world, 0, "twice").await;
    let second = domain::Order {
        claim: first.claim.in_bucket(BucketId(1)),
        ..first
    };
    let mut writes = Transaction::new();
    writes.put(&key::order(&second.claim), &second).unwrap();
    write(&world, &writes).await;
    let report = run(&world, SECOND).await;
    let mut kinds: Vec<_> = found(&report).into_iter().map(|(kind, _)| kind).collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            Kind::AllottedWrong,
            Kind::OrderTwice,
            Kind::CustomerWrong,
            Kind::CustomerOver
        ]
    );
}

#[tokio::test]
async fn a_paid_order_without_a_capture_is_named() {
    let world = good().await;
    let order = ordered(&world, 1, "never-paid").await;
    let tag = &world.address(1).tag;
    world.gate.settle(tag, &order.claim).await.unwrap();
    let row = key::order(&order.claim);
    let mut writes = Transaction::new();
    let part = writes.update(&row, "SET #status = :paid");
    let paid = OrderStatus::Paid.name();
    part.name("#status", "status").text(":paid", paid);
    write(&world, &writes).await;
    let report = run(&world, SECOND).await;
    assert_eq!(found(&report), person(&[Kind::PaidWithoutCapture]));
}

#[tokio::test]
async fn a_refund_that_is_owed_for_too_long_or_of_what_paid_is_named() {
    let world = good().await;
    let order = world.find(&world.claim_id(0, "paid")).await.unwrap();
    let intent = order.intent.clone().unwrap();
    let refund = Refund::owed(
        &order.claim,
        &intent,
        order.money,
        RefundReason::Late,
        world.now(),
    );
    let mut writes = Transaction::new();
    let row = key::refund(&order.claim, &intent);
    writes.put(&row, &refund).unwrap();
    write(&world, &writes).await;
    let report = run(&world, SECOND).await;
    assert_eq!(found(&report), person(&[Kind::RefundWrong]));
    let report = run(&world, MINUTE * 10 + SECOND).await;
    let overdue = (Kind::RefundOverdue, Done::NeedsPerson);
    assert!(found(&report).contains(&overdue), "{report:?}");
}

/// Orders are written, given back and paid for while the sale is read again
/// and again: nothing of that is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_moves_is_not_accused() {
    let world = World::new(gates::shared(), &[60, 60], serde_json::json!({})).await;
    let buyers = async {
        for n in 0..60u16 {
            let shopper = format!("u_{n}");
            match n % 3 {
                0 => drop(crate::given_back(&world, n % 2, &shopper).await),
                1 => drop(ordered(&world, n % 2, &shopper).await),
                _ => drop(paid(&world, n % 2, &shopper).await),
            }
        }
    };
    tokio::pin!(buyers);
    let mut done = false;
    while !done {
        let report = tokio::select! {
            () = &mut buyers => {
                done = true;
                run(&world, SECOND).await
            }
            report = run(&world, SECOND) => report,
        };
        assert_eq!(report.needs_person(), 0, "{report:#?}");
    }
    let counts = run(&world, MINUTE).await.counts;
    assert_eq!((counts.held, counts.paid), (20, 20));
}
