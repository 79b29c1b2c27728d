//! Holds whose payment has begun: the provider decides, and a success wins.

use std::time::Duration;

use domain::{Order, OrderStatus};
use futures::future::join_all;
use ledger::payments::{Refund, RefundReason};
use payment::sandbox::{SandboxProvider, Verdict};
use payment::{Cashier, Provider};
use runtime::{Environment, EventFunction, Metric};
use serde_json::json;
use sweeper_function::SweeperFunction;
use testing::{Fate, World, judged, metrics_of};

use crate::{MINUTE, SECOND, sweep};

struct Till {
    world: World,
    sandbox: SandboxProvider,
    order: Order,
}

impl Till {
    /// An order that had to be paid within a minute, and is being paid.
    async fn new() -> Self {
        let world = World::open(&[5]).await;
        let hold = world.claim(0, "u", world.now() + MINUTE).await;
        let order = world.order(&hold).await;
        let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
        let order = cashier.begin(order).await.unwrap().order;
        let sandbox = SandboxProvider::connect(&world.environment, &world.ledger).unwrap();
        Self {
            world,
            sandbox,
            order,
        }
    }

    async fn pay(&self) -> bool {
        self.confirm(Verdict::Succeed(None)).await
    }

    async fn decline(&self) {
        assert!(self.confirm(Verdict::Decline).await);
    }

    async fn confirm(&self, verdict: Verdict) -> bool {
        let id = self.order.intent.as_ref().unwrap();
        let intent = self.sandbox.intent(id, &self.order.claim.order()).await;
        let secret = intent.unwrap().unwrap().client_secret;
        let now = self.world.now();
        let confirmed = self.sandbox.confirm(id, &secret, verdict, now).await;
        confirmed.is_ok()
    }

    async fn status(&self) -> OrderStatus {
        self.world.find(&self.order.claim).await.unwrap().status
    }

    /// From now until the hold's end, and a little more.
    fn until_end(&self) -> jiff::SignedDuration {
        self.order
            .pay_until
            .unwrap()
            .duration_since(self.world.now())
            + SECOND
    }
}

#[tokio::test]
async fn paying_holds_beyond_pay_by_until_the_intent_ends() {
    let till = Till::new().await;
    sweep(&till.world, MINUTE + SECOND * 5).await;
    assert_eq!(till.status().await, OrderStatus::Paying);
    assert_eq!(till.world.left(0).await, 4);
    // It is looked at again, but not at once.
    let tag = &till.world.address(0).tag;
    let now = till.world.now() + MINUTE + SECOND * 5;
    assert_eq!(till.world.gate.due(tag, now).await.unwrap(), []);
    let moved = till.world.gate.due(tag, now + SECOND * 2).await.unwrap();
    assert_eq!(moved, std::slice::from_ref(&till.order.claim));
}

#[tokio::test]
async fn a_payment_that_is_declined_after_pay_by_ends_the_hold_at_the_next_look() {
    let till = Till::new().await;
    sweep(&till.world, MINUTE + SECOND * 5).await;
    let intent = till.order.intent.as_ref().unwrap();
    let declined = till.world.now() + MINUTE + SECOND * 6;
    let ended = till.world.ledger.end_attempt(&till.order, intent, declined);
    assert!(ended.await.unwrap());
    sweep(&till.world, MINUTE + SECOND * 7).await;
    assert_eq!(till.status().await, OrderStatus::Expired);
    assert_eq!(till.world.left(0).await, 5);
}

#[tokio::test]
async fn an_intent_that_nobody_paid_is_closed_before_the_unit_returns() {
    let till = Till::new().await;
    let end = till.until_end();
    for _ in 0..2 {
        sweep(&till.world, end).await;
        assert_eq!(till.status().await, OrderStatus::Expired);
        assert_eq!(till.world.left(0).await, 5);
        assert_eq!(till.world.allotted(0).await, 0);
    }
    assert!(!till.pay().await, "the intent is closed");
}

#[tokio::test]
async fn a_success_of_which_no_event_told_wins_over_the_end() {
    let till = Till::new().await;
    assert!(till.pay().await);
    let end = till.until_end();
    for _ in 0..2 {
        sweep(&till.world, end).await;
        assert_eq!(till.status().await, OrderStatus::Paid);
        assert_eq!(till.world.left(0).await, 4);
        assert_eq!(till.world.allotted(0).await, 1);
    }
    let tag = &till.world.address(0).tag;
    assert_eq!(till.world.gate.look(tag).await.unwrap().due, 0);
}

/// A hold whose attempt was declined ends at `pay_by`; its intent could be
/// confirmed again, so it is closed first, and a success that came before wins.
#[tokio::test]
async fn a_declined_intent_is_asked_about_before_its_hold_ends() {
    for succeeds in [false, true] {
        let till = Till::new().await;
        let intent = till.order.intent.as_ref().unwrap();
        till.decline().await;
        let now = till.world.now();
        let ended = till.world.ledger.end_attempt(&till.order, intent, now);
        assert!(ended.await.unwrap());
        if succeeds {
            assert!(till.pay().await, "a declined intent can be tried again");
        }
        sweep(&till.world, MINUTE + SECOND).await;
        let (status, left) = match succeeds {
            true => (OrderStatus::Paid, 4),
            false => (OrderStatus::Expired, 5),
        };
        assert_eq!(till.status().await, status);
        assert_eq!(till.world.left(0).await, left);
        if !succeeds {
            assert!(!till.pay().await, "the intent is closed");
        }
    }
}

