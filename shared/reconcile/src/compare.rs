//! One bucket: its gate against its rows. The ledger is right.

use std::collections::{HashMap, HashSet};

use domain::order::VoidReason;
use domain::{BucketId, ClaimId, Order, OrderStatus, SaleId};
use gate::upkeep::{Correction, Records};
use gate::{Gate, Hold, Release};
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use ledger::orders::WholeBucket;

/// What is so long past its time should have been seen to by now.
pub const OVERDUE: SignedDuration = SignedDuration::from_secs(3);

/// What ends a comparison.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gate.
    #[error(transparent)]
    Gate(#[from] gate::Error),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

/// A bucket, on both sides.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What its gate knows.
    pub gate: Records,
    /// Its rows.
    pub whole: WholeBucket,
}

/// What a comparison finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Orders that ended a while ago, and the gate did not follow: who ended
    /// them stopped in between. Counters are judged once it has.
    Unfollowed(Vec<Order>),
    /// The gate follows: then its counter can be judged.
    Counted {
        /// Orders whose time was over a while ago, and nobody ended them. On
        /// both sides they hold their units.
        overdue: Vec<Order>,
        /// Units by which the gate has more (or, below zero, fewer) than it must.
        gap: i64,
    },
}

/// A bucket whose counter may be corrected.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// Of which sale.
    pub sale: &'a SaleId,
    /// Which bucket.
    pub bucket: BucketId,
    /// Hash tag of its gate.
    pub tag: &'a str,
    /// Its units are being changed: what the gate gave up, the ledger gives up
    /// in a moment.
    pub resizing: bool,
}

/// What the gate has to do for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Nothing: it is live, its deadline stays.
    Nothing,
    /// Drop the deadline: it is paid.
    Settle,
    /// End the hold.
    Release(Release),
}

impl Follow {
    /// What follows from an order as it stands.
    pub fn of(order: &Order) -> Self {
        match (order.status, order.void_reason) {
            (OrderStatus::Expired | OrderStatus::Cancelled, _) => Self::Release(Release::Lapsed),
            (OrderStatus::Voided, Some(reason)) if reason.returns_units() => {
                Self::Release(Release::Voided)
            }
            (OrderStatus::Voided, _) => Self::Release(Release::Forget),
            (OrderStatus::Paid, _) => Self::Settle,
            (OrderStatus::PendingPayment | OrderStatus::Paying, _) => Self::Nothing,
        }
    }
}

impl Seen {
    /// Reads the gate first: what it holds is in the ledger by the time that is
    /// read, or it is still on its way.
    ///
    /// # Errors
    /// No answer, or the gate is not loaded.
    pub async fn read(
        gate: &Gate,
        ledger: &Ledger,
        sale: &SaleId,
        bucket: BucketId,
        tag: &str,
    ) -> Result<Self, Error> {
        Ok(Self {
            gate: gate.records(tag).await?,
            whole: ledger.whole_bucket(sale, bucket).await?,
        })
    }

    /// Units that the ledger has to spare and the gate must not show as free:
    /// what the gate has taken and the ledger does not know yet, and what the
    /// ledger has released and the gate has not given back yet.
    pub fn on_their_way(&self) -> u32 {
        let orders: HashMap<&ClaimId, &Order> = self
            .whole
            .orders
            .iter()
            .map(|order| (&order.claim, order))
            .collect();
        let holds = self.gate.due.iter();
        holds
            .filter(|hold| match orders.get(&hold.claim) {
                None => true,
                Some(order) => match order.status {
                    OrderStatus::Expired | OrderStatus::Cancelled => true,
                    OrderStatus::Voided => order.void_reason.is_some_and(VoidReason::returns_units),
                    _ => false,
                },
            })
            .map(|hold| hold.taken_here)
            .sum()
    }

