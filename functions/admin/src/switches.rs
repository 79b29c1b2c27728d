//! Switches, not deployments: each takes hold within a second.

use api::{Call, Code, Problem, Reply};
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
        self.switch(call, turn).await
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
        self.switch(call, |switches| turn(switches, on)).await
    }

    /// A sale that is over has no switches any more; ending it again is the
    /// same as once.
    async fn switch(&self, call: &Call, turn: impl Fn(&mut Switches)) -> Result<Reply, Problem> {
        let sale = self
            .change_sale(&call.sale()?, |sale| {
                let now = self.clock.now();
                let over = sale.has_ended(now);
                let before = sale.switches;
                turn(&mut sale.switches);
                let ended = Switches {
                    ended: sale.switches.ended,
                    ..before
                };
                if over && sale.switches != ended {
                    return Err(Problem::new(Code::Ended));
                }
                if sale.switches.ended {
                    // The controller does not look at it before its opening.
                    sale.end(now);
                }
                Ok(())
            })
            .await?;
        tracing::info!(sale = %sale.id, switches = ?sale.switches, "a switch was turned");
        Reply::ok(&view::sale(&sale))
    }
}
