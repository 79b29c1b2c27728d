//! P2: a unit whose hold lapsed is soon on offer again, and none is left over
//! while somebody wants it.

use domain::order::OrderStatus;
use jiff::Timestamp;

use super::{Check, Lag, Ledger, Told};
use crate::wire::OrderLine;

/// From the deadline until the unit is on offer, at p99.
const OFFER_MS_MAX: i64 = 2_000;

/// When the hold ended by itself: that of the intent if it was being paid.
/// Unknown if it was being paid and the report does not say until when.
fn deadline(order: &OrderLine) -> Option<Timestamp> {
    match order.pay_until {
        Some(until) => Some(until),
        None if order.intent.is_some() => None,
        None => order.pay_by,
    }
}

/// When units may be claimed, and when they were.
struct Offers {
    /// Raisings of the threshold: when, and how many places it then admitted.
    rounds: Vec<(Timestamp, u64)>,
    /// When units were claimed, ascending; each serves one lapsed unit.
    claims: std::collections::VecDeque<Timestamp>,
    entrants: u64,
    wanting: u64,
}

impl Offers {
    fn of(ledger: &Ledger, told: &Told) -> Self {
        let mut rounds: Vec<_> = ledger
            .summary
            .rounds
            .iter()
            .filter_map(|round| Some((round.at?, round.admitted)))
            .collect();
        rounds.sort_unstable();
        let mut claims: Vec<_> = ledger
            .orders()
            .filter(|order| order.status != OrderStatus::Voided)
            .filter_map(|order| order.claimed_at)
            .collect();
        claims.sort_unstable();
        Self {
            rounds,
            claims: claims.into(),
            entrants: told.entrants,
            wanting: told.wanting,
        }
    }

    /// When a unit that came back at `released` was on offer again; `None` if
    /// it never was. Ask in the order of release.
    ///
    /// The first that is true of: the line was admitted as a whole already,
    /// so that anyone in it could claim; a round followed; somebody claimed
    /// without one, since an open round had room. A unit that nobody wanted
    /// to the end was on offer from its release.
    fn again(&mut self, released: Timestamp) -> Option<Timestamp> {
        let next = self.rounds.partition_point(|(at, _)| *at < released);
        let admitted = next
            .checked_sub(1)
            .map_or(0, |newest| self.rounds[newest].1);
        while self.claims.front().is_some_and(|at| *at < released) {
            self.claims.pop_front();
        }
        let claimed = self.claims.pop_front();
        if admitted > 0 && admitted >= self.entrants {
            return Some(released);
        }
        let round = self.rounds.get(next).map(|(at, _)| *at);
        match [round, claimed].into_iter().flatten().min() {
            None if self.wanting == 0 => Some(released),
            offered => offered,
        }
    }
}

/// P2: lapsed units are on offer within two seconds at p99.
pub(super) fn prompt(ledger: &Ledger, told: &Told) -> (Check, Lag, Lag) {
    let mut lapsed = Vec::new();
    let mut unknown = 0;
    for order in ledger
        .orders()
        .filter(|order| order.status == OrderStatus::Expired)
    {
        match (deadline(order), order.released_at.or(order.changed_at)) {
            (Some(deadline), Some(released)) => lapsed.push((released, deadline, order)),
            _ => unknown += 1,
        }
    }
    lapsed.sort_by_key(|(released, ..)| *released);
    let mut offers = Offers::of(ledger, told);
    let (mut releases, mut offered, mut offences) = (Vec::new(), Vec::new(), Vec::new());
    for (released, deadline, order) in lapsed {
        releases.push(ms_between(deadline, released));
        match offers.again(released) {
            Some(at) => offered.push(ms_between(deadline, at)),
            None => offences.push(format!(
                "the unit of {} lapsed at {deadline} and was never offered again",
                order.claim_id
            )),
        }
    }
    let (release, offer) = (Lag::of(releases), Lag::of(offered));
    if offer.p99_ms > OFFER_MS_MAX {
        offences.push(format!(
            "on offer again only {} ms after the deadline at p99",
            offer.p99_ms
        ));
    }
    let mut says = format!(
        "{} lapsed; back p50 {} p99 {} max {} ms; on offer p50 {} p99 {} max {} ms after the \
         deadline",
        release.count,
        release.p50_ms,
        release.p99_ms,
        release.max_ms,
        offer.p50_ms,
        offer.p99_ms,
        offer.max_ms
    );
    if unknown > 0 {
        says += &format!("; {unknown} while being paid, their deadline is not in the report");
    }
    let check = Check::new("P2", "lapsed units are soon on offer", says, offences);
    (check, release, offer)
}

