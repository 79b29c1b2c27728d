//! Payments: attempts, intents, events of the provider, refunds.
//!
//! Two things are not as one row per order would have them:
//!
//! - **A refund is its own row**, one for an intent, ever. An order that is
//!   `PAID` can have a second capture that must go back, and an `EXPIRED`
//!   order whose money came late stays `EXPIRED`. The order's row names its
//!   newest refund (`refund_intent`), so that it can be shown.
//! - **`PENDING_PAYMENT` may become `PAID`** for the intent that was just
//!   declined: the success overtook the decline, or followed it. The money is
//!   captured and the unit is still held, so this is `PAYING → PAID` seen late.
//!
//! Events are judged by intent and transition, never by when they arrive; the
//! event's row is written in the same transaction as its effect.

use domain::order::{RefundStatus, millis};
use domain::{BucketId, ClaimId, IntentId, Money, Order, OrderId, OrderStatus, SaleId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sales::{any, wake};
use crate::table::{PartBuilder, from_item};
use crate::{Error, Item, Ledger, Reason, Transaction, key};

/// How long an event is remembered, in seconds; providers redeliver for days.
const EVENT_LIFE_S: i64 = 30 * 24 * 3600;

/// What was done with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventStatus {
    /// It changed an order, or made a refund due.
    Applied,
    /// It contradicts our own record, and nothing was captured by it.
    Mismatch,
    /// It names an order that does not exist, yet or ever.
    Parked,
}

/// An event of a provider. Ids only, no personal data; DynamoDB forgets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Whose event.
    pub provider: String,
    /// The provider's id of it.
    pub event: String,
    /// The intent it is about.
    pub intent: IntentId,
    /// The order that it names, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    /// What was done with it.
    pub status: EventStatus,
    /// When DynamoDB may delete the row, in seconds since 1970 (its TTL).
    pub expires_at: i64,
}

impl EventRow {
    /// An event that is being applied now.
    pub fn new(
        provider: &str,
        event: &str,
        intent: &IntentId,
        order: Option<&OrderId>,
        now: Timestamp,
    ) -> Self {
        Self {
            provider: provider.to_owned(),
            event: event.to_owned(),
            intent: intent.clone(),
            order_id: order.cloned(),
            status: EventStatus::Applied,
            expires_at: now.as_second() + EVENT_LIFE_S,
        }
    }
}

/// Why money goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReason {
    /// The order's hold had ended.
    Late,
    /// Another intent than the order's own.
    OtherIntent,
    /// Not the order's amount or currency.
    Mismatch,
}

/// A refund that is owed or was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The intent whose capture goes back.
    pub intent: IntentId,
    /// The order it was captured for.
    pub order_id: OrderId,
    /// Its claim.
    pub claim: ClaimId,
    /// What was captured.
    #[serde(flatten)]
    pub money: Money,
    /// Why it goes back.
    pub reason: RefundReason,
    /// Where it is.
    pub status: RefundStatus,
    /// Owed since.
    #[serde(with = "millis")]
    pub created_at: Timestamp,
    /// When the status last changed.
    #[serde(with = "millis")]
    pub changed_at: Timestamp,
}

impl Refund {
    /// A refund that is owed from now on.
    pub fn owed(
        claim: &ClaimId,
        intent: &IntentId,
        money: Money,
        reason: RefundReason,
        now: Timestamp,
    ) -> Self {
        Self {
            intent: intent.clone(),
            order_id: claim.order(),
            claim: claim.clone(),
            money,
            reason,
            status: RefundStatus::RefundPending,
            created_at: now,
            changed_at: now,
        }
    }
}

/// What became of a write that an event or an intent asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It was written.
    Now,
    /// The same was written before.
    Before,
    /// The order is not in the state that was read: read it again and decide.
    Stale,
}

/// An order with what only a reader wants to know.
#[derive(Deserialize)]
struct ShownOrder {
    #[serde(flatten)]
    order: Order,
    #[serde(default)]
    refund_intent: Option<IntentId>,
}

