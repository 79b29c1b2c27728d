//! The controller's rule: one step from what is seen to what is published.
//!
//! A pure function, so that any number of controllers at once come to the
//! same answer, and the ledger's version lets one of them write it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::config::SaleConfig;
use crate::sale::{Sale, SaleState};

/// Entries that came before the count closed are still on their way this long.
const COUNTING_DELAY: SignedDuration = SignedDuration::from_millis(300);

/// Pages poll the status once a second and act on what they then see.
const POLL: SignedDuration = SignedDuration::from_millis(1_500);

/// The most by which a round is widened when too few of the last one came.
const BOOST_MAX: u32 = 64;

/// While at least one in so many of the units that a round was offered and has
/// not taken yet is taken within its time, the round gets that time again.
const PACE: u64 = 8;

/// A round that follows before the last one has had its time carries what that one
/// offered along. After so many such times nobody is waited for any more: units
/// that come back one by one would else be the only ones that are ever offered.
const CARRIED: i32 = 3;

/// How far admission has come. All zero until the draw is closed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Admission {
    /// Entries of the draw's window, fixed when it was counted.
    pub entries: u64,
    /// The greatest place that a late entry ever had among these: a gate that
    /// lost its memory does not make the line shorter.
    pub late: u64,
    /// What ticket numbers are a fraction of; 0 until a draw is counted.
    pub scale: u64,
    /// Tickets below it may claim.
    pub threshold: f64,
    /// Places in line that the threshold admits.
    pub admitted: u64,
    /// How often it was raised, or those below it were asked again.
    pub round: u32,
    /// Units offered in the newest round.
    pub offered: u64,
    /// Units ever taken when the newest round was opened.
    pub taken_at_round: u64,
    /// When the newest round was opened, moved on for as long as its claims
    /// come at a good pace.
    pub round_at: Option<Timestamp>,
    /// Units ever taken at that time.
    pub taken_at_pace: u64,
    /// Since when units that earlier rounds offered are carried along by newer
    /// ones, moved on as `round_at` is. `None`: there are none.
    pub carried_at: Option<Timestamp>,
    /// By how much the next round is widened since too few came.
    pub boost: u32,
    /// Every unit was claimed once: what comes back goes to the waitlist.
    pub waitlist_open: bool,
}

impl Admission {
    /// Before the opening. A race has no draw to be counted: places in its
    /// line are a fraction of its units from the start.
    pub fn before(config: &SaleConfig) -> Self {
        let scale = if config.is_draw() {
            0
        } else {
            u64::from(config.units)
        };
        Self {
            scale,
            ..Self::default()
        }
    }
}

/// What the gates hold, all buckets together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gates {
    /// Units that can be claimed.
    pub free: u64,
    /// Units ever taken; never falls.
    pub taken: u64,
    /// Claims with a deadline: held and not yet paid.
    pub due: u64,
    /// Entries of the draw.
    pub entries: u64,
    /// The greatest place among late entries.
    pub late: u64,
    /// Every bucket answered.
    pub complete: bool,
    /// One answered that is closed, and waits to be made true from the ledger: what
    /// it shows is neither free nor claimed.
    pub frozen: bool,
    /// None did, or none has a counter: nothing can be claimed.
    pub dark: bool,
    /// One is open, so that claims can be taken.
    pub open: bool,
}

