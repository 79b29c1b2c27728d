//! The clauses.

use std::collections::BTreeSet;

use domain::{BucketId, ClaimId, IntentId, Money, OrderId, SaleId, ShopperId};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use payment::{
    CancelOutcome, CreateIntent, EventKind, Intent, IntentStatus, ProviderPayment, RefundOutcome,
    RefundRequest, WebhookError,
};
use runtime::Clock;

use crate::sides::Side;

fn now() -> Timestamp {
    Clock::system().now()
}

fn sale() -> SaleId {
    "sale".parse().unwrap()
}

fn order_at(sale: &SaleId, bucket: u16, shopper: &str) -> OrderId {
    let shopper: ShopperId = shopper.parse().unwrap();
    let key = "key-of-a-claim".parse().unwrap();
    ClaimId::derive(sale, BucketId(bucket), &shopper, &key).order()
}

fn order(shopper: &str) -> OrderId {
    order_at(&sale(), 3, shopper)
}

fn money(amount: u64, currency: &str) -> Money {
    Money {
        amount,
        currency: currency.parse().unwrap(),
    }
}

fn price() -> Money {
    money(999_900, "INR")
}

fn asked(order: &OrderId, money: Money, attempt: u32) -> CreateIntent {
    CreateIntent {
        order: order.clone(),
        sale: order.sale().clone(),
        money,
        idempotency_key: format!("{order}-{attempt}"),
        expires_at: now() + SignedDuration::from_mins(15),
    }
}

async fn create(side: &impl Side, order: &OrderId) -> Intent {
    let request = asked(order, price(), 1);
    side.provider().create_intent(&request).await.unwrap()
}

async fn captured(side: &impl Side, order: &OrderId) -> Intent {
    let intent = create(side, order).await;
    assert!(side.confirm(&intent, true).await);
    intent
}

async fn status(side: &impl Side, intent: &IntentId, order: &OrderId) -> IntentStatus {
    let found = side.provider().intent(intent, order).await.unwrap();
    found.unwrap().status
}

async fn books(side: &impl Side, sale: &SaleId, bucket: u16) -> Vec<ProviderPayment> {
    let since = now() - SignedDuration::from_hours(1);
    let provider = side.provider();
    provider.list(sale, BucketId(bucket), since).await.unwrap()
}

fn refund_of(intent: &Intent, order: &OrderId) -> RefundRequest {
    RefundRequest {
        intent: intent.id.clone(),
        order: order.clone(),
        money: intent.money,
        idempotency_key: format!("refund-{}", intent.id.as_str()),
    }
}

/// Asked again, and side by side, the same key is the same intent, as it is by
/// then; another key is another one.
pub(crate) async fn a_key_is_an_intent(side: &impl Side) {
    let order = order("a");
    let request = asked(&order, price(), 1);
    let taps = join_all((0..8).map(|_| side.provider().create_intent(&request))).await;
    let taps: Vec<Intent> = taps.into_iter().map(Result::unwrap).collect();
    let intent = &taps[0];
    assert!(taps.iter().all(|tap| tap == intent));
    assert_eq!((intent.money, intent.status), (price(), IntentStatus::Open));
    assert!(side.confirm(intent, true).await);
    let again = side.provider().create_intent(&request).await.unwrap();
    assert_eq!(again.id, intent.id);
    assert_eq!(again.status, IntentStatus::Succeeded(price()));
    // The control: a key is what makes them one.
    let other = asked(&order, price(), 2);
    let other = side.provider().create_intent(&other).await.unwrap();
    assert_ne!(other.id, intent.id);
    assert_ne!(other.client_secret, intent.client_secret);
}

pub(crate) async fn an_intent_is_found_for_its_order_alone(side: &impl Side) {
    let (a, b) = (order("a"), order("b"));
    let intent = create(side, &a).await;
    let found = side.provider().intent(&intent.id, &a).await.unwrap();
    assert_eq!(found.as_ref(), Some(&intent));
    assert_eq!(side.provider().intent(&intent.id, &b).await.unwrap(), None);
    let named = side.provider().order_of(&intent.id).await.unwrap();
    assert_eq!(named, Some(a.clone()));
    let nobodys: IntentId = "pi_of_nobody".parse().unwrap();
    assert_eq!(side.provider().intent(&nobodys, &a).await.unwrap(), None);
    assert_eq!(side.provider().order_of(&nobodys).await.unwrap(), None);
}

