//! The provider's books against the ledger's: every capture pays its order, or goes
//! back, once.
//!
//! Nothing is asked for here. Lines come from ledger and provider where those are at
//! hand, and else from the merchant's reports of all buckets, whose members they have.

use std::collections::HashMap;
use std::fmt;

use domain::order::RefundStatus;
use domain::{BucketId, IntentId, Money, Order, OrderId, OrderStatus};
use jiff::{SignedDuration, Timestamp};
use ledger::payments::Refund;
use serde::Deserialize;

use crate::report::{Done, Kind, Mismatch};

/// A refund that the provider has not confirmed for so long needs a person.
pub const REFUND_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Providers tell of a capture within this, unless its order still waits for that very
/// intent: then whoever ends the hold asks.
pub const TOLD_MAX: SignedDuration = SignedDuration::from_mins(20);

/// An order, as far as its money goes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OrderLine {
    /// Which.
    pub order_id: OrderId,
    /// The intent that pays it, or was to; none before the first attempt, and
    /// never where nothing is to be paid.
    #[serde(default)]
    pub intent: Option<IntentId>,
    /// What it costs, all units together.
    #[serde(flatten)]
    pub money: Money,
    /// Where it is.
    pub status: OrderStatus,
}

/// A refund that the ledger owes, or notes as made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RefundLine {
    /// Of this intent's capture.
    pub intent: IntentId,
    /// Captured for this order.
    pub order_id: OrderId,
    /// How much goes back.
    #[serde(flatten)]
    pub money: Money,
    /// Whether it has.
    pub status: RefundStatus,
    /// Since when.
    pub changed_at: Timestamp,
}

/// A capture in the provider's books.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CaptureLine {
    /// By this intent.
    pub intent: IntentId,
    /// For the order that the provider has noted with it.
    pub order_id: OrderId,
    /// How much.
    #[serde(flatten)]
    pub money: Money,
    /// When.
    pub captured_at: Timestamp,
    /// How much of it went back, in minor units of its currency; 0 is nothing.
    pub refund_amount: u64,
}

impl From<&Order> for OrderLine {
    fn from(order: &Order) -> Self {
        Self {
            order_id: order.claim.order(),
            intent: order.intent.clone(),
            money: order.money,
            status: order.status,
        }
    }
}

impl From<&Refund> for RefundLine {
    fn from(refund: &Refund) -> Self {
        Self {
            intent: refund.intent.clone(),
            order_id: refund.order_id.clone(),
            money: refund.money,
            status: refund.status,
            changed_at: refund.changed_at,
        }
    }
}

impl OrderLine {
    /// Whether it may yet be paid by this intent.
    fn awaits(&self, intent: &IntentId) -> bool {
        let live = matches!(
            self.status,
            OrderStatus::PendingPayment | OrderStatus::Paying
        );
        live && self.intent.as_ref() == Some(intent)
    }
}

/// What one side says and the other does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In which way.
    pub kind: Kind,
    /// About this order.
    pub order: OrderId,
    /// About this intent, if there is one.
    pub intent: Option<IntentId>,
    /// What it should be; nothing, if no money should be there.
    pub expected: Option<Money>,
    /// What it is.
    pub found: Option<Money>,
}

impl Difference {
    /// The same as a line of a reconciliation's report.
    pub fn mismatch(&self, bucket: BucketId) -> Mismatch {
        let amount = |money: Option<Money>| money.map_or(0, |money| money.amount as i64);
        let about = match &self.intent {
            Some(intent) => intent.as_str().to_owned(),
            None => self.order.claim().to_string(),
        };
        Mismatch {
            kind: self.kind,
            bucket: Some(bucket),
            about: Some(about),
            expected: amount(self.expected),
            found: amount(self.found),
            // Nobody else may move money.
            done: Done::NeedsPerson,
        }
    }
}

impl fmt::Display for Difference {
    /// `captured_twice ord_…: expected nothing, found INR 9999.00 (pi_…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |money: Option<Money>| {
            money.map_or_else(|| "nothing".to_owned(), |money| money.to_string())
        };
        let (expected, found) = (said(self.expected), said(self.found));
        let Self { kind, order, .. } = self;
        write!(f, "{kind} {order}: expected {expected}, found {found}")?;
        if let Some(intent) = &self.intent {
            write!(f, " ({})", intent.as_str())?;
        }
        Ok(())
    }
}