/// What the sale should be, seen so now. Equal to the sale if nothing changes.
pub fn step(sale: &Sale, gates: Gates, now: Timestamp) -> Sale {
    let mut next = sale.clone();
    next.admission.late = next.admission.late.max(gates.late);
    if gates.complete {
        next.free = gates.free;
    }
    if gates.dark {
        next.gates_away = next.gates_away.or(Some(now));
        next.gates_were_away = true;
    } else if gates.open {
        next.gates_away = None;
    }
    if sale.has_ended(now) {
        next.end(now);
        return next;
    }
    if !sale.has_opened(now) {
        next.state = SaleState::Scheduled;
        return next;
    }
    if sale.config.is_draw() && now < sale.config.counted_until() + COUNTING_DELAY {
        next.state = SaleState::Drawing;
        return next;
    }
    if !gates.complete {
        // Nothing is decided on half a view: neither a draw nor "sold out".
        if next.admission.scale > 0 && next.state == SaleState::Scheduled {
            next.state = SaleState::Live;
        }
        return next;
    }
    if next.admission.scale == 0 {
        next.admission = counted(&next, gates.entries);
    }
    if gates.free == 0 && gates.frozen {
        // Neither "all claimed" nor "sold out": nobody knows.
        if matches!(next.state, SaleState::Scheduled | SaleState::Drawing) {
            next.state = SaleState::Live;
        }
        return next;
    }
    next.state = match (gates.free, gates.due) {
        (0, 0) => SaleState::SoldOut,
        (0, _) => SaleState::AllClaimed,
        _ => SaleState::Live,
    };
    // Or so between two looks: somebody was told "sold out", and has a place, before
    // a unit came back.
    let units = u64::from(sale.config.units);
    let was_claimed = !sale.config.is_draw() && gates.late > 0 && gates.taken >= units;
    if gates.free == 0 || was_claimed {
        next.admission.waitlist_open = true;
    }
    if gates.free == 0 {
        next.admission.boost = 0;
        next.admission.offered = 0;
    }
    let held_back =
        sale.switches.paused || sale.switches.force_sold_out || sale.switches.waitlist_only;
    if !held_back && (sale.config.is_draw() || next.admission.waitlist_open) {
        next.admission = raised(sale, next.admission, gates, now);
    }
    next
}

/// The draw is counted: from here on a ticket is a place in line. Without
/// entries there is no line to be a fraction of, and the units are a scale as
/// good as any.
fn counted(sale: &Sale, counted: u64) -> Admission {
    let mut entries = counted * u64::from(sale.config.sample());
    let unseen = counted == 0 && sale.config.sample() > 1;
    if unseen || sale.gates_were_away {
        // The sample did not reach us, while the edge gave everyone else a ticket,
        // or gates forgot whom they had counted: without a scale all of them would
        // be admitted at once.
        entries = entries.max(u64::from(sale.config.expected_entries));
    }
    let scale = if entries > 0 {
        entries
    } else {
        u64::from(sale.config.units)
    };
    Admission {
        entries,
        scale,
        late: sale.admission.late,
        ..Admission::default()
    }
}

