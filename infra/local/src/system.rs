//! The whole system: everything that a deployment has, started together and
//! ended together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use jiff::SignedDuration;
use runtime::{Clock, Environment, Settings};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use testing::gate_servers::{GateServers, Plan};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::authorizer::Authorizer;
use crate::cors::Cors;
use crate::database;
use crate::edge_store::{self, EdgeStore};
use crate::environments::{InvokeError, Pool};
use crate::event_source::EventSource;
use crate::gateway::{self, Gateway};
use crate::identity::Identity;
use crate::queue::Queue;
use crate::role::Role;
use crate::routes::Routes;
use crate::template::{ACCOUNT, Function, REGION, Right, Template, Values};
use crate::{Options, Stripe, functions, schedule, secrets, sqs};

/// The scope of a merchant's token.
const ADMIN_SCOPE: &str = "sales.admin";
/// The secret that the store, which is the runner here, signs attestations
/// with.
const ATTESTATION_KEY: &str = "AttestationKey";
/// How long calls that are under way may take to end at a stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A running system. Dropping it ends its servers; [`System::stop`] does so
/// in order.
pub struct System {
    base_url: String,
    sqs_url: String,
    edge_store_url: String,
    edge_store: Arc<EdgeStore>,
    /// Values of the template's secrets, by logical id.
    secrets: BTreeMap<String, SecretString>,
    template: Template,
    identity: Arc<Identity>,
    aws: SdkConfig,
    gate: Option<Arc<GateServers>>,
    gate_url: String,
    database_url: String,
    database: Option<database::Server>,
    queues: Vec<Arc<Queue>>,
    pools: BTreeMap<String, Arc<Pool>>,
    roles: Vec<Arc<Role>>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl System {
    /// Starts a system and waits until it serves. It runs on the caller's
    /// Tokio runtime.
    ///
    /// # Errors
    /// The template says something that the runner does not know, or a server
    /// does not start.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let path = options.template.clone().unwrap_or_else(own_template);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{} can't be read", path.display()))?;

        let listener = TcpListener::bind(("127.0.0.1", options.port))
            .await
            .with_context(|| format!("port {} is not free", options.port))?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let sqs_listener = TcpListener::bind("127.0.0.1:0").await?;
        let sqs_url = format!("http://{}", sqs_listener.local_addr()?);
        let edge_listener = TcpListener::bind("127.0.0.1:0").await?;
        let edge_store_url = format!("http://{}", edge_listener.local_addr()?);

        let plan = Plan {
            program: options.gate_program.clone(),
            primaries: options.primaries,
            replicas: options.replicas,
            node_timeout: options.node_timeout,
            secure: false,
            ports: options.gate_ports.clone(),
        };
        let gate = tokio::task::spawn_blocking(move || GateServers::start(&plan)).await??;
        let gate_url = gate.url();

        let made = [
            (
                "SessionIssuer",
                format!("{base_url}{}", crate::identity::PREFIX),
            ),
            ("Rehearsal", true.to_string()),
            ("EdgeStoreArn", EdgeStore::arn()),
            ("GateAcks", options.replicas.min(1).to_string()),
            // An environment is there at once.
            ("WarmEnvironments", options.environments_max.to_string()),
        ];
        let mut parameters: BTreeMap<_, _> =
            made.map(|(name, value)| (name.to_owned(), value)).into();
        parameters.extend(options.parameters.clone());
        let values = Values {
            parameters,
            queue_url: sqs_url.clone(),
            stacks: stacks(&gate_url),
        };
        let cause = || format!("{} can't be run", path.display());
        let template = Template::parse(&text, &values).with_context(cause)?;
        let secrets = secrets::make(&template.secrets, &options.secrets).with_context(cause)?;

        let audience = template.authorizer.as_ref();
        let audience = audience.and_then(|authorizer| authorizer.audience.first());
        let identity = Arc::new(Identity::new(
            &base_url,
            audience.map_or("", String::as_str),
            Some(
                secrets
                    .get(ATTESTATION_KEY)
                    .with_context(|| format!("the template has no secret {ATTESTATION_KEY}"))?,
            ),
        )?);
        if let Some(authorizer) = &template.authorizer {
            ensure!(
                authorizer.issuer == identity.issuer(),
                "tokens of {} can't be verified locally",
                authorizer.issuer
            );
        }

        let tables = template.tables.clone();
        let database =
            tokio::task::spawn_blocking(move || database::Server::start(&tables)).await??;
        let aws = aws_config::defaults(BehaviorVersion::latest())
            .empty_test_environment()
            .test_credentials()
            .region(Region::from_static(REGION))
            .load()
            .await;
        let queues = Queue::all(&template.queues)?;
        let (stop, stopped) = watch::channel(false);
        let mut system = Self {
            gate_url,
            database_url: database.url().to_owned(),
            base_url,
            sqs_url,
            edge_store_url,
            edge_store: Arc::default(),
            secrets,
            template,
            identity,
            aws,
            gate: Some(Arc::new(gate)),
            database: Some(database),
            queues,
            pools: BTreeMap::new(),
            roles: Vec::new(),
            stop,
            tasks: Vec::new(),
        };
        system.make_pools(&options, &stopped)?;
        system.serve(listener, sqs_listener, edge_listener, &stopped)?;
        system.feed(&options, &stopped)?;
        Ok(system)
    }

