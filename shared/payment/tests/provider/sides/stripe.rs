//! Stripe, for which localstripe stands in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use domain::IntentId;
use payment::{Intent, Provider, StripeProvider};
use runtime::Environment;
use testing::LocalStripe;
use testing::local_stripe::{BAD_CARD, GOOD_CARD, KEY, PUBLISHABLE_KEY, WEBHOOK_SECRET};
use tokio::net::TcpListener;

use super::{Sent, Side};

/// Longest wait for an event, in tenths of a second.
const WAIT: u32 = 200;

pub(crate) struct Stripe {
    provider: StripeProvider,
    server: LocalStripe,
    http: reqwest::Client,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Stripe {
    pub(crate) async fn start() -> Self {
        let sent = Arc::<Mutex<Vec<Sent>>>::default();
        let kept = Arc::clone(&sent);
        let take = async move |headers: HeaderMap, body: Bytes| {
            let signature = headers["stripe-signature"].to_str().unwrap().to_owned();
            let body = body.to_vec();
            kept.lock().unwrap().push(Sent { signature, body });
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", post(take));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let url = format!("http://{address}/");
        let server = tokio::task::spawn_blocking(move || LocalStripe::start(&url));
        let server = server.await.unwrap().unwrap();
        let (environment, _) = testing::ledger().await;
        let settings = [
            ("STRIPE_URL", server.url()),
            ("PROVIDER_KEY", KEY),
            ("WEBHOOK_SECRETS", WEBHOOK_SECRET),
        ];
        let environment = Environment {
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            ..environment
        };
        Self {
            provider: StripeProvider::connect(&environment).unwrap(),
            server,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            sent,
        }
    }
}

#[async_trait]
impl Side for Stripe {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    async fn confirm(&self, intent: &Intent, good: bool) -> bool {
        let url = format!(
            "{}/v1/payment_intents/{}/confirm",
            self.server.url(),
            intent.id.as_str()
        );
        let card = if good { GOOD_CARD } else { BAD_CARD };
        let form = serde_json::json!({
            "key": PUBLISHABLE_KEY,
            "client_secret": intent.client_secret,
            "payment_method": card,
        });
        let answer = self.http.post(url).json(&form).send().await.unwrap();
        let status = answer.status().as_u16();
        assert!(matches!(status, 200 | 400 | 402), "{status}");
        status == if good { 200 } else { 402 }
    }

    async fn told(&self, intent: &IntentId) -> Sent {
        for _ in 0..WAIT {
            let sent = self.sent.lock().unwrap().clone();
            let about = |one: &&Sent| {
                let event: serde_json::Value = serde_json::from_slice(&one.body).unwrap();
                event["data"]["object"]["id"] == intent.as_str()
            };
            if let Some(newest) = sent.iter().rev().find(about) {
                return newest.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no event about {}", intent.as_str());
    }
}
