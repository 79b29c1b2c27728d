//! The entry function: a tap becomes a ticket, in the draw or behind it.
//!
//! Nothing is kept of an entry but a count: the ticket follows from the pass,
//! and the entry token proves it. So who taps again within the draw's window
//! gets the same ticket without a token; after it the token is the proof, and
//! who lost it ranks as late.

use std::sync::Arc;

use api::{Call, Code, HttpFunction, Problem, Reply};
use domain::draw::{self, Drawn, Ticket};
use domain::{BucketId, PassId, Sale, SaleId, ShopperId, bucket};
use gate::Gate;
use jiff::{SignedDuration, Timestamp};
use ledger::{DrawSecrets, Ledger, SaleCache};
use runtime::{Clock, Environment};
use serde::Serialize;
use serde_json::json;
use token::{EdgeKeys, Keys, Proof, Signer};

/// A subscription is kept for so long after a sale has closed.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The entry function.
#[derive(Debug)]
pub struct EntryFunction {
    ledger: Ledger,
    sales: SaleCache,
    secrets: DrawSecrets,
    gate: Gate,
    clock: Clock,
    edge: EdgeKeys,
    keys: Keys,
    signer: Signer,
}

impl HttpFunction for EntryFunction {
    async fn start(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        let ledger = Ledger::connect(environment)?;
        Ok(Self {
            sales: SaleCache::new(ledger.clone(), environment.clock),
            secrets: DrawSecrets::new(ledger.clone()),
            ledger,
            gate: Gate::connect(environment)?,
            clock: environment.clock,
            edge: EdgeKeys::load(settings)?,
            keys: Keys::load(settings)?,
            signer: Signer::load(settings)?,
        })
    }

    async fn handle(&self, call: Call) -> Result<Reply, Problem> {
        match call.route() {
            "POST /v1/sales/{sale}/entries" => self.enter(&call).await,
            "POST /v1/sales/{sale}/waitlist" => self.subscribe(&call).await,
            _ => Err(Problem::not_found()),
        }
    }
}

/// A tap of a shopper with a pass, on a sale that is open.
struct Tap {
    shopper: ShopperId,
    pass: PassId,
    sale: Arc<Sale>,
    now: Timestamp,
}

impl Tap {
    fn home(&self) -> BucketId {
        bucket::home(&self.shopper, self.sale.config.buckets)
    }

    /// Whether it takes part in the draw.
    fn is_drawn(&self) -> bool {
        self.sale.config.is_draw() && self.now < self.sale.config.draw_closes_at()
    }
}

#[derive(Serialize)]
struct EntryView<'a> {
    ticket: Ticket,
    position: Option<u64>,
    entry_token: String,
    sale_id: &'a SaleId,
}

impl EntryFunction {
    async fn tap(&self, call: &Call) -> Result<Tap, Problem> {
        let shopper = call.shopper()?;
        let sale_id = call.sale()?;
        call.fields()?.finish().map_err(Problem::fields)?;
        let sale = self.sales.get(&sale_id).await?;
        let sale = sale.ok_or_else(Problem::not_found)?;
        let now = self.clock.now();
        // The sale's time comes first: outside it no pass is valid, and
        // "too early" is what a shopper must read then, not "no pass".
        if sale.has_ended(now) {
            return Err(Problem::new(Code::Ended));
        }
        if !sale.has_opened(now) {
            return Err(Problem::not_open(&sale));
        }
        let pass = call.pass(|sent| self.keys.pass_of(sent, &sale_id, &shopper, now))?;
        Ok(Tap {
            shopper,
            pass: pass.pass_id,
            sale,
            now,
        })
    }

