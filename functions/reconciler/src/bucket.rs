//! One bucket: its gate, its row, its orders, and their money.

use std::collections::HashMap;

use domain::slot::GateAddress;
use domain::{BucketId, ClaimId, Order, OrderStatus, Sale, ShopperId};
use gate::Hold;
use gate::upkeep::Correction;
use jiff::{SignedDuration, Timestamp};
use ledger::Error;
use ledger::orders::WholeBucket;
use payment::ProviderPayment;
use reconcile::compare::{At, Error as Uncompared, Finding, Follow, Seen, overdue};
use reconcile::money::{self, CaptureLine, OrderLine, RefundLine};
use reconcile::report::{Counts, Done, Kind, Mismatch};

use crate::ReconcilerFunction;

/// What the sweeper ends within seconds is wrong after this.
pub(crate) const LATE: SignedDuration = SignedDuration::from_secs(60);

/// What the whole sale's rules need of an order.
#[derive(Debug, Clone)]
pub(crate) struct Slim {
    pub(crate) claim: ClaimId,
    pub(crate) shopper: ShopperId,
    pub(crate) quantity: u32,
    pub(crate) status: OrderStatus,
}

/// A record of a gate.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    /// It has a deadline.
    pub(crate) due: bool,
}

/// What was read of a bucket, and what does not agree in it.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) bucket: BucketId,
    pub(crate) counts: Counts,
    pub(crate) mismatches: Vec<Mismatch>,
    /// The gate answered, open or not.
    pub(crate) answered: bool,
    /// The gate was open, and compared.
    pub(crate) compared: bool,
    /// So was the money.
    pub(crate) complete: bool,
    pub(crate) orders: Vec<Slim>,
    pub(crate) holds: Vec<Held>,
}

impl ReconcilerFunction {
    pub(crate) async fn bucket(
        &self,
        sale: &Sale,
        bucket: BucketId,
        address: &GateAddress,
        resizing: bool,
    ) -> Result<Looked, Error> {
        let open = self.gate.is_open(address).await;
        let answered = open.is_ok();
        let seen = match open {
            Ok(true) => {
                let (gate, ledger) = (&self.gate, &self.ledger);
                match Seen::read(gate, ledger, &sale.id, bucket, &address.tag).await {
                    // A life that was closed is not believed.
                    Ok(seen) => Some(seen).filter(|of| of.whole.bucket.closed < address.epoch),
                    Err(Uncompared::Ledger(error)) => return Err(error),
                    Err(Uncompared::Gate(_)) => None,
                }
            }
            _ => None,
        };
        let mut mismatches = Vec::new();
        let mut counts = Counts::default();
        let mut compared = false;
        if let Some(seen) = &seen {
            let at = At {
                sale: &sale.id,
                bucket,
                tag: &address.tag,
                resizing,
            };
            counts = of_gate(seen);
            match self
                .correct(seen, at, sale.pay_by_min, &mut mismatches)
                .await
            {
                Ok(()) => compared = true,
                Err(error) => tracing::warn!(sale = %sale.id, %bucket, %error,
                    "a gate was not compared to its end"),
            }
        }
        let (whole, holds) = match seen {
            Some(Seen { gate, whole }) => (whole, held(gate.due, gate.rest)),
            None => (
                self.ledger.whole_bucket(&sale.id, bucket).await?,
                Vec::new(),
            ),
        };
        counts += of_ledger(&whole);
        let now = self.clock.now();
        mismatches.extend(rows(bucket, &whole, sale.pay_by_min, now));
        let complete = self
            .money(sale, bucket, &whole.orders, &mut mismatches)
            .await?;
        let orders = whole.orders.into_iter().map(|order| Slim {
            claim: order.claim,
            shopper: order.shopper,
            quantity: order.quantity,
            status: order.status,
        });
        Ok(Looked {
            bucket,
            counts,
            mismatches,
            answered,
            compared,
            complete,
            orders: orders.collect(),
            holds,
        })
    }

    /// Has the gate follow what ended, and corrects its counter.
    async fn correct(
        &self,
        seen: &Seen,
        at: At<'_>,
        floor: Option<Timestamp>,
        mismatches: &mut Vec<Mismatch>,
    ) -> Result<(), gate::Error> {
        let now = self.clock.now();
        match seen.find(floor, now) {
            Finding::Unfollowed(ended) => {
                for order in ended {
                    let claim = &order.claim;
                    match Follow::of(&order) {
                        Follow::Nothing => continue,
                        Follow::Settle => self.gate.settle(at.tag, claim).await?,
                        // Whoever was first: it is ended.
                        Follow::Release(how) => {
                            self.gate.release(at.tag, claim, how).await?;
                        }
                    }
                    let kind = Kind::HoldNotEnded;
                    mismatches.push(Mismatch::of(kind, at.bucket, claim, Done::Corrected));
                }
            }
            // What is overdue is the sweeper's to end; told if it does not.
            Finding::Counted { gap, .. } => {
                let correction = seen.correct(&self.gate, at, gap, now).await?;
                let (kind, done) = match correction {
                    Some(Correction::Lowered) => (Kind::GateHigh, Done::Corrected),
                    Some(Correction::Raised) => (Kind::GateLow, Done::Corrected),
                    Some(Correction::Noted) => (Kind::GateLow, Done::Noted),
                    Some(Correction::Agrees | Correction::Moved) | None => return Ok(()),
                };
                let found = seen.gate.view.left as i64;
                mismatches.push(Mismatch {
                    kind,
                    bucket: Some(at.bucket),
                    about: None,
                    expected: found - gap,
                    found,
                    done,
                });
            }
        }
        Ok(())
    }