impl Ledger {
    /// Begins an attempt to pay: `PENDING_PAYMENT → PAYING`, while `pay_by`
    /// lies ahead and nobody else began one. `None` if that does not hold.
    ///
    /// # Errors
    /// No answer: reading the order again tells.
    pub async fn begin_payment(
        &self,
        order: &Order,
        now: Timestamp,
        pay_until: Timestamp,
    ) -> Result<Option<Order>, Error> {
        let begun = Order {
            status: OrderStatus::Paying,
            pay_until: Some(pay_until),
            intent: None,
            attempt: order.attempt + 1,
            changed_at: now,
            ..order.clone()
        };
        let mut writes = Transaction::new();
        writes
            .update(
                &key::order(&order.claim),
                "SET #status = :paying, pay_until = :until, attempt = :next, changed_at = :now \
                 REMOVE intent",
            )
            .only_if("#status = :pending AND attempt = :attempt AND pay_by > :now")
            .name("#status", "status")
            .text(":pending", OrderStatus::PendingPayment.name())
            .text(":paying", begun.status.name())
            .number(":until", pay_until.as_millisecond())
            .number(":attempt", order.attempt)
            .number(":next", begun.attempt)
            .number(":now", now.as_millisecond());
        Ok(self.table.write(&writes).await?.is_ok().then_some(begun))
    }

