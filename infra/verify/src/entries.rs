//! Entries that someone has collected: each ticket again, and if they are all,
//! the counts.

use std::collections::BTreeSet;

use anyhow::Context;
use domain::PassId;
use domain::draw::{Drawn, Ticket};

use crate::{Check, Draw, read_pass};

/// So many standard errors are chance no more: once in two million.
const ERRORS: f64 = 5.0;

/// Of the HyperLogLog that counts entries, as a fraction.
const COUNTER_ERROR: f64 = 0.0081;

/// A pass that was tapped, and the ticket that its shopper was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Which.
    pub pass: PassId,
    /// Only if it is known.
    pub ticket: Option<Ticket>,
}

/// Reads a line for each: the pass id, and behind a space or comma the ticket if
/// it is known. Empty lines and those that begin with `#` are none.
///
/// # Errors
/// A line that is neither.
pub fn read_entries(text: &str) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let Some(pass) = words.next().filter(|pass| !pass.starts_with('#')) else {
            continue;
        };
        let pass = read_pass(pass).with_context(|| format!("line {number} has no pass id"))?;
        let ticket = words.next().map(str::parse::<f64>).transpose();
        let ticket = ticket.with_context(|| format!("line {number} has no ticket"))?;
        entries.push(Entry {
            pass,
            ticket: ticket.map(Ticket),
        });
    }
    Ok(entries)
}

/// Every ticket of the window is the one that secret and pass give.
pub(crate) fn tickets(draw: &Draw, secret: &[u8], entries: &[Entry]) -> Vec<Check> {
    let mut wrong = Vec::new();
    let mut late = 0;
    for Entry { pass, ticket } in entries {
        let drawn = Drawn::of(secret, pass).ticket;
        match ticket {
            // Behind the draw: a place in the order of arrival.
            Some(ticket) if ticket.0 >= 1.0 => late += 1,
            Some(ticket) if *ticket != drawn => {
                wrong.push(format!(
                    "{pass}: the ticket is {}, not {}",
                    drawn.0, ticket.0
                ));
            }
            _ => {}
        }
    }
    let admitted = entries
        .iter()
        .filter(|entry| entry.is_drawn())
        .filter(|entry| {
            Drawn::of(secret, &entry.pass)
                .ticket
                .is_admitted(draw.threshold)
        })
        .count();
    let what = format!(
        "{} tickets are those of their passes; {admitted} of them were admitted ({late} came behind the draw)",
        entries.len() - late
    );
    vec![Check::of(what, wrong), once(entries)]
}

impl Entry {
    fn is_drawn(&self) -> bool {
        self.ticket.is_none_or(|ticket| ticket.0 < 1.0)
    }
}

fn once(entries: &[Entry]) -> Check {
    let mut seen = BTreeSet::new();
    let twice = entries
        .iter()
        .filter(|entry| !seen.insert(entry.pass.as_str()))
        .map(|entry| format!("{} is there twice", entry.pass))
        .collect();
    Check::of("no pass is there twice", twice)
}

/// The published count fits those who tapped, and the threshold admitted as many
/// as it says.
pub(crate) fn counts(draw: &Draw, secret: &[u8], entries: &[Entry]) -> Vec<Check> {
    let drawn: Vec<Drawn> = entries
        .iter()
        .filter(|entry| entry.is_drawn())
        .map(|entry| Drawn::of(secret, &entry.pass))
        .collect();
    let sample = draw.sample.max(1);
    let counted = drawn.iter().filter(|one| one.is_counted(sample)).count() as f64;
    let estimate = counted * f64::from(sample);
    let published = draw.entries as f64;
    // Small counts are exact but for two entries that share a register.
    let off = ERRORS * COUNTER_ERROR * estimate + f64::from(sample);
    let wrong = if (estimate - published).abs() <= off {
        vec![]
    } else {
        vec![format!(
            "{estimate} were counted, and {published} are published"
        )]
    };
    let count = Check::of(
        format!("the count of {published} fits {} entries", drawn.len()),
        wrong,
    );
    let below = drawn
        .iter()
        .filter(|one| one.ticket.is_admitted(draw.threshold))
        .count() as f64;
    let share = draw.threshold.clamp(0.0, 1.0);
    let all = drawn.len() as f64;
    let chance = ERRORS * (all * share * (1.0 - share)).sqrt() + 1.0;
    let wrong = if (below - all * share).abs() <= chance {
        vec![]
    } else {
        vec![format!(
            "{below} tickets are below the threshold, and {:.0} of {all} should be",
            all * share
        )]
    };
    vec![
        count,
        Check::of(format!("{below} tickets are below the threshold"), wrong),
    ]
}
