//! What tests of several crates need: the real ledger on a DynamoDB in this
//! process, and a way to stop a piece of work at any of its requests.
//!
//! | module | gives |
//! |---|---|
//! | [`database`] | a table of its own for each test |
//! | [`orders`] | a bucket with orders |
//! | [`stop`] | work that ends at its n-th request, as a killed function does |

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that can't be set up has failed

pub mod database;
pub mod orders;
pub mod stop;

pub use database::ledger;
pub use orders::Bucket;
pub use stop::{Point, stopped_at};
