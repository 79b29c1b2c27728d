//! One bucket's messages of a batch become orders, or are voided.

use std::collections::BTreeSet;

use domain::bucket::home;
use domain::order::VoidReason;
use domain::slot::Gates;
use domain::{BucketId, Order, OrderStatus, SaleId};
use gate::Release;
use ledger::Error;
use ledger::orders::Outcome;
use runtime::{Metric, metrics};

use crate::{OrderFunction, Received};

impl OrderFunction {
    /// Writes messages of one bucket, in their order.
    pub(crate) async fn write(
        &self,
        sale: &SaleId,
        bucket: BucketId,
        messages: &[Received],
    ) -> Result<(), Error> {
        let now = self.clock.now();
        // A deadline that an operator extended holds for late messages too.
        let extended = self.ledger.sale_recent(sale).await?;
        let orders = messages.iter().map(|message| {
            let mut order = message.claim.order(now);
            if let Some(sale) = &extended {
                order.pay_by = sale.extended(order.pay_by);
            }
            order
        });
        let (late, orders): (Vec<Order>, Vec<Order>) =
            orders.partition(|order| order.pay_by <= now);
        for order in &late {
            // Nobody can pay it any more. If it became an order before, this
            // is a repeat and changes nothing.
            self.void(order, VoidReason::NoOrder).await?;
        }
        let limit = messages.first().map_or(1, |message| message.claim.limit);
        let outcomes = self
            .ledger
            .create_orders(sale, bucket, limit, &orders)
            .await?;
        let written = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Created));
        metrics::of(sale)
            .value(Metric::OrdersWritten, written.count() as f64)
            .write();
        for (order, outcome) in orders.iter().zip(outcomes) {
            match outcome {
                Outcome::Created => {}
                Outcome::Existing(existing) => self.finish(&existing).await,
                Outcome::Refused(reason) => self.void(order, reason).await?,
            }
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
