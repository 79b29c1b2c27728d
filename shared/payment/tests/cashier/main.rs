//! The rules of money against the real ledger, on a DynamoDB in this process.

#![allow(clippy::unwrap_used)]

mod begin;
mod close;
mod events;
mod free;
mod refunds;
mod stops;
mod told;
mod world;
