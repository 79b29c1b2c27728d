//! What many histories share, one after the other: two gate servers, a table,
//! a queue, and functions at every hour that a history comes to.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use domain::config::SaleConfig;
use domain::slot::{GateAddress, Gates, SLOTS, tag};
use domain::{BucketId, Sale, SaleId};
use gate::Gate;
use gate::upkeep::Truth;
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use order_function::OrderFunction;
use payment::{Cashier, SandboxProvider};
use queue::Queue;
use redis::Connection;
use runtime::{Clock, Environment, EventFunction, Settings};
use serde_json::json;
use sweeper_function::SweeperFunction;
use testing::gate_servers::Plan;
use testing::{GateServers, Steps};
use tokio::runtime::Runtime;

use crate::proxy::{Proxy, Script};
use crate::services::{Edit, Services, TABLE};

/// Buckets of every sale, each on a primary of its own.
pub const BUCKETS: u16 = 2;

/// Time to pay, in seconds.
pub const PAY_WINDOW_S: u32 = 50;

/// What one unit costs, in paise.
pub const PRICE: u64 = 999_900;

/// How often a test asks the gates for an answer.
const PATIENCE: usize = 20;

/// How often a history, or a stop, may fail until it does.
const ATTEMPTS: usize = 3;

/// What is not as it should be, for controls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Twin {
    /// A guard of the ledger taken out.
    pub ledger: Option<Edit>,
    /// A guard of a script taken out.
    pub script: Option<Script>,
    /// A yes is told as soon as its message is stored.
    pub unlooked: bool,
}

/// Servers and functions for one history at a time.
pub struct Bench {
    /// What is not as it should be.
    pub twin: Twin,
    /// Runs everything.
    pub runtime: Runtime,
    /// The table and the queue.
    pub services: Services,
    /// What tests read the table with.
    pub ledger: Ledger,
    /// What tests read the gates with.
    pub gate: Gate,
    /// With which functions are started.
    pub environment: Environment,
    servers: GateServers,
    _proxy: Option<Proxy>,
    hours: Mutex<BTreeMap<i64, Arc<Hour>>>,
    sales: Mutex<(u64, Option<SaleId>)>,
}

/// Asks until there is an answer: a machine that is busy with other things is
/// slower than the gates' client waits.
///
/// # Panics
/// There is none.
pub async fn patiently<T, E: std::fmt::Debug>(ask: impl AsyncFn() -> Result<T, E>) -> T {
    let mut last = None;
    for _ in 0..PATIENCE {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => last = Some(error),
        }
    }
    panic!("no answer: {last:?}")
}

/// Does something again that fails for once: what is slow does not repeat, and
/// what is wrong does. The last failure, and whether it was done more than once.
///
/// # Errors
/// It fails each time.
pub fn persistently<T>(work: impl Fn() -> Result<T, String>) -> Result<(T, bool), String> {
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        match catch_unwind(AssertUnwindSafe(&work)) {
            Ok(Ok(done)) => return Ok((done, attempt > 0)),
            Ok(Err(why)) => last = why,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()));
                last = text.unwrap_or_else(|| "a panic".to_owned());
            }
        }
    }
    Err(last)
}

/// Functions that run some time after the machine's clock.
pub struct Hour {
    /// Their clock.
    pub clock: Clock,
    /// Makes yeses orders.
    pub worker: OrderFunction,
    /// Ends holds.
    pub sweeper: SweeperFunction,
    /// The rules of money.
    pub cashier: Cashier,
    /// The provider.
    pub sandbox: SandboxProvider,
    /// Sends what a claim function sends.
    pub queue: Queue,
}

