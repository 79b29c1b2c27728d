//! A sale in memory that speaks the API: one bucket, its rules those of
//! `domain`, and faults that can be switched on to see whether the drill
//! notices them. It refunds nothing: its payments are decided by the deadline.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri};
use domain::admission::{Gates, step};
use domain::config::SaleConfig;
use domain::draw::Ticket;
use domain::order::OrderStatus;
use domain::{BucketId, ClaimId, Sale};
use jiff::{SignedDuration, Timestamp};
use runtime::Clock;
use serde_json::{Value, json};

/// What the fake does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Gives out units that do not exist.
    Oversell,
    /// Answers one claim in five with a yes that it does not keep.
    ForgetYes,
    /// Never takes lapsed units back.
    NeverSweep,
    /// Captures and leaves the order unpaid.
    LoseMoney,
}

struct Row {
    claim: ClaimId,
    shopper: String,
    status: OrderStatus,
    pay_by: Timestamp,
    claimed_at: Timestamp,
    changed_at: Timestamp,
    intent: Option<String>,
}

struct Intent {
    row: usize,
    status: &'static str,
}

#[derive(Default)]
struct Fake {
    sale: Option<Sale>,
    left: i64,
    taken: u64,
    late: u64,
    claims: u64,
    tickets: BTreeMap<String, f64>,
    rows: Vec<Row>,
    intents: BTreeMap<String, Intent>,
    rounds: Vec<Value>,
}

type Shared = (Arc<Mutex<Fake>>, Fault);

/// Starts it on a free port; it lives as long as the test.
pub(crate) async fn start(fault: Fault) -> String {
    let fake = Arc::new(Mutex::new(Fake::default()));
    let ticking = fake.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ticking.lock().unwrap().tick(fault);
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new()
        .fallback(handle)
        .with_state((fake, fault));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

fn now() -> Timestamp {
    Clock::system().now()
}

fn answer(status: u16, body: Value) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("cache-control", "public, max-age=1")
        .header("retry-after", "1")
        .body(Body::from(body.to_string()))
        .unwrap()
}

fn problem(status: u16, error: &str) -> Response<Body> {
    answer(status, json!({ "error": error, "status": status }))
}

async fn handle(
    State((fake, fault)): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let header = |name: &str| headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    let shopper = header("authorization")
        .unwrap_or_default()
        .replace("Bearer ", "");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let mut fake = fake.lock().unwrap();
    match (method.as_str(), path.as_slice()) {
        ("POST", ["_dev", "token"]) => answer(200, json!({ "access_tokens": body["subs"] })),
        ("POST", ["v1", "admin", "sales"]) => fake.create(body),
        ("GET", [.., "preflight"]) => answer(200, json!({"ready": true, "checks": []})),
        ("POST", [.., "end"]) => answer(200, json!({})),
        ("GET", [.., "report"]) if uri.query().is_some() => answer(200, fake.bucket_report()),
        ("GET", [.., "report"]) => answer(200, fake.summary()),
        ("GET", [.., "status"]) => answer(200, fake.status()),
        ("POST", [.., "passes"]) => answer(201, json!({"pass": shopper, "pass_id": shopper})),
        ("POST", [.., "entries"]) => fake.enter(&shopper),
        ("POST", [.., "claims"]) => {
            assert_eq!(header("sale-pass").as_deref(), Some(shopper.as_str()));
            fake.claim(&shopper, &header("idempotency-key").unwrap(), fault)
        }
        ("GET" | "DELETE", ["v1", "claims" | "orders", id]) => fake.order(method == "DELETE", id),
        ("POST", ["v1", "orders", id, "payments"]) => fake.pay(id),
        ("POST", ["v1", "sandbox", "intents", id, "confirm"]) => fake.confirm(id, &body),
        ("POST", ["v1", "webhooks", "sandbox"]) => {
            assert_eq!(header("sandbox-signature").as_deref(), Some("signed"));
            fake.webhook(&body, fault)
        }
        _ => problem(404, "not_found"),
    }
}

impl Fake {
    fn sale(&self) -> &Sale {
        self.sale.as_ref().unwrap()
    }

    fn create(&mut self, body: Value) -> Response<Body> {
        let Value::Object(mut members) = body else {
            return problem(400, "malformed_request");
        };
        let id = members.remove("sale_id").unwrap();
        match SaleConfig::read(members) {
            Err(errors) => answer(
                422,
                json!({"error": "invalid_field", "detail": format!("{errors:?}")}),
            ),
            Ok(config) => {
                self.left = i64::from(config.units);
                let id = id.as_str().unwrap().parse().unwrap();
                self.sale = Some(Sale::new(id, config, String::new()));
                answer(201, json!({}))
            }
        }
    }

