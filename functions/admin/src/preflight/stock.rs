//! The sale's own: its buckets in the ledger, its gates, where they are.

use std::collections::BTreeMap;

use domain::Sale;
use domain::slot::{Gates, slot};

use super::{Check, check, unknown};
use crate::AdminFunction;

impl AdminFunction {
    /// The creation, or the last change, was completed.
    pub(super) fn check_loaded(&self, sale: &Sale, gates: &Gates) -> Check {
        let buckets = usize::from(sale.config.buckets);
        check(
            "loaded",
            sale.loaded && gates.addresses.len() == buckets,
            format!("{} of {buckets} buckets", gates.addresses.len()),
            "Call load: the creation or a change did not complete.",
        )
    }

    /// There is time left.
    pub(super) fn check_opening(&self, sale: &Sale) -> Check {
        let now = self.clock.now();
        check(
            "opening",
            !sale.has_opened(now) && !sale.has_ended(now),
            sale.config.opens_at.to_string(),
            "The sale has opened or was ended; a preflight belongs before that.",
        )
    }

    /// The buckets' capacities are the units.
    pub(super) async fn check_ledger(&self, sale: &Sale) -> Check {
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
    pub(super) async fn check_gates(&self, sale: &Sale, gates: &Gates) -> Vec<Check> {
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
    pub(super) async fn check_spread(&self, gates: &Gates) -> Check {
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
}
