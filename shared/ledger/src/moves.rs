//! Moving units between two buckets of a sale: those that are free in one are
//! of use in another.
//!
//! Not while the sale's units change: a change computes from capacities that
//! nobody else moves.

use domain::bucket::UNITS_MOVED_MAX;
use domain::{BucketId, SaleId};

use crate::{Error, Ledger, Transaction, key};

impl Ledger {
    /// How many of these units could move from the first bucket to the second.
    /// A gate that units are taken from is not repaired for a while, so none is
    /// asked in vain.
    ///
    /// # Errors
    /// No answer.
    pub async fn movable(
        &self,
        sale: &SaleId,
        [(from, from_epoch), (to, to_epoch)]: [(BucketId, u64); 2],
        units: u32,
    ) -> Result<u32, Error> {
        let row = self.sale(sale).await?;
        let rows = (self.bucket(sale, from).await?, self.bucket(sale, to).await?);
        let (Some(sale), (Some(source), Some(target))) = (row, rows) else {
            return Ok(0);
        };
        let same = (source.epoch, target.epoch) == (from_epoch, to_epoch);
        if from == to || !same || sale.resizing.is_some() {
            return Ok(0);
        }
        let room = UNITS_MOVED_MAX.saturating_sub(target.capacity);
        Ok(units.min(source.spare).min(room))
    }

    /// Moves capacity that is not allotted from the first bucket to the second,
    /// each in this life, unless the sale's units are being changed. Says
    /// whether it did.
    ///
    /// # Errors
    /// No answer.
    pub async fn move_capacity(
        &self,
        sale: &SaleId,
        [(from, from_epoch), (to, to_epoch)]: [(BucketId, u64); 2],
        units: u32,
    ) -> Result<bool, Error> {
        let rows = (self.bucket(sale, from).await?, self.bucket(sale, to).await?);
        let (Some(source), Some(target)) = rows else {
            return Ok(false);
        };
        if from == to || source.spare < units || target.capacity + units > UNITS_MOVED_MAX {
            return Ok(false);
        }
        let mut writes = Transaction::new();
        let signed = i64::from(units);
        for (id, epoch, row, change) in [
            (from, from_epoch, &source, -signed),
            (to, to_epoch, &target, signed),
        ] {
            writes
                .update(
                    &key::bucket(sale, id),
                    "ADD #capacity :change, spare :change",
                )
                .only_if("#capacity = :seen AND spare >= :fewest AND epoch = :epoch")
                .name("#capacity", "capacity")
                .number(":epoch", epoch)
                .number(":seen", row.capacity)
                .number(":change", change)
                .number(":fewest", (-change).max(0));
        }
        writes
            .check(&key::sale(sale))
            .only_if("attribute_not_exists(resizing) OR attribute_type(resizing, :null)")
            .text(":null", "NULL");
        if self.table.write(&writes).await?.is_ok() {
            return Ok(true);
        }
        // Ours, if the answer was lost: then each has what it was to have.
        let rows = (self.bucket(sale, from).await?, self.bucket(sale, to).await?);
        let capacities = (
            rows.0.map(|row| row.capacity),
            rows.1.map(|row| row.capacity),
        );
        Ok(capacities == (Some(source.capacity - units), Some(target.capacity + units)))
    }
}
