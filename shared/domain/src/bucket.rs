//! Buckets: how units are split, and which bucket is a shopper's home.

use sha2::{Digest, Sha256};

use crate::id::{BucketId, ShopperId};

/// The most units in one bucket. An SQS FIFO message group takes 300 sends a
/// second, so a bucket that sells within one second still fits.
pub const UNITS_PER_BUCKET_MAX: u32 = 250;

/// What a bucket may have once units were moved to it. They come when its own
/// are given out, so it still gives out no more than that within a second.
pub const UNITS_MOVED_MAX: u32 = 2 * UNITS_PER_BUCKET_MAX;

/// The most buckets in one sale.
pub const BUCKETS_MAX: u16 = 400;

/// The fewest buckets for so many units.
pub fn buckets_min(units: u32) -> u16 {
    units
        .div_ceil(UNITS_PER_BUCKET_MAX)
        .clamp(1, u32::from(BUCKETS_MAX)) as u16
}

/// Capacity of each bucket: as equal as can be, the first ones take the rest.
/// Their sum is `units`, also when there are fewer units than buckets.
pub fn split(units: u32, buckets: u16) -> Vec<u32> {
    let buckets = u32::from(buckets.max(1));
    (0..buckets)
        .map(|n| units / buckets + u32::from(n < units % buckets))
        .collect()
}

/// A shopper's home bucket: the one that is tried first, always the same, so
/// that the limit per customer is checked in one script.
///
/// SHA-256, since the answer must not change with a release of a compiler or
/// a crate; unsigned, so that no remainder is negative.
pub fn home(shopper: &ShopperId, buckets: u16) -> BucketId {
    let digest = Sha256::digest(shopper.as_str().as_bytes());
    let number = digest[..8]
        .iter()
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    BucketId((number % u64::from(buckets.max(1))) as u16)
}

/// Free units that are worth moving: fewer are found by overflow as fast.
const MOVE_MIN: u32 = 8;

/// Units to be moved between buckets, so that shoppers find them at home: from
/// the fullest to an empty one, half of what it has. The other half stays, so
/// that nobody is told "sold out" while the units are on their way.
///
/// `free`: of each bucket, if it is known.
pub fn moves(free: &[Option<u32>]) -> Vec<(BucketId, BucketId, u32)> {
    let number = |n: usize| BucketId(n as u16);
    let mut fullest: Vec<_> = (0..free.len())
        .filter_map(|n| Some((free[n]?, number(n))))
        .filter(|(units, _)| *units >= MOVE_MIN)
        .collect();
    fullest.sort_unstable_by_key(|(units, id)| (std::cmp::Reverse(*units), *id));
    let empty = (0..free.len()).filter(|n| free[*n] == Some(0)).map(number);
    let pairs = fullest.into_iter().zip(empty);
    pairs
        .map(|((units, from), to)| (from, to, units / 2))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn capacities_add_up(units in 0u32..100_000, buckets in 1u16..=BUCKETS_MAX) {
            let split = split(units, buckets);
            prop_assert_eq!(split.len(), usize::from(buckets));
            prop_assert_eq!(split.iter().sum::<u32>(), units);
            prop_assert!(split.iter().max().unwrap() - split.iter().min().unwrap() <= 1);
        }

        #[test]
        fn no_bucket_is_too_large(units in 1u32..=100_000) {
            prop_assert!(split(units, buckets_min(units))[0] <= UNITS_PER_BUCKET_MAX);
        }

        #[test]
        fn a_home_is_a_bucket(shopper in "[ -~]{1,40}", buckets in 1u16..=BUCKETS_MAX) {
            prop_assert!(home(&shopper.parse().unwrap(), buckets).0 < buckets);
        }
    }

    #[test]
    fn empty_buckets_get_half_of_the_fullest() {
        let id = BucketId;
        let free = [Some(0), Some(20), None, Some(9), Some(0), Some(7), Some(0)];
        let expected = [(id(1), id(0), 10), (id(3), id(4), 4)];
        assert_eq!(moves(&free), expected);
        assert_eq!(moves(&[Some(3), Some(200)]), []);
        assert_eq!(moves(&[Some(0), None]), []);
    }

    #[test]
    fn homes_are_the_same_for_ever() {
        // The first 8 bytes of SHA-256, big-endian, mod 40; a change here moves live shoppers.
        let home_of = |shopper: &str| home(&shopper.parse().unwrap(), 40).0;
        assert_eq!(
            [
                home_of("u_42"),
                home_of("9007199254740993"),
                home_of("9007199254740992")
            ],
            [28, 30, 10]
        );
    }

    #[test]
    fn homes_are_spread() {
        let mut counts = [0u32; 8];
        for n in 0..8_000 {
            counts[usize::from(home(&format!("u_{n}").parse().unwrap(), 8).0)] += 1;
        }
        assert!(counts.iter().all(|n| (880..1120).contains(n)), "{counts:?}");
    }
}
