//! What ledger, gates and provider hold at one moment.

use std::collections::{BTreeMap, BTreeSet};

use domain::slot::Gates;
use domain::{BucketId, ClaimId, Money, Order, Sale, ShopperId};
use jiff::Timestamp;
use ledger::key;
use ledger::payments::Refund;
use payment::ProviderPayment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bench::{Bench, patiently};

/// Everything.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The published gates.
    pub gates: Gates,
    /// By number.
    pub buckets: Vec<SeenBucket>,
    /// Every row of a claim.
    pub orders: BTreeMap<ClaimId, Order>,
    /// Units and keys of each customer who ever had an order.
    pub customers: BTreeMap<ShopperId, (u32, BTreeSet<String>)>,
    /// Captures in the provider's books.
    pub captures: Vec<ProviderPayment>,
    /// Refunds that we owe or made.
    pub refunds: Vec<Refund>,
}

/// A bucket's row, whatever is in it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Row {
    /// Units that may be held and sold.
    pub capacity: u32,
    /// Units of live and paid orders.
    pub allotted: u32,
    /// What of the capacity is not allotted; a twin may oversell.
    pub spare: i64,
    /// Which life.
    pub epoch: u64,
}

/// One bucket.
#[derive(Debug, Clone)]
pub struct SeenBucket {
    /// Its row.
    pub row: Row,
    /// Whether its gate is open in the published life.
    pub open: bool,
    /// What its gate has left, if it is open.
    pub left: u32,
    /// Units that its gate holds by claims with a deadline, if it is open.
    pub due: BTreeMap<ClaimId, u32>,
    /// Messages that wait.
    pub queued: usize,
}

/// The group of a bucket's messages.
pub fn group(sale: &Sale, bucket: u16) -> String {
    format!("{}.{}", sale.id, BucketId(bucket))
}

impl Seen {
    /// Reads everything.
    ///
    /// # Panics
    /// If something does not answer.
    pub async fn read(bench: &Bench, sale: &Sale, shoppers: &[ShopperId]) -> Self {
        let services = &bench.services;
        let mut seen = Self::default();
        for row in services.rows(&key::sale_partition(&sale.id)) {
            if row["sk"] == "GATES" {
                seen.gates = read(row);
            }
        }
        for (id, address) in seen.gates.iter() {
            let mut own = None;
            for row in services.rows(&key::bucket_partition(&sale.id, id)) {
                if row["sk"] == "BUCKET" {
                    own = Some(read(row));
                } else {
                    let order: Order = read(row);
                    seen.orders.insert(order.claim.clone(), order);
                }
            }
            let open = patiently(async || bench.gate.is_open(address).await).await;
            let (mut left, mut due) = (0, BTreeMap::new());
            if open {
                let holds = patiently(async || bench.gate.holds(&address.tag).await);
                let (view, holds) = holds.await;
                left = u32::try_from(view.left).unwrap();
                // Marks hold nothing here.
                let holds = holds.into_iter().filter(|hold| hold.taken_here > 0);
                due.extend(holds.map(|hold| (hold.claim, hold.taken_here)));
            }
            seen.buckets.push(SeenBucket {
                row: own.expect("a row"),
                open,
                left,
                due,
                queued: services.queue().count(&group(sale, id.0)),
            });
            let refunds = services.rows(&key::refunds_partition(&sale.id, id));
            seen.refunds.extend(refunds.into_iter().map(read::<Refund>));
            let intents = services.rows(&key::sandbox_partition(&sale.id, id));
            seen.captures
                .extend(intents.into_iter().filter_map(capture));
        }
        for shopper in shoppers {
            let row = key::limit(&sale.id, shopper);
            for row in services
                .rows(&row.pk)
                .into_iter()
                .filter(|one| one["sk"] == row.sk)
            {
                let Customer { units, claims } = read(row);
                seen.customers.insert(shopper.clone(), (units, claims));
            }
        }
        seen
    }

    /// Units of live and paid orders, of these.
    pub fn sold(&self, which: impl Fn(&Order) -> bool) -> u32 {
        let orders = self.orders.values();
        let holding = orders.filter(|order| order.status.holds_units() && which(order));
        holding.map(|order| order.quantity).sum()
    }
}

#[derive(Deserialize)]
struct Customer {
    units: u32,
    claims: BTreeSet<String>,
}

fn read<T: DeserializeOwned>(row: Value) -> T {
    serde_json::from_value(row).expect("a row of this kind")
}

/// What an intent of the sandbox captured.
fn capture(mut row: Value) -> Option<ProviderPayment> {
    let captured: Option<Money> = read(row["captured"].take());
    let at = row["captured_at"].as_i64()?;
    Some(ProviderPayment {
        intent: read(row["intent"].take()),
        order: read(row["order_id"].take()),
        captured: captured?,
        captured_at: Timestamp::from_millisecond(at).expect("a time"),
        refunded: read(row["refunded"].take()),
    })
}
