//! One bucket's messages of a batch become orders, or are voided.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::bucket::home;
use domain::order::VoidReason;
use domain::slot::{GateAddress, Gates};
use domain::{BucketId, ClaimId, Order, OrderStatus, SaleId};
use gate::{Ask, Decision, Release};
use ledger::Error;
use ledger::orders::Outcome;
use queue::{ClaimCreated, Message, Recover};
use runtime::{Metric, metrics};

use crate::{OrderFunction, Received};

/// A pause before claims are sent behind: a bucket that stays frozen must not
/// keep a worker busy.
const BEHIND_AFTER: Duration = Duration::from_millis(500);

/// What claims came to.
#[derive(Debug, Default)]
struct Came {
    written: u32,
    /// Nobody can say yet.
    undecided: Vec<ClaimId>,
}

impl OrderFunction {
    /// Handles messages of one bucket, in their order.
    pub(crate) async fn write(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        messages: &[Received],
    ) -> Result<(), Error> {
        let mut claims = Vec::new();
        for received in messages {
            match &received.message {
                Message::ClaimCreated(claim) => claims.push(claim),
                Message::Recover(asked) => {
                    self.write_claims(sale, bucket, &std::mem::take(&mut claims))
                        .await?;
                    self.recover(asked).await?;
                }
                Message::Rebalance(asked) => self.rebalance(asked).await?,
            }
        }
        self.write_claims(sale, bucket, &claims).await
    }

    async fn write_claims(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        claims: &[&ClaimCreated],
    ) -> Result<(), Error> {
        if claims.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        // A deadline that an operator extended holds for late messages too.
        // Read as it is now: who is voided for an older one's sake stays so.
        let extended = self.ledger.sale(sale).await?;
        let mut lives = BTreeMap::<u64, Vec<Order>>::new();
        for claim in claims {
            let mut order = claim.order(now);
            if let Some(sale) = &extended {
                order.pay_by = sale.extended(order.pay_by);
            }
            if order.pay_by <= now {
                // Nobody can pay it any more. If it became an order before,
                // this is a repeat and changes nothing.
                self.void(&order, VoidReason::NoOrder).await?;
            } else {
                lives.entry(claim.epoch).or_default().push(order);
            }
        }
        let limit = claims.first().map_or(1, |claim| claim.limit);
        let mut came = Came::default();
        for (epoch, orders) in lives {
            self.write_orders(sale, bucket, epoch, limit, orders, &mut came)
                .await?;
        }
        self.ledger.wake_if_ended(sale).await?;
        metrics::of(sale)
            .value(Metric::OrdersWritten, f64::from(came.written))
            .write();
        let undecided = claims
            .iter()
            .filter(|claim| came.undecided.contains(&claim.claim));
        self.put_behind(sale, bucket, undecided.copied()).await
    }

    /// Writes claims that gates of one life said yes to. Those of an earlier
    /// life than the bucket's are adopted first, and then written on the word
    /// of the gate as it is.
    async fn write_orders(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        epoch: u64,
        limit: u32,
        orders: Vec<Order>,
        came: &mut Came,
    ) -> Result<(), Error> {
        let (mut life, mut left) = (epoch, orders);
        for _ in 0..2 {
            let outcomes = self.ledger.create_orders(sale, bucket, life, limit, &left);
            let outcomes = outcomes.await?;
            let mut adopted = Vec::new();
            for (order, outcome) in left.into_iter().zip(outcomes) {
                match outcome {
                    Outcome::Created => came.written += 1,
                    Outcome::Existing(existing) => self.finish(&existing).await,
                    Outcome::Refused(reason) => self.void(&order, reason).await?,
                    Outcome::Outdated(now) => {
                        life = now;
                        match self.adopt(&order, now).await? {
                            Some(true) => adopted.push(order),
                            Some(false) => self.void(&order, VoidReason::Forgotten).await?,
                            None => came.undecided.push(order.claim),
                        }
                    }
                }
            }
            left = adopted;
            if left.is_empty() {
                return Ok(());
            }
        }
        // Yet another life since: the queue delivers them again.
        Err(Error::Conflict)
    }

