//! Stripe's events, once their signature was verified.

use domain::input;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::objects::{Envelope, PaymentIntent, Refund, RefundStatus};
use crate::{Event, EventKind, WebhookError};

/// Reads the event that verified bytes hold.
///
/// An account may sell other things too, whose events come to the same
/// address: what does not name an order of ours is [`EventKind::Other`], never
/// an error, since Stripe would deliver it again for days.
///
/// # Errors
/// [`WebhookError::Malformed`]: no event, or one of ours that can't be read.
pub(super) fn read(body: &[u8]) -> Result<Event, WebhookError> {
    let members = input::object(body).map_err(|error| WebhookError::Malformed(error.0))?;
    let Envelope { id, kind, data } = object(Value::Object(members))?;
    if !(1..=255).contains(&id.len()) {
        return Err(WebhookError::Malformed("id is not usable".to_owned()));
    }
    let other = |id| Event {
        id,
        kind: EventKind::Other,
        intent: None,
        order: None,
    };
    let object_kind = data.object["object"].as_str();
    match (kind.as_str(), object_kind) {
        (
            "payment_intent.succeeded"
            | "payment_intent.payment_failed"
            | "payment_intent.canceled",
            _,
        ) if is_ours(&data.object) => {
            let intent: PaymentIntent = object(data.object)?;
            let kind = match kind.as_str() {
                "payment_intent.succeeded" => EventKind::Succeeded(intent.captured_legibly()),
                "payment_intent.canceled" => EventKind::Cancelled,
                _ => EventKind::Failed,
            };
            Ok(Event {
                id,
                kind,
                order: intent.order(),
                intent: Some(intent.id),
            })
        }
        (
            "refund.created" | "refund.updated" | "refund.failed" | "charge.refund.updated",
            Some("refund"),
        ) if is_ours(&data.object) => {
            let refund: Refund = object(data.object)?;
            let kind = match refund.status {
                Some(RefundStatus::Succeeded) => EventKind::Refunded,
                Some(RefundStatus::Failed | RefundStatus::Canceled) => EventKind::RefundFailed,
                _ => EventKind::Other,
            };
            Ok(Event {
                id,
                kind,
                order: refund.order(),
                intent: refund.payment_intent,
            })
        }
        _ => Ok(other(id)),
    }
}

/// Whether an object names an order in the way that ours do.
fn is_ours(object: &Value) -> bool {
    let order = object["metadata"][super::objects::ORDER].as_str();
    order.is_some_and(|order| order.parse::<domain::OrderId>().is_ok())
}

