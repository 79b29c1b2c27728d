//! A sale, the states it goes through, and what an operator turns.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::admission::Admission;
use crate::config::SaleConfig;
use crate::id::SaleId;

/// From so long before the opening on, a sale is not loaded again. Two clocks may
/// each be five seconds off, one behind and one ahead; a copy of the sale is kept
/// for a second, and the writing of its row may take some.
const CHANGE_MARGIN: SignedDuration = SignedDuration::from_secs(15);

/// Where a sale is. Moved by the controller, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SaleState {
    /// Before `opens_at`.
    Scheduled,
    /// The draw's window is open: entries are taken.
    Drawing,
    /// Claims are taken from those who are admitted.
    Live,
    /// Every unit is held or paid; the waitlist is open.
    AllClaimed,
    /// Every unit is paid.
    SoldOut,
    /// No further claim is taken.
    Ended,
}

/// What an operator may turn without a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Switches {
    /// Claims and entries are refused for now (503), nothing is lost.
    pub paused: bool,
    /// Claims are answered as sold out, whatever is left.
    pub force_sold_out: bool,
    /// No further round is opened; entries are still taken.
    pub waitlist_only: bool,
    /// The merchant ended the sale before `closes_at`.
    pub ended: bool,
}

/// Why claims and entries are refused for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pause {
    /// The merchant paused the sale, and resumes it.
    Merchant,
    /// No gate answers. It goes on by itself.
    Gates,
}

/// A sale as the ledger holds it and everyone reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sale {
    /// Its name.
    pub id: SaleId,
    /// Raised by every write; writers compare it.
    pub version: u64,
    /// What the merchant decided.
    #[serde(flatten)]
    pub config: SaleConfig,
    /// SHA-256 of the draw secret, in hex: fixed before the first pass.
    pub commitment: String,
    /// Buckets are in the ledger and the gates are loaded.
    pub loaded: bool,
    /// The newest loading that began; the epoch of what it loads.
    #[serde(default)]
    pub load: u64,
    /// Where it is.
    pub state: SaleState,
    /// What an operator turned.
    pub switches: Switches,
    /// How far admission has come.
    pub admission: Admission,
    /// Units that were free when the controller last looked.
    pub free: u64,
    /// Since when no gate has answered, in the controller's eyes; `None` while
    /// one does.
    #[serde(default)]
    pub gates_away: Option<Timestamp>,
    /// It ever was so: claims may have been taken without gates.
    #[serde(default)]
    pub gates_were_away: bool,
    /// No hold ends before this: an operator extended the pay window.
    pub pay_by_min: Option<Timestamp>,
    /// When it was found to be over.
    pub ended_at: Option<Timestamp>,
    /// A change of units that has begun and not ended: the version that began
    /// it.
    pub resizing: Option<u64>,
    /// When the newest change of units began.
    pub resized_at: Option<Timestamp>,
}

impl Sale {
    /// A new sale, before its gates are loaded.
    pub fn new(id: SaleId, config: SaleConfig, commitment: String) -> Self {
        Self {
            id,
            version: 1,
            free: u64::from(config.units),
            commitment,
            loaded: false,
            load: 0,
            state: SaleState::Scheduled,
            switches: Switches::default(),
            admission: Admission::before(&config),
            config,
            gates_away: None,
            gates_were_away: false,
            pay_by_min: None,
            ended_at: None,
            resizing: None,
            resized_at: None,
        }
    }

    /// Whether the sale has opened by this clock.
    pub fn has_opened(&self, now: Timestamp) -> bool {
        now >= self.config.opens_at.at
    }

    /// Whether it opens too soon to be taken apart and put together again: a
    /// claim may be let in by a copy of the sale that is not quite new.
    pub fn is_about_to_open(&self, now: Timestamp) -> bool {
        now >= self.config.opens_at.at - CHANGE_MARGIN
    }

    /// Whether no further claim is taken.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.switches.ended || now >= self.config.closes_at.at
    }

    /// Ends it, as of the first time that this was seen.
    pub fn end(&mut self, now: Timestamp) {
        self.state = SaleState::Ended;
        self.ended_at = self.ended_at.or(Some(now));
        self.gates_away = None;
    }

    /// Whether claims and entries are refused for now, and by whom.
    pub fn pause(&self) -> Option<Pause> {
        let takes_none = self.config.ledger_only_rate_per_s == 0;
        if self.switches.paused {
            Some(Pause::Merchant)
        } else if self.gates_away.is_some() && takes_none {
            Some(Pause::Gates)
        } else {
            None
        }
    }

    /// Whether claims are taken for the ledger alone to decide.
    pub fn is_ledger_only(&self) -> bool {
        self.gates_away.is_some() && self.pause().is_none()
    }

    /// When a claim made now must be paid.
    pub fn pay_by(&self, now: Timestamp) -> Timestamp {
        let window = if self.admission.waitlist_open {
            self.config.waitlist_pay_window_s
        } else {
            self.config.pay_window_s
        };
        self.extended(now + SignedDuration::from_secs(i64::from(window)))
    }

    /// A deadline under the operator's extension.
    pub fn extended(&self, pay_by: Timestamp) -> Timestamp {
        self.pay_by_min.map_or(pay_by, |least| pay_by.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::phone;
    use serde_json::json;

    #[test]
    fn a_deadline_is_elapsed_time_across_a_clock_change() {
        let mut members = phone();
        members.insert("opens_at".into(), json!("2026-10-25T01:58:00+01:00"));
        let sale = Sale::new(
            "s".parse().unwrap(),
            SaleConfig::read(members).unwrap(),
            String::new(),
        );
        let now = sale.config.opens_at.at;
        assert_eq!((sale.pay_by(now) - now).as_secs(), 600);
    }
}