    /// Binds the provider's intent to the attempt that asked for it. From
    /// then on this record says which intent pays the order.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn bind_intent(&self, order: &Order, intent: &IntentId) -> Result<Written, Error> {
        let mut writes = Transaction::new();
        writes
            .update(&key::order(&order.claim), "SET intent = :intent")
            .only_if("#status = :paying AND attempt = :attempt AND attribute_not_exists(intent)")
            .name("#status", "status")
            .text(":paying", OrderStatus::Paying.name())
            .text(":intent", intent.as_str())
            .number(":attempt", order.attempt);
        let reasons = match self.table.write(&writes).await? {
            Ok(()) => return Ok(Written::Now),
            Err(reasons) => reasons,
        };
        let row = row_of(&reasons).map(from_item::<Order>).transpose()?;
        let bound = row
            .is_some_and(|row| row.attempt == order.attempt && row.intent.as_ref() == Some(intent));
        Ok(if bound {
            Written::Before
        } else {
            Written::Stale
        })
    }

    /// Ends an attempt without money: `PAYING → PENDING_PAYMENT`. `pay_by`
    /// stays as it is; if it has passed, the sweeper ends the hold.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn end_attempt(
        &self,
        order: &Order,
        intent: &IntentId,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        end_of_attempt(&mut writes, &order.claim, "intent = :intent", now)
            .text(":intent", intent.as_str());
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// Ends an attempt to which no intent is bound, and none will be: `PAYING →
    /// PENDING_PAYMENT`. `None` if one is, or the attempt is over.
    ///
    /// # Errors
    /// No answer: reading the order again tells.
    pub async fn end_unbound(&self, order: &Order, now: Timestamp) -> Result<Option<Order>, Error> {
        let ended = Order {
            status: OrderStatus::PendingPayment,
            pay_until: None,
            changed_at: now,
            ..order.clone()
        };
        let mut writes = Transaction::new();
        let unbound = "attempt = :attempt AND attribute_not_exists(intent)";
        end_of_attempt(&mut writes, &order.claim, unbound, now).number(":attempt", order.attempt);
        Ok(self.table.write(&writes).await?.is_ok().then_some(ended))
    }

    /// Marks an order as paid by the intent that is bound to it, together
    /// with the event that says so.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn pay(
        &self,
        order: &Order,
        intent: &IntentId,
        event: Option<&EventRow>,
        now: Timestamp,
    ) -> Result<Written, Error> {
        let mut writes = Transaction::new();
        writes
            .update(
                &key::order(&order.claim),
                "SET #status = :paid, changed_at = :now",
            )
            .only_if("intent = :intent AND (#status = :paying OR #status = :pending)")
            .name("#status", "status")
            .text(":paid", OrderStatus::Paid.name())
            .text(":paying", OrderStatus::Paying.name())
            .text(":pending", OrderStatus::PendingPayment.name())
            .text(":intent", intent.as_str())
            .number(":now", now.as_millisecond());
        if let Some(event) = event {
            put_event(&mut writes, event)?;
        }
        Ok(match self.table.write(&writes).await? {
            Ok(()) => Written::Now,
            Err(reasons) if failed(&reasons, 1) => Written::Before,
            Err(_) => Written::Stale,
        })
    }

    /// Marks an order as paid that costs nothing: `PENDING_PAYMENT → PAID`
    /// while `pay_by` lies ahead. Whether this call did.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn confirm_free(&self, order: &Order, now: Timestamp) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        writes
            .update(
                &key::order(&order.claim),
                "SET #status = :paid, changed_at = :now",
            )
            .only_if("#status = :pending AND pay_by > :now AND amount = :nothing")
            .name("#status", "status")
            .text(":paid", OrderStatus::Paid.name())
            .text(":pending", OrderStatus::PendingPayment.name())
            .number(":nothing", 0)
            .number(":now", now.as_millisecond());
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// Notes that a capture must go back, once for an intent, together with
    /// the event that told of it. The decision holds only for the order as it
    /// was read. If the order could still be paid by that very intent, it no
    /// longer can: it waits for another attempt.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn owe_refund(
        &self,
        order: &Order,
        refund: &Refund,
        event: Option<&EventRow>,
    ) -> Result<Written, Error> {
        let mut writes = Transaction::new();
        writes
            .put(&key::refund(&refund.claim, &refund.intent), refund)?
            .only_new();
        let payable = matches!(
            order.status,
            OrderStatus::Paying | OrderStatus::PendingPayment
        );
        let bound = order.intent.as_ref() == Some(&refund.intent);
        let (change, status) = if payable && bound {
            (
                "SET refund_intent = :refunded, #status = :status REMOVE intent, pay_until",
                OrderStatus::PendingPayment,
            )
        } else {
            (
                "SET refund_intent = :refunded, #status = :status",
                order.status,
            )
        };
        let part = writes
            .update(&key::order(&order.claim), change)
            .name("#status", "status")
            .text(":refunded", refund.intent.as_str())
            .text(":status", status.name())
            .text(":read", order.status.name())
            .number(":attempt", order.attempt);
        match &order.intent {
            Some(intent) => part
                .only_if("#status = :read AND attempt = :attempt AND intent = :intent")
                .text(":intent", intent.as_str()),
            None => part
                .only_if("#status = :read AND attempt = :attempt AND attribute_not_exists(intent)"),
        };
        if let Some(event) = event {
            put_event(&mut writes, event)?;
        }
        wake(&mut writes, refund.claim.sale());
        Ok(match self.table.write(&writes).await? {
            Ok(()) => Written::Now,
            Err(reasons) if failed(&reasons, 0) || failed(&reasons, 2) => Written::Before,
            Err(_) => Written::Stale,
        })
    }

    /// Notes that the provider confirmed a refund. Whether this call did.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn refunded(
        &self,
        claim: &ClaimId,
        intent: &IntentId,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        turn_refund(
            &mut writes,
            &key::refund(claim, intent),
            [RefundStatus::RefundPending, RefundStatus::Refunded],
            now,
        );
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// Notes that a refund that was confirmed did not get through after all:
    /// it is owed again. Whether this call did.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn refund_failed(
        &self,
        claim: &ClaimId,
        intent: &IntentId,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        turn_refund(
            &mut writes,
            &key::refund(claim, intent),
            [RefundStatus::Refunded, RefundStatus::RefundPending],
            now,
        );
        // Whoever watches the sale for what is owed may have stopped.
        wake(&mut writes, claim.sale());
        Ok(self.table.write(&writes).await?.is_ok())
    }

    /// Every refund of a bucket, owed and made.
    ///
    /// # Errors
    /// No answer.
    pub async fn refunds(&self, sale: &SaleId, bucket: BucketId) -> Result<Vec<Refund>, Error> {
        let rows = self
            .table
            .query(&key::refunds_partition(sale, bucket), "")
            .await?;
        rows.into_iter().map(from_item).collect()
    }

    /// The refund of an intent, if one is owed or was made.
    ///
    /// # Errors
    /// No answer.
    pub async fn refund(
        &self,
        claim: &ClaimId,
        intent: &IntentId,
    ) -> Result<Option<Refund>, Error> {
        self.table.get(&key::refund(claim, intent)).await
    }

    /// Whether a refund of the sale is owed and not confirmed.
    ///
    /// # Errors
    /// No answer.
    pub async fn owes_refunds(&self, sale: &SaleId, buckets: u16) -> Result<bool, Error> {
        let owed = (0..buckets).map(BucketId).map(|bucket| async move {
            let refunds = self.refunds(sale, bucket).await?;
            let mut pending = refunds.iter().map(|refund| refund.status);
            Ok(pending.any(|status| status == RefundStatus::RefundPending))
        });
        any(owed).await
    }

    /// An order and its newest refund, to be shown.
    ///
    /// # Errors
    /// No answer.
    pub async fn order_with_refund(
        &self,
        claim: &ClaimId,
    ) -> Result<Option<(Order, Option<Refund>)>, Error> {
        let row: Option<ShownOrder> = self.table.get(&key::order(claim)).await?;
        let Some(ShownOrder {
            order,
            refund_intent,
        }) = row
        else {
            return Ok(None);
        };
        let refund = match refund_intent {
            Some(intent) => self.refund(claim, &intent).await?,
            None => None,
        };
        Ok(Some((order, refund)))
    }

    /// An event that was seen before.
    ///
    /// # Errors
    /// No answer.
    pub async fn event(&self, provider: &str, event: &str) -> Result<Option<EventRow>, Error> {
        self.table.get(&key::event(provider, event)).await
    }

    /// Keeps an event that changes no row. One that was parked may be applied
    /// later, when its order exists. Whether this call kept it.
    ///
    /// # Errors
    /// No answer: doing it again is safe.
    pub async fn keep_event(&self, event: &EventRow, status: EventStatus) -> Result<bool, Error> {
        let kept = EventRow {
            status,
            ..event.clone()
        };
        let mut writes = Transaction::new();
        if status == EventStatus::Parked {
            writes
                .put(&key::event(&kept.provider, &kept.event), &kept)?
                .only_new();
        } else {
            put_event(&mut writes, &kept)?;
        }
        Ok(self.table.write(&writes).await?.is_ok())
    }
}

