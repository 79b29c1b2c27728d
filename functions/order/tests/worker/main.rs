//! The order function as SQS calls it, against real gates and the real
//! ledger.

#![allow(clippy::unwrap_used)]

mod answers;
mod dead_letters;
mod rebalance;
mod recover;
mod told;
mod voids;
mod worker;
