//! An order function, and messages for it.

use domain::{ClaimId, Order};
use gate::Hold;
use jiff::SignedDuration;
use order_function::OrderFunction;
use queue::{ClaimCreated, Message};
use runtime::{Environment, EventFunction, Invocation};
use serde_json::{Value, json};
use testing::{World, with_variables};

use crate::dead_letters::DeadLetters;

pub(crate) const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// How long messages were in the queue.
pub(crate) const IN_QUEUE: SignedDuration = SignedDuration::from_secs(3);

pub(crate) struct Worker {
    pub(crate) world: World,
    pub(crate) letters: DeadLetters,
    /// With which the function was started.
    pub(crate) environment: Environment,
    function: OrderFunction,
}

impl Worker {
    pub(crate) async fn start(capacities: &[u32]) -> Self {
        Self::with(capacities, DeadLetters::start(true).await, &[]).await
    }

    /// With variables that are not as they should be.
    pub(crate) async fn with(
        capacities: &[u32],
        letters: DeadLetters,
        wrong: &[(&str, &str)],
    ) -> Self {
        let world = World::open(capacities).await;
        Self::of(world, letters, wrong).await
    }

    /// In front of a sale that exists.
    pub(crate) async fn of(world: World, letters: DeadLetters, wrong: &[(&str, &str)]) -> Self {
        let queue = format!("{}/1/dead", letters.url);
        let mut variables = vec![
            ("AWS_ENDPOINT_URL_SQS", letters.url.as_str()),
            ("DEAD_LETTER_QUEUE_URL", &queue),
        ];
        variables.extend(wrong);
        let environment = with_variables(&world.environment, &variables);
        Self {
            function: OrderFunction::start(&environment).await.unwrap(),
            environment,
            world,
            letters,
        }
    }

    /// Delivers a batch: the function's answer as Lambda sends it to SQS.
    pub(crate) async fn deliver(&self, bodies: &[String]) -> Value {
        deliver(&self.function, &self.world, bodies).await
    }

    /// A claim's message, as the claim function sends it.
    pub(crate) async fn message(&self, hold: &Hold) -> String {
        let order = self.world.unwritten(hold).await;
        let message = Message::ClaimCreated(ClaimCreated {
            claim: order.claim,
            shopper: order.shopper,
            quantity: order.quantity,
            money: order.money,
            limit: 1,
            claimed_at: order.claimed_at,
            pay_by: order.pay_by,
            epoch: 1,
        });
        serde_json::to_string(&message).unwrap()
    }

    /// Claims of so many shoppers at a bucket's gate, payable for `window`.
    pub(crate) async fn claims(
        &self,
        bucket: u16,
        shoppers: std::ops::Range<u32>,
        window: SignedDuration,
    ) -> (Vec<Hold>, Vec<String>) {
        let mut holds = Vec::new();
        let mut messages = Vec::new();
        for n in shoppers {
            let pay_by = self.world.now() + window;
            let hold = self.world.claim(bucket, &format!("u_{n}"), pay_by).await;
            messages.push(self.message(&hold).await);
            holds.push(hold);
        }
        (holds, messages)
    }

    pub(crate) async fn order(&self, claim: &ClaimId) -> Order {
        self.world.find(claim).await.unwrap()
    }
}

/// The answer that fails these messages.
pub(crate) fn failed(numbers: &[usize]) -> Value {
    let failures: Vec<Value> = numbers
        .iter()
        .map(|n| json!({"itemIdentifier": format!("message-{n}")}))
        .collect();
    json!({"batchItemFailures": failures})
}

/// Delivers a batch to a function.
pub(crate) async fn deliver(function: &OrderFunction, world: &World, bodies: &[String]) -> Value {
    let sent = world.now() - IN_QUEUE;
    let records: Vec<Value> = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| {
            json!({
                "messageId": format!("message-{n}"),
                "receiptHandle": format!("receipt-{n}"),
                "body": body,
                "attributes": {
                    "ApproximateReceiveCount": "1",
                    "SentTimestamp": sent.as_millisecond().to_string(),
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-1:1:claims.fifo",
                "awsRegion": "eu-west-1",
            })
        })
        .collect();
    let event = serde_json::from_value(json!({"Records": records})).unwrap();
    let invocation = Invocation {
        request_id: "request".to_owned(),
        deadline: world.now() + MINUTE,
    };
    let answer = function.handle(event, invocation).await.unwrap();
    serde_json::to_value(answer).unwrap()
}