/// Raises the threshold for units that nobody was offered yet.
fn raised(sale: &Sale, mut admission: Admission, gates: Gates, now: Timestamp) -> Admission {
    let settle = SignedDuration::from_secs(i64::from(sale.config.claim_spread_s)) + POLL;
    let came = gates.taken.saturating_sub(admission.taken_at_round);
    let awaited = admission.offered.saturating_sub(came);
    // Who comes slowly, since the origin is slow, has not gone away. Were others
    // asked in their place, all whom the gates refuse would make it slower.
    let lately = gates.taken.saturating_sub(admission.taken_at_pace);
    if lately > 0 && lately >= awaited / PACE {
        admission.round_at = Some(now);
        admission.carried_at = admission.carried_at.and(Some(now));
        admission.taken_at_pace = gates.taken;
    }
    let since = |at: Option<Timestamp>, long| at.is_some_and(|at| now >= at + long);
    let settled = admission.round_at.is_none()
        || since(admission.round_at, settle)
        || since(admission.carried_at, settle * CARRIED);
    // What the newest round was offered and has not come for yet.
    let open = if settled { 0 } else { awaited };
    let offer = gates.free.saturating_sub(open);
    if offer == 0 {
        return admission;
    }
    if settled && admission.round > 0 && admission.offered > came {
        // Units were left over from a round: many have gone away. Ask more.
        admission.boost = (admission.boost + 1).min(BOOST_MAX.ilog2());
    }
    let no_shows = u64::from(100 + sale.config.no_show_percent);
    let invited = (offer << admission.boost.min(16)) * no_shows;
    // An empty line is not admitted beyond what is free: who comes late finds
    // the door open for as many as there are units.
    let everyone = admission.entries + admission.late;
    let places = (admission.admitted + invited.div_ceil(100)).min(everyone + offer);
    // Who found nothing in a round asks again in the next one, and only then. So
    // there is one where everybody is admitted, too: at once for what has come back,
    // now and then for what nobody has come for, and in long sales seldom.
    let seldom = now.duration_since(sale.config.opens_at.at) / 100;
    let again = since(admission.round_at, seldom.max(settle * CARRIED));
    if places <= admission.admitted && gates.free <= awaited && !again {
        return admission;
    }
    if places > admission.admitted {
        admission.admitted = places;
        admission.threshold = admission.threshold_for(places);
    }
    admission.round += 1;
    admission.offered = open + offer;
    admission.taken_at_round = gates.taken;
    if open > 0 {
        // Their pace is measured on, whatever is offered beside.
        admission.carried_at = admission.carried_at.or(admission.round_at);
    } else {
        admission.carried_at = None;
        admission.taken_at_pace = gates.taken;
    }
    admission.round_at = Some(now);
    admission
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::phone;
    use serde_json::json;

    fn sale(mode: &str) -> Sale {
        let mut members = phone();
        members.insert("mode".into(), json!(mode));
        Sale::new(
            "s".parse().unwrap(),
            SaleConfig::read(members).unwrap(),
            String::new(),
        )
    }

    fn at(sale: &Sale, ms: i64) -> Timestamp {
        sale.config.opens_at.at + SignedDuration::from_millis(ms)
    }

    fn gates(free: u64, taken: u64, due: u64) -> Gates {
        Gates {
            free,
            taken,
            due,
            entries: 3_600_000,
            complete: true,
            ..Gates::default()
        }
    }

    #[test]
    fn a_sale_is_noted_as_without_gates_until_one_is_open() {
        let sale = sale("draw");
        let seen = |dark, open| Gates {
            complete: false,
            dark,
            open,
            ..gates(0, 0, 0)
        };
        let first = step(&sale, seen(true, false), at(&sale, 5_000));
        assert_eq!(first.gates_away, Some(at(&sale, 5_000)));
        let since = |sale: &Sale, dark, open| {
            let next = step(sale, seen(dark, open), at(sale, 6_000));
            (next.gates_away, next.gates_were_away)
        };
        // Since the first look; counters alone are no open bucket.
        assert_eq!(since(&first, true, false), (first.gates_away, true));
        assert_eq!(since(&first, false, false), (first.gates_away, true));
        assert_eq!(since(&first, false, true), (None, true));
        assert_eq!(since(&sale, false, false), (None, false));
        let ended = step(&first, seen(true, false), sale.config.closes_at.at);
        assert_eq!(ended.gates_away, None);
    }

    #[test]
    fn the_sale_opens_by_the_clock_and_counts_before_it_admits() {
        let sale = sale("draw");
        let full = gates(10_000, 0, 0);
        assert_eq!(step(&sale, full, at(&sale, -1)).state, SaleState::Scheduled);
        assert_eq!(step(&sale, full, at(&sale, 0)).state, SaleState::Drawing);
        assert_eq!(step(&sale, full, at(&sale, 2_299)).admission.threshold, 0.0);
        let next = step(&sale, full, at(&sale, 2_300));
        assert_eq!(next.state, SaleState::Live);
        assert_eq!(next.admission.admitted, 11_000);
        assert!((next.admission.threshold - 11_000.0 / 3_600_000.0).abs() < 1e-12);
    }

    #[test]
    fn half_a_view_draws_nothing() {
        let sale = sale("draw");
        let half = Gates {
            complete: false,
            ..gates(10_000, 0, 0)
        };
        assert_eq!(
            step(&sale, half, at(&sale, 5_000)).admission,
            Admission::default()
        );
    }

    /// Elsewhere rounds go on; alone, it is nothing to decide by.
    #[test]
    fn a_frozen_bucket_is_neither_free_nor_sold_out() {
        let sale = sale("draw");
        let frozen = |free| Gates {
            frozen: true,
            ..gates(free, 0, 0)
        };
        let waits = step(&sale, frozen(0), at(&sale, 3_000));
        assert_eq!((waits.state, waits.admission.round), (SaleState::Live, 0));
        assert!(!waits.admission.waitlist_open);
        let others = step(&waits, frozen(250), at(&sale, 4_000));
        assert_eq!(others.admission.admitted, 275);
        let live = step(&others, gates(0, 250, 250), at(&sale, 5_000));
        assert_eq!(live.state, SaleState::AllClaimed);
        let again = step(&live, frozen(0), at(&sale, 6_000));
        assert_eq!(again.state, SaleState::AllClaimed);
    }

    #[test]
    fn a_round_is_given_time_and_then_widened() {
        let sale = sale("draw");
        let first = step(&sale, gates(10_000, 0, 0), at(&sale, 3_000));
        let waiting = step(&first, gates(4_000, 6_000, 6_000), at(&sale, 5_000));
        assert_eq!(waiting.admission.round, 1);
        let second = step(&waiting, gates(4_000, 6_000, 6_000), at(&sale, 10_000));
        assert_eq!(second.admission.round, 2);
        assert_eq!(second.admission.admitted, 11_000 + 8_800);
    }

    /// An origin that takes a minute for what should take seconds: nobody is
    /// asked in the place of those who are on their way. Without a pace, the
    /// round is widened.
    #[test]
    fn a_slow_origin_is_not_made_slower() {
        let sale = sale("draw");
        let admitted = |per_s: u64| {
            let mut now = step(&sale, gates(10_000, 0, 0), at(&sale, 3_000));
            for s in 1..=60 {
                let taken = (s * per_s).min(10_000);
                let seen = gates(10_000 - taken, taken, taken);
                now = step(&now, seen, at(&sale, 3_000 + s as i64 * 1_000));
            }
            now.admission.admitted
        };
        assert_eq!(admitted(400), 11_000);
        assert!(admitted(20) > 100_000);
    }

    /// Of a round of a hundred thirty come. Then a hold lapses every three seconds:
    /// what the seventy left is offered to others all the same.
    #[test]
    fn a_trickle_of_returns_hides_no_units() {
        let sale = sale("draw");
        let full = step(&sale, gates(0, 10_000, 10_000), at(&sale, 3_000));
        let mut now = step(&full, gates(100, 10_000, 9_900), at(&sale, 4_000));
        assert_eq!(now.admission.admitted, 110);
        for s in 1..=16 {
            let back = s / 3;
            let seen = gates(70 + back, 10_030, 9_930 - back);
            now = step(&now, seen, at(&sale, 4_000 + s as i64 * 1_000));
        }
        // Two places for each that came back, and the seventy once more.
        assert!(now.admission.admitted > 110 + 77, "{:?}", now.admission);
    }

    /// The same with a first round that comes slowly, and holds that are given back.
    #[test]
    fn returns_beside_a_slow_origin_do_not_make_it_slower() {
        let sale = sale("draw");
        let mut now = step(&sale, gates(10_000, 0, 0), at(&sale, 3_000));
        for s in 1..=24 {
            let (taken, back) = (s * 400, s);
            let seen = gates(10_000 - taken + back, taken, taken - back);
            now = step(&now, seen, at(&sale, 3_000 + s as i64 * 1_000));
        }
        // Two places for each that came back.
        assert_eq!(now.admission.admitted, 11_000 + 2 * 24);
    }

    #[test]
    fn units_that_come_back_are_offered_at_once_and_once() {
        let sale = sale("draw");
        let first = step(&sale, gates(10_000, 0, 0), at(&sale, 3_000));
        let full = step(&first, gates(0, 10_000, 10_000), at(&sale, 4_000));
        assert_eq!(full.state, SaleState::AllClaimed);
        let back = step(&full, gates(3, 10_000, 9_997), at(&sale, 4_500));
        assert_eq!((back.admission.round, back.admission.admitted), (2, 11_004));
        // Seen again before anyone came: the same three are not offered twice.
        let again = step(&back, gates(3, 10_000, 9_997), at(&sale, 5_000));
        assert_eq!(again.admission, back.admission);
        // Two more come back: two more are offered.
        let more = step(&again, gates(5, 10_000, 9_995), at(&sale, 5_500));
        assert_eq!((more.admission.round, more.admission.admitted), (3, 11_007));
        assert_eq!(
            step(&more, gates(0, 10_005, 0), at(&sale, 6_000)).state,
            SaleState::SoldOut
        );
    }

    #[test]
    fn switches_hold_rounds_back() {
        for turn in [
            |s: &mut Sale| s.switches.paused = true,
            |s: &mut Sale| s.switches.force_sold_out = true,
            |s: &mut Sale| s.switches.waitlist_only = true,
        ] {
            let mut sale = sale("draw");
            turn(&mut sale);
            assert_eq!(
                step(&sale, gates(10_000, 0, 0), at(&sale, 9_000))
                    .admission
                    .round,
                0
            );
        }
    }

    #[test]
    fn a_sample_is_waited_for_and_a_whole_count_is_not() {
        for (expected, first_ms) in [(0, 2_300), (3_600_000, 5_300)] {
            let mut members = phone();
            members.insert("expected_entries".into(), expected.into());
            let config = SaleConfig::read(members).unwrap();
            let sale = Sale::new("phone".parse().unwrap(), config, String::new());
            let scale = |ms| {
                let step = step(&sale, gates(10_000, 0, 0), at(&sale, ms));
                step.admission.scale
            };
            assert_eq!(scale(first_ms - 1), 0, "{expected}");
            assert!(scale(first_ms) > 0, "{expected}");
        }
    }

    #[test]
    fn a_sample_that_never_came_admits_no_crowd() {
        let mut members = phone();
        members.insert("expected_entries".into(), 3_600_000.into());
        let config = SaleConfig::read(members).unwrap();
        let sale = Sale::new("phone".parse().unwrap(), config, String::new());
        let lost = counted(&sale, 0);
        assert_eq!((lost.entries, lost.scale), (3_600_000, 3_600_000));
        assert_eq!(counted(&sale, 100).entries, 72_000);
    }

    /// The gates came back empty in the middle of a sale: whoever waits is still in
    /// line, and is asked round after round while units are left.
    #[test]
    fn gates_that_forget_make_the_line_no_shorter() {
        let sale = sale("race");
        let crowd = Gates {
            entries: 0,
            late: 50_000,
            ..gates(0, 10_000, 10_000)
        };
        let mut now = step(&sale, crowd, at(&sale, 1_000));
        let forgot = |late| Gates {
            entries: 0,
            late,
            ..gates(9_000, 1_000, 0)
        };
        for s in 1..=20 {
            now = step(&now, forgot(0), at(&sale, s * 10_000));
        }
        // All of them, and the door open for as many as there are units.
        assert_eq!(now.admission.admitted, 59_000);
        let longer = step(&now, forgot(50_001), at(&sale, 300_000));
        assert_eq!(longer.admission.admitted, 59_001);
    }

    /// Ten units, fifteen shoppers: holds lapse one by one, until everybody in line
    /// is admitted. Who was refused in the rounds before is asked again, at each
    /// unit that comes back, and again while nobody comes for it.
    #[test]
    fn a_line_that_is_all_admitted_is_asked_again() {
        let sale = sale("race");
        let seen = |free, taken| Gates {
            entries: 0,
            late: 5,
            ..gates(free, taken, 10 - free)
        };
        let mut now = step(&sale, seen(0, 10), at(&sale, 1_000));
        for n in 1..=8 {
            let (round, ms) = (now.admission.round, 1_000 + n as i64 * 1_000);
            now = step(&now, seen(1, 9 + n), at(&sale, ms));
            assert_eq!(now.admission.round, round + 1, "return {n}");
            let again = step(&now, seen(1, 9 + n), at(&sale, ms + 400));
            assert_eq!(again.admission, now.admission, "return {n}");
            now = step(&now, seen(0, 10 + n), at(&sale, ms + 500));
        }
        assert_eq!(now.admission.admitted, 6);
        let back = step(&now, seen(1, 18), at(&sale, 20_000));
        let waits = step(&back, seen(1, 18), at(&sale, 33_000));
        assert_eq!(waits.admission.round, back.admission.round);
        let again = step(&waits, seen(1, 18), at(&sale, 34_000));
        assert_eq!(again.admission.round, back.admission.round + 1);
        assert_eq!(again.admission.threshold, back.admission.threshold);
        // A day in which nobody wants it is no day of rounds.
        let mut day = again;
        for minute in 1..=1_440 {
            day = step(&day, seen(1, 18), at(&sale, minute * 60_000));
        }
        assert!(day.admission.round < back.admission.round + 400);
    }

    #[test]
    fn gates_that_forgot_entries_count_no_draw_by_themselves() {
        let mut members = phone();
        members.insert("expected_entries".into(), 5_000.into());
        let config = SaleConfig::read(members).unwrap();
        let mut sale = Sale::new("phone".parse().unwrap(), config, String::new());
        assert_eq!(counted(&sale, 20).entries, 20);
        sale.gates_were_away = true;
        assert_eq!(counted(&sale, 20).entries, 5_000);
        assert_eq!(counted(&sale, 9_500).entries, 9_500);
    }

    #[test]
    fn a_race_admits_everyone_until_all_is_claimed_then_the_waitlist() {
        let sale = sale("race");
        let open = step(
            &sale,
            Gates {
                entries: 0,
                ..gates(10_000, 0, 0)
            },
            at(&sale, 0),
        );
        assert_eq!((open.state, open.admission.round), (SaleState::Live, 0));
        let waiting = Gates {
            entries: 0,
            late: 500,
            ..gates(0, 10_000, 10_000)
        };
        let all = step(&open, waiting, at(&sale, 1_000));
        assert_eq!(all.state, SaleState::AllClaimed);
        let back = step(
            &all,
            Gates {
                free: 10,
                due: 9_990,
                ..waiting
            },
            at(&sale, 2_000),
        );
        assert_eq!((back.admission.round, back.admission.admitted), (1, 11));
        assert!(
            crate::draw::Ticket::late(11, back.admission.scale)
                .is_admitted(back.admission.threshold)
        );
        assert!(
            !crate::draw::Ticket::late(12, back.admission.scale)
                .is_admitted(back.admission.threshold)
        );
    }

    /// A unit came back before the controller had seen that there was none. Who was
    /// refused meanwhile has a place, and is asked.
    #[test]
    fn a_line_begins_though_nobody_saw_the_last_unit_go() {
        let sale = sale("race");
        let seen = |free, taken, late| Gates {
            entries: 0,
            late,
            ..gates(free, taken, taken)
        };
        let open = step(&sale, seen(20, 9_980, 0), at(&sale, 1_000));
        // A place alone begins no line: anybody may take one.
        let early = step(&open, seen(10, 9_990, 1), at(&sale, 1_500));
        assert!(!early.admission.waitlist_open);
        let back = step(&open, seen(3, 10_000, 79), at(&sale, 1_500));
        assert!(back.admission.waitlist_open);
        assert_eq!((back.admission.round, back.admission.admitted), (1, 4));
    }

    #[test]
    fn fewer_shoppers_than_units_leave_the_door_open() {
        let sale = sale("draw");
        let few = Gates {
            entries: 10,
            ..gates(10_000, 0, 0)
        };
        let next = step(&sale, few, at(&sale, 3_000));
        assert!(
            crate::draw::Ticket::late(9_000, next.admission.scale)
                .is_admitted(next.admission.threshold)
        );
    }
}
