//! The sweeper: ends holds whose time is over, gives their units back, pays
//! refunds that are owed, and compares gates with the ledger.
//!
//! Any number of sweepers may run at once: every end of a hold is one
//! conditional transaction in the ledger, and at the gate only who removes the
//! deadline gives units back. A stop between the two is found by the next
//! sweep, which sees a deadline whose order has ended.

mod bucket;
mod compare;
mod payments;
mod rebalance;
mod tell;
mod watch;

use std::time::Duration;

use domain::slot::GateAddress;
use domain::{BucketId, SaleId};
use gate::Gate;
use jiff::Timestamp;
use ledger::Ledger;
use payment::Cashier;
use queue::Queue;
use runtime::{Clock, Environment, EventFunction, Invocation, Seldom, looks};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Deadlines are looked at this often. With the controller's interval and the
/// time that both take, a unit is offered again within two seconds of its
/// deadline.
const INTERVAL: Duration = Duration::from_millis(500);

/// Payments that are over are seen to when they are found, which is at least so long
/// apart: those of many buckets are found together.
const INTERVAL_PAYMENTS: Duration = Duration::from_millis(50);

/// Refunds are asked for again, and counters compared, this often.
const INTERVAL_UPKEEP: Duration = Duration::from_secs(5);

/// The sweeper function.
#[derive(Debug)]
pub struct SweeperFunction {
    cashier: Cashier,
    clock: Clock,
    gate: Gate,
    ledger: Ledger,
    /// Payments that are over.
    over: payments::Over,
    queue: Queue,
    /// Sweeps of a sale that were told of.
    told: Seldom<SaleId>,
}

/// One bucket of a sale that is looked after.
#[derive(Debug, Clone)]
struct Watched {
    sale: SaleId,
    bucket: BucketId,
    address: GateAddress,
    /// No hold ends before this: an operator extended the pay window.
    floor: Option<Timestamp>,
    /// Its units are being changed: what the gate gave up, the ledger gives up
    /// in a moment.
    resizing: bool,
    /// Claims are taken.
    sells: bool,
    /// Claims may have been taken while the gates were away.
    ledger_only: bool,
}

impl Watched {
    /// When a hold with this deadline ends.
    fn extended(&self, deadline: Timestamp) -> Timestamp {
        self.floor.map_or(deadline, |floor| deadline.max(floor))
    }
}

impl EventFunction for SweeperFunction {
    type Event = serde_json::Value;
    type Answer = ();

    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            cashier: Cashier::connect(environment, &ledger)?,
            clock: environment.clock,
            gate: Gate::connect(environment)?,
            over: payments::Over::default(),
            queue: Queue::connect(environment)?,
            told: Seldom::every(tell::INTERVAL),
            ledger,
        })
    }

    async fn handle(&self, _event: Self::Event, invocation: Invocation) -> anyhow::Result<()> {
        let end = invocation.end();
        let next = |any: bool, interval| any.then_some(interval);
        // The looks at deadlines alone say that there is no sale: another that saw a
        // newer list would go on by itself, in the place of a whole run.
        let none = Notify::new();
        let ends = async {
            let end_due = async || self.end_due().await.map(|any| next(any, INTERVAL));
            let ended = looks(self.clock, end, end_due).await;
            if self.clock.now() < end {
                none.notify_one();
            }
            ended
        };
        let closes = looks(self.clock, end, async || {
            let _ = timeout(INTERVAL, self.over.came()).await;
            self.close_over().await.map(|_| Some(INTERVAL_PAYMENTS))
        });
        let compares = looks(self.clock, end, async || {
            self.compare().await.map(|_| Some(INTERVAL_UPKEEP))
        });
        let refunds = looks(self.clock, end, async || {
            self.refund().await.map(|_| Some(INTERVAL_UPKEEP))
        });
        let others = async {
            tokio::select! {
                (closed, compared, refunded) =
                    async { tokio::join!(closes, compares, refunds) } =>
                    closed.and(compared).and(refunded),
                () = none.notified() => Ok(()),
            }
        };
        // Side by side, as four sweepers are: a comparison reads whole buckets, a
        // provider may be silent, and no deadline waits for either.
        let (ended, others) = tokio::join!(ends, others);
        ended.and(others)
    }
}
