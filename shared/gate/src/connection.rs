//! One connection to the cluster for each execution environment, made when it
//! is first needed and kept while it serves every bucket; every wait is bounded.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use domain::slot;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use runtime::Environment;
use secrecy::ExposeSecret;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Error;

/// Longest wait for a node to accept a connection.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// Longest wait for one answer of a node.
const ANSWER_MAX: Duration = Duration::from_millis(300);

/// Longest wait for a whole command, redirections and retries included. The
/// client's own limits have been seen not to hold for a half reachable
/// cluster, so this one is around all of it.
const COMMAND_MAX: Duration = Duration::from_millis(1_500);

/// Retries of the client after a lost connection or a moved slot. Whatever is run
/// may run twice: the second run finds what the first did.
const RETRIES: u32 = 3;

/// When a connection has not served a bucket for so long, another one is made. The
/// client does not always come back by itself: of environments that lived through
/// the death of all nodes some have been seen to fail for one node ever after. A
/// failover may last longer; then this is how often it is tried.
const DEAF: Duration = Duration::from_secs(3);

/// The gates of all sales.
#[derive(Clone)]
pub struct Gate {
    client: Arc<ClusterClient>,
    connection: Arc<Mutex<Option<ClusterConnection>>>,
    /// Held while another connection is made.
    renewal: Arc<Mutex<()>>,
    /// Buckets that the connection does not serve, by tag, and since when.
    unserved: Arc<std::sync::Mutex<HashMap<String, Instant>>>,
    /// Replicas that must have a claim before it is a yes.
    pub(crate) acks: u32,
    /// Longest wait for them.
    pub(crate) ack_wait_ms: u32,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("acks", &self.acks)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// Prepares the connection to the cluster of `GATE_URL` (seeds separated
    /// by commas); it is made with the first command.
    ///
    /// # Errors
    /// A setting is missing or not what it must be.
    pub fn connect(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        let seeds = settings.require("GATE_URL")?.split(',').map(str::trim);
        let mut builder = ClusterClient::builder(seeds)
            .connection_timeout(CONNECT_MAX)
            .response_timeout(ANSWER_MAX)
            .overall_response_timeout(Some(COMMAND_MAX))
            .retries(RETRIES)
            .min_retry_wait(20)
            .max_retry_wait(200);
        if settings.get("GATE_PASSWORD").is_some() {
            builder = builder.password(settings.secret("GATE_PASSWORD")?.expose_secret());
        }
        Ok(Self {
            client: Arc::new(builder.build()?),
            connection: Arc::default(),
            renewal: Arc::default(),
            unserved: Arc::default(),
            acks: settings.parse_or("GATE_ACKS", 1)?,
            ack_wait_ms: settings.parse_or("GATE_ACK_WAIT_MS", 10)?,
        })
    }

    async fn connection(&self) -> Result<ClusterConnection, Error> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let made = self.client.get_async_connection().await?;
        *held = Some(made.clone());
        Ok(made)
    }

    /// Notes whether a bucket was served.
    fn note<T>(&self, tag: &str, answer: &Result<T, Error>) {
        let now = Instant::now();
        let mut unserved = self.unserved.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(answer, Err(Error::Unavailable(_))) {
            unserved.remove(tag);
            return;
        }
        let since = *unserved.entry(tag.to_owned()).or_insert(now);
        if now - since >= DEAF {
            unserved.clear();
            self.renew();
        }
    }

    /// Makes another connection in the place of the one that there is. Until it is
    /// made, buckets that are served by the old one wait for nothing.
    fn renew(&self) {
        let Ok(renewal) = Arc::clone(&self.renewal).try_lock_owned() else {
            return;
        };
        tracing::warn!("a bucket is not served: the connection to the gates is made anew");
        let gate = self.clone();
        tokio::spawn(async move {
            if let Ok(made) = gate.client.get_async_connection().await {
                *gate.connection.lock().await = Some(made);
            }
            drop(renewal);
        });
    }

    /// Runs a command on the primary that owns the tag, and only there.
    pub(crate) async fn run<T: FromRedisValue>(&self, tag: &str, command: Cmd) -> Result<T, Error> {
        let owner = RoutingInfo::SingleNode(primary_of(tag));
        let answer = self.route(command, owner).await;
        self.note(tag, &answer);
        read(answer?)
    }

    /// Runs commands on the primary that owns the tag, in one go.
    pub(crate) async fn run_all(&self, tag: &str, commands: Pipeline) -> Result<Vec<Value>, Error> {
        let count = commands.len();
        let answers = bounded(async {
            let mut connection = self.connection().await?;
            let answers = connection
                .route_pipeline(commands, 0, count, primary_of(tag))
                .await?;
            let answers = answers.into_iter().map(Value::extract_error);
            Ok(answers.collect::<Result<_, _>>()?)
        })
        .await;
        self.note(tag, &answers);
        answers
    }

    /// Runs a command on any primary.
    pub(crate) async fn ask_any<T: FromRedisValue>(&self, command: Cmd) -> Result<T, Error> {
        let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
        read(self.route(command, any).await?)
    }

    /// Runs a command where it belongs; the answer as the client gives it.
    pub(crate) async fn route(&self, command: Cmd, to: RoutingInfo) -> Result<Value, Error> {
        bounded(async {
            let mut connection = self.connection().await?;
            let answer = connection.route_command(command, to).await?;
            // A routed command hands an error of the server over as an answer.
            Ok(answer.extract_error()?)
        })
        .await
    }
}

/// Reads an answer as what it must be.
pub(crate) fn read<T: FromRedisValue>(answer: Value) -> Result<T, Error> {
    // The answer itself may name a shopper; the error does not.
    T::from_redis_value(answer)
        .map_err(|_| Error::Unavailable("an answer of another shape".to_owned()))
}

fn primary_of(tag: &str) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::new(slot::slot(tag), SlotAddr::Master))
}

async fn bounded<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(COMMAND_MAX, work)
        .await
        .unwrap_or_else(|_| Err(Error::Unavailable("time-out".to_owned())))
}