/// Refunds that are owed for too long.
pub fn overdue(refunds: &[RefundLine], now: Timestamp) -> Vec<Difference> {
    let owed = refunds.iter().filter(|refund| {
        refund.status == RefundStatus::RefundPending && now - refund.changed_at > REFUND_MAX
    });
    owed.map(|refund| Difference {
        kind: Kind::RefundOverdue,
        order: refund.order_id.clone(),
        intent: Some(refund.intent.clone()),
        expected: Some(refund.money),
        found: None,
    })
    .collect()
}

/// The provider's list against the ledger, both of the same orders. The order lines
/// are to be read first: what paid one of them was captured before.
pub fn compare(
    orders: &[OrderLine],
    refunds: &[RefundLine],
    captures: &[CaptureLine],
    now: Timestamp,
) -> Vec<Difference> {
    let known: HashMap<_, _> = orders.iter().map(|of| (&of.order_id, of)).collect();
    let paid = || orders.iter().filter(|of| of.status == OrderStatus::Paid);
    let mut unpaid_for: HashMap<&IntentId, &OrderLine> = paid()
        .filter_map(|order| Some((order.intent.as_ref()?, order)))
        .collect();
    let mut noted = HashMap::<&IntentId, Vec<&RefundLine>>::new();
    for refund in refunds {
        noted.entry(&refund.intent).or_default().push(refund);
    }
    let mut found = Vec::new();
    // Where nothing was captured, nothing can be wrong.
    for capture in captures.iter().filter(|of| of.money.amount > 0) {
        let back = noted.get(&capture.intent).map_or(&[][..], Vec::as_slice);
        match unpaid_for.remove(&capture.intent) {
            Some(order) => kept(order, back, capture, &mut found),
            None => {
                let order = known.get(&capture.order_id).copied();
                found.extend(returned(order, back, capture, now));
            }
        }
    }
    // What costs nothing is paid without anybody.
    let uncaptured = paid().filter(|order| match &order.intent {
        Some(intent) => unpaid_for.contains_key(intent),
        None => order.money.amount > 0,
    });
    found.extend(uncaptured.map(|order| Difference {
        kind: Kind::PaidWithoutCapture,
        order: order.order_id.clone(),
        intent: order.intent.clone(),
        expected: Some(order.money),
        found: None,
    }));
    found
}

/// A capture that pays an order: exactly, and for good.
fn kept(
    order: &OrderLine,
    back: &[&RefundLine],
    capture: &CaptureLine,
    found: &mut Vec<Difference>,
) {
    if order.money != capture.money || order.order_id != capture.order_id {
        let kind = Kind::CaptureWrong;
        found.push(capture.differs(kind, Some(order.money), Some(capture.money)));
    }
    let owed: u64 = back.iter().map(|refund| refund.money.amount).sum();
    let returns = owed.max(capture.refund_amount);
    if returns > 0 {
        found.push(capture.differs(Kind::RefundWrong, None, capture.of(returns)));
    }
}

/// A capture that pays no order: all of it goes back, and no more.
fn returned(
    order: Option<&OrderLine>,
    back: &[&RefundLine],
    capture: &CaptureLine,
    now: Timestamp,
) -> Option<Difference> {
    let (money, returned) = (capture.money, capture.refund_amount);
    let (kind, expected, found) = match back {
        [] if returned > 0 => (Kind::RefundWrong, None, capture.of(returned)),
        // The provider may not have told of it yet.
        [] if now - capture.captured_at <= TOLD_MAX => return None,
        // Nor may it ever: the order is paid by it all the same when its hold ends, and
        // would be for nothing if a person gave the money back before.
        [] if order.is_some_and(|order| order.awaits(&capture.intent)) => return None,
        [] => {
            let paid = order.is_some_and(|order| order.status == OrderStatus::Paid);
            let kind = match paid {
                true => Kind::CapturedTwice,
                false => Kind::CaptureUnaccounted,
            };
            (kind, None, Some(money))
        }
        [_, _, ..] => {
            let noted = back.iter().map(|refund| refund.money.amount).sum();
            (Kind::RefundedTwice, Some(money), capture.of(noted))
        }
        [_] if returned > money.amount => (Kind::RefundedTwice, Some(money), capture.of(returned)),
        [one] if one.money != money => (Kind::RefundWrong, Some(money), Some(one.money)),
        [one] if one.status == RefundStatus::Refunded && returned < money.amount => {
            (Kind::RefundMissing, Some(money), capture.of(returned))
        }
        [_] => return None,
    };
    Some(capture.differs(kind, expected, found))
}

