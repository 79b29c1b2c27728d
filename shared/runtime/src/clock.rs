//! The only place that asks what time it is.

use jiff::{SignedDuration, Timestamp};

/// The server's clock, possibly off by a fixed amount: instances of a
/// function disagree about the time, and tests make them.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    skew: SignedDuration,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self {
            skew: SignedDuration::ZERO,
        }
    }

    /// A clock that is ahead by `skew`, or behind if it is negative.
    pub fn skewed(skew: SignedDuration) -> Self {
        Self { skew }
    }

    /// The same clock, ahead of itself by `further`.
    pub fn ahead(self, further: SignedDuration) -> Self {
        Self {
            skew: self.skew + further,
        }
    }

    /// Now, in whole milliseconds: that is what the ledger and the gates keep,
    /// so that a time read back equals the time that was written.
    #[allow(clippy::disallowed_methods)] // this is the one place
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now() + self.skew;
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}
