//! `template.yaml` as the runner understands it: functions and what calls
//! them, the API, the queues, the tables.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use crate::intrinsics::{ACCOUNT, Attributes, REGION, Scope, pick};

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
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
}

/// Who may call a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Whoever has a valid token with one of the scopes; any, if none is named.
    Token {
        /// Scopes, one of which the token must have.
        scopes: Vec<String>,
    },
}

/// One route of the API.
#[derive(Debug, Clone)]
pub struct Route {
    /// `GET`, or `ANY`.
    pub method: String,
    /// `/v1/sales/{sale}`.
    pub path: String,
    /// The function's logical id.
    pub function: String,
    /// Who may call it.
    pub access: Access,
}

impl Route {
    /// `GET /v1/sales/{sale}`, as API Gateway names it.
    pub fn key(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// A queue that feeds a function.
#[derive(Debug, Clone)]
pub struct QueueEvent {
    /// The function's logical id.
    pub function: String,
    /// The queue's logical id.
    pub queue: String,
    /// Messages in a batch, at most.
    pub batch_size: usize,
    /// Batches at the same time, at most.
    pub concurrency: Option<usize>,
    /// Does the function report which messages of a batch failed?
    pub partial: bool,
}

/// A function that is run again and again.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The function's logical id.
    pub function: String,
    /// How often.
    pub every: Duration,
}

/// Which tokens are accepted.
#[derive(Debug, Clone)]
pub struct Authorizer {
    /// The `iss` they must have.
    pub issuer: String,
    /// One of these is the `aud` they must have.
    pub audience: Vec<String>,
}

/// Which pages may call the API from a browser.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Cors {
    /// Origins; `*` for all.
    #[serde(default)]
    pub allow_origins: Vec<String>,
    /// Methods.
    #[serde(default)]
    pub allow_methods: Vec<String>,
    /// Request headers.
    #[serde(default)]
    pub allow_headers: Vec<String>,
    /// Answer headers that the page may read.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// May cookies be sent?
    #[serde(default)]
    pub allow_credentials: bool,
    /// How long a preflight answer may be kept, in seconds.
    #[serde(default)]
    pub max_age: Option<u64>,
}

/// One FIFO queue.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The logical id.
    pub id: String,
    /// The name, ending in `.fifo`.
    pub name: String,
    /// How long a received message stays hidden.
    pub visibility: Duration,
    /// Is a deduplication id good for its group only?
    pub deduplicate_by_group: bool,
    /// The dead-letter queue's logical id, and the receives before it.
    pub redrive: Option<(String, u32)>,
}

/// One table.
#[derive(Debug, Clone)]
pub struct Table {
    /// The name.
    pub name: String,
    /// A `CreateTable` request.
    pub definition: Json,
}

/// The whole template.
#[derive(Debug, Clone)]
pub struct Template {
    /// Functions.
    pub functions: Vec<Function>,
    /// Routes of the API.
    pub routes: Vec<Route>,
    /// Which tokens the API accepts.
    pub authorizer: Option<Authorizer>,
    /// Which pages may call the API.
    pub cors: Option<Cors>,
    /// Queues that feed functions.
    pub queue_events: Vec<QueueEvent>,
    /// Functions that run again and again.
    pub schedules: Vec<Schedule>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Resources that only exist in the cloud, as `logical id (type)`.
    pub not_run: Vec<String>,
}

/// Where the local stand-ins are.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// Values of the template's parameters.
    pub parameters: BTreeMap<String, String>,
    /// Base URL of the queue server.
    pub queue_url: String,
}

const FUNCTION: &str = "AWS::Serverless::Function";
const API: &str = "AWS::Serverless::HttpApi";
const QUEUE: &str = "AWS::SQS::Queue";
const TABLE: &str = "AWS::DynamoDB::Table";

/// Types that would carry calls of their own. Leaving one out would change
/// what the system does, so they are refused until the runner knows them.
const REFUSED: [&str; 8] = [
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Route",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Scheduler::Schedule",
    "AWS::Serverless::Api",
    "AWS::Serverless::StateMachine",
];

const FUNCTION_USED: [&str; 4] = [
    "Environment",
    "Events",
    "ReservedConcurrentExecutions",
    "Timeout",
];
const FUNCTION_IGNORED: [&str; 20] = [
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
    "Policies",
    "PropagateTags",
    "ProvisionedConcurrencyConfig",
    "Role",
    "Runtime",
    "RuntimeManagementConfig",
    "Tags",
    "Tracing",
    "VpcConfig",
];

