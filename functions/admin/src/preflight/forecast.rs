//! What is expected of a sale against what is set for it. Arithmetic alone; the
//! figures that it rests on are here, each with its reason.

use api::{Call, Problem};
use domain::config::{Mode, SaleConfig, UNITS_MAX};
use runtime::{MissingSetting, Settings};

use super::{Check, check, unknown};

/// Lambda lets an environment begin ten calls a second, and takes as many from
/// a function as it has environments times ten.
const CALLS_PER_ENVIRONMENT: u64 = 10;

/// Lambda starts a thousand environments of a function in ten seconds.
const STARTS_PER_S: u64 = 100;

/// Environments that an account must leave unreserved.
const UNRESERVED_MIN: u64 = 100;

/// Scripts a second that a primary is trusted with.
const SCRIPTS_PER_PRIMARY: u64 = 40_000;

/// Orders in one transaction, and the write units of a full one: a transaction
/// costs two for each row, and writes two rows for an order and one for the
/// bucket.
const BATCH: u64 = 10;
const UNITS_PER_BATCH: u64 = 2 * (2 * BATCH + 1);

/// In how many seconds those who come to a race come, unless it is said.
const RACE_S: u64 = 10;

/// What the template sets.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Calls a second that the API lets through.
    api_rate: u64,
    /// Environments reserved for each of entry and claim; 0: the account's.
    reserved: u64,
    /// Environments of each that are kept started.
    warm: u64,
    /// Orders a second for the store behind.
    order_rate: u64,
}

impl Limits {
    pub(super) fn read(settings: &Settings) -> Result<Self, MissingSetting> {
        Ok(Self {
            api_rate: settings.parse_or("API_RATE_PER_S", 10_000)?,
            reserved: settings.parse_or("SHOPPER_CONCURRENCY", 0)?,
            warm: settings.parse_or("WARM_ENVIRONMENTS", 0)?,
            order_rate: settings.parse_or("ORDER_RATE_PER_S", 1_000)?,
        })
    }
}

/// What the merchant says of the sale and the account.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    shoppers: Option<u64>,
    units: Option<u64>,
    seconds: Option<u64>,
    api_quota: Option<u64>,
    concurrency_quota: Option<u64>,
}

/// Reads the call's parameters. One that is not known is refused: left unread, a slip
/// of the pen would leave its check undone.
pub(super) fn asked(call: &Call) -> Result<Asked, Problem> {
    let mut query = call.query()?;
    let mut number = |name, most| query.digits(name, 1..=most);
    let asked = Asked {
        shoppers: number("shoppers", 1_000_000_000),
        units: number("units", UNITS_MAX.into()),
        seconds: number("seconds", 86_400),
        api_quota: number("api_quota", 10_000_000),
        concurrency_quota: number("concurrency_quota", 10_000_000),
    };
    query.finish().map_err(Problem::fields)?;
    Ok(asked)
}

/// What is expected of a sale.
#[derive(Debug)]
pub(super) struct Forecast {
    asked: Asked,
    units: u64,
    /// In how many seconds the shoppers come.
    seconds: u64,
    /// In how many seconds those admitted claim; a race's claims come as its
    /// shoppers do.
    claim_s: u64,
    entries_per_s: Option<u64>,
    claims_per_s: Option<u64>,
    pay_window_s: u64,
}

impl Forecast {
    pub(super) fn of(sale: &SaleConfig, asked: Asked) -> Self {
        let units = asked.units.unwrap_or_else(|| sale.units.into());
        let (seconds, is_draw) = match sale.mode {
            Mode::Draw { draw_window_ms } => (u64::from(draw_window_ms).div_ceil(1_000), true),
            Mode::Race { .. } => (RACE_S, false),
        };
        let seconds = asked.seconds.unwrap_or(seconds).max(1);
        let arrivals = asked.shoppers.map(|shoppers| shoppers.div_ceil(seconds));
        let admitted = (units * (100 + u64::from(sale.no_show_percent))).div_ceil(100);
        let claim_s = if is_draw {
            u64::from(sale.claim_spread_s).max(1)
        } else {
            seconds
        };
        Self {
            asked,
            units,
            seconds,
            claim_s,
            entries_per_s: if is_draw { arrivals } else { Some(0) },
            claims_per_s: if is_draw {
                Some(admitted.div_ceil(claim_s))
            } else {
                arrivals
            },
            pay_window_s: sale.pay_window_s.into(),
        }
    }

