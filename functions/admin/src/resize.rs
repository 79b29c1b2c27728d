//! Changing the units of a live sale. The gate gives units up before the
//! ledger does, and gets them after the ledger has: a stop in between sells
//! less for a while, never more, and the comparison of the sweeper mends it. Each
//! gate is told first that units move: no comparison raises it meanwhile, not even
//! one that began before the change.
//! Sent again, a change goes on from what the ledger's buckets add up to.

use api::{Code, Problem};
use domain::bucket::UNITS_PER_BUCKET_MAX;
use domain::slot::{GateAddress, Gates};
use domain::{BucketId, Sale};
use futures::{StreamExt, TryStreamExt, stream};
use ledger::orders::Bucket;
use ledger::resize::Resize;

use crate::{AdminFunction, CONCURRENCY};

impl AdminFunction {
    pub(crate) async fn resize(&self, sale: &Sale, units: u32) -> Result<Sale, Problem> {
        let gates = self
            .ledger
            .gates(&sale.id)
            .await?
            .ok_or_else(|| Problem::new(Code::Frozen))?;
        let begun = self.ledger.begin_resize(&sale.id, self.clock.now()).await?;
        let resize = begun.ok_or_else(Problem::not_found)?;
        let rows = self.rows(sale, &gates).await?;
        let before = rows.iter().map(|row| row.capacity).sum::<u32>();
        let moved = if units < before {
            self.shrink(&resize, &gates, &rows, before - units).await
        } else {
            self.grow(&resize, &gates, &rows, units - before).await
        };
        match moved {
            Ok(()) => Ok(self.ledger.end_resize(resize, units).await?),
            Err(refused) => {
                if matches!(refused.code, Code::UnitsInUse | Code::InvalidField) {
                    // Nothing was moved now; an earlier change may have stopped
                    // half-way. The sale says what its buckets sell.
                    self.ledger.end_resize(resize, before).await?;
                }
                Err(refused)
            }
        }
    }

    /// Each bucket's row, in their order.
    async fn rows(&self, sale: &Sale, gates: &Gates) -> Result<Vec<Bucket>, Problem> {
        let buckets: Vec<_> = gates.iter().map(|(bucket, _)| bucket).collect();
        stream::iter(buckets)
            .map(|bucket| async move {
                let row = self.ledger.bucket(&sale.id, bucket).await?;
                row.ok_or_else(Problem::not_found)
            })
            .buffered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// Takes free units out, bucket by bucket; all of them or none.
    async fn shrink(
        &self,
        resize: &Resize,
        gates: &Gates,
        rows: &[Bucket],
        units: u32,
    ) -> Result<(), Problem> {
        let in_use = |units: u32| {
            Problem::new(Code::UnitsInUse)
                .detail(format!("At least {units} units are held or sold."))
        };
        let before = rows.iter().map(|row| row.capacity).sum::<u32>();
        // Seen in the ledger first: while the gates are asked for more than
        // there is, nobody could be given a unit.
        let spare = rows.iter().map(|row| row.spare).sum::<u32>();
        if spare < units {
            return Err(in_use(before - spare));
        }
        let mut taken = Vec::new();
        let missing = self.take_free(gates, units, &mut taken).await;
        if !matches!(missing, Ok(0)) {
            // A gate that did not answer is no reason to keep what others gave.
            self.put_back(taken).await;
            return Err(in_use(before - units + missing?));
        }
        let mut taken = taken.into_iter();
        while let Some((bucket, address, here)) = taken.next() {
            let from = rows[usize::from(bucket.0)].capacity;
            let to = from.saturating_sub(here);
            let life = (bucket, address.epoch);
            let lowered = self.ledger.resize_bucket(resize, life, from, to).await;
            if matches!(lowered, Err(ledger::Error::Conflict)) {
                // The ledger keeps these units, so the gates get them back.
                let mut kept = vec![(bucket, address, here)];
                kept.extend(taken.by_ref());
                self.put_back(kept).await;
            }
            lowered?;
        }
        Ok(())
    }

    /// Gates get units back. One that does not take them keeps no other from its
    /// own: it lives anew, and has them, or the comparison gives them.
    async fn put_back(&self, taken: Vec<(BucketId, &GateAddress, u32)>) {
        for (bucket, address, here) in taken {
            if let Err(error) = self.gate.put(address, here).await {
                tracing::warn!(%bucket, units = here, %error, "units are not back at their gate");
            }
        }
    }

    /// Takes up to so many free units, and notes them; says how many are
    /// missing.
    async fn take_free<'a>(
        &self,
        gates: &'a Gates,
        units: u32,
        taken: &mut Vec<(BucketId, &'a GateAddress, u32)>,
    ) -> Result<u32, Problem> {
        let mut missing = units;
        for (bucket, address) in gates.iter() {
            if missing == 0 {
                break;
            }
            let now = self.clock.now();
            let here = self.gate.begin_move(address, missing, now).await?;
            if here > 0 {
                taken.push((bucket, address, here));
                missing -= here;
            }
        }
        Ok(missing)
    }

    /// Puts units in where there is most room, as evenly as may be.
    async fn grow(
        &self,
        resize: &Resize,
        gates: &Gates,
        rows: &[Bucket],
        units: u32,
    ) -> Result<(), Problem> {
        let capacities: Vec<_> = rows.iter().map(|row| row.capacity).collect();
        let added = spread(&capacities, units)?;
        for ((bucket, address), (from, more)) in gates.iter().zip(capacities.into_iter().zip(added))
        {
            if more > 0 {
                self.gate.begin_move(address, 0, self.clock.now()).await?;
                self.ledger
                    .resize_bucket(resize, (bucket, address.epoch), from, from + more)
                    .await?;
                self.gate.put(address, more).await?;
            }
        }
        Ok(())
    }
}

/// How many units each bucket gets.
fn spread(capacities: &[u32], units: u32) -> Result<Vec<u32>, Problem> {
    let mut added = vec![0; capacities.len()];
    for _ in 0..units {
        let smallest = (0..capacities.len()).min_by_key(|&n| capacities[n] + added[n]);
        match smallest.filter(|&n| capacities[n] + added[n] < UNITS_PER_BUCKET_MAX) {
            Some(n) => added[n] += 1,
            None => {
                return Err(Problem::field(
                    "units",
                    format_args!(
                        "must be at most {} while the sale has {} buckets",
                        UNITS_PER_BUCKET_MAX * capacities.len() as u32,
                        capacities.len()
                    ),
                ));
            }
        }
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_where_there_is_room() {
        assert_eq!(spread(&[3, 1, 2], 3).unwrap(), [0, 2, 1]);
        assert_eq!(spread(&[250, 249], 2).unwrap_err().errors[0].field, "units");
    }
}