/// B08: what is cancelled captures nothing from then on, asked once or twice.
pub(crate) async fn a_cancelled_intent_captures_nothing(side: &impl Side) {
    let order = order("a");
    let intent = create(side, &order).await;
    for _ in 0..2 {
        let outcome = side.provider().cancel(&intent.id, &order).await.unwrap();
        assert_eq!(outcome, CancelOutcome::Cancelled);
    }
    assert_eq!(
        status(side, &intent.id, &order).await,
        IntentStatus::Cancelled
    );
    assert!(!side.confirm(&intent, true).await);
    assert_eq!(books(side, &sale(), 3).await, []);
    // The control: one that is not cancelled captures.
    let other = create(side, &self::order("b")).await;
    assert!(side.confirm(&other, true).await);
    assert_eq!(books(side, &sale(), 3).await.len(), 1);
}

/// B11: of a webhook that is lost, cancelling tells.
pub(crate) async fn a_captured_intent_can_not_be_cancelled(side: &impl Side) {
    let order = order("a");
    let intent = captured(side, &order).await;
    for _ in 0..2 {
        let outcome = side.provider().cancel(&intent.id, &order).await.unwrap();
        assert_eq!(outcome, CancelOutcome::AlreadySucceeded(price()));
    }
    assert_eq!(
        status(side, &intent.id, &order).await,
        IntentStatus::Succeeded(price())
    );
    // Nor captured a second time.
    side.confirm(&intent, true).await;
    let captures = books(side, &sale(), 3).await;
    assert_eq!(captures.len(), 1);
    assert_eq!(captures[0].captured, price());
}

pub(crate) async fn a_declined_intent_can_be_confirmed_until_it_is_cancelled(side: &impl Side) {
    let (a, b) = (order("a"), order("b"));
    for (order, pays) in [(&a, true), (&b, false)] {
        let intent = create(side, order).await;
        assert!(side.confirm(&intent, false).await);
        assert_eq!(
            status(side, &intent.id, order).await,
            IntentStatus::Declined
        );
        if !pays {
            let outcome = side.provider().cancel(&intent.id, order).await.unwrap();
            assert_eq!(outcome, CancelOutcome::Cancelled);
        }
        assert_eq!(side.confirm(&intent, true).await, pays);
    }
    let captures = books(side, &sale(), 3).await;
    let paid: Vec<_> = captures.iter().map(|capture| &capture.order).collect();
    assert_eq!(paid, [&a]);
}

