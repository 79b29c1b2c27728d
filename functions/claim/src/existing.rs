//! `GET` and `DELETE /v1/claims/{claim}`: another's claim is not found.

use std::sync::Arc;

use api::{Call, Code, Problem, Reply};
use domain::order::ClaimStatus;
use domain::{ClaimId, Order, OrderStatus, Sale, ShopperId};
use gate::{Hold, Release};
use ledger::without_gates::Confirming;
use payment::IntentEnd;

use crate::ClaimFunction;
use crate::view;

impl ClaimFunction {
    pub(crate) async fn read(&self, call: &Call) -> Result<Reply, Problem> {
        let (claim, shopper, sale) = self.named(call).await?;
        match self.ledger.order(&claim).await? {
            Some(order) if order.shopper == shopper => Reply::ok(&view::ordered(&sale, &order)),
            Some(_) => Err(Problem::not_found()),
            None => {
                if let Some(taken) = self.taken(&sale, &claim, &shopper).await? {
                    return Reply::ok(&view::taken(&sale, &taken));
                }
                let hold = self.unordered(&claim, &shopper).await?;
                Reply::ok(&view::held(&sale, &hold, ClaimStatus::Claimed))
            }
        }
    }

    /// A claim that was taken while the gates were away.
    async fn taken(
        &self,
        sale: &Sale,
        claim: &ClaimId,
        shopper: &ShopperId,
    ) -> Result<Option<Confirming>, Problem> {
        if !sale.gates_were_away || sale.config.ledger_only_rate_per_s == 0 {
            return Ok(None);
        }
        let noted = self.ledger.confirming(&sale.id, shopper).await?;
        Ok(noted.filter(|noted| noted.claim == *claim))
    }

    /// Gives a hold back before it is paid. Doing it again changes nothing.
    pub(crate) async fn give_back(&self, call: &Call) -> Result<Reply, Problem> {
        let (claim, shopper, sale) = self.named(call).await?;
        // Once more if the order changed between reading and writing.
        for _ in 0..3 {
            let Some(order) = self.ledger.order(&claim).await? else {
                if self.taken(&sale, &claim, &shopper).await?.is_none() {
                    self.unordered(&claim, &shopper).await?;
                }
                return Err(Problem::new(Code::OrderNotReady));
            };
            if order.shopper != shopper {
                return Err(Problem::not_found());
            }
            match order.status {
                OrderStatus::Paying | OrderStatus::Paid => {
                    return Err(Problem::new(Code::NotCancellable)
                        .detail("A payment has begun or is complete."));
                }
                OrderStatus::PendingPayment => {
                    let Some(order) = self.closed(order).await? else {
                        continue; // paid after all
                    };
                    let ended = self
                        .ledger
                        .release(
                            claim.sale(),
                            claim.bucket(),
                            std::slice::from_ref(&order),
                            OrderStatus::Cancelled,
                            self.clock.now(),
                        )
                        .await?;
                    if !ended.is_empty() {
                        self.return_units(&claim).await;
                    }
                }
                OrderStatus::Expired | OrderStatus::Cancelled | OrderStatus::Voided => {
                    return Reply::ok(&view::ordered(&sale, &order));
                }
            }
        }
        Err(Problem::new(Code::Conflict))
    }

    /// The order once nothing can pay it any more: an intent that was declined
    /// could be confirmed again after its unit went to somebody else. `None` if
    /// it was, before.
    async fn closed(&self, order: Order) -> Result<Option<Order>, Problem> {
        Ok(match self.cashier.close_intent(&order).await? {
            IntentEnd::MayExpire(order) => Some(*order),
            IntentEnd::Paid => None,
            IntentEnd::Unreachable => {
                return Err(Problem::new(Code::Unavailable)
                    .detail("The payment provider does not answer. The hold is as it was."));
            }
        })
    }

    /// The ledger has released the units; the gate follows. Should it fail,
    /// the sweeper finds the deadline of a claim that is cancelled.
    async fn return_units(&self, claim: &ClaimId) {
        let tag = match self.sales.gates(claim.sale()).await {
            Ok(gates) => gates.and_then(|gates| Some(gates.of(claim.bucket())?.tag.clone())),
            Err(_) => None,
        };
        let Some(tag) = tag else { return };
        if let Err(error) = self.gate.release(&tag, claim, Release::Lapsed).await {
            tracing::warn!(%claim, %error, "units stay at the gate until the sweeper returns them");
        }
    }

    async fn named(&self, call: &Call) -> Result<(ClaimId, ShopperId, Arc<Sale>), Problem> {
        let claim: ClaimId = call.path("claim")?;
        let shopper = call.shopper()?;
        let sale = self
            .sales
            .get(claim.sale())
            .await?
            .ok_or_else(Problem::not_found)?;
        Ok((claim, shopper, sale))
    }

    /// A claim that only the gate knows yet.
    async fn unordered(&self, claim: &ClaimId, shopper: &ShopperId) -> Result<Hold, Problem> {
        let gates = self
            .sales
            .gates(claim.sale())
            .await?
            .ok_or_else(Problem::not_found)?;
        let address = gates.of(claim.bucket()).ok_or_else(Problem::not_found)?;
        let hold = self
            .gate
            .hold(&address.tag, claim)
            .await?
            .ok_or_else(Problem::not_found)?;
        if hold.claim != *claim || hold.shopper != *shopper {
            return Err(Problem::not_found());
        }
        Ok(hold)
    }
}
