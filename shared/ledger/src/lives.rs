//! The lives of a bucket: its epoch in its own row, under which orders are
//! written, and the one that is published with its gate, under which shoppers
//! claim.
//!
//! A life begins in the row, then its gate is loaded, then it is published.
//! Each step holds only if nobody has gone further: claims are taken in no life
//! but the published one, and a life that gave anything out is never begun
//! anew from what the ledger knew before.
//! A life may be closed before it ends: [`crate::without_gates`] says why.

use domain::{BucketId, SaleId};

use crate::{Error, Ledger, Transaction, key};

impl Ledger {
    /// Begins the life after `seen`, that of the row, if `published` still is
    /// the published one. `None` if somebody was faster, or the answer to the
    /// write was lost: then this life is skipped.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn begin_life(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        seen: u64,
        published: u64,
    ) -> Result<Option<u64>, Error> {
        let mut writes = Transaction::new();
        writes
            .update(&key::bucket(sale, bucket), "SET epoch = :next")
            .only_if("epoch = :seen")
            .number(":seen", seen)
            .number(":next", seen + 1);
        writes
            .check(&key::gates(sale))
            .only_if(&format!("{} = :published", path(bucket)))
            .number(":published", published);
        let written = self.table.write(&writes).await?;
        Ok(written.is_ok().then_some(seen + 1))
    }

    /// Publishes a life whose gate is loaded, if it still is the row's. Says
    /// whether this call did.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn publish_life(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        epoch: u64,
    ) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        writes
            .update(&key::gates(sale), &format!("SET {} = :epoch", path(bucket)))
            .only_if(&format!("{} < :epoch", path(bucket)))
            .number(":epoch", epoch);
        writes
            .check(&key::bucket(sale, bucket))
            .only_if("epoch = :epoch")
            .number(":epoch", epoch);
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// Closes a life of a bucket: from now on no gate of it is believed. Says
    /// whether it is closed, whoever did it; it is not if a later one has begun.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn close_life(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        epoch: u64,
    ) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        writes
            .update(&key::bucket(sale, bucket), "SET closed = :epoch")
            .only_if("epoch = :epoch")
            .number(":epoch", epoch);
        Ok(self.table.write(&writes).await?.is_ok())
    }
}

/// Where the published epoch of a bucket is in the row of the gates.
fn path(bucket: BucketId) -> String {
    format!("addresses[{}].epoch", bucket.0)
}
