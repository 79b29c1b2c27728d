//! Which buckets are looked after, and how many at a time.

use domain::Sale;
use futures::{FutureExt, StreamExt, stream};
use jiff::SignedDuration;
use ledger::Error;

use crate::{SweeperFunction, Watched};

/// A sale is watched from so long before its opening.
const NEAR: SignedDuration = SignedDuration::from_secs(120);

/// Buckets swept at the same time.
const CONCURRENCY: usize = 16;

impl SweeperFunction {
    /// Sweeps every bucket of every sale that is near or not settled once.
    /// `false` if there is none.
    ///
    /// # Errors
    /// The list of sales can't be read.
    pub async fn sweep(&self, upkeep: bool) -> Result<bool, Error> {
        let watched = self.watched().await?;
        let any = !watched.is_empty();
        stream::iter(watched)
            .for_each_concurrent(CONCURRENCY, |bucket| async move {
                if let Err(error) = self.sweep_bucket(&bucket).boxed().await {
                    tracing::warn!(sale = %bucket.sale, bucket = %bucket.bucket, error,
                        "a bucket was not swept");
                }
                if upkeep && let Err(error) = self.keep_up(&bucket).boxed().await {
                    tracing::warn!(sale = %bucket.sale, bucket = %bucket.bucket, error,
                        "a bucket was not compared");
                }
            })
            .await;
        Ok(any)
    }

    async fn watched(&self) -> Result<Vec<Watched>, Error> {
        let now = self.clock.now();
        let mut watched = Vec::new();
        for id in self.ledger.sales(true).await? {
            let near = |sale: &Sale| sale.loaded && now >= sale.config.opens_at.at - NEAR;
            if !self
                .ledger
                .sale_recent(&id)
                .await?
                .as_ref()
                .is_some_and(near)
            {
                continue;
            }
            let gates = self.ledger.gates(&id).await?.unwrap_or_default();
            watched.extend(gates.iter().map(|(bucket, address)| Watched {
                sale: id.clone(),
                bucket,
                address: address.clone(),
            }));
        }
        Ok(watched)
    }
}
