//! The gates on a real Redis or Valkey cluster: every answer of the scripts,
//! and what holds after any history of them.

#![allow(clippy::unwrap_used)]

mod claim;

mod described;
mod failover;
mod fence;
mod history;
mod ids;
mod lost;
mod marks;
mod moves;
mod outages;
mod race;
mod release;
mod secure;
mod shop;
mod upkeep;
