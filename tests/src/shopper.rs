//! One shopper of a sale.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Answer, OnSale, eventually};

/// How often a shopper who is told to try again does.
const RETRIES: u32 = 40;
/// Longest wait for an order, or for a place in line to be admitted.
const WAIT_S: u64 = 15;

/// A shopper with a session and a pass, and with a place in line once one was
/// had.
#[derive(Debug)]
pub struct Shopper<'a> {
    /// The sale that they came to.
    pub sale: &'a OnSale<'a>,
    /// The session's `sub`.
    pub name: String,
    /// Their session.
    pub session: String,
    /// Their pass.
    pub pass: String,
    /// Their entry token: from an entry, or from a "sold out" in a race.
    pub entry: OnceLock<String>,
}

impl<'a> Shopper<'a> {
    /// A session and a pass for this name.
    pub async fn with_pass(sale: &'a OnSale<'a>, name: &str) -> Self {
        let session = sale.shop.session(name);
        let request = sale
            .shop
            .request(Method::POST, &sale.path("/passes"))
            .bearer_auth(&session)
            .body(json!({"device": format!("device of {name}")}).to_string());
        let answer = retried(request).await;
        assert!(matches!(answer.status, 200 | 201), "{:#}", answer.json);
        Self {
            sale,
            name: name.to_owned(),
            session,
            pass: answer.text("pass").to_owned(),
            entry: OnceLock::new(),
        }
    }

