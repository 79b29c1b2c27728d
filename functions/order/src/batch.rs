//! One bucket's messages of a batch become orders, or are voided.

use domain::order::VoidReason;
use domain::{BucketId, Order, OrderStatus, SaleId};
use gate::Release;
use ledger::Error;
use ledger::orders::Outcome;

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
        let stands = self.ledger.void(order, reason, self.clock.now()).await?;
        if stands.status == OrderStatus::Voided {
            tracing::warn!(claim = %order.claim, ?reason, "a claim was voided");
        }
        self.finish(&stands).await;
        Ok(())
    }

    /// A claim that came too late for an order gives back at the gate what
    /// the gate still holds for it. Should that fail, the sweeper finds its
    /// deadline.
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
        let tag = match self.tag(order.claim.sale(), order.claim.bucket()).await {
            Ok(Some(tag)) => tag,
            _ => return,
        };
        if let Err(error) = self.gate.release(&tag, &order.claim, how).await {
            tracing::warn!(claim = %order.claim, %error, "the gate keeps a voided claim for now");
        }
    }

    /// The hash tag of a bucket; it never changes, so it is read once.
    async fn tag(&self, sale: &SaleId, bucket: BucketId) -> Result<Option<String>, Error> {
        let mut held = self.gates.lock().await;
        if !held.contains_key(sale)
            && let Some(gates) = self.ledger.gates(sale).await?
        {
            held.insert(sale.clone(), gates);
        }
        Ok(held
            .get(sale)
            .and_then(|gates| Some(gates.of(bucket)?.tag.clone())))
    }
}