    /// Write units that orders take in their busiest second.
    pub(super) fn write_units_per_s(&self, limits: &Limits) -> u64 {
        let orders = limits.order_rate.min(self.units);
        (orders * UNITS_PER_BATCH).div_ceil(BATCH)
    }

    /// What is set against what is expected; `primaries` of the gates answer.
    pub(super) fn checks(&self, limits: &Limits, primaries: usize) -> Vec<Check> {
        const SAY: &str =
            "Say how many shoppers come, and in how many seconds: ?shoppers=5000000&seconds=600";
        let orders = self.orders(limits);
        let (Some(entries), Some(claims)) = (self.entries_per_s, self.claims_per_s) else {
            let names = ["api_rate", "concurrency", "warm_environments", "gate_rate"];
            let mut checks: Vec<_> = names
                .map(|name| unknown(name, "nobody said how many shoppers come", SAY))
                .into();
            checks.push(orders);
            return checks;
        };
        vec![
            self.api_rate(limits, entries, claims),
            self.concurrency(limits, entries, claims),
            self.warm_environments(limits, entries, claims),
            gate_rate(entries.max(claims), primaries),
            orders,
        ]
    }

    /// The API lets the busiest second through. Taps come before claims, and
    /// what pages poll is for a cache in front: it changes once a second.
    fn api_rate(&self, limits: &Limits, entries: u64, claims: u64) -> Check {
        const NAME: &str = "api_rate";
        const RAISE: &str = "Raise ApiRatePerSecond and the account's quota, or spread the shoppers: a longer draw_window_ms or claim_spread_s.";
        let needed = entries.max(claims);
        let found = format!(
            "{entries} entries, then {claims} claims a second; the API lets {} through",
            limits.api_rate
        );
        match self.asked.api_quota {
            _ if needed > limits.api_rate => check(NAME, false, found, RAISE),
            Some(quota) => {
                let found = format!("{found}, the account {quota}");
                check(NAME, needed <= quota, found, RAISE)
            }
            None => unknown(
                NAME,
                format!("{found}; the account's quota is not known"),
                "Read the quota 'Throttle rate' of API Gateway in Service Quotas and say it: &api_quota=10000",
            ),
        }
    }

    /// There are environments enough for the busiest second.
    fn concurrency(&self, limits: &Limits, entries: u64, claims: u64) -> Check {
        const NAME: &str = "concurrency";
        let (entry, claim) = (environments(entries), environments(claims));
        let found = format!("entry needs {entry} environments, claim {claim}");
        if limits.reserved > 0 {
            let found = format!("{found}; {} are reserved for each", limits.reserved);
            let raise = "Raise ShopperConcurrency, and the account's quota with it.";
            return check(NAME, entry.max(claim) <= limits.reserved, found, raise);
        }
        match self.asked.concurrency_quota {
            Some(quota) => check(
                NAME,
                entry + claim + UNRESERVED_MIN <= quota,
                format!("{found}; none are reserved, the account has {quota}"),
                "Raise the account's quota of concurrent executions, and reserve with ShopperConcurrency.",
            ),
            None => unknown(
                NAME,
                format!("{found}; none are reserved, the account's quota is not known"),
                "Reserve with ShopperConcurrency; or ask `aws lambda get-account-settings` and say it: &concurrency_quota=1000",
            ),
        }
    }

