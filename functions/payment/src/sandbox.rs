//! Confirms a sandbox intent, as a shopper's client does at a real provider.
//! Not there at all with another provider.

use api::{Call, Code, Problem, Reply};
use domain::input::Fields;
use domain::money::AMOUNT_MAX;
use domain::{Currency, IntentId, Money};
use payment::sandbox::{ConfirmError, Verdict};
use serde_json::json;

use crate::PaymentFunction;

impl PaymentFunction {
    pub(crate) async fn confirm(&self, call: &Call) -> Result<Reply, Problem> {
        let provider = self.cashier.provider();
        let sandbox = provider.as_sandbox().ok_or_else(Problem::not_found)?;
        let intent: IntentId = call.path("intent")?;
        let (client_secret, verdict) = read(call.fields()?)?;
        let now = self.clock.now();
        let confirmed = sandbox.confirm(&intent, &client_secret, verdict, now).await;
        let event = confirmed.map_err(unconfirmed)?;
        Reply::ok(&json!({"event": event}))
    }
}

/// `captured` rehearses a provider that captures something else.
fn read(mut fields: Fields) -> Result<(String, Verdict), Problem> {
    let secret = fields.text::<String>("client_secret");
    let secret = fields.require("client_secret", secret);
    let outcome = fields.text::<String>("outcome");
    let outcome = fields.require("outcome", outcome);
    let captured = fields.nested("captured", money).flatten();
    let verdict = match outcome.as_deref() {
        Some("succeed") => Some(Verdict::Succeed(captured)),
        Some("decline") => Some(Verdict::Decline),
        Some(_) => {
            fields.wrong("outcome", "must be \"succeed\" or \"decline\"");
            None
        }
        None => None,
    };
    fields.finish().map_err(Problem::fields)?;
    secret
        .zip(verdict)
        .ok_or_else(|| Problem::new(Code::MalformedRequest))
}

fn money(fields: &mut Fields) -> Option<Money> {
    let amount = fields.integer("amount", 0..=AMOUNT_MAX);
    let amount = fields.require("amount", amount);
    let currency = fields.text::<Currency>("currency");
    let currency = fields.require("currency", currency);
    Some(Money {
        amount: amount?,
        currency: currency?,
    })
}

fn unconfirmed(error: ConfirmError) -> Problem {
    match error {
        ConfirmError::NotFound => Problem::not_found(),
        ConfirmError::NotOpen => Problem::new(Code::NotPayable).detail("The intent is not open."),
        ConfirmError::Unavailable(error) => error.into(),
    }
}
