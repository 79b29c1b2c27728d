//! Changing the units of a live sale, bucket by bucket, and moving units
//! between two buckets.
//!
//! Between the first bucket and the last a change may stop, or another may
//! begin. So the sale's row names the newest change, and every bucket is
//! written under the condition that it still is: an older one ends where it
//! is, and the newest computes from capacities that nobody else moves.

use domain::bucket::UNITS_MOVED_MAX;
use domain::{BucketId, Sale, SaleId};
use jiff::Timestamp;

use crate::orders::Bucket;
use crate::{Error, Ledger, Reason, Transaction, key};

/// A change of units that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resize {
    sale: SaleId,
    /// The version of the sale that began it.
    began: u64,
}

impl Ledger {
    /// Begins a change of units, and with that ends every other. `None` if
    /// there is no such sale.
    ///
    /// # Errors
    /// No answer.
    pub async fn begin_resize(
        &self,
        sale: &SaleId,
        now: Timestamp,
    ) -> Result<Option<Resize>, Error> {
        let begun = self.change_sale(sale, |sale| {
            sale.resizing = Some(sale.version + 1);
            sale.resized_at = Some(now);
            Ok::<_, std::convert::Infallible>(())
        });
        Ok(begun.await?.map(|Ok(sale)| Resize {
            began: sale.version,
            sale: sale.id,
        }))
    }

    /// Moves a bucket's capacity from what was read to another, in the life in
    /// which its gate was asked, and never below what is allotted. Doing it
    /// again is safe.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it would be, if the bucket lives anew, or if
    /// another change has begun.
    pub async fn resize_bucket(
        &self,
        resize: &Resize,
        (id, epoch): (BucketId, u64),
        from: u32,
        to: u32,
    ) -> Result<(), Error> {
        let change = i64::from(to) - i64::from(from);
        let row = key::bucket(&resize.sale, id);
        let mut writes = Transaction::new();
        writes
            .update(&row, "SET #capacity = :to ADD spare :change")
            .only_if("#capacity = :from AND spare >= :fewest AND epoch = :epoch")
            .name("#capacity", "capacity")
            .number(":epoch", epoch)
            .number(":from", from)
            .number(":to", to)
            .number(":change", change)
            .number(":fewest", (-change).max(0));
        writes
            .check(&key::sale(&resize.sale))
            .only_if("resizing = :began")
            .number(":began", resize.began);
        let reasons = match self.table.write(&writes).await? {
            Ok(()) => return Ok(()),
            Err(reasons) => reasons,
        };
        // Ours, whose answer was lost: nobody else moves it to this capacity.
        match reasons.as_slice() {
            [Reason::Condition(Some(row)), Reason::None]
                if crate::table::from_item::<Bucket>(row.clone())?.capacity == to =>
            {
                Ok(())
            }
            _ => Err(Error::Conflict),
        }
    }

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

    /// Ends a change: the sale has so many units now.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another change has begun.
    pub async fn end_resize(&self, resize: Resize, units: u32) -> Result<Sale, Error> {
        let ended = self.change_sale(&resize.sale, |sale| {
            let done = sale.resizing.is_none() && sale.config.units == units;
            if sale.resizing != Some(resize.began) && !done {
                return Err(Error::Conflict);
            }
            sale.resizing = None;
            sale.config.units = units;
            Ok(())
        });
        ended.await?.unwrap_or(Err(Error::Conflict))
    }
}
