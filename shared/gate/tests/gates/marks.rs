//! A shopper whose home bucket is empty or frozen.

use std::time::Duration;

use domain::BucketId;
use domain::slot::{GateAddress, Gates};
use gate::upkeep::Truth;
use gate::{Decision, Error, Release};

use crate::shop::{KEY, OTHER_KEY, Shop, claimed, holds, same, wish};

/// Eight buckets, of which one has units.
async fn shop(bucket: u16, units: u32) -> Shop {
    let mut capacities = [0; 8];
    capacities[usize::from(bucket)] = units;
    Shop::open(&capacities).await
}

#[tokio::test]
async fn the_last_unit_is_found_wherever_it_is_and_once() {
    for bucket in 1..8 {
        let shop = shop(bucket, 1).await;
        let (u, v) = (shop.at_home(0, 0), shop.at_home(0, 1));
        let hold = claimed(shop.buy(&wish(&u, KEY)).await);
        assert_eq!(
            (hold.claim.bucket(), hold.taken_here),
            (BucketId(bucket), 1)
        );
        assert_eq!(same(shop.buy(&wish(&u, KEY)).await).claim, hold.claim);
        let (other_key, units) = holds(shop.buy(&wish(&u, OTHER_KEY)).await);
        assert_eq!((other_key.claim, units), (hold.claim, 1));
        assert_eq!(
            shop.buy(&wish(&v, KEY)).await.unwrap(),
            Decision::Empty,
            "{bucket}"
        );
        // Who was told "sold out" leaves nothing behind.
        assert_eq!(shop.gate.look(shop.tag(0)).await.unwrap().due, 1);
    }
}

#[tokio::test]
async fn a_stop_between_mark_and_claim_is_completed_by_any_key() {
    for key in [KEY, OTHER_KEY] {
        let shop = shop(3, 2).await;
        let u = shop.at_home(0, 0);
        // The function is killed here.
        let marked = claimed(shop.mark(0, 3, &wish(&u, KEY)).await);
        assert_eq!(shop.left(3).await, 2);

        for again in [key, KEY, OTHER_KEY] {
            let found = match shop.buy(&wish(&u, again)).await.unwrap() {
                Decision::Same(hold) | Decision::Holds(hold, 1) => hold,
                other => panic!("{other:?}"),
            };
            assert_eq!(found.claim, marked.claim);
            assert_eq!(shop.left(3).await, 1, "one unit, whichever key");
        }
    }
}

/// The home was made true anew and does not know that the shopper has a unit elsewhere.
#[tokio::test]
async fn a_mark_that_met_the_limit_is_not_completed_by_its_repetition() {
    let shop = shop(3, 2).await;
    let u = shop.at_home(0, 0);
    let first = claimed(shop.claim(3, &wish(&u, KEY)).await);
    for _ in 0..2 {
        let (newest, units) = holds(shop.buy(&wish(&u, OTHER_KEY)).await);
        assert_eq!((newest.claim, units), (first.claim.clone(), 1));
        assert_eq!(shop.left(3).await, 1);
    }
}

#[tokio::test]
async fn a_mark_whose_bucket_was_sold_out_meanwhile_starts_over() {
    for key in [KEY, OTHER_KEY] {
        let mut capacities = [0; 8];
        capacities[3] = 1;
        capacities[5] = 1;
        let shop = Shop::open(&capacities).await;
        let u = shop.at_home(0, 0);
        claimed(shop.mark(0, 3, &wish(&u, KEY)).await);
        claimed(shop.claim(3, &wish("another", KEY)).await);

        let hold = claimed(shop.buy(&wish(&u, key)).await);
        assert_eq!(hold.claim.bucket(), BucketId(5));
        assert_eq!(shop.left_of_all().await, [0; 8]);
        assert_eq!(shop.gate.look(shop.tag(0)).await.unwrap().due, 1);
    }
}

#[tokio::test]
async fn a_mark_that_moves_on_keeps_the_shoppers_other_units() {
    let shop = Shop::open(&[1, 0, 0]).await;
    let key = |n: u32| wish("u", &format!("key-000{n}")).of(1, 2);
    claimed(shop.claim(0, &key(1)).await);
    let mark = claimed(shop.mark(0, 1, &key(2)).await);
    claimed(shop.mark_after(mark.turn, 0, 2, &key(2)).await);
    let (newest, units) = holds(shop.mark(0, 2, &key(3)).await);
    assert_eq!((newest.claim, units), (shop.claim_id(2, &key(2)), 2));
}

