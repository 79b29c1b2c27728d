//! The report: where every unit and every claim is, and every payment.

use std::collections::HashSet;

use api::{Call, Problem, Reply};
use domain::{BucketId, Order, OrderStatus, Sale};
use futures::{TryStreamExt, stream};
use jiff::Timestamp;
use ledger::orders::WholeBucket;
use reconcile::report::{Kept, Mismatch};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{AdminFunction, CONCURRENCY, view};

/// Units of one bucket, or of all of them, by where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Units {
    /// That exist.
    capacity: u32,
    /// That the ledger has given away.
    allotted: u32,
    /// That can be claimed, by the gate.
    free: u64,
    /// Claimed, and the order is not written yet.
    in_flight: u32,
    /// Waiting for payment.
    held: u32,
    /// At the provider.
    paying: u32,
    /// Sold.
    paid: u32,
    /// Released in the ledger, and not returned at the gate yet.
    returning: u32,
    /// Orders that expired, were given back or voided: not units.
    expired: u32,
    cancelled: u32,
    voided: u32,
}

impl AdminFunction {
    /// The whole sale, or with `?bucket=` every order and payment of one.
    pub(crate) async fn report(&self, call: &Call) -> Result<Reply, Problem> {
        let mut query = call.query()?;
        let sale = self.sale(&call.sale()?).await?;
        let last = sale.config.buckets - 1;
        let bucket = query.digits("bucket", 0..=last.into());
        query.finish().map_err(Problem::fields)?;
        match bucket {
            None => self.summary(&sale).await,
            Some(bucket) => self.bucket_report(&sale, BucketId(bucket as u16)).await,
        }
    }

    async fn summary(&self, sale: &Sale) -> Result<Reply, Problem> {
        let gates = self.ledger.gates(&sale.id).await?.unwrap_or_default();
        let looks: Vec<_> = gates
            .iter()
            .map(|(bucket, address)| Ok((bucket, address.tag.clone())))
            .collect();
        let mut buckets: Vec<(BucketId, Units)> = stream::iter::<Vec<Result<_, Problem>>>(looks)
            .map_ok(|(bucket, tag)| async move {
                // The gate first: what it holds is in the ledger by the time
                // that is read, or still on its way.
                let (view, holds) = self.gate.holds(&tag).await?;
                let whole = self.ledger.whole_bucket(&sale.id, bucket).await?;
                Ok((bucket, count(view.left, &holds, &whole)))
            })
            .try_buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        buckets.sort_by_key(|(bucket, _)| *bucket);
        let total = buckets
            .iter()
            .fold(Units::default(), |sum, (_, units)| sum.plus(units));
        let rounds = self.ledger.rounds(&sale.id).await?;
        let mut report = json!(total);
        report["sale"] = view::sale(sale);
        report["units"] = total.capacity.into();
        report["buckets"] = buckets
            .iter()
            .map(|(bucket, units)| {
                let mut line = json!(units);
                line["bucket"] = bucket.0.into();
                line
            })
            .collect();
        report["rounds"] = rounds
            .iter()
            .map(|round| {
                let mut line = json!(round);
                line["at"] = shown(sale, round.at).into();
                line
            })
            .collect();
        let kept = Kept::of(&self.ledger, &sale.id).await?;
        report["reconciliation"] = kept.map_or(Value::Null, |kept| reconciliation(sale, &kept));
        Reply::ok(&report)
    }

    async fn bucket_report(&self, sale: &Sale, bucket: BucketId) -> Result<Reply, Problem> {
        if self.ledger.bucket(&sale.id, bucket).await?.is_none() {
            // A creation or a change that stopped half-way.
            return Err(Problem::not_found().detail("The bucket is not loaded yet."));
        }
        let whole = self.ledger.whole_bucket(&sale.id, bucket).await?;
        let refunds = self.ledger.refunds(&sale.id, bucket).await?;
        let payments = self
            .provider
            .list(&sale.id, bucket, sale.config.opens_at.at)
            .await?;
        let payments: Vec<Value> = payments
            .iter()
            .map(|payment| {
                json!({
                    "intent": payment.intent,
                    "order_id": payment.order,
                    "amount": payment.captured.amount,
                    "currency": payment.captured.currency,
                    "status": "succeeded",
                    "captured_at": shown(sale, payment.captured_at),
                    "refunded": payment.refunded.is_some(),
                    "refund_amount": payment.refunded.map_or(0, |money| money.amount),
                })
            })
            .collect();
        let refunds: Vec<Value> = refunds
            .iter()
            .map(|refund| {
                json!({
                    "intent": refund.intent,
                    "order_id": refund.order_id,
                    "amount": refund.money.amount,
                    "currency": refund.money.currency,
                    "reason": refund.reason,
                    "status": refund.status,
                    "changed_at": shown(sale, refund.changed_at),
                })
            })
            .collect();
        let orders: Vec<Value> = whole.orders.iter().map(|order| line(sale, order)).collect();
        Reply::ok(&json!({
            "sale_id": sale.id, "bucket": bucket.0,
            "capacity": whole.bucket.capacity, "allotted": whole.bucket.allotted,
            "epoch": whole.bucket.epoch,
            "orders": orders, "payments": payments, "refunds": refunds,
        }))
    }
}

