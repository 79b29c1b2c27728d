//! Preflight: what is not ready, in plain words, before it matters.
//!
//! | module | looks at |
//! |---|---|
//! | `stock` | the sale: buckets, gates, where they are |
//! | `engine` | the servers of the gates, as they run: engine, eviction, replicas, clock |
//! | `cluster` | the same as ElastiCache keeps it: failover, zones, encryption |
//! | `table` | the ledger's table |
//! | `forecast` | what is expected against what is set: rates, environments, write units |
//! | `secrets` | keys and secrets |
//! | `provider` | the payment provider, and whose its keys are |
//! | `alarms` | alarms |
//!
//! What the template sets (rates, concurrency) comes as variables, so that
//! neither rights nor endpoints are needed to read it back. A part that can't
//! be asked makes its check `not_checked`, never the call an error.

mod alarms;
mod cluster;
mod engine;
mod forecast;
mod provider;
mod secrets;
mod stock;
mod table;

use std::time::Duration;

use api::{Call, Problem, Reply};
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use runtime::{Environment, Settings};
use serde::Serialize;
use serde_json::json;

use crate::AdminFunction;
use forecast::{Forecast, Limits};
use provider::Keys;

/// Longest wait for a connection to a service of AWS: without an endpoint in
/// the network there is none.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Longest wait for a service, all attempts together.
const ANSWER_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    NotOk,
    NotChecked,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    result: Outcome,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

fn check(check: &'static str, good: bool, found: String, advice: &'static str) -> Check {
    let result = if good { Outcome::Ok } else { Outcome::NotOk };
    Check {
        check,
        result,
        found,
        advice: (!good).then_some(advice),
    }
}

fn unknown(check: &'static str, why: impl std::fmt::Display, advice: &'static str) -> Check {
    Check {
        check,
        result: Outcome::NotChecked,
        found: why.to_string(),
        advice: Some(advice),
    }
}

/// What is around the functions, as far as the template names it.
#[derive(Debug)]
pub(crate) struct Deployment {
    aws: SdkConfig,
    /// Id of the gates' replication group.
    cluster: Option<String>,
    /// ARNs of the secrets that functions read.
    secrets: Vec<String>,
    /// What the names of all alarms begin with.
    alarms: Option<String>,
    limits: Limits,
    keys: Keys,
    /// Nothing is really sold: the sandbox may be the provider, or a real one with a
    /// test key.
    rehearses: bool,
}

impl Deployment {
    /// Reads the variables. Clients are made when they are needed: a start
    /// does not wait for them.
    pub(crate) fn of(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        let named = |name: &str| settings.get(name).map(str::to_owned);
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_MAX)
            .operation_timeout(ANSWER_MAX)
            .build();
        let aws = environment.aws.to_builder();
        Ok(Self {
            aws: aws
                .timeout_config(timeouts)
                .retry_config(RetryConfig::standard().with_max_attempts(2))
                .build(),
            cluster: named("GATE_CLUSTER"),
            secrets: list(settings, "SECRETS"),
            alarms: named("ALARM_PREFIX"),
            limits: Limits::read(settings)?,
            keys: Keys::read(settings),
            rehearses: settings.parse_or("REHEARSAL", false)?,
        })
    }
}

/// Values separated by commas.
fn list(settings: &Settings, name: &str) -> Vec<String> {
    let values = settings.get(name).unwrap_or_default().split(',');
    let values = values.map(str::trim).filter(|value| !value.is_empty());
    values.map(str::to_owned).collect()
}

impl AdminFunction {
    pub(crate) async fn preflight(&self, call: &Call) -> Result<Reply, Problem> {
        let asked = forecast::asked(call)?;
        let sale = self.sale(&call.sale()?).await?;
        let forecast = Forecast::of(&sale.config, asked);
        let gates = self.ledger.gates(&sale.id).await?.unwrap_or_default();
        let mut checks = vec![
            self.check_loaded(&sale, &gates),
            self.check_opening(&sale),
            self.check_ledger(&sale).await,
        ];
        checks.extend(self.check_gates(&sale, &gates).await);
        checks.push(self.check_spread(&gates).await);
        let (engine, cluster, table, secrets, alarms, provider) = tokio::join!(
            self.check_engine(&gates),
            self.deployment.check_cluster(),
            self.check_table(&forecast),
            self.deployment.check_secrets(),
            self.deployment.check_alarms(),
            self.check_provider(&sale),
        );
        checks.extend(engine.checks);
        checks.extend(cluster);
        checks.extend(table);
        checks.extend(forecast.checks(&self.deployment.limits, engine.primaries));
        checks.push(secrets);
        checks.push(alarms);
        checks.push(provider);
        let ready = checks.iter().all(|check| check.result != Outcome::NotOk);
        Reply::ok(&json!({"sale_id": sale.id, "ready": ready, "checks": checks}))
    }
}
