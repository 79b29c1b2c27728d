//! Deadlines that have passed: each ends once, whoever sweeps and whenever a
//! sweep was stopped.

use domain::order::VoidReason;
use domain::{BucketId, ClaimId, Order, OrderStatus};
use gate::{Ask, Decision, Release};
use ledger::orders::Outcome;
use runtime::EventFunction;
use sweeper_function::SweeperFunction;
use testing::{Point, World, interrupted_at};

use crate::{MINUTE, SECOND, keep_up, sweep, sweeper};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_holds_end_once_under_three_sweepers() {
    let world = World::open(&[60, 60]).await;
    for n in 0..100 {
        let pay_by = world.now() + MINUTE;
        let hold = world.claim(n % 2, &format!("u_{n}"), pay_by).await;
        world.order(&hold).await;
    }
    // Not one second early.
    sweep(&world, MINUTE - SECOND * 30).await;
    assert_eq!((world.left(0).await, world.left(1).await), (10, 10));

    let sweepers = [
        sweeper(&world, MINUTE * 2).await,
        sweeper(&world, MINUTE * 2).await,
        sweeper(&world, MINUTE * 2).await,
    ];
    let [a, b, c] = &sweepers;
    let swept = tokio::join!(a.sweep(), b.sweep(), c.sweep());
    assert!(swept.0.unwrap() && swept.1.unwrap() && swept.2.unwrap());
    // What one of them left to another is found by the next.
    sweep(&world, MINUTE * 2).await;
    for bucket in [0, 1] {
        assert_eq!(world.left(bucket).await, 60);
        assert_eq!(world.allotted(bucket).await, 0);
        assert_eq!(world.count(bucket, OrderStatus::Expired).await, 50);
        let tag = &world.address(bucket).tag;
        assert_eq!(world.gate.look(tag).await.unwrap().due, 0);
    }
}

#[tokio::test]
async fn a_sweep_that_stopped_between_ledger_and_gate_is_completed_once() {
    let world = World::open(&[5]).await;
    let hold = world.claim(0, "u", world.now() - SECOND).await;
    let orders = [world.order(&hold).await];
    let released = world.ledger.release(
        &world.sale,
        BucketId(0),
        &orders,
        OrderStatus::Expired,
        world.now(),
    );
    assert_eq!(released.await.unwrap(), [hold.claim]);
    // Killed here.
    assert_eq!(world.left(0).await, 4);
    for _ in 0..2 {
        sweep(&world, SECOND).await;
        assert_eq!(world.left(0).await, 5);
        assert_eq!(world.allotted(0).await, 0);
    }
}

#[tokio::test]
async fn a_deadline_without_an_order_is_buried_and_stays_so() {
    let world = World::open(&[5]).await;
    let hold = world.claim(0, "u", world.now() - SECOND).await;
    for _ in 0..2 {
        sweep(&world, SECOND).await;
        assert_eq!(world.left(0).await, 5);
    }
    let buried = world.find(&hold.claim).await.unwrap();
    assert_eq!(buried.status, OrderStatus::Voided);
    assert_eq!(buried.void_reason, Some(VoidReason::NoOrder));

    let late = world.unwritten(&hold).await;
    let outcomes = world
        .ledger
        .create_orders(&world.sale, BucketId(0), 1, 1, &[late])
        .await;
    assert_eq!(outcomes.unwrap(), [Outcome::Existing(Box::new(buried))]);
    assert_eq!(world.allotted(0).await, 0);
}

#[tokio::test]
async fn a_mark_without_a_claim_goes_and_creates_no_unit() {
    let world = World::open(&[0, 5]).await;
    let claim = world.claim_id(1, "u");
    let ask = Ask {
        shopper: &"u".parse().unwrap(),
        claim: &claim,
        quantity: 1,
        limit: 1,
        pay_by: world.now() - SECOND,
        rate_per_s: None,
    };
    let home = world.gate.bucket(world.address(0));
    assert!(matches!(home.mark(&ask, 0).await, Ok(Decision::Claimed(_))));
    for _ in 0..2 {
        sweep(&world, SECOND).await;
        assert_eq!((world.left(0).await, world.left(1).await), (0, 5));
    }
    let tag = &world.address(0).tag;
    assert_eq!(world.gate.look(tag).await.unwrap().due, 0);
    // The shopper may ask again, under another key.
    let key = "key-0002".parse().unwrap();
    let next = domain::ClaimId::derive(&world.sale, BucketId(1), ask.shopper, &key);
    let next = home
        .mark(
            &Ask {
                claim: &next,
                ..ask
            },
            0,
        )
        .await;
    assert!(matches!(next, Ok(Decision::Claimed(_))), "{next:?}");
}

