//! Giving money back: asked for until the provider confirms it, once.

use domain::order::RefundStatus;
use domain::{BucketId, ClaimId, IntentId, SaleId};
use jiff::Timestamp;
use ledger::payments::Refund;
use runtime::{Metric, metrics};

use super::{Applied, Cashier, Refusal};
use crate::{RefundOutcome, RefundRequest};

/// What became of a bucket's refunds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refunds {
    /// Confirmed now.
    pub refunded: usize,
    /// Still owed.
    pub pending: usize,
}

impl Cashier {
    /// Asks the provider again for every refund of a bucket that it has not
    /// confirmed. Any number of callers at a time gives one refund.
    ///
    /// # Errors
    /// The ledger does not answer.
    pub async fn settle_refunds(
        &self,
        sale: &SaleId,
        bucket: BucketId,
    ) -> Result<Refunds, ledger::Error> {
        let mut refunds = Refunds::default();
        for refund in self.ledger.refunds(sale, bucket).await? {
            if refund.status == RefundStatus::Refunded {
                continue;
            }
            match self.refund(&refund).await {
                Ok(true) => refunds.refunded += 1,
                Ok(false) => refunds.pending += 1,
                Err(Refusal::Ledger(error)) => return Err(error),
                Err(error) => {
                    log_unrefunded(&refund, self.clock.now(), &error);
                    refunds.pending += 1;
                }
            }
        }
        Ok(refunds)
    }

    /// An event says that a refund went through. That one may have failed since,
    /// if its event comes late: so it is no more than a reason to ask.
    pub(super) async fn look_at_refund(
        &self,
        claim: &ClaimId,
        intent: &IntentId,
    ) -> Result<Applied, Refusal> {
        let refund = self.ledger.refund(claim, intent).await?;
        let owed = refund.filter(|refund| refund.status == RefundStatus::RefundPending);
        let Some(refund) = owed else {
            return Ok(Applied::AlreadyApplied);
        };
        Ok(if self.refund(&refund).await? {
            Applied::Refund
        } else {
            Applied::AlreadyApplied
        })
    }

    /// Gives a capture back, and notes it once the provider confirms it.
    /// Whether it did.
    pub(super) async fn refund(&self, refund: &Refund) -> Result<bool, Refusal> {
        let request = RefundRequest {
            intent: refund.intent.clone(),
            order: refund.order_id.clone(),
            money: refund.money,
            idempotency_key: format!("refund-{}", refund.intent),
        };
        match self.provider.refund(&request).await? {
            RefundOutcome::Pending => Ok(false),
            RefundOutcome::Refunded => {
                let now = self.clock.now();
                self.ledger
                    .refunded(&refund.claim, &refund.intent, now)
                    .await?;
                Ok(true)
            }
        }
    }
}

pub(super) fn log_unrefunded(refund: &Refund, now: Timestamp, error: &Refusal) {
    metrics::of(refund.claim.sale())
        .value(Metric::RefundUnconfirmed, 1.0)
        .write();
    tracing::warn!(
        order = %refund.order_id,
        intent = refund.intent.as_str(),
        owed_s = (now - refund.created_at).as_secs(),
        %error,
        "a refund is owed and not confirmed"
    );
}
