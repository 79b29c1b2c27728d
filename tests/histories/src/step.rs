//! What may happen in a history, and how often.
//!
//! A step names what it is about by a number; which of those that are there it
//! is, is that number modulo their count. So any part of a history is one too,
//! and a failing one can be made smaller.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::bench::BUCKETS;

/// A small sale and what happens in it.
#[derive(Clone)]
pub struct History {
    /// Units that one customer may have.
    pub limit: u32,
    /// Units in each bucket.
    pub units: [u32; BUCKETS as usize],
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "limit {}, units {:?}", self.limit, self.units)?;
        self.steps
            .iter()
            .enumerate()
            .try_for_each(|(n, step)| write!(f, "\n  {n:>2} {step:?}"))
    }
}

/// A tap on "buy".
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Who, of four.
    pub shopper: u8,
    /// Their name for the attempt, of two.
    pub key: u8,
    /// Units; never more than the limit.
    pub quantity: u32,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// The claim function asks the gates, and stops or is slow.
    Claim(Wish),
    /// One of those that are slow stores its message.
    Send(usize),
    /// One of those that sent looks whether its yes stands, and tells it.
    Look(usize),
    /// All three in one go.
    Buy(Wish),
    /// A worker gets the first messages of a group.
    Deliver {
        /// Which group.
        bucket: u8,
        /// How many messages at most.
        most: usize,
        /// The queue does not hear that they were handled.
        again: bool,
        /// The worker's clock is a minute behind: it read it a while ago.
        slow: bool,
    },
    /// A slow worker handles a message that was handled before.
    Repeat(usize),
    /// A shopper begins to pay an order.
    Pay(usize),
    /// A shopper's bank says yes or no to an intent.
    Confirm(usize, bool),
    /// The provider delivers an event, for the first time or not.
    Event(usize),
    /// The provider captured an intent after all, cancelled or declined as it
    /// may be, and will say so.
    CapturedAfterAll(usize),
    /// A shopper gives a hold back; the function may stop before the gate hears.
    GiveBack(usize, bool),
    /// Five seconds or a minute pass.
    Wait(bool),
    /// The sweeper goes round, and perhaps compares.
    Sweep(bool),
    /// A primary is replaced by a replica that has what it had some steps ago.
    FailOver(u8, usize),
    /// A primary is started anew, with nothing.
    Restart(u8),
    /// A primary that was demoted comes back with its scripts and what it had
    /// some steps ago.
    ComeBack(u8, usize),
    /// Units are to move to the other bucket.
    Move(u8, u32),
    /// The one who moves them stops after taking them.
    MoveStops(u8, u32),
    /// The merchant adds units.
    Grow(u8, u32),
    /// The merchant ends the sale.
    End,
}

/// Which things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    /// All against which every promise holds.
    Covered,
    /// And primaries that come back, against which the ledger alone holds: the
    /// known limit of `docs/architecture.md`.
    ComeBack,
}

fn wish(limit: u32) -> impl Strategy<Value = Wish> {
    (0..4u8, 0..2u8, 1..=limit).prop_map(|(shopper, key, quantity)| Wish {
        shopper,
        key,
        quantity,
    })
}

fn step(limit: u32, faults: Faults) -> BoxedStrategy<Step> {
    let any = || 0..64usize;
    let bucket = || 0..BUCKETS as u8;
    let comes_back = move |(at, back)| match faults {
        Faults::Covered => Step::FailOver(at, back),
        Faults::ComeBack => Step::ComeBack(at, back),
    };
    let deliver = (bucket(), 1..=3usize, 0..4u8, 0..5u8);
    prop_oneof![
        12 => wish(limit).prop_map(Step::Claim),
        8 => any().prop_map(Step::Send),
        6 => any().prop_map(Step::Look),
        14 => wish(limit).prop_map(Step::Buy),
        18 => deliver.prop_map(|(bucket, most, again, slow)| Step::Deliver {
            bucket,
            most,
            again: again == 0,
            slow: slow == 0,
        }),
        4 => any().prop_map(Step::Repeat),
        9 => any().prop_map(Step::Pay),
        8 => (any(), 0..4u8).prop_map(|(n, no)| Step::Confirm(n, no > 0)),
        7 => any().prop_map(Step::Event),
        2 => any().prop_map(Step::CapturedAfterAll),
        4 => (any(), proptest::bool::ANY).prop_map(|(n, stops)| Step::GiveBack(n, stops)),
        6 => proptest::bool::ANY.prop_map(Step::Wait),
        9 => proptest::bool::ANY.prop_map(Step::Sweep),
        2 => (bucket(), 0..12usize).prop_map(|(at, back)| Step::FailOver(at, back)),
        2 => (bucket(), 0..12usize).prop_map(comes_back),
        1 => bucket().prop_map(Step::Restart),
        2 => (bucket(), 1..=3u32).prop_map(|(at, units)| Step::Move(at, units)),
        1 => (bucket(), 1..=3u32).prop_map(|(at, units)| Step::MoveStops(at, units)),
        1 => (bucket(), 1..=2u32).prop_map(|(at, units)| Step::Grow(at, units)),
        1 => Just(Step::End),
    ]
    .boxed()
}

/// Histories of a small sale.
pub fn histories(faults: Faults) -> impl Strategy<Value = History> {
    let units = [0..=3u32, 0..=3u32].prop_filter("no unit", |units| units.iter().sum::<u32>() > 0);
    (1..=2u32, units).prop_flat_map(move |(limit, units)| {
        vec(step(limit, faults), 10..60).prop_map(move |steps| History {
            limit,
            units,
            steps,
        })
    })
}
