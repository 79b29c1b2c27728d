//! `POST /v1/sales/{sale}/claims`.

use std::sync::Arc;
use std::time::Duration;

use api::{Call, Code, Problem, Reply};
use domain::bucket::home;
use domain::config::Mode;
use domain::input::Fields;
use domain::order::ClaimStatus;
use domain::{ClaimId, IdempotencyKey, Order, Sale, SaleId, ShopperId};
use gate::sale::Request;
use gate::{Decision, Hold, SaleGates};
use jiff::Timestamp;
use lambda_http::http::StatusCode;
use runtime::{Metric, metrics};

use crate::ClaimFunction;
use crate::admission::Claimant;
use crate::by_ledger::had;
use crate::refusal::{limit_reached, reused};
use crate::view;
use crate::yes::Yes;

/// Longest look for the order of a claim that is new to its gate.
const LOOK_MAX: Duration = Duration::from_millis(500);

impl ClaimFunction {
    pub(crate) async fn create(&self, call: &Call) -> Result<Reply, Problem> {
        let now = self.clock.now();
        let key = idempotency_key(call)?;
        let fields = call.fields()?;
        let id: SaleId = call.sale()?;
        let shopper = call.shopper()?;
        let sale = self.sales.get(&id).await?.ok_or_else(Problem::not_found)?;
        let answer = self.decide(call, sale, shopper, &key, fields, now).await;
        // Only of a sale that exists: whoever makes up names makes no series.
        metrics::of(&id)
            .word("answer", word(&answer))
            .value(Metric::Claims, 1.0)
            .write();
        answer
    }

    async fn decide(
        &self,
        call: &Call,
        sale: Arc<Sale>,
        shopper: ShopperId,
        key: &IdempotencyKey,
        fields: Fields,
        now: Timestamp,
    ) -> Result<Reply, Problem> {
        let admitted = self.admit(call, Arc::clone(&sale), shopper.clone(), now);
        let visitor = match admitted.await {
            Ok(visitor) => visitor,
            Err(no) => {
                let (sale, shopper) = (&*sale, &shopper);
                let whose = Claimant { sale, shopper };
                return self.held_before(whose, key, fields, now, no).await;
            }
        };
        let whose = visitor.claimant();
        let request = request(whose, key, fields, now)?;
        let gates = self.gates_of(whose.sale).await?;
        if let Some(reply) = self.taken_before(whose, &request).await? {
            return Ok(reply);
        }
        let decision = if visitor.admitted {
            gates.claim(&request).await
        } else {
            let held = gates.held(&request).await;
            held.map(|held| held.unwrap_or(Decision::Empty))
        };
        self.raise_barriers(&whose.sale.id, &gates, now).await;
        let decision = match decision {
            Err(away @ gate::Error::Unavailable(_)) if visitor.admitted => {
                return self.claim_by_ledger(&visitor, &request, away, now).await;
            }
            decision => decision?,
        };
        match self.answer(whose, &gates, &request, decision).await? {
            Some(reply) => Ok(reply),
            None => Err(self.sold_out(&visitor, now).await?),
        }
    }

    /// Whoever was given a unit and did not hear of it asks again, and hears of it,
    /// whatever has become of the sale since. No gate gives anything here, and none is
    /// waited for: who holds nothing is refused as before.
    async fn held_before(
        &self,
        whose: Claimant<'_>,
        key: &IdempotencyKey,
        fields: Fields,
        now: Timestamp,
        no: Problem,
    ) -> Result<Reply, Problem> {
        let later = match no.code {
            Code::Ended | Code::Paused => true,
            // A draw's threshold never falls.
            Code::NotAdmitted => !whose.sale.config.is_draw(),
            _ => false,
        };
        let Some(request) = request(whose, key, fields, now).ok().filter(|_| later) else {
            return Err(no);
        };
        let Ok(gates) = self.gates_of(whose.sale).await else {
            return Err(no);
        };
        if let Some(reply) = self.taken_before(whose, &request).await? {
            return Ok(reply);
        }
        let held = tokio::time::timeout(LOOK_MAX, gates.held(&request)).await;
        let Ok(Ok(Some(held))) = held else {
            return Err(no);
        };
        let reply = self.answer(whose, &gates, &request, held).await?;
        reply.ok_or(no)
    }

