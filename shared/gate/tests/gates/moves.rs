//! J06: a bucket's slot moves while it is claimed from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::slot::slot;
use gate::upkeep::{Known, Truth};
use gate::{Decision, Error};
use testing::gate_servers::Plan;
use testing::{GateServers, Migration};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::shop::{KEY, Shop, claimed, wish};

const UNITS: u32 = 250;

/// What claims came to.
#[derive(Debug, Default)]
struct Count {
    yes: AtomicU64,
    refused: AtomicU64,
    asked: AtomicU64,
    stop: AtomicBool,
}

/// Claims one after the other until told to stop; everyone once more if nobody
/// knows what became of it.
async fn rush(shop: &Shop, count: &Count) {
    while !count.stop.load(Ordering::Relaxed) {
        let n = count.asked.fetch_add(1, Ordering::Relaxed);
        let shopper = wish(&format!("u-{n}"), KEY);
        let mut answer = shop.claim(0, &shopper).await;
        for _ in 0..40 {
            if !matches!(answer, Err(Error::Unavailable(_))) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
            answer = shop.claim(0, &shopper).await;
        }
        match answer {
            Ok(Decision::Claimed(_) | Decision::Same(_)) => &count.yes,
            Ok(Decision::Empty) | Err(Error::Frozen | Error::NotReady) => &count.refused,
            other => panic!("{other:?}"),
        }
        .fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(4)).await;
    }
}

async fn beside<T: Send + 'static>(
    shop: &Shop,
    count: &Arc<Count>,
    move_it: impl FnOnce() -> T + Send + 'static,
) -> T {
    count.stop.store(false, Ordering::Relaxed);
    let rushes: Vec<_> = (0..4)
        .map(|_| {
            let (shop, count) = (shop.clone(), Arc::clone(count));
            tokio::spawn(async move { rush(&shop, &count).await })
        })
        .collect();
    let moved = spawn_blocking(move_it).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    count.stop.store(true, Ordering::Relaxed);
    for rush in rushes {
        rush.await.unwrap();
    }
    moved
}

fn pause() {
    std::thread::sleep(Duration::from_millis(150));
}

fn half(migration: &Migration<'_>) {
    migration.begin().unwrap();
    pause();
    assert_eq!(migration.move_keys(1).unwrap(), 1);
    pause();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_gives_no_unit_twice_and_loses_none() {
    let servers = GateServers::start(&Plan {
        primaries: 3,
        replicas: 0,
        ..Plan::default()
    });
    let servers = Arc::new(servers.unwrap());
    let shop = Shop::spread(&servers, &[UNITS]).await;
    let slot = slot(shop.tag(0));
    let owner = shop.server_of(&servers, 0);
    let (next, count) = ((owner + 1) % 3, Arc::new(Count::default()));

    // Before the first claim, when there are no deadlines yet; and given up
    // half-way, with the counter on one side and nothing on the other.
    let moving = Arc::clone(&servers);
    spawn_blocking(move || half(&moving.migration(slot, next).unwrap()))
        .await
        .unwrap();
    let moving = Arc::clone(&servers);
    beside(&shop, &count, move || {
        pause();
        moving.migration(slot, next).unwrap().give_up().unwrap();
    })
    .await;
    let yes = count.yes.load(Ordering::Relaxed);
    assert!(yes > 0, "{count:?}");
    assert_eq!(shop.left(0).await, u64::from(UNITS) - yes);
    assert!(shop.gate.is_open(shop.address(0)).await.unwrap());

    // In the middle of the rush, to the end.
    let moving = Arc::clone(&servers);
    beside(&shop, &count, move || {
        let migration = moving.migration(slot, next).unwrap();
        half(&migration);
        while migration.move_keys(1).unwrap() > 0 {}
        migration.finish().unwrap();
    })
    .await;
    assert_eq!(shop.server_of(&servers, 0), next);
    let yes = count.yes.load(Ordering::Relaxed);
    // The script stayed behind: nothing is given until somebody has made the
    // counter true; the keys are all there.
    assert!(!shop.gate.is_open(shop.address(0)).await.unwrap());
    let answer = shop.claim(0, &wish("after", KEY)).await;
    assert!(matches!(answer, Err(Error::Frozen)), "{answer:?}");
    let (view, holds) = shop.gate.holds(shop.tag(0)).await.unwrap();
    assert_eq!((view.left, view.taken), (u64::from(UNITS) - yes, yes));
    assert_eq!(holds.len() as u64, yes);
    let known = holds.into_iter().map(|hold| Known {
        due: Some(hold.pay_by),
        hold,
        counts: true,
    });
    let truth = Truth {
        left: view.left as u32,
        taken: view.taken as u32,
        claims: known.collect(),
        ..Truth::default()
    };
    let shop = shop.anew(0, &truth).await;
    let begun = Instant::now();
    claimed(shop.claim(0, &wish("after", KEY)).await);
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert_eq!(shop.left(0).await, u64::from(UNITS) - yes - 1);
}
