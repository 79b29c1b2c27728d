//! Functions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;
use super::names::{Resource, entries};
use super::policy::{self, Policy, Right};
use super::properties::{Number, collect, pick, text_of};

/// One Lambda function.
#[derive(Debug, Clone)]
pub struct Function {
    /// The logical id, `ClaimFunction`.
    pub id: String,
    /// The binary that is deployed, `claim-function`.
    pub binary: String,
    /// How long one run may take.
    pub timeout: Duration,
    /// Runs at the same time, where the template reserves them.
    pub concurrency: Option<usize>,
    /// Environment variables, without those that name a secret.
    pub variables: BTreeMap<String, String>,
    /// Secrets that it reads: the setting, and the secret's logical id.
    pub secrets: BTreeMap<String, String>,
    /// What its policies let it do, its secrets aside. What AWS adds for logs,
    /// traces, a network or a queue that feeds it is not among them.
    pub rights: BTreeSet<Right>,
}

const USED: [&str; 5] = [
    "Environment",
    "Events",
    "Policies",
    "ReservedConcurrentExecutions",
    "Timeout",
];
const IGNORED: [&str; 18] = [
    "Architectures",
    "AutoPublishAlias",
    "CodeUri",
    "DeploymentPreference",
    "Description",
    "EphemeralStorage",
    "FunctionName",
    "Handler",
    "LoggingConfig",
    "MemorySize",
    "PermissionsBoundary",
    "PropagateTags",
    "ProvisionedConcurrencyConfig",
    "Runtime",
    "RuntimeManagementConfig",
    "Tags",
    "Tracing",
    "VpcConfig",
];

/// Lambda's own default.
const DEFAULT_TIMEOUT_S: u64 = 3;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Read {
    timeout: Option<Number>,
    reserved_concurrent_executions: Option<Number>,
    #[serde(default)]
    environment: Environment,
    #[serde(default)]
    policies: Vec<Policy>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Environment {
    #[serde(default)]
    variables: BTreeMap<String, Json>,
}

/// A function, and its events as they stand in the template.
pub(super) fn read<'a>(
    scope: &Scope,
    resource: &Resource<'a>,
    globals: Option<&Yaml>,
) -> anyhow::Result<(Function, Vec<(&'a str, &'a Yaml)>)> {
    let binary = resource
        .metadata
        .and_then(|metadata| metadata.get("BuildProperties")?.get("Binary")?.as_str())
        .context("Metadata.BuildProperties.Binary is not set")?;
    let mut picked = pick(resource.properties, &USED, &IGNORED)?;
    let events = entries(picked.remove("Events"))?;
    let own: Read = collect(scope, &picked)?;
    let all: Read = collect(scope, &pick(globals, &USED, &IGNORED)?)?;

    let mut variables = BTreeMap::new();
    for (name, value) in [all.environment, own.environment]
        .into_iter()
        .flat_map(|environment| environment.variables)
    {
        let value = text_of(value).with_context(|| name.clone())?;
        variables.insert(name, value);
    }
    let timeout = own.timeout.or(all.timeout);
    let concurrency = own
        .reserved_concurrent_executions
        .or(all.reserved_concurrent_executions);
    ensure!(all.policies.is_empty(), "policies are of one function");
    let mut rights = policy::rights(&own.policies)?;
    let (readable, read) = (take_readable(&mut rights), references(&variables));
    // What nothing local stands in for has no name.
    rights.retain(|right| !right.resource.is_empty());
    let secrets = take_secrets(scope, &mut variables)?;
    if let Some(secret) = read.difference(&readable).next() {
        bail!("a variable names the secret {secret}, and no policy lets it be read");
    }
    if let Some(secret) = readable.difference(&read).next() {
        bail!("a policy lets the secret {secret} be read, and no variable names it");
    }
    let function = Function {
        id: resource.id.to_owned(),
        binary: binary.to_owned(),
        timeout: Duration::from_secs(timeout.map_or(DEFAULT_TIMEOUT_S, |Number(s)| s)),
        concurrency: concurrency.map(|Number(many)| many as usize),
        secrets,
        variables,
        rights,
    };
    Ok((function, events))
}

/// The right to read a secret. It is checked here, for nobody reads one while
/// the system runs.
const READ_SECRET: &str = "secretsmanager:GetSecretValue";

/// Takes the rights to read secrets out.
fn take_readable(rights: &mut BTreeSet<Right>) -> BTreeSet<String> {
    let (secrets, others) = std::mem::take(rights)
        .into_iter()
        .partition::<BTreeSet<_>, _>(|right| right.action == READ_SECRET);
    *rights = others;
    secrets.into_iter().map(|right| right.resource).collect()
}

/// The secrets that variables name.
fn references(variables: &BTreeMap<String, String>) -> BTreeSet<String> {
    let named = variables
        .iter()
        .filter(|(variable, _)| variable.ends_with(runtime::REFERENCE));
    named.map(|(_, secret)| secret.clone()).collect()
}

/// Takes the variables that name a secret out; an empty one names none.
fn take_secrets(
    scope: &Scope,
    variables: &mut BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut secrets = BTreeMap::new();
    for (variable, reference) in std::mem::take(variables) {
        let Some(setting) = variable.strip_suffix(runtime::REFERENCE) else {
            variables.insert(variable, reference);
            continue;
        };
        if !reference.is_empty() {
            let secret = scope
                .resource_with("Id", &reference)
                .with_context(|| format!("{variable} names no secret of the template"))?;
            secrets.insert(setting.to_owned(), secret.to_owned());
        }
    }
    Ok(secrets)
}
