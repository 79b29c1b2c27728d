//! Makes a history happen, step by step, and has each compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::slot::{GateAddress, Gates};
use domain::{BucketId, ClaimId, IdempotencyKey, Order, OrderStatus, Sale, ShopperId};
use gate::sale::Request;
use gate::{Decision, Hold, Release, SaleGates};
use jiff::{SignedDuration, Timestamp};
use order_function::OrderFunction;
use payment::sandbox::Verdict;
use payment::{Applied, Event, Intent, Provider, Refusal};
use queue::{ClaimCreated, Message, Rebalance, Recover};
use redis::Connection;
use runtime::{EventFunction, Invocation};
use serde_json::{Value, json};

use crate::bench::{BUCKETS, Bench, Hour, flush_scripts, patiently};
use crate::books::{Books, Did};
use crate::promises::{self, Broken, Held};
use crate::seen::{Seen, group};
use crate::step::{Faults, History, Step, Wish};

/// Shoppers of every history.
const SHOPPERS: u8 = 4;

/// Copies that a replica may be behind.
const COPIES: usize = 12;

/// Laps of everybody's work after which nothing may be left.
const LAPS: usize = 8;

/// Messages of one bucket that one lap handles, before it is a loop.
const MESSAGES_MAX: usize = 60;

/// Plays a history to its end, and says how many steps were compared.
///
/// # Errors
/// The first promise that is broken.
pub async fn play(bench: &Bench, faults: Faults, history: &History) -> Result<u64, Broken> {
    let mut play = Play::begin(bench, faults, history).await;
    let mut came_to = Ok(());
    for (number, step) in history.steps.iter().enumerate() {
        came_to = play.step(*step).await.map_err(|broken| Broken {
            seen: format!("{} (step {number}, {step:?})", broken.seen),
            ..broken
        });
        if came_to.is_err() {
            break;
        }
    }
    if came_to.is_ok() {
        came_to = play.settle().await.map_err(|broken| Broken {
            seen: format!("{} (at the end)", broken.seen),
            ..broken
        });
    }
    bench.close(&play.sale.id).await;
    came_to.map(|()| play.compared)
}

/// A yes of a gate on its way to its shopper.
struct Pending {
    hold: Hold,
    /// As the function knew them that asked.
    gates: SaleGates,
    sent: bool,
}

/// Both keys of a bucket's gate, as a replica has them.
type Replica = [Option<Vec<u8>>; 2];

struct Play<'a> {
    bench: &'a Bench,
    sale: Sale,
    limit: u32,
    /// How late it is.
    at_s: i64,
    ended: bool,
    servers: Vec<Connection>,
    shoppers: Vec<ShopperId>,
    pending: Vec<Pending>,
    handled: Vec<(u16, String)>,
    intents: Vec<(ClaimId, Intent)>,
    events: Vec<Event>,
    copies: Vec<Vec<Replica>>,
    books: Books,
    compared: u64,
}

/// The n-th of those that are there, or of so many more.
fn nth<T>(of: &[T], n: usize) -> Option<usize> {
    (!of.is_empty()).then(|| n % of.len())
}

impl<'a> Play<'a> {
    async fn begin(bench: &'a Bench, faults: Faults, history: &History) -> Self {
        let now = bench.hour(0).await.clock.now();
        let sale = bench.sale(history.units, history.limit, now).await;
        let shoppers: Vec<ShopperId> = (0..SHOPPERS)
            .map(|n| format!("u_{n}").parse().expect("an id"))
            .collect();
        let seen = Seen::read(bench, &sale, &shoppers).await;
        let units = history.units.iter().sum();
        let mut play = Self {
            books: Books::new(faults, history.limit, units, seen),
            bench,
            sale,
            limit: history.limit,
            at_s: 0,
            ended: false,
            servers: (0..usize::from(BUCKETS)).map(|n| bench.server(n)).collect(),
            shoppers,
            pending: Vec::new(),
            handled: Vec::new(),
            intents: Vec::new(),
            events: Vec::new(),
            copies: Vec::new(),
            compared: 0,
        };
        play.copy();
        play
    }

    async fn hour(&self) -> Arc<Hour> {
        self.bench.hour(self.at_s).await
    }

    async fn compare(&mut self, did: Did) -> Held {
        let seen = Seen::read(self.bench, &self.sale, &self.shoppers).await;
        self.books.follow(&did, seen)?;
        self.copy();
        self.compared += 1;
        Ok(())
    }

