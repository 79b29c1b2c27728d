//! The draw: tickets, the commitment to the secret, places in line.
//!
//! A ticket is a fraction of the scale. Those of the draw's window are below
//! 1; late ones follow from 1 on in arrival order. Doubles are exact enough
//! everywhere: 53 bits of a digest, and integers below 2^53 divided by one
//! number keep their order.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::admission::Admission;
use crate::id::{BucketId, PassId, hex};

/// An entry's number: lower is sooner.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(pub f64);

impl Ticket {
    /// The ticket of a pass. Tapping again gives the same.
    pub fn drawn(secret: &[u8], pass: &PassId) -> Self {
        Drawn::of(secret, pass).ticket
    }

    /// The ticket of the `arrival`-th late entry, counted from 1.
    pub fn late(arrival: u64, scale: u64) -> Self {
        Self(1.0 + arrival.saturating_sub(1) as f64 / scale.max(1) as f64)
    }

    /// Whether the threshold admits it. The whole of admission.
    pub fn is_admitted(self, threshold: f64) -> bool {
        self.0 < threshold
    }
}

/// What the draw makes of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Its ticket.
    pub ticket: Ticket,
    /// What decides whether it is counted.
    pub lot: u32,
}

impl Drawn {
    /// Of HMAC-SHA256(secret, pass id) the first 53 bits are the ticket, as a
    /// fraction in [0, 1), and the ninth to twelfth byte the lot: neither says
    /// anything of the other.
    pub fn of(secret: &[u8], pass: &PassId) -> Self {
        #[allow(clippy::expect_used)] // HMAC takes keys of any length
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any key length");
        mac.update(pass.as_str().as_bytes());
        let digest = mac.finalize().into_bytes();
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
        };
        Self {
            ticket: Ticket((number(&digest[..8]) >> 11) as f64 / (1u64 << 53) as f64),
            lot: number(&digest[8..12]) as u32,
        }
    }

    /// Whether an entry of the pass is counted, where one in `sample` is. Only
    /// these reach the origin through the edge; of those that come past it no
    /// others count either, or they would count `sample` times.
    pub fn is_counted(self, sample: u32) -> bool {
        self.lot.is_multiple_of(sample.max(1))
    }
}

/// The number among all late entries of the `local`-th one of a bucket.
/// Buckets count by themselves, so this is arrival order up to the spread of
/// the buckets' counts; no two entries share a number.
pub fn arrival(local: u64, bucket: BucketId, buckets: u16) -> u64 {
    local.saturating_sub(1) * u64::from(buckets.max(1)) + u64::from(bucket.0) + 1
}

/// How many late entries each bucket may have counted when one has this place
/// among all: [`arrival`] the other way round.
pub fn arrivals(place: u64, buckets: u16) -> u64 {
    place.div_ceil(u64::from(buckets.max(1)))
}

