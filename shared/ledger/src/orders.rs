//! Buckets, orders, and what a customer holds: the referee.

use std::collections::{HashMap, HashSet};

use domain::order::VoidReason;
use domain::{BucketId, ClaimId, Order, OrderStatus, SaleId, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::table::from_item;
use crate::{Error, Ledger, Reason, Transaction, key};

/// A bucket's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Units that may be held and sold.
    pub capacity: u32,
    /// Units of live and paid orders; never above `capacity`.
    pub allotted: u32,
    /// `capacity - allotted`, kept beside them: a condition of DynamoDB can
    /// compare an attribute with a number, but not with a difference.
    pub spare: u32,
    /// Which life of its gate.
    pub epoch: u64,
    /// The life in which a loading wrote it; a recovery begins later ones.
    #[serde(default)]
    pub load: u64,
    /// The newest life that was closed: of that, and of those before, no gate
    /// is believed.
    #[serde(default)]
    pub closed: u64,
}

impl Bucket {
    /// A bucket of which nothing is allotted.
    pub fn new(capacity: u32, epoch: u64) -> Self {
        Self {
            capacity,
            allotted: 0,
            spare: capacity,
            epoch,
            load: epoch,
            closed: 0,
        }
    }
}

/// A bucket with all its orders, read at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeBucket {
    /// Its row.
    pub bucket: Bucket,
    /// Every order, live or not.
    pub orders: Vec<Order>,
}

/// A customer's row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Customer {
    /// Units of live and paid orders.
    #[serde(default)]
    pub units: i64,
    /// Digests of the claims that ever became orders.
    #[serde(default)]
    pub claims: HashSet<String>,
}

/// What became of a claim that was to be an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The order was written.
    Created,
    /// It was there already, in this state.
    Existing(Box<Order>),
    /// Refused by the ledger; not written yet.
    Refused(VoidReason),
    /// Not written: the bucket is in this later life, whose gate may not know
    /// of the claim.
    Outdated(u64),
}

/// Orders that one release transaction can hold: two rows each, the bucket,
/// and room below DynamoDB's 100.
pub const RELEASE_BATCH: usize = 40;

impl Ledger {
    /// Writes a bucket's row before opening; a row with orders is left alone,
    /// and one of a newer loading, or of a recovery that came to as high a life.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was.
    pub async fn put_bucket(&self, sale: &SaleId, id: BucketId, row: &Bucket) -> Result<(), Error> {
        let mut writes = Transaction::new();
        writes
            .put(&key::bucket(sale, id), row)?
            .only_if(
                "attribute_not_exists(pk) OR (allotted = :none AND \
                 (epoch < :epoch OR (epoch = :epoch AND #load = :epoch)))",
            )
            .name("#load", "load")
            .number(":none", 0)
            .number(":epoch", row.epoch);
        self.table.write_or_conflict(&writes).await
    }

    /// A bucket's row.
    ///
    /// # Errors
    /// No answer.
    pub async fn bucket(&self, sale: &SaleId, id: BucketId) -> Result<Option<Bucket>, Error> {
        self.table.get(&key::bucket(sale, id)).await
    }

    /// The rows of all buckets of a sale, in their order.
    ///
    /// # Errors
    /// No answer, or one has no row.
    pub async fn buckets(&self, sale: &SaleId, buckets: u16) -> Result<Vec<Bucket>, Error> {
        let keys: Vec<_> = (0..buckets)
            .map(|n| key::bucket(sale, BucketId(n)))
            .collect();
        let mut rows = Vec::with_capacity(keys.len());
        for mut row in self.table.get_many(&keys).await? {
            let pk = row.remove("pk");
            let pk = pk.as_ref().and_then(|pk| pk.as_s().ok()).cloned();
            let bucket: Bucket = from_item(row)?;
            rows.push((pk.unwrap_or_default(), bucket));
        }
        if rows.len() < keys.len() {
            return Err(Error::Broken(format!("a bucket of {sale} has no row")));
        }
        // A bucket's number has three digits in its key.
        rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(rows.into_iter().map(|(_, bucket)| bucket).collect())
    }

