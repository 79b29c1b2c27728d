//! An order as its owner sees it, and its payment. One that does not exist
//! and another's look the same.

use api::{Call, Code, Problem, Reply};
use domain::{ClaimId, Order, OrderId, OrderStatus, ShopperId};
use ledger::payments::Refund;
use payment::{Begun, Refusal};
use serde_json::{Value, json};

use crate::PaymentFunction;

impl PaymentFunction {
    pub(crate) async fn read_order(&self, call: &Call) -> Result<Reply, Problem> {
        let (order, refund) = self.own(call).await?;
        Reply::ok(&shown(&order, refund.as_ref()))
    }

    /// An order has one open payment, so the same call again is the same
    /// payment, with or without an `Idempotency-Key`.
    pub(crate) async fn create_payment(&self, call: &Call) -> Result<Reply, Problem> {
        call.fields()?.finish().map_err(Problem::fields)?;
        let (order, _) = self.own(call).await?;
        if order.money.amount == 0 {
            let paid = self.cashier.confirm_free(order).await;
            let (new, order) = paid.map_err(refused)?;
            // On a repetition too: the first run may have stopped before.
            self.settle_gate(&order.claim).await;
            return Reply::created(new, &free(&order));
        }
        let begun = self.cashier.begin(order).await.map_err(refused)?;
        Reply::created(begun.new, &self.payment(&begun))
    }

    async fn own(&self, call: &Call) -> Result<(Order, Option<Refund>), Problem> {
        let shopper = call.shopper()?;
        let order: OrderId = call.path("order")?;
        match self.ledger.order_with_refund(&order.claim()).await? {
            Some(found) if found.0.shopper == shopper => Ok(found),
            Some(_) => Err(Problem::not_found()),
            None => Err(self.unwritten(&order.claim(), &shopper).await?),
        }
    }

    /// What is said of an order that the ledger does not know: its claim may
    /// be on its way there.
    async fn unwritten(&self, claim: &ClaimId, shopper: &ShopperId) -> Result<Problem, Problem> {
        let gates = self.ledger.gates(claim.sale()).await?.unwrap_or_default();
        let Some(address) = gates.of(claim.bucket()) else {
            return Ok(Problem::not_found());
        };
        let hold = self.gate.hold(&address.tag, claim).await?;
        let is_theirs = hold.is_some_and(|hold| hold.claim == *claim && hold.shopper == *shopper);
        Ok(if is_theirs {
            Problem::new(Code::OrderNotReady)
        } else {
            Problem::not_found()
        })
    }

    fn payment(&self, begun: &Begun) -> Value {
        json!({
            "intent_id": begun.intent.id,
            "client_secret": begun.intent.client_secret,
            "provider": self.cashier.provider().name(),
            "amount": begun.intent.money.amount,
            "currency": begun.intent.money.currency,
            "expires_at": begun.order.deadline(),
            "order_id": begun.order.claim.order(),
            "status": "open",
        })
    }
}

/// Of an order that costs nothing: paid, and no provider knows of it.
fn free(order: &Order) -> Value {
    json!({
        "provider": "none",
        "amount": order.money.amount,
        "currency": order.money.currency,
        "order_id": order.claim.order(),
        "status": "paid",
    })
}

fn shown(order: &Order, refund: Option<&Refund>) -> Value {
    let mut shown = json!({
        "order_id": order.claim.order(),
        "claim_id": order.claim,
        "sale_id": order.claim.sale(),
        "status": order.status,
        "quantity": order.quantity,
        "amount": order.money.amount,
        "currency": order.money.currency,
        "display": order.money.to_string(),
        "pay_by": order.pay_by,
    });
    if order.status == OrderStatus::Paying {
        shown["pay_until"] = json!(order.pay_until);
    }
    if let Some(refund) = refund {
        shown["refund"] = json!({
            "status": refund.status,
            "amount": refund.money.amount,
            "currency": refund.money.currency,
        });
    }
    shown
}

/// Why an order can't be paid, for the one who wants to.
pub(crate) fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Expired => Problem::new(Code::Expired),
        Refusal::AlreadyPaid => Problem::new(Code::NotPayable).detail("The order is paid already."),
        Refusal::Free => Problem::new(Code::NotPayable).detail("There is nothing to pay."),
        Refusal::NotPayable(status) => {
            Problem::new(Code::NotPayable).detail(format!("The order is {}.", status.name()))
        }
        Refusal::Unpayable(_) => Problem::new(Code::NotPayable)
            .detail("The payment provider does not take this payment.")
            .because(refusal),
        Refusal::Provider(error) => error.into(),
        Refusal::Ledger(error) => error.into(),
    }
}
