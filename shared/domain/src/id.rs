//! Typed names. A [`ClaimId`] can't be passed for an [`OrderId`], and both
//! name their sale and bucket, so that a look-up by id is one read of one row.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A text that is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidId {
    /// What was expected, in words for the person who sent it.
    pub expected: &'static str,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
}

impl std::error::Error for InvalidId {}

/// A newtype over text that is only ever made by its `FromStr`.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $check:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { expected: $expected })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_plain(text: &str, length_max: usize) -> bool {
    (1..=length_max).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

text_id!(
    /// A sale, as the merchant named it. The characters are those that are
    /// safe in a Redis hash tag, a DynamoDB key, a path and a log line.
    SaleId,
    |text| is_plain(text, 64),
    "must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -"
);

text_id!(
    /// A shopper: the `sub` of the store's session. Opaque, never a number,
    /// and personal data: it is not logged.
    ShopperId,
    |text| (1..=256).contains(&text.len()) && !text.chars().any(char::is_control),
    "must be 1 to 256 bytes without control characters"
);

text_id!(
    /// A pass: the `jti` of its token, the draw's input.
    PassId,
    |text| is_plain(text, 64),
    "must be a pass id"
);

text_id!(
    /// A payment intent at the provider.
    IntentId,
    |text| is_plain(text, 255),
    "must be a payment intent id"
);

text_id!(
    /// The shopper's own name for one attempt to claim. Printable ASCII
    /// without a comma: API Gateway joins repeated headers with commas, and
    /// two keys are not a third one.
    IdempotencyKey,
    |text| (8..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b','),
    "must be 8 to 128 printable ASCII characters without spaces and commas, and sent once"
);

/// A bucket's number within its sale, from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct BucketId(pub u16);

impl fmt::Display for BucketId {
    /// Three digits, so that text order is number order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}", self.0)
    }
}

/// What a claim and its order share: where they live, and which they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    sale: SaleId,
    bucket: BucketId,
    digest: String,
}

/// Length of a digest in characters: 128 bits in hex.
const DIGEST_LENGTH: usize = 32;

impl Place {
    fn parse(text: &str, prefix: &str) -> Option<Self> {
        // From the right, since a sale's name may hold underscores.
        let mut parts = text.strip_prefix(prefix)?.rsplitn(3, '_');
        let digest = parts.next()?;
        let bucket = parts.next()?;
        let sale = parts.next()?.parse().ok()?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if digest.len() != DIGEST_LENGTH || !digest.bytes().all(hex) {
            return None;
        }
        if bucket.len() != 3 || !bucket.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            sale,
            bucket: BucketId(bucket.parse().ok()?),
            digest: digest.to_owned(),
        })
    }
}

macro_rules! placed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Place);

        impl $name {
            /// The sale it belongs to.
            pub fn sale(&self) -> &SaleId {
                &self.0.sale
            }

            /// The bucket whose unit it holds.
            pub fn bucket(&self) -> BucketId {
                self.0.bucket
            }

            /// What is the same for this shopper and key in every bucket.
            pub fn digest(&self) -> &str {
                &self.0.digest
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Place::parse(text, $prefix).map(Self).ok_or(InvalidId { expected: $expected })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}_{}_{}", $prefix, self.0.sale, self.0.bucket, self.0.digest)
            }
        }
    };
}

placed_id!(
    /// One shopper's hold on units of one bucket.
    ClaimId,
    "cl_",
    "must be a claim id"
);

placed_id!(
    /// The order that a claim becomes: one for one, so the id is derived.
    OrderId,
    "ord_",
    "must be an order id"
);

impl ClaimId {
    /// The claim of this shopper under this key, holding units of `bucket`.
    ///
    /// Derived, not drawn: the same key is the same claim on every instance.
    /// Each part is preceded by its length, so no two triples share a digest.
    pub fn derive(
        sale: &SaleId,
        bucket: BucketId,
        shopper: &ShopperId,
        key: &IdempotencyKey,
    ) -> Self {
        let mut hash = Sha256::new();
        for part in [sale.as_str(), shopper.as_str(), key.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hex(&hash.finalize()[..DIGEST_LENGTH / 2]);
        Self(Place {
            sale: sale.clone(),
            bucket,
            digest,
        })
    }

    /// The same claim, its unit taken from another bucket.
    pub fn in_bucket(&self, bucket: BucketId) -> Self {
        Self(Place {
            bucket,
            ..self.0.clone()
        })
    }

    /// The order of this claim.
    pub fn order(&self) -> OrderId {
        OrderId(self.0.clone())
    }
}

impl OrderId {
    /// The claim of this order.
    pub fn claim(&self) -> ClaimId {
        ClaimId(self.0.clone())
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(sale: &str, shopper: &str, key: &str) -> ClaimId {
        ClaimId::derive(
            &sale.parse().unwrap(),
            BucketId(7),
            &shopper.parse().unwrap(),
            &key.parse().unwrap(),
        )
    }

    proptest! {
        #[test]
        fn a_claim_id_survives_text(sale in "[A-Za-z0-9_-]{1,64}", bucket in 0u16..1000,
                                    shopper in "[ -~]{1,40}", key in "[!-+--~]{8,40}") {
            let id = ClaimId::derive(
                &sale.parse().unwrap(), BucketId(bucket),
                &shopper.parse().unwrap(), &key.parse().unwrap());
            prop_assert_eq!(id.to_string().parse::<ClaimId>().unwrap(), id.clone());
            prop_assert_eq!(id.order().to_string().parse::<OrderId>().unwrap().claim(), id);
        }
    }

    #[test]
    fn the_parts_of_a_claim_do_not_run_into_each_other() {
        assert_ne!(claim("s", "ab", "cdefghij"), claim("s", "abc", "defghijk"));
        assert_ne!(
            claim("s", "9007199254740993", "key-0001"),
            claim("s", "9007199254740992", "key-0001")
        );
    }

    #[test]
    fn odd_ids_are_refused() {
        for id in [
            "",
            "a{b}",
            "{",
            "}",
            "x:stock",
            "fs1111:b3",
            "é",
            &"x".repeat(65),
        ] {
            assert!(id.parse::<SaleId>().is_err(), "{id}");
        }
        for key in [
            "",
            "short",
            "k1-long,k2-long",
            "with space",
            "tab\tinside",
            &"k".repeat(129),
        ] {
            assert!(key.parse::<IdempotencyKey>().is_err(), "{key}");
        }
        for id in [
            "cl_",
            "cl_s_01_00",
            "ord_s_001_00000000000000000000000000000000",
            "cl_s_001_0000000000000000000000000000000G",
        ] {
            assert!(id.parse::<ClaimId>().is_err(), "{id}");
        }
    }
}
