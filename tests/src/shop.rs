//! A running system and its merchant.

use std::sync::atomic::{AtomicU32, Ordering};

use controller_function::ControllerFunction;
use gate::Gate;
use jiff::SignedDuration;
use ledger::Ledger;
use local::{Options, System};
use payment::signature::WebhookSecrets;
use publisher_function::PublisherFunction;
use reqwest::{Client, Method, RequestBuilder};
use runtime::{Environment, EventFunction};
use serde_json::{Map, Value, json};
use sweeper_function::SweeperFunction;

use crate::{Answer, OnSale, now};

/// A sale opens so long after it was made, if the test does not say more.
const LEAD_MS: i64 = 700;

/// A whole system for one test.
#[derive(Debug)]
pub struct Shop {
    /// The system, for tests that reach behind the API.
    pub system: System,
    options: Options,
    http: Client,
    merchant: String,
    made: AtomicU32,
}

impl Shop {
    /// What tests run with if they say nothing else: one primary without a
    /// replica, so that a yes is a 201 however busy the machine is.
    pub fn options() -> Options {
        Options {
            replicas: 0,
            environments_max: 120,
            ..Options::default()
        }
    }

    /// These choices, and intents that can be paid for so many seconds: how
    /// long a unit waits for a payment of which nobody told.
    pub fn with_intents_of(seconds: u32, mut options: Options) -> Options {
        for function in ["payment-function", "sweeper-function"] {
            let variable = ("PAYMENT_INTENT_S".to_owned(), seconds.to_string());
            let settings = options.settings.entry(function.to_owned()).or_default();
            settings.extend([variable]);
        }
        options
    }

    /// A system with everything running.
    pub async fn open() -> Self {
        Self::start(Self::options()).await
    }

    /// A system in which neither controller nor sweeper run by themselves:
    /// a test calls them when it likes.
    pub async fn quiet() -> Self {
        Self::start(Options {
            schedules: false,
            ..Self::options()
        })
        .await
    }

    /// A system with these choices.
    pub async fn start(options: Options) -> Self {
        let system = System::start(options.clone())
            .await
            .expect("a system starts");
        Self {
            merchant: system.admin_token().unwrap(),
            http: Client::builder().no_proxy().build().unwrap(),
            made: AtomicU32::new(0),
            system,
            options,
        }
    }

    /// A name that this shop has not used.
    pub fn fresh(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.made.fetch_add(1, Ordering::Relaxed))
    }

    /// A request without a session.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.system.base_url()))
    }

    /// A request with the merchant's session.
    pub fn admin_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request(method, path).bearer_auth(&self.merchant)
    }

    /// A call of the merchant; `null` is no body.
    pub async fn admin(&self, method: Method, path: &str, body: &Value) -> Answer {
        let mut request = self.admin_request(method, path);
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        Answer::of(request).await
    }

    /// `GET` without a session.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    /// A shopper's session.
    pub fn session(&self, name: &str) -> String {
        self.system.session_token(name).unwrap()
    }

    /// What a merchant sends for a sale that opens soon: a race for one unit,
    /// with these fields changed.
    pub fn draft(&self, changes: Value) -> Map<String, Value> {
        let opens_at = now() + SignedDuration::from_millis(LEAD_MS);
        let Value::Object(mut draft) = json!({
            "sale_id": self.fresh("sale-"),
            "sku": "PHONE-1",
            "name": "Phone",
            "price": {"amount": 999_900, "currency": "INR"},
            "units": 1,
            "opens_at": opens_at.to_string(),
            "mode": "race",
            "pay_window_s": 120,
            "waitlist_pay_window_s": 120,
            "claim_spread_s": 0,
            "no_show_percent": 0,
        }) else {
            unreachable!()
        };
        if changes["mode"] == "draw" {
            draft.insert("draw_window_ms".into(), 800.into());
        } else {
            draft.insert("race_rate_per_s".into(), 1_000_000.into());
        }
        let Value::Object(changes) = changes else {
            panic!("changes are an object")
        };
        draft.extend(changes);
        draft
    }

    /// Makes a sale of [`Shop::draft`].
    pub async fn sale(&self, changes: Value) -> OnSale<'_> {
        self.sale_in(LEAD_MS, changes).await
    }

    /// Makes a sale that opens in so many milliseconds.
    pub async fn sale_in(&self, ms: i64, mut changes: Value) -> OnSale<'_> {
        if changes.get("opens_at").is_none() {
            let opens_at = now() + SignedDuration::from_millis(ms);
            changes["opens_at"] = opens_at.to_string().into();
        }
        let draft = Value::Object(self.draft(changes));
        let made = self.admin(Method::POST, "/v1/admin/sales", &draft).await;
        OnSale::new(self, &made.expect(201).json)
    }

    /// What a function finds around it.
    pub fn environment(&self, function: &str) -> Environment {
        self.system
            .environment_of(function, &self.options)
            .expect("there is such a function")
    }

    /// What a function finds around it, with a clock that is ahead.
    pub fn environment_ahead(&self, function: &str, by: SignedDuration) -> Environment {
        let mut options = self.options.clone();
        options.skew.insert(function.to_owned(), by);
        self.system.environment_of(function, &options).unwrap()
    }

    /// The gates, as a function reaches them.
    pub fn gate(&self) -> Gate {
        Gate::connect(&self.environment("sweeper-function")).unwrap()
    }

    /// The ledger, as a function reaches it.
    pub fn ledger(&self) -> Ledger {
        Ledger::connect(&self.environment("sweeper-function")).unwrap()
    }

    /// A sweeper that sweeps when it is told to.
    pub async fn sweeper(&self) -> SweeperFunction {
        self.sweeper_ahead(SignedDuration::ZERO).await
    }

    /// A sweeper whose clock is ahead.
    pub async fn sweeper_ahead(&self, by: SignedDuration) -> SweeperFunction {
        SweeperFunction::start(&self.environment_ahead("sweeper-function", by))
            .await
            .unwrap()
    }

    /// A controller that looks when it is told to.
    pub async fn controller(&self) -> ControllerFunction {
        ControllerFunction::start(&self.environment("controller-function"))
            .await
            .unwrap()
    }

    /// A publisher that tells the edge when it is told to.
    pub async fn publisher(&self) -> PublisherFunction {
        PublisherFunction::start(&self.environment("publisher-function"))
            .await
            .unwrap()
    }

    /// Signs a webhook as the provider does, and delivers it.
    pub async fn forge_webhook(&self, payload: &str) -> Answer {
        let settings = self.environment("payment-function").settings;
        let secrets = WebhookSecrets::from_settings(&settings).unwrap();
        let signature = secrets.sign(payload.as_bytes(), now());
        self.webhook(payload, &signature).await
    }

    /// Delivers a webhook.
    pub async fn webhook(&self, payload: &str, signature: &str) -> Answer {
        let request = self
            .request(Method::POST, "/v1/webhooks/sandbox")
            .header("content-type", "application/json")
            .header("sandbox-signature", signature)
            .body(payload.to_owned());
        Answer::of(request).await
    }
}
