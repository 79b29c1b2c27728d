//! Money: integer minor units and an ISO 4217 code. Never a float.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The greatest amount, in minor units: every integer up to here survives a
/// JSON reader that keeps numbers as doubles.
pub const AMOUNT_MAX: u64 = (1 << 53) - 1;

/// Currencies whose minor unit is not a hundredth, by ISO 4217 (list one).
const EXPONENTS: &[(&str, u8)] = &[
    ("BHD", 3),
    ("BIF", 0),
    ("CLF", 4),
    ("CLP", 0),
    ("DJF", 0),
    ("GNF", 0),
    ("IQD", 3),
    ("ISK", 0),
    ("JOD", 3),
    ("JPY", 0),
    ("KMF", 0),
    ("KRW", 0),
    ("KWD", 3),
    ("LYD", 3),
    ("OMR", 3),
    ("PYG", 0),
    ("RWF", 0),
    ("TND", 3),
    ("UGX", 0),
    ("UYI", 0),
    ("UYW", 4),
    ("VND", 0),
    ("VUV", 0),
    ("XAF", 0),
    ("XOF", 0),
    ("XPF", 0),
];

/// Currencies with hundredths, by ISO 4217 (list one), funds codes left out.
const HUNDREDTHS: &str = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB \
    BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD \
    FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT \
    LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK \
    NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP \
    STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW ZWG";

/// An ISO 4217 currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

impl Currency {
    /// How many decimals the minor unit stands for: JPY 0, INR 2, KWD 3.
    pub fn exponent(self) -> u8 {
        EXPONENTS
            .iter()
            .find(|(code, _)| *code == self.code())
            .map_or(2, |(_, exponent)| *exponent)
    }

    /// So many minor units, with as many decimals as the currency has:
    /// `INR 9999.00`, `JPY 10000`. Wide enough for sums.
    pub fn shown(self, amount: u128) -> String {
        let exponent = usize::from(self.exponent());
        let scale = 10u128.pow(exponent as u32);
        let whole = format!("{} {}", self.code(), amount / scale);
        match exponent {
            0 => whole,
            _ => format!("{whole}.{:0exponent$}", amount % scale),
        }
    }

    /// The code in capitals.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Currency {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = EXPONENTS.iter().any(|(code, _)| *code == text)
            || HUNDREDTHS.split_whitespace().any(|code| code == text);
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(bytes) if known => Ok(Self(bytes)),
            _ => Err("must be an ISO 4217 code in capitals, such as INR"),
        }
    }
}

impl TryFrom<String> for Currency {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> String {
        currency.code().to_owned()
    }
}

/// An amount: `{"amount": 999900, "currency": "INR"}` is ₹9,999.00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// In minor units of the currency.
    pub amount: u64,
    /// ISO 4217.
    pub currency: Currency,
}

impl Money {
    /// `quantity` times this price, or `None` beyond [`AMOUNT_MAX`].
    pub fn times(self, quantity: u32) -> Option<Self> {
        let amount = self.amount.checked_mul(u64::from(quantity))?;
        (amount <= AMOUNT_MAX).then_some(Self { amount, ..self })
    }
}

impl fmt::Display for Money {
    /// As [`Currency::shown`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.currency.shown(self.amount.into()))
    }
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

    #[test]
    fn decimals_follow_the_currency() {
        for (amount, currency, shown) in [
            (999_900, "INR", "INR 9999.00"),
            (10_000, "JPY", "JPY 10000"),
            (10_000, "KRW", "KRW 10000"),
            (10_000, "VND", "VND 10000"),
            (10_000, "HUF", "HUF 100.00"),
            (10_005, "KWD", "KWD 10.005"),
            (5, "USD", "USD 0.05"),
        ] {
            assert_eq!(money(amount, currency).to_string(), shown);
        }
    }

    /// C15: what is shown is read back as the same number of minor units.
    #[test]
    fn every_minor_unit_is_shown() {
        for (currency, exponent) in [("JPY", 0), ("INR", 2), ("USD", 2), ("KWD", 3)] {
            let most = AMOUNT_MAX - 1_000;
            for amount in (0..=10_000)
                .chain([26_390, 58_242, 9_999_999_999])
                .chain(most..=AMOUNT_MAX)
            {
                let shown = money(amount, currency).to_string();
                let digits = shown.strip_prefix(currency).unwrap().trim_start();
                let decimals = digits.split_once('.').map_or(0, |(_, part)| part.len());
                assert_eq!(decimals, exponent, "{shown}");
                let read: u64 = digits.replace('.', "").parse().unwrap();
                assert_eq!(read, amount, "{shown}");
            }
        }
        // A sum can be more than an amount.
        let sum = u128::from(AMOUNT_MAX) * 10_000;
        let kwd: Currency = "KWD".parse().unwrap();
        assert_eq!(kwd.shown(sum), "KWD 90071992547409910.000");
    }

    #[test]
    fn codes_are_checked() {
        for code in ["inr", "", "IN", "INRR", "XXX", "ABC"] {
            assert!(code.parse::<Currency>().is_err(), "{code}");
        }
    }

    #[test]
    fn products_do_not_wrap() {
        assert_eq!(money(AMOUNT_MAX, "INR").times(2), None);
        assert_eq!(money(u64::MAX, "INR").times(2), None);
        assert_eq!(
            money(999_900, "INR").times(2),
            Some(money(1_999_800, "INR"))
        );
    }
}
