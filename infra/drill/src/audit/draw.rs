//! P6: who was drawn was drawn by nothing but the ticket. What a shopper can
//! see of it: tickets have no pattern, and none was served out of its turn.

use super::{Check, Ledger, Told};

/// Kolmogorov and Smirnov's distance from the even distribution, times the
/// root of the number of tickets: a fair draw exceeds this once in 130,000.
const UNEVEN: f64 = 2.5;

/// The draw took place, its tickets are evenly spread, and every yes had a
/// ticket below the last threshold.
pub(super) fn fair(ledger: &Ledger, told: &Told) -> Check {
    let mut drawn: Vec<f64> = told.tickets.iter().copied().filter(|t| *t < 1.0).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let late = told.tickets.len() - drawn.len();
    let mut offences = Vec::new();
    if drawn.is_empty() && late > 0 {
        offences.push("every entry came after the draw's window: nobody was drawn".to_owned());
    }
    let uneven = distance(&drawn) * (drawn.len() as f64).sqrt();
    if uneven > UNEVEN {
        offences.push(format!("tickets are unevenly spread: {uneven:.2}"));
    }
    let threshold = ledger.summary.rounds.iter().map(|round| round.threshold);
    let threshold = threshold.fold(0.0, f64::max);
    let early = told.served.iter().filter(|ticket| **ticket >= threshold);
    offences.extend(early.map(|ticket| {
        format!("the ticket {ticket} was served and is not below the threshold {threshold}")
    }));
    let says = format!(
        "{} drawn, {late} behind them; spread {uneven:.2} (fair: below {UNEVEN}); {} served, all \
         below {threshold}",
        drawn.len(),
        told.served.len(),
    );
    Check::new("P6", "the draw is fair", says, offences)
}

/// The greatest distance between what part of these sorted tickets is below a
/// value, and the value.
fn distance(sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    (0u32..)
        .zip(sorted)
        .map(|(index, ticket)| {
            let below = f64::from(index) / count;
            (ticket - below).max(below + 1.0 / count - ticket)
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::breaks;
    use super::*;

    const NAME: &str = "the draw is fair";

    #[test]
    fn a_draw_without_anyone_in_it() {
        breaks(NAME, |_, told| {
            for ticket in &mut told.tickets {
                *ticket += 1.0;
            }
        });
    }

    #[test]
    fn tickets_with_a_pattern() {
        // Those who came first got the lower half, say.
        breaks(NAME, |_, told| {
            for ticket in &mut told.tickets {
                *ticket /= 2.0;
            }
        });
    }

    #[test]
    fn a_ticket_out_of_turn() {
        breaks(NAME, |_, told| told.served.push(0.9));
    }

    #[test]
    fn even_tickets_are_near_and_uneven_ones_far() {
        let even: Vec<f64> = (0..1_000).map(|n| (f64::from(n) + 0.5) / 1_000.0).collect();
        assert!(distance(&even) < 0.001);
        assert!(distance(&[0.5; 1_000]) > 0.49);
        assert_eq!(distance(&[]), 0.0);
    }
}
