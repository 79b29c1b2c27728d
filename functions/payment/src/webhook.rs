//! The provider's webhooks. A 2xx means: applied, or nothing to apply; with
//! anything else the provider delivers the event again.

use api::{Call, Code, Problem, Reply};
use domain::ClaimId;
use payment::{Applied, WebhookError};
use serde_json::json;

use crate::PaymentFunction;
use crate::order::refused;

impl PaymentFunction {
    pub(crate) async fn webhook(&self, call: &Call) -> Result<Reply, Problem> {
        let provider = self.cashier.provider();
        if call.path::<String>("provider")? != provider.name() {
            return Err(Problem::not_found());
        }
        let body = call.bytes();
        if body.is_empty() {
            return Err(Problem::new(Code::MalformedRequest).detail("the body is empty"));
        }
        let signature = call.header(provider.signature_header()).unwrap_or_default();
        let event = provider
            .verify_webhook(signature, body, self.clock.now())
            .map_err(unverified)?;
        let applied = self.cashier.apply(&event).await.map_err(refused)?;
        // On a repetition too: the first run may have stopped before this.
        if matches!(applied, Applied::Paid | Applied::AlreadyPaid)
            && let Some(order) = &event.order
        {
            self.settle_gate(&order.claim()).await;
        }
        match result(applied) {
            Some(result) => Reply::ok(&json!({"result": result})),
            None => Err(Problem::not_found().detail("There is no such order, or not yet.")),
        }
    }

    /// Drops the paid claim's deadline at the gate. The order is paid whether
    /// or not this works: the sweeper drops what is left.
    pub(crate) async fn settle_gate(&self, claim: &ClaimId) {
        let gates = match self.ledger.gates(claim.sale()).await {
            Ok(gates) => gates,
            Err(error) => {
                tracing::warn!(%claim, %error, "the gate of a paid claim is not known");
                return;
            }
        };
        if let Some(address) = gates.as_ref().and_then(|gates| gates.of(claim.bucket()))
            && let Err(error) = self.gate.settle(&address.tag, claim).await
        {
            tracing::warn!(%claim, %error, "the deadline of a paid claim was not dropped");
        }
    }
}

fn unverified(error: WebhookError) -> Problem {
    match error {
        WebhookError::InvalidSignature => Problem::new(Code::InvalidSignature),
        WebhookError::Malformed(_) => {
            Problem::new(Code::MalformedRequest).detail(error.to_string())
        }
    }
}

/// The word for the provider's log, or `None` if it must deliver again.
fn result(applied: Applied) -> Option<&'static str> {
    match applied {
        Applied::Paid => Some("paid"),
        Applied::AlreadyPaid | Applied::AlreadyApplied => Some("already_applied"),
        Applied::Declined => Some("declined"),
        Applied::Refund => Some("refund"),
        Applied::Mismatch => Some("mismatch"),
        Applied::Ignored => Some("ignored"),
        Applied::Parked => None,
    }
}
