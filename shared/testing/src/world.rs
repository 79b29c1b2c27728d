//! A sale that is on, with nothing between a test and its parts.

use domain::config::SaleConfig;
use domain::slot::{GateAddress, Gates};
use domain::{BucketId, ClaimId, IdempotencyKey, Order, OrderStatus, Sale, SaleId, ShopperId};
use gate::{Ask, Decision, Gate, Hold};
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use ledger::orders::Outcome;
use runtime::{Clock, Environment};
use serde_json::{Value, json};

use crate::{GateServers, database, gates};

/// A sale with its ledger and its gates.
#[derive(Debug, Clone)]
pub struct World {
    /// With which functions are started.
    pub environment: Environment,
    /// Its ledger, which nobody else uses.
    pub ledger: Ledger,
    /// Its gates' cluster.
    pub gate: Gate,
    /// Which sale.
    pub sale: SaleId,
    /// Where its gates are.
    pub gates: Gates,
}

impl World {
    /// A sale by draw that opened a minute ago, with a bucket for each
    /// capacity, on the shared cluster.
    ///
    /// # Panics
    /// If it can't be set up.
    pub async fn open(capacities: &[u32]) -> Self {
        Self::new(gates::shared(), capacities, json!({})).await
    }

    /// The same on a cluster of its own, or with other members of the sale's
    /// configuration.
    ///
    /// # Panics
    /// If it can't be set up.
    pub async fn new(servers: &GateServers, capacities: &[u32], config: Value) -> Self {
        let (environment, ledger) = database::ledger().await;
        let environment = gates::with_gates(&environment, servers);
        // Who sends a message finds no queue, unless a test puts one there.
        let queue = [
            ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9"),
            ("QUEUE_URL", "http://127.0.0.1:9/1/claims.fifo"),
        ];
        let environment = crate::with_variables(&environment, &queue);
        let gate = Gate::connect(&environment).expect("settings are given");
        let sale = gates::unique_sale();
        let now = environment.clock.now();
        write_sale(&ledger, &sale, configure(capacities, config, now)).await;
        for (bucket, &capacity) in (0u16..).map(BucketId).zip(capacities) {
            let row = ledger::orders::Bucket::new(capacity, 1);
            ledger.put_bucket(&sale, bucket, &row).await.expect("a row");
        }
        let gates = gates::load(&gate, &sale, capacities).await;
        ledger.save_gates(&sale, &gates, 0).await.expect("a row");
        Self {
            environment,
            ledger,
            gate,
            sale,
            gates,
        }
    }

    /// Now, by the clock of its functions.
    pub fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// The environment of a function whose clock is ahead: time has passed.
    pub fn later(&self, by: SignedDuration) -> Environment {
        Environment {
            clock: Clock::skewed(by),
            ..self.environment.clone()
        }
    }

    /// Where a bucket's gate is.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn address(&self, bucket: u16) -> &GateAddress {
        self.gates.of(BucketId(bucket)).expect("a bucket")
    }

    /// What a bucket's gate has left.
    ///
    /// # Panics
    /// If the gate does not answer.
    pub async fn left(&self, bucket: u16) -> u64 {
        let tag = &self.address(bucket).tag;
        self.gate.look(tag).await.expect("a loaded gate").left
    }

    /// Units of a bucket that the ledger has given to orders.
    ///
    /// # Panics
    /// If the ledger does not answer.
    pub async fn allotted(&self, bucket: u16) -> u32 {
        let row = self.ledger.bucket(&self.sale, BucketId(bucket)).await;
        row.expect("an answer").expect("a row").allotted
    }

    /// The claim that this shopper would have in a bucket.
    ///
    /// # Panics
    /// If `shopper` is not an id.
    pub fn claim_id(&self, bucket: u16, shopper: &str) -> ClaimId {
        let shopper: ShopperId = shopper.parse().expect("an id");
        let key: IdempotencyKey = "test-key".parse().expect("a key");
        ClaimId::derive(&self.sale, BucketId(bucket), &shopper, &key)
    }

    /// Claims one unit of a bucket straight at its gate.
    ///
    /// # Panics
    /// If the gate does not say yes.
    pub async fn claim(&self, bucket: u16, shopper: &str, pay_by: Timestamp) -> Hold {
        let claim = self.claim_id(bucket, shopper);
        let ask = Ask {
            shopper: &shopper.parse().expect("an id"),
            claim: &claim,
            quantity: 1,
            limit: 1,
            pay_by,
            rate_per_s: None,
        };
        match self.gate.bucket(self.address(bucket)).claim(&ask).await {
            Ok(Decision::Claimed(hold)) => hold,
            other => panic!("no yes but {other:?}"),
        }
    }

    /// What the order worker would make of a claim.
    ///
    /// # Panics
    /// If there is no such sale.
    pub async fn unwritten(&self, hold: &Hold) -> Order {
        let sale = self.ledger.sale(&self.sale).await.expect("an answer");
        let price = sale.expect("a sale").config.price;
        Order {
            claim: hold.claim.clone(),
            shopper: hold.shopper.clone(),
            quantity: hold.quantity,
            money: price.times(hold.quantity).expect("an amount"),
            status: OrderStatus::PendingPayment,
            pay_by: hold.pay_by,
            pay_until: None,
            intent: None,
            attempt: 0,
            claimed_at: self.now(),
            changed_at: self.now(),
            void_reason: None,
        }
    }

    /// Makes a claim an order, as the order worker does.
    ///
    /// # Panics
    /// If the ledger refuses it.
    pub async fn order(&self, hold: &Hold) -> Order {
        let order = self.unwritten(hold).await;
        let orders = std::slice::from_ref(&order);
        let outcomes = self
            .ledger
            .create_orders(&self.sale, hold.claim.bucket(), 1, 10, orders)
            .await
            .expect("an answer");
        assert_eq!(outcomes, [Outcome::Created]);
        order
    }

    /// An order as the ledger has it, if it does.
    ///
    /// # Panics
    /// If the ledger does not answer.
    pub async fn find(&self, claim: &ClaimId) -> Option<Order> {
        self.ledger.order(claim).await.expect("an answer")
    }

    /// How many orders of a bucket are in this status.
    ///
    /// # Panics
    /// If the ledger does not answer.
    pub async fn count(&self, bucket: u16, status: OrderStatus) -> usize {
        let whole = self.ledger.whole_bucket(&self.sale, BucketId(bucket)).await;
        let orders = whole.expect("an answer").orders;
        orders.iter().filter(|order| order.status == status).count()
    }
}

fn configure(capacities: &[u32], change: Value, now: Timestamp) -> SaleConfig {
    let mut config = json!({
        "sku": "PHONE-1",
        "name": "Phone",
        "price": {"amount": 999_900, "currency": "INR"},
        "units": capacities.iter().sum::<u32>(),
        "buckets": capacities.len(),
        "opens_at": (now - SignedDuration::from_mins(1)).to_string(),
        "mode": "draw",
        "draw_window_ms": 100,
    });
    let members = config.as_object_mut().expect("members");
    members.extend(change.as_object().expect("members").clone());
    SaleConfig::read(members.clone()).expect("a configuration")
}

async fn write_sale(ledger: &Ledger, id: &SaleId, config: SaleConfig) {
    let mut sale = Sale::new(id.clone(), config, String::new());
    sale.loaded = true;
    let secret = "5e".repeat(32);
    ledger.create_sale(&sale, &secret).await.expect("a row");
}
