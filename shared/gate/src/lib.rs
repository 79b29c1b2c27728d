//! The gates: counters in Redis or Valkey that say yes quickly.
//!
//! Each bucket has a hash and a sorted set under one hash tag, and one script
//! that decides. A gate is a filter: the ledger has the last word.
//!
//! | module | what |
//! |---|---|
//! | `connection` | one bounded cluster connection per execution environment |
//! | [`bucket`] | claim, mark, release, settle: one bucket |
//! | [`sale`] | home bucket, overflow, "sold out": all buckets of a sale |
//! | [`line`] | entries of the draw, places of late entries |
//! | [`upkeep`] | loading, looking, due claims, comparison |
//! | `node` | what the servers say of themselves |

pub mod bucket;
mod connection;
mod error;
pub mod line;
mod node;
pub mod sale;
mod script;
pub mod upkeep;

pub use bucket::{Ask, Decision, Hold, Release};
pub use connection::Gate;
pub use error::Error;
pub use node::Primary;
pub use sale::SaleGates;
