//! A unit goes from one bucket to the other: off the gate, over in the ledger,
//! to the gate. Whoever moves it may stop after any step, or sleep until it was
//! given up.

use crate::guard::Guard;
use crate::sale::Sale;
use crate::state::State;

/// The next step of a move from bucket 0 to bucket 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Takes a unit off the gate.
    Take,
    /// Looks at the other gate.
    Look {
        /// The life that the unit was taken in.
        life: u8,
    },
    /// Moves the capacity.
    MoveCapacity {
        /// The life that the unit was taken in.
        life: u8,
        /// Life, left, taken of the other gate.
        seen: (u8, i8, u8),
    },
    /// Puts the unit to the other gate.
    Put {
        /// As it was.
        seen: (u8, i8, u8),
    },
    /// The move has ended.
    End,
}

/// A move goes on.
pub fn go_on(sale: &Sale, state: &mut State, step: Move) -> Option<Move> {
    let (from, to) = (0, 1);
    match step {
        Move::Take => {
            let stock = &mut state.gates[from].primary.stock;
            if stock.left < 1 {
                return Some(Move::End);
            }
            stock.left -= 1;
            Some(Move::Look { life: stock.epoch })
        }
        Move::Look { life } => {
            let stock = &state.gates[to].primary.stock;
            let seen = (stock.epoch, stock.left, stock.taken);
            Some(Move::MoveCapacity { life, seen })
        }
        Move::MoveCapacity { life, seen } => {
            let begun = state.ledger.moving || !sale.keeps(Guard::MoveBegun);
            let [source, target] = &mut state.ledger.buckets;
            let same = source.epoch == life || !sale.keeps(Guard::MoveEpoch);
            if !begun || !same || source.spare < 1 {
                return Some(Move::End);
            }
            source.capacity -= 1;
            source.spare -= 1;
            target.capacity += 1;
            target.spare += 1;
            Some(Move::Put { seen })
        }
        Move::Put { seen } => {
            let stock = &mut state.gates[to].primary.stock;
            let same = (stock.epoch, stock.left, stock.taken) == seen;
            if same || !sale.keeps(Guard::PutSeen) {
                stock.left += 1;
            }
            Some(Move::End)
        }
        Move::End => {
            state.ledger.moving = false;
            None
        }
    }
}
