//! The referee: what the ledger lets happen, against DynamoDB's own protocol.

#![allow(clippy::unwrap_used)]

mod buckets;
mod create;
mod deliveries;
mod described;
mod lives;
mod release;
mod resize;
mod sales;
mod service;
mod shelf;
mod without_gates;
