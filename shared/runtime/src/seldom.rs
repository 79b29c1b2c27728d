//! What is done at most once an interval, for each of many.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Keys that are remembered at once. With more of them within an interval, what
/// was done may be due again before it is over.
const KEYS_MAX: usize = 1_000;

/// When something was last done for each key, in this environment.
#[derive(Debug)]
pub struct Seldom<K> {
    interval: Duration,
    done: Mutex<HashMap<K, Instant>>,
}

impl<K: Clone + Eq + Hash> Seldom<K> {
    /// For each key at most once in so long.
    pub fn every(interval: Duration) -> Self {
        Self {
            interval,
            done: Mutex::default(),
        }
    }

    /// Whether it is to be done for this key now; it counts as done then.
    pub fn is_due(&self, key: &K, now: Instant) -> bool {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // Keys that are not asked about any more go with it.
        done.retain(|_, at| now - *at < self.interval);
        if done.contains_key(key) {
            return false;
        }
        if done.len() >= KEYS_MAX {
            done.clear();
        }
        done.insert(key.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_interval() {
        let (seldom, start) = (Seldom::every(Duration::from_secs(1)), Instant::now());
        let due = |key, ms| seldom.is_due(&key, start + Duration::from_millis(ms));
        assert!(due("a", 0) && due("b", 500));
        assert!(!due("a", 999) && !due("b", 1_499));
        assert!(due("a", 1_000) && due("b", 1_500));
    }

    #[test]
    fn no_number_of_keys_is_too_much() {
        let (seldom, now) = (Seldom::every(Duration::from_secs(1)), Instant::now());
        for key in 0..3 * KEYS_MAX {
            assert!(seldom.is_due(&key, now) && !seldom.is_due(&key, now));
            assert!(seldom.done.lock().unwrap().len() <= KEYS_MAX);
        }
    }
}
