//! P4: a claim is answered fast. Its figure is one of a deployed system: where drill and
//! system share a machine it says how busy that is, so it is reported and breaks nothing.

use super::{Check, Lag, Told};

/// Answers take less than this, at p99.
const ANSWER_MS: i64 = 500;

/// P4: claims are answered within half a second at p99, whatever the answer.
pub(super) fn answered(told: &Told) -> (Check, Lag) {
    let lag = Lag::of(told.answered_ms.clone());
    let mut offences = Vec::new();
    if lag.p99_ms >= ANSWER_MS {
        offences.push(format!("answered only after {} ms at p99", lag.p99_ms));
    }
    let says = format!(
        "{} answers; p50 {} p99 {} max {} ms (a deployed system: p99 below {ANSWER_MS})",
        lag.count, lag.p50_ms, lag.p99_ms, lag.max_ms
    );
    (
        Check::new("P4", "claims are answered fast", says, offences),
        lag,
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{good, misses};
    use super::*;

    const NAME: &str = "claims are answered fast";

    #[test]
    fn one_slow_answer_in_a_hundred_is_none_at_p99() {
        let (_, mut told) = good();
        told.answered_ms = [vec![499; 99], vec![30_000]].concat();
        let (check, lag) = answered(&told);
        assert!(check.ok, "{check:?}");
        assert_eq!((lag.count, lag.p99_ms, lag.max_ms), (100, 499, 30_000));
    }

    #[test]
    fn two_slow_answers_in_a_hundred_miss_it() {
        misses(NAME, |told| {
            told.answered_ms = [vec![499; 98], vec![500; 2]].concat();
        });
    }
}
