//! The API's documents, as far as the drill reads them. What it does not need
//! is left out, what may be missing has a default.

use domain::order::{ClaimStatus, OrderStatus, RefundStatus};
use domain::sale::SaleState;
use domain::{ClaimId, IntentId, Money, OrderId};
use jiff::Timestamp;
use serde::Deserialize;

/// A problem document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// Its code.
    pub error: String,
    /// What it was this time.
    pub detail: Option<String>,
    /// With `sold_out` in a race: the place in line that was given.
    pub entry_token: Option<String>,
    /// The number of that place.
    pub ticket: Option<f64>,
}

/// Sessions for a batch of shoppers, in the order asked for.
#[derive(Debug, Deserialize)]
pub struct Sessions {
    /// One token each.
    pub access_tokens: Vec<String>,
}

/// Whether a sale is ready to open.
#[derive(Debug, Deserialize)]
pub struct Preflight {
    /// Nothing is not ok.
    pub ready: bool,
    /// All checks.
    #[serde(default)]
    pub checks: Vec<PreflightCheck>,
}

/// One check of a preflight.
#[derive(Debug, Deserialize)]
pub struct PreflightCheck {
    /// Its name.
    pub check: String,
    /// `ok`, `not_ok` or `not_checked`.
    pub result: String,
    /// What to do.
    #[serde(default)]
    pub advice: Option<String>,
}

/// The public state of a sale.
#[derive(Debug, Deserialize)]
pub struct Status {
    /// Where it is.
    pub state: SaleState,
    /// How far admission has come.
    #[serde(default)]
    pub draw: Draw,
    /// Claims are refused for now.
    #[serde(default)]
    pub paused: bool,
}

/// How far admission has come.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Draw {
    /// Tickets below it may claim.
    pub threshold: f64,
    /// How often it was raised, or those below it were asked again.
    pub round: u32,
}

/// A pass.
#[derive(Debug, Deserialize)]
pub struct Pass {
    /// For the header `Sale-Pass`.
    pub pass: String,
}

/// A place in line.
#[derive(Debug, Deserialize)]
pub struct Entry {
    /// Its number; late ones are from 1 on.
    pub ticket: f64,
    /// For the header `Sale-Entry`.
    pub entry_token: String,
}

/// A claim.
#[derive(Debug, Deserialize)]
pub struct Claim {
    /// Which.
    pub claim_id: ClaimId,
    /// Where it is.
    pub status: ClaimStatus,
}

/// An order, as its shopper sees it.
#[derive(Debug, Deserialize)]
pub struct OrderView {
    /// Where it is.
    pub status: OrderStatus,
}

/// An intent to pay.
#[derive(Debug, Deserialize)]
pub struct Intent {
    /// Which.
    pub intent_id: IntentId,
    /// Proves to the provider that the shopper confirms it.
    #[serde(default)]
    pub client_secret: String,
    /// When the provider gives it up.
    #[serde(default, with = "instant")]
    pub expires_at: Option<Timestamp>,
}

/// The sandbox's answer to a confirmation.
#[derive(Debug, Deserialize)]
pub struct Confirmation {
    /// What the provider would send.
    pub event: Event,
}

/// A signed webhook.
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    /// The body, to the byte.
    pub payload: String,
    /// For the header `Sandbox-Signature`.
    pub signature: String,
}

/// The report on a whole sale.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// On sale.
    pub units: i64,
    /// Can be claimed.
    pub free: i64,
    /// Claimed and not paid.
    pub held: i64,
    /// At the provider.
    pub paying: i64,
    /// Sold.
    pub paid: i64,
    /// Each bucket.
    pub buckets: Vec<BucketSummary>,
    /// Each round.
    pub rounds: Vec<Round>,
}

impl Summary {
    /// Claimed, and the order is not written.
    pub fn in_flight(&self) -> i64 {
        self.buckets.iter().map(|bucket| bucket.in_flight).sum()
    }

    /// Units that are neither free nor sold.
    pub fn pending(&self) -> i64 {
        self.held + self.paying + self.in_flight()
    }
}