    fn tick(&mut self, fault: Fault) {
        if self.sale.is_none() {
            return;
        }
        for row in &mut self.rows {
            let paid = row
                .intent
                .as_ref()
                .is_some_and(|intent| self.intents[intent].status == "succeeded");
            if row.status == OrderStatus::Paying
                && paid
                && now() > row.pay_by
                && fault != Fault::LoseMoney
            {
                // The webhook never came: the provider was asked.
                row.status = OrderStatus::Paid;
            } else if row.status.holds_units()
                && row.status != OrderStatus::Paid
                && now() > row.pay_by
                && fault != Fault::NeverSweep
            {
                row.status = OrderStatus::Expired;
                row.changed_at = now();
                self.left += 1;
            }
        }
        let gates = Gates {
            free: self.left.max(0) as u64,
            taken: self.taken,
            due: self.count(OrderStatus::PendingPayment) + self.count(OrderStatus::Paying),
            entries: self.tickets.len() as u64 - self.late,
            late: self.late,
            complete: true,
            ..Gates::default()
        };
        let next = step(self.sale(), gates, now());
        if next.admission.round > self.sale().admission.round {
            self.rounds.push(json!({
                "round": next.admission.round, "at": now(), "admitted": next.admission.admitted,
                "offered": next.admission.offered, "threshold": next.admission.threshold,
            }));
        }
        self.sale = Some(next);
    }

    fn count(&self, status: OrderStatus) -> u64 {
        self.rows.iter().filter(|row| row.status == status).count() as u64
    }

    fn status(&self) -> Value {
        let sale = self.sale();
        json!({
            "state": sale.state, "stock": "AVAILABLE", "server_time": now(), "paused": false,
            "draw": {"entries": sale.admission.entries, "threshold": sale.admission.threshold,
                     "round": sale.admission.round},
        })
    }

    fn place(&mut self, shopper: &str) -> f64 {
        if let Some(ticket) = self.tickets.get(shopper) {
            return *ticket;
        }
        let sale = self.sale();
        let drawn = sale.config.is_draw() && now() < sale.config.draw_closes_at();
        let ticket = if drawn {
            Ticket::drawn(b"secret", &shopper.parse().unwrap())
        } else {
            Ticket::late(self.late + 1, self.sale().admission.scale)
        };
        self.late += u64::from(!drawn);
        self.tickets.insert(shopper.to_owned(), ticket.0);
        ticket.0
    }

    fn enter(&mut self, shopper: &str) -> Response<Body> {
        if !self.sale().has_opened(now()) {
            return problem(425, "not_open");
        }
        let ticket = self.place(shopper);
        answer(
            201,
            json!({"ticket": ticket, "position": null, "entry_token": "entry"}),
        )
    }

    fn claim(&mut self, shopper: &str, key: &str, fault: Fault) -> Response<Body> {
        self.claims += 1;
        if self.claims.is_multiple_of(20) {
            return problem(503, "frozen");
        }
        let held = self
            .rows
            .iter()
            .find(|row| row.shopper == shopper && row.status.holds_units());
        if let Some(row) = held {
            return answer(200, json!({"claim_id": row.claim, "status": "CLAIMED"}));
        }
        let sale = self.sale().clone();
        let id = ClaimId::derive(
            &sale.id,
            BucketId(0),
            &shopper.parse().unwrap(),
            &key.parse().unwrap(),
        );
        if sale.config.is_draw() || sale.admission.waitlist_open {
            let admitted = self
                .tickets
                .get(shopper)
                .is_some_and(|t| *t < sale.admission.threshold);
            if !admitted && self.tickets.contains_key(shopper) {
                return problem(403, "not_admitted");
            }
        }
        if self.left <= 0 && fault != Fault::Oversell {
            let ticket = self.place(shopper);
            return answer(
                409,
                json!({"error": "sold_out", "waitlist_position": 1, "ticket": ticket,
                                      "entry_token": "entry"}),
            );
        }
        if fault == Fault::ForgetYes && self.claims.is_multiple_of(5) {
            return answer(201, json!({"claim_id": id, "status": "CLAIMED"}));
        }
        self.left -= 1;
        self.taken += 1;
        self.rows.push(Row {
            claim: id.clone(),
            shopper: shopper.to_owned(),
            status: OrderStatus::PendingPayment,
            pay_by: sale.pay_by(now()),
            claimed_at: now(),
            changed_at: now(),
            intent: None,
        });
        answer(201, json!({"claim_id": id, "status": "CLAIMED"}))
    }

