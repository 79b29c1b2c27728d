//! Recomputes a draw from what is published of it, for anyone: no access to the
//! system is needed, and nothing of it is believed that can be computed.
//!
//! The secret must be the one that was committed to before the first pass, every
//! threshold the one that its places give, every ticket the one that secret and
//! pass give. What is not published, who tapped, can't be proved by anyone; a list
//! of all who did is checked against the count.

mod entries;
mod pass;
mod published;
mod rounds;

use std::fmt;

use domain::PassId;
use domain::draw::{Drawn, Ticket, commitment, secret_bytes};

pub use entries::{Entry, read_entries};
pub use pass::read_pass;
pub use published::{Draw, Published, Report, Round};

/// One thing that was looked at, and what does not fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What must hold.
    pub what: String,
    /// Each line says what does not; empty if it holds.
    pub wrong: Vec<String>,
}

impl Check {
    pub(crate) fn of(what: impl Into<String>, wrong: Vec<String>) -> Self {
        Self {
            what: what.into(),
            wrong,
        }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// As many lines of what is wrong are shown.
const SHOWN: usize = 5;

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds() { "ok   " } else { "WRONG" };
        write!(f, "{word}  {}", self.what)?;
        for line in self.wrong.iter().take(SHOWN) {
            write!(f, "\n         {line}")?;
        }
        match self.wrong.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n         and {more} more"),
        }
    }
}

/// What else is known beside the sale's public object.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The merchant's report.
    pub report: Option<Report>,
    /// Who tapped, and the ticket that they were told.
    pub entries: Vec<Entry>,
    /// The entries are those of all who tapped in the window.
    pub all: bool,
}

/// Everything that can be checked of a draw that is over.
pub fn check(sale: &Published, evidence: &Evidence) -> Vec<Check> {
    let draw = &sale.draw;
    let mut checks = vec![secret(sale), rounds::threshold(sale)];
    if let Some(report) = &evidence.report {
        checks.extend(rounds::of_report(sale, report));
    }
    if !evidence.entries.is_empty()
        && let Some(secret) = secret_bytes(&draw.secret)
    {
        checks.extend(entries::tickets(draw, &secret, &evidence.entries));
        if evidence.all {
            checks.extend(entries::counts(draw, &secret, &evidence.entries));
        }
    }
    checks
}

fn secret(sale: &Published) -> Check {
    let wrong = match secret_bytes(&sale.draw.secret) {
        None => vec!["it is not 64 hexadecimal digits".to_owned()],
        Some(secret) if commitment(&secret) != sale.commitment => vec![format!(
            "its SHA-256 is {}, and {} was promised",
            commitment(&secret),
            sale.commitment
        )],
        Some(_) => vec![],
    };
    Check::of("the secret is the one that was committed to", wrong)
}

/// What the draw made of one pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Its ticket.
    pub ticket: Ticket,
    /// Place in line, from 1.
    pub place: Option<u64>,
    /// The last threshold admitted it.
    pub admitted: bool,
}

/// Draws the ticket of a pass again; `None` if the secret is none.
pub fn find(draw: &Draw, pass: &PassId) -> Option<Found> {
    let ticket = Drawn::of(&secret_bytes(&draw.secret)?, pass).ticket;
    Some(Found {
        ticket,
        place: draw.admission().position(ticket),
        admitted: ticket.is_admitted(draw.threshold),
    })
}