/// One bucket within the summary. Signed, so that a negative count is seen.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct BucketSummary {
    /// Its number.
    pub bucket: u16,
    /// Units that it may allot.
    pub capacity: i64,
    /// Units of live and paid orders.
    pub allotted: i64,
    /// Can be claimed.
    pub free: i64,
    /// Claimed and not paid.
    pub held: i64,
    /// At the provider.
    pub paying: i64,
    /// Sold.
    pub paid: i64,
    /// Claimed, and the order is not written.
    pub in_flight: i64,
}

/// One raising of the threshold, or the same once more.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// When.
    #[serde(with = "instant")]
    pub at: Option<Timestamp>,
    /// Places in line that are admitted from then on.
    pub admitted: u64,
    /// Tickets below it are.
    pub threshold: f64,
}

/// The report on one bucket.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct BucketReport {
    /// Its number.
    pub bucket: u16,
    /// Every order.
    pub orders: Vec<OrderLine>,
    /// Every intent.
    pub payments: Vec<PaymentLine>,
    /// Every refund.
    pub refunds: Vec<RefundLine>,
}

/// An order of the ledger.
#[derive(Debug, Clone, Deserialize)]
pub struct OrderLine {
    /// Its claim.
    pub claim_id: ClaimId,
    /// Itself.
    pub order_id: OrderId,
    /// Whose.
    #[serde(default)]
    pub shopper: String,
    /// Units.
    pub quantity: u32,
    /// For all units.
    #[serde(flatten)]
    pub money: Money,
    /// Where it is.
    pub status: OrderStatus,
    /// When paying must have begun.
    #[serde(default, with = "instant")]
    pub pay_by: Option<Timestamp>,
    /// When the intent of an order that is being paid ends.
    #[serde(default, with = "instant")]
    pub pay_until: Option<Timestamp>,
    /// When the gate said yes.
    #[serde(default, with = "instant")]
    pub claimed_at: Option<Timestamp>,
    /// When the status last changed.
    #[serde(default, with = "instant")]
    pub changed_at: Option<Timestamp>,
    /// When the gate had the units back, if the report knows.
    #[serde(default, with = "instant")]
    pub released_at: Option<Timestamp>,
    /// The newest intent.
    #[serde(default)]
    pub intent: Option<IntentId>,
    /// Why it was voided.
    #[serde(default)]
    pub void_reason: Option<String>,
}

/// Where an intent is at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaymentStatus {
    /// Not decided.
    Open,
    /// Money was captured.
    Succeeded,
    /// The instrument was refused.
    Declined,
    /// Given up; can't succeed any more.
    Cancelled,
}

/// An intent, as the provider knows it.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentLine {
    /// Which.
    pub intent: IntentId,
    /// For which order.
    pub order_id: OrderId,
    /// How much.
    #[serde(flatten)]
    pub money: Money,
    /// Where it is.
    pub status: PaymentStatus,
    /// Some of it went back.
    #[serde(default)]
    pub refunded: bool,
    /// How much went back.
    #[serde(default)]
    pub refund_amount: u64,
}

/// A refund of the ledger.
#[derive(Debug, Clone, Deserialize)]
pub struct RefundLine {
    /// Of which capture.
    pub intent: IntentId,
    /// How much.
    #[serde(flatten)]
    pub money: Money,
    /// Where it is.
    pub status: RefundStatus,
}

/// An instant as RFC 3339 text or as milliseconds since 1970, or none.
mod instant {
    use super::{Deserialize, Timestamp};
    use serde::Deserializer;
    use serde::de::Error;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(Timestamp),
        Milliseconds(i64),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        match Option::<Written>::deserialize(from)? {
            None => Ok(None),
            Some(Written::Text(at)) => Ok(Some(at)),
            Some(Written::Milliseconds(ms)) => Timestamp::from_millisecond(ms)
                .map(Some)
                .map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_both_ways() {
        let round = |at: &str| -> Round {
            serde_json::from_str(&format!(r#"{{"round":1,"at":{at},"odd":true}}"#)).unwrap()
        };
        let text = round("\"2026-11-11T12:00:00.000+05:30\"").at;
        assert_eq!(text, round("1794378600000").at);
        assert!(text.is_some());
        assert_eq!(round("null").at, None);
    }
}