/// The newest reconciliation as the merchant reads it, and what was put right
/// so far.
fn reconciliation(sale: &Sale, kept: &Kept) -> Value {
    let newest = &kept.newest;
    let log = kept.log.iter().map(|one| {
        let mut line = mismatch(&one.mismatch);
        line["at"] = shown(sale, one.at).into();
        line
    });
    json!({
        "at": shown(sale, newest.at),
        "closed": newest.closed,
        "complete": newest.complete,
        "compared": newest.compared,
        "agrees": newest.complete && newest.found == 0,
        "counts": newest.counts,
        "found": newest.found,
        "mismatches": newest.mismatches.iter().map(mismatch).collect::<Vec<_>>(),
        "corrected": log.collect::<Vec<_>>(),
    })
}

fn mismatch(one: &Mismatch) -> Value {
    json!({
        "kind": one.kind,
        "bucket": one.bucket,
        "about": one.about,
        "expected": one.expected,
        "found": one.found,
        "done": one.done,
    })
}

fn shown(sale: &Sale, at: Timestamp) -> String {
    sale.config.opens_at.same_offset(at).to_string()
}

fn line(sale: &Sale, order: &Order) -> Value {
    let mut line = json!({
        "claim_id": order.claim,
        "order_id": order.claim.order(),
        "shopper": order.shopper,
        "quantity": order.quantity,
        "amount": order.money.amount,
        "currency": order.money.currency,
        "status": order.status,
        "pay_by": shown(sale, order.pay_by),
        "claimed_at": shown(sale, order.claimed_at),
        "changed_at": shown(sale, order.changed_at),
    });
    if let Some(pay_until) = order.pay_until {
        line["pay_until"] = shown(sale, pay_until).into();
    }
    if let Some(intent) = &order.intent {
        line["intent"] = json!(intent);
    }
    if let Some(reason) = order.void_reason {
        line["void_reason"] = json!(reason);
    }
    line
}

fn count(free: u64, holds: &[gate::Hold], whole: &WholeBucket) -> Units {
    let bucket = &whole.bucket;
    let mut units = Units {
        capacity: bucket.capacity,
        allotted: bucket.allotted,
        free,
        ..Units::default()
    };
    let known: HashSet<_> = whole.orders.iter().map(|order| &order.claim).collect();
    let in_flight = holds.iter().filter(|hold| !known.contains(&hold.claim));
    units.in_flight = in_flight.map(|hold| hold.taken_here).sum();
    for order in &whole.orders {
        let at = match order.status {
            OrderStatus::PendingPayment => &mut units.held,
            OrderStatus::Paying => &mut units.paying,
            OrderStatus::Paid => &mut units.paid,
            OrderStatus::Expired => &mut units.expired,
            OrderStatus::Cancelled => &mut units.cancelled,
            OrderStatus::Voided => &mut units.voided,
        };
        *at += order.quantity;
        let returns = order
            .void_reason
            .is_none_or(|reason| reason.returns_units());
        if !order.status.holds_units() && returns {
            let still = holds.iter().find(|hold| hold.claim == order.claim);
            units.returning += still.map_or(0, |hold| hold.taken_here);
        }
    }
    units
}

impl Units {
    fn plus(self, other: &Self) -> Self {
        Self {
            capacity: self.capacity + other.capacity,
            allotted: self.allotted + other.allotted,
            free: self.free + other.free,
            in_flight: self.in_flight + other.in_flight,
            held: self.held + other.held,
            paying: self.paying + other.paying,
            paid: self.paid + other.paid,
            returning: self.returning + other.returning,
            expired: self.expired + other.expired,
            cancelled: self.cancelled + other.cancelled,
            voided: self.voided + other.voided,
        }
    }
}
