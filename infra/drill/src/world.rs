//! What all shoppers of a drill share.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::SaleId;
use domain::sale::SaleState;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::audit::Told;
use crate::client::Client;
use crate::config::Config;
use crate::edge::{Edge, Status};
use crate::record::{ClaimCall, lock};

/// A drill that is under way.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) sale: SaleId,
    pub(crate) timing: Timing,
    pub(crate) client: Client,
    pub(crate) edge: Edge,
    pub(crate) tally: Tally,
    /// One per shopper, until the crowd is sent.
    pub(crate) sessions: Mutex<Vec<String>>,
    /// What shoppers were told; held against the ledger at the end.
    pub(crate) told: Mutex<Told>,
    /// Every claim that was sent.
    pub(crate) claim_calls: Mutex<Vec<ClaimCall>>,
    /// What the reader should know beside the figures.
    pub(crate) notes: Mutex<Vec<String>>,
    stopped: AtomicBool,
    /// Until when a payment without webhook may take to be found, at most.
    intents_until: Mutex<Option<Timestamp>>,
}

/// When what happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// As the sale was created.
    pub(crate) opens_at: Timestamp,
    /// The same on the clock that shoppers sleep by.
    pub(crate) opens: Instant,
    /// Length of the draw's window; zero in a race.
    pub(crate) window: Duration,
    /// How long before the opening the first pass is asked for.
    pub(crate) passes: Duration,
}

impl Timing {
    /// When the draw closes, or a race opens.
    pub(crate) fn draw_closes(&self) -> Instant {
        self.opens + self.window
    }
}

/// How one shopper's sale went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// Has the unit.
    Paid,
    /// Confirmed at the provider, and the order was not PAID while watched:
    /// the webhook was kept back, or came too late.
    PaymentUnseen,
    /// Left a hold to lapse.
    NeverPaid,
    /// Gave the hold back.
    GaveBack,
    /// The hold lapsed before the payment was through.
    Lapsed,
    /// Stood in line until the sale was sold out.
    SoldOut,
    /// Stood in line until the sale ended or the drill's time was up.
    StillWanting,
    /// Had no place in line when the sale was over.
    NeverInLine,
    /// Was refused for good.
    Refused,
}

impl Ending {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::PaymentUnseen => "confirmed, not seen as paid",
            Self::NeverPaid => "won and never paid",
            Self::GaveBack => "won and gave back",
            Self::Lapsed => "won and was too late to pay",
            Self::SoldOut => "in line until sold out",
            Self::StillWanting => "in line until the end",
            Self::NeverInLine => "never in line",
            Self::Refused => "refused",
        }
    }

    /// Whether this shopper would have taken one more unit.
    pub(crate) fn wants(self) -> bool {
        matches!(self, Self::SoldOut | Self::StillWanting)
    }
}

/// Counters that the display shows.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passes: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) yes: AtomicU64,
    pub(crate) paid: AtomicU64,
    /// Shoppers who want a unit and have a place in line, now.
    pub(crate) in_line: AtomicU64,
    /// Deliveries of webhooks that are not done.
    pub(crate) deliveries: AtomicU64,
    endings: Mutex<BTreeMap<Ending, u64>>,
}

impl Tally {
    pub(crate) fn ended(&self, ending: Ending) {
        *lock(&self.endings).entry(ending).or_default() += 1;
    }

    pub(crate) fn endings(&self) -> BTreeMap<Ending, u64> {
        lock(&self.endings).clone()
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How many.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl World {
    pub(crate) fn new(config: Config, sale: SaleId, timing: Timing, client: Client) -> Self {
        let told = Told {
            limit: crate::merchant::LIMIT_PER_CUSTOMER,
            units: config.crowd.units,
            price: config.crowd.price(),
            ..Told::default()
        };
        Self {
            edge: Edge::new(&sale),
            config,
            sale,
            timing,
            client,
            tally: Tally::default(),
            sessions: Mutex::new(Vec::new()),
            told: Mutex::new(told),
            claim_calls: Mutex::new(Vec::new()),
            notes: Mutex::new(Vec::new()),
            stopped: AtomicBool::new(false),
            intents_until: Mutex::new(None),
        }
    }

    pub(crate) fn note(&self, note: impl Into<String>) {
        lock(&self.notes).push(note.into());
    }

    /// Sends everyone who waits home.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.edge.close();
    }

    /// How waiting ends, if it does.
    pub(crate) fn over(&self, status: Status) -> Option<Ending> {
        match status.state {
            SaleState::SoldOut => Some(Ending::SoldOut),
            SaleState::Ended => Some(Ending::StillWanting),
            _ if self.stopped.load(Ordering::Relaxed) => Some(Ending::StillWanting),
            _ => None,
        }
    }

    /// A payment was confirmed whose webhook is kept back; the provider gives
    /// the intent up then.
    pub(crate) fn intent_open_until(&self, until: Option<Timestamp>) {
        let mut latest = lock(&self.intents_until);
        *latest = (*latest).max(until);
    }

    pub(crate) fn intents_until(&self) -> Option<Timestamp> {
        *lock(&self.intents_until)
    }
}
