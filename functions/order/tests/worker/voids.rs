//! A yes that can't be kept is taken back, and the gate gets back what it
//! gave: no more, and once.

use std::convert::Infallible;

use domain::order::VoidReason;
use domain::{OrderStatus, Sale};
use gate::Hold;
use jiff::SignedDuration;
use order_function::OrderFunction;
use runtime::EventFunction;
use sweeper_function::SweeperFunction;
use testing::Point;

use crate::worker::{MINUTE, Worker, deliver, failed};

const PAST: SignedDuration = SignedDuration::from_secs(-1);

/// A message may come when its sale is over and settled, of a claim that no gate
/// knows. At whatever moment of its writing the sale is closed: while the order is
/// live, somebody looks after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_written_after_the_closing_is_looked_after() {
    let mut met = 0;
    for point in (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)]) {
        let worker = Worker::start(&[3]).await;
        let world = &worker.world;
        let (hold, messages, ended) = forgotten_at_the_end(&worker).await;
        let closes = async { world.ledger.close_sale(&ended).await.unwrap() };
        let writes = async |environment| {
            let function = OrderFunction::start(&environment).await.unwrap();
            deliver(&function, world, &messages).await
        };
        let (answer, closed) =
            testing::interrupted_at(&worker.environment, point, closes, writes).await;
        assert_eq!(answer, failed(&[]));
        is_looked_after(&worker, &hold, point).await;
        if closed.is_none() {
            break;
        }
        met += 1;
    }
    assert!(met >= 4, "{met}");
}

/// The same, and its worker is stopped: when the message comes again, the order is
/// there, and that its sale was closed must still be found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_worker_was_stopped_is_looked_after() {
    let mut met = 0;
    for point in (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)]) {
        let worker = Worker::start(&[3]).await;
        let (hold, messages, ended) = forgotten_at_the_end(&worker).await;
        assert!(worker.world.ledger.close_sale(&ended).await.unwrap());
        let writes = async |environment| {
            let function = OrderFunction::start(&environment).await.unwrap();
            deliver(&function, &worker.world, &messages).await
        };
        let stopped = testing::stopped_at(&worker.environment, point, writes).await;
        assert_eq!(worker.deliver(&messages).await, failed(&[]));
        is_looked_after(&worker, &hold, point).await;
        if stopped.is_some() {
            break;
        }
        met += 1;
    }
    assert!(met >= 4, "{met}");
}

/// A claim that its gate does not know any more, its message, and its sale, which has
/// just ended.
async fn forgotten_at_the_end(worker: &Worker) -> (Hold, Vec<String>, Sale) {
    let world = &worker.world;
    let (mut holds, messages) = worker.claims(0, 0..1, MINUTE).await;
    let hold = holds.remove(0);
    let settled = world.gate.settle(&world.address(0).tag, &hold.claim).await;
    settled.unwrap();
    let end = |sale: &mut Sale| {
        sale.end(world.now());
        Ok::<_, Infallible>(())
    };
    let ended = world.ledger.change_sale(&world.sale, end).await.unwrap();
    (hold, messages, ended.unwrap().unwrap())
}

async fn is_looked_after(worker: &Worker, hold: &Hold, point: Point) {
    let status = worker.order(&hold.claim).await.status;
    assert!(status.holds_units(), "{point:?}");
    let listed = worker.world.ledger.sales(true).await.unwrap();
    assert_eq!(
        listed,
        std::slice::from_ref(&worker.world.sale),
        "{point:?}"
    );
}

#[tokio::test]
async fn beyond_the_cap_claims_are_voided_and_no_unit_returns() {
    let worker = Worker::start(&[2]).await;
    // The gate has forgotten winners: it holds units that do not exist.
    let tag = worker.world.address(0).tag.clone();
    worker
        .world
        .gate
        .put(worker.world.address(0), 3)
        .await
        .unwrap();
    let (holds, messages) = worker.claims(0, 0..4, MINUTE).await;
    assert_eq!(worker.world.left(0).await, 1);
    for _ in 0..2 {
        assert_eq!(worker.deliver(&messages).await, failed(&[]));
        assert_eq!(worker.world.left(0).await, 1);
        assert_eq!(worker.world.allotted(0).await, 2);
    }
    for hold in &holds[2..] {
        let order = worker.order(&hold.claim).await;
        assert_eq!(order.status, OrderStatus::Voided);
        assert_eq!(order.void_reason, Some(VoidReason::Cap));
        assert_eq!(order.intent, None);
    }
    let pending = OrderStatus::PendingPayment;
    assert_eq!(worker.world.count(0, pending).await, 2);
    // Of the voided ones the gate has nothing left to end.
    assert_eq!(worker.world.gate.look(&tag).await.unwrap().due, 2);
}