impl CaptureLine {
    fn differs(&self, kind: Kind, expected: Option<Money>, found: Option<Money>) -> Difference {
        Difference {
            kind,
            order: self.order_id.clone(),
            intent: Some(self.intent.clone()),
            expected,
            found,
        }
    }

    /// So much in its currency; none of nothing.
    fn of(&self, amount: u64) -> Option<Money> {
        (amount > 0).then_some(Money {
            amount,
            ..self.money
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OrderStatus::{Expired, Paid, Paying, PendingPayment};
    use RefundStatus::{RefundPending, Refunded};

    const THEN: Timestamp = Timestamp::UNIX_EPOCH;

    /// Long after everything that providers are given time for.
    const LATER: Timestamp = Timestamp::constant(7_200, 0);

    fn money(amount: u64) -> Money {
        Money {
            amount,
            currency: "INR".parse().unwrap(),
        }
    }

    fn id(n: u32) -> OrderId {
        format!("ord_s_000_{n:032x}").parse().unwrap()
    }

    fn intent(name: &str) -> IntentId {
        name.parse().unwrap()
    }

    fn order(n: u32, status: OrderStatus, by: &str) -> OrderLine {
        OrderLine {
            order_id: id(n),
            intent: Some(intent(by)),
            money: money(5),
            status,
        }
    }

    fn capture(n: u32, by: &str, amount: u64, refund_amount: u64) -> CaptureLine {
        CaptureLine {
            intent: intent(by),
            order_id: id(n),
            money: money(amount),
            captured_at: THEN,
            refund_amount,
        }
    }

    fn refund(n: u32, by: &str, status: RefundStatus) -> RefundLine {
        RefundLine {
            intent: intent(by),
            order_id: id(n),
            money: money(5),
            status,
            changed_at: THEN,
        }
    }

    /// The books of a sale in which everything is right: one order paid at its first
    /// attempt, one that expired and whose money went back, one that nobody paid.
    #[derive(Clone)]
    struct Sale {
        orders: Vec<OrderLine>,
        refunds: Vec<RefundLine>,
        captures: Vec<CaptureLine>,
    }

    fn good() -> Sale {
        let mut unpaid = order(3, Expired, "unused");
        unpaid.intent = None;
        Sale {
            orders: vec![order(1, Paid, "a"), order(2, Expired, "b"), unpaid],
            refunds: vec![refund(2, "b", Refunded)],
            captures: vec![capture(1, "a", 5, 0), capture(2, "b", 5, 5)],
        }
    }

    impl Sale {
        fn at(&self, now: Timestamp) -> Vec<Difference> {
            compare(&self.orders, &self.refunds, &self.captures, now)
        }
    }

    #[test]
    fn books_that_agree_have_no_difference() {
        assert_eq!(good().at(LATER), []);
        let mut pending = good();
        pending.refunds[0].status = RefundPending;
        for back in [0, 5] {
            pending.captures[1].refund_amount = back;
            assert_eq!(pending.at(LATER), [], "{back} went back");
        }
        // Where nothing was captured, nothing goes back.
        let mut nothing = good();
        nothing.captures.push(capture(3, "c", 0, 0));
        assert_eq!(nothing.at(LATER), []);
        // Nobody told of it yet, and the order's time is not over.
        for status in [Paying, PendingPayment] {
            let mut untold = good();
            untold.orders.push(order(4, status, "d"));
            untold.captures.push(capture(4, "d", 5, 0));
            assert_eq!(untold.at(LATER), [], "{status:?}");
        }
    }

    /// Each by one change, and by nothing else.
    #[test]
    fn each_way_to_differ_is_told_by_its_name() {
        type Change = fn(&mut Sale);
        let cases: [(&str, Change, Kind); 17] = [
            (
                "a capture is missing",
                |sale| drop(sale.captures.remove(0)),
                Kind::PaidWithoutCapture,
            ),
            (
                "an order was paid by nothing",
                |sale| {
                    sale.captures.remove(0);
                    sale.orders[0].intent = None;
                },
                Kind::PaidWithoutCapture,
            ),
            (
                "a capture is for an order that is not there",
                |sale| sale.captures.push(capture(9, "x", 5, 0)),
                Kind::CaptureUnaccounted,
            ),
            (
                "a capture is for an order that nobody counts as paid",
                |sale| sale.captures.push(capture(3, "x", 5, 0)),
                Kind::CaptureUnaccounted,
            ),
            (
                "a capture is by an intent that its order does not wait for",
                |sale| {
                    sale.orders.push(order(4, Paying, "d"));
                    sale.captures.push(capture(4, "x", 5, 0));
                },
                Kind::CaptureUnaccounted,
            ),
            (
                "two captures are for one order",
                |sale| sale.captures.push(capture(1, "x", 5, 0)),
                Kind::CapturedTwice,
            ),
            (
                "one capture is listed twice",
                |sale| sale.captures.push(capture(1, "a", 5, 0)),
                Kind::CapturedTwice,
            ),
            (
                "too little was captured",
                |sale| sale.captures[0].money.amount -= 1,
                Kind::CaptureWrong,
            ),
            (
                "another currency was captured",
                |sale| sale.captures[0].money.currency = "USD".parse().unwrap(),
                Kind::CaptureWrong,
            ),
            (
                "the capture is another order's",
                |sale| sale.captures[0].order_id = id(3),
                Kind::CaptureWrong,
            ),
            (
                "a refund that is noted was not made",
                |sale| sale.captures[1].refund_amount = 0,
                Kind::RefundMissing,
            ),
            (
                "a part of a refund was made",
                |sale| sale.captures[1].refund_amount = 4,
                Kind::RefundMissing,
            ),
            (
                "more went back than was captured",
                |sale| sale.captures[1].refund_amount = 10,
                Kind::RefundedTwice,
            ),
            (
                "a refund is noted twice",
                |sale| sale.refunds.push(refund(2, "b", Refunded)),
                Kind::RefundedTwice,
            ),
            (
                "a refund was made that nobody noted",
                |sale| sale.refunds.clear(),
                Kind::RefundWrong,
            ),
            (
                "what pays an order went back",
                |sale| sale.captures[0].refund_amount = 5,
                Kind::RefundWrong,
            ),
            (
                "another amount is noted than was captured",
                |sale| sale.refunds[0].money.amount = 4,
                Kind::RefundWrong,
            ),
        ];
        for (what, change, kind) in cases {
            let mut sale = good();
            change(&mut sale);
            let found = sale.at(LATER);
            let kinds: Vec<_> = found.iter().map(|one| one.kind).collect();
            assert_eq!(kinds, [kind], "{what}: {found:?}");
        }
    }

    #[test]
    fn what_is_owed_back_of_a_paid_order_is_wrong_already() {
        let mut sale = good();
        sale.refunds.push(refund(1, "a", RefundPending));
        let [found] = &*sale.at(LATER) else { panic!() };
        assert_eq!(
            (found.kind, found.found),
            (Kind::RefundWrong, Some(money(5)))
        );
    }

    #[test]
    fn what_costs_nothing_is_paid_without_a_capture() {
        let mut sale = good();
        sale.captures.remove(0);
        sale.orders[0].intent = None;
        sale.orders[0].money = money(0);
        assert_eq!(sale.at(LATER), []);
    }

    #[test]
    fn a_provider_is_given_time_to_tell() {
        let mut early = good();
        early.captures.push(capture(3, "x", 5, 0));
        assert_eq!(early.at(THEN + TOLD_MAX), []);
        let over = TOLD_MAX + SignedDuration::from_secs(1);
        assert_eq!(early.at(THEN + over).len(), 1);
    }

    #[test]
    fn a_refund_may_be_owed_for_a_while() {
        let late = |status, by| overdue(&[refund(1, "a", status)], THEN + by).len();
        assert_eq!(late(RefundPending, REFUND_MAX), 0);
        let over = REFUND_MAX + SignedDuration::from_secs(1);
        assert_eq!(late(RefundPending, over), 1);
        assert_eq!(late(Refunded, over), 0);
    }

    #[test]
    fn a_difference_says_what_it_is_about() {
        let mut sale = good();
        sale.captures.push(capture(1, "x", 5, 0));
        let [found] = &*sale.at(LATER) else { panic!() };
        let order = id(1);
        assert_eq!(
            found.to_string(),
            format!("captured_twice {order}: expected nothing, found INR 0.05 (x)")
        );
        let line = found.mismatch(BucketId(0));
        assert_eq!(
            (line.about.as_deref(), line.expected, line.found),
            (Some("x"), 0, 5)
        );
        // An order that no intent paid is told by its claim.
        sale = good();
        sale.captures.remove(0);
        sale.orders[0].intent = None;
        let line = sale.at(LATER)[0].mismatch(BucketId(0));
        assert_eq!(line.about, Some(order.claim().to_string()));
    }
}
