//! A primary that is gone, and its replica in its place.

use std::time::Duration;

use gate::Gate;
use testing::GateServers;
use testing::gate_servers::Plan;

use crate::shop::Shop;

/// An environment that reads whole buckets and nothing else, such as the
/// merchant's report, finds the promoted replica by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_bucket_can_be_read_after_a_failover() {
    let plan = Plan {
        primaries: 3,
        node_timeout: Duration::from_secs(2),
        ..Plan::default()
    };
    let servers = GateServers::start(&plan).unwrap();
    let shop = Shop::spread(&servers, &[1, 1, 1]).await;
    let reports = Gate::connect(&shop.environment).unwrap();
    reports.holds(shop.tag(0)).await.unwrap();
    servers.kill(shop.server_of(&servers, 0));

    let comes = async |of: &dyn Fn() -> Gate| {
        for _ in 0..60 {
            if of().holds(shop.tag(0)).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        false
    };
    assert!(comes(&|| Gate::connect(&shop.environment).unwrap()).await);
    assert!(comes(&|| reports.clone()).await);
}
