//! The fence taken out. A primary takes claims that its replica does not hear
//! of, and dies: with the fence the replica gives nothing; without it every
//! unit is given twice, the ledger's cap stops that; without the cap, too,
//! nothing does.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::sync::Arc;
use std::time::Duration;

use domain::order::VoidReason;
use domain::slot::slot;
use domain::{BucketId, Order};
use futures::future::join_all;
use gate::{Ask, Decision, Error, Hold};
use jiff::SignedDuration;
use ledger::orders::Outcome;
use ledger::{Transaction, key};
use local::GateServers;
use serde_json::json;
use testing::World;
use testing::gate_servers::Plan;
use tests::eventually;
use tests::wire::ClusterWires;
use tokio::task::spawn_blocking;

const UNITS: u32 = 20;
const PRIMARIES: usize = 3;
const PATIENCE_S: u64 = 30;

/// One bucket on a cluster whose primaries can be cut off.
struct Stage {
    wires: ClusterWires,
    servers: Arc<GateServers>,
    world: World,
    /// The bucket's primary, and the replica that takes over.
    primary: usize,
    replica: usize,
}

impl Stage {
    async fn set() -> Self {
        let wires = ClusterWires::new(PRIMARIES * 2, 1).await;
        let plan = Plan {
            primaries: PRIMARIES,
            node_timeout: Duration::from_secs(2),
            ports: wires.ports(),
            ..Plan::default()
        };
        let servers = spawn_blocking(move || GateServers::start(&plan).unwrap());
        let servers = Arc::new(servers.await.unwrap());
        let world = World::new(&servers, &[UNITS], json!({})).await;
        let slot = slot(&world.address(0).tag);
        let asked = Arc::clone(&servers);
        let owner = spawn_blocking(move || asked.owner_of(slot, 0).unwrap());
        let primary = owner.await.unwrap();
        let stage = Self {
            wires,
            servers,
            world,
            primary,
            replica: primary + PRIMARIES,
        };
        stage.replicated().await;
        stage
    }

    /// Waits until the replica knows what was loaded.
    async fn replicated(&self) {
        let key = format!("{{{}}}:stock", self.world.address(0).tag);
        eventually("the replica is up to date", PATIENCE_S, async || {
            let (servers, replica, key) = (Arc::clone(&self.servers), self.replica, key.clone());
            let has = spawn_blocking(move || -> bool {
                let mut connection = servers.connect(replica).unwrap();
                redis::cmd("READONLY").exec(&mut connection).unwrap();
                let exists = redis::cmd("EXISTS").arg(key).query(&mut connection);
                exists.unwrap()
            });
            has.await.unwrap().then_some(())
        })
        .await;
    }

    /// From now on the replica hears nothing.
    fn cut(&self) {
        self.wires.set_apart([self.primary]);
    }

    /// The primary dies; its replica takes over.
    async fn fail_over(&self) {
        self.servers.kill(self.primary);
        eventually("the replica takes over", PATIENCE_S, async || {
            let (servers, replica) = (Arc::clone(&self.servers), self.replica);
            let is = spawn_blocking(move || servers.is_primary(replica).unwrap());
            is.await.unwrap().then_some(())
        })
        .await;
    }

    /// Everyone claims as a function does.
    async fn claim(&self, who: &str) -> Vec<Result<Decision, Error>> {
        let bucket = self.world.gate.bucket(self.world.address(0));
        let claims = (0..UNITS).map(|n| {
            let (bucket, shopper) = (bucket.clone(), format!("{who}-{n}"));
            async move {
                let ask = Ask {
                    shopper: &shopper.parse().unwrap(),
                    claim: &self.world.claim_id(0, &shopper),
                    quantity: 1,
                    limit: 1,
                    pay_by: self.world.now() + SignedDuration::from_mins(10),
                    rate_per_s: None,
                };
                bucket.claim(&ask).await
            }
        });
        join_all(claims).await
    }