    /// A request with the session.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.sale
            .shop
            .request(method, path)
            .bearer_auth(&self.session)
    }

    /// A request below the sale with all that the shopper has.
    pub fn sale_request(&self, method: Method, rest: &str) -> RequestBuilder {
        let request = self
            .request(method, &self.sale.path(rest))
            .header("sale-pass", &self.pass);
        match self.entry.get() {
            Some(entry) => request.header("sale-entry", entry),
            None => request,
        }
    }

    /// A tap.
    pub async fn enter(&self) -> Answer {
        let answer = retried(self.sale_request(Method::POST, "/entries")).await;
        self.note(&answer);
        answer
    }

    fn note(&self, answer: &Answer) {
        let token = answer.text("entry_token");
        if !token.is_empty() {
            // Another call may have noted the same place before.
            let _ = self.entry.set(token.to_owned());
        }
    }

    /// The key that this shopper's page would use.
    pub fn key(&self) -> String {
        format!("key-of-{}", self.name)
    }

    /// Claims one unit; a second call is a repetition.
    pub async fn claim(&self) -> Answer {
        self.claim_as(&self.key()).await
    }

    /// Claims one unit under another key.
    pub async fn claim_as(&self, key: &str) -> Answer {
        self.claim_with(key, "{}").await
    }

    /// Claims with this body; the first answer, whatever it is.
    pub async fn claim_with(&self, key: &str, body: &str) -> Answer {
        let answer = Answer::of(self.claim_request(key, body)).await;
        self.note(&answer);
        answer
    }

    /// A claim that is not sent yet.
    pub fn claim_request(&self, key: &str, body: &str) -> RequestBuilder {
        self.sale_request(Method::POST, "/claims")
            .header("idempotency-key", key)
            .body(body.to_owned())
    }

    /// Claims as a page does: again with the same key while the answer is to
    /// try again.
    pub async fn claim_patiently(&self) -> Answer {
        let answer = retried(self.claim_request(&self.key(), "{}")).await;
        self.note(&answer);
        answer
    }

    /// Claims until the place in line is admitted and a unit is had.
    pub async fn claim_when_admitted(&self) -> Answer {
        let what = format!("{} is admitted", self.name);
        eventually(&what, WAIT_S, async || {
            Some(self.claim_patiently().await).filter(Answer::is_yes)
        })
        .await
    }

    /// A claim and its order, claimed now.
    pub async fn hold(&self) -> Value {
        let answer = self.claim_patiently().await;
        assert!(answer.is_yes(), "{:#}", answer.json);
        self.ordered(&answer.json).await;
        answer.json
    }

    /// What is known of a claim.
    pub async fn read_claim(&self, claim: &Value) -> Answer {
        Answer::of(self.request(Method::GET, &claim_path(claim))).await
    }

    /// Gives a hold back.
    pub async fn give_back(&self, claim: &Value) -> Answer {
        Answer::of(self.request(Method::DELETE, &claim_path(claim))).await
    }

    /// What is known of a claim's order.
    pub async fn read_order(&self, claim: &Value) -> Answer {
        Answer::of(self.request(Method::GET, &order_path(claim, ""))).await
    }

    /// Waits until a claim has an order that this status describes.
    pub async fn order_is(&self, claim: &Value, status: &str) -> Value {
        let what = format!("the order of {} is {status}", self.name);
        eventually(&what, WAIT_S, async || {
            Some(self.read_order(claim).await.json).filter(|order| order["status"] == status)
        })
        .await
    }

    /// Waits until a claim has an order.
    pub async fn ordered(&self, claim: &Value) -> Value {
        let what = format!("{} has an order", self.name);
        eventually(&what, WAIT_S, async || {
            let order = self.read_order(claim).await;
            (order.status == 200).then_some(order.json)
        })
        .await
    }

    /// Opens the payment of a claim's order.
    pub async fn begin_payment(&self, claim: &Value) -> Answer {
        retried(self.request(Method::POST, &order_path(claim, "/payments"))).await
    }

    /// Confirms a payment at the sandbox; gives the provider's event.
    pub async fn confirm(&self, payment: &Value, outcome: &str, captured: Option<Value>) -> Event {
        let answer = self.try_confirm(payment, outcome, captured).await;
        Event::of(&answer.expect(200).json["event"])
    }

    /// Confirms a payment at the sandbox, if it is open.
    pub async fn try_confirm(
        &self,
        payment: &Value,
        outcome: &str,
        captured: Option<Value>,
    ) -> Answer {
        let intent = payment["intent_id"].as_str().unwrap();
        let mut body = json!({"client_secret": payment["client_secret"], "outcome": outcome});
        if let Some(captured) = captured {
            body["captured"] = captured;
        }
        let path = format!("/v1/sandbox/intents/{intent}/confirm");
        let request = self.sale.shop.request(Method::POST, &path);
        Answer::of(request.body(body.to_string())).await
    }

    /// Pays a claim whose order exists; every step must go well.
    pub async fn pay(&self, claim: &Value) -> Value {
        let payment = self.begin_payment(claim).await;
        assert!(matches!(payment.status, 200 | 201), "{:#}", payment.json);
        let event = self.confirm(&payment.json, "succeed", None).await;
        event.deliver(self).await.expect(200);
        self.read_order(claim).await.expect(200).json
    }

    /// Claims, pays, and is shown a paid order.
    pub async fn buy(&self) -> Value {
        let claim = self.hold().await;
        assert_eq!(self.pay(&claim).await["status"], "PAID");
        claim
    }
}

/// An event as the provider sends it.
#[derive(Debug, Clone)]
pub struct Event {
    /// The body, to the byte.
    pub payload: String,
    /// The signature's header.
    pub signature: String,
}

impl Event {
    fn of(json: &Value) -> Self {
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        Self {
            payload: text("payload"),
            signature: text("signature"),
        }
    }

    /// Delivers it.
    pub async fn deliver(&self, shopper: &Shopper<'_>) -> Answer {
        shopper
            .sale
            .shop
            .webhook(&self.payload, &self.signature)
            .await
    }
}

/// `/v1/claims/{claim}`.
pub fn claim_path(claim: &Value) -> String {
    format!("/v1/claims/{}", claim["claim_id"].as_str().unwrap())
}

/// `/v1/orders/{order}` and what follows.
pub fn order_path(claim: &Value, rest: &str) -> String {
    let order = claim["order"]["order_id"].as_str().unwrap();
    format!("/v1/orders/{order}{rest}")
}

/// Sends a request again while the answer is to try again.
async fn retried(request: RequestBuilder) -> Answer {
    for _ in 0..RETRIES {
        let answer = Answer::of(request.try_clone().expect("the body is text")).await;
        if !matches!(answer.status, 429 | 503) {
            return answer;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Answer::of(request).await
}
