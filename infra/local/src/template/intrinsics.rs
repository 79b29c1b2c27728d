//! Values of a template: YAML with CloudFormation's intrinsic functions,
//! resolved to plain JSON.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use super::names::entries;
use super::properties::text_of;

/// The region of everything local.
pub(crate) const REGION: &str = "us-east-1";
/// The account of everything local.
pub(crate) const ACCOUNT: &str = "000000000000";

/// What resolves to nothing: a property or an item that is left out.
const NO_VALUE: &str = "AWS::NoValue";

/// What `!Ref` and `!GetAtt` of one resource give.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    /// The value of `!Ref`; none where nothing local stands in for it.
    pub(super) reference: Option<String>,
    /// The values of `!GetAtt`, by attribute.
    pub(super) attributes: BTreeMap<String, String>,
}

/// What names in a template stand for.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Parameters, texts or lists of texts; none where one was given no value
    /// and has no default.
    pub(super) parameters: BTreeMap<String, Option<Json>>,
    /// Conditions, and whether they hold.
    pub(super) conditions: BTreeMap<String, bool>,
    /// Resources by logical id.
    pub(super) resources: BTreeMap<String, Attributes>,
}

impl Scope {
    /// A value with every intrinsic function resolved; none if it is
    /// `AWS::NoValue`.
    pub(super) fn resolve(&self, value: &Yaml) -> anyhow::Result<Option<Json>> {
        Ok(Some(match value {
            Yaml::Null => Json::Null,
            Yaml::Bool(flag) => Json::Bool(*flag),
            Yaml::Number(_) => serde_json::to_value(value)?,
            Yaml::String(text) => Json::String(text.clone()),
            Yaml::Sequence(items) => items
                .iter()
                .filter_map(|item| self.resolve(item).transpose())
                .collect::<anyhow::Result<_>>()?,
            Yaml::Mapping(_) | Yaml::Tagged(_) => {
                if let Some((function, argument)) = function_of(value) {
                    return self.call(&function, argument);
                }
                let mut object = serde_json::Map::new();
                for (key, value) in entries(Some(value))? {
                    let value = self.resolve(value).with_context(|| key.to_owned())?;
                    object.extend(value.map(|value| (key.to_owned(), value)));
                }
                Json::Object(object)
            }
        }))
    }

    /// The logical id of the resource that has an attribute of this value.
    pub(super) fn resource_with(&self, attribute: &str, value: &str) -> Option<&str> {
        let mut resources = self.resources.iter();
        let (id, _) = resources.find(|(_, one)| {
            one.attributes
                .get(attribute)
                .is_some_and(|own| own == value)
        })?;
        Some(id)
    }

    /// Does the condition of this name hold?
    pub(super) fn condition(&self, name: &str) -> anyhow::Result<bool> {
        let holds = self.conditions.get(name).copied();
        holds.with_context(|| format!("there is no condition {name}"))
    }

    /// Does this expression of `Conditions` hold?
    pub(super) fn holds(&self, expression: &Yaml) -> anyhow::Result<bool> {
        let (function, argument) = function_of(expression).context("it is no function")?;
        match function.as_str() {
            "Equals" => {
                let [one, other] = arguments(&function, argument)?;
                Ok(self.text(one)? == self.text(other)?)
            }
            "Not" => {
                let [negated] = arguments(&function, argument)?;
                Ok(!self.holds(negated)?)
            }
            other => bail!("the runner does not know the function !{other} of conditions"),
        }
    }

