//! A sale as everyone may see it: what the merchant decided, kept for a
//! minute, and how it goes, kept for a second.

use domain::config::Mode;
use domain::sale::{Pause, SaleState};
use domain::{Currency, OffsetTime, Sale, SaleId};
use jiff::Timestamp;
use serde::Serialize;

/// A price with its text, so that no page has to know ISO 4217's decimals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PriceView {
    /// In minor units.
    pub amount: u64,
    /// ISO 4217.
    pub currency: Currency,
    /// `INR 9999.00`.
    pub display: String,
}

/// What the merchant decided, and the draw's commitment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaleView {
    /// The sale's name.
    pub sale_id: SaleId,
    /// The article.
    pub sku: String,
    /// What shoppers read.
    pub name: String,
    /// Of one unit.
    pub price: PriceView,
    /// How many there are.
    pub units: u32,
    /// When it opens.
    pub opens_at: OffsetTime,
    /// When no further claim is taken.
    pub closes_at: OffsetTime,
    /// When the draw's window closes; in a race the opening itself.
    pub draw_closes_at: OffsetTime,
    /// `draw` or `race`.
    pub mode: &'static str,
    /// Units that one customer may hold and buy.
    pub limit_per_customer: u32,
    /// Seconds to pay.
    pub pay_window_s: u32,
    /// Seconds to pay for those from the waitlist.
    pub waitlist_pay_window_s: u32,
    /// Seconds over which admitted pages spread their claims.
    pub claim_spread_s: u32,
    /// SHA-256 of the draw secret, in hex.
    pub commitment: String,
    /// How the draw went, once nobody can be admitted by it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<DrawnView>,
}

/// A draw that is over: with the secret everyone can draw their ticket again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnView {
    /// In hex; its SHA-256 is the commitment.
    pub secret: String,
    /// Of how many entries one was counted.
    pub sample: u32,
    /// The last state of admission.
    #[serde(flatten)]
    pub admission: DrawView,
}

/// What is left, as the page says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Stock {
    /// Units can be claimed.
    Available,
    /// Every unit is held or paid; some may come back.
    AllClaimed,
    /// Every unit is paid.
    SoldOut,
}

/// How far admission has come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DrawView {
    /// Entries of the draw's window.
    pub entries: u64,
    /// What tickets are a fraction of; 0 until the draw is counted.
    pub scale: u64,
    /// Tickets below it may claim.
    pub threshold: f64,
    /// How often it was raised, or those below it were asked again.
    pub round: u32,
    /// Places in line that it admits.
    pub admitted: u64,
}

/// How a sale goes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusView {
    /// Where it is, by this server's clock.
    pub state: SaleState,
    /// What is left.
    pub stock: Stock,
    /// This server's clock.
    pub server_time: OffsetTime,
    /// When it opens.
    pub opens_at: OffsetTime,
    /// When no further claim is taken.
    pub closes_at: OffsetTime,
    /// Claims and entries are refused for now.
    pub paused: bool,
    /// Why, if they are.
    pub paused_by: Option<Pause>,
    /// No gate answers: few claims are taken, and each is confirmed later.
    pub ledger_only: bool,
    /// What comes back goes to those who wait.
    pub waitlist_open: bool,
    /// Admission.
    pub draw: DrawView,
    /// How many units there are.
    pub units: u32,
    /// How many could be claimed when the controller last looked.
    pub free: u64,
}

/// The public object of a sale, with the secret of its draw if that is over.
/// Its state is not in it: that changes while a copy is kept.
pub fn sale_view(sale: &Sale, secret: Option<String>) -> SaleView {
    let config = &sale.config;
    SaleView {
        sale_id: sale.id.clone(),
        sku: config.sku.clone(),
        name: config.name.clone(),
        price: PriceView {
            amount: config.price.amount,
            currency: config.price.currency,
            display: config.price.to_string(),
        },
        units: config.units,
        opens_at: config.opens_at,
        closes_at: config.closes_at,
        draw_closes_at: config.opens_at.same_offset(config.draw_closes_at()),
        mode: match config.mode {
            Mode::Draw { .. } => "draw",
            Mode::Race { .. } => "race",
        },
        limit_per_customer: config.limit_per_customer,
        pay_window_s: config.pay_window_s,
        waitlist_pay_window_s: config.waitlist_pay_window_s,
        claim_spread_s: config.claim_spread_s,
        commitment: sale.commitment.clone(),
        draw: secret.map(|secret| DrawnView {
            secret,
            sample: config.sample(),
            admission: draw_view(sale),
        }),
    }
}