/// C09: whoever asks, and however often, a capture goes back once and whole.
pub(crate) async fn a_capture_goes_back_once(side: &impl Side) {
    let order = order("a");
    let intent = captured(side, &order).await;
    assert_eq!(books(side, &sale(), 3).await[0].refunded, None);
    let request = refund_of(&intent, &order);
    for outcome in join_all((0..6).map(|_| side.provider().refund(&request))).await {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let confirmed = side.provider().refund(&request).await.unwrap();
    assert_eq!(confirmed, RefundOutcome::Refunded);
    let captures = books(side, &sale(), 3).await;
    assert_eq!(captures.len(), 1);
    assert_eq!(captures[0].refunded, Some(price()));
}

/// Another key for the same refund gives no second one, be it refused or the
/// first one found.
pub(crate) async fn what_failed_to_be_asked_is_asked_again_and_done_once(side: &impl Side) {
    let order = order("a");
    let intent = captured(side, &order).await;
    let request = refund_of(&intent, &order);
    side.provider().refund(&request).await.unwrap();
    let other = RefundRequest {
        idempotency_key: format!("{}-of-another-day", request.idempotency_key),
        ..request
    };
    let _ = side.provider().refund(&other).await;
    let captures = books(side, &sale(), 3).await;
    assert_eq!(captures[0].refunded, Some(price()));
}

pub(crate) async fn books_are_those_of_the_sale_and_bucket(side: &impl Side) {
    let other_sale: SaleId = "other".parse().unwrap();
    let orders = [
        order_at(&sale(), 3, "a"),
        order_at(&sale(), 3, "b"),
        order_at(&sale(), 4, "c"),
        order_at(&other_sale, 3, "d"),
    ];
    let begun = now();
    for order in &orders {
        captured(side, order).await;
    }
    create(side, &order("never-pays")).await;
    for (sale, bucket, right) in [
        (sale(), 3, &orders[..2]),
        (sale(), 4, &orders[2..3]),
        (other_sale, 3, &orders[3..]),
        ("none".parse().unwrap(), 3, &[]),
    ] {
        let captures = books(side, &sale, bucket).await;
        let paid: BTreeSet<String> = captures.iter().map(|one| one.order.to_string()).collect();
        let right: BTreeSet<String> = right.iter().map(OrderId::to_string).collect();
        assert_eq!(paid, right);
        for capture in captures {
            assert_eq!((capture.captured, capture.refunded), (price(), None));
            // Providers count in seconds.
            let after = capture.captured_at - begun;
            assert!(after > -SignedDuration::from_secs(2), "{after}");
        }
    }
}

pub(crate) async fn events_say_who_paid_what(side: &impl Side) {
    for (shopper, good) in [("a", true), ("b", false)] {
        let order = order(shopper);
        let intent = create(side, &order).await;
        assert!(side.confirm(&intent, good).await);
        let sent = side.told(&intent.id).await;
        let event = side
            .provider()
            .verify_webhook(&sent.signature, &sent.body, now())
            .unwrap();
        assert_eq!(event.intent, Some(intent.id));
        assert_eq!(event.order, Some(order));
        let right = if good {
            EventKind::Succeeded(Some(price()))
        } else {
            EventKind::Failed
        };
        assert_eq!(event.kind, right);
        assert!(!event.id.is_empty());
    }
}

/// C10, C11.
pub(crate) async fn events_are_signed_to_the_byte_and_lately(side: &impl Side) {
    let intent = captured(side, &order("a")).await;
    let sent = side.told(&intent.id).await;
    let provider = side.provider();
    let verify = |signature: &str, body: &[u8], later: SignedDuration| {
        provider.verify_webhook(signature, body, now() + later)
    };
    let now = SignedDuration::ZERO;
    assert!(verify(&sent.signature, &sent.body, now).is_ok());
    let mut other = sent.body.clone();
    other.push(b' ');
    let hour = SignedDuration::from_hours(1);
    for refused in [
        verify(&sent.signature, &other, now),
        verify("", &sent.body, now),
        verify("t=1,v1=", &sent.body, now),
        verify(&sent.signature, &sent.body, hour),
        verify(&sent.signature, &sent.body, -hour),
    ] {
        assert_eq!(refused, Err(WebhookError::InvalidSignature));
    }
}

/// C13, C15: with no decimals, two and three; what can't be exact is refused
/// before a sale is made.
pub(crate) async fn amounts_are_exact_in_every_currency(side: &impl Side) {
    for (shopper, money) in [
        ("a", money(999_900, "INR")),
        ("b", money(1_999, "USD")),
        ("c", money(10_000, "JPY")),
        ("d", money(10_050, "KWD")),
    ] {
        side.provider().takes(money).unwrap();
        let order = order(shopper);
        let request = asked(&order, money, 1);
        let intent = side.provider().create_intent(&request).await.unwrap();
        assert_eq!(intent.money, money);
        assert!(side.confirm(&intent, true).await);
        let outcome = side.provider().cancel(&intent.id, &order).await.unwrap();
        assert_eq!(outcome, CancelOutcome::AlreadySucceeded(money));
        let captures = books(side, &sale(), 3).await;
        let capture = captures.iter().find(|one| one.intent == intent.id);
        assert_eq!(capture.unwrap().captured, money);
    }
    let odd = money(10_005, "KWD");
    let made = side
        .provider()
        .create_intent(&asked(&order("e"), odd, 1))
        .await;
    match side.provider().takes(odd) {
        Ok(()) => assert_eq!(made.unwrap().money, odd),
        Err(_) => assert!(made.is_err()),
    }
}
