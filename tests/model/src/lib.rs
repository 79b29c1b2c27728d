//! A model of the protocol, small enough to look at every state of it.
//!
//! Its words are the code's, a file a subject: [`gate`] is `lua/` and
//! `shared/gate`, [`ledger`] is `shared/ledger`, [`shopper`] the claim function,
//! [`order`] the order function, [`sweeper`], [`payment`]. What is atomic there
//! is one action here; between two of them everybody else may act, and whoever
//! acts may stop for good. Time is a flag a claim: its deadline has passed.

pub mod gate;
pub mod guard;
pub mod ledger;
pub mod order;
pub mod payment;
pub mod promises;
pub mod queue;
pub mod rebalance;
pub mod sale;
pub mod shopper;
pub mod small;
pub mod state;
pub mod sweeper;
pub mod trace;
