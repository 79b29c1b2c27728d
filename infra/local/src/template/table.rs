//! Tables.

use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;
use super::names::local_name;
use super::properties;

/// One table.
#[derive(Debug, Clone)]
pub struct Table {
    /// The name.
    pub name: String,
    /// A `CreateTable` request.
    pub definition: Json,
}

pub(super) fn read(scope: &Scope, id: &str, given: Option<&Yaml>) -> anyhow::Result<Table> {
    // Nothing local reads the stream, and an expired item may stay for days in
    // the cloud too.
    let mut definition: Json = properties::read(
        scope,
        given,
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
    let name = local_name(id);
    definition["TableName"] = name.clone().into();
    Ok(Table { name, definition })
}