fn draw_view(sale: &Sale) -> DrawView {
    let admission = &sale.admission;
    DrawView {
        entries: admission.entries,
        scale: admission.scale,
        threshold: admission.threshold,
        round: admission.round,
        admitted: admission.admitted,
    }
}

/// The status of a sale now.
pub fn view(sale: &Sale, now: Timestamp) -> StatusView {
    let config = &sale.config;
    let state = state(sale, now);
    let ended = state == SaleState::Ended;
    let admission = &sale.admission;
    StatusView {
        state,
        stock: stock(sale, state),
        server_time: config.opens_at.same_offset(now),
        opens_at: config.opens_at,
        closes_at: config.closes_at,
        paused: sale.pause().is_some(),
        paused_by: sale.pause(),
        ledger_only: sale.is_ledger_only(),
        waitlist_open: !ended && (admission.waitlist_open || sale.switches.waitlist_only),
        draw: draw_view(sale),
        units: config.units,
        free: sale.free,
    }
}

/// Where the sale is. What the clock decides follows this server's, as the
/// answers to entries and claims do; the controller may be a second behind.
fn state(sale: &Sale, now: Timestamp) -> SaleState {
    if sale.has_ended(now) {
        SaleState::Ended
    } else if !sale.has_opened(now) {
        SaleState::Scheduled
    } else if sale.config.is_draw() && now < sale.config.draw_closes_at() {
        SaleState::Drawing
    } else {
        match sale.state {
            // The window is over, but nobody is admitted before the count.
            SaleState::Scheduled if sale.config.is_draw() => SaleState::Drawing,
            SaleState::Scheduled => SaleState::Live,
            decided => decided,
        }
    }
}

