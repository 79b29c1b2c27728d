//! Changing the units of a live sale, bucket by bucket.
//!
//! Between the first bucket and the last a change may stop, or another may
//! begin. So the sale's row names the newest change, and every bucket is
//! written under the condition that it still is: an older one ends where it
//! is, and the newest computes from capacities that nobody else moves.

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
