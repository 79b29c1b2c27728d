//! `template.yaml` as the runner understands it: functions and what calls
//! them, the API, the queues, the tables, the secrets.
//!
//! | module | reads |
//! |---|---|
//! | `names` | what parameters, conditions and resources stand for |
//! | `intrinsics` | `!Ref`, `!If` and the like |
//! | `properties` | which properties are known, and their values |
//! | `function`, `policy`, `api`, `queue`, `schedule`, `table`, `secret` | resources and events |
//!
//! What has no meaning on one machine is listed by name where it is left out.
//! What is on no list is an error that names it.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use serde_yaml_ng::Value as Yaml;

mod api;
mod function;
mod intrinsics;
mod names;
mod policy;
mod properties;
mod queue;
mod schedule;
mod secret;
mod table;
#[cfg(test)]
mod tests;

pub use api::{Access, Authorizer, Cors, Route};
pub use function::Function;
pub(crate) use intrinsics::{ACCOUNT, REGION};
pub use policy::Right;
pub use queue::{Queue, QueueEvent};
pub use schedule::Schedule;
pub use secret::Secret;
pub use table::Table;

use intrinsics::Scope;
use names::Resource;
use properties::pick;

/// The whole template.
#[derive(Debug, Clone, Default)]
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
    /// Secrets.
    pub secrets: Vec<Secret>,
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
    /// The nested stacks that are known, by logical id, and the outputs of
    /// what stands in for them; none where nothing local does.
    pub stacks: BTreeMap<String, BTreeMap<String, String>>,
}

const FUNCTION: &str = "AWS::Serverless::Function";
const API: &str = "AWS::Serverless::HttpApi";
const QUEUE: &str = "AWS::SQS::Queue";
const TABLE: &str = "AWS::DynamoDB::Table";
const SECRET: &str = "AWS::SecretsManager::Secret";
const STACK: &str = "AWS::CloudFormation::Stack";

/// Types that only exist in the cloud: the system sells the same without
/// them. A type that carries calls to a function does not belong here.
const NOT_RUN: [&str; 8] = [
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::Events::EventBus",
    "AWS::IAM::Role",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",
    "AWS::Pipes::Pipe",
    "AWS::SNS::Topic",
];

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It can't be read, or it says something that the runner does not know
    /// and would have to leave out; the error names it.
    pub fn parse(text: &str, values: &Values) -> anyhow::Result<Self> {
        let document: Yaml = serde_yaml_ng::from_str(text)?;
        let sections = pick(
            Some(&document),
            &["Conditions", "Globals", "Parameters", "Resources"],
            &[
                "AWSTemplateFormatVersion",
                "Description",
                "Metadata",
                "Outputs",
                "Transform",
            ],
        )?;
        let section = |name: &str| sections.get(name).copied();
        let globals = pick(section("Globals"), &["Function"], &[])?;
        let mut scope = names::scope(section("Parameters"), section("Conditions"), values)?;
        let resources = names::resources(&scope, section("Resources"))?;
        names::add_resources(&mut scope, &resources, values)?;

        let mut template = Self::default();
        for resource in &resources {
            template
                .add(&scope, resource, globals.get("Function").copied(), values)
                .with_context(|| format!("in the resource {}", resource.id))?;
        }
        let apis = resources.iter().filter(|one| one.kind == API).count();
        ensure!(apis <= 1, "the runner knows one API only");
        ensure!(
            apis == 1 || template.routes.is_empty(),
            "there are routes and no API"
        );
        Ok(template)
    }

    fn add(
        &mut self,
        scope: &Scope,
        resource: &Resource<'_>,
        globals: Option<&Yaml>,
        values: &Values,
    ) -> anyhow::Result<()> {
        let Resource { id, properties, .. } = *resource;
        match resource.kind {
            FUNCTION => {
                let (function, events) = function::read(scope, resource, globals)?;
                self.functions.push(function);
                for (name, event) in events {
                    self.add_event(scope, id, event)
                        .with_context(|| format!("in the event {name}"))?;
                }
            }
            API => (self.authorizer, self.cors) = api::read(scope, properties)?,
            QUEUE => self.queues.push(queue::read(scope, id, properties)?),
            TABLE => self.tables.push(table::read(scope, id, properties)?),
            SECRET => self.secrets.push(secret::read(scope, id, properties)?),
            STACK if values.stacks.get(id).is_some_and(|known| !known.is_empty()) => {}
            kind if kind == STACK || NOT_RUN.contains(&kind) => {
                self.not_run.push(format!("{id} ({kind})"));
            }
            other => bail!("the runner does not know resources of type {other}"),
        }
        Ok(())
    }

    fn add_event(&mut self, scope: &Scope, function: &str, event: &Yaml) -> anyhow::Result<()> {
        let event = pick(Some(event), &["Properties", "Type"], &[])?;
        let properties = event.get("Properties").copied();
        let kind = event.get("Type").and_then(|kind| kind.as_str());
        match kind.context("it has no Type")? {
            "HttpApi" => self.routes.push(api::route(scope, function, properties)?),
            "SQS" => {
                let event = queue::event(scope, function, properties)?;
                self.queue_events.push(event);
            }
            "ScheduleV2" => {
                let schedule = schedule::event(scope, function, properties)?;
                self.schedules.extend(schedule);
            }
            other => bail!("the runner does not know events of type {other}"),
        }
        Ok(())
    }
}