/// The bytes of a secret, of which tickets and the commitment are made: 64 hex
/// digits, as the ledger keeps them. `None` if the text is anything else.
pub fn secret_bytes(text: &str) -> Option<[u8; 32]> {
    let digits = text
        .bytes()
        .map(|digit| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    let bytes: Vec<_> = digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    (digits.len() == 64).then(|| bytes.try_into().ok())?
}

/// The bytes of a secret, if they are those that were committed to: nobody
/// draws with a secret that was chosen later.
pub fn committed_bytes(text: &str, promised: &str) -> Option<[u8; 32]> {
    secret_bytes(text).filter(|secret| commitment(secret) == promised)
}

/// SHA-256 of the secret in hex: published before the first pass, so that the
/// secret can't be chosen later.
pub fn commitment(secret: &[u8]) -> String {
    hex(&Sha256::digest(secret))
}

impl Admission {
    /// The threshold that admits the first `places` in line.
    pub fn threshold_for(&self, places: u64) -> f64 {
        let scale = self.scale.max(1) as f64;
        if places <= self.entries {
            places as f64 / scale
        } else {
            1.0 + (places - self.entries) as f64 / scale
        }
    }

    /// Place in line, from 1; `None` until the draw is counted. An estimate
    /// for drawn tickets, since tickets are even but not evenly spaced.
    pub fn position(&self, ticket: Ticket) -> Option<u64> {
        let scale = self.scale as f64;
        match self.scale {
            0 => None,
            _ if ticket.0 < 1.0 => Some((ticket.0 * self.entries as f64) as u64 + 1),
            _ => Some(self.entries + ((ticket.0 - 1.0) * scale).round() as u64 + 1),
        }
    }

    /// Place among those who have no unit, from 1. It only depends on the
    /// ticket, so it never gets worse.
    pub fn waitlist_position(&self, ticket: Ticket, units: u32) -> Option<u64> {
        self.position(ticket)
            .map(|place| place.saturating_sub(u64::from(units)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pass(n: u64) -> PassId {
        format!("pass-{n}").parse().unwrap()
    }

    #[test]
    fn a_ticket_depends_on_secret_and_pass_alone() {
        assert_eq!(
            Ticket::drawn(b"secret", &pass(1)),
            Ticket::drawn(b"secret", &pass(1))
        );
        assert_ne!(
            Ticket::drawn(b"secret", &pass(1)),
            Ticket::drawn(b"secret", &pass(2))
        );
        assert_ne!(
            Ticket::drawn(b"secret", &pass(1)),
            Ticket::drawn(b"other", &pass(1))
        );
    }

    #[test]
    fn a_secret_is_its_bytes() {
        let text = "0123456789abcdef".repeat(4);
        let bytes = secret_bytes(&text).unwrap();
        assert_eq!(hex(&bytes), text);
        for odd in [
            "",
            &text[1..],
            &text[2..],
            &text.to_uppercase(),
            &text.replace('0', "g"),
        ] {
            assert_eq!(secret_bytes(odd), None, "{odd}");
        }
        let promised = commitment(&bytes);
        assert_eq!(committed_bytes(&text, &promised), Some(bytes));
        assert_eq!(committed_bytes(&text.replace('0', "1"), &promised), None);
        assert_eq!(committed_bytes(&text, ""), None);
        assert_eq!(committed_bytes("", &promised), None);
    }

    #[test]
    fn one_in_k_is_counted_whatever_its_ticket() {
        let drawn = |n| Drawn::of(b"a secret of the draw", &pass(n));
        let counted: Vec<_> = (0..100_000)
            .map(drawn)
            .filter(|d| d.is_counted(100))
            .collect();
        // Five standard errors of a thousand.
        assert!(counted.len().abs_diff(1_000) < 5 * 32, "{}", counted.len());
        let low = counted.iter().filter(|d| d.ticket.0 < 0.5).count();
        assert!(low.abs_diff(counted.len() / 2) < 5 * 16, "{low}");
        assert!(
            (0..100)
                .map(drawn)
                .all(|d| d.is_counted(1) && d.is_counted(0))
        );
    }

    #[test]
    fn a_threshold_admits_what_it_says_within_a_hundredth() {
        let admission = Admission {
            entries: 100_000,
            scale: 100_000,
            ..Admission::default()
        };
        let tickets: Vec<_> = (0..100_000)
            .map(|n| Ticket::drawn(b"a secret of the draw", &pass(n)))
            .collect();
        for aim in [10_000u64, 50_000, 90_000] {
            let admitted = tickets
                .iter()
                .filter(|t| t.is_admitted(admission.threshold_for(aim)))
                .count() as f64;
            assert!(
                (admitted / aim as f64 - 1.0).abs() < 0.01,
                "{admitted} of {aim}"
            );
        }
    }

    proptest! {
        #[test]
        fn late_entries_follow_in_arrival_order(scale in 1u64..10_000_000, a in 1u64..5_000_000, b in 1u64..5_000_000) {
            prop_assert!(Ticket::late(a, scale).0 >= 1.0);
            prop_assert_eq!(a.cmp(&b), Ticket::late(a, scale).partial_cmp(&Ticket::late(b, scale)).unwrap());
        }

        #[test]
        fn the_threshold_admits_exactly_the_first_late_ones(
            entries in 0u64..3_000_000, places in 0u64..3_000_000, arrival in 1u64..3_000_000
        ) {
            let admission = Admission { entries, scale: entries.max(1), ..Admission::default() };
            let ticket = Ticket::late(arrival, admission.scale);
            prop_assert_eq!(
                ticket.is_admitted(admission.threshold_for(entries + places)), arrival <= places);
            prop_assert_eq!(admission.position(ticket), Some(entries + arrival));
        }

        #[test]
        fn arrivals_of_buckets_do_not_collide(buckets in 1u16..400, a in 1u64..1000, b in 1u64..1000, x in 0u16..400, y in 0u16..400) {
            let (x, y) = (BucketId(x % buckets), BucketId(y % buckets));
            prop_assume!((a, x) != (b, y));
            prop_assert_ne!(arrival(a, x, buckets), arrival(b, y, buckets));
        }

        #[test]
        fn who_comes_next_in_any_bucket_is_behind_the_greatest_place(
            place in 1u64..100_000, buckets in 1u16..400, x in 0u16..400
        ) {
            let next = arrival(arrivals(place, buckets) + 1, BucketId(x % buckets), buckets);
            prop_assert!(next > place);
        }
    }
}
