//! A sale has one writer at a time, and no write is lost.

use std::convert::Infallible;

use domain::BucketId;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ledger::payments::{Refund, RefundReason, Written};
use ledger::sales::Round;
use ledger::{Error, Ledger, Transaction};
use testing::{Point, World};

fn round(number: u32) -> Round {
    Round {
        round: number,
        at: Timestamp::UNIX_EPOCH,
        threshold: 0.5,
        admitted: 10,
        offered: 10,
    }
}

#[tokio::test]
async fn of_two_that_read_the_same_version_one_writes() {
    let world = World::open(&[1]).await;
    let read = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    let mut changed = read.clone();
    changed.admission.round = 1;
    let saves = (0..4).map(|_| {
        let (ledger, changed) = (&world.ledger, &changed);
        async move { ledger.save_sale(changed, Some(&round(1))).await }
    });
    let saved = join_all(saves).await;
    let (won, lost): (Vec<_>, Vec<_>) = saved.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 3));
    for error in lost {
        assert!(matches!(error, Err(Error::Conflict)), "{error:?}");
    }
    let stands = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    assert_eq!(stands.version, read.version + 1);
    assert_eq!(world.ledger.rounds(&world.sale).await.unwrap(), [round(1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_are_all_kept() {
    let world = World::open(&[1]).await;
    let changes = (0..8).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            let change = world.ledger.change_sale(&world.sale, |sale| {
                sale.admission.offered += 1;
                Ok::<_, Infallible>(())
            });
            change.await.unwrap().unwrap().unwrap();
        })
    });
    for change in join_all(changes).await {
        change.unwrap();
    }
    let sale = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    assert_eq!(sale.admission.offered, 8);
}

#[tokio::test]
async fn a_change_that_is_refused_or_changes_nothing_writes_nothing() {
    let world = World::open(&[1]).await;
    let before = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    let refused = world.ledger.change_sale(&world.sale, |_| Err("no"));
    assert_eq!(refused.await.unwrap(), Some(Err("no")));
    let same = world
        .ledger
        .change_sale(&world.sale, |_| Ok::<_, Infallible>(()));
    assert_eq!(same.await.unwrap(), Some(Ok(before)));
    let missing = "no-such-sale".parse().unwrap();
    let missing = world
        .ledger
        .change_sale(&missing, |_| Ok::<_, Infallible>(()));
    assert_eq!(missing.await.unwrap(), None);
}

#[tokio::test]
async fn a_name_is_given_once_and_a_closed_sale_is_listed_as_such() {
    let world = World::open(&[1]).await;
    let sale = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    let again = world.ledger.create_sale(&sale, "00").await;
    assert!(matches!(again, Err(Error::Conflict)), "{again:?}");
    let secret = world.ledger.draw_secret(&world.sale).await.unwrap();
    assert_ne!(secret.as_deref(), Some("00"));

    let listed = |open| world.ledger.sales(open);
    assert_eq!(
        listed(true).await.unwrap(),
        std::slice::from_ref(&world.sale)
    );
    // Its place in the list may be older than what counts who woke it.
    let mut aged = Transaction::new();
    aged.update(&ledger::key::listed(&world.sale), "REMOVE wakes");
    world.ledger.table().write_or_conflict(&aged).await.unwrap();
    world.ledger.close_sale(&sale).await.unwrap();
    assert_eq!(listed(true).await.unwrap(), []);
    assert_eq!(
        listed(false).await.unwrap(),
        std::slice::from_ref(&world.sale)
    );
}

/// A sale is over, and a capture comes that has to go back: whatever moment
/// it comes at, and even if the closing stops there, somebody looks after it.
#[tokio::test]
async fn a_refund_owed_while_a_sale_is_closed_keeps_it_listed() {
    let mut met = 0;
    for point in (1..).flat_map(|n| [Point::BeforeRequest(n), Point::AfterRequest(n)]) {
        let world = World::open(&[1]).await;
        let sale = world.ledger.sale(&world.sale).await.unwrap().unwrap();
        let pay_by = world.now() + SignedDuration::from_mins(1);
        let order = world.order(&world.claim(0, "late", pay_by).await).await;
        let end = domain::OrderStatus::Expired;
        let ended = world.ledger.release(
            &world.sale,
            BucketId(0),
            std::slice::from_ref(&order),
            end,
            pay_by,
        );
        assert_eq!(ended.await.unwrap().len(), 1);
        let order = world.find(&order.claim).await.unwrap();
        let owe = async {
            let intent = "pi_1".parse().unwrap();
            let (claim, money) = (&order.claim, order.money);
            let refund = Refund::owed(claim, &intent, money, RefundReason::Late, world.now());
            let owed = world.ledger.owe_refund(&order, &refund, None).await;
            assert_eq!(owed.unwrap(), Written::Now);
        };
        let close = async |environment| {
            let ledger = Ledger::connect(&environment).unwrap();
            ledger.close_sale(&sale).await.unwrap()
        };
        let (_, owed) = testing::interrupted_at(&world.environment, point, owe, close).await;
        if owed.is_none() {
            break;
        }
        met += 1;
        let listed = world.ledger.sales(true).await.unwrap();
        assert_eq!(listed, std::slice::from_ref(&world.sale), "{point:?}");
    }
    assert!(met >= 6, "list, refunds, closing: {met}");
}

/// A recovery that began before a loading has a life of its own, though it may come
/// to the same number: the loading is refused, and the next one is above it.
#[tokio::test]
async fn a_loading_takes_no_life_that_a_recovery_began() {
    let world = World::open(&[3]).await;
    let (ledger, bucket) = (&world.ledger, BucketId(0));
    let row = async || ledger.bucket(&world.sale, bucket).await.unwrap().unwrap();
    let put = async |capacity, epoch| {
        let row = ledger::orders::Bucket::new(capacity, epoch);
        ledger.put_bucket(&world.sale, bucket, &row).await
    };
    let begun = ledger.begin_life(&world.sale, bucket, 1, 1).await.unwrap();
    assert_eq!(begun, Some(2));
    let loaded = put(9, 2).await;
    assert!(matches!(loaded, Err(Error::Conflict)), "{loaded:?}");
    assert_eq!((row().await.capacity, row().await.epoch), (3, 2));
    // A loading whose answer was lost may repeat itself.
    for _ in 0..2 {
        put(9, 3).await.unwrap();
        assert_eq!((row().await.capacity, row().await.epoch), (9, 3));
    }
}

/// A replica that was promoted may not know of a hold: the ledger does.
#[tokio::test]
async fn a_sale_is_not_closed_over_a_hold_that_its_gate_forgot() {
    let world = World::open(&[1]).await;
    let sale = world.ledger.sale(&world.sale).await.unwrap().unwrap();
    let pay_by = world.now() + SignedDuration::from_mins(1);
    let hold = world.claim(0, "u", pay_by).await;
    let order = world.order(&hold).await;
    let tag = &world.address(0).tag;
    world.gate.settle(tag, &hold.claim).await.unwrap();
    assert_eq!(world.gate.look(tag).await.unwrap().due, 0);
    assert!(!world.ledger.close_sale(&sale).await.unwrap());

    let end = domain::OrderStatus::Expired;
    let ended = world.ledger.release(
        &world.sale,
        BucketId(0),
        std::slice::from_ref(&order),
        end,
        pay_by,
    );
    assert_eq!(ended.await.unwrap().len(), 1);
    assert!(world.ledger.close_sale(&sale).await.unwrap());
}