    /// The gates of a sale. Not loaded: a change before the opening stopped
    /// half-way, and they may still be those of the sale as it was.
    async fn gates_of(&self, sale: &Sale) -> Result<Arc<SaleGates>, Problem> {
        let addresses = self.sales.gates(&sale.id).await?;
        let addresses = addresses.filter(|_| sale.loaded);
        let addresses = addresses.ok_or_else(|| Problem::new(Code::Frozen))?;
        Ok(self.gates.prepare(&self.gate, &sale.id, &addresses))
    }

    /// What the gates' decision is to the shopper; `None`: they have nothing left.
    async fn answer(
        &self,
        whose: Claimant<'_>,
        gates: &SaleGates,
        request: &Request<'_>,
        decision: Decision,
    ) -> Result<Option<Reply>, Problem> {
        let reply = match decision {
            Decision::Claimed(hold) => self.claimed(whose, gates, request, hold).await,
            Decision::Same(hold) if hold.quantity != request.quantity => Err(reused()),
            Decision::Same(hold) => self.again(whose, gates, request, hold).await,
            Decision::Holds(hold, units) if units >= request.limit => {
                self.again(whose, gates, request, hold).await
            }
            Decision::Holds(hold, units) => {
                // The question may have completed a claim that stopped at its
                // mark: it becomes an order like any other, and is named.
                let claim = hold.claim.clone();
                self.again(whose, gates, request, hold).await?;
                Err(limit_reached(units, request.limit, &claim))
            }
            Decision::Empty => return Ok(None),
            Decision::Busy => Err(Problem::new(Code::TooManyRequests)),
        };
        reply.map(Some)
    }

    /// A new yes. The gate may have forgotten a claim that the ledger knows, so that
    /// is asked: after the message is stored, and not for long.
    async fn claimed(
        &self,
        whose: Claimant<'_>,
        gates: &SaleGates,
        request: &Request<'_>,
        hold: Hold,
    ) -> Result<Reply, Problem> {
        let secured = self.secure(whose, gates, &hold).await?;
        let known = self.known_before(whose, gates, request, &hold);
        let status = match tokio::time::timeout(LOOK_MAX, known).await {
            Ok(Ok(Some(known))) => return known,
            Ok(Ok(None)) => secured,
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(claim = %hold.claim, "what the ledger knew of it is not known");
                ClaimStatus::Confirming
            }
        };
        let code = match status {
            ClaimStatus::Confirming => StatusCode::ACCEPTED,
            _ => StatusCode::CREATED,
        };
        Reply::json(code, &view::held(whose.sale, &hold, status))
    }

    /// What the ledger knew before a new yes, if the yes can't stand for it: this
    /// claim was voided, or another one stands.
    async fn known_before(
        &self,
        whose: Claimant<'_>,
        gates: &SaleGates,
        request: &Request<'_>,
        hold: &Hold,
    ) -> Result<Option<Result<Reply, Problem>>, Problem> {
        let order = self.ledger.order(&hold.claim).await?;
        let instead = self.instead(whose, gates, request, hold, order.as_ref());
        if let Some(instead) = instead.await? {
            return Ok(Some(instead));
        }
        // The worker may have been as fast as this.
        let ended = order.filter(|order| !order.status.holds_units());
        Ok(ended.map(|order| Reply::ok(&view::ordered(whose.sale, &order))))
    }

    /// What stands in place of a hold that is no live order: a gate that lives anew has
    /// forgotten marks, so that a home gives a unit to whom another bucket served.
    async fn instead(
        &self,
        whose: Claimant<'_>,
        gates: &SaleGates,
        request: &Request<'_>,
        hold: &Hold,
        order: Option<&Order>,
    ) -> Result<Option<Result<Reply, Problem>>, Problem> {
        let home = home(whose.shopper, whose.sale.config.buckets);
        let asked = [hold.claim.bucket(), home];
        let mut asked = asked.into_iter().filter_map(|id| gates.bucket(id));
        let as_loaded = asked.all(|gate| gate.epoch() <= whose.sale.load);
        if as_loaded || order.is_some_and(|order| order.status.holds_units()) {
            return Ok(None);
        }
        let mut orders = self.orders_of(whose).await?;
        // This one, if it was written meanwhile, is the new one; and what ended is in
        // the way of none but its own key.
        let same = |order: &Order| order.claim.digest() == hold.claim.digest();
        orders.retain(|order| {
            order.claim != hold.claim && (order.status.holds_units() || same(order))
        });
        Ok(had(whose.sale, request, &orders))
    }

    /// The same claim again: whatever the ledger knows of it by now. If it
    /// knows nothing, the message may never have been stored: once more.
    async fn again(
        &self,
        whose: Claimant<'_>,
        gates: &SaleGates,
        request: &Request<'_>,
        hold: Hold,
    ) -> Result<Reply, Problem> {
        let order = self.ledger.order(&hold.claim).await?;
        let instead = self.instead(whose, gates, request, &hold, order.as_ref());
        if let Some(instead) = instead.await? {
            return instead;
        }
        match order {
            Some(order) => Reply::ok(&view::ordered(whose.sale, &order)),
            None => {
                let status = self.secure(whose, gates, &hold).await?;
                let code = match status {
                    ClaimStatus::Confirming => StatusCode::ACCEPTED,
                    _ => StatusCode::OK,
                };
                Reply::json(code, &view::held(whose.sale, &hold, status))
            }
        }
    }

    /// Makes a yes of the gate durable: the queue, then one replica. Not
    /// acknowledged by a replica, it is queued all the same, but the shopper
    /// is told that the ledger decides. In this order: a message that is sent
    /// after the look could come behind a recovery.
    async fn secure(
        &self,
        whose: Claimant<'_>,
        gates: &SaleGates,
        hold: &Hold,
    ) -> Result<ClaimStatus, Problem> {
        let bucket = gates
            .bucket(hold.claim.bucket())
            .ok_or_else(Problem::not_found)?;
        let yes = Yes {
            claim: &hold.claim,
            quantity: hold.quantity,
            // After the gate gave it: no unit seems taken before it was back.
            claimed_at: self.clock.now(),
            pay_by: hold.pay_by,
            epoch: bucket.epoch(),
        };
        self.send(whose, yes).await?;
        let replicated = bucket.replicated(&hold.claim).await.unwrap_or(false);
        if !replicated {
            tracing::warn!(claim = %hold.claim, "no replica acknowledged");
        }
        let replicated = replicated
            && self
                .is_believed(whose.sale, &hold.claim, bucket.epoch())
                .await;
        Ok(if replicated {
            ClaimStatus::Claimed
        } else {
            ClaimStatus::Confirming
        })
    }
}

