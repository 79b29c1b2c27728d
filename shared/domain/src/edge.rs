//! What the function in front of the API knows of a sale: one document of a
//! key-value store, whose values are small. Its members are in `docs/edge.md`.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::SaleId;
use crate::config::Mode;
use crate::sale::Sale;

/// Of the members and their meaning.
const VERSION: u32 = 1;

/// The largest value that the store takes, in bytes.
pub const DOCUMENT_MAX: usize = 1_024;

/// The secret is in the document from so long before the opening: the store
/// takes seconds to be everywhere, and the draw's window may be two.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// A document holds for so long: of runs that write it, one may be missing, and the
/// next is started within a minute.
const HOLDS: SignedDuration = SignedDuration::from_secs(120);

/// One that says nothing new is written again after so long.
const RENEWED: SignedDuration = SignedDuration::from_secs(30);

/// What is final holds for good: the greatest time of a sale, in milliseconds.
const FOR_GOOD_MS: i64 = 253_370_764_800_000;

/// The name of a sale's document in the store.
pub fn key(sale: &SaleId) -> String {
    format!("sale:{sale}")
}

/// Whether the draw's secret may be in the sale's document by now.
pub fn may_know_secret(sale: &Sale, now: Timestamp) -> bool {
    sale.config.is_draw() && now >= sale.config.opens_at.at - AHEAD
}

/// A sale as the edge knows it. There is no `Debug`: it holds secrets.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    v: u32,
    /// Of the sale's row: a newer one is never replaced.
    pub version: u64,
    /// Nothing of it is to be believed from then on.
    fresh_until_ms: i64,
    mode: String,
    opens_at: String,
    opens_ms: i64,
    draw_closes_ms: i64,
    closes_ms: i64,
    units: u32,
    ended: bool,
    paused: bool,
    sold_out: bool,
    waitlist_only: bool,
    entries: u64,
    scale: u64,
    threshold: f64,
    waitlist_open: bool,
    sample: u32,
    secret: Option<String>,
    keys: Vec<String>,
    origin: Option<String>,
}

impl Document {
    /// Of a sale as it is now, with the draw's secret if it may be known, the
    /// keys of `EDGE_KEY`, and the origin of the page.
    pub fn of(
        sale: &Sale,
        secret: Option<&str>,
        keys: &[&str],
        origin: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let (config, admission) = (&sale.config, &sale.admission);
        let fresh_until_ms = if sale.has_ended(now) {
            FOR_GOOD_MS
        } else {
            (now + HOLDS).as_millisecond()
        };
        Self {
            v: VERSION,
            version: sale.version,
            fresh_until_ms,
            mode: match config.mode {
                Mode::Draw { .. } => "draw",
                Mode::Race { .. } => "race",
            }
            .to_owned(),
            opens_at: config.opens_at.to_string(),
            opens_ms: config.opens_at.at.as_millisecond(),
            draw_closes_ms: config.draw_closes_at().as_millisecond(),
            closes_ms: config.closes_at.at.as_millisecond(),
            units: config.units,
            ended: sale.switches.ended,
            paused: sale.switches.paused,
            sold_out: sale.switches.force_sold_out,
            waitlist_only: sale.switches.waitlist_only,
            entries: admission.entries,
            scale: admission.scale,
            threshold: admission.threshold,
            waitlist_open: admission.waitlist_open,
            sample: config.sample(),
            secret: secret.map(str::to_owned),
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            origin: origin.map(str::to_owned),
        }
    }

    /// Whether it is worth writing where another one was: most changes of a sale's
    /// row mean nothing to the edge, and time alone is told rarely.
    pub fn is_news_after(&self, told: &Self) -> bool {
        let (version, fresh_until_ms) = (self.version, self.fresh_until_ms);
        let as_new = Self {
            version,
            fresh_until_ms,
            ..told.clone()
        };
        let older_ms = fresh_until_ms.saturating_sub(told.fresh_until_ms);
        *self != as_new || i128::from(older_ms) >= RENEWED.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SaleConfig;
    use serde_json::{Value, json};

    fn sale(change: Value) -> Sale {
        let mut members = crate::config::tests::phone();
        members.extend(change.as_object().unwrap().clone());
        let config = SaleConfig::read(members).unwrap();
        Sale::new("s".repeat(64).parse().unwrap(), config, String::new())
    }

    /// The members are those that the edge reads (`infra/edge/test/world.mjs`).
    #[test]
    fn the_longest_document_fits_and_has_every_member() {
        let mut sale = sale(json!({"units": 100_000, "expected_entries": 100_000_000,
            "opens_at": "2026-11-11T12:00:00.123+05:30"}));
        sale.version = (1 << 53) - 1;
        sale.admission.entries = 100_000_000;
        sale.admission.scale = 100_000_000;
        sale.admission.threshold = 0.123_456_789_012_345_67;
        let key = "k".repeat(64);
        let origin = format!("https://{}.example", "o".repeat(200));
        let now = sale.config.opens_at.at;
        let document = Document::of(&sale, Some(&key), &[&key, &key], Some(&origin), now);
        let text = serde_json::to_string(&document).unwrap();
        assert!(text.len() <= DOCUMENT_MAX, "{}", text.len());
        let value: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        let world = include_str!("../../../infra/edge/test/world.mjs");
        let documented = world.split("return {").nth(1).unwrap();
        let documented = documented.split("...changes").next().unwrap();
        for name in &names {
            assert!(documented.contains(&format!("{name}:")), "{name}");
        }
        assert_eq!(names.len(), 21);
        assert_eq!(value["sample"], 20_000);
    }

    #[test]
    fn the_secret_of_a_draw_may_be_known_a_minute_before_its_opening() {
        let (draw, race) = (sale(json!({})), sale(json!({"mode": "race"})));
        let opens = draw.config.opens_at.at;
        assert!(!may_know_secret(
            &draw,
            opens - AHEAD - SignedDuration::from_millis(1)
        ));
        assert!(may_know_secret(&draw, opens - AHEAD));
        assert!(!may_know_secret(&race, opens));
    }

    #[test]
    fn a_version_alone_says_nothing_new() {
        let mut sale = sale(json!({}));
        let now = sale.config.opens_at.at;
        let of = |sale: &Sale| Document::of(sale, None, &[], None, now);
        let before = of(&sale);
        sale.version += 1;
        assert!(!of(&sale).is_news_after(&before));
        sale.switches.paused = true;
        assert!(of(&sale).is_news_after(&before));
    }

    #[test]
    fn a_document_is_renewed_long_before_it_ends_and_what_is_final_never_ends() {
        let mut sale = sale(json!({}));
        let opens = sale.config.opens_at.at;
        let at = |sale: &Sale, ms| {
            let now = opens + SignedDuration::from_millis(ms);
            Document::of(sale, None, &[], None, now)
        };
        let first = at(&sale, 0);
        assert_eq!(first.fresh_until_ms, opens.as_millisecond() + 120_000);
        assert!(!at(&sale, 29_999).is_news_after(&first));
        assert!(at(&sale, 30_000).is_news_after(&first));
        // What another run wrote a little later is no reason to write.
        assert!(!first.is_news_after(&at(&sale, 1_000)));
        sale.switches.ended = true;
        let ended = at(&sale, 1_000);
        assert!(ended.is_news_after(&first));
        assert!(!at(&sale, 86_400_000).is_news_after(&ended));
        sale.switches.ended = false;
        assert_eq!(at(&sale, 3_600_000).fresh_until_ms, FOR_GOOD_MS);
    }
}