    fn seen(&self) -> &Seen {
        &self.books.before
    }

    fn address(&self, bucket: u16) -> GateAddress {
        let address = self.seen().gates.of(BucketId(bucket));
        address.expect("a bucket").clone()
    }

    async fn step(&mut self, step: Step) -> Held {
        let did = match step {
            Step::Claim(wish) => return self.claim(wish).await.map(drop),
            Step::Buy(wish) => {
                if let Some(at) = self.claim(wish).await? {
                    self.send(at).await;
                    return self.look(at).await;
                }
                return Ok(());
            }
            Step::Send(n) => {
                if let Some(at) = nth(&self.pending, n) {
                    self.send(at).await;
                }
                Did::Nothing
            }
            Step::Look(n) => {
                let sent = (0..self.pending.len()).filter(|at| self.pending[*at].sent);
                let sent: Vec<_> = sent.collect();
                match nth(&sent, n) {
                    Some(at) => return self.look(sent[at]).await,
                    None => Did::Nothing,
                }
            }
            Step::Deliver {
                bucket,
                most,
                again,
                slow,
            } => self.deliver(u16::from(bucket), most, again, slow).await,
            Step::Repeat(n) => match nth(&self.handled, n) {
                Some(at) => {
                    let (bucket, body) = self.handled[at].clone();
                    self.hand_over(bucket, &[body], false).await
                }
                None => Did::Nothing,
            },
            Step::Pay(n) => self.pay(n).await,
            Step::Confirm(n, yes) => self.confirm(n, yes).await,
            Step::Event(n) => match nth(&self.events, n) {
                Some(at) => self.tell(at).await,
                None => Did::Nothing,
            },
            Step::CapturedAfterAll(n) => {
                if let Some(at) = nth(&self.intents, n) {
                    self.capture_after_all(at);
                }
                Did::Nothing
            }
            Step::GiveBack(n, stops) => self.give_back(n, stops).await,
            Step::Wait(long) => {
                self.wait(if long { 60 } else { 5 });
                Did::Nothing
            }
            Step::Sweep(compares) => self.sweep(compares).await,
            Step::FailOver(bucket, back) => {
                self.restore(bucket.into(), back);
                flush_scripts(&mut self.servers[usize::from(bucket)]);
                Did::Replaced
            }
            Step::ComeBack(bucket, back) => {
                self.restore(bucket.into(), back);
                Did::Replaced
            }
            Step::Restart(bucket) => {
                let server = &mut self.servers[usize::from(bucket)];
                redis::cmd("FLUSHALL").exec(server).expect("an answer");
                flush_scripts(server);
                Did::Replaced
            }
            Step::Move(bucket, units) => self.ask_to_move(bucket.into(), units).await,
            Step::MoveStops(bucket, units) => self.stop_moving(bucket.into(), units).await,
            Step::Grow(bucket, units) => self.grow(bucket.into(), units).await,
            Step::End => {
                let end = |sale: &mut Sale| {
                    sale.switches.ended = true;
                    Ok::<_, std::convert::Infallible>(())
                };
                let ended = self.bench.ledger.change_sale(&self.sale.id, end).await;
                ended.expect("an answer");
                self.ended = true;
                Did::Nothing
            }
        };
        self.compare(did).await
    }

    /// As the claim function asks; which of those on their way it is then.
    async fn claim(&mut self, wish: Wish) -> Result<Option<usize>, Broken> {
        if self.ended {
            return Ok(None);
        }
        let now = self.hour().await.clock.now();
        let shopper = self.shoppers[usize::from(wish.shopper)].clone();
        let key: IdempotencyKey = format!("key-{:04}", wish.key).parse().expect("a key");
        let gates: Gates = self.seen().gates.clone();
        let gates = SaleGates::new(&self.bench.gate, &self.sale.id, &gates);
        let quantity = wish.quantity.min(self.limit);
        let request = Request {
            shopper: &shopper,
            key: &key,
            quantity,
            limit: self.limit,
            pay_by: self.sale.pay_by(now),
            rate_per_s: None,
        };
        let answer = gates.claim(&request).await;
        for (bucket, epoch) in gates.take_frozen() {
            self.ask_to_recover(bucket, epoch, now).await;
        }
        let hold = match &answer {
            Ok(Decision::Claimed(hold)) => Some(hold.clone()),
            Ok(Decision::Same(hold)) if hold.quantity != quantity => None,
            Ok(Decision::Same(hold) | Decision::Holds(hold, _)) => Some(hold.clone()),
            _ => None,
        };
        let did = Did::Asked {
            shopper,
            quantity,
            answer,
        };
        self.compare(did).await?;
        let hold = hold.filter(|hold| !self.seen().orders.contains_key(&hold.claim));
        Ok(hold.map(|hold| {
            self.pending.push(Pending {
                hold,
                gates,
                sent: false,
            });
            self.pending.len() - 1
        }))
    }