    /// A whole bucket, consistently: what recovery and comparison read.
    ///
    /// # Errors
    /// No answer, or no such bucket.
    pub async fn whole_bucket(&self, sale: &SaleId, id: BucketId) -> Result<WholeBucket, Error> {
        let mut bucket = None;
        let mut orders = Vec::new();
        for mut row in self
            .table
            .query(&key::bucket_partition(sale, id), "")
            .await?
        {
            let sort_key = row.remove("sk");
            let is_bucket = sort_key
                .as_ref()
                .and_then(|sk| sk.as_s().ok())
                .is_some_and(|sk| sk == "BUCKET");
            if is_bucket {
                bucket = Some(from_item(row)?);
            } else {
                orders.push(from_item(row)?);
            }
        }
        let bucket = bucket.ok_or_else(|| Error::Broken(format!("no bucket {id} of {sale}")))?;
        Ok(WholeBucket { bucket, orders })
    }

    /// An order by its claim: one consistent read.
    ///
    /// # Errors
    /// No answer.
    pub async fn order(&self, claim: &ClaimId) -> Result<Option<Order>, Error> {
        self.table.get(&key::order(claim)).await
    }

    /// Orders by their claims, each read consistently; claims without an order
    /// are left out.
    ///
    /// # Errors
    /// No answer.
    pub async fn orders(
        &self,
        claims: impl IntoIterator<Item = &ClaimId>,
    ) -> Result<HashMap<ClaimId, Order>, Error> {
        let keys: Vec<_> = claims.into_iter().map(key::order).collect();
        let rows = self.table.get_many(&keys).await?;
        let orders = rows.into_iter().map(|row| {
            let order: Order = from_item(row)?;
            Ok((order.claim.clone(), order))
        });
        orders.collect()
    }

    /// The rows of these customers, each read consistently; those without one
    /// are left out. Each may be named once.
    ///
    /// # Errors
    /// No answer.
    pub async fn customers(
        &self,
        sale: &SaleId,
        shoppers: impl IntoIterator<Item = &ShopperId>,
    ) -> Result<HashMap<ShopperId, Customer>, Error> {
        let keys: Vec<_> = shoppers
            .into_iter()
            .map(|shopper| key::limit(sale, shopper))
            .collect();
        let rows = self.table.get_many(&keys).await?;
        let customers = rows.into_iter().map(|mut row| {
            let pk = row.remove("pk");
            let pk = pk.as_ref().and_then(|pk| pk.as_s().ok());
            let shopper = pk.and_then(|pk| key::limit_of(sale, pk));
            let shopper = shopper.ok_or_else(|| Error::Broken("a row of nobody".to_owned()))?;
            Ok((shopper, from_item(row)?))
        });
        customers.collect()
    }

