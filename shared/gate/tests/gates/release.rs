//! Ending a hold: four ways, each twice is once.

use gate::{Decision, Release};
use jiff::SignedDuration;

use crate::shop::{KEY, OTHER_KEY, Shop, claimed, holds, same, wish};

#[tokio::test]
async fn twice_is_once_in_every_way() {
    for (how, left) in [
        (Release::Lapsed, 3),
        (Release::Voided, 3),
        (Release::Forget, 2),
        (Release::Erase(0), 2),
    ] {
        let shop = Shop::open(&[3]).await;
        let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
        assert!(shop.release(0, &hold.claim, how).await, "{how:?}");
        assert!(!shop.release(0, &hold.claim, how).await, "{how:?}");
        // Nor does another way end it a second time.
        assert!(!shop.release(0, &hold.claim, Release::Lapsed).await);
        assert_eq!(shop.left(0).await, left, "{how:?}");
    }
}

#[tokio::test]
async fn releases_at_the_same_time_are_one() {
    let shop = Shop::open(&[3]).await;
    let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
    let releases = (0..20).map(|_| shop.release(0, &hold.claim, Release::Lapsed));
    let ended = futures::future::join_all(releases).await;
    assert_eq!(ended.into_iter().filter(|ended| *ended).count(), 1);
    assert_eq!(shop.left(0).await, 3);
}

#[tokio::test]
async fn a_claim_that_was_never_made_gives_nothing_back() {
    let shop = Shop::open(&[3]).await;
    let claim = shop.claim_id(0, &wish("u", KEY));
    assert!(!shop.release(0, &claim, Release::Lapsed).await);
    assert_eq!(shop.left(0).await, 3);
}

#[tokio::test]
async fn who_let_a_hold_lapse_had_the_chance() {
    let shop = Shop::open(&[3]).await;
    let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
    shop.release(0, &hold.claim, Release::Lapsed).await;
    assert_eq!(same(shop.claim(0, &wish("u", KEY)).await), hold);
    let other_key = shop.claim(0, &wish("u", OTHER_KEY)).await;
    assert_eq!(holds(other_key), (hold, 1));
    assert_eq!(shop.left(0).await, 3);
    claimed(shop.claim(0, &wish("v", KEY)).await);
}

#[tokio::test]
async fn who_was_voided_may_ask_again_under_another_key() {
    for (how, left) in [(Release::Voided, 2), (Release::Forget, 1)] {
        let shop = Shop::open(&[3]).await;
        let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
        shop.release(0, &hold.claim, how).await;
        // The same key is the same claim for ever: it tells that it was voided.
        assert_eq!(same(shop.claim(0, &wish("u", KEY)).await), hold);
        let next = claimed(shop.claim(0, &wish("u", OTHER_KEY)).await);
        assert_ne!(next.claim, hold.claim);
        assert_eq!(shop.left(0).await, left, "{how:?}");
    }
}

#[tokio::test]
async fn what_is_erased_was_never_asked_for() {
    let shop = Shop::open(&[3, 3]).await;
    let marked = claimed(shop.mark(0, 1, &wish("u", KEY)).await);
    assert_eq!(marked.taken_here, 0);
    assert!(
        shop.release(0, &marked.claim, Release::Erase(marked.turn))
            .await
    );
    let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
    assert_eq!(hold.taken_here, 1);
    assert_eq!(shop.left_of_all().await, [2, 3]);
}

#[tokio::test]
async fn a_claim_that_is_voided_leaves_the_others_of_its_shopper() {
    for how in [Release::Voided, Release::Forget, Release::Erase(0)] {
        let shop = Shop::open(&[10]).await;
        let kept = claimed(shop.claim(0, &wish("u", KEY).of(1, 2)).await);
        let voided = claimed(shop.claim(0, &wish("u", OTHER_KEY).of(1, 2)).await);
        shop.release(0, &voided.claim, how).await;
        let two = shop.claim(0, &wish("u", "key-0003").of(2, 2)).await;
        assert_eq!(holds(two), (kept, 1), "{how:?}");
        claimed(shop.claim(0, &wish("u", "key-0003").of(1, 2)).await);
    }
}

#[tokio::test]
async fn what_is_paid_has_no_deadline_and_keeps_its_unit() {
    let shop = Shop::open(&[3]).await;
    let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
    for _ in 0..2 {
        shop.gate.settle(shop.tag(0), &hold.claim).await.unwrap();
    }
    assert!(!shop.release(0, &hold.claim, Release::Lapsed).await);
    assert_eq!(shop.left(0).await, 2);
    same(shop.claim(0, &wish("u", KEY)).await);
}

#[tokio::test]
async fn a_deadline_moves_only_while_there_is_one() {
    let shop = Shop::open(&[3]).await;
    let hold = claimed(shop.claim(0, &wish("u", KEY)).await);
    let hour = shop.now() + SignedDuration::from_hours(1);
    let due = |until| shop.gate.due(shop.tag(0), until);
    let claim = std::slice::from_ref(&hold.claim);
    assert_eq!(due(shop.now()).await.unwrap(), []);
    assert_eq!(due(hold.pay_by).await.unwrap(), claim);

    shop.gate
        .defer(shop.tag(0), &hold.claim, hour)
        .await
        .unwrap();
    assert_eq!(due(hold.pay_by).await.unwrap(), []);
    assert_eq!(due(hour).await.unwrap(), claim);

    shop.release(0, &hold.claim, Release::Lapsed).await;
    shop.gate
        .defer(shop.tag(0), &hold.claim, hour)
        .await
        .unwrap();
    assert_eq!(due(hour).await.unwrap(), []);
}

#[tokio::test]
async fn a_unit_that_came_back_after_sold_out_is_sold_once() {
    let shop = Shop::open(&[2]).await;
    let first = claimed(shop.claim(0, &wish("a", KEY)).await);
    claimed(shop.claim(0, &wish("b", KEY)).await);
    for n in 0..50 {
        let refused = shop.claim(0, &wish(&format!("u_{n}"), KEY)).await;
        assert_eq!(refused.unwrap(), Decision::Empty);
    }
    shop.release(0, &first.claim, Release::Lapsed).await;
    assert_eq!(shop.left(0).await, 1);
    claimed(shop.claim(0, &wish("c", KEY)).await);
    assert_eq!(
        shop.claim(0, &wish("d", KEY)).await.unwrap(),
        Decision::Empty
    );
}
