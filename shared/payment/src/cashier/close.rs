//! Closing an intent before its hold ends, or is given back.

use domain::{IntentId, Order, OrderId, OrderStatus};
use runtime::{Metric, metrics};

use super::settle::Capture;
use super::{Cashier, Refusal};
use crate::{CancelOutcome, NoIntent};

/// What closing an intent came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentEnd {
    /// No money holds it any more: the order, as it now is, may be released
    /// if its deadline has passed, or its shopper wants so.
    MayExpire(Box<Order>),
    /// The shopper had paid.
    Paid,
    /// Nobody knows. The hold stays; try again.
    Unreachable,
}

impl Cashier {
    /// Closes the intent of an order that is to be released: of one that is
    /// being paid, and of one whose attempt was declined, since that intent can
    /// be confirmed again. The provider decides: a unit is never released that
    /// may still be paid.
    ///
    /// # Errors
    /// The ledger does not answer: nothing may be released.
    pub async fn close_intent(&self, order: &Order) -> Result<IntentEnd, ledger::Error> {
        match self.in_time(self.close(order)).await {
            Ok(end) => Ok(end),
            Err(Refusal::Ledger(error)) => Err(error),
            Err(error) => {
                metrics::of(order.claim.sale())
                    .value(Metric::IntentUnreachable, 1.0)
                    .write();
                tracing::warn!(
                    order = %order.claim.order(),
                    %error,
                    "a hold can't end, since its intent could not be closed"
                );
                Ok(IntentEnd::Unreachable)
            }
        }
    }

    /// Cancels an intent. A capture of nothing is none: it pays no order, and
    /// nothing has to go back.
    pub(super) async fn cancel(
        &self,
        intent: &IntentId,
        order: &OrderId,
    ) -> Result<CancelOutcome, crate::Error> {
        Ok(match self.provider.cancel(intent, order).await? {
            CancelOutcome::AlreadySucceeded(money) if money.amount == 0 => CancelOutcome::Cancelled,
            outcome => outcome,
        })
    }

    async fn close(&self, order: &Order) -> Result<IntentEnd, Refusal> {
        let intent = match &order.intent {
            Some(intent) => intent.clone(),
            None if order.status != OrderStatus::Paying => {
                return Ok(IntentEnd::MayExpire(Box::new(order.clone())));
            }
            // Begun, but never bound. The key tells which one it is.
            None => match self.create_intent(order).await {
                Ok(intent) => intent.id,
                Err(NoIntent::Unknown(error)) => return Err(error.into()),
                Err(none) => {
                    let waits = self.end_unmade(order, &none).await?;
                    return Ok(waits.map_or(IntentEnd::Unreachable, |order| {
                        IntentEnd::MayExpire(Box::new(order))
                    }));
                }
            },
        };
        let id = order.claim.order();
        let money = match self.cancel(&intent, &id).await? {
            CancelOutcome::Cancelled => return Ok(IntentEnd::MayExpire(Box::new(order.clone()))),
            CancelOutcome::AlreadySucceeded(money) => money,
        };
        self.settle(order, Capture::found(&intent, money)).await?;
        let read = self.ledger.order(&order.claim).await?;
        let now = read.ok_or(ledger::Error::Conflict)?;
        Ok(match now.status {
            OrderStatus::Paid => IntentEnd::Paid,
            // Another attempt began, with an intent that this did not close.
            OrderStatus::Paying => IntentEnd::Unreachable,
            _ => IntentEnd::MayExpire(Box::new(now)),
        })
    }
}