/// Lambda's own default.
const DEFAULT_TIMEOUT_S: u64 = 3;
/// SQS's own default.
const DEFAULT_VISIBILITY_S: u64 = 30;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It can't be read, or it says something that the runner does not know
    /// and would have to leave out; the error names it.
    pub fn parse(text: &str, values: &Values) -> anyhow::Result<Self> {
        let document: Yaml = serde_yaml_ng::from_str(text)?;
        let resources = document
            .get("Resources")
            .and_then(Yaml::as_mapping)
            .context("the template has no Resources")?;
        let mut template = Self {
            functions: Vec::new(),
            routes: Vec::new(),
            authorizer: None,
            cors: None,
            queue_events: Vec::new(),
            schedules: Vec::new(),
            queues: Vec::new(),
            tables: Vec::new(),
            not_run: Vec::new(),
        };
        let scope = scope(&document, resources, values)?;
        let globals = document.get("Globals").and_then(|all| all.get("Function"));
        let mut apis = 0;
        for (id, resource) in resources {
            let id = id.as_str().context("a resource has no name")?;
            let kind = kind_of(resource)?;
            let properties = resource.get("Properties");
            match kind {
                FUNCTION => template.add_function(&scope, id, resource, globals),
                API => {
                    apis += 1;
                    ensure!(apis == 1, "{id}: the runner knows one API only");
                    template.set_api(&scope, properties)
                }
                QUEUE => template.add_queue(&scope, id, properties),
                TABLE => template.add_table(&scope, id, properties),
                refused if REFUSED.contains(&refused) => {
                    bail!("{id}: the runner does not know resources of type {refused}")
                }
                other => {
                    template.not_run.push(format!("{id} ({other})"));
                    Ok(())
                }
            }
            .with_context(|| format!("in the resource {id}"))?;
        }
        ensure!(
            apis == 1 || template.routes.is_empty(),
            "there are routes and no API"
        );
        Ok(template)
    }

    fn add_function(
        &mut self,
        scope: &Scope,
        id: &str,
        resource: &Yaml,
        globals: Option<&Yaml>,
    ) -> anyhow::Result<()> {
        let binary = resource
            .get("Metadata")
            .and_then(|metadata| metadata.get("BuildProperties")?.get("Binary")?.as_str())
            .context("Metadata.BuildProperties.Binary is not set")?;
        let properties = pick(
            resource.get("Properties"),
            &FUNCTION_USED,
            &FUNCTION_IGNORED,
        )?;
        let globals = pick(globals, &FUNCTION_USED, &FUNCTION_IGNORED)?;
        let number = |name: &str| -> anyhow::Result<Option<u64>> {
            match properties.get(name).or_else(|| globals.get(name)) {
                None => Ok(None),
                Some(value) => {
                    let Number(value) = read(scope, value).with_context(|| name.to_owned())?;
                    Ok(Some(value))
                }
            }
        };
        let mut variables = BTreeMap::new();
        for source in [&globals, &properties] {
            let Some(environment) = source.get("Environment") else {
                continue;
            };
            let environment = pick(Some(environment), &["Variables"], &[])?;
            let Some(Yaml::Mapping(entries)) = environment.get("Variables") else {
                continue;
            };
            for (name, value) in entries {
                let name = name.as_str().context("a variable has no name")?;
                let value = scope.resolve(value).with_context(|| name.to_owned())?;
                variables.insert(name.to_owned(), text_of(value)?);
            }
        }
        self.functions.push(Function {
            id: id.to_owned(),
            binary: binary.to_owned(),
            timeout: Duration::from_secs(number("Timeout")?.unwrap_or(DEFAULT_TIMEOUT_S)),
            concurrency: number("ReservedConcurrentExecutions")?.map(|number| number as usize),
            variables,
        });
        if let Some(Yaml::Mapping(events)) = properties.get("Events") {
            for (name, event) in events {
                self.add_event(scope, id, event)
                    .with_context(|| format!("in the event {name:?}"))?;
            }
        }
        Ok(())
    }

    fn add_event(&mut self, scope: &Scope, function: &str, event: &Yaml) -> anyhow::Result<()> {
        let properties = event.get("Properties");
        match kind_of(event)? {
            "HttpApi" => {
                let route = route(scope, function, properties)?;
                self.routes.push(route);
            }
            "SQS" => {
                let event = queue_event(scope, function, properties)?;
                self.queue_events.push(event);
            }
            "ScheduleV2" => {
                // A retry or a flexible window changes nothing for a run that
                // is repeated within a second here.
                let picked = pick(
                    properties,
                    &["ScheduleExpression", "State"],
                    &["Name", "Description", "RetryPolicy", "FlexibleTimeWindow"],
                )?;
                let expression: String = read(
                    scope,
                    picked
                        .get("ScheduleExpression")
                        .context("ScheduleExpression is not set")?,
                )?;
                let every = rate(&expression).with_context(|| {
                    format!("the runner does not know the schedule {expression}")
                })?;
                let state = match picked.get("State") {
                    None => "ENABLED".to_owned(),
                    Some(state) => read(scope, state)?,
                };
                match state.as_str() {
                    "ENABLED" => self.schedules.push(Schedule {
                        function: function.to_owned(),
                        every,
                    }),
                    "DISABLED" => {}
                    other => bail!("the runner does not know the state {other}"),
                }
            }
            other => bail!("the runner does not know events of type {other}"),
        }
        Ok(())
    }

    fn set_api(&mut self, scope: &Scope, properties: Option<&Yaml>) -> anyhow::Result<()> {
        let picked = pick(
            properties,
            &["Auth", "CorsConfiguration", "StageName"],
            &[
                "AccessLogSettings",
                "DefaultRouteSettings",
                "Description",
                "Domain",
                "FailOnWarnings",
                "Name",
                "RouteSettings",
                "Tags",
            ],
        )?;
        let stage: Option<String> = picked
            .get("StageName")
            .map(|stage| read(scope, stage))
            .transpose()?;
        ensure!(
            stage.as_deref().is_none_or(|stage| stage == "$default"),
            "the runner knows the stage $default only"
        );
        self.cors = picked
            .get("CorsConfiguration")
            .map(|cors| read(scope, cors).context("CorsConfiguration"))
            .transpose()?;
        if let Some(auth) = picked.get("Auth") {
            self.authorizer = authorizer(read(scope, auth).context("Auth")?)?;
        }
        Ok(())
    }

    fn add_queue(
        &mut self,
        scope: &Scope,
        id: &str,
        properties: Option<&Yaml>,
    ) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Read {
            #[serde(default)]
            fifo_queue: bool,
            deduplication_scope: Option<String>,
            visibility_timeout: Option<Number>,
            redrive_policy: Option<Redrive>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Redrive {
            dead_letter_target_arn: String,
            max_receive_count: Number,
        }
        let picked = pick(
            properties,
            &[
                "FifoQueue",
                "DeduplicationScope",
                "VisibilityTimeout",
                "RedrivePolicy",
            ],
            &[
                "FifoThroughputLimit",
                "KmsDataKeyReusePeriodSeconds",
                "KmsMasterKeyId",
                "MessageRetentionPeriod",
                "QueueName",
                "RedriveAllowPolicy",
                "SqsManagedSseEnabled",
                "Tags",
            ],
        )?;
        let read: Read = collect(scope, &picked)?;
        ensure!(read.fifo_queue, "the runner knows FIFO queues only");
        let redrive = match read.redrive_policy {
            None => None,
            Some(policy) => {
                let target = queue_by_arn(scope, &policy.dead_letter_target_arn)?;
                Some((target, policy.max_receive_count.0 as u32))
            }
        };
        self.queues.push(Queue {
            id: id.to_owned(),
            name: queue_name(id),
            visibility: Duration::from_secs(
                read.visibility_timeout
                    .map_or(DEFAULT_VISIBILITY_S, |Number(seconds)| seconds),
            ),
            deduplicate_by_group: read.deduplication_scope.as_deref() == Some("messageGroup"),
            redrive,
        });
        Ok(())
    }

    fn add_table(
        &mut self,
        scope: &Scope,
        id: &str,
        properties: Option<&Yaml>,
    ) -> anyhow::Result<()> {
        // Nothing local reads the stream, and an expired item may stay for
        // days in the cloud too.
        let picked = pick(
            properties,
            &[
                "AttributeDefinitions",
                "BillingMode",
                "GlobalSecondaryIndexes",
                "KeySchema",
                "LocalSecondaryIndexes",
                "ProvisionedThroughput",
            ],
            &[
                "ContributorInsightsSpecification",
                "DeletionProtectionEnabled",
                "KinesisStreamSpecification",
                "OnDemandThroughput",
                "PointInTimeRecoverySpecification",
                "ResourcePolicy",
                "SSESpecification",
                "StreamSpecification",
                "TableClass",
                "TableName",
                "Tags",
                "TimeToLiveSpecification",
                "WarmThroughput",
            ],
        )?;
        let name = table_name(id);
        let mut definition: Json = collect(scope, &picked)?;
        definition["TableName"] = name.clone().into();
        self.tables.push(Table { name, definition });
        Ok(())
    }
}

