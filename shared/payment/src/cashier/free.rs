//! Orders that cost nothing: paid by the tap on Pay, and no provider is asked.

use domain::{Order, OrderStatus};

use super::{Cashier, Refusal, TRIES};

impl Cashier {
    /// Pays an order that costs nothing, while its hold lasts. Whether this
    /// call did, and the order, `PAID`.
    ///
    /// # Errors
    /// It can't be paid, or not now.
    pub async fn confirm_free(&self, mut order: Order) -> Result<(bool, Order), Refusal> {
        for _ in 0..TRIES {
            let now = self.clock.now();
            match order.status {
                OrderStatus::Paid => return Ok((false, order)),
                OrderStatus::PendingPayment if now < order.pay_by => {
                    if self.ledger.confirm_free(&order, now).await? {
                        order.status = OrderStatus::Paid;
                        order.changed_at = now;
                        return Ok((true, order));
                    }
                }
                OrderStatus::PendingPayment | OrderStatus::Expired => {
                    return Err(Refusal::Expired);
                }
                OrderStatus::Paying | OrderStatus::Cancelled | OrderStatus::Voided => {
                    return Err(Refusal::NotPayable(order.status));
                }
            }
            let read = self.ledger.order(&order.claim).await?;
            order = read.ok_or(ledger::Error::Conflict)?;
        }
        Err(ledger::Error::Conflict.into())
    }
}