    async fn enter(&self, call: &Call) -> Result<Reply, Problem> {
        let mut tap = self.tap(call).await?;
        if tap.sale.switches.paused {
            return Err(Problem::new(Code::Paused));
        }
        let proof = self.proof(call, &tap)?;
        let (ticket, new) = if tap.is_drawn() {
            self.drawn(&tap).await?
        } else {
            match proof {
                Some(Proof::Ticket(ticket)) => (ticket, false),
                // The edge has given the ticket; this is how it is counted.
                Some(Proof::Tapped) if tap.now < tap.sale.config.counted_until() => {
                    self.drawn(&tap).await?
                }
                Some(Proof::Tapped) => (self.draw(&tap).await?.ticket, false),
                None => (self.late(&mut tap).await?, true),
            }
        };
        let closes_at = tap.sale.config.closes_at.at;
        let sale_id = &tap.sale.id;
        let entry_token = self
            .signer
            .entry(sale_id, &tap.shopper, &tap.pass, ticket, closes_at, tap.now)
            .map_err(|error| Problem::new(Code::Internal).because(error))?;
        Reply::created(
            new,
            &EntryView {
                ticket,
                position: tap.sale.admission.position(ticket),
                entry_token,
                sale_id,
            },
        )
    }

    /// What a `Sale-Entry` proves, if one was sent. One that is not valid is
    /// refused and not overlooked: a shopper should not fall behind for a
    /// mistake in between.
    fn proof(&self, call: &Call, tap: &Tap) -> Result<Option<Proof>, Problem> {
        let Some(sent) = call.header("sale-entry") else {
            return Ok(None);
        };
        let proof = self.keys.proof_of(
            &self.edge,
            sent,
            &tap.sale.id,
            &tap.shopper,
            &tap.pass,
            tap.now,
        );
        match proof {
            // Only a draw has a window to tap in.
            Ok(Proof::Tapped) if !tap.sale.config.is_draw() => {
                Err(Problem::new(Code::InvalidEntry))
            }
            Ok(proof) => Ok(Some(proof)),
            Err(_) => Err(Problem::new(Code::InvalidEntry)),
        }
    }

    async fn draw(&self, tap: &Tap) -> Result<Drawn, Problem> {
        let secret = self.secrets.of_opened(&tap.sale).await?;
        Ok(Drawn::of(secret.as_slice(), &tap.pass))
    }

    /// The ticket of the draw, and whether the entry was counted now. The
    /// answer waits for the count: a ticket that nobody counted would move
    /// everyone's place. Of an entry outside the sample nothing is kept, so
    /// nobody can say whether it is new.
    async fn drawn(&self, tap: &Tap) -> Result<(Ticket, bool), Problem> {
        let drawn = self.draw(tap).await?;
        if !drawn.is_counted(tap.sale.config.sample()) {
            return Ok((drawn.ticket, true));
        }
        let new = self.gate.enter(&self.tag(tap).await?, &tap.pass).await?;
        Ok((drawn.ticket, new))
    }

    /// The ticket behind the draw, in arrival order. The arrival is noted
    /// first: who must try again since the draw is being counted has a place
    /// already.
    async fn late(&self, tap: &mut Tap) -> Result<Ticket, Problem> {
        let local = self.gate.arrive(&self.tag(tap).await?, &tap.pass).await?;
        if tap.sale.admission.scale == 0
            && let Some(newer) = self.sales.refresh(&tap.sale.id).await?
        {
            tap.sale = newer;
        }
        let scale = tap.sale.admission.scale;
        if scale == 0 {
            return Err(Problem::new(Code::Unavailable)
                .retry_after(1)
                .detail("The draw is being counted; the place in line is kept.")
                .because("the draw is being counted"));
        }
        let arrival = draw::arrival(local, tap.home(), tap.sale.config.buckets);
        Ok(Ticket::late(arrival, scale))
    }

    /// The hash tag of the shopper's home bucket.
    async fn tag(&self, tap: &Tap) -> Result<String, Problem> {
        let gates = self.sales.gates(&tap.sale.id).await?;
        gates
            .and_then(|gates| gates.of(tap.home()).map(|gate| gate.tag.clone()))
            .ok_or_else(|| gate::Error::NotReady.into())
    }

    async fn subscribe(&self, call: &Call) -> Result<Reply, Problem> {
        let tap = self.tap(call).await?;
        let expires = tap.sale.config.closes_at.at + KEPT;
        let new = self
            .ledger
            .subscribe(&tap.sale.id, &tap.shopper, expires)
            .await?;
        Reply::created(new, &json!({"subscribed": true}))
    }
}
