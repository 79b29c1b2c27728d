//! Who may ask: the sale is open, the pass is theirs, the ticket is admitted.

use std::sync::Arc;

use api::{Call, Code, Problem};
use domain::draw::{Ticket, arrival};
use domain::{PassId, Sale, ShopperId};
use jiff::Timestamp;
use token::Proof;

use crate::ClaimFunction;

/// Whose claim, in which sale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub(crate) sale: &'a Sale,
    pub(crate) shopper: &'a ShopperId,
}

/// A shopper in front of the gates.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) sale: Arc<Sale>,
    pub(crate) shopper: ShopperId,
    pub(crate) pass: PassId,
    /// Their place in line; none in a race that is still on.
    pub(crate) ticket: Option<Ticket>,
    /// Whether units are given out to them. If not, they still hear of a claim
    /// that they have.
    pub(crate) admitted: bool,
}

impl Visitor {
    pub(crate) fn claimant(&self) -> Claimant<'_> {
        Claimant {
            sale: &self.sale,
            shopper: &self.shopper,
        }
    }
}

impl ClaimFunction {
    /// Lets a shopper through to the gates, or says why not.
    pub(crate) async fn admit(
        &self,
        call: &Call,
        sale: Arc<Sale>,
        shopper: ShopperId,
        now: Timestamp,
    ) -> Result<Visitor, Problem> {
        let id = sale.id.clone();
        if !sale.has_opened(now) {
            return Err(Problem::not_open(&sale));
        }
        // Before the pass is looked at: it ends with the sale.
        if sale.has_ended(now) {
            return Err(Problem::new(Code::Ended));
        }
        let pass = call
            .pass(|sent| self.keys.pass_of(sent, &id, &shopper, now))?
            .pass_id;
        if sale.switches.paused {
            return Err(Problem::new(Code::Paused).retry_after(5));
        }
        let ticket = match call.header("sale-entry") {
            None => None,
            Some(sent) => {
                let proof = self
                    .keys
                    .proof_of(&self.edge, sent, &id, &shopper, &pass, now)
                    .map_err(|_| Problem::new(Code::InvalidEntry))?;
                Some(self.ticket(&sale, &pass, proof).await?)
            }
        };
        let mut visitor = Visitor {
            sale,
            shopper,
            pass,
            ticket,
            admitted: true,
        };
        // A draw is entered first: no place in its line comes from a claim.
        if visitor.ticket.is_none() && visitor.sale.config.is_draw() {
            return Err(Problem::token(Code::InvalidEntry, "Sale-Entry", None));
        }
        if visitor.sale.switches.force_sold_out || visitor.sale.switches.waitlist_only {
            visitor.admitted = false;
            return Ok(visitor);
        }
        let line = visitor.sale.config.is_draw() || visitor.sale.admission.waitlist_open;
        match visitor.ticket {
            _ if !line => Ok(visitor),
            Some(ticket) => {
                if !ticket.is_admitted(visitor.sale.admission.threshold) {
                    // A page may know a newer threshold than this instance.
                    if let Some(sale) = self.sales.refresh(&id).await? {
                        visitor.sale = sale;
                    }
                }
                let admission = &visitor.sale.admission;
                if ticket.is_admitted(admission.threshold) {
                    return Ok(visitor);
                }
                let mut problem = Problem::new(Code::NotAdmitted)
                    .member("ticket", ticket.0)
                    .member("threshold", admission.threshold);
                if let Some(position) = admission.position(ticket) {
                    problem = problem.member("position", position);
                }
                Err(problem)
            }
            // A race that is over has a line behind it.
            None => {
                visitor.admitted = false;
                Ok(visitor)
            }
        }
    }

    /// The ticket that an entry proves. Of a receipt the edge says no more than
    /// that there was a tap: the ticket is drawn here.
    async fn ticket(&self, sale: &Sale, pass: &PassId, proof: Proof) -> Result<Ticket, Problem> {
        match proof {
            Proof::Ticket(ticket) => Ok(ticket),
            Proof::Tapped if sale.config.is_draw() => {
                let secret = self.secrets.of_opened(sale).await?;
                Ok(Ticket::drawn(secret.as_slice(), pass))
            }
            Proof::Tapped => Err(Problem::new(Code::InvalidEntry)),
        }
    }

    /// "Sold out", with the shopper's place among those who wait. In a race
    /// that is where the shopper gets a place in line at all.
    pub(crate) async fn sold_out(
        &self,
        visitor: &Visitor,
        now: Timestamp,
    ) -> Result<Problem, Problem> {
        let sale = &visitor.sale;
        let admission = sale.admission;
        let mut problem = Problem::new(Code::SoldOut);
        let ticket = match visitor.ticket {
            Some(ticket) => ticket,
            None => {
                let gates = self
                    .sales
                    .gates(&sale.id)
                    .await?
                    .ok_or_else(Problem::not_found)?;
                let home = domain::bucket::home(&visitor.shopper, sale.config.buckets);
                let address = gates.of(home).ok_or_else(Problem::not_found)?;
                let local = match self.gate.arrive(&address.tag, &visitor.pass).await {
                    // Sold out by the ledger. Places in line are counted by the
                    // gates: who asks again once they are back gets one.
                    Err(_) if sale.gates_away.is_some() => {
                        return Ok(problem.member("waitlist_position", serde_json::Value::Null));
                    }
                    local => local?,
                };
                let place = arrival(local, home, sale.config.buckets);
                let ticket = Ticket::late(place, admission.scale);
                let closes_at = sale.config.closes_at.at;
                let token = self
                    .signer
                    .entry(
                        &sale.id,
                        &visitor.shopper,
                        &visitor.pass,
                        ticket,
                        closes_at,
                        now,
                    )
                    .map_err(|error| Problem::new(Code::Internal).because(error))?;
                problem = problem
                    .member("entry_token", token)
                    .member("ticket", ticket.0);
                ticket
            }
        };
        let units = if sale.config.is_draw() {
            sale.config.units
        } else {
            0
        };
        Ok(match admission.waitlist_position(ticket, units) {
            Some(position) => problem.member("waitlist_position", position),
            None => problem.member("waitlist_position", serde_json::Value::Null),
        })
    }
}
