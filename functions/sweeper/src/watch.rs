//! Which buckets are looked after, for what, and how many at a time.

use std::time::Instant;

use domain::sale::SaleState;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use ledger::Error;
use runtime::is_near;

use crate::bucket::Failure;
use crate::{SweeperFunction, Watched, tell};

/// No change of units lasts longer: the admin function's time-out.
const RESIZE_MAX: SignedDuration = SignedDuration::from_secs(30);

/// Buckets swept, and sales read, at the same time.
const CONCURRENCY: usize = 16;

impl SweeperFunction {
    /// Ends what is over in every bucket of every sale that is near or not
    /// settled, once: first what no provider has a say in. `false` if there is none.
    ///
    /// # Errors
    /// The list of sales can't be read.
    pub async fn sweep(&self) -> Result<bool, Error> {
        let any = self.end_due().await?;
        Ok(any | self.close_over().await?)
    }

    /// Compares gates with the ledger and pays refunds that are owed, in the same
    /// buckets.
    ///
    /// # Errors
    /// The list of sales can't be read.
    pub async fn keep_up(&self) -> Result<bool, Error> {
        let any = self.compare().await?;
        Ok(any | self.close_over().await? | self.refund().await?)
    }

    /// Deadlines, as far as no provider has a say in them.
    pub(crate) async fn end_due(&self) -> Result<bool, Error> {
        let watched = self.watched().await?;
        let any = !watched.is_empty();
        let swept = stream::iter(watched).map(|at| async move {
            let swept = self.sweep_bucket(&at).boxed().await;
            let swept = done(&at, "a bucket was not swept", swept);
            (at.sale, swept.is_some())
        });
        let swept = swept.buffer_unordered(CONCURRENCY).collect().await;
        tell::swept(&self.told, swept, Instant::now());
        Ok(any)
    }

    /// Payments whose time is over, of which a look at deadlines or at counters told.
    pub(crate) async fn close_over(&self) -> Result<bool, Error> {
        let watched = self.watched().await?;
        let any = !watched.is_empty();
        let closed = stream::iter(watched).map(|at| async move {
            let closed = self.close_payments(&at).boxed().await;
            done(&at, "a bucket's payments were not closed", closed)
        });
        let _: Vec<_> = closed.buffer_unordered(CONCURRENCY).collect().await;
        Ok(any)
    }

    /// Gates against the ledger.
    pub(crate) async fn compare(&self) -> Result<bool, Error> {
        let watched = self.watched().await?;
        let any = !watched.is_empty();
        let looked = stream::iter(watched).map(|at| async move {
            let found = self.look_after(&at).boxed().await;
            let found = done(&at, "a bucket was not compared", found);
            (at, found)
        });
        let looked: Vec<_> = looked.buffer_unordered(CONCURRENCY).collect().await;
        self.rebalance(&looked).await;
        tell::compared(looked);
        Ok(any)
    }

    /// Refunds that are owed.
    pub(crate) async fn refund(&self) -> Result<bool, Error> {
        let watched = self.watched().await?;
        let any = !watched.is_empty();
        let asked = stream::iter(watched).map(|at| async move {
            let asked = self.settle_refunds(&at).boxed().await;
            done(&at, "a bucket's refunds were not asked for", asked)
        });
        let _: Vec<_> = asked.buffer_unordered(CONCURRENCY).collect().await;
        Ok(any)
    }

    async fn watched(&self) -> Result<Vec<Watched>, Error> {
        let now = self.clock.now();
        let mut watched = Vec::new();
        let listed = stream::iter(self.ledger.sales(true).await?);
        let read = listed.map(|id| async move { self.ledger.sale(&id).await });
        let sales: Vec<_> = read.buffered(CONCURRENCY).try_collect().await?;
        // Loaded or not: where a gate is, a hold may be.
        let near = sales.into_iter().flatten();
        for sale in near.filter(|sale| is_near(sale, now)) {
            let id = &sale.id;
            let begun = sale.resized_at.filter(|_| sale.resizing.is_some());
            let resizing = begun.is_some_and(|at| now - at < RESIZE_MAX);
            let sells = sale.state == SaleState::Live && !sale.has_ended(now);
            let gates = self.ledger.gates(id).await?.unwrap_or_default();
            watched.extend(gates.iter().map(|(bucket, address)| Watched {
                sale: id.clone(),
                bucket,
                address: address.clone(),
                floor: sale.pay_by_min,
                resizing,
                sells,
                ledger_only: sale.config.ledger_only_rate_per_s > 0,
            }));
        }
        Ok(watched)
    }
}

/// What a look at one bucket came to; why not, if it came to nothing, is written down.
fn done<T>(at: &Watched, not: &'static str, look: Result<T, Failure>) -> Option<T> {
    let told = look.inspect_err(|error| {
        tracing::warn!(sale = %at.sale, bucket = %at.bucket, error, "{not}");
    });
    told.ok()
}