#[tokio::test]
async fn a_mark_and_its_claim_without_a_message_give_one_unit_back() {
    let world = World::open(&[0, 5]).await;
    let hold = world.claim(1, "u", world.now() - SECOND).await;
    let ask = Ask {
        shopper: &hold.shopper,
        claim: &hold.claim,
        quantity: 1,
        limit: 1,
        pay_by: hold.pay_by,
        rate_per_s: None,
    };
    let home = world.gate.bucket(world.address(0));
    assert!(matches!(home.mark(&ask, 0).await, Ok(Decision::Claimed(_))));
    for _ in 0..2 {
        sweep(&world, SECOND).await;
        assert_eq!((world.left(0).await, world.left(1).await), (0, 5));
    }
}

/// The ledger voids a claim beyond its cap at some moment of the burial of its
/// mark: there never was a unit that could be given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_whose_claim_had_no_unit_gives_none_back() {
    let (mut met, mut beyond_the_cap) = (0, 0);
    for point in (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)]) {
        let world = World::open(&[0, 5]).await;
        let hold = world.claim(1, "u", world.now() + MINUTE).await;
        let ask = Ask {
            shopper: &hold.shopper,
            claim: &hold.claim,
            quantity: 1,
            limit: 1,
            pay_by: world.now() - SECOND,
            rate_per_s: None,
        };
        let home = world.gate.bucket(world.address(0));
        assert!(matches!(home.mark(&ask, 0).await, Ok(Decision::Claimed(_))));
        let order = world.unwritten(&hold).await;
        let voids = async {
            let void = world.ledger.void(&order, VoidReason::Cap, world.now());
            void.await.unwrap()
        };
        let sweeps = async |environment| {
            let sweeper = SweeperFunction::start(&environment).await.unwrap();
            assert!(sweeper.sweep().await.unwrap());
        };
        let ((), voided) = interrupted_at(&world.environment, point, voids, sweeps).await;
        sweep(&world, MINUTE * 2).await;
        if voided.is_none() {
            break;
        }
        met += 1;
        let stands = world.find(&hold.claim).await.unwrap();
        let left = if stands.void_reason == Some(VoidReason::Cap) {
            beyond_the_cap += 1;
            4
        } else {
            5
        };
        assert_eq!(world.left(1).await, left, "{point:?}: {stands:?}");
    }
    assert!(met >= 4 && beyond_the_cap >= 2, "{met}, {beyond_the_cap}");
}

#[tokio::test]
async fn a_mark_of_an_order_does_not_end_it() {
    let world = World::open(&[0, 5]).await;
    let hold = world.claim(1, "u", world.now() + MINUTE).await;
    let order = world.order(&hold).await;
    let ask = Ask {
        shopper: &hold.shopper,
        claim: &hold.claim,
        quantity: 1,
        limit: 1,
        pay_by: world.now() - SECOND,
        rate_per_s: None,
    };
    let home = world.gate.bucket(world.address(0));
    assert!(matches!(home.mark(&ask, 0).await, Ok(Decision::Claimed(_))));
    sweep(&world, SECOND).await;
    assert_eq!(world.find(&hold.claim).await.unwrap(), order);
    assert_eq!(world.left(1).await, 4);
    // The mark still says who holds a unit.
    let again = home.mark(&ask, 0).await;
    assert!(matches!(again, Ok(Decision::Same(_))), "{again:?}");
}

#[tokio::test]
async fn an_order_that_was_given_more_time_is_not_ended() {
    let world = World::open(&[5]).await;
    let hold = world.claim(0, "u", world.now() + MINUTE).await;
    let order = world.order(&hold).await;
    let later = order.pay_by + MINUTE * 5;
    assert!(world.ledger.extend(&order, later).await.unwrap());
    // The gate still has the old deadline.
    sweep(&world, MINUTE * 2).await;
    let pending = OrderStatus::PendingPayment;
    assert_eq!(world.count(0, pending).await, 1);
    assert_eq!(world.left(0).await, 4);
    let tag = &world.address(0).tag;
    let due = world.gate.due(tag, later).await.unwrap();
    assert_eq!(due, std::slice::from_ref(&hold.claim));
    assert!(world.gate.due(tag, order.pay_by).await.unwrap().is_empty());

    sweep(&world, MINUTE * 7).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 1);
    assert_eq!(world.left(0).await, 5);
}