    fn call(&self, function: &str, argument: &Yaml) -> anyhow::Result<Option<Json>> {
        let text = || {
            argument
                .as_str()
                .with_context(|| format!("!{function} wants a text"))
        };
        Ok(Some(match function {
            "Ref" => match text()? {
                NO_VALUE => return Ok(None),
                name => self.reference(name)?,
            },
            "GetAtt" => match argument {
                Yaml::Sequence(parts) => {
                    let parts: Option<Vec<_>> = parts.iter().map(Yaml::as_str).collect();
                    self.attribute(&parts.context("!GetAtt wants texts")?.join("."))?
                }
                _ => self.attribute(text()?)?,
            }
            .into(),
            "Sub" => self.substitute(text()?)?.into(),
            "If" => {
                let [condition, then, otherwise] = arguments(function, argument)?;
                let name = condition.as_str().context("!If wants a condition's name")?;
                // The other one may name what is not there.
                let chosen = if self.condition(name)? {
                    then
                } else {
                    otherwise
                };
                return self.resolve(chosen);
            }
            "Join" => {
                let [separator, items] = arguments(function, argument)?;
                let items: anyhow::Result<Vec<_>> =
                    self.list(items)?.into_iter().map(text_of).collect();
                items?.join(&self.text(separator)?).into()
            }
            "Split" => {
                let [separator, text] = arguments(function, argument)?;
                let (separator, text) = (self.text(separator)?, self.text(text)?);
                text.split(&*separator).collect()
            }
            "Select" => {
                let [index, items] = arguments(function, argument)?;
                let (index, items) = (self.text(index)?, self.list(items)?);
                let item = index.parse().ok().and_then(|index: usize| items.get(index));
                item.cloned()
                    .with_context(|| format!("!Select {index}: there is no such item"))?
            }
            other => bail!("the runner does not know the function !{other}"),
        }))
    }

    /// What must be a plain value.
    fn text(&self, value: &Yaml) -> anyhow::Result<String> {
        text_of(self.resolve(value)?.context("it has no value")?)
    }

    /// What must be a list.
    fn list(&self, value: &Yaml) -> anyhow::Result<Vec<Json>> {
        match self.resolve(value)? {
            Some(Json::Array(items)) => Ok(items),
            _ => bail!("{value:?} is no list"),
        }
    }

    fn reference(&self, name: &str) -> anyhow::Result<Json> {
        if let Some(pseudo) = pseudo_parameter(name) {
            return Ok(pseudo.into());
        }
        if let Some(value) = self.parameters.get(name) {
            return value
                .clone()
                .with_context(|| format!("the parameter {name} has no value"));
        }
        let resource = self.resources.get(name);
        let reference = resource
            .with_context(|| format!("!Ref {name}: there is no such parameter or resource"))?
            .reference
            .clone()
            .with_context(|| format!("!Ref {name}: that resource is not run locally"))?;
        Ok(reference.into())
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
                result.push_str(&text_of(self.reference(name)?)?);
            }
            rest = after;
        }
        result.push_str(rest);
        Ok(result)
    }
}

/// The name and the argument of an intrinsic function, in either form.
fn function_of(value: &Yaml) -> Option<(String, &Yaml)> {
    match value {
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            Some((tag.trim_start_matches('!').to_owned(), &tagged.value))
        }
        // `{"Fn::Sub": …}` and `{"Ref": …}`.
        Yaml::Mapping(entries) if entries.len() == 1 => {
            let (key, argument) = entries.iter().next()?;
            let name = match key.as_str()? {
                short @ ("Ref" | "Condition") => short,
                long => long.strip_prefix("Fn::")?,
            };
            Some((name.to_owned(), argument))
        }
        _ => None,
    }
}

