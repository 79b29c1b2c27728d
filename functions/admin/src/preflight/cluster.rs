//! The cluster as ElastiCache keeps it. What the servers can tell themselves is
//! asked there (`engine`); this is what only the service knows.

use std::collections::BTreeSet;

use aws_sdk_elasticache::Client;
use aws_sdk_elasticache::types::{
    AutomaticFailoverStatus, MultiAzStatus, NodeGroup, ReplicationGroup, TransitEncryptionMode,
};

use super::{Check, Deployment, check, unknown};

const NAMES: [&str; 4] = ["cluster", "failover", "zones", "encryption"];

impl Deployment {
    pub(super) async fn check_cluster(&self) -> Vec<Check> {
        match self.replication_group().await {
            Ok(group) => vec![
                cluster(&group),
                failover(&group),
                zones(group.node_groups()),
                encryption(&group),
            ],
            Err(why) => {
                let advice = "Look at the replication group in the ElastiCache console; the network needs an endpoint of ElastiCache.";
                NAMES.map(|name| unknown(name, &why, advice)).into()
            }
        }
    }

    async fn replication_group(&self) -> Result<ReplicationGroup, String> {
        let id = self.cluster.as_ref().ok_or("no cluster is named")?;
        let asked = Client::new(&self.aws)
            .describe_replication_groups()
            .replication_group_id(id);
        let answer = asked.send().await;
        let answer = answer.map_err(|error| runtime::cause(&error).to_owned())?;
        let group = answer.replication_groups.unwrap_or_default().pop();
        group.ok_or_else(|| "it is not described".to_owned())
    }
}

/// It is in cluster mode, and nothing is being changed.
fn cluster(group: &ReplicationGroup) -> Check {
    let status = group.status().unwrap_or_default();
    let mode = if group.cluster_enabled() == Some(true) {
        "cluster mode"
    } else {
        "no cluster mode"
    };
    let node = group.cache_node_type().unwrap_or_default();
    check(
        NAMES[0],
        status == "available" && group.cluster_enabled() == Some(true),
        format!(
            "{status}, {mode}, {} shards of {node}",
            group.node_groups().len()
        ),
        "Wait until it is available; without cluster mode deploy infra/cache.yaml anew.",
    )
}

/// A primary that dies is replaced by itself, from another zone.
fn failover(group: &ReplicationGroup) -> Check {
    let on = group.automatic_failover() == Some(&AutomaticFailoverStatus::Enabled);
    let zones = group.multi_az() == Some(&MultiAzStatus::Enabled);
    let word = |on: bool| if on { "on" } else { "off" };
    check(
        NAMES[1],
        on && zones,
        format!(
            "automatic failover {}, several zones {}",
            word(on),
            word(zones)
        ),
        "Turn automatic failover and multi-AZ on: a primary that dies would stay away.",
    )
}

/// Every shard has a replica in another zone than its primary's.
fn zones(shards: &[NodeGroup]) -> Check {
    let apart = |shard: &&NodeGroup| {
        let members = shard.node_group_members();
        let zones = members
            .iter()
            .filter_map(|member| member.preferred_availability_zone());
        members.len() >= 2 && zones.collect::<BTreeSet<_>>().len() >= 2
    };
    let safe = shards.iter().filter(apart).count();
    check(
        NAMES[2],
        safe == shards.len() && safe > 0,
        format!(
            "{safe} of {} shards have nodes in several zones",
            shards.len()
        ),
        "Give each shard a replica in another zone (GateReplicas).",
    )
}

/// Nobody listens in, and nobody gets in without the password.
fn encryption(group: &ReplicationGroup) -> Check {
    let required = group.transit_encryption_mode() != Some(&TransitEncryptionMode::Preferred);
    let transit = group.transit_encryption_enabled() == Some(true) && required;
    let password = group.auth_token_enabled() == Some(true);
    let word = |on: bool| if on { "required" } else { "not required" };
    check(
        NAMES[3],
        transit && password,
        format!("TLS {}, password {}", word(transit), word(password)),
        "Deploy infra/cache.yaml anew, with TLS and password.",
    )
}
