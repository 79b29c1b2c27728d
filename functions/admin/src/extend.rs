//! Extending the pay window: no hold ends before so many seconds from now.
//! Said as a floor, so that doing it twice does not add up.

use api::{Call, Problem, Reply};
use domain::{BucketId, OrderStatus};
use futures::{TryStreamExt, stream};
use jiff::SignedDuration;

use crate::{AdminFunction, CONCURRENCY, view};

impl AdminFunction {
    /// Sets the floor for all claims, those whose order is still on its way
    /// included, then moves the deadlines of the orders that stand. Should it
    /// stop half-way, doing it again completes it; so does the sweeper, order by
    /// order.
    pub(crate) async fn extend(&self, call: &Call) -> Result<Reply, Problem> {
        let mut fields = call.fields()?;
        let seconds = fields.integer("seconds", 1..=86_400);
        let seconds = fields.require("seconds", seconds);
        fields.finish().map_err(Problem::fields)?;
        let floor = self.clock.now() + SignedDuration::from_secs(seconds.unwrap_or(0) as i64);
        let sale = self
            .change_sale(&call.sale()?, |sale| {
                sale.pay_by_min = Some(sale.extended(floor));
                Ok(())
            })
            .await?;
        let gates = self.ledger.gates(&sale.id).await?.unwrap_or_default();
        let buckets: Vec<_> = gates
            .iter()
            .map(|(bucket, address)| Ok((bucket, address.tag.clone())))
            .collect();
        let extended = stream::iter(buckets)
            .map_ok(|(bucket, tag)| self.extend_bucket(&sale, bucket, tag, floor))
            .try_buffer_unordered(CONCURRENCY)
            .try_fold(0u32, |sum, extended| async move { Ok(sum + extended) })
            .await?;
        let mut view = view::sale(&sale);
        view["extended"] = extended.into();
        Reply::ok(&view)
    }

    async fn extend_bucket(
        &self,
        sale: &domain::Sale,
        bucket: BucketId,
        tag: String,
        floor: jiff::Timestamp,
    ) -> Result<u32, Problem> {
        let (mut extended, mut away) = (0, false);
        for order in self.ledger.whole_bucket(&sale.id, bucket).await?.orders {
            let waits = matches!(
                order.status,
                OrderStatus::PendingPayment | OrderStatus::Paying
            );
            if waits && order.pay_by < floor && self.ledger.extend(&order, floor).await? {
                extended += 1;
                if order.status == OrderStatus::PendingPayment && !away {
                    let moved = self.gate.defer(&tag, &order.claim, floor).await;
                    if let Err(error) = moved {
                        // The sweeper moves deadlines, once they are due and the gate
                        // is back. Nor is each of them waited for.
                        tracing::warn!(%bucket, %error, "deadlines were not moved");
                        away = true;
                    }
                }
            }
        }
        Ok(extended)
    }
}
