//! What a verified webhook says.

use domain::money::AMOUNT_MAX;
use domain::{IntentId, Money, OrderId, input};
use serde_json::{Map, Value};

use crate::WebhookError;

/// An event of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The provider's id of it: a second delivery has the same.
    pub id: String,
    /// What happened.
    pub kind: EventKind,
    /// To which intent; always there for a kind that we know.
    pub intent: Option<IntentId>,
    /// The order in the intent's metadata. It tells which row to read, never
    /// which intent pays it: that is in our own record.
    pub order: Option<OrderId>,
}

/// What happened to an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Money was captured: so much, if the event says it legibly.
    Succeeded(Option<Money>),
    /// The shopper's bank said no.
    Failed,
    /// It was cancelled before it captured anything.
    Cancelled,
    /// Its capture went back.
    Refunded,
    /// A refund of its capture did not get through after all.
    RefundFailed,
    /// Nothing that we ask about.
    Other,
}

impl Event {
    /// Reads the event that verified bytes hold, in the sandbox's form:
    /// Stripe's without what is not needed.
    ///
    /// # Errors
    /// [`WebhookError::Malformed`]: not one JSON object, or without id, type
    /// or intent.
    pub fn parse(body: &[u8]) -> Result<Self, WebhookError> {
        let members = input::object(body).map_err(|error| WebhookError::Malformed(error.0))?;
        let id = text(&members, "id").filter(|id| (1..=255).contains(&id.len()));
        let id = id.ok_or_else(|| malformed("id"))?;
        let kind = match text(&members, "type").ok_or_else(|| malformed("type"))? {
            "payment_intent.succeeded" => EventKind::Succeeded(money(&members)),
            "payment_intent.payment_failed" => EventKind::Failed,
            "payment_intent.canceled" => EventKind::Cancelled,
            "refund.succeeded" => EventKind::Refunded,
            "refund.failed" => EventKind::RefundFailed,
            _ => EventKind::Other,
        };
        let intent = text(&members, "intent").and_then(|intent| intent.parse().ok());
        if intent.is_none() && kind != EventKind::Other {
            return Err(malformed("intent"));
        }
        let order = members
            .get("metadata")
            .and_then(|metadata| metadata.get("order_id")?.as_str()?.parse().ok());
        Ok(Self {
            id: id.to_owned(),
            kind,
            intent,
            order,
        })
    }
}

/// A positive or zero integer and a known currency, whatever its case;
/// anything else is no amount of money, and is never taken for one.
fn money(members: &Map<String, Value>) -> Option<Money> {
    let amount = members.get("amount")?.as_u64()?;
    let currency = text(members, "currency")?.to_ascii_uppercase();
    (amount <= AMOUNT_MAX).then_some(Money {
        amount,
        currency: currency.parse().ok()?,
    })
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

fn malformed(member: &str) -> WebhookError {
    WebhookError::Malformed(format!("{member} is missing or not usable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(amount_and_currency: &str) -> EventKind {
        let body = format!(
            r#"{{"id":"evt_1","type":"payment_intent.succeeded","intent":"pi_1"{amount_and_currency}}}"#
        );
        Event::parse(body.as_bytes()).unwrap().kind
    }

    /// C06: a captured amount is an integer of minor units in a real currency.
    #[test]
    fn what_is_not_money_is_not_read_as_money() {
        let inr = Money {
            amount: 999_900,
            currency: "INR".parse().unwrap(),
        };
        for right in [
            r#","amount":999900,"currency":"INR""#,
            r#","amount":999900,"currency":"inr""#,
        ] {
            assert_eq!(read(right), EventKind::Succeeded(Some(inr)));
        }
        for wrong in [
            r#","amount":-999900,"currency":"INR""#,
            r#","amount":"999900","currency":"INR""#,
            r#","amount":999900.0,"currency":"INR""#,
            r#","amount":9007199254740992,"currency":"INR""#,
            r#","amount":null,"currency":"INR""#,
            r#","currency":"INR""#,
            r#","amount":999900"#,
            r#","amount":999900,"currency":"RUPEE""#,
        ] {
            assert_eq!(read(wrong), EventKind::Succeeded(None), "{wrong}");
        }
    }

    #[test]
    fn an_event_has_an_id_a_type_and_an_intent() {
        for body in [
            "",
            "[]",
            "{",
            r#"{"type":"x"}"#,
            r#"{"id":"","type":"x"}"#,
            r#"{"id":"evt_1"}"#,
            r#"{"id":"evt_1","type":"refund.succeeded"}"#,
            r#"{"id":"evt_1","type":"refund.succeeded","intent":"a b"}"#,
            r#"{"id":"evt_1","id":"evt_2","type":"x"}"#,
        ] {
            assert!(Event::parse(body.as_bytes()).is_err(), "{body}");
        }
        let other = Event::parse(br#"{"id":"evt_1","type":"customer.created"}"#).unwrap();
        assert_eq!(other.kind, EventKind::Other);
    }
}
