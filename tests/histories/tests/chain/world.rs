//! A small sale, functions that stop in it, and what must hold meanwhile.

use std::cell::{Cell, RefCell};

use api::HttpFunction;
use claim_function::ClaimFunction;
use domain::bucket::home;
use domain::{BucketId, ClaimId, Order, OrderStatus, PassId, Sale, ShopperId};
use histories::bench::{BUCKETS, Bench, persistently};
use histories::promises::{self, Told};
use histories::seen::{Seen, group};
use jiff::SignedDuration;
use order_function::OrderFunction;
use runtime::{Clock, Environment, EventFunction, Invocation};
use serde_json::{Value, json};
use sweeper_function::SweeperFunction;
use testing::{Point, Steps, http_event, session};
use token::{EdgeKeys, Grant, Signer};

/// Laps of everybody's work after which nothing may be left.
const LAPS: usize = 8;

/// The key of every claim that names none.
pub(crate) const KEY: &str = "my-first-try";

/// How often "not now" is tried again.
const TAPS: usize = 10;

/// Shoppers that a test may name.
const SHOPPERS: usize = 6;

/// What stops.
pub(crate) trait Work: Sized {
    /// Which function, with what to do.
    const NAME: &'static str;
    /// Units of the buckets.
    const UNITS: [u32; BUCKETS as usize];
    /// Brings a sale to where the work begins.
    async fn prepare(world: &World<'_>) -> Self;
    /// One run, as the cloud starts it, for the first time or again.
    async fn run(&self, world: &World<'_>, environment: Environment);
    /// What must have come of it.
    async fn check(&self, world: &World<'_>);
}

/// What came of all stops of one function.
pub(crate) struct Line {
    name: &'static str,
    steps: usize,
    stops: usize,
    runs: usize,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            steps,
            stops,
            runs,
        } = self;
        write!(f, "| {name} | {steps} | {stops} | in {runs} sales |")
    }
}

/// Stops work after each step, and the run that follows after each of its own;
/// then it runs to its end.
pub(crate) fn twice<W: Work>(bench: &Bench) -> Line {
    let mut line = Line {
        name: W::NAME,
        steps: 0,
        stops: 0,
        runs: 0,
    };
    for first in 1.. {
        for second in 1.. {
            let stops =
                persistently(|| Ok(bench.runtime.block_on(stop::<W>(bench, first, second))));
            let (stops, _) = stops.unwrap_or_else(|why| panic!("{why}"));
            if stops == 0 {
                line.steps = first - 1;
                assert!(line.steps >= 2, "{}: nothing to stop", W::NAME);
                return line;
            }
            line.stops += stops;
            line.runs += 1;
            if stops == 1 {
                break;
            }
        }
    }
    line
}

/// Stops work after so many steps, and the next run after so many of its own.
/// How often it did stop: it may have fewer steps.
async fn stop<W: Work>(bench: &Bench, first: usize, second: usize) -> usize {
    let at = format!("{}, stopped after {first}, then after {second}", W::NAME);
    let world = World::open(bench, W::UNITS, at).await;
    let work = W::prepare(&world).await;
    world.holds().await;
    let mut stops = 0;
    for after in [first, second] {
        if !world.stopped(after, &work).await {
            break;
        }
        stops += 1;
        world.holds().await;
    }
    if stops == 2 {
        work.run(&world, world.environment()).await;
    }
    world.holds().await;
    work.check(&world).await;
    world.rest().await;
    world.close().await;
    stops
}

/// A sale, and what its shoppers were told.
pub(crate) struct World<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) sale: Sale,
    units: u32,
    at: String,
    at_s: Cell<i64>,
    told: RefCell<Told>,
    signer: Signer,
    edge: EdgeKeys,
}

/// An answer: status and body.
pub(crate) type Answer = (u16, Value);

impl<'a> World<'a> {
    async fn open(bench: &'a Bench, units: [u32; BUCKETS as usize], at: String) -> Self {
        let now = bench.environment.clock.now();
        let settings = &bench.environment.settings;
        Self {
            sale: bench.sale(units, 1, now).await,
            units: units.iter().sum(),
            bench,
            at,
            at_s: Cell::new(0),
            told: RefCell::default(),
            signer: Signer::load(settings).unwrap(),
            edge: EdgeKeys::load(settings).unwrap(),
        }
    }

