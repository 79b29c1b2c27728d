//! Values of a template: YAML with CloudFormation's intrinsic functions,
//! resolved to plain JSON.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

/// The region of everything local.
pub(crate) const REGION: &str = "us-east-1";
/// The account of everything local.
pub(crate) const ACCOUNT: &str = "000000000000";

/// What `!Ref` and `!GetAtt` of one resource give.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// The value of `!Ref`; none where nothing local stands in for it.
    pub(crate) reference: Option<String>,
    /// The values of `!GetAtt`, by attribute.
    pub(crate) attributes: BTreeMap<&'static str, String>,
}

/// What names in a template stand for.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Parameters; none where one was given no value and has no default.
    pub(crate) parameters: BTreeMap<String, Option<String>>,
    /// Resources by logical id.
    pub(crate) resources: BTreeMap<String, Attributes>,
}

impl Scope {
    /// A value with every intrinsic function resolved.
    pub(crate) fn resolve(&self, value: &Yaml) -> anyhow::Result<Json> {
        Ok(match value {
            Yaml::Null => Json::Null,
            Yaml::Bool(flag) => Json::Bool(*flag),
            Yaml::Number(_) => serde_json::to_value(value)?,
            Yaml::String(text) => Json::String(text.clone()),
            Yaml::Sequence(items) => items
                .iter()
                .map(|item| self.resolve(item))
                .collect::<anyhow::Result<_>>()?,
            Yaml::Mapping(entries) => {
                if let Some((name, argument)) = single_function(entries) {
                    return self.call(name, argument);
                }
                let mut object = serde_json::Map::new();
                for (key, value) in entries {
                    let key = key
                        .as_str()
                        .ok_or_else(|| anyhow!("the key {key:?} is not text"))?;
                    object.insert(key.to_owned(), self.resolve(value)?);
                }
                Json::Object(object)
            }
            Yaml::Tagged(tagged) => {
                let tag = tagged.tag.to_string();
                return self.call(tag.trim_start_matches('!'), &tagged.value);
            }
        })
    }

    fn call(&self, function: &str, argument: &Yaml) -> anyhow::Result<Json> {
        let text = || {
            argument
                .as_str()
                .with_context(|| format!("!{function} wants a text"))
        };
        let value = match function {
            "Ref" => self.reference(text()?)?,
            "GetAtt" => match argument {
                Yaml::Sequence(parts) => {
                    let parts: Option<Vec<_>> = parts.iter().map(Yaml::as_str).collect();
                    self.attribute(&parts.context("!GetAtt wants texts")?.join("."))?
                }
                _ => self.attribute(text()?)?,
            },
            "Sub" => self.substitute(text()?)?,
            other => bail!("the runner does not know the function !{other}"),
        };
        Ok(Json::String(value))
    }

    fn reference(&self, name: &str) -> anyhow::Result<String> {
        if let Some(pseudo) = pseudo_parameter(name) {
            return Ok(pseudo.to_owned());
        }
        if let Some(value) = self.parameters.get(name) {
            return value
                .clone()
                .with_context(|| format!("the parameter {name} has no value"));
        }
        self.resources
            .get(name)
            .with_context(|| format!("!Ref {name}: there is no such parameter or resource"))?
            .reference
            .clone()
            .with_context(|| format!("!Ref {name}: that resource is not run locally"))
    }

    fn attribute(&self, path: &str) -> anyhow::Result<String> {
        let (name, attribute) = path
            .split_once('.')
            .with_context(|| format!("!GetAtt {path}: no attribute is named"))?;
        self.resources
            .get(name)
            .with_context(|| format!("!GetAtt {path}: there is no resource {name}"))?
            .attributes
            .get(attribute)
            .cloned()
            .with_context(|| format!("!GetAtt {path}: the runner does not know it"))
    }

    fn substitute(&self, text: &str) -> anyhow::Result<String> {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after
                .split_once('}')
                .with_context(|| format!("!Sub {text}: a brace is open"))?;
            result.push_str(before);
            if let Some(literal) = name.strip_prefix('!') {
                result.push_str("${");
                result.push_str(literal);
                result.push('}');
            } else if name.contains('.') {
                result.push_str(&self.attribute(name)?);
            } else {
                result.push_str(&self.reference(name)?);
            }
            rest = after;
        }
        result.push_str(rest);
        Ok(result)
    }
}

/// `{"Fn::Sub": …}` and `{"Ref": …}`: the long form of a tag.
fn single_function(entries: &serde_yaml_ng::Mapping) -> Option<(&str, &Yaml)> {
    if entries.len() != 1 {
        return None;
    }
    let (key, argument) = entries.iter().next()?;
    let key = key.as_str()?;
    match key {
        "Ref" | "Condition" => Some((key, argument)),
        _ => Some((key.strip_prefix("Fn::")?, argument)),
    }
}

fn pseudo_parameter(name: &str) -> Option<&'static str> {
    Some(match name {
        "AWS::Region" => REGION,
        "AWS::AccountId" => ACCOUNT,
        "AWS::Partition" => "aws",
        "AWS::URLSuffix" => "amazonaws.com",
        "AWS::StackName" => "local",
        _ => return None,
    })
}

/// The properties among `used`; `ignored` ones have no effect on one machine.
/// Any other is an error that names it: the template says something that the
/// runner would leave out.
pub(crate) fn pick<'a>(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            parameters: [
                ("Set".to_owned(), Some("seven".to_owned())),
                ("Unset".to_owned(), None),
            ]
            .into(),
            resources: [
                (
                    "Table".to_owned(),
                    Attributes {
                        reference: Some("table".to_owned()),
                        attributes: [("Arn", "arn:table".to_owned())].into(),
                    },
                ),
                ("Alarm".to_owned(), Attributes::default()),
            ]
            .into(),
        }
    }

    fn resolve(yaml: &str) -> anyhow::Result<Json> {
        scope().resolve(&serde_yaml_ng::from_str(yaml).unwrap())
    }

    #[test]
    fn functions_give_their_values() {
        assert_eq!(resolve("!Ref Set").unwrap(), "seven");
        assert_eq!(resolve("{Ref: Table}").unwrap(), "table");
        assert_eq!(resolve("!GetAtt Table.Arn").unwrap(), "arn:table");
        assert_eq!(resolve("Fn::GetAtt: [Table, Arn]").unwrap(), "arn:table");
        assert_eq!(
            resolve("!Sub '${Set}/${Table.Arn}/${AWS::Region}/${!kept}'").unwrap(),
            "seven/arn:table/us-east-1/${kept}"
        );
        assert_eq!(
            resolve("[1, {a: true}]").unwrap(),
            serde_json::json!([1, {"a": true}])
        );
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (yaml, named) in [
            ("!Ref Unset", "Unset"),
            ("!Ref Nobody", "Nobody"),
            ("!Ref Alarm", "Alarm"),
            ("!GetAtt Table.StreamArn", "Table.StreamArn"),
            ("!If [a, b, c]", "!If"),
            ("Fn::Join: ['', [a]]", "!Join"),
        ] {
            let error = resolve(yaml).unwrap_err().to_string();
            assert!(error.contains(named), "{yaml}: {error}");
        }
    }
}
