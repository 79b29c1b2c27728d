//! Who behaves how. Drawn from the seed and the shopper's number alone, so
//! the same seed is the same crowd whatever the machine does.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::config::Shares;

/// What a winner does with the hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intention {
    Pay,
    DeclineThenPay,
    NeverPay,
    GiveBack,
}

/// How one shopper behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) intention: Intention,
    pub(crate) late: bool,
    pub(crate) double_tap: bool,
    pub(crate) retry_same_key: bool,
    pub(crate) second_key: bool,
    pub(crate) lose_webhook: bool,
}

/// The shopper's role, and what its waits are drawn from.
pub(crate) fn of(seed: u64, shopper: u32, shares: &Shares) -> (Role, SmallRng) {
    let mut rng =
        SmallRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(shopper));
    let fate = rng.random_range(0.0..100.0);
    let intention = if fate < shares.never_pay {
        Intention::NeverPay
    } else if fate < shares.never_pay + shares.give_back {
        Intention::GiveBack
    } else if fate < shares.never_pay + shares.give_back + shares.decline {
        Intention::DeclineThenPay
    } else {
        Intention::Pay
    };
    let mut one_of = |percent: f64| rng.random_range(0.0..100.0) < percent;
    let role = Role {
        intention,
        late: one_of(shares.late),
        double_tap: one_of(shares.double_tap),
        retry_same_key: one_of(shares.retry_same_key),
        second_key: one_of(shares.second_key),
        lose_webhook: one_of(shares.lost_webhook),
    };
    (role, rng)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Crowd;

    #[test]
    fn the_same_seed_is_the_same_crowd() {
        let shares = Crowd::default().shares;
        let roles = |seed| -> Vec<_> { (0..500).map(|n| of(seed, n, &shares).0).collect() };
        assert_eq!(roles(7), roles(7));
        assert_ne!(roles(7), roles(8));
    }

    #[test]
    fn shares_are_kept() {
        let shares = Crowd::default().shares;
        let count =
            |is: fn(&Role) -> bool| (0..20_000).filter(|n| is(&of(1, *n, &shares).0)).count();
        let never = count(|role| role.intention == Intention::NeverPay);
        assert!((2_800..3_200).contains(&never), "{never}");
        let taps = count(|role| role.double_tap);
        assert!((1_850..2_150).contains(&taps), "{taps}");
    }
}
