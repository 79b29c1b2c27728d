//! A yes on its way to its order, whoever gave it.

use api::{Code, Problem};
use domain::ClaimId;
use jiff::Timestamp;
use queue::{ClaimCreated, Message};

use crate::ClaimFunction;
use crate::admission::Claimant;

/// A yes to a claimant.
#[derive(Debug)]
pub(crate) struct Yes<'a> {
    pub(crate) claim: &'a ClaimId,
    pub(crate) quantity: u32,
    pub(crate) claimed_at: Timestamp,
    pub(crate) pay_by: Timestamp,
    /// The life of the bucket that it counts in.
    pub(crate) epoch: u64,
}

impl ClaimFunction {
    /// Stores the message that makes it an order.
    pub(crate) async fn send(&self, whose: Claimant<'_>, yes: Yes<'_>) -> Result<(), Problem> {
        let config = &whose.sale.config;
        let money = config
            .price
            .times(yes.quantity)
            .ok_or_else(|| Problem::new(Code::Internal).because("the amount exceeds its limit"))?;
        let message = Message::ClaimCreated(ClaimCreated {
            claim: yes.claim.clone(),
            shopper: whose.shopper.clone(),
            quantity: yes.quantity,
            money,
            limit: config.limit_per_customer,
            claimed_at: yes.claimed_at,
            pay_by: yes.pay_by,
            epoch: yes.epoch,
        });
        Ok(self.queue.send(&message).await?)
    }
}
