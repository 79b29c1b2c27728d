//! The whole system on one machine, nothing in the cloud: the functions run
//! in process behind a gateway, a queue and schedules that read
//! `template.yaml`, so that wiring is written once. Events have the shapes of
//! the cloud, and so have the answers when something is busy, slow or broken.
//!
//! Redis or Valkey is a real server, DynamoDB is an embedded engine behind its
//! own protocol; only what has no counterpart that can be embedded is written
//! here: the gateway, FIFO queues, event sources, schedules.

mod authorizer;
mod cors;
mod database;
mod edge_store;
mod environments;
mod event_source;
mod fifo;
mod functions;
mod gateway;
mod http_event;
mod identity;
mod options;
mod queue;
mod reply;
mod role;
mod routes;
mod schedule;
mod secrets;
mod sqs;
mod system;
pub mod template;

pub use environments::InvokeError;
pub use fifo::{Faults, Message};
pub use identity::serve as serve_identity;
pub use options::{Options, Stripe};
pub use queue::Queue;
pub use system::{System, own_template, read_template};
pub use testing::GateServers;
pub use testing::gate_servers::{NodePorts, free_ports};
