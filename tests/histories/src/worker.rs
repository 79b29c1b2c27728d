//! What a worker must make of messages: the rules of `functions/order`, one
//! claim at a time and without anything that can fail.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain::order::VoidReason;
use domain::{ClaimId, ShopperId};
use gate::Hold;
use jiff::Timestamp;
use queue::{ClaimCreated, Message};

use crate::seen::Seen;

/// New rows: a claim became an order, or was voided for this reason.
pub type Rows = BTreeMap<ClaimId, Option<VoidReason>>;

/// One bucket while messages are handled.
pub struct Worker<'a> {
    before: &'a Seen,
    /// What the gate knows of claims without a deadline.
    known: &'a BTreeMap<ClaimId, Hold>,
    limit: u32,
    customers: BTreeMap<ShopperId, (u32, BTreeSet<String>)>,
    spare: u32,
    epoch: u64,
    open: bool,
    loaded: bool,
    left: u32,
    due: BTreeSet<ClaimId>,
    rows: Rows,
}

impl<'a> Worker<'a> {
    /// A bucket as it is before.
    pub fn new(
        before: &'a Seen,
        known: &'a BTreeMap<ClaimId, Hold>,
        bucket: u16,
        limit: u32,
    ) -> Self {
        let at = &before.buckets[usize::from(bucket)];
        Self {
            before,
            known,
            limit,
            customers: before.customers.clone(),
            spare: at.row.spare.try_into().unwrap_or(0),
            epoch: at.row.epoch,
            open: at.open,
            loaded: false,
            left: at.left,
            due: at.due.keys().cloned().collect(),
            rows: Rows::new(),
        }
    }

    /// Handles messages, and says what rows they add.
    pub fn handle(mut self, messages: &[Message], now: Timestamp) -> Rows {
        let mut claims = Vec::new();
        for message in messages {
            match message {
                Message::ClaimCreated(claim) => claims.push(claim),
                Message::Recover(asked) => {
                    self.claims(&std::mem::take(&mut claims), now);
                    if asked.epoch == self.epoch && !self.open {
                        (self.epoch, self.open, self.loaded) = (self.epoch + 1, true, true);
                        (self.left, self.due) = (self.spare, self.live());
                    }
                }
                Message::Rebalance(_) => {}
            }
        }
        self.claims(&claims, now);
        self.rows
    }

    /// Of this bucket and the other: what has no deadline does not matter.
    fn live(&self) -> BTreeSet<ClaimId> {
        let orders = self.before.orders.values();
        let before = orders.filter(|order| order.deadline().is_some());
        let new = self.rows.iter().filter(|(_, reason)| reason.is_none());
        before
            .map(|order| order.claim.clone())
            .chain(new.map(|(claim, _)| claim.clone()))
            .collect()
    }

    fn claims(&mut self, claims: &[&ClaimCreated], now: Timestamp) {
        let mut lives = BTreeMap::<u64, Vec<&ClaimCreated>>::new();
        for claim in claims {
            if claim.pay_by <= now {
                self.void(claim, VoidReason::NoOrder);
            } else {
                lives.entry(claim.epoch).or_default().push(claim);
            }
        }
        for (epoch, mut claims) in lives {
            if epoch != self.epoch {
                claims.retain(|claim| self.adopt(claim));
            }
            self.create(claims);
        }
    }

    /// In transactions without two claims of one customer.
    fn create(&mut self, mut claims: Vec<&ClaimCreated>) {
        while !claims.is_empty() {
            let mut customers = HashSet::new();
            let (batch, later): (Vec<_>, _) = claims
                .into_iter()
                .partition(|claim| customers.insert(&claim.shopper));
            claims = later;
            for claim in batch {
                if let Some(reason) = self.refusal(claim) {
                    self.void(claim, reason);
                } else if self.is_known(&claim.claim) {
                    self.void(claim, VoidReason::NoOrder); // follows what stands
                } else if claim.quantity > self.spare {
                    self.void(claim, VoidReason::Cap);
                } else {
                    self.spare -= claim.quantity;
                    let customer = self.customers.entry(claim.shopper.clone()).or_default();
                    customer.0 += claim.quantity;
                    customer.1.insert(claim.claim.digest().to_owned());
                    self.rows.insert(claim.claim.clone(), None);
                }
            }
        }
    }

    fn is_known(&self, claim: &ClaimId) -> bool {
        self.rows.contains_key(claim) || self.before.orders.contains_key(claim)
    }

    /// Why the customer may not have it, if there is no row yet.
    fn refusal(&self, claim: &ClaimCreated) -> Option<VoidReason> {
        if self.is_known(&claim.claim) {
            return None;
        }
        let (units, digests) = self.customers.get(&claim.shopper)?;
        if digests.contains(claim.claim.digest()) {
            Some(VoidReason::Repeated)
        } else if units + claim.quantity > self.limit {
            Some(VoidReason::Limit)
        } else {
            None
        }
    }

    /// Whether a claim of an earlier life shall become an order in this one.
    fn adopt(&mut self, claim: &ClaimCreated) -> bool {
        if self.is_known(&claim.claim) {
            return true; // to be found there
        }
        if let Some(reason) = self.refusal(claim) {
            self.void(claim, reason);
            return false;
        }
        if !self.open {
            return false; // sent once more, behind the recovery
        }
        let known = self.known.get(&claim.claim).filter(|_| !self.loaded);
        let adopts = match known {
            _ if self.due.contains(&claim.claim) => true,
            Some(hold) => hold.taken_here > 0,
            None if self.left >= claim.quantity => {
                self.left -= claim.quantity;
                self.due.insert(claim.claim.clone());
                true
            }
            None => false,
        };
        if !adopts {
            self.void(claim, VoidReason::Forgotten);
        }
        adopts
    }

    /// Takes a yes back, if there is no row, and lets the gate follow.
    fn void(&mut self, claim: &ClaimCreated, reason: VoidReason) {
        let id = &claim.claim;
        let stands = match (self.before.orders.get(id), self.rows.get(id)) {
            (Some(order), _) => order.void_reason,
            (None, Some(reason)) => *reason,
            (None, None) => {
                self.rows.insert(id.clone(), Some(reason));
                Some(reason)
            }
        };
        if let Some(reason) = stands
            && self.due.remove(id)
            && reason.returns_units()
        {
            self.left += claim.quantity;
        }
    }
}
