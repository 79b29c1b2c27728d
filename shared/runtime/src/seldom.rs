//! What is done at most once an interval, for each of many.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
        let due = !done.contains_key(key);
        if due {
            done.insert(key.clone(), now);
        }
        due
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
}