    async fn ask_to_recover(&self, bucket: BucketId, epoch: u64, now: Timestamp) {
        let recover = Message::Recover(Recover {
            sale: self.sale.id.clone(),
            bucket,
            epoch,
            seen_at: now,
        });
        let sent = self.hour().await.queue.send(&recover).await;
        sent.expect("stored");
    }

    /// Stores the message of a yes.
    async fn send(&mut self, at: usize) {
        let hour = self.hour().await;
        let pending = &mut self.pending[at];
        let hold = &pending.hold;
        let bucket = pending.gates.bucket(hold.claim.bucket()).expect("a bucket");
        let price = self.sale.config.price;
        let message = Message::ClaimCreated(ClaimCreated {
            claim: hold.claim.clone(),
            shopper: hold.shopper.clone(),
            quantity: hold.quantity,
            money: price.times(hold.quantity).expect("an amount"),
            limit: self.limit,
            claimed_at: hour.clock.now(),
            pay_by: hold.pay_by,
            epoch: bucket.epoch(),
        });
        hour.queue.send(&message).await.expect("stored");
        pending.sent = true;
    }

    /// Looks whether a yes that was sent stands, and tells it.
    async fn look(&mut self, at: usize) -> Held {
        let Pending { hold, gates, .. } = self.pending.swap_remove(at);
        let bucket = gates.bucket(hold.claim.bucket()).expect("a bucket");
        let stands =
            self.bench.twin.unlooked || bucket.replicated(&hold.claim).await.expect("an answer");
        self.compare(Did::Looked(hold.claim, stands)).await
    }

    async fn deliver(&mut self, bucket: u16, most: usize, again: bool, slow: bool) -> Did {
        let name = group(&self.sale, bucket);
        let mut bodies = self.bench.services.queue().first(&name, most);
        // A move by itself: what it moves is not for the reference to know.
        let moves = |body: &String| matches!(read(body), Message::Rebalance(_));
        match bodies.iter().position(moves) {
            None => {}
            Some(0) => bodies.truncate(1),
            Some(at) => bodies.truncate(at),
        }
        if bodies.is_empty() {
            return Did::Nothing;
        }
        let did = self.hand_over(bucket, &bodies, slow).await;
        if !again {
            for body in bodies {
                self.bench.services.queue().delete(&name, &body);
                self.handled.push((bucket, body));
            }
        }
        did
    }

    /// A worker handles messages, as SQS hands them over.
    async fn hand_over(&self, bucket: u16, bodies: &[String], slow: bool) -> Did {
        let at_s = self.at_s - if slow { 60 } else { 0 };
        let hour = self.bench.hour(at_s.max(0)).await;
        let messages: Vec<Message> = bodies.iter().map(|body| read(body)).collect();
        let address = self.address(bucket);
        let mut known = BTreeMap::new();
        for message in &messages {
            if let Message::ClaimCreated(created) = message {
                let hold = self.bench.gate.hold(&address.tag, &created.claim).await;
                known.extend(
                    hold.expect("an answer")
                        .map(|hold| (created.claim.clone(), hold)),
                );
            }
        }
        let now = hour.clock.now();
        let failed = handle(&hour.worker, bodies, now).await;
        Did::Delivered {
            bucket,
            messages,
            known,
            now,
            failed,
        }
    }

    fn live(&self, which: impl Fn(OrderStatus) -> bool) -> Vec<Order> {
        let orders = self.seen().orders.values();
        orders
            .filter(|order| which(order.status))
            .cloned()
            .collect()
    }

