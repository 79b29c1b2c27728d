//! What a merchant configures, and its limits.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bucket::{self, BUCKETS_MAX, UNITS_PER_BUCKET_MAX};
use crate::identity::IdentityKind;
use crate::input::{FieldError, Fields};
use crate::money::{AMOUNT_MAX, Currency, Money};
use crate::offset_time::{OffsetTime, TOO_LATE};

/// The most units in one sale: [`BUCKETS_MAX`] full buckets.
pub const UNITS_MAX: u32 = BUCKETS_MAX as u32 * UNITS_PER_BUCKET_MAX;

/// Times of a sale are before the year 9999, so that what is kept of it for
/// weeks after its end still has a time. In seconds since 1970.
const TIME_MAX_S: i64 = 253_370_764_800;

/// Entries that are enough to know how many there are within one and a half
/// percent.
const COUNTED: u32 = 5_000;

/// Pages spread the calls that are counted over a second, and one that was turned
/// away comes again a second and a half later.
const COUNTED_LATER: SignedDuration = SignedDuration::from_secs(3);

/// How a sale decides who may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Mode {
    /// Taps within the window enter a draw; a keyed number decides.
    Draw {
        /// Length of the window from `opens_at`.
        draw_window_ms: u32,
    },
    /// First come, first served by server receipt, at a bounded rate.
    Race {
        /// Claims a second that the gates let through, all buckets together.
        race_rate_per_s: u32,
    },
}

/// What a merchant decides. Made by [`SaleConfig::read`], so a value of this
/// type keeps every documented limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaleConfig {
    /// The article, as the store names it; 1 to 64 characters.
    pub sku: String,
    /// What shoppers read; 1 to 200 characters.
    pub name: String,
    /// Of one unit.
    pub price: Money,
    /// 1 to [`UNITS_MAX`].
    pub units: u32,
    /// Enough for at most 250 units each, at most [`BUCKETS_MAX`].
    pub buckets: u16,
    /// When entries (draw) or claims (race) are taken from.
    pub opens_at: OffsetTime,
    /// When no further claim is taken. Holds live on until their `pay_by`.
    pub closes_at: OffsetTime,
    /// Units that one customer may hold and buy.
    pub limit_per_customer: u32,
    /// Time to pay from the claim on, until all units were claimed once.
    pub pay_window_s: u32,
    /// Time to pay for those who come from the waitlist after that.
    pub waitlist_pay_window_s: u32,
    /// How it is decided who may claim.
    #[serde(flatten)]
    pub mode: Mode,
    /// Over how many seconds admitted pages spread their claims.
    pub claim_spread_s: u32,
    /// How many of a hundred admitted shoppers are expected not to come.
    pub no_show_percent: u32,
    /// Entries that are expected in a draw's window; more than a few thousand of
    /// them are counted by a sample.
    #[serde(default)]
    pub expected_entries: u32,
    /// How many accounts may share an attribute of a person.
    pub identity_limits: BTreeMap<IdentityKind, u32>,
    /// Claims a second that are taken for the ledger to decide while no gate
    /// answers, all buckets together; 0: none, the sale waits.
    #[serde(default)]
    pub ledger_only_rate_per_s: u32,
}

impl SaleConfig {
    /// Reads and checks what a merchant sent, the sale's name apart.
    ///
    /// # Errors
    /// Every field that is missing, unknown or outside its limits.
    pub fn read(members: Map<String, Value>) -> Result<Self, Vec<FieldError>> {
        let mut fields = Fields::of(members);
        let config = Self::from_fields(&mut fields);
        fields.finish()?;
        config.ok_or_else(Vec::new)
    }

