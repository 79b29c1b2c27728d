//! What a drill found: as a value, as JSON, and as text for a terminal.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use domain::SaleId;
use jiff::Timestamp;
use serde::Serialize;

use crate::audit::{self, Audit, Ledger, Told};
use crate::config::Config;
use crate::record::{ClaimCall, Count, Latency, lock};
use crate::world::{World, read};

/// All that a drill found.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Which sale.
    pub sale: SaleId,
    /// What was asked for.
    pub config: Config,
    /// What the draw's window was, in milliseconds; 0 in a race.
    pub draw_window_ms: u32,
    /// When the sale opened.
    pub opens_at: Timestamp,
    /// From the first session to the audit, in seconds.
    pub took_s: f64,
    /// How it went for shoppers, in words, and for how many.
    pub shoppers: BTreeMap<&'static str, u64>,
    /// Entries, and how many of them came after the draw's window.
    pub entries: u64,
    /// Behind the draw, by role or since the machine was too small.
    pub late_entries: u64,
    /// How often shoppers asked for the status.
    pub polls: u64,
    /// How many of those reached the origin.
    pub origin_status_calls: u64,
    /// By call, in milliseconds.
    pub latencies: Vec<Latency>,
    /// By call, status and error.
    pub counts: Vec<Count>,
    /// What else the reader should know.
    pub notes: Vec<String>,
    /// Promise by promise.
    pub audit: Audit,
    /// What the audit was held against, for those who ask further.
    #[serde(skip)]
    pub ledger: Ledger,
    /// What shoppers were told.
    #[serde(skip)]
    pub told: Told,
    /// Every claim that was sent.
    #[serde(skip)]
    pub claim_calls: Vec<ClaimCall>,
}

/// Audits the ledger and gathers what was recorded.
pub(crate) fn of(world: &World, ledger: Ledger, took: Duration) -> Outcome {
    let endings = world.tally.endings();
    let mut told = lock(&world.told).clone();
    told.entrants = read(&world.tally.entries);
    told.wanting = endings
        .iter()
        .filter(|(ending, _)| ending.wants())
        .map(|(_, count)| count)
        .sum();
    let claim_calls = std::mem::take(&mut *lock(&world.claim_calls));
    told.answered_ms = claim_calls
        .iter()
        .map(|call| i64::try_from(call.took.as_millis()).unwrap_or(i64::MAX))
        .collect();
    let counts = world.client.record.counts();
    Outcome {
        sale: world.sale.clone(),
        config: world.config.clone(),
        draw_window_ms: world.config.crowd.window_ms(),
        opens_at: world.timing.opens_at,
        took_s: took.as_secs_f64(),
        shoppers: endings
            .into_iter()
            .map(|(ending, count)| (ending.words(), count))
            .collect(),
        entries: told.entrants,
        late_entries: read(&world.tally.late),
        polls: world.edge.polls(),
        origin_status_calls: counts
            .iter()
            .filter(|count| count.call == crate::record::Call::Status.name())
            .map(|count| count.count)
            .sum(),
        latencies: world.client.record.latencies(),
        counts,
        notes: lock(&world.notes).clone(),
        audit: audit::audit(&ledger, &told),
        ledger,
        told,
        claim_calls,
    }
}

impl Outcome {
    /// Whether every promise holds.
    pub fn passed(&self) -> bool {
        self.audit.passed()
    }

    fn tables(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        let crowd = &self.config.crowd;
        writeln!(
            text,
            "\nSale {}: {} shoppers for {} units, seed {}, {:.0} s in all",
            self.sale, crowd.shoppers, crowd.units, crowd.seed, self.took_s
        )?;
        if self.draw_window_ms > 0 {
            writeln!(
                text,
                "Draw window {} ms; {} entries, {} of them after it closed",
                self.draw_window_ms, self.entries, self.late_entries
            )?;
        }
        writeln!(
            text,
            "Status polls {}; {} reached the origin (the drill stands in for a CDN and keeps one \
             copy for its max-age)",
            self.polls, self.origin_status_calls
        )?;
        writeln!(text, "\nShoppers")?;
        for (words, count) in &self.shoppers {
            writeln!(text, "  {count:>9}  {words}")?;
        }
        writeln!(
            text,
            "\nLatency, sent to last byte, ms\n  {:<24}{:>9}{:>10}{:>10}{:>10}",
            "call", "count", "p50", "p99", "max"
        )?;
        for row in &self.latencies {
            writeln!(
                text,
                "  {:<24}{:>9}{:>10.1}{:>10.1}{:>10.1}",
                row.call, row.count, row.p50_ms, row.p99_ms, row.max_ms
            )?;
        }
        writeln!(text, "\nAnswers")?;
        for row in &self.counts {
            let status = match row.status {
                0 => "-".to_owned(),
                status => status.to_string(),
            };
            writeln!(
                text,
                "  {:<24}{status:>5}  {:<24}{:>9}",
                row.call, row.error, row.count
            )?;
        }
        for note in &self.notes {
            writeln!(text, "\nNote: {note}")?;
        }
        writeln!(text, "\nAudit of the ledger")?;
        let checks = self.audit.checks.iter().map(|check| (check, "BROKEN"));
        let figures = self.audit.figures.iter().map(|figure| (figure, "missed"));
        for (check, otherwise) in checks.chain(figures) {
            let verdict = if check.ok { "ok    " } else { otherwise };
            writeln!(
                text,
                "  {verdict} {}  {}: {}",
                check.promise, check.name, check.says
            )?;
            for offence in &check.shown {
                writeln!(text, "             - {offence}")?;
            }
            let more = check.offences - check.shown.len();
            if more > 0 {
                writeln!(text, "             … and {more} more")?;
            }
        }
        let broken: Vec<_> = self
            .audit
            .broken()
            .map(|check| format!("{} {}", check.promise, check.name))
            .collect();
        if broken.is_empty() && self.audit.missed().next().is_some() {
            writeln!(
                text,
                "\nEvery promise holds. A figure of a deployed system was missed, here where all share one machine."
            )?;
        } else if broken.is_empty() {
            writeln!(text, "\nEvery promise holds.")?;
        } else {
            writeln!(text, "\nBROKEN: {}", broken.join("; "))?;
        }
        Ok(text)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tables()?)
    }
}
