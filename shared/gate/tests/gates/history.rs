//! Random histories of one bucket against a plain reference. A failing run
//! says its seed and step; the same seed is the same history.

use std::collections::{BTreeMap, BTreeSet};

use domain::ClaimId;
use gate::{Decision, Release};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::shop::{Shop, Wish, wish};

const SEEDS: std::ops::Range<u64> = 0..12;
const STEPS: usize = 250;
const CAPACITY: u32 = 9;
const LIMIT: u32 = 3;
/// Turns of the first life of a bucket are above this.
const TURNS: u64 = 1_000_000_000;

/// A bucket as its rules say it.
#[derive(Default)]
struct Reference {
    left: u32,
    /// Units of claims that are paid.
    paid: u32,
    /// Units that were taken out, or that a void said never existed.
    gone: u32,
    claims: BTreeMap<String, Known>,
    /// Units that count against a shopper's limit.
    units: BTreeMap<String, u32>,
    /// Marks so far.
    turns: u64,
    /// The newest turn of each key that found nothing.
    refused: BTreeMap<String, u64>,
}

#[derive(Clone)]
struct Known {
    claim: ClaimId,
    shopper: String,
    quantity: u32,
    here: u32,
    turn: u64,
    due: bool,
    /// Whether its units count against the shopper's limit.
    counts: bool,
}

#[derive(Debug, PartialEq)]
enum Said {
    Claimed(ClaimId),
    Same(ClaimId),
    Holds(u32),
    Empty,
}

impl Reference {
    /// `turn`: the mark that led to a bucket that takes; else the mark that is
    /// replaced.
    fn ask(&mut self, claim: &ClaimId, wish: &Wish, takes: bool, turn: u64) -> Said {
        let shopper = wish.shopper.to_string();
        if let Some(known) = self.claims.get(claim.digest()) {
            if takes || known.here > 0 || turn == 0 || known.turn != turn {
                return Said::Same(known.claim.clone());
            }
            if known.counts {
                *self.units.get_mut(&shopper).unwrap() -= known.quantity;
            }
        } else {
            let units = self.units.get(&shopper).copied().unwrap_or(0);
            if units > 0 && units + wish.quantity > LIMIT {
                return Said::Holds(units);
            }
        }
        let (here, turn) = if takes {
            let refused = self.refused.get(claim.digest()).copied().unwrap_or(0);
            if turn > 0 && turn <= refused {
                return Said::Empty;
            }
            if wish.quantity > self.left {
                if turn > 0 {
                    self.refused.insert(claim.digest().to_owned(), turn);
                }
                return Said::Empty;
            }
            (wish.quantity, turn)
        } else {
            self.turns += 1;
            (0, TURNS + self.turns)
        };
        self.left -= here;
        *self.units.entry(shopper.clone()).or_default() += wish.quantity;
        let known = Known {
            claim: claim.clone(),
            shopper,
            quantity: wish.quantity,
            here,
            turn,
            due: true,
            counts: true,
        };
        self.claims.insert(claim.digest().to_owned(), known);
        Said::Claimed(claim.clone())
    }

    fn release(&mut self, claim: &ClaimId, how: Release) -> bool {
        let Some(known) = self.claims.get_mut(claim.digest()) else {
            return false;
        };
        if !known.due || known.claim != *claim {
            return false;
        }
        if let Release::Erase(turn) = how
            && turn != known.turn
        {
            return false;
        }
        known.due = false;
        match how {
            Release::Lapsed | Release::Voided => self.left += known.here,
            Release::Forget | Release::Erase(_) => self.gone += known.here,
        }
        if how != Release::Lapsed && std::mem::take(&mut known.counts) {
            *self.units.get_mut(&known.shopper).unwrap() -= known.quantity;
        }
        if matches!(how, Release::Erase(_)) {
            self.claims.remove(claim.digest());
        }
        true
    }

    fn settle(&mut self, claim: &ClaimId) {
        if let Some(known) = self.claims.get_mut(claim.digest())
            && known.claim == *claim
            && std::mem::take(&mut known.due)
        {
            self.paid += known.here;
        }
    }

