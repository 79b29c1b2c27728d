//! Beginning to pay: one open intent for an order, however often it is asked.

use domain::{Order, OrderStatus};
use jiff::Timestamp;
use ledger::payments::Written;

use super::settle::Capture;
use super::{Cashier, TRIES};
use crate::{CancelOutcome, CreateIntent, Error, Intent, IntentStatus, NoIntent};

/// A payment that the shopper can make now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Whether this call bound the intent; else it was there already.
    pub new: bool,
    /// The order's one open intent.
    pub intent: Intent,
    /// The order, `PAYING`.
    pub order: Order,
}

/// Why an order can't be paid.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its hold has ended, or ends now.
    #[error("the hold has expired")]
    Expired,
    /// It is paid.
    #[error("the order is paid already")]
    AlreadyPaid,
    /// It costs nothing: [`Cashier::confirm_free`] pays it.
    #[error("there is nothing to pay")]
    Free,
    /// It is in a state that nothing leads out of.
    #[error("the order is {}", .0.name())]
    NotPayable(OrderStatus),
    /// The provider makes no intent of it. The order waits for another attempt.
    #[error("the payment provider makes no intent: {0}")]
    Unpayable(String),
    /// The provider does not answer, or not usefully. The hold stays.
    #[error(transparent)]
    Provider(#[from] Error),
    /// The ledger does not answer.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

impl From<NoIntent> for Refusal {
    fn from(why: NoIntent) -> Self {
        match why {
            NoIntent::Refused(why) => Self::Unpayable(why),
            NoIntent::Spent => Self::Provider(Error(why.to_string())),
            NoIntent::Unknown(error) => Self::Provider(error),
        }
    }
}

impl Cashier {
    /// Begins to pay an order, or shows the payment that is open. However
    /// many calls there are at a time, the order has one open intent.
    ///
    /// # Errors
    /// It can't be paid, or not now.
    pub async fn begin(&self, order: Order) -> Result<Begun, Refusal> {
        self.in_time(self.open(order)).await
    }

    async fn open(&self, mut order: Order) -> Result<Begun, Refusal> {
        if order.money.amount == 0 {
            return Err(Refusal::Free);
        }
        for _ in 0..TRIES {
            let now = self.clock.now();
            match order.status {
                OrderStatus::PendingPayment if now < order.pay_by => {
                    if let Some(begun) = self.next_attempt(&order, now).await? {
                        order = begun;
                        continue; // to ask for its intent
                    }
                }
                // The operator gave the order more time than its intent has.
                OrderStatus::Paying
                    if now < order.pay_by && order.pay_until.is_some_and(|end| end <= now) =>
                {
                    self.end_intent(&order, now).await?;
                }
                OrderStatus::Paying if order.deadline().is_some_and(|end| now < end) => {
                    if let Some(begun) = self.open_intent(&order).await? {
                        return Ok(begun);
                    }
                }
                OrderStatus::PendingPayment | OrderStatus::Paying | OrderStatus::Expired => {
                    return Err(Refusal::Expired);
                }
                OrderStatus::Paid => return Err(Refusal::AlreadyPaid),
                OrderStatus::Cancelled | OrderStatus::Voided => {
                    return Err(Refusal::NotPayable(order.status));
                }
            }
            let read = self.ledger.order(&order.claim).await?;
            order = read.ok_or(ledger::Error::Conflict)?;
        }
        Err(ledger::Error::Conflict.into())
    }

    /// `PENDING_PAYMENT → PAYING`, or `None` if the order changed. An intent
    /// that was declined is cancelled first: at Stripe it could be tried
    /// again, and two intents of one order could both capture.
    async fn next_attempt(&self, order: &Order, now: Timestamp) -> Result<Option<Order>, Refusal> {
        if let Some(declined) = &order.intent {
            let outcome = self.cancel(declined, &order.claim.order()).await?;
            if let CancelOutcome::AlreadySucceeded(money) = outcome {
                self.settle(order, Capture::found(declined, money)).await?;
                return Ok(None);
            }
        }
        let pay_until = order.pay_by.max(now + self.intent_life);
        Ok(self.ledger.begin_payment(order, now, pay_until).await?)
    }

    /// Ends an attempt whose intent is over, so that the next one can begin.
    async fn end_intent(&self, order: &Order, now: Timestamp) -> Result<(), Refusal> {
        let intent = match &order.intent {
            Some(bound) => bound.clone(),
            // Begun, but never bound: to be ended by its name, it needs one.
            None => self.bind(order).await?.1.id,
        };
        match self.cancel(&intent, &order.claim.order()).await? {
            CancelOutcome::Cancelled => {
                self.ledger.end_attempt(order, &intent, now).await?;
            }
            CancelOutcome::AlreadySucceeded(money) => {
                self.settle(order, Capture::found(&intent, money)).await?;
            }
        }
        Ok(())
    }

    /// The open intent of a `PAYING` order, or `None` if the order changed.
    async fn open_intent(&self, order: &Order) -> Result<Option<Begun>, Refusal> {
        let found = match &order.intent {
            Some(bound) => self.provider.intent(bound, &order.claim.order()).await?,
            None => None,
        };
        let (new, intent) = match found {
            Some(intent) => (false, intent),
            None => match self.bind(order).await? {
                (Written::Now, intent) => (true, intent),
                (Written::Before, intent) => (false, intent),
                (Written::Stale, _) => return Ok(None),
            },
        };
        match intent.status {
            IntentStatus::Open => {
                let order = Order {
                    intent: Some(intent.id.clone()),
                    ..order.clone()
                };
                return Ok(Some(Begun { new, intent, order }));
            }
            // The webhook that will tell so is on its way, or lost.
            IntentStatus::Succeeded(money) if money.amount > 0 => {
                self.settle(order, Capture::found(&intent.id, money))
                    .await?;
            }
            IntentStatus::Declined | IntentStatus::Cancelled | IntentStatus::Succeeded(_) => {
                let now = self.clock.now();
                self.ledger.end_attempt(order, &intent.id, now).await?;
            }
        }
        Ok(None)
    }

    /// Asks the provider for the intent of this attempt, always with the same
    /// key, and binds it. If there is none, the attempt ends, so that the next
    /// tap asks with another key.
    pub(super) async fn bind(&self, order: &Order) -> Result<(Written, Intent), Refusal> {
        let intent = match self.create_intent(order).await {
            Ok(intent) => intent,
            Err(NoIntent::Unknown(error)) => return Err(error.into()),
            Err(none) => {
                self.end_unmade(order, &none).await?;
                return Err(none.into());
            }
        };
        let written = self.ledger.bind_intent(order, &intent.id).await?;
        Ok((written, intent))
    }

    /// Ends an attempt that has no intent and gets none. The order as it waits
    /// then, or `None` if it changed: somebody may have bound an intent.
    ///
    /// What a failure may have left at the provider captures nothing. A secret
    /// is shown once its intent is bound, and from now on that fails.
    pub(super) async fn end_unmade(
        &self,
        order: &Order,
        why: &NoIntent,
    ) -> Result<Option<Order>, ledger::Error> {
        tracing::warn!(
            order = %order.claim.order(),
            attempt = order.attempt,
            error = %why,
            "an attempt to pay ends, since there is no intent for it"
        );
        self.ledger.end_unbound(order, self.clock.now()).await
    }

    pub(super) async fn create_intent(&self, order: &Order) -> Result<Intent, NoIntent> {
        let id = order.claim.order();
        let request = CreateIntent {
            idempotency_key: format!("{id}-{}", order.attempt),
            sale: order.claim.sale().clone(),
            order: id,
            money: order.money,
            expires_at: order.pay_until.unwrap_or(order.pay_by),
        };
        self.provider.create_intent(&request).await
    }
}
