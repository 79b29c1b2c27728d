//! The gates of a sale, and shoppers in front of them.

use domain::bucket::home;
use domain::slot::{GateAddress, Gates, tag};
use domain::{BucketId, ClaimId, IdempotencyKey, SaleId, ShopperId};
use gate::bucket::BucketGate;
use gate::sale::Request;
use gate::upkeep::Truth;
use gate::{Ask, Decision, Error, Gate, Hold, Release, SaleGates};
use jiff::{SignedDuration, Timestamp};
use runtime::Environment;
use testing::{GateServers, gates};

pub(crate) const KEY: &str = "key-0001";
pub(crate) const OTHER_KEY: &str = "key-0002";

/// One sale's gates.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) environment: Environment,
    pub(crate) gate: Gate,
    pub(crate) sale: SaleId,
    pub(crate) gates: Gates,
}

/// What a shopper wants.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) shopper: ShopperId,
    pub(crate) key: IdempotencyKey,
    pub(crate) quantity: u32,
    pub(crate) limit: u32,
    pub(crate) rate_per_s: Option<u32>,
}

/// One unit, at most one.
pub(crate) fn wish(shopper: &str, key: &str) -> Wish {
    Wish {
        shopper: shopper.parse().unwrap(),
        key: key.parse().unwrap(),
        quantity: 1,
        limit: 1,
        rate_per_s: None,
    }
}

impl Wish {
    pub(crate) fn of(self, quantity: u32, limit: u32) -> Self {
        Self {
            quantity,
            limit,
            ..self
        }
    }
}

impl Shop {
    pub(crate) async fn open(capacities: &[u32]) -> Self {
        Self::on(gates::shared(), capacities).await
    }

    pub(crate) async fn on(servers: &GateServers, capacities: &[u32]) -> Self {
        Self::of(gates::environment(servers), capacities).await
    }

    pub(crate) async fn of(environment: Environment, capacities: &[u32]) -> Self {
        let gate = Gate::connect(&environment).unwrap();
        let sale = gates::unique_sale();
        let gates = gates::load(&gate, &sale, capacities).await;
        Self {
            environment,
            gate,
            sale,
            gates,
        }
    }

    /// Buckets on different servers, in turn.
    pub(crate) async fn spread(servers: &GateServers, capacities: &[u32]) -> Self {
        let environment = gates::environment(servers);
        let gate = Gate::connect(&environment).unwrap();
        let sale = gates::unique_sale();
        let owned = gate.primaries().await.unwrap();
        let mut addresses = Vec::new();
        for (n, &left) in capacities.iter().enumerate() {
            let tag = tag(&sale, BucketId(n as u16), &owned[n % owned.len()]);
            let address = GateAddress { tag, epoch: 1 };
            let truth = Truth {
                left,
                ..Truth::default()
            };
            gate.load(&address, &truth).await.unwrap();
            addresses.push(address);
        }
        Self {
            environment,
            gate,
            sale,
            gates: Gates { addresses },
        }
    }

    /// The same, one bucket made true in its next life.
    pub(crate) async fn anew(&self, bucket: u16, truth: &Truth) -> Self {
        let mut gates = self.gates.clone();
        let address = &mut gates.addresses[usize::from(bucket)];
        address.epoch += 1;
        self.gate.load(address, truth).await.unwrap();
        Self {
            environment: self.environment.clone(),
            gate: self.gate.clone(),
            sale: self.sale.clone(),
            gates,
        }
    }

