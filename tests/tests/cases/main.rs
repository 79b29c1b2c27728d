//! The cases of `docs/cases.md` against the whole system, over HTTP wherever
//! the case can be seen from there. A test is named for its case and for what
//! must hold.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a panic is a test's report

mod books;
mod closing;
mod draw;
mod drills;
mod edge;
mod front;
mod gateway;
mod graph;
mod holds;
mod idempotency;
mod input;
mod limits;
mod moments;
mod money;
mod network;
mod outbox;
mod provider;
mod stock;
mod template;
mod time;
mod tokens;
mod waitlist;