    /// What the merchant sees and may send back, changed.
    pub fn to_members(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        }
    }

    /// In the order in which errors are told.
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let sku = text_of_length(fields, "sku", 64);
        let name = text_of_length(fields, "name", 200);
        let price = read_price(fields);
        let units = fields.integer("units", 1..=u64::from(UNITS_MAX));
        let units = fields.require("units", units).map(|units| units as u32);
        let buckets = read_buckets(fields, units);
        let opens_at = fields.text::<OffsetTime>("opens_at");
        let opens_at = early(fields, "opens_at", opens_at);
        let opens_at = fields.require("opens_at", opens_at);
        let pay_window_s = or(fields, "pay_window_s", 1..=86_400, 600);
        let waitlist_pay_window_s = or(fields, "waitlist_pay_window_s", 1..=86_400, 300);
        let closes_at = read_closes_at(fields, opens_at);
        let limit_per_customer = read_limit(fields, price);
        let mode = read_mode(fields);
        if let (Some(mode), Some(opens), Some(closes)) = (mode, opens_at, closes_at) {
            check_window(fields, mode, opens, closes);
        }
        let claim_spread_s = or(fields, "claim_spread_s", 0..=60, 3);
        let no_show_percent = or(fields, "no_show_percent", 0..=100, 10);
        let expected_entries = or(fields, "expected_entries", 0..=100_000_000, 0);
        let ledger_only_rate_per_s = or(fields, "ledger_only_rate_per_s", 0..=1_000, 0);
        let identity_limits = read_identity_limits(fields);
        Some(Self {
            sku: sku?,
            name: name?,
            price: price?,
            units: units?,
            buckets: buckets?,
            opens_at: opens_at?,
            closes_at: closes_at?,
            limit_per_customer: limit_per_customer?,
            pay_window_s: pay_window_s?,
            waitlist_pay_window_s: waitlist_pay_window_s?,
            mode: mode?,
            claim_spread_s: claim_spread_s?,
            no_show_percent: no_show_percent?,
            identity_limits: identity_limits?,
            expected_entries: expected_entries?,
            ledger_only_rate_per_s: ledger_only_rate_per_s?,
        })
    }

    /// When the draw's window closes; in race mode the opening itself.
    pub fn draw_closes_at(&self) -> Timestamp {
        match self.mode {
            Mode::Draw { draw_window_ms } => {
                self.opens_at.at + SignedDuration::from_millis(i64::from(draw_window_ms))
            }
            Mode::Race { .. } => self.opens_at.at,
        }
    }

    /// Ledger-only mode at this moment: claims of one bucket's shoppers that are
    /// let through in the window that it is in, and the window's number. Windows
    /// are longer than a second where the rate is below one a bucket. `None`: the
    /// sale has no such mode.
    pub fn ledger_only_window(&self, now: Timestamp) -> Option<(u32, i64)> {
        let rate = self.ledger_only_rate_per_s;
        if rate == 0 {
            return None;
        }
        let buckets = u32::from(self.buckets);
        let claims = (rate / buckets).max(1);
        let length_ms = (claims * buckets * 1_000).div_ceil(rate);
        Some((claims, now.as_millisecond().div_euclid(length_ms.into())))
    }

    /// Of how many entries one is counted: at most [`COUNTED`] of those that are
    /// expected reach the origin. The rule is of the sale and not of the edge, so
    /// an origin without one counts the same.
    pub fn sample(&self) -> u32 {
        self.expected_entries.div_ceil(COUNTED).max(1)
    }

    /// Until when an entry of the draw is counted that was tapped in the window:
    /// the edge has given its ticket, and its call may come later.
    pub fn counted_until(&self) -> Timestamp {
        let closes_at = self.draw_closes_at();
        if self.sample() > 1 {
            closes_at + COUNTED_LATER
        } else {
            closes_at
        }
    }

    /// Whether who may claim is drawn.
    pub fn is_draw(&self) -> bool {
        matches!(self.mode, Mode::Draw { .. })
    }
}

fn read_price(fields: &mut Fields) -> Option<Money> {
    let price = fields.nested("price", |price| {
        let amount = price.integer("amount", 0..=AMOUNT_MAX);
        let amount = price.require("amount", amount);
        let currency = price.text::<Currency>("currency");
        let currency = price.require("currency", currency);
        Some(Money {
            amount: amount?,
            currency: currency?,
        })
    });
    fields.require("price", price.flatten())
}

/// As few as hold the units, unless the merchant wants more.
fn read_buckets(fields: &mut Fields, units: Option<u32>) -> Option<u16> {
    let fewest = units.map_or(1, bucket::buckets_min);
    if fields.has("buckets") {
        fields
            .integer("buckets", u64::from(fewest)..=u64::from(BUCKETS_MAX))
            .map(|n| n as u16)
    } else {
        Some(fewest)
    }
}

/// An hour after the opening, unless the merchant says otherwise.
fn read_closes_at(fields: &mut Fields, opens_at: Option<OffsetTime>) -> Option<OffsetTime> {
    let closes_at = if fields.has("closes_at") {
        fields.text::<OffsetTime>("closes_at")
    } else {
        opens_at.map(|opens| opens.same_offset(opens.at + SignedDuration::from_hours(1)))
    };
    let closes_at = early(fields, "closes_at", closes_at);
    if let (Some(opens), Some(closes)) = (opens_at, closes_at)
        && closes.at <= opens.at
    {
        fields.wrong("closes_at", "must be after opens_at");
    }
    closes_at
}

/// Units of one customer, whose price must be an amount too.
fn read_limit(fields: &mut Fields, price: Option<Money>) -> Option<u32> {
    let limit = or(
        fields,
        "limit_per_customer",
        1..=u64::from(UNITS_PER_BUCKET_MAX),
        1,
    );
    if let (Some(price), Some(limit)) = (price, limit)
        && price.times(limit).is_none()
    {
        fields.wrong(
            "price.amount",
            "times limit_per_customer exceeds the greatest amount",
        );
    }
    limit
}