#[tokio::test]
async fn a_mark_is_moved_on_only_by_who_found_its_bucket_empty() {
    let shop = Shop::open(&[0, 1, 1]).await;
    let me = wish(&shop.at_home(0, 0), KEY).of(1, 2);
    let mark = claimed(shop.mark(0, 1, &me).await);
    // Another repetition has not asked there, or asked for an earlier mark.
    for turn in [0, mark.turn - 1] {
        assert_eq!(same(shop.mark_after(turn, 0, 2, &me).await), mark);
    }
    let moved = claimed(shop.mark_after(mark.turn, 0, 2, &me).await);
    assert!(moved.turn > mark.turn);
    // Who found the first one's bucket empty, too, comes too late to erase it.
    assert!(
        !shop
            .release(0, &mark.claim, Release::Erase(mark.turn))
            .await
    );
    assert_eq!(same(shop.mark(0, 1, &me).await), moved);
}

#[tokio::test]
async fn a_bucket_that_was_empty_stays_empty_for_that_turn() {
    let shop = Shop::open(&[0, 1]).await;
    let me = wish(&shop.at_home(0, 0), KEY);
    let mark = claimed(shop.mark(0, 1, &me).await);
    let other = claimed(shop.claim(1, &wish("another", KEY)).await);
    assert_eq!(
        shop.claim_after(mark.turn, 1, &me).await.unwrap(),
        Decision::Empty
    );
    shop.release(1, &other.claim, Release::Voided).await;
    // A repetition that was on its way there: the first has moved on since.
    assert_eq!(
        shop.claim_after(mark.turn, 1, &me).await.unwrap(),
        Decision::Empty
    );
    // For the next mark it is not.
    let mark = claimed(shop.mark_after(mark.turn, 0, 1, &me).await);
    claimed(shop.claim_after(mark.turn, 1, &me).await);
}

/// A turn is never given out twice, in no life of the bucket: others remember
/// what they refused.
#[tokio::test]
async fn turns_go_up_over_the_lives_of_a_bucket() {
    let shop = Shop::open(&[0, 1]).await;
    let me = wish(&shop.at_home(0, 0), KEY);
    let before = claimed(shop.mark(0, 1, &me).await);
    let next = GateAddress {
        epoch: 2,
        ..shop.address(0).clone()
    };
    shop.gate.load(&next, &Truth::default()).await.unwrap();
    let mut shop = shop;
    shop.gates.addresses[0] = next;
    let after = claimed(shop.mark(0, 1, &me).await);
    assert!(after.turn > before.turn);
}

/// Parallel repetitions of one claim while units of other buckets come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_is_one_claim_while_units_come_and_go() {
    let shop = Shop::open(&[0, 1, 1, 1]).await;
    for n in 0..300 {
        let me = wish(&shop.at_home(0, n), KEY).of(1, 2);
        let others = async {
            for round in 0..12 {
                for bucket in [3, 1, 2, 1] {
                    let other = wish(&format!("other_{n}_{bucket}_{round}"), KEY);
                    if let Ok(Decision::Claimed(hold)) = shop.claim(bucket, &other).await {
                        tokio::task::yield_now().await;
                        shop.release(bucket, &hold.claim, Release::Voided).await;
                    }
                }
            }
        };
        let taps = futures::future::join_all((0..6).map(|tap| {
            let (shop, me) = (shop.clone(), me.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(tap * 150)).await;
                shop.buy(&me).await
            })
        }));
        let ((), answers) = tokio::join!(others, taps);
        let mut mine = Vec::new();
        for bucket in 1..4 {
            let claim = shop.claim_id(bucket, &me);
            let hold = shop.gate.hold(shop.tag(bucket), &claim).await.unwrap();
            if hold.is_some_and(|hold| hold.taken_here > 0) {
                mine.push(bucket);
                shop.release(bucket, &claim, Release::Voided).await;
            }
        }
        assert!(mine.len() <= 1, "round {n}: units in {mine:?}: {answers:?}");
        assert_eq!(shop.left_of_all().await, [0, 1, 1, 1], "round {n}");
    }
}

#[tokio::test]
async fn two_claims_of_one_shopper_at_a_time_are_one_unit() {
    for round in 0..20 {
        let mut capacities = [0, 2, 2, 2];
        capacities.rotate_right(round % 3 + 1);
        let shop = Shop::open(&capacities).await;
        let home = capacities.iter().position(|n| *n == 0).unwrap() as u16;
        let u = shop.at_home(home, 0);
        let (one, other) = (wish(&u, KEY), wish(&u, OTHER_KEY));
        let answers = tokio::join!(
            shop.buy(&one),
            shop.buy(&other),
            shop.buy(&one),
            shop.buy(&other)
        );
        let left: u64 = shop.left_of_all().await.into_iter().sum();
        assert_eq!(left, 5, "{answers:?}");
        // Whatever was answered then, everyone hears of the same claim now.
        let found = match shop.buy(&one).await.unwrap() {
            Decision::Same(hold) | Decision::Holds(hold, 1) => hold,
            other => panic!("{other:?}"),
        };
        let other = match shop.buy(&other).await.unwrap() {
            Decision::Same(hold) | Decision::Holds(hold, 1) => hold,
            other => panic!("{other:?}"),
        };
        assert_eq!(found.claim, other.claim);
    }
}

