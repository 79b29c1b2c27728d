//! What breaks, and how it is broken.

use std::time::Duration;

use domain::BucketId;
use domain::slot::slot;
use jiff::SignedDuration;
use local::{Faults, GateServers, Options, System};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::faults::run::Stage;
use crate::wire::Trouble;

/// How far clocks are off.
const APART: SignedDuration = SignedDuration::from_secs(5);
/// How long workers and sweepers stay dead; twice.
const DEAD: Duration = Duration::from_secs(10);
/// How long a primary that was cut off goes on beside its successor.
const TWO_PRIMARIES: Duration = Duration::from_secs(3);

/// What breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: what the others are compared with.
    Nothing,
    /// A primary is killed.
    Primary,
    /// Two primaries are killed.
    Primaries,
    /// A primary is cut off from all other nodes, while clients reach it; it
    /// takes claims beside its successor until it is back.
    Partition,
    /// Every node forgets all scripts.
    Flush,
    /// A bucket's slot moves to another primary.
    Migration,
    /// Messages are delivered one to five times, at any time until after the
    /// pay window.
    Duplicates,
    /// Answers of the ledger are lost after the request was carried out.
    LedgerAnswers,
    /// Answers of the gates are lost, each with its connection.
    GateAnswers,
    /// All nodes are killed at once and come back empty.
    Cache,
    /// The payment provider is slow, refuses, loses answers and does things
    /// twice.
    Provider,
    /// Clocks are up to ten seconds apart.
    Clocks,
    /// Order workers and sweepers are killed twice, and stay away.
    Workers,
}

impl Fault {
    /// Every one, the run without a fault first.
    pub const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Primary,
        Self::Primaries,
        Self::Partition,
        Self::Flush,
        Self::Migration,
        Self::Duplicates,
        Self::LedgerAnswers,
        Self::GateAnswers,
        Self::Cache,
        Self::Provider,
        Self::Clocks,
        Self::Workers,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Primary => "primary",
            Self::Primaries => "primaries",
            Self::Partition => "partition",
            Self::Flush => "flush",
            Self::Migration => "migration",
            Self::Duplicates => "duplicates",
            Self::LedgerAnswers => "ledger-answers",
            Self::GateAnswers => "gate-answers",
            Self::Cache => "cache",
            Self::Provider => "provider",
            Self::Clocks => "clocks",
            Self::Workers => "workers",
        }
    }

    /// What is told of it in the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Primary => "a primary is killed",
            Self::Primaries => "two primaries are killed",
            Self::Partition => "a primary is cut off and takes claims beside its successor",
            Self::Flush => "all scripts are flushed",
            Self::Migration => "a bucket's slot moves",
            Self::Duplicates => "messages come 1 to 5 times, up to after the pay window",
            Self::LedgerAnswers => "5 % of the ledger's answers are lost",
            Self::GateAnswers => "1 % of the gates' answers are lost, with the connection",
            Self::Cache => "the whole cache is lost",
            Self::Provider => "the provider is slow, fails, and does things twice",
            Self::Clocks => "clocks are 5 s ahead, 5 s behind, and right",
            Self::Workers => "workers and sweepers are killed for 10 s, twice",
        }
    }

    /// What the system is started with.
    pub(crate) fn options(self, mut options: Options) -> Options {
        if self == Self::Clocks {
            options.skew_apart = APART;
        }
        options
    }

    /// Breaks it. Ends once it is broken, or mended again; gives the moment
    /// from which frozen buckets can be opened again, if that is not a
    /// promotion.
    pub(crate) async fn strike(self, on: &Stage) -> anyhow::Result<Option<Instant>> {
        let gate = on.gate();
        match self {
            Self::Nothing | Self::Clocks => return Ok(None),
            Self::Primary => gate.kill(0),
            Self::Primaries => {
                gate.kill(0);
                gate.kill(on.primaries / 2);
            }
            Self::Partition => return partition(on).await.map(Some),
            Self::Flush => {
                let nodes = gate.ports().len();
                let flush = move || (0..nodes).try_for_each(|node| flush(&gate, node));
                spawn_blocking(flush).await??;
            }
            Self::Migration => return migrate(on).await.map(Some),
            Self::Duplicates => on.system.queue()?.set_faults(Faults {
                stray_copies: 4,
                stray_within: on.scale.pay_window().mul_f64(1.5),
                ..Faults::default()
            }),
            Self::LedgerAnswers => on.ledger_wire.trouble(Trouble {
                unanswered: 0.05,
                ..Trouble::default()
            }),
            Self::GateAnswers => {
                on.gate_wires.lose_answers(0.01);
                sleep(DEAD).await;
                on.gate_wires.lose_answers(0.0);
            }
            Self::Cache => {
                let restart = move || {
                    let nodes = gate.ports().len();
                    (0..nodes).for_each(|node| gate.kill(node));
                    (0..nodes).try_for_each(|node| gate.restart(node))
                };
                spawn_blocking(restart).await??;
            }
            Self::Provider => on.ledger_wire.trouble(Trouble {
                only: Some("SANDBOX#"),
                refused: 0.05,
                unanswered: 0.05,
                twice: 0.1,
                late: 0.2,
                late_by: Duration::from_millis(1_500),
            }),
            Self::Workers => workers(&on.system).await?,
        }
        let is_sudden = matches!(self, Self::Flush | Self::Cache);
        Ok(is_sudden.then(Instant::now))
    }

    /// Primaries whose claims it strikes; `None`: all, or none in particular.
    pub(crate) fn primaries(self, of: usize) -> Vec<usize> {
        match self {
            Self::Primary | Self::Partition => vec![0],
            Self::Primaries => vec![0, of / 2],
            Self::Flush | Self::Cache => (0..of).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a replica is to take over.
    pub(crate) fn promotes(self) -> bool {
        matches!(self, Self::Primary | Self::Primaries | Self::Partition)
    }
}

fn flush(gate: &GateServers, node: usize) -> anyhow::Result<()> {
    let mut connection = gate.connect(node)?;
    Ok(redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection)?)
}

