//! The claim function: one yes or no, straight away.
//!
//! One script on the shopper's home bucket decides, one replica acknowledges,
//! one message is stored; then the shopper hears yes. Nothing here writes to
//! the ledger on that way, and nothing here remembers that a sale is sold out:
//! the gates are asked each time.

mod admission;
mod barrier;
mod by_ledger;
mod claim;
mod existing;
mod gates;
mod refusal;
mod view;
mod yes;

use std::time::Duration;

use api::{Call, HttpFunction, Problem, Reply};
use gate::Gate;
use ledger::{DrawSecrets, Ledger, SaleCache};
use payment::Cashier;
use queue::Queue;
use runtime::{Clock, Environment, Seldom};
use token::{EdgeKeys, Keys, Signer};

/// Longest wait for what is asked of the payment provider before a hold is given
/// back. The function has five seconds.
pub const PROVIDER_MAX: Duration = Duration::from_millis(3_500);

/// The claim function.
#[derive(Debug)]
pub struct ClaimFunction {
    cashier: Cashier,
    clock: Clock,
    edge: EdgeKeys,
    gate: Gate,
    gates: gates::GatesCache,
    keys: Keys,
    ledger: Ledger,
    queue: Queue,
    recoveries: barrier::Recoveries,
    sales: SaleCache,
    secrets: DrawSecrets,
    signer: Signer,
    without_gates: by_ledger::Remembered,
}

impl HttpFunction for ClaimFunction {
    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            cashier: Cashier::connect(environment, &ledger)?.with_patience(PROVIDER_MAX),
            clock: environment.clock,
            edge: EdgeKeys::load(&environment.settings)?,
            gate: Gate::connect(environment)?,
            gates: gates::GatesCache::default(),
            keys: Keys::load(&environment.settings)?,
            sales: SaleCache::new(ledger.clone(), environment.clock),
            secrets: DrawSecrets::new(ledger.clone()),
            queue: Queue::connect(environment)?,
            recoveries: Seldom::every(barrier::AGAIN),
            signer: Signer::load(&environment.settings)?,
            without_gates: by_ledger::Remembered::default(),
            ledger,
        })
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            "POST /v1/sales/{sale}/claims" => self.create(&call).await,
            "GET /v1/claims/{claim}" => self.read(&call).await,
            "DELETE /v1/claims/{claim}" => self.give_back(&call).await,
            _ => Err(Problem::not_found()),
        }
    }
}
