//! Everyone at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::BucketId;
use domain::bucket::home;
use gate::{Decision, Gate};
use redis::aio::MultiplexedConnection;
use testing::gates;

use crate::shop::{KEY, Shop, wish};

const INSTANCES: u64 = 16;
/// Calls of one instance at a time.
const PARALLEL: u64 = 16;

/// Runs so many attempts from many connections, and counts the yeses.
async fn crowd<S: Clone + Send + 'static, F: Future<Output = bool> + Send + 'static>(
    attempts: u64,
    instance: impl AsyncFn() -> S,
    attempt: impl Fn(S, u64) -> F + Send + Sync + Copy + 'static,
) -> u64 {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..INSTANCES {
        let state = instance().await;
        for _ in 0..PARALLEL {
            let (state, next) = (state.clone(), Arc::clone(&next));
            tasks.push(tokio::spawn(async move {
                let mut yes = 0;
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= attempts {
                        return yes;
                    }
                    yes += u64::from(attempt(state.clone(), n).await);
                }
            }));
        }
    }
    let mut yes = 0;
    for task in tasks {
        yes += task.await.unwrap();
    }
    yes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_units_are_a_thousand_yeses() {
    const ATTEMPTS: u64 = 200_000;
    let shop = Shop::open(&[250; 4]).await;
    let instance = async || {
        Arc::new(Shop {
            gate: Gate::connect(&shop.environment).unwrap(),
            ..shop.clone()
        })
    };
    let yes = crowd(ATTEMPTS, instance, |shop, n| async move {
        let wish = wish(&format!("u_{n}"), KEY);
        let BucketId(bucket) = home(&wish.shopper, 4);
        match shop.claim(bucket, &wish).await {
            Ok(Decision::Claimed(_)) => true,
            Ok(Decision::Empty) => false,
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(yes, 1_000);
    assert_eq!(shop.left_of_all().await, [0; 4]);
}

/// The same crowd, through overflow: no unit stays behind in a bucket whose
/// own shoppers are fewer than its units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overflow_sells_every_unit_once() {
    let shop = Arc::new(Shop::open(&[1, 200, 40, 9]).await);
    let instance = async || Arc::clone(&shop);
    let yes = crowd(5_000, instance, |shop, n| async move {
        match shop.buy(&wish(&format!("u_{n}"), KEY)).await {
            Ok(Decision::Claimed(_)) => true,
            Ok(Decision::Empty) => false,
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(yes, 250);
    assert_eq!(shop.left_of_all().await, [0; 4]);
}

/// The guard taken out: reading and writing are two commands, and the same
/// crowd buys more than there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_commands_in_place_of_the_script_oversell() {
    const UNITS: u64 = 100;
    let port = gates::shared().ports()[0];
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    for _ in 0..20 {
        let key = format!("{{{}}}:naive", gates::unique_sale());
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd("SET")
            .arg(&key)
            .arg(UNITS)
            .exec_async(&mut connection)
            .await
            .unwrap();
        let instance = async || {
            let connection = client.get_multiplexed_async_connection().await.unwrap();
            (connection, key.clone())
        };
        let yes = crowd(2_000, instance, |(connection, key), _| {
            claim_in_two(connection, key)
        })
        .await;
        if yes > UNITS {
            return;
        }
    }
    panic!("this harness would not notice an oversell");
}

async fn claim_in_two(mut connection: MultiplexedConnection, key: String) -> bool {
    let left: u64 = redis::cmd("GET")
        .arg(&key)
        .query_async(&mut connection)
        .await
        .unwrap();
    if left == 0 {
        return false;
    }
    redis::cmd("SET")
        .arg(&key)
        .arg(left - 1)
        .exec_async(&mut connection)
        .await
        .unwrap();
    true
}
