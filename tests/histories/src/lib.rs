//! Random histories of the real code: the real scripts on real servers, the
//! real ledger, worker, sweeper and cashier, compared with plain books after
//! every step. `docs/histories.md` says what is in it.
//!
//! | module | what |
//! |---|---|
//! | [`step`] | what may happen, and how often |
//! | [`play`] | makes a history happen |
//! | [`seen`] | what ledger, gates and provider then hold |
//! | [`books`] | what they must hold: the reference |
//! | [`worker`] | what a worker must make of messages, by the same books |
//! | [`promises`] | what holds whatever happened |
//! | [`run`] | many histories, each with its seed |
//! | [`bench`] | servers, table, queue and functions, shared by many histories |
//! | [`services`] | the table and the queue in this process, and twins without a guard |
//! | [`proxy`] | a line to the gates, and twins of the scripts |

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that can't be set up has failed

pub mod bench;
pub mod books;
pub mod play;
pub mod promises;
pub mod proxy;
pub mod run;
pub mod seen;
pub mod services;
pub mod step;
pub mod worker;