/// Nobody hears of the provider any more.
fn silent(environment: &Environment) -> Environment {
    judged(environment, |asked| {
        if asked.body.to_string().contains("SANDBOX#") {
            return Fate::Late(Duration::from_secs(20));
        }
        Fate::Passed
    })
}

/// A provider that hangs holds up what it may still be paid for, and nothing else.
#[tokio::test]
async fn no_unit_waits_for_the_provider_of_another_order() {
    let till = Till::new().await;
    let hold = till.world.claim(0, "v", till.world.now() + MINUTE).await;
    till.world.order(&hold).await;
    let end = till.until_end();
    let environment = silent(&till.world.later(end));
    let sweeper = SweeperFunction::start(&environment).await.unwrap();
    let back = async {
        while till.world.left(0).await < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        swept = sweeper.sweep() => panic!("the provider has answered: {swept:?}"),
        () = back => {}
    }
    assert_eq!(till.status().await, OrderStatus::Paying);
}

/// So many payments of a bucket that more than one question is open at a time, in more
/// buckets than are looked at together: the last one has a hold that nobody pays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bucket_waits_for_the_provider_of_another() {
    let world = World::open(&[10; 17]).await;
    let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
    let pays = async |bucket, n| {
        let shopper = format!("u_{bucket}_{n}");
        let hold = world.claim(bucket, &shopper, world.now() + MINUTE).await;
        let order = world.order(&hold).await;
        cashier.begin(order).await.unwrap();
    };
    let paying = (0..16).flat_map(|bucket| (0..9).map(move |n| (bucket, n)));
    join_all(paying.map(|(bucket, n)| pays(bucket, n))).await;
    let hold = world.claim(16, "v", world.now() + MINUTE).await;
    world.order(&hold).await;
    let environment = silent(&world.later(MINUTE * 20));
    let sweeper = SweeperFunction::start(&environment).await.unwrap();
    let back = async {
        while world.left(16).await < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ((), metrics) = metrics_of(async {
        tokio::select! {
            swept = sweeper.sweep() => panic!("the provider has answered: {swept:?}"),
            () = back => {}
        }
    })
    .await;
    // Nor has any question been given up by then.
    let given_up = metrics.overall(Metric::IntentUnreachable);
    assert_eq!(given_up, &[] as &[f64]);
    assert_eq!(world.count(0, OrderStatus::Paying).await, 9);
}

/// Of a provider that answers nothing, no bucket asks on and on.
#[tokio::test]
async fn a_bucket_whose_provider_is_silent_is_left_for_the_next_look() {
    let world = World::open(&[30]).await;
    let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
    for n in 0..17 {
        let shopper = format!("u_{n}");
        let hold = world.claim(0, &shopper, world.now() + MINUTE).await;
        let order = world.order(&hold).await;
        cashier.begin(order).await.unwrap();
    }
    let end = MINUTE * 20;
    let environment = judged(&world.later(end), |asked| {
        if asked.body.to_string().contains("SANDBOX#") {
            return Fate::Answered(400, json!({ "__type": "AccessDeniedException" }));
        }
        Fate::Passed
    });
    let sweeper = SweeperFunction::start(&environment).await.unwrap();
    let (swept, metrics) = metrics_of(sweeper.sweep()).await;
    assert!(swept.unwrap());
    assert_eq!(metrics.overall(Metric::IntentUnreachable).len(), 8);
    assert_eq!(world.count(0, OrderStatus::Paying).await, 17);
    // All of them, once it answers.
    sweep(&world, end).await;
    assert_eq!(world.count(0, OrderStatus::Expired).await, 17);
    assert_eq!(world.left(0).await, 30);
}

/// Neither refunds nor payments whose deadline the gate has lost keep a gate from being
/// compared, in whichever bucket.
#[tokio::test]
async fn no_comparison_waits_for_a_provider() {
    let till = Till::new().await;
    let world = &till.world;
    let hold = world.claim(0, "v", world.now() + MINUTE * 60).await;
    let order = world.order(&hold).await;
    let intent = "late".parse().unwrap();
    let refund = Refund::owed(
        &order.claim,
        &intent,
        order.money,
        RefundReason::Late,
        world.now(),
    );
    let owed = world.ledger.owe_refund(&order, &refund, None).await;
    owed.unwrap();
    world.gate.put(world.address(0), 3).await.unwrap();
    let sweeper = SweeperFunction::start(&silent(&world.later(till.until_end()))).await;
    let sweeper = sweeper.unwrap();
    let lowered = async {
        while world.left(0).await > 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ((), metrics) = metrics_of(async {
        tokio::select! {
            kept = sweeper.keep_up() => panic!("the provider has answered: {kept:?}"),
            () = lowered => {}
        }
    })
    .await;
    for given_up in [Metric::IntentUnreachable, Metric::RefundUnconfirmed] {
        assert_eq!(metrics.overall(given_up), &[] as &[f64], "{given_up:?}");
    }
    assert_eq!(till.status().await, OrderStatus::Paying);
}
