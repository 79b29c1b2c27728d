//! One sale of a shop.

use domain::slot::Gates;
use domain::{BucketId, SaleId, ShopperId, bucket};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::Value;

use crate::books::{Books, Rules};
use crate::{Answer, Shop, Shopper, all, eventually, until_after};

/// Beyond this, whatever a sale is waited for is not coming.
const REST_LIMIT_S: u64 = 20;

/// A sale, and the people who come to it.
#[derive(Debug)]
pub struct OnSale<'a> {
    /// The shop that it is in.
    pub shop: &'a Shop,
    /// Its name.
    pub id: String,
    /// When it opens.
    pub opens_at: Timestamp,
    /// Its buckets.
    pub buckets: u16,
    /// As the merchant was shown it when it was made.
    pub made: Value,
}

impl<'a> OnSale<'a> {
    /// A sale that exists, as the merchant sees it.
    pub fn new(shop: &'a Shop, made: &Value) -> Self {
        Self {
            shop,
            id: made["sale_id"].as_str().unwrap().to_owned(),
            opens_at: made["opens_at"].as_str().unwrap().parse().unwrap(),
            buckets: made["buckets"].as_u64().unwrap() as u16,
            made: made.clone(),
        }
    }

    /// Its name, as the parts know it.
    pub fn sale_id(&self) -> SaleId {
        self.id.parse().unwrap()
    }

    /// `/v1/sales/{sale}` and what follows.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sales/{}{rest}", self.id)
    }

    /// A call of the merchant below the sale.
    pub async fn admin(&self, method: Method, rest: &str, body: &Value) -> Answer {
        let path = format!("/v1/admin/sales/{}{rest}", self.id);
        self.shop.admin(method, &path, body).await
    }

    /// Turns a switch.
    pub async fn turn(&self, switch: &str) {
        let turned = self
            .admin(Method::POST, &format!("/{switch}"), &Value::Null)
            .await;
        assert_eq!(turned.status, 200, "{:#}", turned.json);
    }

    /// Asks for other units.
    pub async fn resize(&self, units: Value) -> Answer {
        self.admin(Method::PATCH, "", &serde_json::json!({"units": units}))
            .await
    }

    /// Sleeps until it is open by every clock of this machine.
    pub async fn opened(&self) -> &Self {
        until_after(self.opens_at, 5).await;
        self
    }

    /// A shopper with a session and a pass.
    pub async fn shopper(&self, name: &str) -> Shopper<'_> {
        Shopper::with_pass(self, name).await
    }

    /// So many shoppers with passes.
    pub async fn crowd(&self, count: usize) -> Vec<Shopper<'_>> {
        let names = (0..count).map(|_| self.shop.fresh("shopper-"));
        all(names.map(|name| async move { self.shopper(&name).await })).await
    }

    /// A shopper whose home is this bucket.
    pub async fn shopper_at(&self, home: u16) -> Shopper<'_> {
        loop {
            let name = self.shop.fresh("at-home-");
            let id: ShopperId = name.parse().unwrap();
            if bucket::home(&id, self.buckets) == BucketId(home) {
                return self.shopper(&name).await;
            }
        }
    }

    /// The public status.
    pub async fn status(&self) -> Value {
        self.shop.get(&self.path("/status")).await.expect(200).json
    }

    /// Waits until the public status shows this state.
    pub async fn reaches(&self, state: &str) -> Value {
        let what = format!("{} is {state}", self.id);
        eventually(&what, REST_LIMIT_S, async || {
            Some(self.status().await).filter(|status| status["state"] == state)
        })
        .await
    }

    /// The merchant's report.
    pub async fn report(&self) -> Value {
        self.admin(Method::GET, "/report", &Value::Null)
            .await
            .expect(200)
            .json
    }

    /// A number of the report.
    pub async fn count(&self, name: &str) -> i64 {
        self.report().await[name].as_i64().unwrap()
    }

    /// Waits until a number of the report is this one.
    pub async fn comes_to(&self, name: &str, value: i64) {
        let what = format!("{name} of {} is {value}", self.id);
        eventually(&what, REST_LIMIT_S, async || {
            (self.count(name).await == value).then_some(())
        })
        .await;
    }

    /// The whole report, checked for what must be true at any time.
    pub async fn books(&self) -> Books {
        let report = self.report().await;
        let buckets = all((0..self.buckets).map(|n| async move {
            let rest = format!("/report?bucket={n}");
            self.admin(Method::GET, &rest, &Value::Null)
                .await
                .expect(200)
                .json
        }))
        .await;
        let books = Books { report, buckets };
        let broken = books.broken(Rules::AtAnyTime);
        assert!(broken.is_empty(), "{broken:#?}\n{books:#?}");
        books
    }

    /// The whole report once nothing is on its way, checked for what must be
    /// true at rest too.
    pub async fn rest(&self) -> Books {
        eventually("nothing is on its way", REST_LIMIT_S, async || {
            let report = self.report().await;
            (report["in_flight"] == 0 && report["returning"] == 0).then_some(())
        })
        .await;
        let books = self.books().await;
        let broken = books.broken(Rules::AtRest);
        assert!(broken.is_empty(), "{broken:#?}\n{books:#?}");
        books
    }

    /// Where its gates are.
    pub async fn gates(&self) -> Gates {
        let gates = self.shop.ledger().gates(&self.sale_id()).await;
        gates.unwrap().expect("the sale is loaded")
    }

    /// The hash tag of a bucket.
    pub async fn tag(&self, bucket: u16) -> String {
        self.gates().await.of(BucketId(bucket)).unwrap().tag.clone()
    }

    /// Moves units from a bucket to another, at the gates and in the ledger.
    pub async fn move_units(&self, from: u16, to: u16, units: u32) {
        let (gate, ledger, id) = (self.shop.gate(), self.shop.ledger(), self.sale_id());
        let (from, to) = (BucketId(from), BucketId(to));
        let gates = self.gates().await;
        let taken = gate.take(gates.of(from).unwrap(), units).await.unwrap();
        assert_eq!(taken, units);
        let lives = [from, to].map(|id| (id, gates.of(id).unwrap().epoch));
        let moved = ledger.move_capacity(&id, lives, units).await;
        assert!(moved.unwrap());
        gate.put(gates.of(to).unwrap(), units).await.unwrap();
    }
}