/// Adds `PAYING → PENDING_PAYMENT`, while this attempt is the one that is open.
fn end_of_attempt<'a>(
    writes: &'a mut Transaction,
    claim: &ClaimId,
    this_attempt: &str,
    now: Timestamp,
) -> PartBuilder<'a> {
    writes
        .update(
            &key::order(claim),
            "SET #status = :pending, changed_at = :now REMOVE pay_until",
        )
        .only_if(&format!("#status = :paying AND {this_attempt}"))
        .name("#status", "status")
        .text(":paying", OrderStatus::Paying.name())
        .text(":pending", OrderStatus::PendingPayment.name())
        .number(":now", now.as_millisecond())
}

/// Adds the event's row, unless the event was dealt with before.
fn put_event(writes: &mut Transaction, event: &EventRow) -> Result<(), Error> {
    writes
        .put(&key::event(&event.provider, &event.event), event)?
        .only_if("attribute_not_exists(pk) OR #status = :parked")
        .name("#status", "status")
        .text(":parked", "PARKED");
    Ok(())
}

/// Adds the change of a refund from one status to another.
fn turn_refund(
    writes: &mut Transaction,
    refund: &key::Key,
    [from, to]: [RefundStatus; 2],
    now: Timestamp,
) {
    writes
        .update(refund, "SET #status = :to, changed_at = :now")
        .only_if("#status = :from")
        .name("#status", "status")
        .text(":from", from.name())
        .text(":to", to.name())
        .number(":now", now.as_millisecond());
}

fn failed(reasons: &[Reason], part: usize) -> bool {
    matches!(reasons.get(part), Some(Reason::Condition(_)))
}

fn row_of(reasons: &[Reason]) -> Option<Item> {
    match reasons.first() {
        Some(Reason::Condition(Some(row))) => Some(row.clone()),
        _ => None,
    }
}
