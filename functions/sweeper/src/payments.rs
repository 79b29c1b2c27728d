//! One bucket's money: what its provider has to be asked. Nobody else waits for the
//! answers, and there may be none.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{BucketId, ClaimId, Order, OrderStatus, SaleId};
use futures::future::join_all;
use jiff::Timestamp;
use payment::IntentEnd;
use tokio::sync::Notify;

use crate::bucket::{Failure, asks_provider, words};
use crate::{SweeperFunction, Watched};

/// So many intents of a bucket are closed at once, and their units are free before
/// the next are asked about.
const CLOSED_AT_ONCE: usize = 8;

/// Claims whose payment is over, until the provider is asked about them: who finds them
/// goes on at once. Lost with the run; their deadlines are not.
#[derive(Debug, Default)]
pub(crate) struct Over {
    claims: Mutex<Claims>,
    came: Notify,
}

type Claims = HashMap<(SaleId, BucketId), HashSet<ClaimId>>;

impl Over {
    pub(crate) fn put(&self, at: &Watched, claims: impl IntoIterator<Item = ClaimId>) {
        let mut claims = claims.into_iter().peekable();
        if claims.peek().is_some() {
            self.all().entry(key(at)).or_default().extend(claims);
            self.came.notify_one();
        }
    }

    pub(crate) fn has(&self, at: &Watched, claim: &ClaimId) -> bool {
        let all = self.all();
        all.get(&key(at)).is_some_and(|some| some.contains(claim))
    }

    fn take(&self, at: &Watched) -> HashSet<ClaimId> {
        self.all().remove(&key(at)).unwrap_or_default()
    }

    /// Until one is put here, since this was last waited for.
    pub(crate) async fn came(&self) {
        self.came.notified().await;
    }

    fn all(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(at: &Watched) -> (SaleId, BucketId) {
    (at.sale.clone(), at.bucket)
}

impl SweeperFunction {
    /// Asks the provider about the payments of a bucket that are over, and ends those
    /// that may not be paid any more.
    pub(crate) async fn close_payments(&self, at: &Watched) -> Result<(), Failure> {
        let claims = self.over.take(at);
        if claims.is_empty() {
            return Ok(());
        }
        // As they are by now: they may have waited for other buckets' answers. In no
        // order, so that none is always behind the same that get no answer.
        let orders = self.ledger.orders(&claims).await.map_err(words)?;
        let orders: Vec<_> = orders.into_values().collect();
        let mut kept = Ok(());
        for some in orders.chunks(CLOSED_AT_ONCE) {
            // One moment for all, as when they were found.
            let now = self.clock.now();
            let decided = some.iter().map(|order| self.decide(at, order, now));
            let decided = join_all(decided).await.into_iter();
            let decided: Vec<_> = decided.collect::<Result<_, _>>()?;
            // One that is not answered for may still be paid: its unit stays held.
            let decided: Vec<_> = decided.into_iter().flatten().collect();
            if decided.is_empty() {
                // Nobody answers, and there are other buckets. The deadlines of the
                // rest have passed: the next look finds them again.
                break;
            }
            kept = kept.and(self.end(at, decided, now).await);
        }
        kept
    }

    /// The order as it stands once the provider was asked, if it has to be:
    /// the intent of a hold whose time is over is closed, a declined one too,
    /// and a success that came before that wins. `None` if the provider does
    /// not answer.
    async fn decide(
        &self,
        at: &Watched,
        order: &Order,
        now: Timestamp,
    ) -> Result<Option<Order>, Failure> {
        if !asks_provider(at, order, now) {
            return Ok(Some(order.clone()));
        }
        Ok(
            match self.cashier.close_intent(order).await.map_err(words)? {
                IntentEnd::MayExpire(order) => Some(*order),
                IntentEnd::Paid => Some(Order {
                    status: OrderStatus::Paid,
                    ..order.clone()
                }),
                IntentEnd::Unreachable => None,
            },
        )
    }

    /// Asks again for the refunds of a bucket that are owed.
    pub(crate) async fn settle_refunds(&self, at: &Watched) -> Result<(), Failure> {
        let asked = self.cashier.settle_refunds(&at.sale, at.bucket);
        let refunds = asked.await.map_err(words)?;
        if refunds.pending > 0 {
            tracing::warn!(sale = %at.sale, bucket = %at.bucket, pending = refunds.pending,
                "refunds are owed and not confirmed");
        }
        Ok(())
    }
}