#[tokio::test]
async fn a_frozen_home_is_served_elsewhere() {
    let mut shop = Shop::open(&[5, 5]).await;
    let u = shop.at_home(0, 0);
    shop.gates = freeze(&shop.gates, 0);
    let hold = claimed(shop.buy(&wish(&u, KEY)).await);
    assert_eq!(hold.claim.bucket(), BucketId(1));
    assert_eq!(same(shop.buy(&wish(&u, KEY)).await), hold);
    assert_eq!(shop.left_of_all().await, [5, 4]);
}

#[tokio::test]
async fn half_a_view_is_not_sold_out() {
    // The home is empty, and one bucket can't say whether it is.
    let mut shop = Shop::open(&[0, 0, 5]).await;
    let u = shop.at_home(0, 0);
    let whole = shop.gates.clone();
    shop.gates = freeze(&whole, 2);
    let refused = shop.buy(&wish(&u, KEY)).await;
    assert!(matches!(refused, Err(Error::Frozen)), "{refused:?}");

    // Frozen home, no units elsewhere: not sold out either.
    shop.gates = freeze(&whole, 0);
    shop.claim(2, &wish("w", KEY).of(5, 5)).await.unwrap();
    let refused = shop.buy(&wish(&u, OTHER_KEY)).await;
    assert!(matches!(refused, Err(Error::Frozen)), "{refused:?}");

    // Nor if the one that is frozen shows nothing left: that may be of any
    // moment before.
    let mut empty = Shop::open(&[0, 0]).await;
    let w = empty.at_home(0, 0);
    empty.gates = freeze(&empty.gates, 1);
    let all = empty.all();
    let refused = all.claim(&empty.request(&wish(&w, KEY))).await;
    assert!(matches!(refused, Err(Error::Frozen)), "{refused:?}");
    assert_eq!(all.take_frozen(), [(BucketId(1), 2)]);

    // Everyone has answered: now it is.
    shop.gates = whole;
    let v = shop.at_home(1, 0);
    let sold_out = shop.buy(&wish(&v, KEY)).await.unwrap();
    assert_eq!(sold_out, Decision::Empty);
}

#[tokio::test]
async fn a_voided_claim_elsewhere_frees_its_shopper_with_its_mark() {
    let shop = shop(3, 2).await;
    let u = shop.at_home(0, 0);
    let hold = claimed(shop.buy(&wish(&u, KEY)).await);
    assert!(shop.release(3, &hold.claim, Release::Voided).await);
    assert!(shop.release(0, &hold.claim, Release::Forget).await);
    let next = claimed(shop.buy(&wish(&u, OTHER_KEY)).await);
    assert_ne!(next.claim, hold.claim);
    assert_eq!(shop.left(3).await, 1);
}

/// The same gates, one of them in a life that nobody has loaded.
fn freeze(gates: &Gates, bucket: usize) -> Gates {
    let mut gates = gates.clone();
    let address = &mut gates.addresses[bucket];
    *address = GateAddress {
        epoch: address.epoch + 1,
        ..address.clone()
    };
    gates
}

/// While nothing is given out, each key is told of its own claim, wherever it
/// is, and whoever holds less than the limit is not told of a limit.
#[tokio::test]
async fn nothing_is_given_out_and_each_key_finds_its_own_claim() {
    let shop = shop(3, 3).await;
    let u = shop.at_home(0, 0);
    let wish = |key| wish(&u, key).of(1, 3);
    let first = claimed(shop.buy(&wish(KEY)).await);
    let second = claimed(shop.buy(&wish(OTHER_KEY)).await);
    assert_ne!(first.claim, second.claim);
    for (key, hold) in [(KEY, first), (OTHER_KEY, second)] {
        let Some(Decision::Same(found)) = shop.held(&wish(key)).await else {
            panic!("{key}");
        };
        assert_eq!(found.claim, hold.claim);
    }
    assert_eq!(shop.held(&wish("key-0003")).await, None);
    let beyond = shop.held(&wish("key-0003").of(2, 3)).await;
    assert!(matches!(beyond, Some(Decision::Holds(_, 2))), "{beyond:?}");
    assert_eq!(shop.left(3).await, 1);
}