    /// Whether the row counts the live orders beside it. If not, they were read at two
    /// moments, since a query is no snapshot of what a transaction writes; or the row
    /// is wrong, and a person must see to it. No counter is judged by such a row.
    fn row_agrees(&self) -> bool {
        let orders = self.whole.orders.iter();
        let live = orders.filter(|order| order.status.holds_units());
        let held: u32 = live.map(|order| order.quantity).sum();
        held == self.whole.bucket.allotted
    }

    /// What is to be done about this bucket. `floor`: no hold ends before.
    pub fn find(&self, floor: Option<Timestamp>, now: Timestamp) -> Finding {
        let before = now - OVERDUE;
        let held: HashSet<&ClaimId> = self.gate.due.iter().map(claim_of).collect();
        let ended = self.whole.orders.iter().filter(|order| {
            order.deadline().is_none() && order.changed_at < before && held.contains(&order.claim)
        });
        let ended: Vec<Order> = ended.cloned().collect();
        if !ended.is_empty() {
            return Finding::Unfollowed(ended);
        }
        let spare = i64::from(self.whole.bucket.spare) - i64::from(self.on_their_way());
        Finding::Counted {
            overdue: overdue(&self.whole, floor, before),
            gap: i64::try_from(self.gate.view.left).unwrap_or(i64::MAX) - spare,
        }
    }

    /// Corrects the counter by a gap that was found: too high at once, too low
    /// when the same gap is found twice, two seconds apart. `None`: not now.
    ///
    /// # Errors
    /// The gate does not answer.
    pub async fn correct(
        &self,
        gate: &Gate,
        at: At<'_>,
        gap: i64,
        now: Timestamp,
    ) -> Result<Option<Correction>, gate::Error> {
        if !self.row_agrees() || (gap < 0 && at.resizing) {
            return Ok(None);
        }
        let correction = gate.correct(at.tag, &self.gate.view, gap, now).await?;
        let At { sale, bucket, .. } = at;
        match correction {
            Correction::Lowered => {
                tracing::error!(%sale, %bucket, gap, "the gate held too many units and was lowered");
            }
            Correction::Raised => {
                tracing::error!(%sale, %bucket, gap, "the gate held too few units and was raised");
            }
            Correction::Noted => {
                tracing::warn!(%sale, %bucket, gap, "the gate holds too few units");
            }
            // Of a gate that moved meanwhile nothing can be said.
            Correction::Moved => return Ok(None),
            Correction::Agrees => {}
        }
        Ok(Some(correction))
    }
}

fn claim_of(hold: &Hold) -> &ClaimId {
    &hold.claim
}

