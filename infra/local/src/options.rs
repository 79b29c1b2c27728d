//! What can be chosen about a local system.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use secrecy::SecretString;
use testing::gate_servers::NodePorts;

/// Choices with sensible defaults: `Options::default()` is a whole system on
/// free ports.
///
/// Functions are named by their logical id (`ClaimFunction`) or their binary
/// (`claim-function`).
#[derive(Debug, Clone)]
pub struct Options {
    /// Port of the gateway on 127.0.0.1; 0 for a free one.
    pub port: u16,
    /// The template; the workspace's own if none is named.
    pub template: Option<PathBuf>,
    /// Values of the template's parameters. They win over those that the
    /// runner makes.
    pub parameters: BTreeMap<String, String>,
    /// Values of the template's secrets, by logical id. They win over those
    /// that the runner makes.
    pub secrets: BTreeMap<String, SecretString>,
    /// Variables of single functions. They win over the template's.
    pub settings: BTreeMap<String, BTreeMap<String, String>>,
    /// Pays through Stripe, or what stands in for it; through the sandbox if
    /// there is none.
    pub stripe: Option<Stripe>,
    /// How much the clocks of single functions are ahead.
    pub skew: BTreeMap<String, SignedDuration>,
    /// How far the clocks of the environments of one function are off, beside
    /// that: one is as much ahead, the next as much behind, the third right.
    pub skew_apart: SignedDuration,
    /// Redis or Valkey program; the environment's `GATE_PROGRAM`, or looked
    /// for on the path, if none is named.
    pub gate_program: Option<String>,
    /// Ports of the gates' cluster, primaries first; free ones if none are
    /// given.
    pub gate_ports: Vec<NodePorts>,
    /// Primaries of the gates' cluster.
    pub primaries: usize,
    /// Replicas of each primary.
    pub replicas: usize,
    /// After how long a silent node of the cluster counts as failed.
    pub node_timeout: Duration,
    /// Do scheduled functions run?
    pub schedules: bool,
    /// How often they are started, in place of the template's rate.
    pub schedule_every: Duration,
    /// The same for single ones, by logical id: those that read a whole sale
    /// and do not loop inside.
    pub schedule_every_of: BTreeMap<String, Duration>,
    /// How many runs of one scheduled function may overlap, within what the
    /// template reserves.
    pub schedule_overlap: usize,
    /// Does the queue feed its function?
    pub event_sources: bool,
    /// Environments of a function for which the template reserves none.
    pub environments_max: usize,
    /// When messages show again whose function did not come to its end.
    pub retry_visibility: Duration,
}

/// An account at Stripe, or at what stands in for it.
#[derive(Debug, Clone)]
pub struct Stripe {
    /// Where it is, such as `https://api.stripe.com`.
    pub url: String,
    /// The secret key that functions call it with.
    pub key: SecretString,
    /// The secrets that its webhooks are signed with, separated by commas.
    pub webhook_secrets: SecretString,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            template: None,
            parameters: BTreeMap::new(),
            secrets: BTreeMap::new(),
            settings: BTreeMap::new(),
            stripe: None,
            skew: BTreeMap::new(),
            skew_apart: SignedDuration::ZERO,
            gate_program: None,
            gate_ports: Vec::new(),
            primaries: 1,
            replicas: 1,
            node_timeout: Duration::from_secs(5),
            schedules: true,
            schedule_every: Duration::from_secs(1),
            schedule_every_of: [("ReconcilerFunction".to_owned(), Duration::from_secs(5))].into(),
            schedule_overlap: 1,
            event_sources: true,
            environments_max: 100,
            retry_visibility: Duration::from_secs(2),
        }
    }
}
