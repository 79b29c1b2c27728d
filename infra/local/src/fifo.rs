//! The rules of one SQS FIFO queue. No clock and no I/O: "now" is handed in.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// A deduplication id is remembered this long.
pub(crate) const DEDUPLICATION: Duration = Duration::from_secs(300);

/// What may go wrong with messages, for tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Every message is put in so many times more, behind itself, as if a
    /// delivery had been repeated.
    pub copies: u32,
    /// Every message stays hidden this long before it is first received.
    pub delay: Duration,
    /// Up to so many further copies of each message, some messages none: as if
    /// a delivery had been repeated after its group went on.
    pub stray_copies: u32,
    /// A copy of those comes at any time up to so long after the message.
    pub stray_within: Duration,
}

/// How one queue behaves.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// How long a received message stays hidden.
    pub(crate) visibility: Duration,
    /// Is a deduplication id good for its group only?
    pub(crate) deduplicate_by_group: bool,
    /// Receives after which a message is a dead letter.
    pub(crate) receives_max: Option<u32>,
}

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// The id that SQS gave it.
    pub id: String,
    /// The group, within which order is kept.
    pub group: String,
    /// The id under which it is put in once.
    pub deduplication: String,
    /// The text.
    pub body: String,
    /// Its place in the queue; rises.
    pub sequence: u64,
    /// How often it was received.
    pub receives: u32,
    /// When it was put in, in ms since 1970.
    pub sent_ms: i64,
    /// When it was first received, in ms since 1970.
    pub first_received_ms: Option<i64>,
    /// Hidden until then; `None` from the start or after a failure.
    hidden_until: Option<Instant>,
}

impl Message {
    /// Names this receive of this message.
    pub(crate) fn receipt(&self) -> String {
        format!("{}:{}:{}", self.sequence, self.receives, self.group)
    }

    fn hidden(&self, now: Instant) -> bool {
        self.hidden_until.is_some_and(|until| until > now)
    }
}

/// What a message must say.
#[derive(Debug, Clone)]
pub(crate) struct NewMessage {
    pub(crate) group: String,
    pub(crate) deduplication: String,
    pub(crate) body: String,
}

/// A receipt that is of no use any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReceiptError {
    /// It is no receipt.
    Invalid,
    /// The message was visible again since.
    Expired,
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Fifo {
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
    /// Messages by group, in order, those in flight included.
    groups: HashMap<String, VecDeque<Message>>,
    /// Ids seen lately: the message's id, its sequence number, and when.
    seen: HashMap<(Option<String>, String), (String, u64, Instant)>,
    /// The same in order of time, to forget them.
    seen_order: VecDeque<((Option<String>, String), Instant)>,
    /// Copies that come later, in no order.
    strays: Vec<(Instant, Message)>,
    sequence: u64,
}

