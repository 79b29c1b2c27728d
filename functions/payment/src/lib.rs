//! The payment function: shows an order, opens its payment, and takes the
//! provider's webhooks. The rules of money are in [`payment::cashier`].

mod order;
mod sandbox;
mod webhook;

use api::{Call, HttpFunction, Problem, Reply};
use gate::Gate;
use ledger::Ledger;
use payment::Cashier;
use runtime::{Clock, Environment};

/// The payment function.
#[derive(Debug)]
pub struct PaymentFunction {
    cashier: Cashier,
    clock: Clock,
    gate: Gate,
    ledger: Ledger,
}

impl HttpFunction for PaymentFunction {
    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            cashier: Cashier::connect(environment, &ledger)?,
            clock: environment.clock,
            gate: Gate::connect(environment)?,
            ledger,
        })
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            "GET /v1/orders/{order}" => self.read_order(&call).await,
            "POST /v1/orders/{order}/payments" => self.create_payment(&call).await,
            "POST /v1/webhooks/{provider}" => self.webhook(&call).await,
            "POST /v1/sandbox/intents/{intent}/confirm" => self.confirm(&call).await,
            _ => Err(Problem::not_found()),
        }
    }
}
