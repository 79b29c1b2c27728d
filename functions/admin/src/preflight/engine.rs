//! The servers of the gates, as they describe themselves.

use domain::slot::Gates;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;

use super::{Check, check, unknown};
use crate::{AdminFunction, CONCURRENCY};

/// Engines below this replicate their script cache: a failover would not be
/// noticed.
const MAJOR_MIN: u32 = 7;

/// Clocks further apart than this open and end a sale at different times.
const CLOCK_MAX: SignedDuration = SignedDuration::from_millis(500);

/// What was found.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) checks: Vec<Check>,
    /// Primaries that answered.
    pub(super) primaries: usize,
}

impl AdminFunction {
    pub(super) async fn check_engine(&self, gates: &Gates) -> Engine {
        let (mut checks, primaries) = match self.described().await {
            Ok(found) => found,
            Err(error) => {
                let look = "Look at the cache's health.";
                let names = ["engine", "eviction"];
                (names.map(|name| unknown(name, &error, look)).into(), 0)
            }
        };
        checks.push(self.check_replicas(gates).await);
        checks.push(self.check_clock().await);
        Engine { checks, primaries }
    }

    async fn described(&self) -> Result<(Vec<Check>, usize), gate::Error> {
        let primaries = self.gate.describe().await?;
        let expected = self.gate.primaries().await?.len();
        let mut kinds: Vec<_> = primaries
            .iter()
            .map(|one| format!("{} {}", one.engine, one.version))
            .collect();
        kinds.sort();
        kinds.dedup();
        let mut policies: Vec<_> = primaries.iter().map(|one| one.eviction.as_str()).collect();
        policies.sort_unstable();
        policies.dedup();
        let known = primaries.iter().all(|one| one.major() >= MAJOR_MIN);
        let count = primaries.len();
        let checks = vec![
            check(
                "engine",
                known && kinds.len() == 1 && count == expected,
                format!("{} on {count} of {expected} primaries", kinds.join(", ")),
                "Every primary must run the same version, Redis 7 or Valkey 7 at least.",
            ),
            check(
                "eviction",
                policies == ["noeviction"],
                policies.join(", "),
                "Set maxmemory-policy to noeviction: a counter that is evicted is a sale that is lost.",
            ),
        ];
        Ok((checks, count))
    }

    /// Replicas acknowledge in time, wherever a bucket is; or none is asked
    /// for.
    async fn check_replicas(&self, gates: &Gates) -> Check {
        const ADVICE: &str = "Claims would be answered 202 CONFIRMING; look at the replicas.";
        if gates.addresses.is_empty() {
            return unknown("replicas", "no gate is loaded", "Call load.");
        }
        let asked: Result<Vec<bool>, _> = stream::iter(gates.addresses.clone())
            .map(|address| async move { self.gate.bucket(&address).acknowledged().await })
            .buffered(CONCURRENCY)
            .try_collect()
            .await;
        match asked {
            Ok(asked) => {
                let (all, safe) = (asked.len(), asked.into_iter().filter(|safe| *safe).count());
                let found = format!("replicas acknowledge for {safe} of {all} buckets");
                check("replicas", safe == all, found, ADVICE)
            }
            Err(error) => unknown("replicas", error, ADVICE),
        }
    }

    /// This function and the gates agree on what time it is.
    async fn check_clock(&self) -> Check {
        const ADVICE: &str =
            "A sale opens by the functions' clocks; deploy anew, and tell AWS if it stays.";
        match self.gate.time().await {
            Ok(theirs) => {
                let apart = self.clock.now().duration_since(theirs).abs();
                let found = format!("{} ms from the gates' clock", apart.as_millis());
                check("clock", apart <= CLOCK_MAX, found, ADVICE)
            }
            Err(error) => unknown("clock", error, ADVICE),
        }
    }
}
