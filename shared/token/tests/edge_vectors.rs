//! The edge function makes codes, tickets and places too, in another language:
//! the same vectors are in its tests (`infra/edge/test`).

#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::admission::Admission;
use domain::draw::{Drawn, Ticket, secret_bytes};
use jiff::Timestamp;
use runtime::Settings;
use serde_json::Value;
use token::{EdgeKeys, Grant, Signer};

fn vectors(name: &str) -> Vec<Value> {
    let all: Value =
        serde_json::from_str(include_str!("../../../infra/edge/vectors.json")).unwrap();
    all[name].as_array().unwrap().clone()
}

fn text<'a>(vector: &'a Value, member: &str) -> &'a str {
    vector[member].as_str().unwrap()
}

fn number(vector: &Value, member: &str) -> f64 {
    vector[member].as_f64().unwrap()
}

#[test]
fn codes_of_passes_are_those_that_the_edge_checks() {
    for vector in vectors("codes") {
        let settings: Settings = [
            ("EDGE_KEY", text(&vector, "key")),
            ("PASS_KEYS", "pass-key-for-tests-0123456789abcdef"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
        let at = |member| Timestamp::from_second(vector[member].as_i64().unwrap()).unwrap();
        let grant = Grant {
            sale: &text(&vector, "sale").parse().unwrap(),
            shopper: &text(&vector, "shopper").parse().unwrap(),
            pass_id: &text(&vector, "pass_id").parse().unwrap(),
            device: "d1",
            valid_from: at("nbf"),
            valid_until: at("exp"),
        };
        let edge = EdgeKeys::load(&settings).unwrap();
        let signer = Signer::load(&settings).unwrap();
        let pass = signer.pass(&edge, &grant, at("nbf")).unwrap();
        let claims = URL_SAFE_NO_PAD
            .decode(pass.split('.').nth(1).unwrap())
            .unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["mac"], vector["code"]);
        let receipt = edge.receipt(grant.sale, grant.pass_id, grant.shopper);
        assert_eq!(receipt, text(&vector, "receipt"));
    }
}

#[test]
fn tickets_are_those_that_the_edge_gives() {
    for vector in vectors("tickets") {
        let secret = secret_bytes(text(&vector, "secret")).unwrap();
        let drawn = Drawn::of(&secret, &text(&vector, "pass_id").parse().unwrap());
        assert_eq!(drawn.ticket.0, number(&vector, "ticket"));
        assert_eq!(f64::from(drawn.lot), number(&vector, "lot"));
    }
}

#[test]
fn places_and_comparisons_are_those_of_the_edge() {
    for vector in vectors("places") {
        let admission = Admission {
            entries: vector["entries"].as_u64().unwrap(),
            scale: vector["scale"].as_u64().unwrap(),
            ..Admission::default()
        };
        let ticket = Ticket(number(&vector, "ticket"));
        let units = vector["units"].as_u64().unwrap() as u32;
        assert_eq!(
            ticket.is_admitted(number(&vector, "threshold")),
            vector["admitted"].as_bool().unwrap(),
            "{vector}"
        );
        assert_eq!(
            admission.position(ticket),
            vector["position"].as_u64(),
            "{vector}"
        );
        assert_eq!(
            admission.waitlist_position(ticket, units),
            vector["waitlist_position"].as_u64(),
            "{vector}"
        );
    }
}

#[test]
fn fractions_are_written_as_the_edge_writes_them() {
    for vector in vectors("floats") {
        let written = serde_json::to_string(&Ticket(number(&vector, "value"))).unwrap();
        assert_eq!(written, text(&vector, "text"));
    }
}
