//! Looks at the gates from the side, a few times a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::slot::Gates;
use domain::{BucketId, SaleId};
use gate::Gate;
use ledger::Ledger;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Pause between two looks, and so how exact times are.
const LOOK: Duration = Duration::from_millis(100);

/// What was seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// By bucket: when it was found open or closed, each time that changed.
    pub(crate) buckets: BTreeMap<BucketId, Vec<(Instant, bool)>>,
    /// By node: when it was first a primary.
    pub(crate) promoted: BTreeMap<usize, Instant>,
}

/// Looks until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    gates: watch::Receiver<Gates>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Looks at every bucket of a sale and at nodes that may be promoted.
    pub(crate) async fn start(
        gate: Gate,
        ledger: Ledger,
        sale: &SaleId,
        replicas: &[(usize, u16)],
    ) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let first = ledger.gates(sale).await?.unwrap_or_default();
        let (publish, gates) = watch::channel(first.clone());
        let mut tasks = Vec::new();
        let of = sale.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                if let Ok(Some(now)) = ledger.gates(&of).await {
                    publish.send_replace(now);
                }
                sleep(LOOK).await;
            }
        }));
        for (bucket, _) in first.iter() {
            let (gate, gates, seen) = (gate.clone(), gates.clone(), Arc::clone(&seen));
            tasks.push(tokio::spawn(look_at(gate, gates, bucket, seen)));
        }
        for &(node, port) in replicas {
            let seen = Arc::clone(&seen);
            tasks.push(tokio::spawn(async move {
                while !is_primary(port).await {
                    sleep(LOOK).await;
                }
                lock(&seen).promoted.insert(node, Instant::now());
            }));
        }
        Ok(Self { seen, gates, tasks })
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Where the gates are by now.
    pub(crate) fn gates(&self) -> Gates {
        self.gates.borrow().clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn look_at(gate: Gate, gates: watch::Receiver<Gates>, id: BucketId, seen: Arc<Mutex<Seen>>) {
    loop {
        let address = gates.borrow().of(id).cloned();
        let Some(address) = address else { return };
        let open = gate.is_open(&address).await;
        // Out of reach is not frozen, and a life that began meanwhile is looked
        // at the next time.
        if let Ok(open) = open
            && gates.borrow().of(id) == Some(&address)
        {
            let mut seen = lock(&seen);
            let was = seen.buckets.entry(id).or_default();
            if was.last().map(|(_, open)| *open) != Some(open) {
                was.push((Instant::now(), open));
            }
        }
        sleep(LOOK).await;
    }
}

async fn is_primary(port: u16) -> bool {
    let asked = async {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).ok()?;
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut connection).await.ok()?;
        let role = role.into_iter().next()?;
        let role: String = redis::FromRedisValue::from_redis_value(role).ok()?;
        Some(role == "master")
    };
    let answer = timeout(Duration::from_secs(1), asked).await;
    answer.ok().flatten().unwrap_or(false)
}
