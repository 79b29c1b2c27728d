//! Instants as tokens hold them: whole seconds (RFC 7519, `NumericDate`).

use jiff::Timestamp;

/// For `nbf` and `iat`: the second that has begun.
pub(crate) fn begun(at: Timestamp) -> i64 {
    at.as_millisecond().div_euclid(1_000)
}

/// For `exp`: the second that is over. A sale that closes within a second
/// still refuses by its own clock; its tokens do not end before it.
pub(crate) fn over(at: Timestamp) -> i64 {
    begun(at) + i64::from(at.as_millisecond().rem_euclid(1_000) > 0)
}

/// Whether a token with these limits is valid, without leeway.
pub(crate) fn is_within(nbf: i64, exp: i64, now: Timestamp) -> bool {
    let now = begun(now);
    nbf <= now && now < exp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_within_a_second_widens_the_token() {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        assert_eq!((begun(at(1_999)), over(at(1_999))), (1, 2));
        assert_eq!((begun(at(2_000)), over(at(2_000))), (2, 2));
        assert!(!is_within(2, 3, at(1_999)));
        assert!(is_within(2, 3, at(2_000)));
        assert!(is_within(2, 3, at(2_999)));
        assert!(!is_within(2, 3, at(3_000)));
    }
}