/// P2: at the end nothing is held for ever, and nothing is free that somebody
/// in line wanted.
pub(super) fn not_stranded(ledger: &Ledger, told: &Told) -> Check {
    let free = ledger.summary.free;
    let mut offences = Vec::new();
    if free > 0 && told.wanting > 0 {
        offences.push(format!(
            "stranded: {free} units are free and {} shoppers in line wanted one",
            told.wanting
        ));
    }
    for order in ledger.orders() {
        if matches!(
            order.status,
            OrderStatus::PendingPayment | OrderStatus::Paying
        ) {
            offences.push(format!(
                "stranded: {} is still {} after the sale has settled",
                order.claim_id,
                order.status.name()
            ));
        }
    }
    let in_flight = ledger.summary.in_flight();
    if in_flight > 0 {
        offences.push(format!(
            "stranded: {in_flight} units were claimed and have no order"
        ));
    }
    let says = match (free, told.wanting) {
        (0, _) => "every unit is sold".to_owned(),
        (free, 0) => format!("{free} units are left, and nobody in line wanted them"),
        (free, wanting) => format!("{free} units are left, {wanting} shoppers wanted one"),
    };
    Check::new("P2", "no unit is stranded", says, offences)
}

fn ms_between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond() - from.as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{at, breaks, claim, expired, good};
    use super::*;

    #[test]
    fn a_round_within_two_seconds_is_prompt() {
        let (ledger, told) = good();
        let (check, release, offer) = prompt(&ledger, &told);
        assert!(check.ok, "{check:?}");
        assert_eq!((release.count, release.max_ms, offer.max_ms), (1, 400, 900));
    }

    #[test]
    fn a_late_round_breaks_it() {
        breaks("lapsed units are soon on offer", |ledger, _| {
            ledger.summary.rounds[1].at = Some(at(12_100));
            ledger.buckets[1].orders.last_mut().unwrap().claimed_at = Some(at(12_500));
        });
    }

    #[test]
    fn a_late_sweep_breaks_it() {
        breaks("lapsed units are soon on offer", |ledger, _| {
            expired(ledger).changed_at = Some(at(13_000));
            ledger.summary.rounds[1].at = Some(at(13_100));
            ledger.buckets[1].orders.last_mut().unwrap().claimed_at = Some(at(13_500));
        });
    }

    #[test]
    fn a_claim_without_a_new_round_shows_that_it_was_on_offer() {
        let (mut ledger, told) = good();
        ledger.summary.rounds.pop();
        ledger.buckets[1].orders.last_mut().unwrap().claimed_at = Some(at(11_000));
        let (check, _, offer) = prompt(&ledger, &told);
        assert!(check.ok, "{check:?}");
        assert_eq!(offer.max_ms, 1_000);
    }

    #[test]
    fn a_line_that_is_admitted_as_a_whole_needs_no_round() {
        let (mut ledger, mut told) = good();
        ledger.summary.rounds.pop();
        told.entrants = ledger.summary.rounds[0].admitted;
        ledger.buckets[1].orders.last_mut().unwrap().claimed_at = Some(at(60_000));
        let (check, _, offer) = prompt(&ledger, &told);
        assert!(check.ok, "{check:?}");
        assert_eq!(offer.max_ms, 400);
    }

    #[test]
    fn one_claim_does_not_serve_two_units() {
        let (mut ledger, mut told) = good();
        ledger.summary.rounds.pop();
        told.wanting = 3;
        let mut twin = expired(&mut ledger).clone();
        twin.claim_id = claim(1, 77);
        ledger.buckets[1].orders.insert(0, twin);
        let (check, ..) = prompt(&ledger, &told);
        assert_eq!((check.ok, check.offences), (false, 1), "{check:?}");
    }

    #[test]
    fn an_unpaid_intent_counts_from_its_own_end() {
        let (mut ledger, told) = good();
        let order = expired(&mut ledger);
        order.intent = Some("pi_1".parse().unwrap());
        assert_eq!(prompt(&ledger, &told).1.count, 0);
        expired(&mut ledger).pay_until = Some(at(10_300));
        assert_eq!(prompt(&ledger, &told).1.max_ms, 100);
    }

    #[test]
    fn free_units_with_people_in_line_are_stranded() {
        breaks("no unit is stranded", |_, told| told.wanting = 1);
    }

    #[test]
    fn a_hold_that_never_ends_is_stranded() {
        breaks("no unit is stranded", |ledger, _| {
            let mut held = ledger.buckets[0].orders[0].clone();
            held.claim_id = claim(0, 1);
            held.order_id = held.claim_id.order();
            held.shopper = "somebody-else".into();
            held.status = OrderStatus::PendingPayment;
            ledger.buckets[0].orders.push(held);
            let bucket = &mut ledger.summary.buckets[0];
            (bucket.held, bucket.free, bucket.allotted) = (1, 0, 2);
            (ledger.summary.held, ledger.summary.free) = (1, 0);
        });
    }

    #[test]
    fn a_claim_without_an_order_is_stranded() {
        breaks("no unit is stranded", |ledger, _| {
            let bucket = &mut ledger.summary.buckets[0];
            (bucket.in_flight, bucket.free) = (1, 0);
            ledger.summary.free = 0;
        });
    }
}
