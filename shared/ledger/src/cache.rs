//! Sales and gates as they were at most a second ago.
//!
//! A crowd asks about one sale at once; each environment reads its row once a
//! second. What is answered from here is a configuration, a clock's business,
//! or refused again further behind: never whether a unit is left.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Sale, SaleId};
use jiff::{SignedDuration, Timestamp};
use runtime::Clock;

use crate::{Error, Ledger};
use domain::slot::Gates;

/// How old an answer may be.
const AGE_MAX: SignedDuration = SignedDuration::from_millis(1_000);

/// How old it may be for those who know that it has changed: a crowd that
/// notices at once still reads only a few times a second.
const AGE_MAX_REFRESHED: SignedDuration = SignedDuration::from_millis(200);

/// The most sales that are kept, those that do not exist among them: names
/// come from whoever calls.
const ENTRIES_MAX: usize = 1_000;

/// Recently read sales and gates of one execution environment.
#[derive(Debug)]
pub struct SaleCache {
    ledger: Ledger,
    clock: Clock,
    sales: Recent<SaleId, Sale>,
    gates: Recent<SaleId, Gates>,
}

impl SaleCache {
    /// Empty, in front of a ledger.
    pub fn new(ledger: Ledger, clock: Clock) -> Self {
        Self {
            ledger,
            clock,
            sales: Recent::default(),
            gates: Recent::default(),
        }
    }

    /// A sale, at most a second old.
    ///
    /// # Errors
    /// No answer.
    pub async fn get(&self, sale: &SaleId) -> Result<Option<Arc<Sale>>, Error> {
        self.read_sale(sale, AGE_MAX).await
    }

    /// A sale that should have changed, at most 200 ms old.
    ///
    /// # Errors
    /// No answer.
    pub async fn refresh(&self, sale: &SaleId) -> Result<Option<Arc<Sale>>, Error> {
        self.read_sale(sale, AGE_MAX_REFRESHED).await
    }

    async fn read_sale(
        &self,
        sale: &SaleId,
        age_max: SignedDuration,
    ) -> Result<Option<Arc<Sale>>, Error> {
        let read = || self.ledger.sale_recent(sale);
        self.sales.get(sale, self.clock.now(), age_max, read).await
    }

    /// Where the gates of a sale are, at most a second old.
    ///
    /// # Errors
    /// No answer.
    pub async fn gates(&self, sale: &SaleId) -> Result<Option<Arc<Gates>>, Error> {
        let read = || self.ledger.gates(sale);
        self.gates.get(sale, self.clock.now(), AGE_MAX, read).await
    }
}

/// What was read when; `None` is an answer too.
type Entries<K, V> = HashMap<K, (Timestamp, Option<Arc<V>>)>;

#[derive(Debug)]
struct Recent<K, V>(Mutex<Entries<K, V>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// Whether what was read at `at` is not too old. What was read in the future,
/// before the clock was set back, is.
fn is_fresh(at: Timestamp, now: Timestamp, age_max: SignedDuration) -> bool {
    at <= now && now - at < age_max
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    async fn get<E, F: Future<Output = Result<Option<V>, E>>>(
        &self,
        key: &K,
        now: Timestamp,
        age_max: SignedDuration,
        read: impl FnOnce() -> F,
    ) -> Result<Option<Arc<V>>, E> {
        if let Some((at, value)) = self.entries().get(key)
            && is_fresh(*at, now, age_max)
        {
            return Ok(value.clone());
        }
        // Aged from before the read: what changed meanwhile may be missing.
        let value = read().await?.map(Arc::new);
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(key) {
            entries.retain(|_, (at, _)| is_fresh(*at, now, AGE_MAX));
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
        }
        entries.insert(key.clone(), (now, value.clone()));
        Ok(value)
    }

    fn entries(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    /// Reads `key` at `ms`, where the row now holds `row`.
    async fn get(
        recent: &Recent<u32, u32>,
        key: u32,
        ms: i64,
        age_max: SignedDuration,
        row: Result<Option<u32>, ()>,
    ) -> Result<Option<u32>, ()> {
        recent
            .get(&key, at(ms), age_max, || async { row })
            .await
            .map(|value| value.map(|value| *value))
    }

    #[tokio::test]
    async fn an_answer_is_kept_for_a_second() {
        let recent = Recent::default();
        for (ms, age_max, row, answer) in [
            (10_000, AGE_MAX, Ok(Some(1)), Ok(Some(1))),
            (10_999, AGE_MAX, Ok(Some(2)), Ok(Some(1))),
            (11_000, AGE_MAX, Ok(Some(3)), Ok(Some(3))),
            (11_199, AGE_MAX_REFRESHED, Ok(Some(4)), Ok(Some(3))),
            (11_200, AGE_MAX_REFRESHED, Ok(Some(5)), Ok(Some(5))),
            // The clock was set back.
            (1_000, AGE_MAX, Ok(Some(6)), Ok(Some(6))),
            // A failure is not kept, and nothing old stands in for it.
            (2_000, AGE_MAX, Err(()), Err(())),
            (2_001, AGE_MAX, Ok(None), Ok(None)),
            (3_000, AGE_MAX, Ok(Some(7)), Ok(None)),
            (3_001, AGE_MAX, Ok(Some(8)), Ok(Some(8))),
        ] {
            assert_eq!(get(&recent, 1, ms, age_max, row).await, answer, "{ms}");
        }
    }

    #[tokio::test]
    async fn made_up_names_do_not_fill_the_memory() {
        let recent = Recent::default();
        for key in 0..5_000 {
            let _ = get(&recent, key, 10_000 + i64::from(key), AGE_MAX, Ok(None)).await;
            assert!(recent.entries().len() <= ENTRIES_MAX);
        }
        // The newest ones are the ones that stayed.
        assert_eq!(
            get(&recent, 4_999, 15_000, AGE_MAX, Ok(Some(1))).await,
            Ok(None)
        );
    }
}
