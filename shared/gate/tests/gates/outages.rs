//! Nodes that do not answer, connections that died, keys that are gone.

use std::time::Duration;

use futures::future::join_all;
use gate::{Decision, Error, Gate, Release};
use testing::GateServers;
use testing::gate_servers::Plan;
use tokio::time::{Instant, sleep};

use crate::shop::{KEY, OTHER_KEY, Shop, claimed, wish};

/// No call waits longer for a gate: far from the minute that clients have been
/// seen to wait, far above what a busy machine adds.
const LONGEST: Duration = Duration::from_secs(8);

fn three() -> GateServers {
    GateServers::start(&Plan {
        primaries: 3,
        replicas: 0,
        ..Plan::default()
    })
    .unwrap()
}

/// A command to one node, past the cluster's client.
fn tell(servers: &GateServers, node: usize, command: &[&str]) {
    let (name, arguments) = command.split_first().unwrap();
    let mut connection = servers.connect(node).unwrap();
    redis::cmd(name)
        .arg(arguments)
        .exec(&mut connection)
        .unwrap();
}

/// A number of a node's `INFO`, or of what a line of it begins with.
pub(crate) fn info(servers: &GateServers, node: usize, section: &str, name: &str) -> u64 {
    let mut connection = servers.connect(node).unwrap();
    let info: String = redis::cmd("INFO")
        .arg(section)
        .query(&mut connection)
        .unwrap();
    let mut lines = info.lines();
    let value = lines
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or("0");
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

async fn timed(shop: &Shop, bucket: u16, shopper: &str) -> Result<Decision, Error> {
    let begun = Instant::now();
    let answer = shop.claim(bucket, &wish(shopper, KEY)).await;
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    answer
}

/// Asked again as a shopper is told to, it is a yes in the end.
async fn claimed_in_the_end(shop: &Shop, bucket: u16, shopper: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match timed(shop, bucket, shopper).await {
            Ok(Decision::Claimed(_) | Decision::Same(_)) => return,
            Err(Error::Unavailable(_)) if Instant::now() < end => {
                sleep(Duration::from_millis(100)).await;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// All nodes die and come back. Every environment that lived through it is served
/// by every node again; without another connection some are not, ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_stays_deaf_when_all_nodes_have_died() {
    const ENVIRONMENTS: usize = 32;
    const OUTAGES: usize = 4;
    let servers = GateServers::start(&Plan {
        primaries: 4,
        replicas: 1,
        ..Plan::default()
    })
    .unwrap();
    let environment = testing::gates::environment(&servers);
    let gates: Vec<_> = (0..ENVIRONMENTS)
        .map(|_| Gate::connect(&environment).unwrap())
        .collect();
    let shop = Shop::spread(&servers, &[1; 4]).await;
    let tags: Vec<_> = (0..4)
        .map(|bucket| shop.address(bucket).tag.clone())
        .collect();
    // An answer is one whatever it says: there are no counters any more.
    let answers = async |gate: &Gate| {
        let looks = tags.iter().map(|tag| gate.look(tag));
        let looks = join_all(looks).await.into_iter();
        looks
            .filter(|look| !matches!(look, Err(Error::Unavailable(_))))
            .count()
    };
    for _ in 0..OUTAGES {
        let (over, watched) = tokio::sync::watch::channel(false);
        let environments = gates.iter().map(|gate| {
            let (answers, buckets, watched) = (&answers, tags.len(), watched.clone());
            async move {
                while !*watched.borrow() {
                    answers(gate).await;
                }
                let end = Instant::now() + Duration::from_secs(20);
                while answers(gate).await < buckets {
                    assert!(Instant::now() < end, "an environment is not served");
                    sleep(Duration::from_millis(500)).await;
                }
            }
        });
        let outage = async {
            sleep(Duration::from_secs(1)).await;
            tokio::task::block_in_place(|| {
                let nodes = servers.ports().len();
                (0..nodes).for_each(|node| servers.kill(node));
                (0..nodes).for_each(|node| servers.restart(node).unwrap());
            });
            sleep(Duration::from_secs(3)).await;
            over.send(true).unwrap();
        };
        tokio::join!(join_all(environments), outage);
    }
}

/// J03: nodes swallow what they are sent. Others answer, and nobody waits for
/// a minute, whether connected before or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_swallows_everything_holds_nobody_up_for_long() {
    let servers = three();
    let shop = Shop::spread(&servers, &[40, 40, 40]).await;
    for bucket in 0..3 {
        claimed(shop.claim(bucket, &wish("early", KEY)).await);
    }
    let silent = [shop.server_of(&servers, 0), shop.server_of(&servers, 1)];
    for (count, node) in silent.into_iter().enumerate() {
        servers.pause(node);
        let warm = join_all((0..10).map(|n| {
            let (shop, name) = (&shop, format!("warm-{count}-{n}"));
            async move { timed(shop, 0, &name).await }
        }));
        for answer in warm.await {
            assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
        }
        claimed(timed(&shop, 2, &format!("warm-{count}")).await);

        let cold = Shop {
            gate: Gate::connect(&shop.environment).unwrap(),
            ..shop.clone()
        };
        let answer = timed(&cold, 0, &format!("cold-{count}")).await;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
        claimed_in_the_end(&cold, 2, &format!("cold-{count}")).await;
    }
    silent.into_iter().for_each(|node| servers.resume(node));
    claimed_in_the_end(&shop, 0, "later").await;
    claimed_in_the_end(&shop, 1, "later").await;
}

/// J04: a connection that died between two calls costs one call at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_connection_is_replaced() {
    let servers = testing::gates::start();
    let shop = Shop::on(&servers, &[40]).await;
    for n in 0..5 {
        claimed_in_the_end(&shop, 0, &format!("u-{n}")).await;
        tell(
            &servers,
            0,
            &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        );
        let shopper = wish(&format!("v-{n}"), KEY);
        let first = shop.claim(0, &shopper).await;
        let second = shop.claim(0, &shopper).await;
        let is_yes = |answer: &_| matches!(answer, Ok(Decision::Claimed(_) | Decision::Same(_)));
        assert!(is_yes(&second), "{first:?}, then {second:?}");
    }
    // Ten claims are ten units, whatever was sent twice.
    assert_eq!(shop.left(0).await, 30);
    // A server that was restarted answers again: frozen, for recovery to open.
    servers.restart(0).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match timed(&shop, 0, "late").await {
            Err(Error::Frozen) => break,
            Err(Error::Unavailable(_)) if Instant::now() < end => {
                sleep(Duration::from_millis(100)).await;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// J08: `WAIT` goes to the primary that decided, and only after a yes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_yes_waits_and_only_where_it_was_said() {
    let servers = GateServers::start(&Plan {
        primaries: 3,
        ..Plan::default()
    })
    .unwrap();
    let shop = Shop::spread(&servers, &[1, 1, 1]).await;
    let waits = || {
        let nodes = 0..servers.ports().len();
        let waits = nodes.map(|node| info(&servers, node, "commandstats", "cmdstat_wait:calls="));
        waits.collect::<Vec<_>>()
    };
    let held = claimed(shop.claim(1, &wish("u", KEY)).await);
    let empty = shop.claim(1, &wish("v", KEY)).await;
    assert!(matches!(empty, Ok(Decision::Empty)), "{empty:?}");
    assert_eq!(waits().iter().sum::<u64>(), 0);
    assert!(shop.bucket(1).replicated(&held.claim).await.unwrap());
    let mut expected = vec![0; servers.ports().len()];
    expected[shop.server_of(&servers, 1)] = 1;
    assert_eq!(waits(), expected);
}

/// J09: whichever key is lost, nothing is taken for empty or for full.
#[tokio::test]
async fn lost_keys_give_no_unit_and_take_none() {
    let servers = testing::gates::start();
    let delete = |shop: &Shop, key: &str| {
        tell(&servers, 0, &["DEL", &format!("{{{}}}:{key}", shop.tag(0))]);
    };
    for lost in [&["stock"][..], &["stock", "due"]] {
        let shop = Shop::on(&servers, &[5]).await;
        let held = claimed(shop.claim(0, &wish("u", KEY)).await).claim;
        lost.iter().for_each(|key| delete(&shop, key));
        for wish in [wish("u", KEY), wish("u", OTHER_KEY), wish("v", KEY)] {
            let answer = shop.claim(0, &wish).await;
            assert!(matches!(answer, Err(Error::NotReady)), "{answer:?}");
            let answer = shop.buy(&wish).await;
            assert!(answer.is_err(), "{answer:?}");
        }
        assert!(!shop.gate.is_open(shop.address(0)).await.unwrap());
        assert!(!shop.release(0, &held, Release::Lapsed).await, "{lost:?}");
        let view = shop.gate.look(shop.tag(0)).await;
        assert!(matches!(view, Err(Error::NotReady)), "{view:?}");
    }
    // Deadlines alone: claims go on, and what has none gives nothing back.
    let shop = Shop::on(&servers, &[5]).await;
    let held = claimed(shop.claim(0, &wish("u", KEY)).await).claim;
    delete(&shop, "due");
    assert!(!shop.release(0, &held, Release::Lapsed).await);
    claimed(shop.claim(0, &wish("v", KEY)).await);
    assert_eq!(shop.left(0).await, 3);
}

/// J09: no memory is no answer, not "sold out".
#[tokio::test]
async fn full_memory_refuses() {
    let servers = testing::gates::start();
    let shop = Shop::on(&servers, &[1]).await;
    tell(&servers, 0, &["CONFIG", "SET", "maxmemory", "1"]);
    for _ in 0..3 {
        let answer = shop.claim(0, &wish("u", KEY)).await;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(shop.left(0).await, 1);
    tell(&servers, 0, &["CONFIG", "SET", "maxmemory", "0"]);
    claimed(shop.claim(0, &wish("u", KEY)).await);
}

/// J10: an instance has one connection to a node, and none to replicas; those
/// that are refused one are told so, and nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_have_one_connection_to_a_primary() {
    const INSTANCES: u64 = 100;
    let servers = GateServers::start(&Plan {
        primaries: 2,
        ..Plan::default()
    })
    .unwrap();
    let shop = Shop::spread(&servers, &[250, 250]).await;
    let nodes = servers.ports().len();
    let clients = || -> Vec<u64> {
        let of = |node| info(&servers, node, "clients", "connected_clients:");
        (0..nodes).map(of).collect()
    };
    let before = clients();
    let instances: Vec<Shop> = (0..INSTANCES)
        .map(|_| Shop {
            gate: Gate::connect(&shop.environment).unwrap(),
            ..shop.clone()
        })
        .collect();
    let claims = instances.iter().enumerate().map(|(n, shop)| async move {
        for bucket in [0, 1] {
            claimed_in_the_end(shop, bucket, &format!("u-{n}")).await;
        }
    });
    join_all(claims).await;
    let after = clients();
    println!("connections of {INSTANCES} instances: {before:?}, then {after:?}");
    for (before, after) in before.iter().zip(&after).take(2) {
        assert!(*after <= before + INSTANCES + 10, "{after}");
    }
    // A primary that takes no more: refused, and well again afterwards.
    let bucket = (0..2).find(|bucket| shop.server_of(&servers, *bucket) == 0);
    let bucket = bucket.unwrap();
    let mut operator = servers.connect(0).unwrap();
    let mut allow = |most: u64| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxclients").arg(most);
        command.exec(&mut operator).unwrap();
    };
    allow(after[0] + 2);
    let late: Vec<Shop> = (0..20)
        .map(|_| Shop {
            gate: Gate::connect(&shop.environment).unwrap(),
            ..shop.clone()
        })
        .collect();
    let mut refused = 0;
    for (n, late) in late.iter().enumerate() {
        match timed(late, bucket, &format!("late-{n}")).await {
            Ok(Decision::Claimed(_)) => {}
            Err(Error::Unavailable(_)) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0);
    claimed_in_the_end(&instances[0], bucket, "as-before").await;
    allow(10_000);
    for (n, late) in late.iter().enumerate() {
        claimed_in_the_end(late, bucket, &format!("late-{n}")).await;
    }
}
