//! What the queue is told of each message.

use domain::{BucketId, OrderStatus};

use testing::{Fate, World, judged};

use crate::dead_letters::DeadLetters;
use crate::worker::{MINUTE, Worker, failed};

#[tokio::test]
async fn ten_messages_are_ten_orders_however_often_they_come() {
    let worker = Worker::start(&[10]).await;
    let (holds, messages) = worker.claims(0, 0..10, MINUTE).await;
    for _ in 0..3 {
        assert_eq!(worker.deliver(&messages).await, failed(&[]));
    }
    let pending = OrderStatus::PendingPayment;
    assert_eq!(worker.world.count(0, pending).await, 10);
    assert_eq!(worker.world.allotted(0).await, 10);
    let order = worker.order(&holds[0].claim).await;
    assert_eq!(order.pay_by, holds[0].pay_by);
    assert_eq!(order.claim.order().digest(), holds[0].claim.digest());
}

/// A copy of the table that is a moment old does not know of the time that an
/// operator gave a moment ago: it is not asked, since who is voided stays so.
#[tokio::test]
async fn whoever_may_be_given_more_time_is_judged_by_the_sale_as_it_is() {
    let mut world = World::open(&[10]).await;
    world.environment = judged(&world.environment, |asked| {
        let sale = asked.body["Key"]["sk"]["S"] == "SALE";
        if sale && asked.body["ConsistentRead"] != true {
            return Fate::Unanswered;
        }
        Fate::Passed
    });
    let worker = Worker::of(world, DeadLetters::start(true).await, &[]).await;
    let (_, messages) = worker.claims(0, 0..3, MINUTE).await;
    assert_eq!(worker.deliver(&messages).await, failed(&[]));
    assert_eq!(worker.world.allotted(0).await, 3);
}

#[tokio::test]
async fn what_can_not_be_read_is_set_apart_and_blocks_nobody() {
    let worker = Worker::start(&[10]).await;
    let (_, mut messages) = worker.claims(0, 0..9, MINUTE).await;
    messages.insert(4, "{\"type\":\"ClaimCreated\",\"claim\":7}".to_owned());
    assert_eq!(worker.deliver(&messages).await, failed(&[]));
    assert_eq!(worker.letters.bodies(), [messages[4].clone()]);
    assert_eq!(worker.world.allotted(0).await, 9);
}

#[tokio::test]
async fn what_can_not_be_set_apart_stays_in_the_queue() {
    let letters = DeadLetters::start(false).await;
    let worker = Worker::with(&[10], letters, &[]).await;
    let (_, mut messages) = worker.claims(0, 0..7, MINUTE).await;
    for (at, body) in [(2, "not JSON"), (5, ""), (9, "{\"type\":\"Unknown\"}")] {
        messages.insert(at, body.to_owned());
    }
    // Message ids, nothing else: receipt handles would fail the whole batch.
    assert_eq!(worker.deliver(&messages).await, failed(&[2, 5, 9]));
    assert_eq!(worker.world.allotted(0).await, 7);
    assert!(worker.letters.bodies().is_empty());
}

#[tokio::test]
async fn a_bucket_that_can_not_be_written_fails_its_own_messages() {
    let worker = Worker::start(&[5, 5]).await;
    let (_, mut messages) = worker.claims(0, 0..5, MINUTE).await;
    let (broken, others) = worker.claims(1, 5..7, MINUTE).await;
    messages.extend(others);
    // Bucket 1 has lost its counters.
    let mut damage = ledger::Transaction::new();
    let row = ledger::key::bucket(&worker.world.sale, BucketId(1));
    damage.put(&row, &serde_json::json!({})).unwrap();
    let table = worker.world.ledger.table();
    table.write_or_conflict(&damage).await.unwrap();

    assert_eq!(worker.deliver(&messages).await, failed(&[5, 6]));
    // Soon, and not when the queue's own minutes are over; the others not at all.
    let again = ["receipt-5", "receipt-6"].map(|receipt| (receipt.to_owned(), 1));
    assert_eq!(worker.letters.shown_again(), again);
    assert_eq!(worker.world.allotted(0).await, 5);
    assert!(worker.world.find(&broken[0].claim).await.is_none());
}

#[tokio::test]
async fn a_ledger_that_does_not_answer_leaves_all_messages_in_the_queue() {
    let nobody = [("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")];
    let letters = DeadLetters::start(true).await;
    let worker = Worker::with(&[5], letters, &nobody).await;
    let (holds, messages) = worker.claims(0, 0..3, MINUTE).await;
    assert_eq!(worker.deliver(&messages).await, failed(&[0, 1, 2]));
    assert!(worker.letters.bodies().is_empty());
    for hold in holds {
        assert!(worker.world.find(&hold.claim).await.is_none());
    }
    // Nobody was voided: the gate still holds all three.
    assert_eq!(worker.world.left(0).await, 2);
}