    fn make_pools(
        &mut self,
        options: &Options,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        for name in options.skew.keys().chain(options.settings.keys()) {
            ensure!(self.function(name).is_some(), "there is no function {name}");
        }
        for function in &self.template.functions {
            let start = functions::start_of(&function.binary)
                .with_context(|| format!("the runner has no binary {}", function.binary))?;
            let concurrency = function.concurrency.unwrap_or(options.environments_max);
            let role = Role::new(&function.id, &function.rights);
            let mut environment = self.environment(function, options);
            environment.aws = role.guard(&environment.aws);
            self.roles.push(role);
            let pool = Pool::new(
                function.id.clone(),
                function.timeout,
                concurrency,
                start,
                environment,
                stopped.clone(),
            )
            .apart(options.skew_apart);
            self.pools.insert(function.id.clone(), Arc::new(pool));
        }
        Ok(())
    }

    /// What a function finds around it.
    fn environment(&self, function: &Function, options: &Options) -> Environment {
        let mut variables = function.variables.clone();
        for (setting, secret) in &function.secrets {
            let value = || self.secrets[secret].expose_secret().to_owned();
            variables.entry(setting.clone()).or_insert_with(value);
        }
        let own = [
            ("AWS_ENDPOINT_URL_DYNAMODB", self.database_url.as_str()),
            ("AWS_ENDPOINT_URL_SQS", self.sqs_url.as_str()),
            (
                "AWS_ENDPOINT_URL_CLOUDFRONT_KEYVALUESTORE",
                self.edge_store_url.as_str(),
            ),
            ("AWS_LAMBDA_FUNCTION_NAME", function.id.as_str()),
            ("AWS_REGION", REGION),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if let Some(stripe) = &options.stripe {
            pay_through(stripe, &mut variables);
        }
        variables.extend(of(&options.settings, function).cloned().unwrap_or_default());
        let skew = of(&options.skew, function).copied();
        Environment {
            settings: variables.into_iter().collect::<Settings>(),
            aws: self.aws.clone(),
            clock: Clock::skewed(skew.unwrap_or(SignedDuration::ZERO)),
        }
    }

    fn serve(
        &mut self,
        listener: TcpListener,
        sqs_listener: TcpListener,
        edge_listener: TcpListener,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let authorizer = self.template.authorizer.as_ref();
        let gateway = Gateway {
            routes: Routes::new(&self.template.routes),
            authorizer: authorizer.map(|rules| Authorizer::new(rules, self.identity.key())),
            cors: self.template.cors.as_ref().map(Cors::new).transpose()?,
            identity: Arc::clone(&self.identity),
            pools: self.pools.clone(),
        };
        self.tasks.push(tokio::spawn(gateway::serve(
            gateway,
            listener,
            stopped.clone(),
        )));
        self.tasks.push(tokio::spawn(sqs::serve(
            self.sqs_url.clone(),
            self.queues.clone(),
            sqs_listener,
            stopped.clone(),
        )));
        self.tasks.push(tokio::spawn(edge_store::serve_store(
            Arc::clone(&self.edge_store),
            edge_listener,
            stopped.clone(),
        )));
        Ok(())
    }

    /// Starts what calls functions beside the gateway.
    fn feed(&mut self, options: &Options, stopped: &watch::Receiver<bool>) -> anyhow::Result<()> {
        for event in self
            .template
            .queue_events
            .iter()
            .filter(|_| options.event_sources)
        {
            let queue = self.queues.iter().find(|queue| queue.id() == event.queue);
            let source = EventSource {
                queue: Arc::clone(queue.context("the event's queue is no queue")?),
                pool: Arc::clone(&self.pools[&event.function]),
                batch_size: event.batch_size,
                concurrency: event.concurrency.unwrap_or(options.environments_max),
                partial: event.partial,
                retry: options.retry_visibility,
            };
            self.tasks.push(tokio::spawn(source.run(stopped.clone())));
        }
        for schedule in self.template.schedules.iter().filter(|_| options.schedules) {
            let pool = Arc::clone(&self.pools[&schedule.function]);
            let own = options.schedule_every_of.get(&schedule.function);
            self.tasks.push(tokio::spawn(schedule::run(
                pool,
                own.copied().unwrap_or(options.schedule_every),
                options.schedule_overlap,
                stopped.clone(),
            )));
        }
        Ok(())
    }

    /// Where the API is, without a slash at the end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Where DynamoDB is.
    pub fn dynamodb_url(&self) -> &str {
        &self.database_url
    }

    /// Where SQS is.
    pub fn sqs_url(&self) -> &str {
        &self.sqs_url
    }

    /// Where the edge's store is, its name included.
    pub fn edge_store_url(&self) -> String {
        let arn = EdgeStore::arn().replace(':', "%3A").replace('/', "%2F");
        format!("{}/key-value-stores/{arn}", self.edge_store_url)
    }

    /// What the edge's store has under a key.
    pub fn edge_value(&self, key: &str) -> Option<String> {
        self.edge_store.get(key)
    }

    /// The URL by which functions know the queue that feeds one of them.
    ///
    /// # Errors
    /// There is no such queue.
    pub fn queue_url(&self) -> anyhow::Result<String> {
        Ok(format!(
            "{}/{ACCOUNT}/{}",
            self.sqs_url,
            self.queue()?.name()
        ))
    }

    /// Seeds of the gates' cluster, separated by commas.
    pub fn gate_url(&self) -> &str {
        &self.gate_url
    }

    /// The gates' servers, to kill and restart them; none after a stop.
    pub fn gate(&self) -> Option<&Arc<GateServers>> {
        self.gate.as_ref()
    }

    /// Region, credentials and HTTP client for AWS calls; the endpoints are
    /// [`System::dynamodb_url`] and [`System::sqs_url`].
    pub fn aws(&self) -> &SdkConfig {
        &self.aws
    }

    /// What the template says.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Rights that the template grants and that were not used so far, by the
    /// function's logical id.
    pub fn unused_rights(&self) -> BTreeMap<String, BTreeSet<Right>> {
        self.rights(Role::unused)
    }

    /// Rights that functions needed so far and that the template does not
    /// grant, by the function's logical id. Their calls were refused.
    pub fn missing_rights(&self) -> BTreeMap<String, BTreeSet<Right>> {
        self.rights(Role::refused)
    }

    fn rights(&self, of: fn(&Role) -> BTreeSet<Right>) -> BTreeMap<String, BTreeSet<Right>> {
        let roles = self.roles.iter();
        let rights = roles.map(|role| (role.function().to_owned(), of(role)));
        rights.filter(|(_, rights)| !rights.is_empty()).collect()
    }

    /// What a function finds around it, for tests and tools that use the
    /// shared libraries as a function does: its variables and clock, not its
    /// role.
    ///
    /// # Errors
    /// There is no such function.
    pub fn environment_of(&self, function: &str, options: &Options) -> anyhow::Result<Environment> {
        let function = self
            .function(function)
            .context("there is no such function")?;
        Ok(self.environment(function, options))
    }

    /// A token with the scope of merchants.
    ///
    /// # Errors
    /// The key does not sign.
    pub fn admin_token(&self) -> anyhow::Result<String> {
        self.identity.token("merchant", Some(ADMIN_SCOPE), None)
    }

    /// A shopper's session token.
    ///
    /// # Errors
    /// The key does not sign.
    pub fn session_token(&self, sub: &str) -> anyhow::Result<String> {
        self.identity.token(sub, None, None)
    }

    /// What the store attests about a shopper, for one sale.
    ///
    /// # Errors
    /// The key does not sign.
    pub fn attestation(
        &self,
        sub: &str,
        sale: &str,
        facts: Map<String, Value>,
    ) -> anyhow::Result<String> {
        self.identity.attestation(sub, sale, facts)
    }

    /// The queue that feeds a function; the template has one.
    ///
    /// # Errors
    /// It has none.
    pub fn queue(&self) -> anyhow::Result<&Arc<Queue>> {
        let event = self.template.queue_events.first();
        let event = event.context("no queue feeds a function")?;
        let queue = self.queues.iter().find(|queue| queue.id() == event.queue);
        queue.context("the event's queue is no queue")
    }

    /// Runs a function once with an event, as Lambda's `Invoke` does.
    ///
    /// # Errors
    /// There is no such function, it is throttled, it failed, or it took too
    /// long.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<Value, InvokeError> {
        let pool = self.pool(function)?;
        let answer = pool.invoke(event.to_string().into_bytes()).await?;
        serde_json::from_slice(&answer).map_err(|error| InvokeError::Failed(error.to_string()))
    }

