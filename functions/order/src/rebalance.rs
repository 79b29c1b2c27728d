//! Free units move to a bucket that has none, gate and ledger alike. Late in a
//! sale shoppers find them at home then, and not by asking every bucket.
//!
//! A stop in between takes units out of a gate that the ledger still has: the
//! sweeper's comparison puts them back, once no move can be under way any more.
//! It never makes one: a gate gets units only once its bucket has the capacity,
//! capacity moves only between buckets that are in the lives that were looked
//! at, and a gate that was made true from the ledger meanwhile takes none.

use ledger::Error;
use queue::Rebalance;

use crate::OrderFunction;

impl OrderFunction {
    /// Moves what is still free of what was asked for.
    ///
    /// # Errors
    /// The ledger does not answer; then at most as many units are moved once
    /// more.
    pub(crate) async fn rebalance(&self, asked: &Rebalance) -> Result<(), Error> {
        let Rebalance { sale, from, to, .. } = asked;
        let gates = self.ledger.gates(sale).await?.unwrap_or_default();
        let (Some(source), Some(target)) = (gates.of(*from), gates.of(*to)) else {
            return Ok(());
        };
        // Both are asked first: units for a bucket that can't sell them would
        // be no gain.
        let open = (
            self.gate.is_open(source).await,
            self.gate.is_open(target).await,
        );
        if !matches!(open, (Ok(true), Ok(true))) {
            return Ok(());
        }
        let lives = [(*from, source.epoch), (*to, target.epoch)];
        let units = self.ledger.movable(sale, lives, asked.units).await?;
        if units == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        if self.gate.begin_move(target, 0, now).await.is_err() {
            return Ok(());
        }
        let units = match self.gate.begin_move(source, units, now).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(units) => units,
        };
        let moved = self.ledger.move_capacity(sale, lives, units).await?;
        let gets = if moved { target } else { source };
        if let Err(error) = self.gate.put(gets, units).await {
            tracing::warn!(%sale, %from, %to, units, %error,
                "units that move are in no gate until the comparison puts them back");
        }
        tracing::info!(%sale, %from, %to, units, moved, "units were moved between buckets");
        Ok(())
    }
}
