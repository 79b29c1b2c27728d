//! One sale, one fault.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::slot::Gates;
use drill::config::{Shares, Stripe};
use drill::{Config, Crowd, Mode, Progress, Target};
use gate::Gate;
use jiff::SignedDuration;
use ledger::Ledger;
use local::{GateServers, Options, System};
use tokio::time::{Instant, sleep};

use crate::faults::Fault;
use crate::faults::row::{self, Row};
use crate::faults::watch::Watch;
use crate::until;
use crate::wire::{ClusterWires, HttpWire};

/// So long after the opening it breaks.
const AFTER: SignedDuration = SignedDuration::from_secs(1);
/// How long a payment that was begun may take, in seconds.
const INTENT_S: u32 = 10;

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// On sale.
    pub units: u32,
    /// Who come.
    pub shoppers: u32,
    /// Counters, the same number on each primary.
    pub buckets: u16,
    /// Primaries, each with a replica.
    pub primaries: usize,
    /// Time to pay.
    pub pay_window_s: u32,
    /// Time to pay for those who come from the waitlist.
    pub waitlist_pay_window_s: u32,
    /// Percent who never pay.
    pub never_pay: f64,
    /// Of everything that is drawn.
    pub seed: u64,
}

impl Scale {
    /// What `make faults` runs.
    pub fn full() -> Self {
        Self {
            units: 4_000,
            shoppers: 5_000,
            buckets: 16,
            primaries: 8,
            pay_window_s: 40,
            waitlist_pay_window_s: 12,
            never_pay: 8.0,
            seed: 1,
        }
    }

    /// What the tests run.
    pub fn small() -> Self {
        Self {
            units: 240,
            shoppers: 320,
            buckets: 6,
            primaries: 3,
            pay_window_s: 8,
            waitlist_pay_window_s: 6,
            never_pay: 10.0,
            seed: 1,
        }
    }

    pub(crate) fn pay_window(&self) -> Duration {
        Duration::from_secs(self.pay_window_s.into())
    }

    fn crowd(&self, fault: Fault, sale: &domain::SaleId) -> Crowd {
        Crowd {
            shoppers: self.shoppers,
            units: self.units,
            buckets: Some(self.buckets),
            mode: Mode::Race,
            pay_window_s: Some(self.pay_window_s),
            waitlist_pay_window_s: Some(self.waitlist_pay_window_s),
            claim_spread_s: 1,
            passes_per_s: 700,
            // A busy machine is no stranded unit.
            sale_limit_s: Some(900),
            shares: Shares {
                never_pay: self.never_pay,
                webhook_copies_max: if fault == Fault::Provider { 5 } else { 3 },
                ..Crowd::default().shares
            },
            seed: self.seed,
            sale: Some(sale.clone()),
            ..Crowd::default()
        }
    }
}

/// A system whose wires go through us.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) scale: Scale,
    pub(crate) primaries: usize,
    pub(crate) node_timeout: Duration,
    pub(crate) system: System,
    pub(crate) gate_wires: ClusterWires,
    pub(crate) ledger_wire: HttpWire,
    watch: Option<Watch>,
    _queue_wire: HttpWire,
}

impl Stage {
    async fn set(fault: Fault, scale: Scale) -> anyhow::Result<Self> {
        let gate_wires = ClusterWires::new(scale.primaries * 2, scale.seed).await;
        let ledger_wire = HttpWire::new(scale.seed + 1).await;
        let queue_wire = HttpWire::new(scale.seed + 2).await;
        let endpoints = BTreeMap::from([
            ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), ledger_wire.url()),
            ("AWS_ENDPOINT_URL_SQS".to_owned(), queue_wire.url()),
        ]);
        let template = local::read_template(&local::own_template())?;
        let functions = template.functions.iter();
        let intents = ("PaymentIntentSeconds".to_owned(), INTENT_S.to_string());
        let options = fault.options(Options {
            primaries: scale.primaries,
            replicas: 1,
            // Where no replica is to take over, none does since a busy machine
            // kept a node from answering.
            node_timeout: Duration::from_secs(if fault.promotes() { 2 } else { 15 }),
            gate_ports: gate_wires.ports(),
            parameters: BTreeMap::from([intents]),
            settings: functions
                .map(|function| (function.id.clone(), endpoints.clone()))
                .collect(),
            ..Options::default()
        });
        let node_timeout = options.node_timeout;
        let system = System::start(options).await?;
        ledger_wire.lead_to(system.dynamodb_url());
        queue_wire.lead_to(system.sqs_url());
        Ok(Self {
            scale,
            primaries: scale.primaries,
            node_timeout,
            system,
            gate_wires,
            ledger_wire,
            watch: None,
            _queue_wire: queue_wire,
        })
    }

    pub(crate) fn gate(&self) -> Arc<GateServers> {
        Arc::clone(self.system.gate().expect("it runs"))
    }

    fn watch(&self) -> &Watch {
        self.watch.as_ref().expect("it is watched")
    }

    /// Where the gates are by now.
    pub(crate) fn gates(&self) -> Gates {
        self.watch().gates()
    }

    /// Waits until a node is a primary.
    pub(crate) async fn promoted(&self, node: usize) {
        while !self.watch().seen().promoted.contains_key(&node) {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs a sale in which something breaks, and audits it.
///
/// # Errors
/// The system does not start, or the sale can't be made or read.
pub async fn run(fault: Fault, scale: Scale) -> anyhow::Result<Row> {
    let mut stage = Stage::set(fault, scale).await?;
    let base_url = stage.system.base_url().to_owned();
    let sale: domain::SaleId = format!("faults-{}", fault.name()).parse()?;
    let config = Config {
        target: Target {
            token_url: format!("{base_url}/_dev/token"),
            admin_token: stage.system.admin_token()?,
            stripe: Stripe::default(),
            base_url,
        },
        crowd: scale.crowd(fault, &sale),
        progress: Progress::Quiet,
    };
    let drilling = tokio::spawn(drill::run(config));

    // Past the functions and their wires.
    let direct = stage
        .system
        .environment_of("sweeper-function", &Options::default())?;
    let ledger = Ledger::connect(&direct)?;
    let opens_at = loop {
        match ledger.sale(&sale).await? {
            Some(made) if made.loaded => break made.config.opens_at.at,
            _ if drilling.is_finished() => anyhow::bail!("there is no sale"),
            _ => sleep(Duration::from_millis(50)).await,
        }
    };
    let ports = stage.gate().ports();
    let replicas: Vec<_> = (scale.primaries..ports.len())
        .filter(|_| fault.promotes())
        .map(|node| (node, ports[node]))
        .collect();
    let watch = Watch::start(Gate::connect(&direct)?, ledger, &sale, &replicas).await?;
    stage.watch = Some(watch);

    until(opens_at + AFTER).await;
    let struck = Instant::now();
    let mended = fault.strike(&stage).await?;
    let outcome = drilling.await??;
    let row = row::of(&row::Run {
        fault,
        scale,
        opens_at,
        struck,
        mended,
        seen: stage.watch().seen(),
        gates: stage.gates(),
        troubled: stage.ledger_wire.hit(),
        outcome,
    });
    stage.watch = None;
    stage.system.stop().await;
    Ok(row)
}