    fn find(&self, id: &str) -> Option<usize> {
        let digest = id.rsplit('_').next().unwrap();
        self.rows
            .iter()
            .position(|row| row.claim.digest() == digest)
    }

    fn order(&mut self, give_back: bool, id: &str) -> Response<Body> {
        let Some(n) = self.find(id) else {
            return problem(404, "not_found");
        };
        let row = &mut self.rows[n];
        if now() < row.claimed_at + SignedDuration::from_millis(200) {
            return problem(409, "order_not_ready");
        }
        if give_back {
            if row.status != OrderStatus::PendingPayment {
                return problem(409, "not_cancellable");
            }
            row.status = OrderStatus::Cancelled;
            self.left += 1;
        }
        answer(200, json!({"status": self.rows[n].status}))
    }

    fn pay(&mut self, id: &str) -> Response<Body> {
        let Some(n) = self.find(id) else {
            return problem(404, "not_found");
        };
        let fresh = format!("pi_{n}_{}", self.intents.len());
        let row = &mut self.rows[n];
        match row.status {
            OrderStatus::PendingPayment => {
                row.status = OrderStatus::Paying;
                row.intent = Some(fresh.clone());
                self.intents.insert(
                    fresh,
                    Intent {
                        row: n,
                        status: "open",
                    },
                );
            }
            OrderStatus::Paying => {}
            _ => return problem(409, "expired"),
        }
        let row = &self.rows[n];
        answer(
            201,
            json!({"intent_id": row.intent, "client_secret": "s", "expires_at": row.pay_by}),
        )
    }

    fn confirm(&mut self, id: &str, body: &Value) -> Response<Body> {
        let Some(intent) = self.intents.get_mut(id) else {
            return problem(404, "not_found");
        };
        if self.rows[intent.row].status != OrderStatus::Paying {
            return problem(409, "expired");
        }
        intent.status = if body["outcome"] == "succeed" {
            "succeeded"
        } else {
            "declined"
        };
        let payload = json!({"intent": id, "status": intent.status}).to_string();
        answer(
            200,
            json!({"event": {"payload": payload, "signature": "signed"}}),
        )
    }

    fn webhook(&mut self, body: &Value, fault: Fault) -> Response<Body> {
        let id = body["intent"].as_str().unwrap();
        let row = &mut self.rows[self.intents[id].row];
        let current = row.intent.as_deref() == Some(id);
        if row.status == OrderStatus::Paying && current {
            row.changed_at = now();
            row.status = match body["status"].as_str() {
                Some("succeeded") if fault != Fault::LoseMoney => OrderStatus::Paid,
                Some("succeeded") => OrderStatus::Paying,
                _ => OrderStatus::PendingPayment,
            };
        }
        answer(200, json!({}))
    }

    fn summary(&self) -> Value {
        let units = self.sale().config.units;
        let (held, paying, paid) = (
            self.count(OrderStatus::PendingPayment),
            self.count(OrderStatus::Paying),
            self.count(OrderStatus::Paid),
        );
        json!({
            "units": units, "free": self.left, "held": held, "paying": paying, "paid": paid,
            "buckets": [{"bucket": 0, "capacity": units, "allotted": held + paying + paid,
                         "free": self.left, "held": held, "paying": paying, "paid": paid,
                         "in_flight": 0}],
            "rounds": self.rounds,
        })
    }

    fn bucket_report(&self) -> Value {
        let price = self.sale().config.price;
        let orders: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "claim_id": row.claim, "order_id": row.claim.order(), "shopper": row.shopper,
                    "quantity": 1, "amount": price.amount, "currency": price.currency,
                    "status": row.status, "pay_by": row.pay_by, "pay_until": row.pay_by,
                    "claimed_at": row.claimed_at, "changed_at": row.changed_at,
                    "intent": row.intent,
                })
            })
            .collect();
        let line = |id: &str, intent: &Intent| {
            json!({
                "intent": id, "order_id": self.rows[intent.row].claim.order(),
                "amount": price.amount, "currency": price.currency, "status": intent.status,
            })
        };
        let payments: Vec<_> = self
            .intents
            .iter()
            .map(|(id, intent)| line(id, intent))
            .collect();
        json!({"bucket": 0, "orders": orders, "payments": payments, "refunds": []})
    }
}
