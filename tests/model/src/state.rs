//! Everything at one moment.

use crate::gate::Gate;
use crate::ledger::{Bucket, Ledger};
use crate::order::Work;
use crate::payment::{ATTEMPTS, Intent, Pay};
use crate::queue::Group;
use crate::rebalance::Move;
use crate::sale::{BUCKETS, KEYS, Key, Sale};
use crate::shopper::{Answer, Call, Step};
use crate::sweeper::{Compare, Sweep};

/// What is stored, and who is on their way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The gates.
    pub gates: [Gate; BUCKETS],
    /// The ledger.
    pub ledger: Ledger,
    /// The queue's groups.
    pub groups: [Group; BUCKETS],
    /// Intents at the provider, by key and attempt.
    pub intents: [[Intent; ATTEMPTS as usize]; KEYS],
    /// What the shoppers were told, by key.
    pub answers: [Answer; KEYS],

    /// Calls that began, by key.
    pub asked: [u8; KEYS],
    /// Whether a gate ever gave the claim, or its mark, a deadline.
    pub claimed: [bool; KEYS],
    /// Whether `pay_by` has passed.
    pub late: [bool; KEYS],
    /// Whether `pay_until` has passed.
    pub closed: [bool; KEYS],

    /// Calls of the claim function, sorted.
    pub calls: Vec<Call>,
    /// Workers of the order function.
    pub workers: [Option<Work>; 2],
    /// Sweeps.
    pub sweeps: [Option<Sweep>; 2],
    /// A comparison.
    pub compare: Option<Compare>,
    /// Calls of the payment function.
    pub pays: [Option<Pay>; 2],
    /// A unit that is being moved.
    pub moving: Option<Move>,

    /// Primaries that may still be lost.
    pub failovers: u8,
    /// Recoveries that may still stop, or find the gate silent.
    pub stops: u8,
    /// Messages that may still be received twice at a time.
    pub overlaps: u8,
    /// Moves that may still begin.
    pub moves: u8,
    /// Answers without an intent that the provider may still give.
    pub refusals: u8,
}

impl State {
    /// A sale that is open.
    pub fn new(sale: &Sale) -> Self {
        let mut buckets = [Bucket::default(); BUCKETS];
        let mut gates = [Gate::default(); BUCKETS];
        for (at, &units) in sale.units.iter().enumerate().take(sale.buckets) {
            gates[at] = Gate::new(units);
            buckets[at] = Bucket {
                capacity: units as i8,
                spare: units as i8,
                epoch: 1,
                published: 1,
                closed: 0,
            };
            if sale.failovers == 0 {
                gates[at].replica = Default::default();
            }
        }
        Self {
            gates,
            ledger: Ledger {
                buckets,
                orders: Default::default(),
                units: Default::default(),
                claims: Default::default(),
                moving: false,
            },
            groups: Default::default(),
            intents: Default::default(),
            answers: [Answer::None; KEYS],
            asked: Default::default(),
            claimed: Default::default(),
            late: Default::default(),
            closed: Default::default(),
            calls: Vec::new(),
            workers: [None; 2],
            sweeps: [None; 2],
            compare: None,
            pays: [None; 2],
            moving: None,
            failovers: sale.failovers,
            stops: sale.stops,
            overlaps: sale.overlaps,
            moves: sale.moves,
            refusals: sale.refusals,
        }
    }

    /// A call goes on like this.
    pub fn call(&mut self, key: Key, step: Option<Step>) {
        if let Some(step) = step {
            self.calls.push(Call { key, step });
            self.calls.sort_unstable();
        }
    }

    /// An attempt's intent.
    pub fn intent(&mut self, key: Key, attempt: u8) -> &mut Intent {
        &mut self.intents[key][usize::from(attempt) - 1]
    }
}
