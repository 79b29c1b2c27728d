//! What the names in a template stand for on one machine.

use anyhow::{Context, ensure};
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::{ACCOUNT, Attributes, REGION, Scope};
use super::properties::{pick, text_of};
use super::{API, FUNCTION, QUEUE, SECRET, STACK, TABLE, Values};

/// One resource that is deployed: its condition, if it has one, holds.
pub(super) struct Resource<'a> {
    pub(super) id: &'a str,
    pub(super) kind: &'a str,
    pub(super) properties: Option<&'a Yaml>,
    pub(super) metadata: Option<&'a Yaml>,
}

/// Parameters, and the conditions that follow from them; no resource yet.
pub(super) fn scope(
    parameters: Option<&Yaml>,
    conditions: Option<&Yaml>,
    values: &Values,
) -> anyhow::Result<Scope> {
    let mut scope = Scope::default();
    for (name, parameter) in entries(parameters)? {
        let value = values.parameters.get(name).map(String::as_str);
        let value =
            parameter_value(parameter, value).with_context(|| format!("the parameter {name}"))?;
        scope.parameters.insert(name.to_owned(), value);
    }
    for name in values.parameters.keys() {
        ensure!(
            scope.parameters.contains_key(name),
            "the template has no parameter {name}"
        );
    }
    for (name, expression) in entries(conditions)? {
        let holds = scope
            .holds(expression)
            .with_context(|| format!("the condition {name}"))?;
        scope.conditions.insert(name.to_owned(), holds);
    }
    Ok(scope)
}

/// A list of texts for a list, else a text, as `!Ref` gives them; none where
/// there is no value.
fn parameter_value(parameter: &Yaml, given: Option<&str>) -> anyhow::Result<Option<Json>> {
    let text = match (given, parameter.get("Default")) {
        (Some(given), _) => given.to_owned(),
        (None, Some(default)) => text_of(serde_json::to_value(default)?)?,
        (None, None) => return Ok(None),
    };
    let kind = parameter.get("Type").and_then(Yaml::as_str);
    Ok(Some(match kind.context("it has no Type")? {
        "CommaDelimitedList" => text.split(',').map(str::trim).collect(),
        "Number" => {
            ensure!(text.parse::<f64>().is_ok(), "{text} is no number");
            text.into()
        }
        _ => text.into(),
    }))
}

/// The resources whose conditions hold, in the template's order.
pub(super) fn resources<'a>(
    scope: &Scope,
    resources: Option<&'a Yaml>,
) -> anyhow::Result<Vec<Resource<'a>>> {
    ensure!(resources.is_some(), "the template has no Resources");
    let mut deployed = Vec::new();
    for (id, resource) in entries(resources)? {
        let resource = pick(
            Some(resource),
            &["Condition", "Metadata", "Properties", "Type"],
            &[
                "DeletionPolicy",
                "DependsOn",
                "UpdatePolicy",
                "UpdateReplacePolicy",
            ],
        )
        .with_context(|| format!("in the resource {id}"))?;
        let member = |name: &str| resource.get(name).copied();
        if let Some(condition) = member("Condition") {
            let name = condition
                .as_str()
                .with_context(|| format!("the condition of {id} is no name"))?;
            if !scope.condition(name)? {
                continue;
            }
        }
        deployed.push(Resource {
            id,
            kind: member("Type")
                .and_then(Yaml::as_str)
                .with_context(|| format!("{id} has no Type"))?,
            properties: member("Properties"),
            metadata: member("Metadata"),
        });
    }
    Ok(deployed)
}

/// Adds what the resources' names stand for.
pub(super) fn add_resources(
    scope: &mut Scope,
    resources: &[Resource<'_>],
    values: &Values,
) -> anyhow::Result<()> {
    for resource in resources {
        let attributes = attributes(resource, values)?;
        scope.resources.insert(resource.id.to_owned(), attributes);
    }
    Ok(())
}

/// What `!Ref` and `!GetAtt` of a resource give on one machine.
fn attributes(resource: &Resource<'_>, values: &Values) -> anyhow::Result<Attributes> {
    let id = resource.id;
    let arn = |service: &str, name: &str| format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{name}");
    let (reference, attributes) = match resource.kind {
        FUNCTION => (
            id.to_owned(),
            vec![("Arn", arn("lambda", &format!("function:{id}")))],
        ),
        API => ("local".to_owned(), vec![]),
        QUEUE => {
            let name = queue_name(id);
            let url = format!("{}/{ACCOUNT}/{name}", values.queue_url);
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
            let name = local_name(id);
            (
                name.clone(),
                vec![("Arn", arn("dynamodb", &format!("table/{name}")))],
            )
        }
        SECRET => {
            let arn = arn("secretsmanager", &format!("secret:{}", local_name(id)));
            (arn.clone(), vec![("Id", arn)])
        }
        STACK => {
            let outputs = values.stacks.get(id);
            let outputs =
                outputs.with_context(|| format!("the runner does not know the stack {id}"))?;
            let outputs = outputs
                .iter()
                .map(|(name, value)| (format!("Outputs.{name}"), value.clone()));
            return Ok(Attributes {
                reference: None,
                attributes: outputs.collect(),
            });
        }
        _ => return Ok(Attributes::default()),
    };
    Ok(Attributes {
        reference: Some(reference),
        attributes: attributes
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    })
}

/// `ClaimQueue` is `claim-queue.fifo`.
pub(super) fn queue_name(id: &str) -> String {
    format!("{}.fifo", local_name(id))
}

/// `Ledger` is `ledger`, `ClaimQueue` is `claim-queue`.
pub(super) fn local_name(id: &str) -> String {
    let mut name = String::with_capacity(id.len() + 4);
    for (index, letter) in id.chars().enumerate() {
        if letter.is_ascii_uppercase() && index > 0 {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The members of a section, in the template's order.
pub(super) fn entries(section: Option<&Yaml>) -> anyhow::Result<Vec<(&str, &Yaml)>> {
    let Some(section) = section else {
        return Ok(Vec::new());
    };
    let members = section.as_mapping().context("a section is no mapping")?;
    members
        .iter()
        .map(|(name, value)| Ok((name.as_str().context("a member has no name")?, value)))
        .collect()
}
