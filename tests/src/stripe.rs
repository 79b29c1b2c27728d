//! A shop that is paid through Stripe, for which localstripe stands in, and
//! Stripe's own books, read past everything of ours.

use drill::Target;
use local::Options;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use testing::LocalStripe;
use testing::local_stripe::{KEY, PUBLISHABLE_KEY, WEBHOOK_SECRET};

pub use testing::local_stripe::{BAD_CARD, GOOD_CARD};

use crate::books::Books;
use crate::deliveries::Deliveries;
use crate::{Link, Shop};

/// More than there is in any test: localstripe gives all at once.
const ALL: &str = "1000000";

/// The shop, and what is around it.
#[derive(Debug)]
pub struct StripeShop {
    /// The shop itself.
    pub shop: Shop,
    /// From the functions to Stripe. Shoppers reach it without.
    pub link: Link,
    /// From Stripe to the webhook.
    pub deliveries: Deliveries,
    server: LocalStripe,
    http: Client,
}

/// A capture in Stripe's books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// By this intent.
    pub intent: String,
    /// For this order.
    pub order: String,
    /// In minor units.
    pub amount: u64,
    /// ISO 4217, in capitals.
    pub currency: String,
    /// What went back, each time.
    pub refunds: Vec<u64>,
}

impl StripeShop {
    /// A shop with these choices.
    pub async fn start(options: Options) -> Self {
        let deliveries = Deliveries::new(1).await;
        let url = deliveries.url().to_owned();
        let server = tokio::task::spawn_blocking(move || LocalStripe::start(&url));
        let server = server.await.unwrap().expect("localstripe starts");
        let link = Link::new().await;
        link.lead_to(server.url());
        let shop = Shop::start(Options {
            stripe: Some(local::Stripe {
                url: link.url(),
                key: KEY.into(),
                webhook_secrets: format!("whsec_of_tomorrow,{WEBHOOK_SECRET}").into(),
            }),
            ..options
        })
        .await;
        deliveries.lead_to(format!("{}/v1/webhooks/stripe", shop.system.base_url()));
        Self {
            shop,
            link,
            deliveries,
            server,
            http: Client::builder().no_proxy().build().unwrap(),
        }
    }

    /// For a drill of this shop.
    pub fn target(&self) -> Target {
        let base_url = self.shop.system.base_url().to_owned();
        Target {
            token_url: format!("{base_url}/_dev/token"),
            admin_token: self.shop.system.admin_token().unwrap(),
            base_url,
            stripe: drill::config::Stripe {
                url: Some(self.server.url().to_owned()),
                publishable_key: Some(PUBLISHABLE_KEY.to_owned()),
            },
        }
    }

    /// The shopper's client confirms a payment. Stripe's status: 200 paid, 402
    /// declined, 400 not open.
    pub async fn confirm(&self, payment: &Value, card: &str) -> u16 {
        let intent = payment["intent_id"].as_str().unwrap();
        let form = json!({
            "key": PUBLISHABLE_KEY,
            "client_secret": payment["client_secret"],
            "payment_method": card,
        });
        let path = format!("/v1/payment_intents/{intent}/confirm");
        let request = self.http.post(self.at(&path)).json(&form);
        request.send().await.unwrap().status().as_u16()
    }

    /// Captures money for an order by an intent that is none of ours: a second
    /// one, of any amount. Which one.
    pub async fn capture_beside(&self, order: &str, amount: u64, currency: &str) -> String {
        let form = json!({
            "amount": amount, "currency": currency.to_lowercase(),
            "metadata": {"order_id": order},
        });
        let path = self.at("/v1/payment_intents");
        let made = self.owner(self.http.post(path).json(&form)).await;
        let payment = json!({"intent_id": made["id"], "client_secret": made["client_secret"]});
        assert_eq!(self.confirm(&payment, GOOD_CARD).await, 200);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Refunds behind our back, as someone may in Stripe's dashboard.
    pub async fn refund_beside(&self, intent: &str) {
        let form = json!({"payment_intent": intent});
        let path = self.at("/v1/refunds");
        self.owner(self.http.post(path).json(&form)).await;
    }

    /// Every capture in Stripe's books.
    pub async fn captures(&self) -> Vec<Capture> {
        let list = async |path: &str| {
            let url = self.at(&format!("{path}?limit={ALL}"));
            let page = self.owner(self.http.get(url)).await;
            assert_eq!(page["has_more"], false);
            page["data"].as_array().unwrap().clone()
        };
        let refunds = list("/v1/refunds").await;
        let intents = list("/v1/payment_intents").await;
        let succeeded = intents.iter().filter(|one| one["status"] == "succeeded");
        succeeded
            .map(|one| Capture {
                intent: text(one, "id"),
                order: text(&one["metadata"], "order_id"),
                amount: one["latest_charge"]["amount"].as_u64().unwrap(),
                currency: text(one, "currency").to_uppercase(),
                refunds: refunds
                    .iter()
                    .filter(|refund| refund["charge"] == one["latest_charge"]["id"])
                    .map(|refund| refund["amount"].as_u64().unwrap())
                    .collect(),
            })
            .collect()
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// A request with the secret key.
    async fn owner(&self, request: RequestBuilder) -> Value {
        let answer = request.bearer_auth(KEY).send().await.unwrap();
        let answer = answer.error_for_status().unwrap();
        answer.json().await.unwrap()
    }
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_default().to_owned()
}

/// Where Stripe's books and ours don't agree, to the minor unit: one capture
/// stays for a paid order, its own and whole, and every other goes back once
/// and whole.
pub fn disagreements(books: &Books, captures: &[Capture]) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_of = |capture: &Capture, order: &Value| {
        order["intent"] == capture.intent.as_str()
            && order["order_id"] == capture.order.as_str()
            && order["amount"] == capture.amount
            && order["currency"] == capture.currency.as_str()
    };
    let paid: Vec<&Value> = books
        .orders()
        .filter(|order| order["status"] == "PAID")
        .collect();
    for order in &paid {
        let of_order = captures.iter().filter(|capture| is_of(capture, order));
        let kept = of_order
            .filter(|capture| capture.refunds.is_empty())
            .count();
        if kept != 1 {
            wrong.push(format!("{kept} captures stay for {order}"));
        }
    }
    for capture in captures {
        let keeps = paid.iter().any(|order| is_of(capture, order));
        if !keeps && capture.refunds != [capture.amount] {
            wrong.push(format!("it has to go back once: {capture:?}"));
        }
    }
    wrong
}
