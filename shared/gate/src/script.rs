//! The scripts of `lua/`, and how each is run.

use redis::{Script, cmd};

/// Decides claims of one bucket. Its text names bucket and epoch.
const CLAIM: &str = include_str!("../../../lua/claim.lua");
/// Ends a hold.
pub(crate) const RELEASE: &str = include_str!("../../../lua/release.lua");
/// Gives a late entry its place.
pub(crate) const ARRIVE: &str = include_str!("../../../lua/arrive.lua");
/// Corrects a counter.
pub(crate) const CORRECT: &str = include_str!("../../../lua/correct.lua");
/// Makes a bucket's keys true.
pub(crate) const LOAD: &str = include_str!("../../../lua/load.lua");
/// Reads a whole bucket.
pub(crate) const READ: &str = include_str!("../../../lua/read.lua");
/// Takes free units out, or puts units in.
pub(crate) const TAKE: &str = include_str!("../../../lua/take.lua");

/// The claim script of one life of one bucket.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    /// What is loaded, by the one step that made the counter true.
    pub(crate) text: String,
    /// What is called.
    pub(crate) sha: String,
}

impl Fence {
    pub(crate) fn new(tag: &str, epoch: u64) -> Self {
        let text = CLAIM
            .replace("@BUCKET@", tag)
            .replace("@EPOCH@", &epoch.to_string());
        let sha = Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}

/// A script without a fence, sent with its text: there is no moment at which
/// a server does not know it.
pub(crate) fn eval(text: &str, keys: &[&str]) -> redis::Cmd {
    let mut command = cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}
