//! A server that gives prepared answers, and notes what it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, Uri};
use domain::{BucketId, ClaimId, IntentId, Money, OrderId, ShopperId};
use jiff::{SignedDuration, Timestamp};
use payment::{CreateIntent, RefundRequest, StripeProvider};
use runtime::{Clock, Environment};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub(crate) const KEY: &str = "sk_test_never_to_be_seen";

/// A request, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `POST /v1/refunds`.
    pub(crate) call: String,
    /// The query, or the form.
    pub(crate) fields: BTreeMap<String, String>,
    headers: HeaderMap,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A prepared answer.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Status, headers, document.
    Of(u16, Vec<(&'static str, &'static str)>, Value),
    /// The same, after a while.
    Late(Box<Reply>),
    /// None, for longer than anyone waits.
    Silence,
}

pub(crate) fn ok(document: Value) -> Reply {
    Reply::Of(200, vec![], document)
}

pub(crate) fn refused(status: u16, code: &str) -> Reply {
    let error = json!({"error": {"type": "invalid_request_error", "code": code}});
    Reply::Of(status, vec![], error)
}

/// A failure that Stripe has kept for the key.
pub(crate) fn kept() -> Reply {
    let error = json!({"error": {"type": "api_error"}});
    Reply::Of(500, vec![("idempotent-replayed", "true")], error)
}

type Answers = Box<dyn FnMut(&Asked) -> Reply + Send>;

/// The server, and the provider that calls it.
pub(crate) struct Stub {
    pub(crate) provider: StripeProvider,
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stub {
    /// Gives these answers, one after the other.
    pub(crate) async fn with(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        let next = move |asked: &Asked| {
            let reply = replies.pop_front();
            reply.unwrap_or_else(|| panic!("asked once more: {asked:?}"))
        };
        Self::that(next).await
    }

    /// Answers as this decides.
    pub(crate) async fn that(answers: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let answers: Arc<Mutex<Answers>> = Arc::new(Mutex::new(Box::new(answers)));
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let noted = Arc::clone(&asked);
        let answer = async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let text = match method {
                Method::GET => uri.query().unwrap_or_default().as_bytes().to_vec(),
                _ => body.to_vec(),
            };
            let asked = Asked {
                call: format!("{method} {}", uri.path()),
                fields: form_urlencoded::parse(&text).into_owned().collect(),
                headers,
            };
            noted.lock().unwrap().push(asked.clone());
            let mut reply = answers.lock().unwrap()(&asked);
            if let Reply::Late(later) = reply {
                tokio::time::sleep(Duration::from_millis(300)).await;
                reply = *later;
            }
            match reply {
                Reply::Of(status, headers, document) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    response.body(Body::from(document.to_string())).unwrap()
                }
                Reply::Late(_) | Reply::Silence => {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Response::new(Body::empty())
                }
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            provider: StripeProvider::connect(&environment(&url, KEY).await).unwrap(),
            url,
            asked,
        }
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The calls of it.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.asked().into_iter().map(|one| one.call).collect()
    }
}

/// What the provider finds around it.
pub(crate) async fn environment(url: &str, key: &str) -> Environment {
    let (environment, _) = testing::ledger().await;
    let settings = [
        ("STRIPE_URL", url),
        ("PROVIDER_KEY", key),
        ("WEBHOOK_SECRETS", "whsec_test"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Environment {
        settings: settings.into_iter().collect(),
        ..environment
    }
}

pub(crate) fn now() -> Timestamp {
    Clock::system().now()
}

pub(crate) fn order() -> OrderId {
    order_of("a")
}

pub(crate) fn order_of(shopper: &str) -> OrderId {
    let shopper: ShopperId = shopper.parse().unwrap();
    let key = "key-of-a-claim".parse().unwrap();
    ClaimId::derive(&"sale".parse().unwrap(), BucketId(3), &shopper, &key).order()
}

pub(crate) fn inr(amount: u64) -> Money {
    Money {
        amount,
        currency: "INR".parse().unwrap(),
    }
}

pub(crate) fn pi() -> IntentId {
    "pi_1".parse().unwrap()
}

/// An intent of this order, in this state.
pub(crate) fn intent(status: &str) -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "amount": 999_900, "currency": "inr",
        "amount_received": if status == "succeeded" { 999_900 } else { 0 },
        "status": status, "client_secret": "pi_1_secret_2", "created": 1_800_000_000,
        "last_payment_error": null, "latest_charge": null, "of_next_year": {"a": [1]},
        "metadata": {"order_id": order(), "sale_id": "sale", "bucket": "3"},
    })
}

pub(crate) fn create() -> CreateIntent {
    CreateIntent {
        order: order(),
        sale: "sale".parse().unwrap(),
        money: inr(999_900),
        idempotency_key: "key".to_owned(),
        expires_at: now() + SignedDuration::from_mins(15),
    }
}

pub(crate) fn refund() -> RefundRequest {
    RefundRequest {
        intent: pi(),
        order: order(),
        money: inr(999_900),
        idempotency_key: "refund-pi_1".to_owned(),
    }
}
