//! The status function: what everyone may know about a sale. The CDN keeps the
//! answers, so each one is read from the ledger.

mod view;

use api::{Cache, Call, HttpFunction, Problem, Reply};
use domain::Sale;
use domain::id::hex;
use ledger::{DrawSecrets, Ledger};
use runtime::{Clock, Environment};

pub use view::{DrawnView, SaleView, StatusView, Stock, sale_view, view};

/// How long a sale's public object may be kept: nothing in it changes by the
/// minute.
const SALE_AGE_S: u32 = 60;

/// How long its status may be kept.
const STATUS_AGE_S: u32 = 1;

/// The status function.
#[derive(Debug)]
pub struct StatusFunction {
    ledger: Ledger,
    secrets: DrawSecrets,
    clock: Clock,
}

impl HttpFunction for StatusFunction {
    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            secrets: DrawSecrets::new(ledger.clone()),
            ledger,
            clock: environment.clock,
        })
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            "GET /v1/sales/{sale}" => {
                let sale = self.sale(&call).await?;
                let secret = self.published(&sale).await?;
                let view = sale_view(&sale, secret);
                Ok(Reply::ok(&view)?.cached(Cache::Public(SALE_AGE_S)))
            }
            "GET /v1/sales/{sale}/status" => {
                let sale = self.sale(&call).await?;
                let view = view(&sale, self.clock.now());
                Ok(Reply::ok(&view)?.cached(Cache::Public(STATUS_AGE_S)))
            }
            _ => Err(Problem::not_found()),
        }
    }
}

impl StatusFunction {
    /// The draw's secret, in hex, once the sale is over by the controller's word:
    /// no clock of one instance that is ahead gives it away.
    async fn published(&self, sale: &Sale) -> Result<Option<String>, Problem> {
        if !sale.config.is_draw() || sale.ended_at.is_none() {
            return Ok(None);
        }
        let secret = self.secrets.of_opened(sale).await?;
        Ok(Some(hex(secret.as_slice())))
    }

    async fn sale(&self, call: &Call) -> Result<Sale, Problem> {
        let sale = self.ledger.sale_recent(&call.sale()?).await?;
        sale.ok_or_else(Problem::not_found)
    }
}