    /// The n-th shopper who is at home in this bucket.
    pub(crate) fn shopper(&self, bucket: u16, n: usize) -> ShopperId {
        let all = shoppers();
        let mut at_home = all.filter(|shopper| home(shopper, BUCKETS) == BucketId(bucket));
        at_home.nth(n).unwrap()
    }

    /// As functions are started now.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            clock: Clock::skewed(SignedDuration::from_secs(self.at_s.get())),
            ..self.bench.environment.clone()
        }
    }

    /// Time passes.
    pub(crate) fn wait(&self, seconds: i64) {
        self.at_s.set(self.at_s.get() + seconds);
        self.bench.services.queue().now_s = self.at_s.get();
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.environment().clock.now()
    }

    /// Runs work until so many steps are carried out; whether it made as many.
    async fn stopped<W: Work>(&self, after: usize, work: &W) -> bool {
        let steps = Steps::to(Point::AfterRequest(after));
        let proxy = self.bench.proxy(steps.clone()).await;
        let environment = steps.counted(&self.environment());
        let environment = self.bench.with_gates(&environment, &proxy.url());
        let ran = steps.stop(work.run(self, environment)).await;
        ran.is_none()
    }

    pub(crate) async fn seen(&self) -> Seen {
        let shoppers: Vec<_> = shoppers().collect();
        Seen::read(self.bench, &self.sale, &shoppers).await
    }

    /// Whatever happened, no promise is broken.
    async fn holds(&self) {
        let seen = self.seen().await;
        let told = self.told.borrow();
        let held = promises::always(&seen, 1, self.units, &told)
            .and_then(|()| promises::a_yes_stands(&seen, &told))
            .and_then(|()| promises::never_too_many(&seen));
        if let Err(broken) = held {
            panic!("{}: {broken}", self.at);
        }
    }

    /// Everybody does their work, time passes, and nothing may be left.
    async fn rest(&self) {
        for _ in 0..LAPS {
            for bucket in 0..BUCKETS {
                while self.deliver(&self.environment(), bucket).await {}
            }
            self.sweep(&self.environment(), true).await;
            self.wait(60);
            if promises::at_rest(&self.seen().await, &self.told.borrow()).is_ok() {
                return;
            }
        }
        if let Err(broken) = promises::at_rest(&self.seen().await, &self.told.borrow()) {
            panic!("{}: {broken}", self.at);
        }
    }

    async fn close(&self) {
        self.bench.close(&self.sale.id).await;
    }

    /// A call of API Gateway.
    pub(crate) async fn call<F: HttpFunction>(
        &self,
        environment: &Environment,
        route: &str,
        parameters: Value,
        change: Value,
    ) -> Answer {
        let function = F::start(environment).await.unwrap();
        let event = http_event(route, &parameters, change);
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        let response = api::invoke(&function, request).await;
        let body = serde_json::from_slice(response.body()).unwrap();
        (response.status().as_u16(), body)
    }

    /// A shopper's claim of one unit, with a place in line if they have one.
    pub(crate) async fn claim(
        &self,
        environment: &Environment,
        shopper: &ShopperId,
        entry: Option<&str>,
    ) -> Answer {
        let pass_id: PassId = format!("pass-{shopper}").parse().unwrap();
        let opened = self.sale.config.opens_at.at;
        let grant = Grant {
            sale: &self.sale.id,
            shopper,
            pass_id: &pass_id,
            device: "d1",
            valid_from: opened,
            valid_until: self.sale.config.closes_at.at,
        };
        let pass = self.signer.pass(&self.edge, &grant, opened).unwrap();
        let mut change = session(shopper.as_str(), &[]);
        change["headers"] = json!({"sale-pass": pass, "idempotency-key": KEY});
        if let Some(entry) = entry {
            change["headers"]["sale-entry"] = entry.into();
        }
        let route = "POST /v1/sales/{sale}/claims";
        let parameters = json!({"sale": self.sale.id});
        let tap = async || {
            let (parameters, change) = (parameters.clone(), change.clone());
            self.call::<ClaimFunction>(environment, route, parameters, change)
                .await
        };
        let mut answer = tap().await;
        // A page does so too.
        for _ in 0..TAPS {
            if answer.0 == 503 {
                answer = tap().await;
            }
        }
        let (status, body) = answer;
        if matches!(status, 200 | 201) && body["status"] == "CLAIMED" {
            let claim: ClaimId = body["claim_id"].as_str().unwrap().parse().unwrap();
            self.told.borrow_mut().yes.insert(claim);
        }
        (status, body)
    }

    /// The claim of a shopper who is told yes.
    pub(crate) async fn claimed(&self, shopper: &ShopperId) -> ClaimId {
        let (status, body) = self.claim(&self.environment(), shopper, None).await;
        self.demand(matches!(status, 200 | 201), (status, &body));
        body["claim_id"].as_str().unwrap().parse().unwrap()
    }

    /// A claim of which no message is stored: the function stopped before.
    pub(crate) async fn unsent(&self, shopper: &ShopperId) -> ClaimId {
        let claim = self.claimed(shopper).await;
        self.told.borrow_mut().yes.remove(&claim);
        let group = group(&self.sale, claim.bucket().0);
        let mut queue = self.bench.services.queue();
        let bodies = queue.first(&group, 1);
        bodies.iter().for_each(|body| queue.delete(&group, body));
        claim
    }

    /// The order of a shopper whose message was read.
    pub(crate) async fn ordered(&self, shopper: &ShopperId) -> Order {
        let claim = self.claimed(shopper).await;
        assert!(self.deliver(&self.environment(), claim.bucket().0).await);
        self.order(&claim).await.unwrap()
    }

    pub(crate) async fn order(&self, claim: &ClaimId) -> Option<Order> {
        self.bench.ledger.order(claim).await.unwrap()
    }

    /// The queue hands a group's messages to a worker; whether there were any.
    pub(crate) async fn deliver(&self, environment: &Environment, bucket: u16) -> bool {
        let group = group(&self.sale, bucket);
        let bodies = self.bench.services.queue().first(&group, 10);
        if bodies.is_empty() {
            return false;
        }
        let records = (0..).zip(&bodies).map(|(n, body)| {
            json!({
                "messageId": n.to_string(), "body": body,
                "attributes": {}, "messageAttributes": {},
            })
        });
        let records: Vec<Value> = records.collect();
        let event = serde_json::from_value(json!({"Records": records})).unwrap();
        let invocation = Invocation {
            request_id: "request".to_owned(),
            deadline: self.now() + SignedDuration::from_mins(1),
        };
        let worker = OrderFunction::start(environment).await.unwrap();
        let answer = worker.handle(event, invocation).await.unwrap();
        assert_eq!(answer.batch_item_failures.len(), 0, "{}", self.at);
        let mut queue = self.bench.services.queue();
        bodies.iter().for_each(|body| queue.delete(&group, body));
        true
    }

    pub(crate) async fn sweep(&self, environment: &Environment, compares: bool) {
        let sweeper = SweeperFunction::start(environment).await.unwrap();
        sweeper.sweep().await.unwrap();
        if compares {
            sweeper.keep_up().await.unwrap();
        }
    }

    /// Sweeps until an order has ended: a gate may be too slow for one look.
    pub(crate) async fn sweep_until(&self, claim: &ClaimId, status: OrderStatus) -> Order {
        let mut order = self.order(claim).await.unwrap();
        for _ in 0..TAPS {
            if order.status != status {
                self.sweep(&self.environment(), false).await;
                order = self.order(claim).await.unwrap();
            }
        }
        self.demand(order.status == status, &order);
        order
    }

    /// Fails with where it stopped.
    pub(crate) fn demand(&self, holds: bool, seen: impl std::fmt::Debug) {
        assert!(holds, "{}: {seen:?}", self.at);
    }

    pub(crate) fn told_after_all(&self, intent: &domain::IntentId, claim: &ClaimId) {
        let told = &mut self.told.borrow_mut().after_all;
        told.insert(intent.clone(), claim.clone());
    }
}

fn shoppers() -> impl Iterator<Item = ShopperId> {
    (0..SHOPPERS).map(|n| format!("u_{n}").parse().unwrap())
}