    /// Kills every environment of a function in the middle of what it does,
    /// and starts none until [`System::revive`].
    ///
    /// # Errors
    /// There is no such function.
    pub fn kill(&self, function: &str) -> Result<(), InvokeError> {
        self.pool(function)?.kill();
        Ok(())
    }

    /// Lets a function run again after [`System::kill`].
    ///
    /// # Errors
    /// There is no such function.
    pub fn revive(&self, function: &str) -> Result<(), InvokeError> {
        self.pool(function)?.revive();
        Ok(())
    }

    /// Throws a function's idle environments away: who comes next starts anew,
    /// with connections of its own, beside those that are busy.
    ///
    /// # Errors
    /// There is no such function.
    pub fn renew(&self, function: &str) -> Result<(), InvokeError> {
        self.pool(function)?.clear();
        Ok(())
    }

    fn pool(&self, function: &str) -> Result<&Arc<Pool>, InvokeError> {
        let function = self.function(function).ok_or(InvokeError::Unknown)?;
        self.pools.get(&function.id).ok_or(InvokeError::Unknown)
    }

    /// Ends everything: no new calls, runs are cut off, servers end. A second
    /// call does nothing.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        for mut task in self.tasks.drain(..) {
            if tokio::time::timeout(STOP_LIMIT, &mut task).await.is_err() {
                task.abort();
            }
        }
        for pool in self.pools.values() {
            pool.clear();
        }
        self.database = None;
        if let Some(gate) = self.gate.take() {
            // Killing and waiting blocks for a moment.
            let _ = tokio::task::spawn_blocking(move || drop(gate)).await;
        }
    }

    fn function(&self, name: &str) -> Option<&Function> {
        let mut functions = self.template.functions.iter();
        functions.find(|function| function.id == name || function.binary == name)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secrets are not for anyone to read.
        f.debug_struct("System")
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

/// What is chosen for a function, by its logical id or its binary.
fn of<'a, T>(choices: &'a BTreeMap<String, T>, function: &Function) -> Option<&'a T> {
    choices
        .get(&function.id)
        .or_else(|| choices.get(&function.binary))
}