fn read_mode(fields: &mut Fields) -> Option<Mode> {
    let mode: Option<String> = fields.text("mode");
    match fields.require("mode", mode)?.as_str() {
        "draw" => or(fields, "draw_window_ms", 100..=3_600_000, 2_000)
            .map(|draw_window_ms| Mode::Draw { draw_window_ms }),
        "race" => or(fields, "race_rate_per_s", 1..=1_000_000, 20_000)
            .map(|race_rate_per_s| Mode::Race { race_rate_per_s }),
        _ => {
            fields.wrong("mode", "must be draw or race");
            None
        }
    }
}

/// A draw's window ends before its sale does. A sale that ends before it begins
/// was found wrong already.
fn check_window(fields: &mut Fields, mode: Mode, opens: OffsetTime, closes: OffsetTime) {
    if let Mode::Draw { draw_window_ms } = mode
        && opens.at + SignedDuration::from_millis(i64::from(draw_window_ms)) >= closes.at
        && closes.at > opens.at
    {
        fields.wrong("draw_window_ms", "must end before closes_at");
    }
}

fn read_identity_limits(fields: &mut Fields) -> Option<BTreeMap<IdentityKind, u32>> {
    if !fields.has("identity_limits") {
        return Some(BTreeMap::new());
    }
    fields.nested("identity_limits", |limits| {
        IdentityKind::ALL
            .into_iter()
            .filter_map(|kind| {
                let limit = limits.integer(kind.name(), 1..=1_000)?;
                Some((kind, limit as u32))
            })
            .collect()
    })
}

fn or(fields: &mut Fields, field: &str, range: RangeInclusive<u64>, default: u32) -> Option<u32> {
    if fields.has(field) {
        fields.integer(field, range).map(|n| n as u32)
    } else {
        Some(default)
    }
}

/// A time, if it is not too late for others to follow it.
fn early(fields: &mut Fields, field: &str, time: Option<OffsetTime>) -> Option<OffsetTime> {
    let time = time?;
    if time.at.as_second() < TIME_MAX_S {
        return Some(time);
    }
    fields.wrong(field, TOO_LATE);
    None
}

