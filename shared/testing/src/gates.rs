//! Real gates: one cluster for all tests of a program, keys of its own for
//! each test.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::slot::{GateAddress, Gates, tag};
use domain::{BucketId, SaleId};
use gate::Gate;
use gate::upkeep::Truth;
use runtime::{Clock, Environment, Settings};

use crate::gate_servers::Plan;
use crate::{GateServers, with_variables};

/// One primary, which owns every slot, and one replica.
///
/// # Panics
/// If no server program is installed, or it does not start.
pub fn start() -> GateServers {
    started(false)
}

/// The same with TLS and a password.
///
/// # Panics
/// If no server program is installed, or it does not start.
pub fn start_secure() -> GateServers {
    started(true)
}

fn started(secure: bool) -> GateServers {
    GateServers::start(&Plan {
        secure,
        ..Plan::default()
    })
    .expect("a cluster")
}

/// The cluster that the tests of this program share. A test that stops a
/// server or flushes scripts needs one of its own: [`start`].
pub fn shared() -> &'static GateServers {
    static SERVERS: OnceLock<GateServers> = OnceLock::new();
    SERVERS.get_or_init(start)
}

/// The environment of a function that has the gates of a cluster and nothing
/// else.
pub fn environment(servers: &GateServers) -> Environment {
    let nothing = Environment {
        settings: Settings::default(),
        aws: aws_config::SdkConfig::builder().build(),
        clock: Clock::system(),
    };
    with_gates(&nothing, servers)
}

/// The same environment with the gates of a cluster.
pub fn with_gates(environment: &Environment, servers: &GateServers) -> Environment {
    let url = servers.url();
    // The machine that runs tests is busy: replicas get a second.
    let further = [("GATE_URL", url.as_str()), ("GATE_ACK_WAIT_MS", "1000")];
    with_variables(environment, &further)
}

/// A sale that no other test has: its keys are its own.
///
/// # Panics
/// Never: it is a name.
pub fn unique_sale() -> SaleId {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sale-{number}").parse().expect("a name")
}

/// Loads a gate for each capacity, in its first life, and says where they are.
///
/// # Panics
/// If the gates don't answer.
pub async fn load(gate: &Gate, sale: &SaleId, capacities: &[u32]) -> Gates {
    let mut addresses = Vec::new();
    for (bucket, &left) in (0u16..).map(BucketId).zip(capacities) {
        let address = GateAddress {
            tag: tag(sale, bucket, &[0..=domain::slot::SLOTS - 1]),
            epoch: 1,
        };
        let truth = Truth {
            left,
            ..Truth::default()
        };
        gate.load(&address, &truth).await.expect("an answer");
        addresses.push(address);
    }
    Gates { addresses }
}