/// The first primary alone on its side of a cut. It does not notice for a
/// minute, so it goes on taking claims of everyone who is connected; those who
/// start meanwhile find its successor.
async fn partition(on: &Stage) -> anyhow::Result<Instant> {
    let patience = |of: Duration| {
        let gate = on.gate();
        spawn_blocking(move || -> anyhow::Result<()> {
            let mut command = redis::cmd("CONFIG");
            command
                .arg("SET")
                .arg("cluster-node-timeout")
                .arg(of.as_millis() as u64);
            Ok(command.exec(&mut gate.connect(0)?)?)
        })
    };
    patience(Duration::from_secs(60)).await??;
    on.gate_wires.set_apart([0]);
    on.promoted(on.primaries).await;
    for function in ["claim-function", "sweeper-function"] {
        on.system.renew(function)?;
    }
    sleep(TWO_PRIMARIES).await;
    on.gate_wires.set_apart([]);
    patience(on.node_timeout).await??;
    Ok(Instant::now())
}

/// The slot of bucket 0 goes to the second primary after its own, with pauses
/// in which its keys are on both.
async fn migrate(on: &Stage) -> anyhow::Result<Instant> {
    let tag = on
        .gates()
        .of(BucketId(0))
        .map(|address| address.tag.clone());
    let slot = slot(&tag.unwrap_or_default());
    let (gate, primaries) = (on.gate(), on.primaries);
    let pause = || std::thread::sleep(Duration::from_millis(500));
    spawn_blocking(move || {
        let owner = gate.owner_of(slot, 0)?;
        let migration = gate.migration(slot, (owner + 2) % primaries)?;
        migration.begin()?;
        pause();
        while migration.move_keys(1)? > 0 {
            pause();
        }
        migration.finish()?;
        anyhow::Ok(Instant::now())
    })
    .await?
}

async fn workers(system: &System) -> anyhow::Result<()> {
    for _ in 0..2 {
        for function in ["order-function", "sweeper-function"] {
            system.kill(function)?;
        }
        sleep(DEAD).await;
        for function in ["order-function", "sweeper-function"] {
            system.revive(function)?;
        }
        sleep(DEAD).await;
    }
    Ok(())
}