/// What every name in the template stands for.
fn scope(
    document: &Yaml,
    resources: &serde_yaml_ng::Mapping,
    values: &Values,
) -> anyhow::Result<Scope> {
    let mut scope = Scope::default();
    if let Some(parameters) = document.get("Parameters").and_then(Yaml::as_mapping) {
        for (name, parameter) in parameters {
            let name = name.as_str().context("a parameter has no name")?;
            let value = match (values.parameters.get(name), parameter.get("Default")) {
                (Some(value), _) => Some(value.clone()),
                (None, Some(default)) => Some(text_of(serde_json::to_value(default)?)?),
                (None, None) => None,
            };
            scope.parameters.insert(name.to_owned(), value);
        }
    }
    for name in values.parameters.keys() {
        ensure!(
            scope.parameters.contains_key(name),
            "the template has no parameter {name}"
        );
    }
    for (id, resource) in resources {
        let id = id.as_str().context("a resource has no name")?;
        let attributes = attributes(id, kind_of(resource)?, &values.queue_url);
        scope.resources.insert(id.to_owned(), attributes);
    }
    Ok(scope)
}

/// What `!Ref` and `!GetAtt` of a resource give on one machine.
fn attributes(id: &str, kind: &str, queue_url: &str) -> Attributes {
    let arn = |service: &str, name: &str| format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{name}");
    let (reference, attributes) = match kind {
        FUNCTION => (
            id.to_owned(),
            vec![("Arn", arn("lambda", &format!("function:{id}")))],
        ),
        API => ("local".to_owned(), vec![]),
        QUEUE => {
            let name = queue_name(id);
            let url = format!("{queue_url}/{ACCOUNT}/{name}");
            (
                url.clone(),
                vec![
                    ("Arn", arn("sqs", &name)),
                    ("QueueUrl", url),
                    ("QueueName", name),
                ],
            )
        }
        TABLE => {
            let name = table_name(id);
            (
                name.clone(),
                vec![("Arn", arn("dynamodb", &format!("table/{name}")))],
            )
        }
        _ => return Attributes::default(),
    };
    Attributes {
        reference: Some(reference),
        attributes: attributes.into_iter().collect(),
    }
}