    fn turn(&self, claim: &ClaimId) -> u64 {
        self.claims
            .get(claim.digest())
            .map_or(0, |known| known.turn)
    }

    fn due(&self) -> BTreeSet<ClaimId> {
        let due = self.claims.values().filter(|known| known.due);
        due.map(|known| known.claim.clone()).collect()
    }
}

#[tokio::test]
async fn every_history_keeps_every_unit() {
    for seed in SEEDS {
        let shop = Shop::open(&[CAPACITY]).await;
        let mut random = StdRng::seed_from_u64(seed);
        let mut reference = Reference {
            left: CAPACITY,
            ..Reference::default()
        };
        for step in 0..STEPS {
            let what = act(&shop, &mut reference, &mut random).await;
            let at = format!("seed {seed}, step {step}: {what}");
            let (view, holds) = shop.gate.holds(shop.tag(0)).await.unwrap();
            assert_eq!(view.left, u64::from(reference.left), "{at}");
            let due: BTreeSet<_> = holds.iter().map(|hold| hold.claim.clone()).collect();
            assert_eq!(due, reference.due(), "{at}");
            let held: u32 = holds.iter().map(|hold| hold.taken_here).sum();
            let left = view.left as u32;
            assert_eq!(
                left + held + reference.paid + reference.gone,
                CAPACITY,
                "{at}"
            );
        }
    }
}

/// Does the same at the gate and at the reference, and compares the answers.
async fn act(shop: &Shop, reference: &mut Reference, random: &mut StdRng) -> String {
    let shopper = format!("u_{}", random.random_range(0..5));
    let key = format!("key-000{}", random.random_range(0..4));
    let wish = wish(&shopper, &key).of(random.random_range(1..=2), LIMIT);
    // A mark's claim is in another bucket.
    let bucket = random.random_range(0..3u16);
    let claim = shop.claim_id(bucket, &wish);
    let turn = match random.random_range(0..3) {
        0 => 0,
        1 => TURNS + random.random_range(0..=reference.turns),
        _ => reference.turn(&claim),
    };
    match random.random_range(0..100) {
        0..50 => {
            let takes = bucket == 0;
            let answer = if takes {
                shop.claim_after(turn, 0, &wish).await
            } else {
                shop.mark_after(turn, 0, bucket, &wish).await
            };
            let said = match answer.unwrap() {
                Decision::Claimed(hold) => Said::Claimed(hold.claim),
                Decision::Same(hold) => Said::Same(hold.claim),
                Decision::Holds(_, units) => Said::Holds(units),
                Decision::Empty => Said::Empty,
                Decision::Busy => panic!("no rate was given"),
            };
            let quantity = wish.quantity;
            let what = format!("{claim} of {shopper} for {quantity}");
            let expected = reference.ask(&claim, &wish, takes, turn);
            assert_eq!(said, expected, "{what}, turn {turn}");
            what
        }
        50..85 => {
            let how = [
                Release::Lapsed,
                Release::Voided,
                Release::Forget,
                Release::Erase(turn),
            ][random.random_range(0..4)];
            let what = format!("{how:?} {claim}");
            let ended = shop.release(0, &claim, how).await;
            assert_eq!(ended, reference.release(&claim, how), "{what}");
            what
        }
        85..90 => {
            shop.gate.settle(shop.tag(0), &claim).await.unwrap();
            reference.settle(&claim);
            format!("settle {claim}")
        }
        90..95 => {
            let taken = shop.gate.take(shop.address(0), 2).await.unwrap();
            assert_eq!(taken, reference.left.min(2));
            reference.left -= taken;
            reference.gone += taken;
            format!("take {taken}")
        }
        _ => {
            let back = reference.gone.min(3);
            shop.gate.put(shop.address(0), back).await.unwrap();
            reference.left += back;
            reference.gone -= back;
            format!("put {back}")
        }
    }
}