    /// Writes claims of one bucket as orders, in their order, and says what
    /// became of each. One transaction if nothing is refused.
    ///
    /// Five conditions guard it: the order is new, the customer's units stay
    /// within `limit`, the key has no order in another bucket, the bucket's
    /// units stay within its capacity, and its life is `epoch`, that of the
    /// gate that said yes.
    ///
    /// # Errors
    /// No answer: nothing is known, and doing it again is safe.
    pub async fn create_orders(
        &self,
        sale: &SaleId,
        id: BucketId,
        epoch: u64,
        limit: u32,
        orders: &[Order],
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; orders.len()];
        loop {
            let batch = next_batch(orders, &outcomes);
            if batch.is_empty() {
                break;
            }
            let writes = order_writes(sale, id, epoch, limit, orders, &batch)?;
            match self.table.write(&writes).await? {
                Ok(()) => {
                    for index in batch {
                        outcomes[index] = Some(Outcome::Created);
                    }
                }
                Err(reasons) => {
                    self.read_reasons(epoch, orders, &batch, reasons, &mut outcomes)
                        .await?
                }
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Turns the reasons of a refused batch into outcomes of some of its
    /// orders; the others are tried again without them.
    async fn read_reasons(
        &self,
        epoch: u64,
        orders: &[Order],
        batch: &[usize],
        reasons: Vec<Reason>,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), Error> {
        let mut decided = false;
        for (position, &index) in batch.iter().enumerate() {
            if let Reason::Condition(row) = &reasons[2 * position] {
                let existing = match row {
                    Some(row) => Some(from_item::<Order>(row.clone())?),
                    None => self.order(&orders[index].claim).await?,
                };
                if let Some(existing) = existing {
                    outcomes[index] = Some(Outcome::Existing(Box::new(existing)));
                    decided = true;
                }
            } else if let Reason::Condition(row) = &reasons[2 * position + 1] {
                let digest = orders[index].claim.digest();
                let claims = row.as_ref().and_then(|row| row.get("claims")?.as_ss().ok());
                let repeated = claims.is_some_and(|claims| claims.iter().any(|one| one == digest));
                outcomes[index] = Some(Outcome::Refused(if repeated {
                    VoidReason::Repeated
                } else {
                    VoidReason::Limit
                }));
                decided = true;
            }
        }
        // The cap is only judged once no duplicate takes part in the sum.
        if !decided && let Some(Reason::Condition(row)) = reasons.last() {
            let row = row
                .clone()
                .ok_or_else(|| Error::Broken("the bucket has no row".to_owned()))?;
            let bucket: Bucket = from_item(row)?;
            if bucket.epoch != epoch {
                for &index in batch {
                    outcomes[index] = Some(Outcome::Outdated(bucket.epoch));
                }
                return Ok(());
            }
            let mut room = bucket.spare;
            for &index in batch {
                let quantity = orders[index].quantity;
                if quantity <= room {
                    room -= quantity;
                } else {
                    outcomes[index] = Some(Outcome::Refused(VoidReason::Cap));
                }
            }
        }
        Ok(())
    }

    /// Writes a claim as voided, if it has no order yet: from then on nothing
    /// can make it one. Says which row stands now.
    ///
    /// # Errors
    /// No answer.
    pub async fn void(
        &self,
        order: &Order,
        reason: VoidReason,
        now: Timestamp,
    ) -> Result<Order, Error> {
        let voided = Order {
            status: OrderStatus::Voided,
            void_reason: Some(reason),
            changed_at: now,
            ..order.clone()
        };
        let mut writes = Transaction::new();
        writes.put(&key::order(&order.claim), &voided)?.only_new();
        match self.table.write(&writes).await? {
            Ok(()) => Ok(voided),
            Err(_) => self
                .order(&order.claim)
                .await?
                .ok_or_else(|| Error::Unavailable("a row that exists was not found".to_owned())),
        }
    }

    /// Ends holds of one bucket: units go back to the bucket and to the
    /// customers' allowance in the same transaction. Says which ended; the
    /// others changed in the meantime and are left alone.
    ///
    /// At most [`RELEASE_BATCH`] orders, each in the status and with the
    /// deadline that was read: an order that is being paid, or whose time was
    /// extended, no longer fits.
    ///
    /// # Errors
    /// No answer: nothing is known, and doing it again is safe.
    pub async fn release(
        &self,
        sale: &SaleId,
        id: BucketId,
        orders: &[Order],
        to: OrderStatus,
        now: Timestamp,
    ) -> Result<Vec<ClaimId>, Error> {
        let mut left: Vec<&Order> = orders
            .iter()
            .filter(|order| order.status.may_become(to))
            .collect();
        let mut released = Vec::new();
        while !left.is_empty() {
            // A row may stand only once in a transaction.
            let mut customers = HashSet::new();
            let (mut batch, later): (Vec<&Order>, Vec<&Order>) = left
                .into_iter()
                .partition(|order| customers.insert(&order.shopper));
            left = later;
            self.release_batch(sale, id, &mut batch, to, now).await?;
            released.extend(batch.into_iter().map(|order| order.claim.clone()));
        }
        Ok(released)
    }

    /// Releases orders of different customers; those that changed in the
    /// meantime are taken out.
    async fn release_batch(
        &self,
        sale: &SaleId,
        id: BucketId,
        batch: &mut Vec<&Order>,
        to: OrderStatus,
        now: Timestamp,
    ) -> Result<(), Error> {
        while !batch.is_empty() {
            let writes = release_writes(sale, id, batch, to, now);
            let Err(reasons) = self.table.write(&writes).await? else {
                return Ok(());
            };
            let before = batch.len();
            let mut position = 0;
            batch.retain(|_| {
                let changed = reasons[2 * position] != Reason::None;
                position += 1;
                !changed
            });
            if batch.len() == before {
                return Err(Error::Broken(format!(
                    "bucket {id} of {sale} or a customer holds fewer units than its orders"
                )));
            }
        }
        Ok(())
    }

    /// Gives a live order more time before paying must have begun.
    ///
    /// # Errors
    /// No answer.
    pub async fn extend(&self, order: &Order, pay_by: Timestamp) -> Result<bool, Error> {
        let mut writes = Transaction::new();
        writes
            .update(&key::order(&order.claim), "SET pay_by = :later")
            .only_if("#status IN (:pending, :paying) AND pay_by < :later")
            .name("#status", "status")
            .text(":pending", OrderStatus::PendingPayment.name())
            .text(":paying", OrderStatus::Paying.name())
            .number(":later", pay_by.as_millisecond());
        Ok(self.table.write(&writes).await?.is_ok())
    }
}

/// The orders that are undecided, without two of one customer: a row may
/// stand only once in a transaction.
fn next_batch(orders: &[Order], outcomes: &[Option<Outcome>]) -> Vec<usize> {
    let mut customers = HashSet::new();
    let mut claims = HashSet::new();
    (0..orders.len())
        .filter(|&index| outcomes[index].is_none())
        .filter(|&index| {
            claims.insert(&orders[index].claim) && customers.insert(&orders[index].shopper)
        })
        .collect()
}

/// Two rows for each order, the bucket last.
fn order_writes(
    sale: &SaleId,
    id: BucketId,
    epoch: u64,
    limit: u32,
    orders: &[Order],
    batch: &[usize],
) -> Result<Transaction, Error> {
    let mut writes = Transaction::new();
    let mut units = 0u32;
    for &index in batch {
        let order = &orders[index];
        units += order.quantity;
        writes.put(&key::order(&order.claim), order)?.only_new();
        writes
            .update(
                &key::limit(sale, &order.shopper),
                "ADD #units :units, claims :digests",
            )
            .only_if(
                "(attribute_not_exists(#units) OR #units <= :room) \
                 AND NOT contains(claims, :digest)",
            )
            .name("#units", "units")
            .text(":digest", order.claim.digest())
            .one_of_set(":digests", order.claim.digest())
            .number(":units", order.quantity)
            .number(":room", i64::from(limit) - i64::from(order.quantity));
    }
    // The cap: whatever a gate said, this is where a unit exists or not.
    writes
        .update(&key::bucket(sale, id), "ADD allotted :units, spare :less")
        .only_if("spare >= :units AND epoch = :epoch")
        .number(":epoch", epoch)
        .number(":units", units)
        .number(":less", -i64::from(units));
    Ok(writes)
}

/// Two rows for each order, the bucket last.
fn release_writes(
    sale: &SaleId,
    id: BucketId,
    orders: &[&Order],
    to: OrderStatus,
    now: Timestamp,
) -> Transaction {
    let mut writes = Transaction::new();
    let mut units = 0u32;
    for order in orders {
        units += order.quantity;
        writes
            .update(
                &key::order(&order.claim),
                "SET #status = :to, changed_at = :now",
            )
            .only_if("#status = :from AND pay_by = :pay_by AND attempt = :attempt")
            .name("#status", "status")
            .text(":from", order.status.name())
            .text(":to", to.name())
            .number(":pay_by", order.pay_by.as_millisecond())
            .number(":attempt", order.attempt)
            .number(":now", now.as_millisecond());
        writes
            .update(&key::limit(sale, &order.shopper), "ADD #units :back")
            .only_if("#units >= :units")
            .name("#units", "units")
            .number(":back", -i64::from(order.quantity))
            .number(":units", order.quantity);
    }
    writes
        .update(&key::bucket(sale, id), "ADD allotted :back, spare :units")
        .only_if("allotted >= :units")
        .number(":back", -i64::from(units))
        .number(":units", units);
    writes
}