fn route(scope: &Scope, function: &str, properties: Option<&Yaml>) -> anyhow::Result<Route> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        method: String,
        path: String,
        #[serde(default)]
        auth: Auth,
        payload_format_version: Option<Json>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Auth {
        authorizer: Option<String>,
        #[serde(default)]
        authorization_scopes: Vec<String>,
    }
    let picked = pick(
        properties,
        &["Method", "Path", "Auth", "PayloadFormatVersion"],
        &["ApiId", "RouteSettings"],
    )?;
    let read: Read = collect(scope, &picked)?;
    if let Some(version) = read.payload_format_version {
        ensure!(
            version == "2.0" || version == 2.0,
            "the runner knows payload format 2.0 only"
        );
    }
    ensure!(read.path.starts_with('/'), "the path is not absolute");
    let access = match read.auth.authorizer.as_deref() {
        Some("NONE") => Access::Public,
        // There is one authorizer at most, which is the default one.
        _ => Access::Token {
            scopes: read.auth.authorization_scopes,
        },
    };
    Ok(Route {
        method: match read.method.to_ascii_uppercase().as_str() {
            "*" | "X-AMAZON-APIGATEWAY-ANY-METHOD" => "ANY".to_owned(),
            method => method.to_owned(),
        },
        path: read.path,
        function: function.to_owned(),
        access,
    })
}

fn queue_event(
    scope: &Scope,
    function: &str,
    properties: Option<&Yaml>,
) -> anyhow::Result<QueueEvent> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        queue: String,
        batch_size: Option<Number>,
        #[serde(default)]
        function_response_types: Vec<String>,
        scaling_config: Option<Scaling>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Scaling {
        maximum_concurrency: Option<Number>,
    }
    let picked = pick(
        properties,
        &[
            "Queue",
            "BatchSize",
            "FunctionResponseTypes",
            "ScalingConfig",
        ],
        &[],
    )?;
    let read: Read = collect(scope, &picked)?;
    let partial = match read.function_response_types.as_slice() {
        [] => false,
        [one] if one == "ReportBatchItemFailures" => true,
        other => bail!("the runner does not know the response types {other:?}"),
    };
    let queue = queue_by_arn(scope, &read.queue)?;
    Ok(QueueEvent {
        function: function.to_owned(),
        queue,
        batch_size: read.batch_size.map_or(10, |Number(size)| size as usize),
        concurrency: read
            .scaling_config
            .and_then(|scaling| scaling.maximum_concurrency)
            .map(|Number(limit)| limit as usize),
        partial,
    })
}