    async fn pay(&mut self, n: usize) -> Did {
        let orders =
            self.live(|status| matches!(status, OrderStatus::PendingPayment | OrderStatus::Paying));
        let Some(at) = nth(&orders, n) else {
            return Did::Nothing;
        };
        let claim = orders[at].claim.clone();
        match self.hour().await.cashier.begin(orders[at].clone()).await {
            Ok(begun) => self.intents.push((claim.clone(), begun.intent)),
            Err(Refusal::Expired | Refusal::AlreadyPaid | Refusal::NotPayable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        Did::Paid(claim)
    }

    async fn confirm(&mut self, n: usize, yes: bool) -> Did {
        let Some(at) = nth(&self.intents, n) else {
            return Did::Nothing;
        };
        let (claim, intent) = &self.intents[at];
        let hour = self.hour().await;
        let now = hour.clock.now();
        let verdict = if yes {
            Verdict::Succeed(None)
        } else {
            Verdict::Decline
        };
        let confirmed = hour
            .sandbox
            .confirm(&intent.id, &intent.client_secret, verdict, now);
        let Ok(event) = confirmed.await else {
            return Did::Nothing;
        };
        let body = event.payload.as_bytes();
        let event = hour.sandbox.verify_webhook(&event.signature, body, now);
        let order = &self.books.before.orders[claim];
        let holds =
            order.status == OrderStatus::Paying && order.intent.as_ref() == Some(&intent.id);
        let mut captures = self.books.before.captures.iter();
        let new = !captures.any(|capture| capture.intent == intent.id);
        if yes && new && holds {
            let in_time = &mut self.books.told.in_time;
            in_time.insert(intent.id.clone(), claim.clone());
        }
        self.events.push(event.expect("signed"));
        Did::Nothing
    }

    /// Whatever its books say, the provider is believed.
    fn capture_after_all(&mut self, at: usize) {
        let (claim, intent) = &self.intents[at];
        let body = json!({
            "id": format!("after-all-{}", intent.id),
            "type": "payment_intent.succeeded",
            "intent": intent.id,
            "amount": intent.money.amount,
            "currency": intent.money.currency,
            "metadata": {"order_id": claim.order()},
        });
        let event = Event::parse(body.to_string().as_bytes()).expect("an event");
        self.events.push(event);
        let after_all = &mut self.books.told.after_all;
        after_all.insert(intent.id.clone(), claim.clone());
    }

    /// As the webhook does.
    async fn tell(&self, at: usize) -> Did {
        let event = &self.events[at];
        let claim = event.order.as_ref().expect("named").claim();
        let applied = self.hour().await.cashier.apply(event).await;
        if matches!(
            applied.expect("an answer"),
            Applied::Paid | Applied::AlreadyPaid
        ) {
            let tag = self.address(claim.bucket().0).tag;
            patiently(async || self.bench.gate.settle(&tag, &claim).await).await;
        }
        Did::Paid(claim)
    }

    /// As the claim function does.
    async fn give_back(&self, n: usize, stops: bool) -> Did {
        let orders = self.live(|status| status == OrderStatus::PendingPayment);
        let Some(at) = nth(&orders, n) else {
            return Did::Nothing;
        };
        let claim = orders[at].claim.clone();
        let now = self.hour().await.clock.now();
        let (one, bucket) = (&orders[at..=at], claim.bucket());
        let ledger = &self.bench.ledger;
        let released = ledger.release(&self.sale.id, bucket, one, OrderStatus::Cancelled, now);
        if !released.await.expect("an answer").is_empty() && !stops {
            let tag = self.address(bucket.0).tag;
            let gate = &self.bench.gate;
            patiently(async || gate.release(&tag, &claim, Release::Lapsed).await).await;
        }
        Did::GaveBack(claim)
    }

    fn wait(&mut self, seconds: i64) {
        self.at_s += seconds;
        self.bench.services.queue().now_s = self.at_s;
    }

    async fn sweep(&self, compares: bool) -> Did {
        let hour = self.hour().await;
        hour.sweeper.sweep().await.expect("an answer");
        if compares {
            hour.sweeper.keep_up().await.expect("an answer");
        }
        let now = hour.clock.now();
        Did::Swept { compares, now }
    }

    /// What every replica has now.
    fn copy(&mut self) {
        let tags: Vec<String> = (0..BUCKETS).map(|n| self.address(n).tag).collect();
        let copies = self.servers.iter_mut().zip(tags).map(|(server, tag)| {
            let mut dump = redis::pipe();
            for key in keys(&tag) {
                dump.cmd("DUMP").arg(key);
            }
            dump.query(server).expect("an answer")
        });
        let copies = copies.collect();
        self.copies.push(copies);
        if self.copies.len() > COPIES {
            self.copies.remove(0);
        }
    }

    /// A primary has what it had so many comparisons ago.
    fn restore(&mut self, bucket: u16, back: usize) {
        let at = self.copies.len().saturating_sub(1 + back);
        let copy = self.copies[at][usize::from(bucket)].clone();
        let tag = self.address(bucket).tag;
        let server = &mut self.servers[usize::from(bucket)];
        for (key, value) in keys(&tag).into_iter().zip(copy) {
            redis::cmd("DEL").arg(&key).exec(server).expect("an answer");
            if let Some(value) = value {
                let mut restore = redis::cmd("RESTORE");
                restore.arg(&key).arg(0).arg(value);
                restore.exec(server).expect("an answer");
            }
        }
    }

    async fn ask_to_move(&self, from: u16, units: u32) -> Did {
        let hour = self.hour().await;
        let asked = Message::Rebalance(Rebalance {
            sale: self.sale.id.clone(),
            from: BucketId(from),
            to: BucketId(1 - from),
            units,
            seen_at: hour.clock.now(),
        });
        hour.queue.send(&asked).await.expect("stored");
        Did::Nothing
    }

    /// As the order function begins a move.
    async fn stop_moving(&self, from: u16, units: u32) -> Did {
        if !self.seen().buckets.iter().all(|bucket| bucket.open) {
            return Did::Nothing;
        }
        let (source, target) = (self.address(from), self.address(1 - from));
        let now = self.hour().await.clock.now();
        let announced = self.bench.gate.begin_move(&target, 0, now).await;
        announced.expect("an answer");
        let taken = self.bench.gate.begin_move(&source, units, now).await;
        Did::MoveStopped(from, taken.expect("an answer"))
    }

    /// As the admin function grows a sale.
    async fn grow(&self, bucket: u16, units: u32) -> Did {
        let Bench { ledger, gate, .. } = self.bench;
        let now = self.hour().await.clock.now();
        let begun = ledger.begin_resize(&self.sale.id, now).await;
        let resize = begun.expect("an answer").expect("a sale");
        let at = &self.seen().buckets[usize::from(bucket)];
        let from = at.row.capacity;
        let address = self.address(bucket);
        let life = (BucketId(bucket), address.epoch);
        let resized = ledger.resize_bucket(&resize, life, from, from + units);
        resized.await.expect("nobody else does");
        let put = gate.put(&address, units).await;
        assert!(put.is_ok() || !at.open, "{put:?}");
        let sum: u32 = self.seen().buckets.iter().map(|at| at.row.capacity).sum();
        let ended = ledger.end_resize(resize, sum + units).await;
        ended.expect("nobody else does");
        Did::Grew(units)
    }

    /// Everybody does their work, time passes, and nothing may be left.
    async fn settle(&mut self) -> Held {
        for _ in 0..LAPS {
            for at in 0..self.events.len() {
                let did = self.tell(at).await;
                self.compare(did).await?;
            }
            for compares in [false, true] {
                for bucket in 0..BUCKETS {
                    self.drain(bucket).await?;
                }
                let did = self.sweep(compares).await;
                self.compare(did).await?;
            }
            self.wait(60);
            if promises::at_rest(self.seen(), &self.books.told).is_ok() {
                return Ok(());
            }
        }
        promises::at_rest(self.seen(), &self.books.told)
    }

    async fn drain(&mut self, bucket: u16) -> Held {
        for _ in 0..MESSAGES_MAX {
            let did = self.deliver(bucket, 10, false, false).await;
            if matches!(did, Did::Nothing) {
                break;
            }
            self.compare(did).await?;
        }
        Ok(())
    }
}

fn keys(tag: &str) -> [String; 2] {
    ["stock", "due"].map(|key| format!("{{{tag}}}:{key}"))
}

fn read(body: &str) -> Message {
    serde_json::from_str(body).expect("a message")
}

/// Hands messages to a worker; how many it wants again.
async fn handle(worker: &OrderFunction, bodies: &[String], now: Timestamp) -> usize {
    let records: Vec<Value> = (0..)
        .zip(bodies)
        .map(|(n, body)| {
            json!({
                "messageId": format!("message-{n}"),
                "receiptHandle": format!("receipt-{n}"),
                "body": body,
                "attributes": {},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-1:1:claims.fifo",
                "awsRegion": "eu-west-1",
            })
        })
        .collect();
    let event = serde_json::from_value(json!({"Records": records})).expect("an event");
    let invocation = Invocation {
        request_id: "request".to_owned(),
        deadline: now + SignedDuration::from_mins(1),
    };
    let answer = worker.handle(event, invocation).await.expect("an answer");
    answer.batch_item_failures.len()
}