fn stock(sale: &Sale, state: SaleState) -> Stock {
    if sale.switches.force_sold_out || state == SaleState::SoldOut {
        Stock::SoldOut
    } else if sale.switches.waitlist_only || state == SaleState::AllClaimed {
        Stock::AllClaimed
    } else if state == SaleState::Ended && sale.free == 0 {
        // Whether the last ones are paid is not known from here.
        Stock::AllClaimed
    } else {
        Stock::Available
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::admission::Admission;
    use domain::config::SaleConfig;
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    fn sale(mode: &str) -> Sale {
        let Value::Object(members) = json!({
            "sku": "PHONE-1", "name": "Phone", "price": {"amount": 999_900, "currency": "INR"},
            "units": 10_000, "opens_at": "2026-11-11T12:00:00+05:30", "mode": mode,
        }) else {
            unreachable!()
        };
        let config = SaleConfig::read(members).unwrap();
        Sale::new("phone".parse().unwrap(), config, "c0ffee".to_owned())
    }

    fn at(sale: &Sale, ms: i64) -> Timestamp {
        sale.config.opens_at.at + SignedDuration::from_millis(ms)
    }

    fn state_at(sale: &Sale, ms: i64) -> SaleState {
        view(sale, at(sale, ms)).state
    }

    const HOUR_MS: i64 = 3_600_000;

    #[test]
    fn the_clock_is_ahead_of_the_controller() {
        let mut draw = sale("draw");
        assert_eq!(state_at(&draw, -1), SaleState::Scheduled);
        assert_eq!(state_at(&draw, 0), SaleState::Drawing);
        assert_eq!(state_at(&draw, 1_999), SaleState::Drawing);
        assert_eq!(state_at(&draw, 2_000), SaleState::Drawing);
        draw.state = SaleState::Live;
        assert_eq!(state_at(&draw, 2_000), SaleState::Live);
        assert_eq!(state_at(&draw, HOUR_MS - 1), SaleState::Live);
        assert_eq!(state_at(&draw, HOUR_MS), SaleState::Ended);

        let race = sale("race");
        assert_eq!(state_at(&race, -1), SaleState::Scheduled);
        assert_eq!(state_at(&race, 0), SaleState::Live);
    }

    #[test]
    fn the_controller_is_not_ahead_of_the_clock() {
        let mut sale = sale("draw");
        sale.state = SaleState::Drawing;
        assert_eq!(state_at(&sale, -1), SaleState::Scheduled);
        sale.state = SaleState::Live;
        assert_eq!(state_at(&sale, 1_999), SaleState::Drawing);
    }

    #[test]
    fn an_early_end_is_an_end() {
        let mut sale = sale("draw");
        sale.state = SaleState::Live;
        sale.switches.ended = true;
        sale.admission.waitlist_open = true;
        let view = view(&sale, at(&sale, 5_000));
        assert_eq!((view.state, view.waitlist_open), (SaleState::Ended, false));
    }

    #[test]
    fn stock_follows_the_units_and_the_switches() {
        let stock = |change: fn(&mut Sale)| {
            let mut sale = sale("draw");
            sale.state = SaleState::Live;
            change(&mut sale);
            view(&sale, at(&sale, 5_000)).stock
        };
        assert_eq!(stock(|_| {}), Stock::Available);
        assert_eq!(
            stock(|s| s.state = SaleState::AllClaimed),
            Stock::AllClaimed
        );
        assert_eq!(stock(|s| s.state = SaleState::SoldOut), Stock::SoldOut);
        assert_eq!(
            stock(|s| s.switches.waitlist_only = true),
            Stock::AllClaimed
        );
        assert_eq!(stock(|s| s.switches.force_sold_out = true), Stock::SoldOut);
        assert_eq!(
            stock(|s| {
                s.switches.waitlist_only = true;
                s.state = SaleState::SoldOut;
            }),
            Stock::SoldOut
        );
        assert_eq!(
            stock(|s| {
                s.switches.ended = true;
                s.free = 0;
            }),
            Stock::AllClaimed
        );
        assert_eq!(stock(|s| s.switches.paused = true), Stock::Available);
    }

    #[test]
    fn a_sale_whose_gates_are_away_says_so_and_a_merchants_pause_comes_first() {
        let said = |rate: u32, away: bool, paused: bool| {
            let mut sale = sale("draw");
            sale.state = SaleState::Live;
            sale.config.ledger_only_rate_per_s = rate;
            sale.gates_away = away.then(|| at(&sale, 4_000));
            sale.switches.paused = paused;
            let view = view(&sale, at(&sale, 5_000));
            (view.paused, view.paused_by, view.ledger_only)
        };
        assert_eq!(said(0, false, false), (false, None, false));
        assert_eq!(said(0, true, false), (true, Some(Pause::Gates), false));
        assert_eq!(said(20, true, false), (false, None, true));
        assert_eq!(said(20, false, false), (false, None, false));
        for (rate, away) in [(0, false), (0, true), (20, true)] {
            assert_eq!(said(rate, away, true), (true, Some(Pause::Merchant), false));
        }
    }

    #[test]
    fn the_status_document_has_this_form() {
        let mut sale = sale("draw");
        sale.state = SaleState::AllClaimed;
        sale.free = 0;
        sale.admission = Admission {
            entries: 100_000,
            scale: 100_000,
            threshold: 0.11,
            admitted: 11_000,
            round: 1,
            waitlist_open: true,
            ..Admission::default()
        };
        assert_eq!(
            serde_json::to_value(view(&sale, at(&sale, 5_001))).unwrap(),
            json!({
                "state": "ALL_CLAIMED", "stock": "ALL_CLAIMED",
                "server_time": "2026-11-11T12:00:05.001+05:30",
                "opens_at": "2026-11-11T12:00:00.000+05:30",
                "closes_at": "2026-11-11T13:00:00.000+05:30",
                "paused": false, "paused_by": null, "ledger_only": false, "waitlist_open": true,
                "draw": {
                    "entries": 100_000, "scale": 100_000, "threshold": 0.11,
                    "round": 1, "admitted": 11_000,
                },
                "units": 10_000, "free": 0,
            })
        );
    }

    #[test]
    fn the_public_object_holds_nothing_that_moves() {
        let mut sale = sale("draw");
        let before = serde_json::to_value(sale_view(&sale, None)).unwrap();
        assert_eq!(
            before,
            json!({
                "sale_id": "phone", "sku": "PHONE-1", "name": "Phone",
                "price": {"amount": 999_900, "currency": "INR", "display": "INR 9999.00"},
                "units": 10_000,
                "opens_at": "2026-11-11T12:00:00.000+05:30",
                "closes_at": "2026-11-11T13:00:00.000+05:30",
                "draw_closes_at": "2026-11-11T12:00:02.000+05:30",
                "mode": "draw", "limit_per_customer": 1,
                "pay_window_s": 600, "waitlist_pay_window_s": 300, "claim_spread_s": 3,
                "commitment": "c0ffee",
            })
        );
        sale.state = SaleState::Live;
        sale.free = 1;
        sale.version = 9;
        sale.switches.paused = true;
        sale.admission.threshold = 0.5;
        assert_eq!(
            serde_json::to_value(sale_view(&sale, None)).unwrap(),
            before
        );
    }
}
