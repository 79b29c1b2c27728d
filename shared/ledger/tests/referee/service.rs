//! The service as it really is: it cancels for reasons of its own, throttles,
//! reads what is old, loses answers, and remembers tokens.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use domain::order::VoidReason;
use domain::{Order, OrderStatus};
use futures::future::join_all;
use ledger::orders::Outcome;
use ledger::{Error, Ledger};
use serde_json::{Value, json};
use testing::{Asked, Bucket, Fate, judged};

use crate::shelf::Shelf;

/// An error as the service spells it.
fn refused(exception: &str, more: Value) -> Fate {
    let mut body = json!({
        "__type": format!("com.amazonaws.dynamodb.v20120810#{exception}"),
        "message": exception,
    });
    if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
        body.extend(more.clone());
    }
    Fate::Answered(400, body)
}

/// A transaction that was cancelled for these reasons.
fn cancelled(codes: &[&str]) -> Fate {
    let reasons: Vec<_> = codes.iter().map(|code| json!({"Code": code})).collect();
    let reasons = if codes.is_empty() {
        json!({})
    } else {
        json!({ "CancellationReasons": reasons })
    };
    refused("TransactionCanceledException", reasons)
}

/// A ledger whose first transactions come to this.
fn first(shelf: &Shelf, times: usize, fate: impl Fn() -> Fate + Send + Sync + 'static) -> Ledger {
    let seen = AtomicUsize::new(0);
    let environment = judged(&shelf.environment, move |asked| {
        let is = asked.action == "TransactWriteItems";
        if is && seen.fetch_add(1, Ordering::Relaxed) < times {
            fate()
        } else {
            Fate::Passed
        }
    });
    Ledger::connect(&environment).unwrap()
}

async fn create(ledger: &Ledger, bucket: &Bucket, orders: &[Order]) -> Result<Vec<Outcome>, Error> {
    let Bucket { sale, id, .. } = bucket;
    ledger.create_orders(sale, *id, 1, 1, orders).await
}

/// I01: what is bad luck is tried again, whatever stands beside it; nobody is
/// refused for it.
#[tokio::test]
async fn no_bad_luck_refuses_an_order() {
    for codes in [
        &["None", "TransactionConflict", "None"][..],
        &["None", "None", "ThrottlingError"],
        &["None", "ProvisionedThroughputExceeded", "None"],
        &["ConditionalCheckFailed", "TransactionConflict", "None"],
        &["TransactionConflict", "None", "ConditionalCheckFailed"],
        &["None", "None", "None"],
        &[],
    ] {
        let shelf = Shelf::new(1).await;
        let ledger = first(&shelf, 3, || cancelled(codes));
        let written = create(&ledger, &shelf.bucket, &[shelf.first("u")]).await;
        assert_eq!(written.unwrap(), [Outcome::Created], "{codes:?}");
        assert_eq!(shelf.row().await.allotted, 1);
        // If it does not end, the message stays in the queue.
        let shelf = Shelf::new(1).await;
        let ledger = first(&shelf, usize::MAX, || cancelled(codes));
        let error = create(&ledger, &shelf.bucket, &[shelf.first("u")]).await;
        let error = error.unwrap_err();
        assert!(error.is_retryable(), "{codes:?}: {error}");
        assert_eq!(shelf.orders().await, []);
    }
}

/// I01: conditions decide, and what is no valid request is nobody's "no".
#[tokio::test]
async fn conditions_decide_and_nonsense_is_an_error() {
    let shelf = Shelf::new(1).await;
    let order = shelf.first("u");
    assert_eq!(
        shelf.create(1, std::slice::from_ref(&order)).await,
        [Outcome::Created]
    );
    let again = shelf.create(1, std::slice::from_ref(&order)).await;
    assert!(matches!(again[0], Outcome::Existing(_)), "{again:?}");
    let beyond = shelf.create(1, &[shelf.first("v")]).await;
    assert_eq!(beyond, [Outcome::Refused(VoidReason::Cap)]);

    let shelf = Shelf::new(1).await;
    let ledger = first(&shelf, usize::MAX, || {
        cancelled(&["None", "ValidationError", "None"])
    });
    let error = create(&ledger, &shelf.bucket, &[shelf.first("u")]).await;
    let error = error.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert_eq!(shelf.orders().await, []);
}

