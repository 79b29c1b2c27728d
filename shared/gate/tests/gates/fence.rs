//! The fence: a script is the key to its bucket, and only loading gives it.

use domain::slot::GateAddress;
use gate::upkeep::{Known, Truth};
use gate::{Decision, Error, Gate};
use testing::{gates, with_variables};

use crate::shop::{KEY, OTHER_KEY, Shop, claimed, same, wish};

#[tokio::test]
async fn an_older_or_newer_life_of_a_bucket_is_frozen() {
    let shop = Shop::open(&[5]).await;
    let old = shop.bucket(0);
    let held = claimed(shop.claim(0, &wish("u", KEY)).await);
    let next = GateAddress {
        epoch: 2,
        ..shop.address(0).clone()
    };
    // Not loaded yet.
    let ask = gate::Ask {
        shopper: &"v".parse().unwrap(),
        claim: &shop.claim_id(0, &wish("v", KEY)),
        quantity: 1,
        limit: 1,
        pay_by: held.pay_by,
        rate_per_s: None,
    };
    let early = shop.gate.bucket(&next).claim(&ask).await;
    assert!(matches!(early, Err(Error::Frozen)), "{early:?}");

    let truth = Truth {
        left: 4,
        taken: 1,
        claims: vec![Known {
            hold: held.clone(),
            due: Some(held.pay_by),
            counts: true,
        }],
        ..Truth::default()
    };
    shop.gate.load(&next, &truth).await.unwrap();
    // The old script is still in the server's cache; the epoch stops it.
    assert!(!shop.gate.is_open(shop.address(0)).await.unwrap());
    assert!(shop.gate.is_open(&next).await.unwrap());
    let late = old.claim(&ask).await;
    assert!(matches!(late, Err(Error::Frozen)), "{late:?}");
    assert_eq!(shop.left(0).await, 4);

    // The new life knows who holds what.
    let new = shop.gate.bucket(&next);
    let again = gate::Ask {
        shopper: &held.shopper,
        claim: &held.claim,
        ..ask.clone()
    };
    assert_eq!(same(new.claim(&again).await), held);
    claimed(new.claim(&ask).await);
    assert_eq!(shop.left(0).await, 3);
}

#[tokio::test]
async fn after_a_flush_nobody_loads_but_loading() {
    let servers = gates::start();
    let shop = Shop::on(&servers, &[5, 5]).await;
    claimed(shop.claim(0, &wish("u", KEY)).await);
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec(&mut servers.connect(0).unwrap())
        .unwrap();
    for _ in 0..3 {
        for bucket in [0, 1] {
            let frozen = shop.claim(bucket, &wish("v", KEY)).await;
            assert!(matches!(frozen, Err(Error::Frozen)), "{frozen:?}");
        }
        // The sale as a whole is refused, not sold out.
        let frozen = shop.buy(&wish("v", KEY)).await;
        assert!(matches!(frozen, Err(Error::Frozen)), "{frozen:?}");
    }
    assert!(!shop.gate.is_open(shop.address(0)).await.unwrap());
    // Ending a hold needs no fence: it can't create a unit.
    let claim = shop.claim_id(0, &wish("u", KEY));
    assert!(shop.release(0, &claim, gate::Release::Lapsed).await);

    let truth = Truth {
        left: 5,
        ..Truth::default()
    };
    let shop = shop.anew(0, &truth).await;
    assert!(shop.gate.is_open(shop.address(0)).await.unwrap());
    claimed(shop.claim(0, &wish("v", KEY)).await);
    let other = shop.claim(1, &wish("w", KEY)).await;
    assert!(matches!(other, Err(Error::Frozen)), "{other:?}");
}

#[tokio::test]
async fn a_restarted_primary_is_frozen() {
    let servers = gates::start();
    let shop = Shop::on(&servers, &[5]).await;
    claimed(shop.claim(0, &wish("u", KEY)).await);
    servers.restart(0).unwrap();
    for key in [KEY, OTHER_KEY] {
        let answer = shop.claim(0, &wish("u", key)).await;
        assert!(answer.is_err(), "{answer:?}");
    }
}

#[tokio::test]
async fn only_a_replica_acknowledges() {
    let servers = gates::start();
    let shop = Shop::on(&servers, &[5]).await;
    let held = claimed(shop.claim(0, &wish("u", KEY)).await).claim;
    assert!(shop.bucket(0).replicated(&held).await.unwrap());
    // What the primary does not know is not replicated, whoever acknowledges.
    let unknown = shop.claim_id(0, &wish("x", KEY));
    assert!(!shop.bucket(0).replicated(&unknown).await.unwrap());

    servers.pause(1);
    claimed(shop.claim(0, &wish("v", KEY)).await);
    let waits = |acks: &'static str| {
        let variables = [("GATE_ACKS", acks), ("GATE_ACK_WAIT_MS", "50")];
        let environment = with_variables(&shop.environment, &variables);
        Gate::connect(&environment).unwrap().bucket(shop.address(0))
    };
    let bucket = waits("1");
    // `WAIT` is about writes of its own connection.
    let ask = gate::Ask {
        shopper: &"w".parse().unwrap(),
        claim: &shop.claim_id(0, &wish("w", KEY)),
        quantity: 1,
        limit: 1,
        pay_by: shop.now(),
        rate_per_s: None,
    };
    assert!(matches!(bucket.claim(&ask).await, Ok(Decision::Claimed(_))));
    assert!(!bucket.replicated(ask.claim).await.unwrap());
    // Nor on a connection that has written nothing.
    assert!(!waits("1").replicated(ask.claim).await.unwrap());
    assert!(waits("0").replicated(ask.claim).await.unwrap());

    servers.resume(1);
    assert!(shop.bucket(0).replicated(&held).await.unwrap());

    // A primary without the script is one that took over: what it acknowledges
    // is not what another one was told.
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec(&mut servers.connect(0).unwrap())
        .unwrap();
    assert!(!shop.bucket(0).replicated(&held).await.unwrap());
}

/// Two loadings at a time: the older one comes second. And one whose request is
/// carried out twice, the second time long after it was answered.
#[tokio::test]
async fn a_later_life_is_not_undone_by_an_earlier_one() {
    let shop = Shop::open(&[3]).await;
    let truth = |left| Truth {
        left,
        ..Truth::default()
    };
    let next = shop.anew(0, &truth(2)).await;
    let late = shop.gate.load(shop.address(0), &truth(3)).await;
    assert!(matches!(late, Err(Error::Frozen)), "{late:?}");
    assert_eq!(shop.left(0).await, 2);
    claimed(next.claim(0, &wish("u", KEY)).await);
    shop.gate.load(next.address(0), &truth(2)).await.unwrap();
    assert_eq!(shop.left(0).await, 1, "a unit that is held is free again");
}

/// Who comes after a life that lost its line is behind everyone who was in it; a
/// line that is longer than anybody noted stays as it is.
#[tokio::test]
async fn a_new_life_does_not_let_latecomers_in_front() {
    let shop = Shop::open(&[3]).await;
    let truth = |late| Truth {
        late,
        ..Truth::default()
    };
    let arrive = async |pass: &str| {
        let pass = pass.parse().unwrap();
        shop.gate.arrive(shop.tag(0), &pass).await.unwrap()
    };
    let shop = &shop.anew(0, &truth(40)).await;
    assert_eq!(arrive("pass-first").await, 41);
    shop.anew(0, &truth(7)).await;
    assert_eq!(arrive("pass-second").await, 42);
    assert_eq!(arrive("pass-first").await, 41);
}
