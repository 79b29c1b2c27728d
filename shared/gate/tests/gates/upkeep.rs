//! Moving units between gates, and correcting a counter.

use domain::slot::GateAddress;
use gate::upkeep::{Correction, DUE_BATCH};
use gate::{Decision, Error};
use jiff::SignedDuration;

use crate::shop::{KEY, Shop, claimed, wish};

#[tokio::test]
async fn only_free_units_are_taken_out() {
    let shop = Shop::open(&[5]).await;
    claimed(shop.claim(0, &wish("u", KEY)).await);
    assert_eq!(shop.gate.take(shop.address(0), 3).await.unwrap(), 3);
    assert_eq!(shop.gate.take(shop.address(0), 3).await.unwrap(), 1);
    assert_eq!(shop.gate.take(shop.address(0), 3).await.unwrap(), 0);
    assert_eq!(
        shop.claim(0, &wish("v", KEY)).await.unwrap(),
        Decision::Empty
    );
    shop.gate.put(shop.address(0), 2).await.unwrap();
    assert_eq!(shop.left(0).await, 2);
    claimed(shop.claim(0, &wish("v", KEY)).await);

    let missing = GateAddress {
        tag: "no-such-bucket".to_owned(),
        epoch: 1,
    };
    // Made true from the ledger since: what was to be moved may be in there.
    let older = GateAddress {
        epoch: 0,
        ..shop.address(0).clone()
    };
    for address in [missing, older] {
        let taken = shop.gate.take(&address, 1).await;
        assert!(matches!(taken, Err(Error::NotReady)), "{taken:?}");
        let put = shop.gate.put(&address, 1).await;
        assert!(matches!(put, Err(Error::NotReady)), "{put:?}");
    }
    assert_eq!(shop.left(0).await, 1);
}

#[tokio::test]
async fn too_much_is_lowered_at_once() {
    let shop = Shop::open(&[8]).await;
    let seen = shop.gate.look(shop.tag(0)).await.unwrap();
    let correct = shop.gate.correct(shop.tag(0), &seen, 3, shop.now());
    assert_eq!(correct.await.unwrap(), Correction::Lowered);
    assert_eq!(shop.left(0).await, 5);
}

#[tokio::test]
async fn too_little_is_raised_when_it_is_seen_again_after_a_while() {
    let shop = Shop::open(&[8]).await;
    let seen = shop.gate.look(shop.tag(0)).await.unwrap();
    let now = shop.now();
    let correct = |gap, ms| {
        let at = now + SignedDuration::from_millis(ms);
        let (gate, tag, seen) = (&shop.gate, shop.tag(0), &seen);
        async move { gate.correct(tag, seen, gap, at).await.unwrap() }
    };
    assert_eq!(correct(-2, 0).await, Correction::Noted);
    assert_eq!(correct(-2, 1_999).await, Correction::Noted);
    // Another gap is another gap: its time starts now.
    assert_eq!(correct(-1, 2_500).await, Correction::Noted);
    assert_eq!(correct(-1, 4_000).await, Correction::Noted);
    // A gap that closed by itself is forgotten.
    assert_eq!(correct(0, 5_000).await, Correction::Agrees);
    assert_eq!(correct(-1, 6_000).await, Correction::Noted);
    assert_eq!(shop.left(0).await, 8);
    assert_eq!(correct(-1, 8_000).await, Correction::Raised);
    assert_eq!(shop.left(0).await, 9);
}

/// One move after the other hides no gap for ever.
#[tokio::test]
async fn a_gap_that_outlasts_every_move_is_raised() {
    let shop = Shop::open(&[8]).await;
    let seen = shop.gate.look(shop.tag(0)).await.unwrap();
    let now = shop.now();
    for (seconds, found) in [
        (0, Correction::Noted),
        (30, Correction::Noted),
        (59, Correction::Noted),
        (60, Correction::Raised),
    ] {
        let at = now + SignedDuration::from_secs(seconds);
        let moves = shop.gate.begin_move(shop.address(0), 0, at).await;
        assert_eq!(moves.unwrap(), 0);
        let correct = shop.gate.correct(shop.tag(0), &seen, -2, at).await;
        assert_eq!(correct.unwrap(), found, "{seconds}");
    }
    assert_eq!(shop.left(0).await, 10);
}

#[tokio::test]
async fn what_has_moved_is_not_corrected() {
    let shop = Shop::open(&[8]).await;
    let seen = shop.gate.look(shop.tag(0)).await.unwrap();
    claimed(shop.claim(0, &wish("u", KEY)).await);
    for gap in [3, 0, -3] {
        let correct = shop.gate.correct(shop.tag(0), &seen, gap, shop.now());
        assert_eq!(correct.await.unwrap(), Correction::Moved);
    }
    // One taken, one returned: `left` is as it was, and yet it has moved.
    let hold = shop.claim_id(0, &wish("u", KEY));
    shop.release(0, &hold, gate::Release::Lapsed).await;
    let correct = shop.gate.correct(shop.tag(0), &seen, 3, shop.now());
    assert_eq!(correct.await.unwrap(), Correction::Moved);
    assert_eq!(shop.left(0).await, 8);
}

#[tokio::test]
async fn deadlines_are_read_in_bounded_batches() {
    let shop = Shop::open(&[2_000]).await;
    let all = DUE_BATCH + 100;
    for n in 0..all {
        claimed(shop.claim(0, &wish(&format!("u_{n}"), KEY)).await);
    }
    let hour = shop.now() + SignedDuration::from_hours(1);
    let due = shop.gate.due(shop.tag(0), hour).await.unwrap();
    assert_eq!(due.len(), DUE_BATCH);
    let (view, holds) = shop.gate.holds(shop.tag(0)).await.unwrap();
    assert_eq!((view.due, holds.len()), (all as u64, all));
}

#[tokio::test]
async fn entries_are_counted_and_late_places_kept() {
    let shop = Shop::open(&[1]).await;
    for n in 0..100 {
        let pass = format!("p{n}").parse().unwrap();
        shop.gate.enter(shop.tag(0), &pass).await.unwrap();
        shop.gate.enter(shop.tag(0), &pass).await.unwrap();
    }
    let place = async |pass: &str| {
        let pass = pass.parse().unwrap();
        shop.gate.arrive(shop.tag(0), &pass).await.unwrap()
    };
    assert_eq!((place("a").await, place("b").await), (1, 2));
    assert_eq!((place("a").await, place("c").await), (1, 3));
    let view = shop.gate.look(shop.tag(0)).await.unwrap();
    assert!((98..=102).contains(&view.entries), "{view:?}");
    assert_eq!(view.late, 3);
}