/// I01, I05: two hundred orders of one bucket at once, every third request
/// throttled or in conflict: all are written while there are units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_are_two_hundred_orders() {
    let shelf = Shelf::new(200).await;
    let seen = AtomicUsize::new(0);
    let environment = judged(&shelf.environment, move |asked| {
        let number = seen.fetch_add(1, Ordering::Relaxed);
        match (asked.action.as_str(), number % 6) {
            ("TransactWriteItems", 0) => cancelled(&["TransactionConflict", "None", "None"]),
            ("TransactWriteItems", 3) => {
                refused("ProvisionedThroughputExceededException", json!({}))
            }
            _ => Fate::Passed,
        }
    });
    let ledger = Ledger::connect(&environment).unwrap();
    let written = join_all((0..200).map(|n| {
        let (ledger, order) = (&ledger, shelf.first(&format!("u_{n}")));
        let bucket = &shelf.bucket;
        async move {
            // What was put off for too long is delivered again.
            loop {
                match create(ledger, bucket, std::slice::from_ref(&order)).await {
                    Ok(outcomes) => return outcomes,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        }
    }))
    .await;
    let made = |outcome: &Outcome| matches!(outcome, Outcome::Created | Outcome::Existing(_));
    assert!(written.iter().flatten().all(made), "{written:?}");
    assert_eq!(shelf.row().await.allotted, 200);
}

/// I03: a token names one request, byte for byte; what is sent again is the
/// same, or has a token of its own. A repetition in another process is one
/// order by its conditions alone, and a transaction in progress is waited for.
#[tokio::test]
async fn tokens_never_stand_in_an_orders_way() {
    let shelf = Shelf::new(3).await;
    let orders: Vec<Order> = ["a", "b", "c"].map(|name| shelf.first(name)).into();
    let tokens = Arc::new(Mutex::new(HashMap::<String, Value>::new()));
    for round in 0..20 {
        // Each is a fresh process: its maps have an order of their own.
        let (tokens, seen) = (Arc::clone(&tokens), AtomicUsize::new(0));
        let environment = judged(&shelf.environment, move |asked| {
            if asked.action != "TransactWriteItems" {
                return Fate::Passed;
            }
            let token = asked.body["ClientRequestToken"]
                .as_str()
                .unwrap_or_default();
            let mut tokens = tokens.lock().unwrap();
            let before = tokens.entry(token.to_owned());
            if !token.is_empty() && before.or_insert_with(|| asked.body.clone()) != &asked.body {
                return refused("IdempotentParameterMismatchException", json!({}));
            }
            match (round, seen.fetch_add(1, Ordering::Relaxed)) {
                (_, 0) => refused("TransactionInProgressException", json!({})),
                // The first of all is carried out and not answered.
                (0, 1) => Fate::Unanswered,
                _ => Fate::Passed,
            }
        });
        let ledger = Ledger::connect(&environment).unwrap();
        let outcomes = create(&ledger, &shelf.bucket, &orders).await.unwrap();
        let made = |outcome: &Outcome| match outcome {
            Outcome::Created => round == 0,
            Outcome::Existing(order) => order.status == OrderStatus::PendingPayment,
            _ => false,
        };
        assert!(outcomes.iter().all(made), "{round}: {outcomes:?}");
    }
    assert_eq!(shelf.row().await.allotted, 3);
    assert_eq!(shelf.orders().await.len(), 3);
}

/// I04: whatever is decided is read as it is now: a service that knows nothing
/// unless it is asked for that changes no decision.
#[tokio::test]
async fn decisions_read_what_is_there_now() {
    let shelf = Shelf::new(5).await;
    let environment = judged(&shelf.environment, stale);
    let ledger = Ledger::connect(&environment).unwrap();
    let Bucket { sale, id, .. } = &shelf.bucket;
    let orders: Vec<Order> = ["a", "b", "c"].map(|name| shelf.first(name)).into();
    assert_eq!(
        create(&ledger, &shelf.bucket, &orders).await.unwrap(),
        [Outcome::Created, Outcome::Created, Outcome::Created]
    );
    for order in &orders {
        assert_eq!(
            ledger.order(&order.claim).await.unwrap().as_ref(),
            Some(order)
        );
    }
    let claims = orders.iter().map(|order| &order.claim);
    assert_eq!(ledger.orders(claims).await.unwrap().len(), 3);
    assert_eq!(ledger.bucket(sale, *id).await.unwrap().unwrap().allotted, 3);
    assert_eq!(
        ledger.whole_bucket(sale, *id).await.unwrap().orders.len(),
        3
    );
    let stands = ledger
        .void(&orders[0], VoidReason::NoOrder, shelf.now())
        .await;
    assert_eq!(stands.unwrap(), orders[0]);
    let ended = ledger.release(sale, *id, &orders[..2], OrderStatus::Expired, shelf.now());
    assert_eq!(ended.await.unwrap().len(), 2);
    let again = ledger.release(sale, *id, &orders, OrderStatus::Expired, shelf.now());
    assert_eq!(again.await.unwrap(), [orders[2].claim.clone()]);
    assert_eq!(shelf.row().await.allotted, 0);
}

/// Whoever does not ask for what is there now is told of nothing.
fn stale(asked: &Asked) -> Fate {
    let is_now = |request: &Value| request["ConsistentRead"] == true;
    match asked.action.as_str() {
        "GetItem" if !is_now(&asked.body) => Fate::Answered(200, json!({})),
        "Query" if !is_now(&asked.body) => {
            Fate::Answered(200, json!({"Items": [], "Count": 0, "ScannedCount": 0}))
        }
        "BatchGetItem" => {
            let mut tables = asked.body["RequestItems"].as_object().into_iter().flatten();
            if tables.all(|(_, request)| is_now(request)) {
                Fate::Passed
            } else {
                Fate::Answered(200, json!({"Responses": {}, "UnprocessedKeys": {}}))
            }
        }
        _ => Fate::Passed,
    }
}

/// I05: what a thousand orders a second, in eight buckets, write to one
/// partition stays at half of what one takes. A write in a transaction counts
/// twice, a KiB at a time.
#[tokio::test]
async fn no_partition_is_hot() {
    const BUCKETS: u32 = 8;
    const ORDERS_PER_S: u32 = 1_000;
    const EACH: u32 = ORDERS_PER_S / BUCKETS;
    const HALF: u32 = 500;
    let shelf = Shelf::new(EACH).await;
    let written = Arc::new(Mutex::new(BTreeMap::<(String, String), u32>::new()));
    let counted = Arc::clone(&written);
    let environment = judged(&shelf.environment, move |asked| {
        let mut counted = counted.lock().unwrap();
        for part in asked.body["TransactItems"].as_array().into_iter().flatten() {
            for (kind, part) in part.as_object().into_iter().flatten() {
                let key = part.get("Key").or(part.get("Item")).unwrap();
                let of = |name: &str| key[name]["S"].as_str().unwrap().to_owned();
                assert!(part.to_string().len() < 1_500, "{kind} of more than a KiB");
                *counted.entry((of("pk"), of("sk"))).or_default() += 2;
            }
        }
        Fate::Passed
    });
    let ledger = Ledger::connect(&environment).unwrap();
    let orders: Vec<Order> = (0..EACH).map(|n| shelf.first(&format!("u_{n}"))).collect();
    for batch in orders.chunks(10) {
        create(&ledger, &shelf.bucket, batch).await.unwrap();
    }
    let written = written.lock().unwrap();
    let mut partitions = BTreeMap::<&str, u32>::new();
    for ((pk, _), units) in written.iter() {
        *partitions.entry(pk).or_default() += units;
    }
    let hottest = partitions.iter().max_by_key(|(_, units)| **units).unwrap();
    println!("{} write units a second in {}", hottest.1, hottest.0);
    assert!(*hottest.1 <= HALF, "{hottest:?}");
    // Nothing is written of the sale as a whole: its row, a total, an index.
    let own = |(pk, _): &&(String, String)| pk.contains("#B") || pk.contains("#U");
    assert_eq!(
        written.keys().filter(own).count(),
        written.len(),
        "{written:?}"
    );
}
