//! The gate of a bucket: what the scripts in `lua/` do, a unit a claim, and two
//! nodes of which one is the primary.

use std::fmt;

use crate::guard::Guard;
use crate::sale::{KEYS, Key, Sale};

/// `c:<digest>`: which claim of the key, and what was taken here for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    /// The claim's bucket; another than the gate's: a mark.
    pub at: u8,
    /// Units taken here: none for a mark.
    pub here: i8,
    /// The mark that led here, or that this is.
    pub turn: u8,
}

/// The hash and the deadlines of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stock {
    /// The life that loaded it.
    pub epoch: u8,
    /// Units that can be claimed.
    pub left: i8,
    /// Units ever taken.
    pub taken: u8,
    /// Marks so far.
    pub turn: u8,
    /// The claims, by key.
    pub records: [Option<Record>; KEYS],
    /// Whose units count against their shopper's limit (`u:<shopper>`).
    pub counted: [bool; KEYS],
    /// Which of the records have a deadline.
    pub due: [bool; KEYS],
    /// `n:<digest>`: the newest turn that found nothing here.
    pub refused: [u8; KEYS],
    /// A gap that was noted.
    pub gap: Option<i8>,
}

/// What a shopper asks for.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// The key, and so the claim's digest.
    pub key: Key,
    /// The claim's bucket.
    pub at: u8,
    /// Only to mark the shopper.
    pub mark: bool,
    /// The mark that leads here, or that this mark replaces.
    pub turn: u8,
    /// Units that the shopper may hold.
    pub limit: u8,
}

/// A bucket's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes, now.
    Claimed(Record),
    /// This very claim was made before.
    Same(Record),
    /// The shopper holds as much as they may.
    Holds,
    /// No unit.
    Empty,
}

/// What ending a hold does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    /// Units return, the shopper had the chance.
    Lapsed,
    /// Units return, the shopper may ask again.
    Voided,
    /// The unit never existed.
    Forget,
    /// A mark that led nowhere.
    Erase(u8),
}

impl Stock {
    /// `claim.lua`.
    pub fn claim(&mut self, sale: &Sale, ask: &Ask) -> Decision {
        let Ask { key, at, mark, .. } = *ask;
        let fenced = sale.keeps(Guard::Turn);
        if let Some(same) = self.records[key] {
            let ours = !fenced || same.turn == ask.turn;
            if !(mark && same.here == 0 && ask.turn > 0 && ours) {
                return Decision::Same(same);
            }
            self.due[key] = false;
            self.counted[key] = false;
        } else if self.units(sale, key) + 1 > ask.limit {
            return Decision::Holds;
        }
        let mut turn = ask.turn;
        if mark {
            self.turn += 1;
            turn = self.turn;
        } else if turn > 0 && fenced && turn <= self.refused[key] {
            return Decision::Empty;
        } else if self.left < 1 {
            if turn > 0 {
                self.refused[key] = turn;
            }
            return Decision::Empty;
        }
        let here = i8::from(!mark);
        let record = Record { at, here, turn };
        self.left -= here;
        self.taken += here as u8;
        self.records[key] = Some(record);
        self.counted[key] = true;
        self.due[key] = true;
        Decision::Claimed(record)
    }

    fn units(&self, sale: &Sale, key: Key) -> u8 {
        let same = |other: &Key| sale.shopper[*other] == sale.shopper[key];
        let theirs = (0..KEYS).filter(|other| self.counted[*other] && same(other));
        theirs.count() as u8
    }

    /// `release.lua`. Whether it ended the hold.
    pub fn release(&mut self, sale: &Sale, key: Key, at: u8, how: Release) -> bool {
        let Some(record) = self.records[key].filter(|record| record.at == at) else {
            return false;
        };
        if let Release::Erase(turn) = how {
            let ours = record.turn == turn || !sale.keeps(Guard::Turn);
            if !ours {
                return false;
            }
        }
        if !self.due[key] && sale.keeps(Guard::Zrem) {
            return false;
        }
        self.due[key] = false;
        if matches!(how, Release::Lapsed | Release::Voided) {
            self.left += record.here;
        }
        if how != Release::Lapsed {
            self.counted[key] = false;
        }
        if matches!(how, Release::Erase(_)) {
            self.records[key] = None;
        }
        true
    }

    /// `ZREM due`: a paid claim keeps its unit.
    pub fn settle(&mut self, key: Key, at: u8) {
        if self.records[key].is_some_and(|record| record.at == at) {
            self.due[key] = false;
        }
    }
}

impl fmt::Debug for Stock {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "left {} of life {}", self.left, self.epoch)
    }
}

/// A node: what it stores, and the scripts in its memory, a bit a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Node {
    /// Replicated.
    pub stock: Stock,
    /// Not replicated, and lost with the process.
    pub scripts: u8,
}

/// A bucket's gate: who serves, and who would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gate {
    /// Serves.
    pub primary: Node,
    /// Has what the primary had at some earlier moment.
    pub replica: Node,
}

impl Gate {
    /// Loaded for a life of which nothing is taken.
    pub fn new(left: u8) -> Self {
        let stock = Stock {
            epoch: 1,
            left: left as i8,
            turn: 8,
            ..Stock::default()
        };
        let primary = Node { stock, scripts: 2 };
        let replica = Node { stock, scripts: 0 };
        Self { primary, replica }
    }

    /// Whether the claim script of a life runs here.
    pub fn serves(&self, sale: &Sale, epoch: u8) -> bool {
        let same = self.primary.stock.epoch == epoch || !sale.keeps(Guard::HashEpoch);
        self.primary.scripts & (1 << epoch) != 0 && same
    }

    /// The replica is promoted; the old primary follows it.
    pub fn fail_over(&mut self, sale: &Sale, more: bool) {
        let kept = if sale.demoted_keeps_scripts {
            self.primary.scripts
        } else {
            0
        };
        self.primary = self.replica;
        self.replica.scripts = kept;
        if !more {
            self.replica = Node::default();
        }
    }
}