fn authorizer(auth: Json) -> anyhow::Result<Option<Authorizer>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Read {
        default_authorizer: Option<String>,
        #[serde(default)]
        authorizers: BTreeMap<String, One>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct One {
        identity_source: String,
        jwt_configuration: Jwt,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Jwt {
        issuer: String,
        audience: Vec<String>,
    }
    let read: Read = serde_json::from_value(auth)?;
    ensure!(
        read.authorizers.len() <= 1,
        "the runner knows one authorizer only"
    );
    let Some((name, one)) = read.authorizers.into_iter().next() else {
        return Ok(None);
    };
    ensure!(
        read.default_authorizer.as_deref() == Some(name.as_str()),
        "the authorizer {name} is not the default one"
    );
    ensure!(
        one.identity_source == "$request.header.Authorization",
        "the runner does not know the identity source {}",
        one.identity_source
    );
    Ok(Some(Authorizer {
        issuer: one.jwt_configuration.issuer,
        audience: one.jwt_configuration.audience,
    }))
}

fn queue_by_arn(scope: &Scope, arn: &str) -> anyhow::Result<String> {
    scope
        .resources
        .iter()
        .find(|(_, resource)| resource.attributes.get("Arn").is_some_and(|own| own == arn))
        .map(|(id, _)| id.clone())
        .with_context(|| format!("{arn} is no queue of the template"))
}

fn kind_of(item: &Yaml) -> anyhow::Result<&str> {
    item.get("Type")
        .and_then(Yaml::as_str)
        .context("it has no Type")
}

/// `ClaimQueue` is `claim-queue.fifo`.
fn queue_name(id: &str) -> String {
    format!("{}.fifo", table_name(id))
}

/// `Ledger` is `ledger`, `ClaimQueue` is `claim-queue`.
fn table_name(id: &str) -> String {
    let mut name = String::with_capacity(id.len() + 4);
    for (index, letter) in id.chars().enumerate() {
        if letter.is_ascii_uppercase() && index > 0 {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// `rate(1 minute)`.
fn rate(expression: &str) -> Option<Duration> {
    let inside = expression.strip_prefix("rate(")?.strip_suffix(')')?;
    let (number, unit) = inside.split_once(' ')?;
    let seconds = match unit {
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3_600,
        "day" | "days" => 86_400,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()? * seconds))
}

/// A number, or a text that holds one: a `!Ref` of a parameter is a text.
#[derive(Debug, Clone, Copy)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Json::deserialize(deserializer)?;
        value
            .as_u64()
            .or_else(|| value.as_str()?.parse().ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("{value} is no number")))
    }
}

fn read<T: DeserializeOwned>(scope: &Scope, value: &Yaml) -> anyhow::Result<T> {
    Ok(serde_json::from_value(scope.resolve(value)?)?)
}

fn collect<T: DeserializeOwned>(
    scope: &Scope,
    picked: &BTreeMap<&str, &Yaml>,
) -> anyhow::Result<T> {
    let mut object = serde_json::Map::new();
    for (name, value) in picked {
        let value = scope.resolve(value).with_context(|| (*name).to_owned())?;
        object.insert((*name).to_owned(), value);
    }
    Ok(serde_json::from_value(Json::Object(object))?)
}

