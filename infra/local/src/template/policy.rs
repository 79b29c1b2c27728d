//! Policies: what a function may do.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::ensure;
use serde::Deserialize;

/// An action on a resource that a policy grants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// `dynamodb:GetItem`.
    pub action: String,
    /// The resource's ARN.
    pub resource: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.action, self.resource)
    }
}

/// A policy that stands in the template. Policies that have a name say nothing
/// of what they grant, and are not known.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Policy {
    version: String,
    statement: Vec<Statement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Statement {
    #[serde(rename = "Effect")]
    _effect: Effect,
    action: OneOrMany,
    resource: OneOrMany,
}

#[derive(Deserialize)]
enum Effect {
    Allow,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Actions that AWS grants for all resources of a kind or not at all, and how
/// the ARN of all ends.
const OF_ALL: [(&str, &str); 1] = [("cloudwatch:DescribeAlarms", ":alarm:*")];

/// Does a right name what it is for, as far as AWS can tell it apart?
fn is_narrow(right: &Right) -> bool {
    let all = OF_ALL.iter().find(|(action, _)| *action == right.action);
    let resource = all.and_then(|(_, end)| right.resource.strip_suffix(end));
    let resource = resource.unwrap_or(&right.resource);
    !right.action.contains('*') && !resource.contains('*')
}

/// Every action on every resource of the policies.
pub(super) fn rights(policies: &[Policy]) -> anyhow::Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for policy in policies {
        ensure!(
            policy.version == "2012-10-17",
            "the runner does not know the policy language {}",
            policy.version
        );
        for statement in &policy.statement {
            for action in statement.action.all() {
                for resource in statement.resource.all() {
                    let right = Right {
                        action: action.clone(),
                        resource: resource.clone(),
                    };
                    // More than is needed, whatever is needed.
                    ensure!(
                        is_narrow(&right),
                        "a function may do what it needs by name only: {right}"
                    );
                    rights.insert(right);
                }
            }
        }
    }
    Ok(rights)
}
