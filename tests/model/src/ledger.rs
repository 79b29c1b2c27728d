//! The ledger: each function is one conditional write.

use crate::guard::Guard;
use crate::sale::{BUCKETS, KEYS, Key, Sale};

/// Why a yes was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VoidReason {
    /// The bucket's capacity was reached.
    Cap,
    /// The customer has as many units as allowed.
    Limit,
    /// The gate forgot its yes, and has given the unit to another.
    Forgotten,
    /// The key has an order in another bucket.
    Repeated,
    /// No order existed at the deadline.
    NoOrder,
}

impl VoidReason {
    /// Whether the gate gets the unit back.
    pub fn returns_units(self) -> bool {
        !matches!(self, Self::Cap | Self::Forgotten)
    }
}

/// Where an order is; a hold that was given back is as one that expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Held until `pay_by`.
    PendingPayment,
    /// Held until `pay_until`.
    Paying,
    /// Final.
    Paid,
    /// Final.
    Expired,
    /// Final.
    Voided(VoidReason),
}

impl Status {
    /// Whether it counts against the capacity.
    pub fn holds_units(self) -> bool {
        matches!(self, Self::PendingPayment | Self::Paying | Self::Paid)
    }
}

/// An order's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// Where it is.
    pub status: Status,
    /// Intents that were begun.
    pub attempt: u8,
    /// Whether the newest attempt's intent is in the row.
    pub intent: bool,
}

impl Order {
    fn new(status: Status) -> Self {
        Self {
            status,
            attempt: 0,
            intent: false,
        }
    }
}

/// A bucket's row, and its epoch in the row of the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bucket {
    /// Units that may be held and sold.
    pub capacity: i8,
    /// Those of them that are free.
    pub spare: i8,
    /// Under which orders are written.
    pub epoch: u8,
    /// Under which shoppers claim.
    pub published: u8,
    /// The newest life whose gate nobody believes.
    pub closed: u8,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Written.
    Created,
    /// Was there.
    Existing(Order),
    /// Refused.
    Refused(VoidReason),
    /// The bucket is in this later life.
    Outdated(u8),
}

/// The table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// The buckets.
    pub buckets: [Bucket; BUCKETS],
    /// The orders, by the claim's key and bucket.
    pub orders: [[Option<Order>; BUCKETS]; KEYS],
    /// The `LIMIT` rows: units, by shopper.
    pub units: [i8; KEYS],
    /// The `LIMIT` rows: keys that have had an order.
    pub claims: [bool; KEYS],
    /// Whether a rebalancing has begun and not ended.
    pub moving: bool,
}

impl Ledger {
    /// An order by its claim.
    pub fn order(&self, key: Key, at: u8) -> Option<Order> {
        self.orders[key][usize::from(at)]
    }

    fn set(&mut self, key: Key, at: u8, order: Order) {
        self.orders[key][usize::from(at)] = Some(order);
    }

    /// Units of live and paid orders of a bucket.
    pub fn held(&self, at: u8) -> i8 {
        let orders = self.orders.iter().filter_map(|of| of[usize::from(at)]);
        orders.filter(|order| order.status.holds_units()).count() as i8
    }

    /// `create_orders`, of one claim.
    pub fn create_order(&mut self, sale: &Sale, key: Key, at: u8, epoch: u8) -> Outcome {
        let shopper = usize::from(sale.shopper[key]);
        if let Some(order) = self.order(key, at)
            && sale.keeps(Guard::NewOrder)
        {
            return Outcome::Existing(order);
        }
        if self.claims[key] && sale.keeps(Guard::OneOrderAKey) {
            return Outcome::Refused(VoidReason::Repeated);
        }
        if self.units[shopper] >= sale.limit as i8 && sale.keeps(Guard::Limit) {
            return Outcome::Refused(VoidReason::Limit);
        }
        let row = &mut self.buckets[usize::from(at)];
        if row.epoch != epoch && sale.keeps(Guard::OrderEpoch) {
            return Outcome::Outdated(row.epoch);
        }
        if row.spare < 1 && sale.keeps(Guard::Cap) {
            return Outcome::Refused(VoidReason::Cap);
        }
        row.spare -= 1;
        self.units[shopper] += 1;
        self.claims[key] = true;
        self.set(key, at, Order::new(Status::PendingPayment));
        Outcome::Created
    }