    /// Whether the gate, in the life that the bucket is in, has the units of a
    /// claim that one of an earlier life said yes to, or still has as many.
    /// `None` while it can't say.
    async fn adopt(&self, order: &Order, epoch: u64) -> Result<Option<bool>, Error> {
        let gates = self.gates(order.claim.sale()).await?;
        let Some(address) = gates.of(order.claim.bucket()) else {
            return Err(Error::Broken(
                "a claim of a bucket without a gate".to_owned(),
            ));
        };
        let address = GateAddress {
            epoch,
            ..address.clone()
        };
        let ask = Ask {
            shopper: &order.shopper,
            claim: &order.claim,
            quantity: order.quantity,
            // The ledger keeps the limit.
            limit: u32::MAX,
            pay_by: order.pay_by,
            rate_per_s: None,
        };
        Ok(match self.gate.bucket(&address).claim(&ask).await {
            Ok(Decision::Claimed(_)) => Some(true),
            // Not a mark: the shopper asked again, and was sent elsewhere.
            Ok(Decision::Same(hold)) => Some(hold.taken_here > 0),
            Ok(_) => Some(false),
            // Being recovered, or out of reach.
            Err(_) => None,
        })
    }

    /// Sends claims that can't be decided yet once more, behind a recovery of
    /// the bucket. Left where they are they would be in front of it, and in a
    /// group nothing passes what is in front.
    async fn put_behind<'a>(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        claims: impl Iterator<Item = &'a ClaimCreated>,
    ) -> Result<(), Error> {
        let claims: Vec<_> = claims.collect();
        if claims.is_empty() {
            return Ok(());
        }
        let unavailable = |error: queue::Error| Error::Unavailable(error.to_string());
        let gates = self.ledger.gates(sale).await?.unwrap_or_default();
        if let Some(address) = gates.of(bucket) {
            let recover = Message::Recover(Recover {
                sale: sale.clone(),
                bucket,
                epoch: address.epoch,
                seen_at: self.clock.now(),
            });
            self.queue.send(&recover).await.map_err(unavailable)?;
        }
        tracing::warn!(%sale, %bucket, claims = claims.len(),
            "claims of an earlier life wait for their bucket");
        tokio::time::sleep(BEHIND_AFTER).await;
        for claim in claims {
            let message = Message::ClaimCreated(claim.clone());
            let sent = self.queue.send_behind(&message, self.clock.now());
            sent.await.map_err(unavailable)?;
        }
        Ok(())
    }

    /// Takes a yes back, first in the ledger, then at the gate.
    async fn void(&self, order: &Order, reason: VoidReason) -> Result<(), Error> {
        let now = self.clock.now();
        let stands = self.ledger.void(order, reason, now).await?;
        // Not what was voided before: a message may come again.
        if stands.status == OrderStatus::Voided && stands.changed_at == now {
            tracing::warn!(claim = %order.claim, ?reason, "a claim was voided");
            metrics::of(order.claim.sale())
                .word("reason", reason.name())
                .value(Metric::ClaimsVoided, 1.0)
                .write();
        }
        self.finish(&stands).await;
        Ok(())
    }

    /// The gate follows a claim that was voided: in the claim's bucket, and at
    /// the shopper's home, where a claim on another bucket is marked. Should
    /// that fail, the sweeper finds the deadlines.
    async fn finish(&self, order: &Order) {
        let Some(reason) = order
            .void_reason
            .filter(|_| order.status == OrderStatus::Voided)
        else {
            return;
        };
        let how = if reason.returns_units() {
            Release::Voided
        } else {
            Release::Forget
        };
        let gates = match self.gates(order.claim.sale()).await {
            Ok(gates) => gates,
            Err(error) => {
                tracing::warn!(claim = %order.claim, %error, "the gate keeps a voided claim for now");
                return;
            }
        };
        let home = home(&order.shopper, gates.addresses.len() as u16);
        for bucket in BTreeSet::from([order.claim.bucket(), home]) {
            let Some(address) = gates.of(bucket) else {
                continue;
            };
            if let Err(error) = self.gate.release(&address.tag, &order.claim, how).await {
                tracing::warn!(claim = %order.claim, %error, "the gate keeps a voided claim for now");
            }
        }
    }

    /// The gates of a sale. Their tags never change once it takes claims, so
    /// they are read once.
    async fn gates(&self, sale: &SaleId) -> Result<Gates, Error> {
        let mut held = self.gates.lock().await;
        if let Some(gates) = held.get(sale) {
            return Ok(gates.clone());
        }
        let Some(gates) = self.ledger.gates(sale).await? else {
            return Ok(Gates::default());
        };
        held.insert(sale.clone(), gates.clone());
        Ok(gates)
    }
}