    /// Everyone claims without a fence: one text for all buckets and lives,
    /// which whoever misses it loads.
    async fn claim_unfenced(&self, who: &str, node: usize) -> Vec<Hold> {
        let script = redis::Script::new(&unfenced());
        let url = format!("redis://127.0.0.1:{}", self.servers.ports()[node]);
        let client = redis::Client::open(url).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let tag = &self.world.address(0).tag;
        let claims = (0..UNITS).map(|n| {
            let (mut connection, shopper) = (connection.clone(), format!("{who}-{n}"));
            let mut call = script.key(format!("{{{tag}}}:stock"));
            call.key(format!("{{{tag}}}:due"));
            call.key(format!("{{{tag}}}:rate"));
            let claim = self.world.claim_id(0, &shopper);
            let pay_by = self.world.now() + SignedDuration::from_mins(10);
            call.arg(&shopper)
                .arg(claim.to_string())
                .arg(claim.digest());
            call.arg(1).arg(1).arg(pay_by.as_millisecond());
            call.arg("take").arg(0).arg(0);
            async move {
                let answer: Vec<String> = call.invoke_async(&mut connection).await.unwrap();
                assert_eq!(answer[0], "CLAIMED");
                answer[1].parse::<Hold>().unwrap()
            }
        });
        join_all(claims).await
    }
}

/// The claim script as it would be without its fence: neither bucket nor epoch
/// in its text, and no comparison.
fn unfenced() -> String {
    const FENCE: &str = "if epoch ~= EPOCH then return {'STALE'} end\n";
    const NAMES: &str = "local BUCKET, EPOCH = '@BUCKET@', '@EPOCH@'\n";
    let script = include_str!("../../lua/claim.lua");
    assert!(script.contains(FENCE) && script.contains(NAMES));
    script.replace(FENCE, "").replace(NAMES, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_fence_a_replica_gives_nothing_until_it_is_recovered() {
    let stage = Stage::set().await;
    stage.cut();
    for answer in stage.claim("first").await {
        assert!(matches!(answer, Ok(Decision::Claimed(_))), "{answer:?}");
    }
    stage.fail_over().await;
    // While the client finds the replica, it may hear nothing.
    eventually("the replica answers", PATIENCE_S, async || {
        let answers = stage.claim("second").await;
        for answer in &answers {
            let refused = matches!(answer, Err(Error::Frozen | Error::Unavailable(_)));
            assert!(refused, "{answer:?}");
        }
        let frozen = |answer: &_| matches!(answer, Err(Error::Frozen));
        answers.iter().all(frozen).then_some(())
    })
    .await;
    // It would have had them all: nothing of the first ones has come over.
    assert_eq!(stage.world.left(0).await, u64::from(UNITS));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_fence_units_are_given_twice_and_only_the_cap_is_left() {
    let stage = Stage::set().await;
    stage.cut();
    let mut yes = stage.claim_unfenced("first", stage.primary).await;
    stage.fail_over().await;
    yes.extend(stage.claim_unfenced("second", stage.replica).await);
    assert_eq!(yes.len() as u32, 2 * UNITS, "of {UNITS} units, by the gate");

    let (ledger, sale) = (&stage.world.ledger, &stage.world.sale);
    let orders = join_all(yes.iter().map(|hold| stage.world.unwritten(hold))).await;
    let (mut created, mut refused) = (0, 0);
    for batch in orders.chunks(10) {
        let written = ledger.create_orders(sale, BucketId(0), 1, 1, batch).await;
        for outcome in written.unwrap() {
            match outcome {
                Outcome::Created => created += 1,
                Outcome::Refused(VoidReason::Cap) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((created, refused), (UNITS, UNITS));
    assert_eq!(stage.world.allotted(0).await, UNITS);

    // The cap taken out, too: the same yeses in a ledger that takes them all.
    let (_environment, uncapped) = testing::ledger().await;
    for order in &orders {
        write_uncapped(&uncapped, order).await;
    }
    let partition = key::bucket_partition(sale, BucketId(0));
    let written = uncapped.table().query(&partition, key::ORDER_PREFIX).await;
    assert_eq!(
        written.unwrap().len() as u32,
        2 * UNITS,
        "of {UNITS}: oversold"
    );
}

/// An order's transaction without the condition on the bucket.
async fn write_uncapped(ledger: &ledger::Ledger, order: &Order) {
    let mut writes = Transaction::new();
    let put = writes.put(&key::order(&order.claim), order).unwrap();
    put.only_new();
    writes
        .update(
            &key::bucket(order.claim.sale(), order.claim.bucket()),
            "ADD allotted :units, spare :less",
        )
        .number(":units", order.quantity)
        .number(":less", -i64::from(order.quantity));
    ledger.table().write(&writes).await.unwrap().unwrap();
}