fn text_of_length(fields: &mut Fields, field: &str, length_max: usize) -> Option<String> {
    let text: Option<String> = fields.text(field);
    let text = fields.require(field, text)?;
    let length = text.chars().count();
    if text.trim().is_empty() || length > length_max || text.chars().any(char::is_control) {
        fields.wrong(
            field,
            format_args!("must be 1 to {length_max} characters without control characters"),
        );
        return None;
    }
    Some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn phone() -> Map<String, Value> {
        let Value::Object(members) = json!({
            "sku": "PHONE-1", "name": "Phone", "price": {"amount": 999_900, "currency": "INR"},
            "units": 10_000, "opens_at": "2026-11-11T12:00:00+05:30", "mode": "draw",
        }) else {
            unreachable!()
        };
        members
    }

    fn errors_of(field: &str, value: Value) -> Vec<String> {
        let mut members = phone();
        members.insert(field.to_owned(), value);
        match SaleConfig::read(members) {
            Ok(_) => vec![],
            Err(errors) => errors.into_iter().map(|e| e.field).collect(),
        }
    }

    #[test]
    fn the_phone_sale_is_read_and_echoed() {
        let config = SaleConfig::read(phone()).unwrap();
        assert_eq!(config.buckets, 40);
        assert_eq!(config.opens_at.at.to_string(), "2026-11-11T06:30:00Z");
        assert_eq!(config.opens_at.to_string(), "2026-11-11T12:00:00.000+05:30");
        assert_eq!(
            config.closes_at.to_string(),
            "2026-11-11T13:00:00.000+05:30"
        );
        assert_eq!(SaleConfig::read(config.to_members()).unwrap(), config);
    }

    #[test]
    fn a_time_is_a_text_and_the_end_comes_after_the_opening() {
        assert_eq!(errors_of("opens_at", json!("2026-11-11")), ["opens_at"]);
        assert_eq!(errors_of("opens_at", json!(1_794_378_600)), ["opens_at"]);
        assert_eq!(
            errors_of("closes_at", json!("2026-11-11T06:30:00Z")),
            ["closes_at"]
        );
    }

    #[test]
    fn times_leave_room_for_what_follows_them() {
        for (field, time, wrong) in [
            ("opens_at", "9998-12-31T22:59:59Z", None),
            ("opens_at", "9998-12-31T23:00:00Z", Some("closes_at")),
            ("opens_at", "9999-01-01T00:00:00Z", Some("opens_at")),
            ("opens_at", "9999-12-30T22:00:00Z", Some("opens_at")),
            ("opens_at", "9999-12-31T23:00:00+23:00", Some("opens_at")),
            ("closes_at", "9998-12-31T23:59:59.999Z", None),
            ("closes_at", "9999-01-01T00:00:00Z", Some("closes_at")),
        ] {
            let errors = errors_of(field, json!(time));
            assert_eq!(errors.first().map(String::as_str), wrong, "{time}");
        }
    }

    #[test]
    fn numbers_keep_their_limits() {
        for units in [
            json!(0),
            json!(-1),
            json!(1.5),
            json!(1.0),
            json!("1"),
            json!(null),
            json!(10_000_000),
            json!(4_294_967_301u64),
            json!(9_007_199_254_740_993u64),
        ] {
            assert_eq!(errors_of("units", units.clone()), ["units"], "{units}");
        }
        for limit in [
            json!(-5),
            json!(0),
            json!(1.5),
            json!(true),
            json!(4_294_967_297u64),
        ] {
            assert_eq!(
                errors_of("limit_per_customer", limit.clone()),
                ["limit_per_customer"],
                "{limit}"
            );
        }
        for amount in [
            json!(-1),
            json!("100.50"),
            json!(19.99),
            json!(9_007_199_254_740_993u64),
        ] {
            let price = json!({"amount": amount, "currency": "JPY"});
            assert_eq!(errors_of("price", price), ["price.amount"], "{amount}");
        }
        assert_eq!(errors_of("buckets", json!(39)), ["buckets"]);
        assert_eq!(errors_of("buckets", json!(10_000)), ["buckets"]);
        assert_eq!(errors_of("pay_window_s", json!(0)), ["pay_window_s"]);
        assert_eq!(
            errors_of("pay_window_s", json!(1_000_000_000)),
            ["pay_window_s"]
        );
        assert_eq!(errors_of("name", json!("x".repeat(1_000_000))), ["name"]);
        assert_eq!(errors_of("name", json!("a\nb")), ["name"]);
        assert_eq!(errors_of("sku", json!("\u{7f}")), ["sku"]);
        // The sale is an hour long.
        assert_eq!(
            errors_of("draw_window_ms", json!(3_600_000)),
            ["draw_window_ms"]
        );
        assert_eq!(errors_of("draw_window_ms", json!(3_599_999)), [""; 0]);
        assert_eq!(errors_of("mode", json!("lottery")), ["mode"]);
        assert_eq!(errors_of("race_rate_per_s", json!(5)), ["race_rate_per_s"]);
    }

    #[test]
    fn ledger_only_lets_through_as_many_a_second_as_it_says() {
        for (rate, buckets) in [
            (1, 40),
            (20, 40),
            (50, 40),
            (1_000, 40),
            (7, 41),
            (1_000, 400),
        ] {
            let mut members = phone();
            members.insert("buckets".into(), json!(buckets));
            members.insert("ledger_only_rate_per_s".into(), json!(rate));
            let config = SaleConfig::read(members).unwrap();
            assert_eq!(SaleConfig::read(config.to_members()).unwrap(), config);
            let from = config.opens_at.at;
            // Over ten minutes, in steps of a millisecond.
            let windows: BTreeMap<i64, u32> = (0..600_000)
                .filter_map(|ms| config.ledger_only_window(from + SignedDuration::from_millis(ms)))
                .map(|(claims, number)| (number, claims))
                .collect();
            let a_bucket: u32 = windows.values().sum();
            let let_through = a_bucket * u32::from(config.buckets);
            // The first window and the last one are cut.
            let cut = 2 * windows.values().max().unwrap() * u32::from(config.buckets);
            let most = rate * 600 + cut;
            assert!(let_through <= most, "{rate} {buckets}: {let_through}");
            assert!(
                let_through * 100 > rate * 600 * 95,
                "{rate} {buckets}: {let_through}"
            );
        }
        let never = SaleConfig::read(phone()).unwrap();
        assert_eq!(never.ledger_only_window(never.opens_at.at), None);
        assert_eq!(
            errors_of("ledger_only_rate_per_s", json!(1_001)),
            ["ledger_only_rate_per_s"]
        );
    }

    #[test]
    fn no_more_are_counted_than_enough_and_later_only_where_few_are() {
        for (expected, sample) in [
            (0, 1),
            (5_000, 1),
            (5_001, 2),
            (10_000, 2),
            (3_600_000, 720),
            (100_000_000, 20_000),
        ] {
            let mut members = phone();
            members.insert("expected_entries".into(), json!(expected));
            let config = SaleConfig::read(members).unwrap();
            assert_eq!(config.sample(), sample, "{expected}");
            assert!(expected / u64::from(sample) <= 5_000);
            let later = config.counted_until() - config.draw_closes_at();
            assert_eq!(later.as_secs(), if sample > 1 { 3 } else { 0 });
        }
    }
}
