//! An order that costs nothing: its shopper says that they take it, and it is paid.
//! No provider is asked, and until then the hold can lapse as any other.

use api::{Problem, Reply};
use domain::{Order, OrderStatus};
use payment::Refusal;
use serde_json::json;

use crate::PaymentFunction;
use crate::order::refused;

impl PaymentFunction {
    /// Confirms an order of nothing; the same again says the same.
    pub(crate) async fn take(&self, mut order: Order) -> Result<Reply, Problem> {
        let claim = order.claim.clone();
        let now = self.clock.now();
        let new = self.ledger.pay_nothing(&order, now).await?;
        if !new {
            let read = self.ledger.order(&claim).await?;
            order = read.ok_or(ledger::Error::Conflict)?;
            match order.status {
                OrderStatus::Paid => {}
                OrderStatus::PendingPayment | OrderStatus::Paying | OrderStatus::Expired => {
                    return Err(refused(Refusal::Expired));
                }
                OrderStatus::Cancelled | OrderStatus::Voided => {
                    return Err(refused(Refusal::NotPayable(order.status)));
                }
            }
        }
        // On a repetition too: the first run may have stopped before this.
        self.settle_gate(&claim).await;
        Reply::created(
            new,
            &json!({
                "order_id": claim.order(),
                "amount": order.money.amount,
                "currency": order.money.currency,
                "status": "paid",
            }),
        )
    }
}