fn text_of(value: Json) -> anyhow::Result<String> {
    Ok(match value {
        Json::String(text) => text,
        Json::Number(number) => number.to_string(),
        Json::Bool(flag) => flag.to_string(),
        other => bail!("{other} is no plain value"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = include_str!("../../../template.yaml");

    fn values() -> Values {
        let parameters = [
            "SessionIssuer",
            "GateUrl",
            "PassKeys",
            "EdgeKey",
            "IdentityKey",
            "AttestationKey",
            "WebhookSecrets",
        ];
        Values {
            parameters: parameters
                .map(|name| (name.to_owned(), format!("{name}-value")))
                .into(),
            queue_url: "http://127.0.0.1:9324".to_owned(),
        }
    }

    fn refused(text: &str) -> String {
        format!("{:#}", Template::parse(text, &values()).unwrap_err())
    }

    #[test]
    fn the_real_template_is_understood_as_a_whole() {
        let template = Template::parse(REAL, &values()).unwrap();
        let claim = template
            .functions
            .iter()
            .find(|function| function.id == "ClaimFunction")
            .unwrap();
        assert_eq!(claim.binary, "claim-function");
        assert_eq!(claim.timeout, Duration::from_secs(5));
        assert_eq!(claim.concurrency, None);
        assert_eq!(claim.variables["TABLE_NAME"], "ledger");
        assert_eq!(
            claim.variables["QUEUE_URL"],
            "http://127.0.0.1:9324/000000000000/claim-queue.fifo"
        );
        assert_eq!(claim.variables["GATE_ACKS"], "1");

        let route = |key: &str| {
            let route = template.routes.iter().find(|route| route.key() == key);
            route.unwrap_or_else(|| panic!("no {key}"))
        };
        assert_eq!(
            route("POST /v1/sales/{sale}/claims").access,
            Access::Token { scopes: vec![] }
        );
        assert_eq!(
            route("POST /v1/admin/sales").access,
            Access::Token {
                scopes: vec!["sales.admin".to_owned()]
            }
        );
        assert_eq!(route("GET /v1/sales/{sale}").access, Access::Public);

        let authorizer = template.authorizer.unwrap();
        assert_eq!(authorizer.issuer, "SessionIssuer-value");
        assert_eq!(authorizer.audience, ["flash-sale"]);
        assert_eq!(template.cors.unwrap().max_age, Some(600));

        let [event] = &template.queue_events[..] else {
            panic!("one queue feeds one function");
        };
        assert_eq!((event.queue.as_str(), event.batch_size), ("ClaimQueue", 10));
        assert_eq!((event.concurrency, event.partial), (Some(20), true));
        let queue = template
            .queues
            .iter()
            .find(|queue| queue.id == "ClaimQueue");
        let queue = queue.unwrap();
        assert_eq!(queue.redrive, Some(("DeadLetterQueue".to_owned(), 5)));
        assert_eq!(queue.visibility, Duration::from_secs(180));
        assert!(queue.deduplicate_by_group);

        assert!(
            template
                .schedules
                .iter()
                .all(|schedule| schedule.every == Duration::from_secs(60))
        );
        assert_eq!(template.tables[0].name, "ledger");
        assert_eq!(
            template.tables[0].definition["KeySchema"][0]["AttributeName"],
            "pk"
        );
    }

    #[test]
    fn a_parameter_without_a_value_is_named() {
        let mut values = values();
        values.parameters.remove("PassKeys");
        let error = format!("{:#}", Template::parse(REAL, &values).unwrap_err());
        assert!(error.contains("PassKeys has no value"), "{error}");
    }

    #[test]
    fn nothing_that_matters_is_left_out_silently() {
        for (from, to, named) in [
            ("Type: ScheduleV2", "Type: Kinesis", "Kinesis"),
            ("Timeout: 5", "Timeout: 5\n      SnapStart: {}", "SnapStart"),
            ("rate(1 minute)", "cron(0 * * * ? *)", "cron(0"),
            ("BatchSize: 10", "FilterCriteria: {}", "FilterCriteria"),
            (
                "GATE_ACKS: !Ref GateAcks",
                "GATE_ACKS: !If [a, b, c]",
                "!If",
            ),
            (
                "Resources:\n",
                "Resources:\n  More:\n    Type: AWS::Scheduler::Schedule\n",
                "AWS::Scheduler::Schedule",
            ),
            ("StageName: $default", "StageName: live", "$default"),
            ("FifoQueue: true", "FifoQueue: false", "FIFO"),
            ("MaxAge: 600", "MaxAges: 600", "MaxAges"),
        ] {
            assert!(REAL.contains(from), "{from}");
            let error = refused(&REAL.replacen(from, to, 1));
            assert!(error.contains(named), "{named}: {error}");
        }
    }

    #[test]
    fn resources_of_the_cloud_alone_are_listed() {
        let text = REAL.replacen(
            "Resources:\n",
            "Resources:\n  Late:\n    Type: AWS::CloudWatch::Alarm\n",
            1,
        );
        let template = Template::parse(&text, &values()).unwrap();
        assert!(
            template
                .not_run
                .contains(&"Late (AWS::CloudWatch::Alarm)".to_owned())
        );
    }
}