    /// What is not started yet starts while they come.
    fn warm_environments(&self, limits: &Limits, entries: u64, claims: u64) -> Check {
        let missing = |rate: u64, seconds: u64| {
            let started = limits.warm + STARTS_PER_S * seconds;
            environments(rate).saturating_sub(started)
        };
        let short = missing(entries, self.seconds).max(missing(claims, self.claim_s));
        check(
            "warm_environments",
            short == 0,
            format!(
                "{} are kept started for each of entry and claim, {STARTS_PER_S} more start in a second",
                limits.warm
            ),
            "Raise WarmEnvironments: the first of the crowd would be throttled.",
        )
    }

    /// Orders are written long before their time to pay is over.
    fn orders(&self, limits: &Limits) -> Check {
        let drained_s = self.units.div_ceil(limits.order_rate.max(1));
        check(
            "order_rate",
            drained_s * 2 <= self.pay_window_s,
            format!(
                "{} orders at {} a second take {drained_s} s; there are {} s to pay",
                self.units, limits.order_rate, self.pay_window_s
            ),
            "Raise OrderRatePerSecond or pay_window_s: who waits for an order can't pay.",
        )
    }
}

fn environments(calls_per_s: u64) -> u64 {
    calls_per_s.div_ceil(CALLS_PER_ENVIRONMENT)
}

