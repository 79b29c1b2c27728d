//! The admin function: what a merchant does with a sale.
//!
//! Every call needs a session with the scope `sales.admin`; the gateway checks
//! it, and so does this function.

mod create;
mod extend;
mod load;
mod preflight;
mod report;
mod resize;
mod switches;
mod view;

use std::sync::Arc;

use api::{Call, Code, HttpFunction, Problem, Reply};
use domain::{Sale, SaleId};
use futures::{StreamExt, TryStreamExt, stream};
use gate::Gate;
use ledger::Ledger;
use payment::Provider;
use preflight::Deployment;
use runtime::{Clock, Environment};

/// Buckets worked on at the same time.
const CONCURRENCY: usize = 16;

/// Sales on a page of the list, unless the merchant says another number.
const PAGE: u64 = 50;

/// Most sales on a page.
const PAGE_MAX: u64 = 100;

/// The scope that a merchant's session must have.
const SCOPE: &str = "sales.admin";

/// The admin function.
#[derive(Debug)]
pub struct AdminFunction {
    clock: Clock,
    deployment: Deployment,
    gate: Gate,
    ledger: Ledger,
    provider: Arc<dyn Provider>,
}

impl HttpFunction for AdminFunction {
    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            clock: environment.clock,
            deployment: Deployment::of(environment)?,
            gate: Gate::connect(environment)?,
            provider: payment::provider(environment, &ledger)?,
            ledger,
        })
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        call.require_scope(SCOPE)?;
        match call.route() {
            "POST /v1/admin/sales" => self.create(&call).await,
            "GET /v1/admin/sales" => self.list(&call).await,
            "GET /v1/admin/sales/{sale}" => self.read(&call).await,
            "PATCH /v1/admin/sales/{sale}" => self.change(&call).await,
            "POST /v1/admin/sales/{sale}/load" => self.reload(&call).await,
            "GET /v1/admin/sales/{sale}/preflight" => self.preflight(&call).await,
            "POST /v1/admin/sales/{sale}/pause" => self.turn(&call, |on| on.paused = true).await,
            "POST /v1/admin/sales/{sale}/resume" => self.turn(&call, |on| on.paused = false).await,
            "POST /v1/admin/sales/{sale}/end" => self.turn(&call, |on| on.ended = true).await,
            "POST /v1/admin/sales/{sale}/force-sold-out" => {
                self.turn_to(&call, |switches, on| switches.force_sold_out = on)
                    .await
            }
            "POST /v1/admin/sales/{sale}/waitlist-only" => {
                self.turn_to(&call, |switches, on| switches.waitlist_only = on)
                    .await
            }
            "POST /v1/admin/sales/{sale}/extend-pay-window" => self.extend(&call).await,
            "GET /v1/admin/sales/{sale}/report" => self.report(&call).await,
            _ => Err(Problem::not_found()),
        }
    }
}

impl AdminFunction {
    /// Sales in the order of their names, a page at a time.
    async fn list(&self, call: &Call) -> Result<Reply, Problem> {
        let mut query = call.query()?;
        let after: Option<SaleId> = query.text("after");
        let limit = query.digits("limit", 1..=PAGE_MAX);
        query.finish().map_err(Problem::fields)?;
        let limit = limit.unwrap_or(PAGE) as usize;
        let mut ids = self.ledger.sales(false).await?;
        ids.retain(|id| after.as_ref().is_none_or(|after| id > after));
        let more = ids.len() > limit;
        ids.truncate(limit);
        let next = ids.last().filter(|_| more).cloned();
        let sales: Vec<_> = stream::iter(ids)
            .map(|id| async move { self.ledger.sale(&id).await })
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        let sales: Vec<_> = sales.iter().flatten().map(view::sale).collect();
        Reply::ok(&serde_json::json!({"sales": sales, "next": next}))
    }

    async fn read(&self, call: &Call) -> Result<Reply, Problem> {
        Reply::ok(&view::sale(&self.sale(&call.sale()?).await?))
    }

    async fn sale(&self, id: &SaleId) -> Result<Sale, Problem> {
        self.ledger.sale(id).await?.ok_or_else(Problem::not_found)
    }

    /// Changes a sale, whoever else does so at the same time.
    async fn change_sale(
        &self,
        id: &SaleId,
        change: impl Fn(&mut Sale) -> Result<(), Problem>,
    ) -> Result<Sale, Problem> {
        self.ledger
            .change_sale(id, change)
            .await?
            .ok_or_else(Problem::not_found)?
    }
}

/// A body that must be empty: `{}` or nothing.
fn no_body(call: &Call) -> Result<(), Problem> {
    call.fields()?.finish().map_err(Problem::fields)
}

/// What an opened sale answers to a change that only fits before.
fn started() -> Problem {
    Problem::new(Code::SaleStarted)
}