#[tokio::test]
async fn what_was_given_back_or_paid_loses_its_deadline() {
    let world = World::open(&[5]).await;
    let past = world.now() - SECOND;
    let given_back = world.claim(0, "a", past).await;
    let orders = [world.order(&given_back).await];
    let cancelled = OrderStatus::Cancelled;
    let bucket = BucketId(0);
    let release = world
        .ledger
        .release(&world.sale, bucket, &orders, cancelled, world.now());
    assert_eq!(release.await.unwrap().len(), 1);
    sweep(&world, SECOND).await;
    assert_eq!(world.left(0).await, 5);
    assert_eq!(world.count(0, cancelled).await, 1);
    let tag = &world.address(0).tag;
    let again = world.gate.release(tag, &given_back.claim, Release::Lapsed);
    assert!(!again.await.unwrap());
}

/// A shopper with two claims (limit 2) in one bucket lets both lapse: one
/// transaction may not name the customer's row twice.
#[tokio::test]
async fn two_holds_of_one_customer_that_lapse_together_come_back() {
    let world = World::new(
        testing::gates::shared(),
        &[10],
        serde_json::json!({"limit_per_customer": 2}),
    )
    .await;
    let pay_by = world.now() + SECOND;
    for key in ["key-0001", "key-0002"] {
        let shopper = "u".parse().unwrap();
        let claim = ClaimId::derive(&world.sale, BucketId(0), &shopper, &key.parse().unwrap());
        let ask = Ask {
            shopper: &shopper,
            claim: &claim,
            quantity: 1,
            limit: 2,
            pay_by,
            rate_per_s: None,
        };
        let Ok(Decision::Claimed(hold)) = world.gate.bucket(world.address(0)).claim(&ask).await
        else {
            panic!()
        };
        world.order(&hold).await;
    }
    // Somebody else's hold in the same bucket, due at the same time.
    let other = world.claim(0, "v", pay_by).await;
    world.order(&other).await;
    sweep(&world, MINUTE).await;
    keep_up(&world, MINUTE * 2).await;
    sweep(&world, MINUTE * 3).await;
    assert_eq!(
        world.count(0, OrderStatus::Expired).await,
        3,
        "holds are stranded"
    );
    assert_eq!(world.left(0).await, 10);
}

/// The operator gives everyone more time while a claim's message is still in
/// the queue: its hold must not be ended at the old deadline.
#[tokio::test]
async fn an_extension_holds_for_a_claim_that_is_on_its_way() {
    let world = World::open(&[10]).await;
    let hold = world.claim(0, "u", world.now() + SECOND).await;
    let floor = world.now() + MINUTE * 10;
    let changed = world.ledger.change_sale(&world.sale, |sale| {
        sale.pay_by_min = Some(sale.extended(floor));
        Ok::<_, std::convert::Infallible>(())
    });
    changed.await.unwrap().unwrap().unwrap();
    sweep(&world, MINUTE).await;
    assert_eq!(
        world.find(&hold.claim).await.map(|order| order.status),
        None
    );
}

/// "No hold ends before so many seconds from now": also one that is being
/// paid, whose intent ends before the floor.
#[tokio::test]
async fn an_extension_holds_for_an_order_that_is_being_paid() {
    let world = World::open(&[10]).await;
    let hold = world.claim(0, "u", world.now() + SECOND * 10).await;
    let order = world.order(&hold).await;
    let until = world.now() + SECOND * 20;
    let paying: Order = world
        .ledger
        .begin_payment(&order, world.now(), until)
        .await
        .unwrap()
        .unwrap();
    let floor = world.now() + MINUTE * 60;
    assert!(world.ledger.extend(&paying, floor).await.unwrap());
    sweep(&world, MINUTE).await;
    let stands = world.find(&hold.claim).await.unwrap();
    assert_ne!(
        stands.status,
        OrderStatus::Expired,
        "pay_by is {}",
        stands.pay_by
    );
}
