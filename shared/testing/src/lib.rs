//! What tests of several crates need, and the gate servers that the local
//! runner starts too: the real ledger on a DynamoDB in this process, real
//! gates on a Redis or Valkey cluster, and a way to stop a piece of work at
//! any of its requests.
//!
//! | module | gives |
//! |---|---|
//! | [`cluster`] | who owns what in a cluster, and slots that move |
//! | [`database`] | a table of its own for each test |
//! | [`gate_servers`] | a Redis or Valkey cluster as child processes |
//! | [`gates`] | the cluster that the tests of a program share, and loaded buckets |
//! | [`http_event`] | a call as API Gateway hands it to a function |
//! | [`local_stripe`] | a stand-in for Stripe as a child process |
//! | [`metrics`] | the metrics that a piece of work wrote |
//! | [`orders`] | a bucket with orders |
//! | [`service`] | answers that no emulator gives by itself |
//! | [`stop`] | work that ends at its n-th request, as a killed function does |
//! | [`world`] | a sale that is on: ledger, gates, and shoppers who claim |

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that can't be set up has failed

pub mod cluster;
pub mod database;
pub mod gate_servers;
pub mod gates;
pub mod http_event;
pub mod local_stripe;
pub mod metrics;
pub mod orders;
pub mod service;
pub mod stop;
pub mod world;

pub use cluster::Migration;
pub use database::{http_client, ledger, with_variables};
pub use gate_servers::GateServers;
pub use http_event::{http_event, session};
pub use local_stripe::LocalStripe;
pub use metrics::{Metrics, metrics_of};
pub use orders::Bucket;
pub use service::{Asked, Fate, judged};
pub use stop::{Point, Steps, interrupted_at, stopped_at};
pub use world::World;
