//! An answer that is lost on the way from an overflow bucket.

use std::time::Duration;

use domain::BucketId;
use domain::slot::{GateAddress, Gates, tag};
use gate::Gate;
use gate::upkeep::Truth;
use testing::gate_servers::Plan;
use testing::{GateServers, gates};

use crate::shop::{KEY, Shop, wish};

async fn spread(servers: &GateServers, capacities: &[u32]) -> Shop {
    let environment = gates::environment(servers);
    let gate = Gate::connect(&environment).unwrap();
    let sale = gates::unique_sale();
    let owned = gate.primaries().await.unwrap();
    let mut addresses = Vec::new();
    for (n, &left) in capacities.iter().enumerate() {
        let tag = tag(&sale, BucketId(n as u16), &owned[n % owned.len()]);
        let address = GateAddress { tag, epoch: 1 };
        gate.load(
            &address,
            &Truth {
                left,
                ..Truth::default()
            },
        )
        .await
        .unwrap();
        addresses.push(address);
    }
    Shop {
        environment,
        gate,
        sale,
        gates: Gates { addresses },
    }
}

/// An overflow bucket's primary is slow: the answer of the claim is lost, not
/// the claim. The home bucket would then wait for the retry; the overflow goes
/// on to the next bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_elsewhere_is_no_second_unit() {
    let plan = Plan {
        program: None,
        primaries: 3,
        replicas: 0,
        node_timeout: Duration::from_secs(15),
        secure: false,
    };
    let servers = GateServers::start(&plan).unwrap();
    let shop = spread(&servers, &[0, 1, 1]).await;
    let me = wish(&shop.at_home(0, 0), KEY);
    // Whichever server has bucket 1 delays its writes for a while.
    for index in 0..servers.primaries() {
        let mut connection = servers.connect(index).unwrap();
        let here = redis::cmd("HGET")
            .arg(format!("{{{}}}:stock", shop.tag(1)))
            .arg("left")
            .query::<String>(&mut connection);
        if here.is_ok() {
            redis::cmd("CLIENT")
                .arg("PAUSE")
                .arg(2_500)
                .arg("WRITE")
                .exec(&mut connection)
                .unwrap();
        }
    }
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
