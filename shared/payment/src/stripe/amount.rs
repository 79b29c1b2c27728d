//! Amounts as Stripe counts them.
//!
//! Ours are minor units by ISO 4217. Stripe's are the same for most
//! currencies, and not for some
//! (<https://docs.stripe.com/currencies#minor-units>):
//!
//! | currency | ours | Stripe's | here |
//! |---|---|---|---|
//! | BHD, JOD, KWD, OMR, TND | thousandths | thousandths, the last digit 0 | other prices are refused, not rounded |
//! | ISK | whole | hundredths, always 00 | times 100 |
//! | MGA | hundredths | whole | by 100; fractions are refused |
//! | UGX | whole | said to be whole on one list and hundredths on another | refused: a guess could be wrong a hundredfold |
//! | CLF, IQD, LYD, UYI, UYW | | not taken | refused |
//!
//! Whatever is taken is taken exactly, both ways; nothing is ever rounded.

use domain::{Currency, Money};

/// The greatest amount, in Stripe's units: eight digits, and twelve of IDR.
const MAX: u64 = 99_999_999;
const MAX_IDR: u64 = 999_999_999_999;

/// How Stripe counts a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// In our minor units, of which only multiples of this are taken.
    Multiples(u64),
    /// In units so many times smaller than our minor unit.
    Smaller(u64),
    /// In units so many times larger than our minor unit.
    Larger(u64),
    /// Not at all, or not in a way that is certain.
    Refused,
}

fn scale(currency: Currency) -> Scale {
    match currency.code() {
        "BHD" | "JOD" | "KWD" | "OMR" | "TND" => Scale::Multiples(10),
        "ISK" => Scale::Smaller(100),
        "MGA" => Scale::Larger(100),
        "CLF" | "IQD" | "LYD" | "UGX" | "UYI" | "UYW" => Scale::Refused,
        _ => Scale::Multiples(1),
    }
}

/// What Stripe is asked for, in its units.
///
/// # Errors
/// Stripe can't take exactly this; in words for a merchant.
pub(super) fn to_stripe(money: Money) -> Result<u64, String> {
    let code = money.currency.code();
    let multiple = |of: u64| {
        let whole = money.amount.is_multiple_of(of);
        whole
            .then_some(money.amount)
            .ok_or_else(|| format!("must be a multiple of {of}: Stripe takes no others of {code}"))
    };
    let amount = match scale(money.currency) {
        Scale::Multiples(of) => multiple(of)?,
        Scale::Smaller(times) => money.amount.saturating_mul(times),
        Scale::Larger(times) => multiple(times)? / times,
        Scale::Refused => return Err(format!("can't be taken through Stripe in {code}")),
    };
    let max = if code == "IDR" { MAX_IDR } else { MAX };
    if amount > max {
        return Err(format!("is more than Stripe takes at once of {code}"));
    }
    Ok(amount)
}

/// What Stripe says it has, in our minor units; `None` if that is no amount of
/// a currency that it is asked for.
///
/// `amount` is in Stripe's units, `currency` an ISO 4217 code in any case.
pub(super) fn from_stripe(amount: u64, currency: &str) -> Option<Money> {
    let currency: Currency = currency.to_ascii_uppercase().parse().ok()?;
    let amount = match scale(currency) {
        Scale::Multiples(_) => amount,
        Scale::Smaller(times) => amount.is_multiple_of(times).then(|| amount / times)?,
        Scale::Larger(times) => amount.checked_mul(times)?,
        Scale::Refused => return None,
    };
    (amount <= domain::money::AMOUNT_MAX).then_some(Money { amount, currency })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(amount: u64, currency: &str) -> Money {
        Money {
            amount,
            currency: currency.parse().unwrap(),
        }
    }

    /// C13, C15: the same number of the same units arrives, and comes back.
    #[test]
    fn amounts_are_exact_both_ways() {
        for (ours, currency, stripes) in [
            (999_900, "INR", 999_900),
            (1_999, "USD", 1_999),
            (26_390, "EUR", 26_390),
            (10_000, "HUF", 10_000),
            (10_000, "JPY", 10_000),
            (10_000, "KRW", 10_000),
            (10_000, "VND", 10_000),
            (5_120, "KWD", 5_120),
            (5, "ISK", 500),
            (500, "MGA", 5),
            (99_999_999, "USD", 99_999_999),
            (150_000_000_000, "IDR", 150_000_000_000),
        ] {
            let asked = money(ours, currency);
            assert_eq!(to_stripe(asked), Ok(stripes), "{asked}");
            let code = currency.to_ascii_lowercase();
            assert_eq!(from_stripe(stripes, &code), Some(asked), "{asked}");
        }
    }

    #[test]
    fn what_stripe_would_round_or_not_take_is_refused() {
        for (amount, currency) in [
            (5_124, "KWD"),
            (10_005, "BHD"),
            (505, "MGA"),
            (5, "UGX"),
            (5, "CLF"),
            (5_000, "IQD"),
            (100_000_000, "USD"),
            (1_000_000, "ISK"),
            (1_000_000_000_000, "IDR"),
            (domain::money::AMOUNT_MAX, "JPY"),
        ] {
            let asked = money(amount, currency);
            assert!(to_stripe(asked).is_err(), "{asked}");
        }
        for (amount, currency) in [
            (550, "isk"),
            (5, "ugx"),
            (5, "xxx"),
            (5, ""),
            (u64::MAX, "mga"),
        ] {
            assert_eq!(from_stripe(amount, currency), None, "{amount} {currency}");
        }
    }
}
