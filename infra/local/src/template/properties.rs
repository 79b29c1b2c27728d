//! Properties: which are known, and their values.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;

/// The properties among `used`; `ignored` ones have no effect on one machine.
/// Any other is an error that names it: the template says something that the
/// runner would leave out.
pub(super) fn pick<'a>(
    properties: Option<&'a Yaml>,
    used: &[&str],
    ignored: &[&str],
) -> anyhow::Result<BTreeMap<&'a str, &'a Yaml>> {
    let mut picked = BTreeMap::new();
    let entries = match properties {
        None | Some(Yaml::Null) => return Ok(picked),
        Some(Yaml::Mapping(entries)) => entries,
        Some(_) => bail!("the properties are not a mapping"),
    };
    for (key, value) in entries {
        let key = key.as_str().context("a property has no name")?;
        if used.contains(&key) {
            picked.insert(key, value);
        } else {
            ensure!(
                ignored.contains(&key),
                "the runner does not know the property {key}"
            );
        }
    }
    Ok(picked)
}

/// The values of picked properties. One that resolves to no value is absent.
pub(super) fn collect<T: DeserializeOwned>(
    scope: &Scope,
    picked: &BTreeMap<&str, &Yaml>,
) -> anyhow::Result<T> {
    let mut object = serde_json::Map::new();
    for (name, value) in picked {
        let value = scope.resolve(value).with_context(|| (*name).to_owned())?;
        object.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    Ok(serde_json::from_value(Json::Object(object))?)
}

/// [`pick`], then [`collect`].
pub(super) fn read<T: DeserializeOwned>(
    scope: &Scope,
    properties: Option<&Yaml>,
    used: &[&str],
    ignored: &[&str],
) -> anyhow::Result<T> {
    collect(scope, &pick(properties, used, ignored)?)
}

/// A number, or a text that holds one: a `!Ref` of a parameter is a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number(pub(super) u64);

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

/// A plain value as CloudFormation hands it over.
pub(super) fn text_of(value: Json) -> anyhow::Result<String> {
    Ok(match value {
        Json::String(text) => text,
        Json::Number(number) => number.to_string(),
        Json::Bool(flag) => flag.to_string(),
        other => bail!("{other} is no plain value"),
    })
}
