//! Applying what the provider tells: every capture pays its order, or goes
//! back.

use domain::{IntentId, Money, Order, OrderStatus};
use ledger::payments::{EventRow, EventStatus, Refund, RefundReason, Written};
use runtime::{Metric, metrics};

use super::refunds::log_unrefunded;
use super::{Cashier, Refusal, TRIES};
use crate::{Event, EventKind, IntentStatus};

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The order is paid now.
    Paid,
    /// The order was paid by this intent before.
    AlreadyPaid,
    /// The event changed nothing that it had not changed before.
    AlreadyApplied,
    /// The attempt ended without money; the order waits again.
    Declined,
    /// What was captured goes back, or went back.
    Refund,
    /// It contradicts our own record: not paid, and what was captured under
    /// it goes back.
    Mismatch,
    /// It is nothing that we act on.
    Ignored,
    /// Its order does not exist, yet or ever. Not accepted, so that the
    /// provider delivers it again.
    Parked,
}

/// A capture that someone told of.
pub(super) struct Capture<'a> {
    intent: &'a IntentId,
    /// How much, if it was said legibly.
    money: Option<Money>,
    /// The event that told, if it was one.
    event: Option<&'a EventRow>,
}

impl<'a> Capture<'a> {
    /// Found by asking the provider.
    pub(super) fn found(intent: &'a IntentId, money: Money) -> Self {
        Self {
            intent,
            money: Some(money),
            event: None,
        }
    }
}

impl Cashier {
    /// Applies a verified event.
    ///
    /// # Errors
    /// No answer from ledger or provider: the event must be delivered again.
    pub async fn apply(&self, event: &Event) -> Result<Applied, Refusal> {
        self.in_time(self.judge(event)).await
    }

    async fn judge(&self, event: &Event) -> Result<Applied, Refusal> {
        let Some(intent) = &event.intent else {
            return Ok(Applied::Ignored);
        };
        let now = self.clock.now();
        let row = EventRow::new(
            self.provider.name(),
            &event.id,
            intent,
            event.order.as_ref(),
            now,
        );
        let order = match &event.order {
            Some(order) => self.ledger.order(&order.claim()).await?,
            None => None,
        };
        let Some(order) = order else {
            return match event.kind {
                EventKind::Succeeded(_) => self.park(&row).await,
                _ => Ok(Applied::Ignored),
            };
        };
        match event.kind {
            EventKind::Succeeded(money) => {
                let capture = Capture {
                    intent,
                    money,
                    event: Some(&row),
                };
                self.settle(&order, capture).await
            }
            EventKind::Failed | EventKind::Cancelled => {
                let ended = self.ledger.end_attempt(&order, intent, now).await?;
                Ok(if ended {
                    Applied::Declined
                } else {
                    Applied::AlreadyApplied
                })
            }
            EventKind::Refunded => self.look_at_refund(&order.claim, intent).await,
            EventKind::RefundFailed => {
                let noted = self.ledger.refund_failed(&order.claim, intent, now);
                if !noted.await? {
                    return Ok(Applied::AlreadyApplied);
                }
                metrics::of(order.claim.sale())
                    .value(Metric::RefundUnconfirmed, 1.0)
                    .write();
                tracing::error!(
                    intent = intent.as_str(),
                    order = %order.claim.order(),
                    "a refund did not get through, and is owed again"
                );
                Ok(Applied::Refund)
            }
            EventKind::Other => Ok(Applied::Ignored),
        }
    }

    async fn park(&self, event: &EventRow) -> Result<Applied, Refusal> {
        self.ledger.keep_event(event, EventStatus::Parked).await?;
        // Each time it is delivered: the answer to the first keeping may have
        // been lost.
        metrics::overall().value(Metric::PaymentParked, 1.0).write();
        tracing::error!(
            event = event.event,
            intent = event.intent.as_str(),
            order = event.order_id.as_ref().map(ToString::to_string),
            "a payment succeeded for an order that does not exist"
        );
        Ok(Applied::Parked)
    }

    /// Decides where a capture belongs: to the order, or back.
    pub(super) async fn settle(
        &self,
        order: &Order,
        capture: Capture<'_>,
    ) -> Result<Applied, Refusal> {
        let mut order = order.clone();
        for _ in 0..TRIES {
            let decided = if order.intent.as_ref() == Some(capture.intent) {
                self.settle_bound(&order, &capture).await?
            } else {
                self.settle_unbound(&order, &capture).await?
            };
            if let Some(applied) = decided {
                return Ok(applied);
            }
            let read = self.ledger.order(&order.claim).await?;
            order = read.ok_or(ledger::Error::Conflict)?;
        }
        Err(ledger::Error::Conflict.into())
    }

