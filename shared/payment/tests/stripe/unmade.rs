//! An attempt to pay that gets no intent at Stripe: it ends, and the order lives
//! on as if it had not begun.

use std::collections::HashSet;

use domain::{Order, OrderStatus};
use jiff::{SignedDuration, Timestamp};
use ledger::Ledger;
use payment::{Cashier, IntentEnd, NoIntent, Provider, Refusal};
use runtime::{Clock, Environment};
use serde_json::json;
use testing::Bucket;

use crate::stub::{Asked, KEY, Reply, Stub, create, environment, intent, kept, ok, refused};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// An order, and a cashier that asks this server.
struct Till {
    environment: Environment,
    ledger: Ledger,
    order: Order,
    stub: Stub,
}

impl Till {
    async fn at(stub: Stub) -> Self {
        let (base, ledger) = testing::ledger().await;
        let mut environment = environment(&stub.url, KEY).await;
        let more = ["TABLE_NAME", "AWS_ENDPOINT_URL_DYNAMODB"]
            .map(|name| (name, base.settings.require(name).unwrap()))
            .into_iter()
            .chain([("PAYMENT_PROVIDER", "stripe")])
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        environment.settings.extend(more);
        let bucket = Bucket::create(&ledger, 10).await;
        let now = environment.clock.now();
        Self {
            order: bucket.order("a", now, MINUTE * 10).await,
            environment,
            ledger,
            stub,
        }
    }

    fn cashier(&self, later: SignedDuration) -> Cashier {
        let environment = Environment {
            clock: Clock::skewed(later),
            ..self.environment.clone()
        };
        Cashier::connect(&environment, &self.ledger).unwrap()
    }

    async fn tap(&self) -> Result<payment::Begun, Refusal> {
        let order = self.read().await;
        self.cashier(SignedDuration::ZERO).begin(order).await
    }

    async fn read(&self) -> Order {
        self.ledger.order(&self.order.claim).await.unwrap().unwrap()
    }
}

/// Fails at every key that is new, and keeps that; `failing` calls long.
fn failing(calls: usize) -> impl FnMut(&Asked) -> Reply + Send {
    let mut seen = HashSet::new();
    let mut left = calls;
    move |asked| {
        let key = asked
            .header("idempotency-key")
            .unwrap_or_default()
            .to_owned();
        if !seen.insert(key) {
            left = left.saturating_sub(1);
            return kept();
        }
        if left == 0 {
            return ok(intent("requires_payment_method"));
        }
        left -= 1;
        Reply::Of(500, vec![], json!({"error": {"type": "api_error"}}))
    }
}

/// One tap uses up the keys of its attempt. The next one has others.
#[tokio::test]
async fn keys_that_are_used_up_end_the_attempt() {
    let till = Till::at(Stub::that(failing(6)).await).await;
    let refused = till.tap().await;
    assert!(matches!(refused, Err(Refusal::Provider(_))), "{refused:?}");
    assert_eq!(till.stub.calls(), ["POST /v1/payment_intents"; 6]);
    let waits = till.read().await;
    assert_eq!(
        (waits.status, waits.attempt),
        (OrderStatus::PendingPayment, 1)
    );
    let begun = till.tap().await.unwrap();
    assert_eq!((begun.new, begun.order.attempt), (true, 2));
    assert_eq!(till.read().await, begun.order);
}

#[tokio::test]
async fn what_stripe_refuses_ends_the_attempt() {
    let mut replies = vec![
        ok(intent("requires_payment_method")),
        refused(400, "amount_too_small"),
    ];
    let till = Till::at(Stub::that(move |_| replies.pop().unwrap()).await).await;
    let refused = till.tap().await;
    assert!(matches!(refused, Err(Refusal::Unpayable(_))), "{refused:?}");
    let waits = till.read().await;
    assert_eq!(
        (waits.status, waits.attempt),
        (OrderStatus::PendingPayment, 1)
    );
    assert_eq!(till.tap().await.unwrap().order.attempt, 2);
}

/// Nobody taps again: the hold ends in time.
#[tokio::test]
async fn a_hold_without_an_intent_ends() {
    for reply in [kept(), refused(400, "amount_too_small")] {
        let answer = reply.clone();
        let till = Till::at(Stub::that(move |_| answer.clone()).await).await;
        let now = till.environment.clock.now();
        let until = now + MINUTE * 15;
        let begun = till.ledger.begin_payment(&till.order, now, until).await;
        let begun = begun.unwrap().unwrap();
        let end = till
            .cashier(MINUTE * 16)
            .close_intent(&begun)
            .await
            .unwrap();
        let waits = till.read().await;
        assert_eq!(waits.status, OrderStatus::PendingPayment, "{reply:?}");
        assert_eq!(end, IntentEnd::MayExpire(Box::new(waits.clone())));
        assert_eq!(expired(&till, &waits, now + MINUTE * 16).await, 1);
    }
    // The control: of an answer that says nothing, nothing follows.
    let till = Till::at(Stub::that(|_| refused(401, "api_key_expired")).await).await;
    assert!(till.tap().await.is_err());
    let begun = till.read().await;
    let end = till
        .cashier(MINUTE * 16)
        .close_intent(&begun)
        .await
        .unwrap();
    assert_eq!(end, IntentEnd::Unreachable);
    assert_eq!(till.read().await.status, OrderStatus::Paying);
}

async fn expired(till: &Till, order: &Order, now: Timestamp) -> usize {
    let (sale, bucket) = (order.claim.sale(), order.claim.bucket());
    let orders = std::slice::from_ref(order);
    let ended = till
        .ledger
        .release(sale, bucket, orders, OrderStatus::Expired, now);
    ended.await.unwrap().len()
}

/// Which answers say that there is no intent, and which say nothing.
#[tokio::test]
async fn only_what_is_known_is_said() {
    for status in [400, 402, 404] {
        let stub = Stub::with([refused(status, "some_code")]).await;
        let none = stub.provider.create_intent(&create()).await.unwrap_err();
        assert!(matches!(none, NoIntent::Refused(_)), "{none:?}");
    }
    for status in [401, 403] {
        let stub = Stub::with([refused(status, "some_code")]).await;
        let none = stub.provider.create_intent(&create()).await.unwrap_err();
        assert!(matches!(none, NoIntent::Unknown(_)), "{none:?}");
    }
    let stub = Stub::that(|_| kept()).await;
    let none = stub.provider.create_intent(&create()).await.unwrap_err();
    assert!(matches!(none, NoIntent::Spent), "{none:?}");
    // An intent of another amount can be paid by nobody: its secret is not shown.
    let mut other = intent("requires_payment_method");
    other["amount"] = json!(1);
    let stub = Stub::with([ok(other)]).await;
    let none = stub.provider.create_intent(&create()).await.unwrap_err();
    assert!(matches!(none, NoIntent::Refused(_)), "{none:?}");
}
