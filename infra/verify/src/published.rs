//! What is published of a draw: the members that matter here, of objects that
//! have more.

use domain::admission::Admission;
use serde::Deserialize;

/// `GET /v1/sales/{sale}` once the sale is over.
#[derive(Debug, Clone, Deserialize)]
pub struct Published {
    /// The sale's name.
    pub sale_id: String,
    /// On sale.
    pub units: u32,
    /// SHA-256 of the secret, since before the first pass.
    pub commitment: String,
    /// How the draw went.
    pub draw: Draw,
}

/// A draw that is over.
#[derive(Debug, Clone, Deserialize)]
pub struct Draw {
    /// In hex.
    pub secret: String,
    /// Of how many entries one was counted.
    pub sample: u32,
    /// Of the draw's window, as counted.
    pub entries: u64,
    /// What tickets are a fraction of.
    pub scale: u64,
    /// Tickets below it were admitted in the end.
    pub threshold: f64,
    /// How often it was raised.
    pub round: u32,
    /// Places in line that it admits.
    pub admitted: u64,
}

impl Draw {
    /// The part that places and thresholds follow from.
    pub(crate) fn admission(&self) -> Admission {
        Admission {
            entries: self.entries,
            scale: self.scale,
            ..Admission::default()
        }
    }
}

/// `GET /v1/admin/sales/{sale}/report`, which the merchant has.
#[derive(Debug, Clone, Deserialize)]
pub struct Report {
    /// The sale, as the merchant sees it.
    pub sale: Configured,
    /// That exist.
    pub units: u64,
    /// Waiting for payment.
    pub held: u64,
    /// At the provider.
    pub paying: u64,
    /// Sold.
    pub paid: u64,
    /// Each raising of the threshold.
    pub rounds: Vec<Round>,
}

/// What the merchant decided that rounds follow from.
#[derive(Debug, Clone, Deserialize)]
pub struct Configured {
    /// Its name.
    pub sale_id: String,
    /// Admitted beyond the units, in a hundred.
    pub no_show_percent: u64,
    /// As the public object says it.
    pub commitment: String,
}

/// One raising of the threshold.
#[derive(Debug, Clone, Deserialize)]
pub struct Round {
    /// Its number, from 1.
    pub round: u32,
    /// Tickets below it may claim.
    pub threshold: f64,
    /// Places in line that it admits.
    pub admitted: u64,
    /// Units that it offers.
    pub offered: u64,
}
