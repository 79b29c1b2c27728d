//! Every answer to a claim at one bucket.

use std::time::Duration;

use domain::slot::GateAddress;
use gate::{Decision, Error};

use crate::shop::{KEY, OTHER_KEY, Shop, Wish, claimed, holds, same, wish};

#[tokio::test]
async fn exactly_the_units_are_claimed_and_the_counter_ends_at_zero() {
    for units in [1, 2, 7, 8, 9, 17] {
        let shop = Shop::open(&[units]).await;
        let mut yes = 0;
        let mut refusals = 0;
        while refusals < 3 {
            let shopper = format!("u_{}", yes + refusals);
            match shop.claim(0, &wish(&shopper, KEY)).await.unwrap() {
                Decision::Claimed(_) => yes += 1,
                Decision::Empty => refusals += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(yes, units);
        assert_eq!(shop.left(0).await, 0);
    }
}

#[tokio::test]
async fn the_same_key_is_the_same_claim_and_another_key_finds_it() {
    let shop = Shop::open(&[5]).await;
    let first = claimed(shop.claim(0, &wish("u", KEY)).await);
    assert_eq!((first.quantity, first.taken_here), (1, 1));
    assert_eq!(first.claim, shop.claim_id(0, &wish("u", KEY)));

    assert_eq!(same(shop.claim(0, &wish("u", KEY)).await), first);
    let other_key = shop.claim(0, &wish("u", OTHER_KEY)).await;
    assert_eq!(holds(other_key), (first, 1));
    assert_eq!(shop.left(0).await, 4);
}

#[tokio::test]
async fn a_limit_above_one_counts_units() {
    let shop = Shop::open(&[10]).await;
    let two = claimed(shop.claim(0, &wish("u", "key-two0").of(2, 3)).await);
    assert_eq!((two.quantity, two.taken_here), (2, 2));
    let more = shop.claim(0, &wish("u", "key-more").of(2, 3)).await;
    assert_eq!(holds(more), (two, 2));
    let one = claimed(shop.claim(0, &wish("u", "key-one0").of(1, 3)).await);
    let full = shop.claim(0, &wish("u", "key-full").of(1, 3)).await;
    assert_eq!(holds(full), (one, 3));
    assert_eq!(shop.left(0).await, 7);
}

#[tokio::test]
async fn the_last_unit_is_not_part_of_a_larger_claim() {
    let shop = Shop::open(&[3]).await;
    claimed(shop.claim(0, &wish("a", KEY).of(2, 2)).await);
    let two = wish("b", KEY).of(2, 2);
    assert_eq!(shop.claim(0, &two).await.unwrap(), Decision::Empty);
    // A refusal leaves nothing behind: the same shopper may ask for less.
    claimed(shop.claim(0, &wish("b", OTHER_KEY).of(1, 2)).await);
    assert_eq!(shop.left(0).await, 0);
}

#[tokio::test]
async fn a_race_lets_so_many_through_a_second() {
    let shop = Shop::open(&[10]).await;
    let hurried = |n: u32| Wish {
        rate_per_s: Some(2),
        ..wish(&format!("u_{n}"), KEY)
    };
    claimed(shop.claim(0, &hurried(0)).await);
    claimed(shop.claim(0, &hurried(1)).await);
    assert_eq!(shop.claim(0, &hurried(2)).await.unwrap(), Decision::Busy);
    // Who holds a unit is told so, however busy it is.
    same(shop.claim(0, &hurried(0)).await);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    claimed(shop.claim(0, &hurried(2)).await);
    assert_eq!(shop.left(0).await, 7);
}

#[tokio::test]
async fn what_is_not_known_is_never_empty() {
    let shop = Shop::open(&[5]).await;
    let unknown = GateAddress {
        tag: format!("{}.never-loaded", shop.tag(0)),
        epoch: 1,
    };
    let claim = shop.claim_id(0, &wish("u", KEY));
    let ask = gate::Ask {
        shopper: &"u".parse().unwrap(),
        claim: &claim,
        quantity: 1,
        limit: 1,
        pay_by: shop.now(),
        rate_per_s: None,
    };
    // No script: nobody has made this bucket's counter true.
    let never_loaded = shop.gate.bucket(&unknown).claim(&ask).await;
    assert!(matches!(never_loaded, Err(Error::Frozen)));
    assert!(matches!(
        shop.gate.look(&unknown.tag).await,
        Err(Error::NotReady)
    ));

    // The script is there, the counter is not.
    let key = format!("{{{}}}:stock", shop.tag(0));
    let mut redis = testing::gates::shared().connect(0).unwrap();
    redis::cmd("HDEL")
        .arg(&key)
        .arg("left")
        .exec(&mut redis)
        .unwrap();
    assert!(matches!(
        shop.claim(0, &wish("u", KEY)).await,
        Err(Error::NotReady)
    ));
    redis::cmd("DEL").arg(&key).exec(&mut redis).unwrap();
    assert!(matches!(
        shop.claim(0, &wish("u", KEY)).await,
        Err(Error::NotReady)
    ));
    let sale = shop.buy(&wish("u", KEY)).await;
    assert!(sale.is_err(), "{sale:?}");
}