impl ClaimFunction {
    /// Whether the life of a gate that said yes is not closed, read after the
    /// claim's message was stored: one that is taken without the gate comes
    /// behind that message then. Only a sale with that mode closes any.
    async fn is_believed(&self, sale: &Sale, claim: &ClaimId, epoch: u64) -> bool {
        if sale.config.ledger_only_rate_per_s == 0 {
            return true;
        }
        match self.ledger.bucket(&sale.id, claim.bucket()).await {
            Ok(row) => row.is_some_and(|row| row.closed < epoch),
            Err(error) => {
                tracing::warn!(%claim, %error, "whether the gate is believed is not known");
                false
            }
        }
    }
}

/// What the gates are asked for.
fn request<'a>(
    whose: Claimant<'a>,
    key: &'a IdempotencyKey,
    mut fields: Fields,
    now: Timestamp,
) -> Result<Request<'a>, Problem> {
    let config = &whose.sale.config;
    let limit = config.limit_per_customer;
    let quantity = if fields.has("quantity") {
        fields.integer("quantity", 1..=u64::from(limit))
    } else {
        Some(1)
    };
    fields.finish().map_err(Problem::fields)?;
    let rate_per_s = match config.mode {
        Mode::Race { race_rate_per_s } => Some(race_rate_per_s.div_ceil(u32::from(config.buckets))),
        Mode::Draw { .. } => None,
    };
    Ok(Request {
        shopper: whose.shopper,
        key,
        quantity: quantity.unwrap_or(1) as u32,
        limit,
        pay_by: whose.sale.pay_by(now),
        rate_per_s,
    })
}

/// The answer in one word: claims are counted by it.
fn word(answer: &Result<Reply, Problem>) -> &'static str {
    match answer.as_ref().map(Reply::status) {
        Ok(StatusCode::CREATED) => "claimed",
        Ok(StatusCode::ACCEPTED) => "confirming",
        Ok(_) => "same",
        Err(problem) => problem.code.name(),
    }
}

fn idempotency_key(call: &Call) -> Result<IdempotencyKey, Problem> {
    let Some(header) = call.header("idempotency-key") else {
        return Err(Problem::new(Code::InvalidIdempotencyKey).detail("Idempotency-Key is required"));
    };
    header.parse().map_err(|error| {
        Problem::new(Code::InvalidIdempotencyKey).detail(format!("Idempotency-Key {error}"))
    })
}