#[tokio::test]
async fn a_second_claim_is_voided_and_its_unit_returns_once() {
    let worker = Worker::start(&[3, 3]).await;
    let (_, first) = worker.claims(0, 0..1, MINUTE).await;
    // The home was frozen for a moment: the same shopper in another bucket.
    let (second, messages) = worker.claims(1, 0..1, MINUTE).await;
    // One key is one digest; it is the customer's units that refuse it.
    worker.deliver(&first).await;
    assert_eq!(worker.world.left(1).await, 2);
    for _ in 0..3 {
        assert_eq!(worker.deliver(&messages).await, failed(&[]));
        assert_eq!(worker.world.left(1).await, 3);
    }
    let order = worker.order(&second[0].claim).await;
    assert_eq!(order.void_reason, Some(VoidReason::Repeated));
    assert_eq!(worker.world.left(0).await, 2);
    let allotted = (
        worker.world.allotted(0).await,
        worker.world.allotted(1).await,
    );
    assert_eq!(allotted, (1, 0));
}

#[tokio::test]
async fn a_message_after_its_deadline_is_voided_and_its_unit_returns() {
    let worker = Worker::start(&[3]).await;
    let (holds, messages) = worker.claims(0, 0..1, PAST).await;
    assert_eq!(worker.world.left(0).await, 2);
    worker.deliver(&messages).await;
    assert_eq!(worker.world.left(0).await, 3);
    // Neither the sweeper nor a repeat returns it again.
    sweep(&worker).await;
    worker.deliver(&messages).await;
    assert_eq!(worker.world.left(0).await, 3);
    assert_eq!(worker.world.allotted(0).await, 0);
    let order = worker.order(&holds[0].claim).await;
    assert_eq!(order.void_reason, Some(VoidReason::NoOrder));
}

#[tokio::test]
async fn a_message_after_its_burial_changes_nothing() {
    let worker = Worker::start(&[3]).await;
    let (holds, messages) = worker.claims(0, 0..1, PAST).await;
    sweep(&worker).await;
    assert_eq!(worker.world.left(0).await, 3);
    let buried = worker.order(&holds[0].claim).await;
    assert_eq!(buried.void_reason, Some(VoidReason::NoOrder));
    for _ in 0..2 {
        assert_eq!(worker.deliver(&messages).await, failed(&[]));
    }
    assert_eq!(worker.order(&holds[0].claim).await, buried);
    assert_eq!(worker.world.left(0).await, 3);
    assert_eq!(worker.world.allotted(0).await, 0);
}

#[tokio::test]
async fn a_late_message_profits_from_an_extended_deadline() {
    let worker = Worker::start(&[3]).await;
    let (holds, messages) = worker.claims(0, 0..1, PAST).await;
    let later = worker.world.now() + MINUTE;
    let extended = worker.world.ledger.change_sale(&worker.world.sale, |sale| {
        sale.pay_by_min = Some(later);
        Ok::<_, Infallible>(())
    });
    extended.await.unwrap().unwrap().unwrap();
    worker.deliver(&messages).await;
    let order = worker.order(&holds[0].claim).await;
    assert_eq!(order.status, OrderStatus::PendingPayment);
    assert_eq!(order.pay_by, later);
}

#[tokio::test]
async fn a_late_repeat_does_not_void_the_order_that_it_became() {
    let worker = Worker::start(&[3]).await;
    let (holds, messages) = worker
        .claims(0, 0..1, SignedDuration::from_millis(300))
        .await;
    worker.deliver(&messages).await;
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert_eq!(worker.deliver(&messages).await, failed(&[]));
    let order = worker.order(&holds[0].claim).await;
    assert_eq!(order.status, OrderStatus::PendingPayment);
    // Its end is the sweeper's.
    assert_eq!(worker.world.left(0).await, 2);
}

async fn sweep(worker: &Worker) {
    let sweeper = SweeperFunction::start(&worker.world.environment).await;
    sweeper.unwrap().sweep().await.unwrap();
}
