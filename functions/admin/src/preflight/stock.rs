//! Preflight: what is not ready, in plain words, before it matters.

use std::collections::BTreeMap;

use api::{Call, Problem, Reply};
use domain::Sale;
use domain::slot::{Gates, slot};
use serde::Serialize;
use serde_json::json;

use crate::AdminFunction;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Result {
    Ok,
    NotOk,
    NotChecked,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    result: Result,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

fn check(check: &'static str, good: bool, found: String, advice: &'static str) -> Check {
    let result = if good { Result::Ok } else { Result::NotOk };
    Check {
        check,
        result,
        found,
        advice: (!good).then_some(advice),
    }
}

fn unknown(check: &'static str, error: impl std::fmt::Display, advice: &'static str) -> Check {
    Check {
        check,
        result: Result::NotChecked,
        found: error.to_string(),
        advice: Some(advice),
    }
}

impl AdminFunction {
    pub(crate) async fn preflight(&self, call: &Call) -> std::result::Result<Reply, Problem> {
        let sale = self.sale(&call.sale()?).await?;
        let gates = self.ledger.gates(&sale.id).await?.unwrap_or_default();
        let mut checks = vec![
            check(
                "loaded",
                sale.loaded && gates.addresses.len() == usize::from(sale.config.buckets),
                format!(
                    "{} of {} buckets",
                    gates.addresses.len(),
                    sale.config.buckets
                ),
                "Call load: the creation or a change did not complete.",
            ),
            check(
                "opening",
                !sale.has_opened(self.clock.now()),
                sale.config.opens_at.to_string(),
                "The sale has opened; a preflight belongs before that.",
            ),
            self.check_ledger(&sale).await,
        ];
        checks.extend(self.check_gates(&sale, &gates).await);
        checks.push(self.check_spread(&gates).await);
        checks.push(self.check_replicas(&gates).await);
        checks.push(check(
            "payment_provider",
            true,
            self.provider.name().to_owned(),
            "",
        ));
        let ready = checks.iter().all(|check| check.result != Result::NotOk);
        Reply::ok(&json!({"sale_id": sale.id, "ready": ready, "checks": checks}))
    }

    /// The buckets' capacities are the units.
    async fn check_ledger(&self, sale: &Sale) -> Check {
        const ADVICE: &str = "Call load before the opening.";
        let mut capacity = 0u32;
        for n in 0..sale.config.buckets {
            match self.ledger.bucket(&sale.id, domain::BucketId(n)).await {
                Ok(row) => capacity += row.map_or(0, |row| row.capacity),
                Err(error) => return unknown("ledger", error, ADVICE),
            }
        }
        let found = format!("{capacity} of {} units in the ledger", sale.config.units);
        check("ledger", capacity == sale.config.units, found, ADVICE)
    }

    /// Every gate has its script, and together they hold the units.
    async fn check_gates(&self, sale: &Sale, gates: &Gates) -> Vec<Check> {
        const ADVICE: &str = "Call load before the opening; look at the cache's health.";
        let (mut open, mut left) = (0usize, 0u64);
        for (_, address) in gates.iter() {
            match (
                self.gate.is_open(address).await,
                self.gate.look(&address.tag).await,
            ) {
                (Ok(is_open), Ok(view)) => {
                    open += usize::from(is_open);
                    left += view.left;
                }
                (Err(gate::Error::NotReady), _) | (_, Err(gate::Error::NotReady)) => {}
                (Err(error), _) | (_, Err(error)) => return vec![unknown("gates", error, ADVICE)],
            }
        }
        let buckets = usize::from(sale.config.buckets);
        vec![
            check(
                "gates",
                open == buckets,
                format!("{open} of {buckets} gates open"),
                ADVICE,
            ),
            check(
                "stock",
                left == u64::from(sale.config.units),
                format!("{left} of {} units at the gates", sale.config.units),
                ADVICE,
            ),
        ]
    }

    /// Buckets are even over the primaries.
    async fn check_spread(&self, gates: &Gates) -> Check {
        const ADVICE: &str = "Call load: the cluster has changed since the sale was loaded.";
        let primaries = match self.gate.primaries().await {
            Ok(primaries) => primaries,
            Err(error) => return unknown("placement", error, ADVICE),
        };
        let mut counts: BTreeMap<usize, usize> = (0..primaries.len()).map(|n| (n, 0)).collect();
        for (_, address) in gates.iter() {
            let slot = slot(&address.tag);
            let owner = primaries
                .iter()
                .position(|owned| owned.iter().any(|range| range.contains(&slot)));
            if let Some(owner) = owner {
                *counts.entry(owner).or_default() += 1;
            }
        }
        let (most, fewest) = (counts.values().max(), counts.values().min());
        let even = most
            .zip(fewest)
            .is_some_and(|(most, fewest)| most - fewest <= 1);
        let found: Vec<String> = counts.values().map(ToString::to_string).collect();
        check(
            "placement",
            even,
            format!("buckets on each primary: {}", found.join(", ")),
            ADVICE,
        )
    }

    /// A replica acknowledges in time, or none is asked for.
    async fn check_replicas(&self, gates: &Gates) -> Check {
        const ADVICE: &str = "Claims would be answered 202 CONFIRMING; look at the replicas.";
        let Some(address) = gates.addresses.first() else {
            return unknown("replicas", "no gate is loaded", "Call load.");
        };
        match self.gate.bucket(address).replicated().await {
            Ok(acknowledged) => {
                let found = if acknowledged {
                    "a replica acknowledges"
                } else {
                    "no acknowledgement in time"
                };
                check("replicas", acknowledged, found.to_owned(), ADVICE)
            }
            Err(error) => unknown("replicas", error, ADVICE),
        }
    }
}
