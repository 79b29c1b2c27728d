//! Placement: a bucket's hash tag, chosen so that buckets spread evenly over
//! the primaries. Eight tags do not spread over eight primaries by themselves.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::id::{BucketId, SaleId};

/// Slots of a Redis cluster.
pub const SLOTS: u16 = 16_384;

/// The slot of a key whose hash tag is `tag` (CRC16/XMODEM mod 16384, by the
/// Redis cluster specification).
pub fn slot(tag: &str) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes()) % SLOTS
}

/// A tag for the bucket whose slot is one of `owned`, the slots of the
/// primary that shall hold it.
///
/// A suffix is counted up until the slot fits: with n equal primaries that
/// takes n tries on average. Gives up after 100,000 with the plain tag, which
/// is correct too, only not even.
pub fn tag(sale: &SaleId, bucket: BucketId, owned: &[RangeInclusive<u16>]) -> String {
    let plain = format!("{sale}:b{bucket}");
    (0..100_000u32)
        .map(|suffix| format!("{plain}.{suffix}"))
        .find(|tag| owned.iter().any(|range| range.contains(&slot(tag))))
        .unwrap_or(plain)
}

/// Where the gate of one bucket is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAddress {
    /// Hash tag of its keys.
    pub tag: String,
    /// Which life of the gate: part of its claim script's text.
    pub epoch: u64,
}

/// The gates of a sale, by bucket number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// One for each bucket.
    pub addresses: Vec<GateAddress>,
}

impl Gates {
    /// Every bucket with its address.
    pub fn iter(&self) -> impl Iterator<Item = (BucketId, &GateAddress)> {
        (0u16..).map(BucketId).zip(&self.addresses)
    }

    /// The address of one bucket.
    pub fn of(&self, bucket: BucketId) -> Option<&GateAddress> {
        self.addresses.get(usize::from(bucket.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The specification's example: CRC16 of "123456789" is 0x31C3.
        assert_eq!(slot("123456789"), 0x31C3 % SLOTS);
    }

    #[test]
    fn forty_buckets_on_eight_primaries_are_five_each() {
        let sale = "fs1111".parse().unwrap();
        let width = SLOTS / 8;
        let mut counts = [0; 8];
        for n in 0..40u16 {
            let start = (n % 8) * width;
            let tag = tag(&sale, BucketId(n), &[start..=start + width - 1]);
            counts[usize::from(slot(&tag) / width)] += 1;
        }
        assert_eq!(counts, [5; 8]);
    }
}
