//! Fault runs: a sale under load on eight primaries and eight replicas, in the
//! middle of which something breaks, and the audit of what came of it.
//!
//! | module | what |
//! |---|---|
//! | [`fault`] | what breaks |
//! | [`run`] | one sale, one fault |
//! | [`watch`] | which buckets are open, and when a replica took over |
//! | [`row`] | what is told of a run |
//! | [`due`] | ten thousand holds that fall due together |

pub mod due;
pub mod fault;
pub mod row;
pub mod run;
pub mod watch;

pub use fault::Fault;
pub use row::Row;
pub use run::{Scale, run};