fn object<T: DeserializeOwned>(value: Value) -> Result<T, WebhookError> {
    // The reason names members and types, no values but unexpected ones; it is
    // shown to whoever holds the signing secret alone.
    serde_json::from_value(value).map_err(|error| WebhookError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use domain::Money;
    use serde_json::json;

    use super::*;

    const ORDER: &str = "ord_fs1111_003_0123456789abcdef0123456789abcdef";

    fn intent(changes: Value) -> Value {
        let mut intent = json!({
            "id": "pi_1", "object": "payment_intent", "amount": 999_900,
            "amount_received": 999_900, "currency": "inr", "status": "succeeded",
            "created": 1_800_000_000, "latest_charge": "ch_1",
            "metadata": {"order_id": ORDER, "sale_id": "fs1111", "bucket": "3"},
        });
        let (Value::Object(into), Value::Object(changes)) = (&mut intent, changes) else {
            unreachable!()
        };
        into.extend(changes);
        intent
    }

    fn event(kind: &str, object: &Value) -> Result<Event, WebhookError> {
        let body = json!({
            "id": "evt_1", "object": "event", "api_version": "2025-03-31.basil",
            "created": 1_800_000_000, "type": kind, "livemode": false,
            "data": {"object": object, "previous_attributes": null},
        });
        read(body.to_string().as_bytes())
    }

    fn inr(amount: u64) -> Money {
        Money {
            amount,
            currency: "INR".parse().unwrap(),
        }
    }

    #[test]
    fn events_of_intents_and_refunds_are_read() {
        for (kind, right) in [
            (
                "payment_intent.succeeded",
                EventKind::Succeeded(Some(inr(999_900))),
            ),
            ("payment_intent.payment_failed", EventKind::Failed),
            ("payment_intent.canceled", EventKind::Cancelled),
        ] {
            let read = event(kind, &intent(json!({}))).unwrap();
            assert_eq!(read.kind, right);
            assert_eq!(read.id, "evt_1");
            assert_eq!(read.intent.unwrap().as_str(), "pi_1");
            assert_eq!(read.order.unwrap().to_string(), ORDER);
        }
        for (status, right) in [
            ("succeeded", EventKind::Refunded),
            ("failed", EventKind::RefundFailed),
            ("canceled", EventKind::RefundFailed),
            ("pending", EventKind::Other),
            ("requires_action", EventKind::Other),
            ("of_next_year", EventKind::Other),
        ] {
            let refund = json!({
                "id": "re_1", "object": "refund", "amount": 999_900, "currency": "inr",
                "payment_intent": "pi_1", "status": status, "metadata": {"order_id": ORDER},
            });
            for kind in ["refund.created", "refund.updated", "charge.refund.updated"] {
                let read = event(kind, &refund).unwrap();
                assert_eq!(read.kind, right, "{kind} {status}");
                assert_eq!(read.intent.unwrap().as_str(), "pi_1");
            }
        }
    }

    /// C06: what was captured counts, not what was asked for.
    #[test]
    fn a_success_says_what_was_received() {
        for (changes, right) in [
            (json!({"amount_received": 100}), Some(inr(100))),
            (json!({"currency": "INR"}), Some(inr(999_900))),
            (json!({"amount_received": 0}), Some(inr(0))),
            (json!({"currency": "rupee"}), None),
        ] {
            let read = event("payment_intent.succeeded", &intent(changes.clone())).unwrap();
            assert_eq!(read.kind, EventKind::Succeeded(right), "{changes}");
        }
        for wrong in [
            json!({"amount_received": "999900"}),
            json!({"amount_received": -1}),
            json!({"amount_received": 999_900.0}),
            json!({"currency": null}),
            json!({"id": "a b"}),
        ] {
            let read = event("payment_intent.succeeded", &intent(wrong.clone()));
            assert!(read.is_err(), "{wrong}");
        }
    }

    /// The account's other business is none of ours, and no error either.
    #[test]
    fn what_names_no_order_of_ours_is_passed_over() {
        for metadata in [
            json!({}),
            json!(null),
            json!({"order_id": "1234"}),
            json!({"order_id": 1234}),
            json!({"order": ORDER}),
        ] {
            let foreign = intent(json!({"metadata": metadata}));
            let read = event("payment_intent.succeeded", &foreign).unwrap();
            assert_eq!((read.kind, read.intent), (EventKind::Other, None));
        }
        for kind in [
            "customer.created",
            "charge.succeeded",
            "payment_intent.created",
            "payment_intent.of_next_year",
        ] {
            let read = event(kind, &json!({"id": "x", "object": "y"})).unwrap();
            assert_eq!(read.kind, EventKind::Other);
        }
        // A status that Stripe added is no reason to lose an event.
        let new = intent(json!({"status": "of_next_year"}));
        assert!(event("payment_intent.payment_failed", &new).is_ok());
    }

    #[test]
    fn what_is_no_event_is_malformed() {
        for body in [
            "",
            "[]",
            "{",
            r#"{"id":"evt_1","type":"x"}"#,
            r#"{"id":"evt_1","type":"x","data":{}}"#,
            r#"{"id":"","type":"x","data":{"object":{}}}"#,
            r#"{"id":1,"type":"x","data":{"object":{}}}"#,
            r#"{"id":"evt_1","id":"evt_2","type":"x","data":{"object":{}}}"#,
        ] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
