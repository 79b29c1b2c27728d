//! Switches, not deployments: each takes hold within a second.

use api::{Call, Problem, Reply};
use domain::sale::Switches;

use crate::{AdminFunction, no_body, view};

impl AdminFunction {
    /// A switch with one direction; the body is empty.
    pub(crate) async fn turn(
        &self,
        call: &Call,
        turn: impl Fn(&mut Switches),
    ) -> Result<Reply, Problem> {
        no_body(call)?;
        let sale = self
            .change_sale(&call.sale()?, |sale| {
                turn(&mut sale.switches);
                Ok(())
            })
            .await?;
        tracing::info!(sale = %sale.id, switches = ?sale.switches, "a switch was turned");
        Reply::ok(&view::sale(&sale))
    }

    /// A switch that is turned on, or to what `{"on": …}` says.
    pub(crate) async fn turn_to(
        &self,
        call: &Call,
        turn: impl Fn(&mut Switches, bool),
    ) -> Result<Reply, Problem> {
        let mut fields = call.fields()?;
        let on = match fields.take("on") {
            None => true,
            Some(serde_json::Value::Bool(on)) => on,
            Some(_) => {
                fields.wrong("on", "must be true or false");
                true
            }
        };
        fields.finish().map_err(Problem::fields)?;
        let sale = self
            .change_sale(&call.sale()?, |sale| {
                turn(&mut sale.switches, on);
                Ok(())
            })
            .await?;
        tracing::info!(sale = %sale.id, switches = ?sale.switches, "a switch was turned");
        Reply::ok(&view::sale(&sale))
    }
}
