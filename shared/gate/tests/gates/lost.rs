//! Answers that are lost, and requests that are therefore sent again.

use std::time::Duration;

use futures::future::join_all;
use testing::GateServers;
use testing::gate_servers::Plan;

use crate::outages::info;
use crate::shop::{KEY, Shop, wish};

/// An overflow bucket's primary is slow: the answer of the claim is lost, not
/// the claim. The home bucket would then wait for the retry; the overflow goes
/// on to the next bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_elsewhere_is_no_second_unit() {
    let plan = Plan {
        primaries: 3,
        replicas: 0,
        node_timeout: Duration::from_secs(15),
        ..Plan::default()
    };
    let servers = GateServers::start(&plan).unwrap();
    let shop = Shop::spread(&servers, &[0, 1, 1]).await;
    let me = wish(&shop.at_home(0, 0), KEY);
    // Whichever server has bucket 1 delays its writes for a while.
    let mut connection = servers.connect(shop.server_of(&servers, 1)).unwrap();
    redis::cmd("CLIENT")
        .arg("PAUSE")
        .arg(2_500)
        .arg("WRITE")
        .exec(&mut connection)
        .unwrap();
    let first = shop.buy(&me).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let again = shop.buy(&me).await;
    let left = shop.left_of_all().await;
    assert_eq!(
        left.iter().sum::<u64>(),
        1,
        "{left:?} after {first:?}, then {again:?}"
    );
}

/// A node that stalls for longer than an answer may take carries out what was sent
/// to it meanwhile, repetitions included: units are moved once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_are_moved_twice_over_the_wire_are_moved_once() {
    let servers = testing::gates::start();
    let shop = Shop::on(&servers, &[40]).await;
    let (gate, address) = (&shop.gate, shop.address(0));
    let carried_out = || info(&servers, 0, "commandstats", "cmdstat_eval:calls=");
    // The client repeats what was not answered once it has something else to send.
    let others = || {
        join_all((1..8).map(|n| async move {
            tokio::time::sleep(Duration::from_millis(100) * n).await;
            let _ = gate.look(&address.tag).await;
        }))
    };
    // Connected before: else the first attempts are not sent at all.
    gate.take(address, 0).await.unwrap();
    let moved = async |puts, takes| {
        let before = carried_out();
        let mut connection = servers.connect(0).unwrap();
        let mut pause = redis::cmd("CLIENT");
        pause.arg("PAUSE").arg(800).arg("WRITE");
        pause.exec(&mut connection).unwrap();
        let move_units = async {
            match puts {
                0 => gate.take(address, takes).await.map(drop),
                units => gate.put(address, units).await,
            }
        };
        let (answer, _) = tokio::join!(move_units, others());
        tokio::time::sleep(Duration::from_secs(1)).await;
        (answer, shop.left(0).await, carried_out() - before)
    };
    let mut left = 40;
    for (puts, takes) in [(3, 0), (0, 2)] {
        let mut times = 0;
        for _ in 0..10 {
            let (answer, is, carried_out) = moved(puts, takes).await;
            left = left + puts - takes;
            assert_eq!(is, u64::from(left), "{carried_out} times, {answer:?}");
            times = carried_out;
            if times > 1 {
                break;
            }
        }
        assert!(times > 1, "it was never repeated");
    }
    // Two moves are two.
    gate.put(address, 3).await.unwrap();
    gate.put(address, 3).await.unwrap();
    assert_eq!(shop.left(0).await, u64::from(left) + 6);
}