    /// A capture by the order's own intent. `None`: the order changed.
    async fn settle_bound(
        &self,
        order: &Order,
        capture: &Capture<'_>,
    ) -> Result<Option<Applied>, Refusal> {
        let exact = capture.money == Some(order.money);
        match order.status {
            OrderStatus::Paid if exact => Ok(Some(Applied::AlreadyPaid)),
            // One intent captures once, and that capture is in the order.
            OrderStatus::Paid => self.note_mismatch(order, capture).await.map(Some),
            OrderStatus::PendingPayment | OrderStatus::Paying if exact => {
                let now = self.clock.now();
                let written = self
                    .ledger
                    .pay(order, capture.intent, capture.event, now)
                    .await?;
                match written {
                    Written::Now => Ok(Some(Applied::Paid)),
                    Written::Before => self.seen_before(order, capture).await.map(Some),
                    Written::Stale => Ok(None),
                }
            }
            OrderStatus::PendingPayment | OrderStatus::Paying => {
                self.give_back(order, capture, RefundReason::Mismatch).await
            }
            OrderStatus::Expired | OrderStatus::Cancelled | OrderStatus::Voided => {
                self.give_back(order, capture, RefundReason::Late).await
            }
        }
    }

    /// A capture by an intent that is not the order's. `None`: the order
    /// changed, or did not know its intent yet.
    async fn settle_unbound(
        &self,
        order: &Order,
        capture: &Capture<'_>,
    ) -> Result<Option<Applied>, Refusal> {
        if order.status == OrderStatus::Paying && order.intent.is_none() {
            self.bind(order).await?;
            return Ok(None);
        }
        // Money for another order must not go back under this one's name.
        let named = self.provider.order_of(capture.intent).await?;
        if named.is_some_and(|named| named != order.claim.order()) {
            return self.note_mismatch(order, capture).await.map(Some);
        }
        self.give_back(order, capture, RefundReason::OtherIntent)
            .await
    }

    /// An event whose row was there: what did it do then?
    async fn seen_before(&self, order: &Order, capture: &Capture<'_>) -> Result<Applied, Refusal> {
        let order = self.ledger.order(&order.claim).await?;
        let paid = order.is_some_and(|order| {
            order.status == OrderStatus::Paid && order.intent.as_ref() == Some(capture.intent)
        });
        Ok(if paid {
            Applied::AlreadyPaid
        } else {
            Applied::AlreadyApplied
        })
    }

    /// Owes the capture back, and tries to give it back at once. `None`: the
    /// order changed.
    async fn give_back(
        &self,
        order: &Order,
        capture: &Capture<'_>,
        reason: RefundReason,
    ) -> Result<Option<Applied>, Refusal> {
        let Some(money) = self.captured(order, capture).await? else {
            return self.note_mismatch(order, capture).await.map(Some);
        };
        let now = self.clock.now();
        let refund = Refund::owed(&order.claim, capture.intent, money, reason, now);
        match self
            .ledger
            .owe_refund(order, &refund, capture.event)
            .await?
        {
            Written::Now => {}
            Written::Before => return Ok(Some(Applied::AlreadyApplied)),
            Written::Stale => return Ok(None),
        }
        metrics::of(order.claim.sale())
            .value(Metric::RefundOwed, 1.0)
            .write();
        tracing::warn!(
            reason = ?reason,
            intent = capture.intent.as_str(),
            order = %refund.order_id,
            captured = %money,
            asked = %order.money,
            status = order.status.name(),
            "a capture goes back"
        );
        // It is owed; whether it can go back right now changes nothing of that.
        if let Err(error) = self.refund(&refund).await {
            log_unrefunded(&refund, now, &error);
        }
        Ok(Some(match reason {
            RefundReason::Mismatch => Applied::Mismatch,
            RefundReason::Late | RefundReason::OtherIntent => Applied::Refund,
        }))
    }

    /// What was captured: as told, else as the provider's books have it.
    async fn captured(
        &self,
        order: &Order,
        capture: &Capture<'_>,
    ) -> Result<Option<Money>, Refusal> {
        let money = match capture.money {
            Some(money) => Some(money),
            None => {
                let order = order.claim.order();
                let intent = self.provider.intent(capture.intent, &order).await?;
                intent.and_then(|intent| match intent.status {
                    IntentStatus::Succeeded(money) => Some(money),
                    _ => None,
                })
            }
        };
        Ok(money.filter(|money| money.amount > 0))
    }

    /// Keeps and tells of a contradiction by which nothing has to go back; each
    /// time, since the answer to the first keeping may have been lost.
    async fn note_mismatch(
        &self,
        order: &Order,
        capture: &Capture<'_>,
    ) -> Result<Applied, Refusal> {
        let known = match capture.event {
            Some(event) => !self.ledger.keep_event(event, EventStatus::Mismatch).await?,
            None => false,
        };
        metrics::of(order.claim.sale())
            .value(Metric::PaymentMismatch, 1.0)
            .write();
        tracing::error!(
            intent = capture.intent.as_str(),
            order = %order.claim.order(),
            said = capture.money.map(|money| money.to_string()),
            asked = %order.money,
            status = order.status.name(),
            "a payment contradicts our record"
        );
        Ok(if known {
            Applied::AlreadyApplied
        } else {
            Applied::Mismatch
        })
    }
}
