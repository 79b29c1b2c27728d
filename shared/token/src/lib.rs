//! Tokens: what a shopper carries from step to step, and who may believe it.
//!
//! | module | token or key |
//! |---|---|
//! | `jws` | how every token is checked: one algorithm, one type, no leeway |
//! | [`keys`] | `PASS_KEYS`: the ES256 keys of passes and entries, and their rotation |
//! | [`pass`] | the pass: a shopper's right to take part in one sale |
//! | [`entry`] | the entry: a pass' ticket |
//! | [`edge`] | `EDGE_KEY`: codes of passes and receipts of taps, for the function in front |
//! | [`attestation`] | what the store vouches for about a shopper |
//! | [`identity`] | keyed hashes of phones, addresses, instruments, devices, mailboxes |
//! | [`random`] | draw secrets and pass ids |
//!
//! A token is good for one purpose, one sale and one shopper. Whatever is
//! wrong with it, the answer is [`Invalid`] and no more: a forger learns
//! nothing. Nothing that a token says is looked up anywhere: keys that it
//! names by address or brings along are ignored.

pub mod attestation;
pub mod edge;
pub mod entry;
pub mod identity;
mod jws;
pub mod keys;
mod mac;
pub mod pass;
pub mod random;
mod time;

#[cfg(test)]
mod forgeries;

pub use attestation::{Attestation, AttestationKey};
pub use edge::EdgeKeys;
pub use entry::{EntryClaims, Proof};
pub use identity::IdentityKey;
pub use keys::{Keys, Signer};
pub use pass::{Grant, PassClaims};
pub use random::{new_pass_id, new_secret};

/// The token is missing, forged, expired, another's, or for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is not valid")]
pub struct Invalid;

/// A token, a secret or an id can't be made: a fault of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(&'static str);
