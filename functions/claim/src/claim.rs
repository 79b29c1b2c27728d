//! `POST /v1/sales/{sale}/claims`.

use std::sync::Arc;
use std::time::Duration;

use api::{Call, Code, Problem, Reply};
use domain::config::Mode;
use domain::input::Fields;
use domain::order::ClaimStatus;
use domain::{ClaimId, IdempotencyKey, Sale, SaleId, ShopperId};
use gate::sale::Request;
use gate::{Decision, Hold, SaleGates};
use jiff::Timestamp;
use lambda_http::http::StatusCode;
use queue::{ClaimCreated, Message};
use runtime::{Metric, metrics};

use crate::ClaimFunction;
use crate::admission::Visitor;
use crate::view;

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
        mut fields: Fields,
        now: Timestamp,
    ) -> Result<Reply, Problem> {
        let visitor = self.admit(call, sale, shopper, now).await?;
        let sale = &visitor.sale;
        let limit = sale.config.limit_per_customer;
        let quantity = if fields.has("quantity") {
            fields.integer("quantity", 1..=u64::from(limit))
        } else {
            Some(1)
        };
        fields.finish().map_err(Problem::fields)?;
        let quantity = quantity.unwrap_or(1) as u32;

        // Not loaded: a change before the opening stopped half-way, and the
        // gates may still be those of the sale as it was.
        let addresses = self.sales.gates(&sale.id).await?;
        let addresses = addresses.filter(|_| sale.loaded);
        let addresses = addresses.ok_or_else(|| Problem::new(Code::Frozen))?;
        let gates = self.gates.prepare(&self.gate, &sale.id, &addresses);
        let rate_per_s = match sale.config.mode {
            Mode::Race { race_rate_per_s } => {
                Some(race_rate_per_s.div_ceil(u32::from(sale.config.buckets)))
            }
            Mode::Draw { .. } => None,
        };
        let pay_by = sale.pay_by(now);
        let request = Request {
            shopper: &visitor.shopper,
            key,
            quantity,
            limit,
            pay_by,
            rate_per_s,
        };
        if let Some(reply) = self.taken_before(&visitor, &request).await? {
            return Ok(reply);
        }
        let decision = if visitor.admitted {
            gates.claim(&request).await
        } else {
            let held = gates.held(&request).await;
            held.map(|held| held.unwrap_or(Decision::Empty))
        };
        self.barriers
            .raise(&self.queue, &sale.id, &gates, now)
            .await;
        let decision = match decision {
            Err(away @ gate::Error::Unavailable(_)) if visitor.admitted => {
                return self.claim_by_ledger(&visitor, &request, away, now).await;
            }
            decision => decision?,
        };
        match decision {
            Decision::Claimed(hold) => self.claimed(&visitor, &gates, hold).await,
            Decision::Same(hold) if hold.quantity != quantity => {
                Err(Problem::new(Code::IdempotencyKeyReused)
                    .detail("The key was used for another quantity."))
            }
            Decision::Same(hold) => self.again(&visitor, &gates, hold).await,
            Decision::Holds(hold, units) if units >= limit => {
                self.again(&visitor, &gates, hold).await
            }
            Decision::Holds(hold, units) => {
                // The question may have completed a claim that stopped at its
                // mark: it becomes an order like any other, and is named.
                let claim = hold.claim.clone();
                self.again(&visitor, &gates, hold).await?;
                Err(Problem::new(Code::LimitReached)
                    .member("held", units)
                    .member("limit_per_customer", limit)
                    .member("claim_id", claim.to_string()))
            }
            Decision::Empty => Err(self.sold_out(&visitor, now).await?),
            Decision::Busy => Err(Problem::new(Code::TooManyRequests)),
        }
    }

    /// A new yes. The gate may have forgotten a claim that the ledger knows, and
    /// voided, so its row is read: after the message is stored, and not for long.
    async fn claimed(
        &self,
        visitor: &Visitor,
        gates: &SaleGates,
        hold: Hold,
    ) -> Result<Reply, Problem> {
        let secured = self.secure(visitor, gates, &hold).await?;
        let known = tokio::time::timeout(LOOK_MAX, self.ledger.order(&hold.claim)).await;
        let status = match known {
            Ok(Ok(Some(order))) if !order.status.holds_units() => {
                return Reply::ok(&view::ordered(&visitor.sale, &order));
            }
            // The worker may have been as fast as this.
            Ok(Ok(_)) => secured,
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(claim = %hold.claim, "whether it was voided before is not known");
                ClaimStatus::Confirming
            }
        };
        let code = match status {
            ClaimStatus::Confirming => StatusCode::ACCEPTED,
            _ => StatusCode::CREATED,
        };
        Reply::json(code, &view::held(&visitor.sale, &hold, status))
    }

    /// The same claim again: whatever the ledger knows of it by now. If it
    /// knows nothing, the message may never have been stored: once more.
    async fn again(
        &self,
        visitor: &Visitor,
        gates: &SaleGates,
        hold: Hold,
    ) -> Result<Reply, Problem> {
        match self.ledger.order(&hold.claim).await? {
            Some(order) => Reply::ok(&view::ordered(&visitor.sale, &order)),
            None => {
                let status = self.secure(visitor, gates, &hold).await?;
                let code = match status {
                    ClaimStatus::Confirming => StatusCode::ACCEPTED,
                    _ => StatusCode::OK,
                };
                Reply::json(code, &view::held(&visitor.sale, &hold, status))
            }
        }
    }

    /// Makes a yes of the gate durable: the queue, then one replica. Not
    /// acknowledged by a replica, it is queued all the same, but the shopper
    /// is told that the ledger decides. In this order: a message that is sent
    /// after the look could come behind a recovery.
    async fn secure(
        &self,
        visitor: &Visitor,
        gates: &SaleGates,
        hold: &Hold,
    ) -> Result<ClaimStatus, Problem> {
        let bucket = gates
            .bucket(hold.claim.bucket())
            .ok_or_else(Problem::not_found)?;
        let config = &visitor.sale.config;
        let money = config
            .price
            .times(hold.quantity)
            .ok_or_else(|| Problem::new(Code::Internal).because("the amount exceeds its limit"))?;
        let message = Message::ClaimCreated(ClaimCreated {
            claim: hold.claim.clone(),
            shopper: visitor.shopper.clone(),
            quantity: hold.quantity,
            money,
            limit: config.limit_per_customer,
            // After the gate gave it: no unit seems taken before it was back.
            claimed_at: self.clock.now(),
            pay_by: hold.pay_by,
            epoch: bucket.epoch(),
        });
        self.queue.send(&message).await?;
        let replicated = bucket.replicated(&hold.claim).await.unwrap_or(false);
        if !replicated {
            tracing::warn!(claim = %hold.claim, "no replica acknowledged");
        }
        let replicated = replicated
            && self
                .is_believed(&visitor.sale, &hold.claim, bucket.epoch())
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