/// Live orders whose deadline, under the operator's `floor`, lies before this.
pub fn overdue(whole: &WholeBucket, floor: Option<Timestamp>, before: Timestamp) -> Vec<Order> {
    let over = |order: &&Order| {
        let deadline = order.deadline();
        deadline.is_some_and(|deadline| Some(deadline).max(floor) < Some(before))
    };
    whole.orders.iter().filter(over).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::upkeep::View;
    use ledger::orders::Bucket;

    fn hold(n: u32) -> Hold {
        let claim = format!("cl_s_000_{n:032x}").parse().unwrap();
        Hold {
            claim,
            quantity: 1,
            taken_here: 1,
            turn: 0,
            pay_by: Timestamp::UNIX_EPOCH,
            shopper: "u".parse().unwrap(),
        }
    }

    fn order(hold: &Hold, status: OrderStatus, void_reason: Option<VoidReason>) -> Order {
        Order {
            claim: hold.claim.clone(),
            shopper: hold.shopper.clone(),
            quantity: 1,
            money: domain::Money {
                amount: 1,
                currency: "INR".parse().unwrap(),
            },
            status,
            pay_by: hold.pay_by,
            pay_until: None,
            intent: None,
            attempt: 0,
            claimed_at: hold.pay_by,
            changed_at: hold.pay_by,
            void_reason,
        }
    }

    fn seen(left: u64, due: &[Hold], orders: Vec<Order>) -> Seen {
        let live = orders.iter().filter(|order| order.status.holds_units());
        let allotted = live.count() as u32;
        let bucket = Bucket {
            allotted,
            spare: 10 - allotted,
            ..Bucket::new(10, 1)
        };
        let view = View {
            left,
            ..View::default()
        };
        Seen {
            gate: Records {
                view,
                due: due.to_vec(),
                rest: Vec::new(),
            },
            whole: WholeBucket { bucket, orders },
        }
    }

    /// Nothing is overdue.
    fn gap(gap: i64) -> Finding {
        let overdue = Vec::new();
        Finding::Counted { overdue, gap }
    }

    /// Just after everything that is in the tests: nothing is overdue yet.
    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn what_is_on_its_way_is_no_gap() {
        let holds: Vec<Hold> = (0..6).map(hold).collect();
        let orders = vec![
            order(&holds[0], OrderStatus::PendingPayment, None),
            order(&holds[1], OrderStatus::Paying, None),
            order(&holds[2], OrderStatus::Expired, None),
            order(&holds[3], OrderStatus::Voided, Some(VoidReason::Limit)),
            // The unit never existed: it neither was taken off nor returns.
            order(&holds[4], OrderStatus::Voided, Some(VoidReason::Cap)),
        ];
        // holds[5] has no order yet.
        let seen = seen(5, &holds, orders);
        assert_eq!(seen.on_their_way(), 3);
        assert_eq!(seen.find(None, NOW), gap(0));
    }

    #[test]
    fn a_gap_is_gate_minus_ledger() {
        let holds = [hold(0)];
        let orders = vec![order(&holds[0], OrderStatus::PendingPayment, None)];
        assert_eq!(seen(11, &holds, orders.clone()).find(None, NOW), gap(2));
        assert_eq!(seen(7, &holds, orders).find(None, NOW), gap(-2));
    }

    #[test]
    fn counters_are_not_judged_while_orders_wait_for_the_gate() {
        let holds = [hold(0), hold(1)];
        let paid = order(&holds[0], OrderStatus::Paid, None);
        let late = order(&holds[1], OrderStatus::PendingPayment, None);
        let later = NOW + OVERDUE + SignedDuration::from_millis(1);
        let both = seen(0, &holds, vec![paid.clone(), late.clone()]);
        assert_eq!(both.find(None, later), Finding::Unfollowed(vec![paid]));
        let one = seen(0, &holds, vec![late.clone()]);
        let overdue = Finding::Counted {
            overdue: vec![late],
            gap: -8,
        };
        assert_eq!(one.find(None, later), overdue);
        // An operator gave more time.
        assert_eq!(one.find(Some(later), later), gap(-8));
    }

    #[test]
    fn the_gate_follows_what_an_order_came_to() {
        use VoidReason::{Cap, Forgotten, Limit, NoOrder, Repeated};
        let of = |status, reason| Follow::of(&order(&hold(0), status, reason));
        for (status, reason, follow) in [
            (OrderStatus::PendingPayment, None, Follow::Nothing),
            (OrderStatus::Paying, None, Follow::Nothing),
            (OrderStatus::Paid, None, Follow::Settle),
            (OrderStatus::Expired, None, Follow::Release(Release::Lapsed)),
            (
                OrderStatus::Cancelled,
                None,
                Follow::Release(Release::Lapsed),
            ),
        ] {
            assert_eq!(of(status, reason), follow, "{status:?}");
        }
        for (reason, how) in [
            (Limit, Release::Voided),
            (Repeated, Release::Voided),
            (NoOrder, Release::Voided),
            (Cap, Release::Forget),
            (Forgotten, Release::Forget),
        ] {
            let follow = of(OrderStatus::Voided, Some(reason));
            assert_eq!(follow, Follow::Release(how), "{reason:?}");
        }
    }
}
