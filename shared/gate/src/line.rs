//! The line: entries of the draw are counted, late ones get a place.

use domain::PassId;
use redis::cmd;

use crate::connection::Gate;
use crate::{Error, script};

/// The key of a bucket's entry counter, a HyperLogLog: 12 KB, error < 1 %.
pub(crate) fn entries_key(tag: &str) -> String {
    format!("{{{tag}}}:entries")
}

/// The key of a bucket's late entries.
pub(crate) fn late_key(tag: &str) -> String {
    format!("{{{tag}}}:late")
}

impl Gate {
    /// Counts an entry of the draw. `true` if the counter changed: certainly
    /// not a repeat, though a first entry may leave it unchanged.
    ///
    /// # Errors
    /// No answer.
    pub async fn enter(&self, tag: &str, pass: &PassId) -> Result<bool, Error> {
        let mut command = cmd("PFADD");
        command.arg(entries_key(tag)).arg(pass.as_str());
        self.run(tag, command).await
    }

    /// The place of a late entry among those of its bucket, from 1; the same
    /// for every tap of a pass.
    ///
    /// # Errors
    /// No answer.
    pub async fn arrive(&self, tag: &str, pass: &PassId) -> Result<u64, Error> {
        let mut command = script::eval(script::ARRIVE, &[&late_key(tag)]);
        command.arg(pass.as_str());
        self.run(tag, command).await
    }
}