/// Puts Stripe in place of the provider that a function is told of, if it is
/// told of one.
fn pay_through(stripe: &Stripe, variables: &mut BTreeMap<String, String>) {
    if !variables.contains_key("PAYMENT_PROVIDER") {
        return;
    }
    let own = [
        ("PAYMENT_PROVIDER", payment::stripe::NAME),
        ("PROVIDER_KEY", stripe.key.expose_secret()),
        ("STRIPE_URL", &stripe.url),
        ("WEBHOOK_SECRETS", stripe.webhook_secrets.expose_secret()),
    ];
    variables.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

/// What stands in for the nested stacks: a cluster without a password, no
/// network at all, and nobody who watches.
fn stacks(gate_url: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let gates = [
        ("PasswordSecret", ""),
        ("ReplicationGroupId", "gates"),
        ("Url", gate_url),
    ];
    let gates = gates.map(|(name, value)| (name.to_owned(), value.to_owned()));
    [
        ("Gates".to_owned(), gates.into()),
        ("Front".to_owned(), BTreeMap::new()),
        ("Network".to_owned(), BTreeMap::new()),
        ("Watch".to_owned(), BTreeMap::new()),
    ]
    .into()
}

/// The workspace's own template.
pub fn own_template() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml")
}

/// Reads a template without running it, to list what is in it. Parameters
/// without a value read as their own names.
///
/// # Errors
/// As for [`Template::parse`].
pub fn read_template(path: &Path) -> anyhow::Result<Template> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} can't be read", path.display()))?;
    let document: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text)?;
    let Some(parameters) = document.get("Parameters").and_then(|all| all.as_mapping()) else {
        bail!("{} has no parameters", path.display());
    };
    let unset = parameters
        .iter()
        .filter(|(_, parameter)| parameter.get("Default").is_none())
        .filter_map(|(name, _)| name.as_str());
    let values = Values {
        parameters: unset
            .map(|name| (name.to_owned(), name.to_owned()))
            .collect(),
        queue_url: "http://127.0.0.1".to_owned(),
        stacks: stacks("redis://127.0.0.1"),
    };
    Template::parse(&text, &values)
}
