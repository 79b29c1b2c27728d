//! What a claim is refused with by whoever decides: a gate or the ledger.

use api::{Code, Problem};
use domain::ClaimId;

/// The key names a claim of another quantity.
pub(crate) fn reused() -> Problem {
    Problem::new(Code::IdempotencyKeyReused).detail("The key was used for another quantity.")
}

/// The shopper has had so many units, the newest of them by this claim.
pub(crate) fn limit_reached(held: u32, limit: u32, claim: &ClaimId) -> Problem {
    Problem::new(Code::LimitReached)
        .member("held", held)
        .member("limit_per_customer", limit)
        .member("claim_id", claim.to_string())
}