impl Bench {
    /// Starts servers. Blocks.
    ///
    /// # Panics
    /// If it can't be set up.
    pub fn new(twin: Twin) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let servers = GateServers::start(&Plan {
            primaries: usize::from(BUCKETS),
            replicas: 0,
            node_timeout: Duration::from_secs(15),
            ..Plan::default()
        })
        .expect("a cluster");
        let services = Services::new(twin.ledger);
        let ports = servers.ports();
        let proxy = twin
            .script
            .map(|script| runtime.block_on(Proxy::start(&ports, Some(script), None)));
        let url = proxy
            .as_ref()
            .map_or_else(|| servers.url(), |proxy| proxy.url());
        let environment = Environment {
            settings: settings(&url),
            aws: runtime.block_on(aws(&services)),
            clock: Clock::system(),
        };
        Self {
            twin,
            ledger: Ledger::connect(&environment).expect("settings are given"),
            gate: Gate::connect(&environment).expect("settings are given"),
            runtime,
            services,
            environment,
            servers,
            _proxy: proxy,
            hours: Mutex::default(),
            sales: Mutex::default(),
        }
    }

    /// The functions so many seconds from now.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn hour(&self, at_s: i64) -> Arc<Hour> {
        if let Some(hour) = self.hours.lock().expect("one thread").get(&at_s) {
            return Arc::clone(hour);
        }
        let environment = Environment {
            clock: Clock::skewed(SignedDuration::from_secs(at_s)),
            ..self.environment.clone()
        };
        let hour = Arc::new(Hour {
            clock: environment.clock,
            worker: OrderFunction::start(&environment).await.expect("a start"),
            sweeper: SweeperFunction::start(&environment).await.expect("a start"),
            cashier: Cashier::connect(&environment, &self.ledger).expect("settings"),
            sandbox: SandboxProvider::connect(&environment, &self.ledger).expect("settings"),
            queue: Queue::connect(&environment).expect("settings"),
        });
        let mut hours = self.hours.lock().expect("one thread");
        Arc::clone(hours.entry(at_s).or_insert(hour))
    }

    /// A race that is on, with these units in its buckets, on an empty queue.
    ///
    /// # Panics
    /// If it can't be written.
    pub async fn sale(&self, units: [u32; BUCKETS as usize], limit: u32, now: Timestamp) -> Sale {
        let id = self.next_sale().await;
        let config = json!({
            "sku": "PHONE-1",
            "name": "Phone",
            "price": {"amount": PRICE, "currency": "INR"},
            "units": units.iter().sum::<u32>(),
            "buckets": BUCKETS,
            "opens_at": (now - SignedDuration::from_mins(1)).to_string(),
            "closes_at": (now + SignedDuration::from_hours(9)).to_string(),
            "limit_per_customer": limit,
            "pay_window_s": PAY_WINDOW_S,
            "waitlist_pay_window_s": PAY_WINDOW_S,
            "mode": "race",
        });
        let config = SaleConfig::read(config.as_object().expect("members").clone());
        let mut sale = Sale::new(id.clone(), config.expect("a configuration"), String::new());
        sale.loaded = true;
        let secret = "5e".repeat(32);
        self.ledger.create_sale(&sale, &secret).await.expect("rows");
        let mut addresses = Vec::new();
        for (bucket, left) in (0u16..).zip(units) {
            let id = BucketId(bucket);
            let row = ledger::orders::Bucket::new(left, 1);
            let put = self.ledger.put_bucket(&sale.id, id, &row);
            put.await.expect("a row");
            let width = SLOTS / BUCKETS;
            let slots = [bucket * width..=(bucket + 1) * width - 1];
            let tag = tag(&sale.id, id, &slots);
            let address = GateAddress { tag, epoch: 1 };
            let truth = Truth {
                left,
                ..Truth::default()
            };
            patiently(async || self.gate.load(&address, &truth).await).await;
            addresses.push(address);
        }
        let gates = Gates { addresses };
        let saved = self.ledger.save_gates(&sale.id, &gates, sale.load);
        saved.await.expect("a row");
        self.services.queue().clear();
        sale
    }

    /// One after the other: what a failing test left open is closed first.
    async fn next_sale(&self) -> SaleId {
        let open = self.sales.lock().expect("one thread").1.take();
        if let Some(open) = open {
            self.close(&open).await;
        }
        let mut sales = self.sales.lock().expect("one thread");
        sales.0 += 1;
        let id: SaleId = format!("history-{}", sales.0).parse().expect("a name");
        sales.1 = Some(id.clone());
        id
    }

    /// Nobody looks after a sale any more, and its gates are gone.
    ///
    /// # Panics
    /// If the table or a server does not answer.
    pub async fn close(&self, sale: &SaleId) {
        self.sales.lock().expect("one thread").1 = None;
        let mut writes = ledger::Transaction::new();
        writes
            .update(&ledger::key::listed(sale), "SET #open = :closed")
            .name("#open", "open")
            .flag(":closed", false);
        let written = self.ledger.table().write(&writes).await;
        written.expect("an answer").expect("no condition");
        for primary in 0..usize::from(BUCKETS) {
            let mut server = self.server(primary);
            redis::cmd("FLUSHALL").exec(&mut server).expect("an answer");
            flush_scripts(&mut server);
        }
    }

    /// A line to the gates on which each command is a step.
    pub async fn proxy(&self, steps: Steps) -> Proxy {
        Proxy::start(&self.servers.ports(), None, Some(steps)).await
    }

    /// The same environment with its gates at other seeds.
    pub fn with_gates(&self, environment: &Environment, url: &str) -> Environment {
        Environment {
            settings: settings(url),
            ..environment.clone()
        }
    }

    /// A connection to the primary of this bucket, past the cluster's client.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn server(&self, bucket: usize) -> Connection {
        self.servers.connect(bucket).expect("a server")
    }
}

/// A server that was promoted, or started anew, knows no script.
///
/// # Panics
/// If it does not answer.
pub fn flush_scripts(server: &mut Connection) {
    let flush = redis::cmd("SCRIPT").arg("FLUSH").exec(server);
    flush.expect("an answer");
}

fn settings(gates: &str) -> Settings {
    let queue = "http://queue.invalid/1/claims.fifo";
    let variables = [
        ("TABLE_NAME", TABLE),
        ("AWS_ENDPOINT_URL_DYNAMODB", "http://table.invalid"),
        ("AWS_ENDPOINT_URL_SQS", "http://queue.invalid"),
        ("QUEUE_URL", queue),
        ("DEAD_LETTER_QUEUE_URL", queue),
        ("PAYMENT_PROVIDER", "sandbox"),
        ("WEBHOOK_SECRETS", "whsec_test"),
        // Open for longer than the hold, if payment begins late.
        ("PAYMENT_INTENT_S", "30"),
        ("GATE_URL", gates),
        // What a failover loses is up to the history, acknowledged or not.
        ("GATE_ACKS", "0"),
        ("ORDER_RATE_PER_S", "1000000"),
        ("ORDER_CONCURRENCY", "1"),
        ("PASS_KEYS", "a secret of at least thirty-two bytes"),
        ("EDGE_KEY", "another secret of thirty-two bytes or more"),
    ];
    let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    owned.into_iter().collect()
}

async fn aws(services: &Services) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "histories"))
        .http_client(services.clone())
        .load()
        .await
}