/// The gates can run a script for each call.
fn gate_rate(scripts: u64, primaries: usize) -> Check {
    const NAME: &str = "gate_rate";
    const MORE: &str = "Raise GateShards, then load the sale again.";
    let each = SCRIPTS_PER_PRIMARY;
    if primaries == 0 {
        return unknown(
            NAME,
            format!("{scripts} scripts a second; no primary answers"),
            MORE,
        );
    }
    let found = format!("{scripts} scripts a second for {primaries} primaries of {each}");
    check(NAME, scripts <= each * primaries as u64, found, MORE)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Outcome;
    use super::*;

    /// The sale that everything here is sized for.
    fn phones(change: Value) -> SaleConfig {
        let mut config = json!({
            "sku": "PHONE-1",
            "name": "Phone",
            "price": {"amount": 999_900, "currency": "INR"},
            "units": 10_000,
            "opens_at": "2027-11-11T12:00:00+05:30",
            "mode": "draw",
            "draw_window_ms": 600_000,
        });
        let config = config.as_object_mut().unwrap();
        for (name, value) in change.as_object().unwrap() {
            config.insert(name.clone(), value.clone());
        }
        config.retain(|_, value| !value.is_null());
        SaleConfig::read(config.clone()).unwrap()
    }

    fn crowd(shoppers: u64) -> Asked {
        Asked {
            shoppers: Some(shoppers),
            ..Asked::default()
        }
    }

    fn limits() -> Limits {
        Limits {
            api_rate: 10_000,
            reserved: 1_000,
            warm: 100,
            order_rate: 1_000,
        }
    }

    fn result(checks: &[Check], name: &str) -> (Outcome, String) {
        let found = checks.iter().find(|one| one.check == name).unwrap();
        assert_eq!(found.result == Outcome::Ok, found.advice.is_none());
        (found.result, found.found.clone())
    }

    #[test]
    fn five_million_fit_into_ten_minutes_and_not_into_two_seconds() {
        let asked = Asked {
            api_quota: Some(10_000),
            ..crowd(5_000_000)
        };
        let checks = Forecast::of(&phones(json!({})), asked).checks(&limits(), 2);
        assert_eq!(
            result(&checks, "api_rate"),
            (
                Outcome::Ok,
                "8334 entries, then 3667 claims a second; the API lets 10000 through, \
                 the account 10000"
                    .to_owned()
            )
        );
        assert!(
            checks.iter().all(|one| one.result == Outcome::Ok),
            "{checks:#?}"
        );

        let short = phones(json!({"draw_window_ms": 2_000}));
        let checks = Forecast::of(&short, asked).checks(&limits(), 2);
        for name in ["api_rate", "concurrency", "warm_environments", "gate_rate"] {
            assert_eq!(result(&checks, name).0, Outcome::NotOk, "{name}");
        }
        assert_eq!(result(&checks, "order_rate").0, Outcome::Ok);
    }

    #[test]
    fn each_limit_is_a_limit() {
        let asked = Asked {
            api_quota: Some(8_334),
            ..crowd(5_000_000)
        };
        let sale = phones(json!({}));
        let exact = Limits {
            api_rate: 8_334,
            reserved: 834,
            warm: 67,
            order_rate: 34,
        };
        let all_ok = |asked, limits: &Limits, primaries| {
            let checks = Forecast::of(&sale, asked).checks(limits, primaries);
            let wrong: Vec<_> = checks
                .into_iter()
                .filter(|one| one.result != Outcome::Ok)
                .collect();
            wrong.into_iter().map(|one| one.check).collect::<Vec<_>>()
        };
        assert_eq!(all_ok(asked, &exact, 1), [""; 0]);
        for (less, name) in [
            (
                Limits {
                    api_rate: 8_333,
                    ..exact.clone()
                },
                "api_rate",
            ),
            (
                Limits {
                    reserved: 833,
                    ..exact.clone()
                },
                "concurrency",
            ),
            (
                Limits {
                    warm: 66,
                    ..exact.clone()
                },
                "warm_environments",
            ),
            (
                Limits {
                    order_rate: 33,
                    ..exact.clone()
                },
                "order_rate",
            ),
        ] {
            assert_eq!(all_ok(asked, &less, 1), [name]);
        }
        let less = Asked {
            api_quota: Some(8_333),
            ..asked
        };
        assert_eq!(all_ok(less, &exact, 1), ["api_rate"]);
        let race = Forecast::of(
            &phones(json!({"mode": "race", "race_rate_per_s": 50_000, "draw_window_ms": null})),
            crowd(400_010),
        );
        let checks = race.checks(&limits(), 1);
        assert_eq!(result(&checks, "gate_rate").0, Outcome::NotOk);
        assert_eq!(
            result(&race.checks(&limits(), 2), "gate_rate").0,
            Outcome::Ok
        );
    }

    #[test]
    fn without_reserved_environments_the_account_must_have_them() {
        let sale = phones(json!({}));
        let limits = Limits {
            reserved: 0,
            ..limits()
        };
        let concurrency = |quota| {
            let asked = Asked {
                concurrency_quota: quota,
                ..crowd(5_000_000)
            };
            result(
                &Forecast::of(&sale, asked).checks(&limits, 2),
                "concurrency",
            )
            .0
        };
        assert_eq!(concurrency(None), Outcome::NotChecked);
        assert_eq!(concurrency(Some(834 + 367 + 99)), Outcome::NotOk);
        assert_eq!(concurrency(Some(834 + 367 + 100)), Outcome::Ok);
    }

    #[test]
    fn what_nobody_said_is_not_checked() {
        let checks = Forecast::of(&phones(json!({})), Asked::default()).checks(&limits(), 2);
        for name in ["api_rate", "concurrency", "warm_environments", "gate_rate"] {
            assert_eq!(result(&checks, name).0, Outcome::NotChecked, "{name}");
        }
        assert_eq!(result(&checks, "order_rate").0, Outcome::Ok);
        let silent = Forecast::of(&phones(json!({})), crowd(1_000));
        assert_eq!(
            result(&silent.checks(&limits(), 0), "gate_rate").0,
            Outcome::NotChecked
        );
        assert_eq!(
            result(&silent.checks(&limits(), 1), "api_rate").0,
            Outcome::NotChecked
        );
    }

    #[test]
    fn orders_take_four_write_units_and_their_share_of_the_buckets() {
        let forecast =
            |units: u32| Forecast::of(&phones(json!({"units": units})), Asked::default());
        assert_eq!(forecast(10_000).write_units_per_s(&limits()), 4_200);
        assert_eq!(forecast(10).write_units_per_s(&limits()), 42);
        let said = Asked {
            units: Some(100),
            ..Asked::default()
        };
        assert_eq!(
            Forecast::of(&phones(json!({})), said).write_units_per_s(&limits()),
            420
        );
    }
}