    /// `void`: only if there is no order. The row that stands.
    pub fn void(&mut self, key: Key, at: u8, reason: VoidReason) -> Order {
        let voided = Order::new(Status::Voided(reason));
        let stands = self.order(key, at).unwrap_or(voided);
        self.set(key, at, stands);
        stands
    }

    /// `release`, of the order as it was read. Whether it ended.
    pub fn release(&mut self, sale: &Sale, key: Key, at: u8, read: Order) -> bool {
        let Some(order) = self.order(key, at) else {
            return false;
        };
        let same = order.status == read.status && order.attempt == read.attempt;
        let ended = matches!(order.status, Status::Expired | Status::Voided(_));
        if ended || (!same && sale.keeps(Guard::ReleaseStatus)) {
            return false;
        }
        let status = Status::Expired;
        self.set(key, at, Order { status, ..order });
        self.buckets[usize::from(at)].spare += 1;
        self.units[usize::from(sale.shopper[key])] -= 1;
        true
    }

    /// `begin_life`.
    pub fn begin_life(&mut self, sale: &Sale, at: u8, seen: u8, published: u8) -> Option<u8> {
        let row = &mut self.buckets[usize::from(at)];
        let gates = row.published == published || !sale.keeps(Guard::BeginPublished);
        (row.epoch == seen && gates).then(|| {
            row.epoch += 1;
            row.epoch
        })
    }

    /// `close_life`. Whether it is closed.
    pub fn close_life(&mut self, at: u8, epoch: u8) -> bool {
        let row = &mut self.buckets[usize::from(at)];
        let current = row.epoch == epoch;
        if current {
            row.closed = epoch;
        }
        current
    }

    /// `publish_life`.
    pub fn publish_life(&mut self, sale: &Sale, at: u8, epoch: u8) {
        let row = &mut self.buckets[usize::from(at)];
        let current = row.epoch == epoch || !sale.keeps(Guard::PublishEpoch);
        if current && row.published < epoch {
            row.published = epoch;
        }
    }

    /// `begin_payment`, of the order as it was read before `pay_by`.
    pub fn begin_payment(&mut self, key: Key, at: u8, read: Order) -> bool {
        let begins = self.order(key, at).is_some_and(|order| {
            order.status == Status::PendingPayment && order.attempt == read.attempt
        });
        if begins {
            let begun = Order {
                status: Status::Paying,
                attempt: read.attempt + 1,
                intent: false,
            };
            self.set(key, at, begun);
        }
        begins
    }

    /// `bind_intent`. Whether the row has it now.
    pub fn bind_intent(&mut self, sale: &Sale, key: Key, at: u8, attempt: u8) -> bool {
        let Some(order) = self.order(key, at).filter(|row| row.attempt == attempt) else {
            return false;
        };
        let paying = order.status == Status::Paying || !sale.keeps(Guard::BindPaying);
        if paying && !order.intent {
            let intent = true;
            self.set(key, at, Order { intent, ..order });
            return true;
        }
        order.intent
    }

    /// `end_attempt`: a decline.
    pub fn end_attempt(&mut self, key: Key, at: u8, attempt: u8) {
        if let Some(order) = self.order(key, at)
            && order.status == Status::Paying
            && order.intent
            && order.attempt == attempt
        {
            let status = Status::PendingPayment;
            self.set(key, at, Order { status, ..order });
        }
    }

    /// `end_unbound`: there is no intent for this attempt. The order as it waits
    /// then.
    pub fn end_unbound(&mut self, sale: &Sale, key: Key, at: u8, attempt: u8) -> Option<Order> {
        let order = self.order(key, at)?;
        let unbound = !order.intent || !sale.keeps(Guard::EndUnbound);
        let ends = order.status == Status::Paying && order.attempt == attempt && unbound;
        let status = Status::PendingPayment;
        let waits = ends.then_some(Order { status, ..order })?;
        self.set(key, at, waits);
        Some(waits)
    }

    /// `pay`, by this attempt's intent. Whether it was written now.
    pub fn pay(&mut self, sale: &Sale, key: Key, at: u8, attempt: u8) -> bool {
        let Some(order) = self.order(key, at) else {
            return false;
        };
        let payable = matches!(order.status, Status::PendingPayment | Status::Paying);
        let bound = order.intent && order.attempt == attempt;
        if (payable || !sale.keeps(Guard::PayStatus)) && bound {
            let status = Status::Paid;
            self.set(key, at, Order { status, ..order });
        }
        payable && bound
    }
}