    /// Refunds of the ledger and captures of the provider. Whether the provider
    /// answered.
    async fn money(
        &self,
        sale: &Sale,
        bucket: BucketId,
        orders: &[Order],
        mismatches: &mut Vec<Mismatch>,
    ) -> Result<bool, Error> {
        // After the orders: what paid one of them was captured before.
        let since = sale.config.opens_at.at;
        let captures = self.provider.list(&sale.id, bucket, since).await;
        let refunds = self.ledger.refunds(&sale.id, bucket).await?;
        let refunds: Vec<_> = refunds.iter().map(RefundLine::from).collect();
        let now = self.clock.now();
        let mut found = money::overdue(&refunds, now);
        let answered = match captures {
            Ok(captures) => {
                let orders: Vec<_> = orders.iter().map(OrderLine::from).collect();
                let captures: Vec<_> = captures.into_iter().map(line).collect();
                found.extend(money::compare(&orders, &refunds, &captures, now));
                true
            }
            Err(error) => {
                tracing::warn!(sale = %sale.id, %bucket, %error,
                    "the provider's books can't be read");
                false
            }
        };
        mismatches.extend(found.iter().map(|one| one.mismatch(bucket)));
        Ok(answered)
    }
}

fn line(payment: ProviderPayment) -> CaptureLine {
    CaptureLine {
        intent: payment.intent,
        order_id: payment.order,
        money: payment.captured,
        captured_at: payment.captured_at,
        refund_amount: payment.refunded.map_or(0, |money| money.amount),
    }
}

fn held(due: Vec<Hold>, rest: Vec<Hold>) -> Vec<Held> {
    let due = due.into_iter().map(|hold| Held { hold, due: true });
    let rest = rest.into_iter().map(|hold| Held { hold, due: false });
    due.chain(rest).collect()
}

fn of_gate(seen: &Seen) -> Counts {
    let orders: HashMap<_, _> = seen.whole.orders.iter().map(|of| (&of.claim, of)).collect();
    let new = seen
        .gate
        .due
        .iter()
        .filter(|hold| !orders.contains_key(&hold.claim));
    let in_flight = new.map(|hold| u64::from(hold.taken_here)).sum();
    Counts {
        free: seen.gate.view.left,
        in_flight,
        returning: u64::from(seen.on_their_way()) - in_flight,
        ..Counts::default()
    }
}

fn of_ledger(whole: &WholeBucket) -> Counts {
    let mut counts = Counts {
        capacity: whole.bucket.capacity.into(),
        allotted: whole.bucket.allotted.into(),
        spare: whole.bucket.spare.into(),
        ..Counts::default()
    };
    for order in &whole.orders {
        let at = match order.status {
            OrderStatus::PendingPayment => &mut counts.held,
            OrderStatus::Paying => &mut counts.paying,
            OrderStatus::Paid => &mut counts.paid,
            OrderStatus::Expired => &mut counts.expired,
            OrderStatus::Cancelled => &mut counts.cancelled,
            OrderStatus::Voided => &mut counts.voided,
        };
        *at += u64::from(order.quantity);
    }
    counts
}

/// A bucket's row against its orders, and orders against the clock.
fn rows(
    bucket: BucketId,
    whole: &WholeBucket,
    floor: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Mismatch> {
    let row = &whole.bucket;
    let live = whole.orders.iter().filter(|of| of.status.holds_units());
    let live: i64 = live.map(|order| i64::from(order.quantity)).sum();
    let (capacity, allotted) = (i64::from(row.capacity), i64::from(row.allotted));
    let sums = [
        (Kind::AllottedWrong, live, allotted),
        (Kind::SpareWrong, capacity - allotted, i64::from(row.spare)),
    ];
    let wrong = sums
        .into_iter()
        .filter(|(_, expected, found)| expected != found);
    let wrong = wrong.map(|(kind, expected, found)| Mismatch {
        kind,
        bucket: Some(bucket),
        about: None,
        expected,
        found,
        done: Done::NeedsPerson,
    });
    let late = overdue(whole, floor, now - LATE);
    let late = late
        .iter()
        .map(|order| Mismatch::of(Kind::OrderOverdue, bucket, &order.claim, Done::NeedsPerson));
    wrong.chain(late).collect()
}