    /// Which server has a bucket.
    pub(crate) fn server_of(&self, servers: &GateServers, bucket: u16) -> usize {
        let has = |index: &usize| {
            let mut connection = servers.connect(*index).unwrap();
            redis::cmd("HGET")
                .arg(format!("{{{}}}:stock", self.tag(bucket)))
                .arg("left")
                .query::<String>(&mut connection)
                .is_ok()
        };
        (0..servers.primaries()).find(has).unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    pub(crate) fn address(&self, bucket: u16) -> &GateAddress {
        self.gates.of(BucketId(bucket)).unwrap()
    }

    pub(crate) fn tag(&self, bucket: u16) -> &str {
        &self.address(bucket).tag
    }

    pub(crate) fn bucket(&self, bucket: u16) -> BucketGate {
        self.gate.bucket(self.address(bucket))
    }

    pub(crate) fn all(&self) -> SaleGates {
        SaleGates::new(&self.gate, &self.sale, &self.gates)
    }

    pub(crate) fn claim_id(&self, bucket: u16, wish: &Wish) -> ClaimId {
        ClaimId::derive(&self.sale, BucketId(bucket), &wish.shopper, &wish.key)
    }

    /// Asks one bucket.
    pub(crate) async fn claim(&self, bucket: u16, wish: &Wish) -> Result<Decision, Error> {
        let claim = self.claim_id(bucket, wish);
        self.bucket(bucket).claim(&self.ask(wish, &claim)).await
    }

    /// Marks the shopper in one bucket for a claim in another.
    pub(crate) async fn mark(
        &self,
        bucket: u16,
        elsewhere: u16,
        wish: &Wish,
    ) -> Result<Decision, Error> {
        self.mark_after(0, bucket, elsewhere, wish).await
    }

    /// The same, in place of a mark that led nowhere.
    pub(crate) async fn mark_after(
        &self,
        turn: u64,
        bucket: u16,
        elsewhere: u16,
        wish: &Wish,
    ) -> Result<Decision, Error> {
        let claim = self.claim_id(elsewhere, wish);
        let ask = self.ask(wish, &claim);
        self.bucket(bucket).mark(&ask, turn).await
    }

    /// Asks the bucket to which the mark of this turn leads.
    pub(crate) async fn claim_after(
        &self,
        turn: u64,
        bucket: u16,
        wish: &Wish,
    ) -> Result<Decision, Error> {
        let claim = self.claim_id(bucket, wish);
        let ask = self.ask(wish, &claim);
        self.bucket(bucket).claim_marked(&ask, turn).await
    }

    fn ask<'a>(&self, wish: &'a Wish, claim: &'a ClaimId) -> Ask<'a> {
        Ask {
            shopper: &wish.shopper,
            claim,
            quantity: wish.quantity,
            limit: wish.limit,
            pay_by: self.now() + SignedDuration::from_mins(10),
            rate_per_s: wish.rate_per_s,
        }
    }

    /// Asks the sale, as the claim function does.
    pub(crate) async fn buy(&self, wish: &Wish) -> Result<Decision, Error> {
        self.all().claim(&self.request(wish)).await
    }

    /// Asks for what is held already, as when nothing is given out.
    pub(crate) async fn held(&self, wish: &Wish) -> Option<Decision> {
        self.all().held(&self.request(wish)).await.unwrap()
    }

    /// What the claim function asks the sale.
    pub(crate) fn request<'a>(&self, wish: &'a Wish) -> Request<'a> {
        Request {
            shopper: &wish.shopper,
            key: &wish.key,
            quantity: wish.quantity,
            limit: wish.limit,
            pay_by: self.now() + SignedDuration::from_mins(10),
            rate_per_s: wish.rate_per_s,
        }
    }

    pub(crate) async fn release(&self, bucket: u16, claim: &ClaimId, how: Release) -> bool {
        self.gate
            .release(self.tag(bucket), claim, how)
            .await
            .unwrap()
    }

    pub(crate) async fn left(&self, bucket: u16) -> u64 {
        self.gate.look(self.tag(bucket)).await.unwrap().left
    }

    pub(crate) async fn left_of_all(&self) -> Vec<u64> {
        let mut left = Vec::new();
        for bucket in 0..self.gates.addresses.len() {
            left.push(self.left(bucket as u16).await);
        }
        left
    }

    /// The name of a shopper at home in this bucket, the n-th of them.
    pub(crate) fn at_home(&self, bucket: u16, n: usize) -> String {
        let count = self.gates.addresses.len() as u16;
        (0..)
            .map(|number| format!("u_{number}"))
            .filter(|shopper| home(&shopper.parse().unwrap(), count).0 == bucket)
            .nth(n)
            .unwrap()
    }
}

/// The hold of a yes.
pub(crate) fn claimed(decision: Result<Decision, Error>) -> Hold {
    match decision {
        Ok(Decision::Claimed(hold)) => hold,
        other => panic!("no yes but {other:?}"),
    }
}

/// The hold of a yes that was said before.
pub(crate) fn same(decision: Result<Decision, Error>) -> Hold {
    match decision {
        Ok(Decision::Same(hold)) => hold,
        other => panic!("not the same claim but {other:?}"),
    }
}

/// What a shopper holds who asked for too much.
pub(crate) fn holds(decision: Result<Decision, Error>) -> (Hold, u32) {
    match decision {
        Ok(Decision::Holds(hold, units)) => (hold, units),
        other => panic!("no earlier claim but {other:?}"),
    }
}