impl Fifo {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            faults: Faults::default(),
            groups: HashMap::new(),
            seen: HashMap::new(),
            seen_order: VecDeque::new(),
            strays: Vec::new(),
            sequence: 0,
        }
    }

    /// Puts a message in, unless its deduplication id was seen lately: then
    /// the first one's id and sequence number are given and nothing happens.
    pub(crate) fn send(&mut self, now: Instant, now_ms: i64, message: NewMessage) -> (String, u64) {
        self.forget(now);
        let scope = self
            .rules
            .deduplicate_by_group
            .then(|| message.group.clone());
        let key = (scope, message.deduplication.clone());
        if let Some((id, sequence, _)) = self.seen.get(&key) {
            return (id.clone(), *sequence);
        }
        let id = Uuid::new_v4().to_string();
        let first = self.sequence + 1;
        for _ in 0..=self.faults.copies {
            self.sequence += 1;
            let delay = self.faults.delay;
            let message = Message {
                id: id.clone(),
                group: message.group.clone(),
                deduplication: message.deduplication.clone(),
                body: message.body.clone(),
                sequence: self.sequence,
                receives: 0,
                sent_ms: now_ms,
                first_received_ms: None,
                hidden_until: (!delay.is_zero()).then(|| now + delay),
            };
            self.put(message);
        }
        self.stray(now, now_ms, &id, &message);
        self.seen.insert(key.clone(), (id.clone(), first, now));
        self.seen_order.push_back((key, now));
        (id, first)
    }

    /// Lays copies by. How many and when is a matter of the message alone, so
    /// that a run can be repeated.
    fn stray(&mut self, now: Instant, now_ms: i64, id: &str, message: &NewMessage) {
        let Faults {
            stray_copies: most,
            stray_within: within,
            ..
        } = self.faults;
        let chance = |what: u32| {
            let mut hasher = DefaultHasher::new();
            (what, &message.deduplication).hash(&mut hasher);
            f64::from(hasher.finish() as u32) / (f64::from(u32::MAX) + 1.0)
        };
        let copies = (f64::from(most + 1) * chance(0)) as u32;
        for copy in 1..=copies {
            let stray = Message {
                id: id.to_owned(),
                group: message.group.clone(),
                deduplication: message.deduplication.clone(),
                body: message.body.clone(),
                sequence: 0,
                receives: 0,
                sent_ms: now_ms,
                first_received_ms: None,
                hidden_until: None,
            };
            self.strays
                .push((now + within.mul_f64(chance(copy)), stray));
        }
    }

    /// Puts in the copies whose time has come.
    fn gather(&mut self, now: Instant) {
        for (_, stray) in self
            .strays
            .extract_if(.., |(at, _)| *at <= now)
            .collect::<Vec<_>>()
        {
            self.accept(stray);
        }
    }

    /// Puts a dead letter in, as it is.
    pub(crate) fn accept(&mut self, mut message: Message) {
        self.sequence += 1;
        message.sequence = self.sequence;
        message.receives = 0;
        message.hidden_until = None;
        self.put(message);
    }

    /// Receives up to `limit` messages, oldest groups first, and hides them.
    /// A group of which a message is in flight gives none. The second list
    /// holds messages that were received too often: dead letters.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        now_ms: i64,
        limit: usize,
        visibility: Duration,
    ) -> (Vec<Message>, Vec<Message>) {
        self.gather(now);
        let mut received = Vec::new();
        let mut dead = Vec::new();
        let mut ready: Vec<(u64, String)> = self
            .groups
            .iter()
            .filter(|(_, messages)| !messages.iter().any(|message| message.hidden(now)))
            .filter_map(|(group, messages)| Some((messages.front()?.sequence, group.clone())))
            .collect();
        ready.sort_unstable();
        for (_, group) in ready {
            if received.len() >= limit {
                break;
            }
            let Some(messages) = self.groups.get_mut(&group) else {
                continue;
            };
            if let Some(most) = self.rules.receives_max {
                // Only the head is looked at: a later message is a dead
                // letter when its turn comes.
                while messages.front().is_some_and(|head| head.receives >= most) {
                    dead.extend(messages.pop_front());
                }
            }
            for message in messages.iter_mut() {
                let spent = self.rules.receives_max;
                if received.len() >= limit || spent.is_some_and(|most| message.receives >= most) {
                    break;
                }
                message.receives += 1;
                message.first_received_ms.get_or_insert(now_ms);
                message.hidden_until = Some(now + visibility);
                received.push(message.clone());
            }
            if messages.is_empty() {
                self.groups.remove(&group);
            }
        }
        (received, dead)
    }

    /// Takes a received message out. One that is gone already is no error.
    pub(crate) fn delete(&mut self, now: Instant, receipt: &str) -> Result<(), ReceiptError> {
        let Some((group, index)) = self.find(now, receipt)? else {
            return Ok(());
        };
        if let Some(messages) = self.groups.get_mut(&group) {
            messages.remove(index);
            if messages.is_empty() {
                self.groups.remove(&group);
            }
        }
        Ok(())
    }

    /// Hides a received message for so long from now; zero shows it again.
    pub(crate) fn change_visibility(
        &mut self,
        now: Instant,
        receipt: &str,
        visibility: Duration,
    ) -> Result<(), ReceiptError> {
        if let Some((group, index)) = self.find(now, receipt)?
            && let Some(messages) = self.groups.get_mut(&group)
        {
            messages[index].hidden_until = Some(now + visibility);
        }
        Ok(())
    }

    /// When the next hidden message shows again.
    pub(crate) fn next_visible(&self, now: Instant) -> Option<Instant> {
        let hidden = self.groups.values().flatten();
        hidden
            .filter_map(|message| message.hidden_until)
            .chain(self.strays.iter().map(|(at, _)| *at))
            .filter(|until| *until > now)
            .min()
    }

    /// Messages that can be received or wait behind one that can't, and
    /// messages that are hidden.
    pub(crate) fn counts(&self, now: Instant) -> (usize, usize) {
        let all: usize = self.groups.values().map(VecDeque::len).sum();
        let hidden = self.groups.values().flatten();
        let hidden = hidden.filter(|message| message.hidden(now)).count();
        (all - hidden, hidden)
    }

    /// All messages, in the order in which they were put in.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut all: Vec<Message> = self.groups.values().flatten().cloned().collect();
        all.sort_unstable_by_key(|message| message.sequence);
        all
    }

    fn put(&mut self, message: Message) {
        self.groups
            .entry(message.group.clone())
            .or_default()
            .push_back(message);
    }

    fn find(&self, now: Instant, receipt: &str) -> Result<Option<(String, usize)>, ReceiptError> {
        let mut parts = receipt.splitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let (Some(sequence), Some(receives)) = (number(), number()) else {
            return Err(ReceiptError::Invalid);
        };
        let group = parts.next().ok_or(ReceiptError::Invalid)?;
        let Some(messages) = self.groups.get(group) else {
            return Ok(None);
        };
        let Ok(index) = messages.binary_search_by_key(&sequence, |message| message.sequence) else {
            return Ok(None);
        };
        let message = &messages[index];
        if u64::from(message.receives) != receives || !message.hidden(now) {
            return Err(ReceiptError::Expired);
        }
        Ok(Some((group.to_owned(), index)))
    }

    fn forget(&mut self, now: Instant) {
        while let Some((_, at)) = self.seen_order.front() {
            if now.duration_since(*at) < DEDUPLICATION {
                break;
            }
            if let Some((key, _)) = self.seen_order.pop_front() {
                self.seen.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VISIBILITY: Duration = Duration::from_secs(10);

    struct Queue {
        fifo: Fifo,
        now: Instant,
    }

    impl Queue {
        fn new() -> Self {
            Self {
                fifo: Fifo::new(Rules {
                    visibility: VISIBILITY,
                    deduplicate_by_group: true,
                    receives_max: Some(2),
                }),
                now: Instant::now(),
            }
        }

        fn send(&mut self, group: &str, id: &str) -> (String, u64) {
            let message = NewMessage {
                group: group.to_owned(),
                deduplication: id.to_owned(),
                body: id.to_owned(),
            };
            self.fifo.send(self.now, 0, message)
        }

        fn receive(&mut self, limit: usize) -> Vec<Message> {
            self.fifo.receive(self.now, 0, limit, VISIBILITY).0
        }

        fn bodies(&mut self, limit: usize) -> Vec<String> {
            self.receive(limit)
                .into_iter()
                .map(|message| message.body)
                .collect()
        }

        fn delete(&mut self, message: &Message) -> Result<(), ReceiptError> {
            self.fifo.delete(self.now, &message.receipt())
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }
    }

    #[test]
    fn a_group_keeps_its_order_and_is_locked_while_one_is_in_flight() {
        let mut queue = Queue::new();
        for (group, id) in [("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3")] {
            queue.send(group, id);
        }
        let first = queue.receive(2);
        assert_eq!(first[0].body, "a1");
        assert_eq!(first[1].body, "a2");
        assert_eq!(queue.bodies(10), ["b1"]);
        queue.delete(&first[0]).unwrap();
        assert!(queue.receive(10).is_empty(), "a2 is still in flight");
        queue.delete(&first[1]).unwrap();
        assert_eq!(queue.bodies(10), ["a3"]);
    }

    #[test]
    fn what_is_not_deleted_comes_again_before_what_is_behind_it() {
        let mut queue = Queue::new();
        queue.send("a", "a1");
        queue.send("a", "a2");
        let first = queue.receive(1);
        queue.pass(VISIBILITY - Duration::from_millis(1));
        assert!(queue.receive(10).is_empty());
        queue.pass(Duration::from_millis(1));
        assert_eq!(queue.delete(&first[0]), Err(ReceiptError::Expired));
        let again = queue.receive(10);
        assert_eq!(again[0].receives, 2);
        assert_eq!(again[1].body, "a2");
        assert_eq!(queue.delete(&first[0]), Err(ReceiptError::Expired));
        queue.delete(&again[0]).unwrap();
        assert_eq!(queue.delete(&again[0]), Ok(()), "twice is the same as once");
    }

    #[test]
    fn an_id_is_taken_once_in_five_minutes_in_its_group() {
        let mut queue = Queue::new();
        let first = queue.send("a", "1");
        assert_eq!(queue.send("a", "1"), first);
        assert_ne!(queue.send("b", "1"), first, "another group");
        let received = queue.receive(10);
        assert_eq!(received.len(), 2);
        for message in &received {
            queue.delete(message).unwrap();
        }
        queue.pass(DEDUPLICATION - Duration::from_millis(1));
        assert_eq!(queue.send("a", "1"), first, "even when it was deleted");
        assert!(queue.receive(10).is_empty());
        queue.pass(Duration::from_millis(1));
        assert_ne!(queue.send("a", "1"), first);
        assert_eq!(queue.bodies(10), ["1"]);
    }

    #[test]
    fn a_dead_letter_frees_its_group() {
        let mut queue = Queue::new();
        queue.send("a", "bad");
        queue.send("a", "good");
        for _ in 0..2 {
            assert_eq!(queue.bodies(1), ["bad"]);
            queue.pass(VISIBILITY);
        }
        let (received, dead) = queue.fifo.receive(queue.now, 0, 1, VISIBILITY);
        assert_eq!(received[0].body, "good");
        assert_eq!(dead[0].body, "bad");
        let mut letters = Queue::new();
        for letter in dead {
            letters.fifo.accept(letter);
        }
        assert_eq!(letters.bodies(10), ["bad"]);
    }

    #[test]
    fn showing_a_message_again_frees_its_group() {
        let mut queue = Queue::new();
        queue.send("a", "1");
        let receipt = queue.receive(1)[0].receipt();
        let now = queue.now;
        queue
            .fifo
            .change_visibility(now, &receipt, Duration::ZERO)
            .unwrap();
        assert_eq!(queue.bodies(1), ["1"]);
    }

    #[test]
    fn faults_repeat_and_delay() {
        let mut queue = Queue::new();
        queue.fifo.faults = Faults {
            copies: 1,
            delay: Duration::from_secs(1),
            ..Faults::default()
        };
        queue.send("a", "1");
        assert!(queue.receive(10).is_empty());
        queue.pass(Duration::from_secs(1));
        assert_eq!(queue.bodies(10), ["1", "1"]);
    }

    #[test]
    fn strays_come_after_their_group_went_on() {
        let mut queue = Queue::new();
        queue.fifo.faults = Faults {
            stray_copies: 4,
            stray_within: Duration::from_secs(60),
            ..Faults::default()
        };
        let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        for name in &names {
            queue.send("a", name);
        }
        let mut came = HashMap::new();
        for _ in 0..=60 {
            for message in queue.receive(1_000) {
                *came.entry(message.body.clone()).or_insert(0) += 1;
                queue.fifo.delete(queue.now, &message.receipt()).unwrap();
            }
            queue.pass(Duration::from_secs(1));
        }
        assert_eq!(came.len(), names.len());
        let with = |times| came.values().filter(|came| **came == times).count();
        assert!((1..=5).all(|times| with(times) > 5), "{came:?}");
        assert_eq!((1..=5).map(with).sum::<usize>(), names.len());
    }

    #[test]
    fn counts_tell_waiting_from_hidden() {
        let mut queue = Queue::new();
        queue.send("a", "1");
        queue.send("a", "2");
        queue.receive(1);
        assert_eq!(queue.fifo.counts(queue.now), (1, 1));
        assert_eq!(
            queue.fifo.next_visible(queue.now),
            Some(queue.now + VISIBILITY)
        );
    }
}