fn arguments<'a, const COUNT: usize>(
    function: &str,
    argument: &'a Yaml,
) -> anyhow::Result<[&'a Yaml; COUNT]> {
    let items = argument.as_sequence().into_iter().flatten();
    items
        .collect::<Vec<_>>()
        .try_into()
        .ok()
        .with_context(|| format!("!{function} wants {COUNT} arguments"))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope {
            parameters: [
                ("Set".to_owned(), Some(json!("seven"))),
                ("Many".to_owned(), Some(json!(["a", "b"]))),
                ("Zero".to_owned(), Some(json!("0"))),
                ("Unset".to_owned(), None),
            ]
            .into(),
            conditions: [("Yes".to_owned(), true), ("No".to_owned(), false)].into(),
            resources: [
                (
                    "Table".to_owned(),
                    Attributes {
                        reference: Some("table".to_owned()),
                        attributes: [("Arn".to_owned(), "arn:table".to_owned())].into(),
                    },
                ),
                ("Alarm".to_owned(), Attributes::default()),
            ]
            .into(),
        }
    }

    fn resolve(yaml: &str) -> anyhow::Result<Option<Json>> {
        scope().resolve(&serde_yaml_ng::from_str(yaml).unwrap())
    }

    #[test]
    fn functions_give_their_values() {
        for (yaml, value) in [
            ("!Ref Set", json!("seven")),
            ("{Ref: Table}", json!("table")),
            ("!GetAtt Table.Arn", json!("arn:table")),
            ("Fn::GetAtt: [Table, Arn]", json!("arn:table")),
            (
                "!Sub '${Set}/${Table.Arn}/${AWS::Region}/${!kept}'",
                json!("seven/arn:table/us-east-1/${kept}"),
            ),
            ("[1, {a: true}]", json!([1, {"a": true}])),
            ("!Ref Many", json!(["a", "b"])),
            ("!Join [',', !Ref Many]", json!("a,b")),
            ("Fn::Join: ['', [x, 1]]", json!("x1")),
            ("!Split [',', 'a,b']", json!(["a", "b"])),
            ("!Select [1, !Split ['-', 'a-b']]", json!("b")),
            ("!Select ['0', !Ref Many]", json!("a")),
            // What is not chosen may name what is not there.
            ("!If [Yes, !Ref Set, !Ref Nobody]", json!("seven")),
            ("!If [No, !Ref Nobody, {a: 1}]", json!({"a": 1})),
            (
                "{a: !Ref AWS::NoValue, b: !If [Yes, !Ref AWS::NoValue, 1], c: [!Ref AWS::NoValue, 2]}",
                json!({"c": [2]}),
            ),
        ] {
            assert_eq!(resolve(yaml).unwrap(), Some(value), "{yaml}");
        }
        assert_eq!(resolve("!Ref AWS::NoValue").unwrap(), None);
    }

    #[test]
    fn conditions_hold_or_not() {
        let holds = |yaml: &str| scope().holds(&serde_yaml_ng::from_str(yaml).unwrap());
        for (yaml, expected) in [
            ("!Equals [!Ref Set, seven]", true),
            ("!Equals [!Ref Set, '']", false),
            // A parameter is a text, whatever its type says.
            ("!Equals [!Ref Zero, 0]", true),
            ("!Not [!Equals [!Ref Zero, 0]]", false),
            ("Fn::Not: [{Fn::Equals: [a, b]}]", true),
        ] {
            assert_eq!(holds(yaml).unwrap(), expected, "{yaml}");
        }
        for (yaml, named) in [
            ("!Or [!Equals [a, a], !Equals [a, b]]", "!Or"),
            ("!Equals [a]", "2 arguments"),
            ("!Equals [!Ref Unset, a]", "Unset"),
            ("true", "no function"),
        ] {
            let error = holds(yaml).unwrap_err().to_string();
            assert!(error.contains(named), "{yaml}: {error}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (yaml, named) in [
            ("!Ref Unset", "Unset"),
            ("!Ref Nobody", "Nobody"),
            ("!Ref Alarm", "Alarm"),
            ("!GetAtt Table.StreamArn", "Table.StreamArn"),
            ("!If [Perhaps, b, c]", "Perhaps"),
            ("!If [Yes, b]", "3 arguments"),
            ("!Select [2, !Ref Many]", "!Select 2"),
            ("!Select [0, 'text']", "no list"),
            ("!Join [',', !Ref Set]", "no list"),
            ("!Equals [a, b]", "!Equals"),
            ("Fn::Cidr: ['', 1]", "!Cidr"),
            ("{a: {b: !Ref Nobody}}", "Nobody"),
        ] {
            let error = format!("{:#}", resolve(yaml).unwrap_err());
            assert!(error.contains(named), "{yaml}: {error}");
        }
    }
}
