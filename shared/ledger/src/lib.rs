//! The ledger: one DynamoDB table that has the last word.
//!
//! Whatever a gate says, a unit is only sold when a conditional write here
//! says so. Every transition is one such write, and only those that
//! [`domain::order::OrderStatus::may_become`] knows exist.
//!
//! | module | rows |
//! |---|---|
//! | [`key`] | names of all rows |
//! | `table` | reads, conditional writes, transactions and how they fail |
//! | [`sales`] | sales, their secrets, gates and rounds |
//! | [`resize`] | the units of a live sale, while they change |
//! | `moves` | units that go from one bucket to another |
//! | [`orders`] | buckets, orders, what a customer holds |
//! | `lives` | which life of a bucket its row and its gate are in |
//! | [`without_gates`] | claims that are taken while the gates are away |
//! | [`payments`] | intents, webhook events, refunds |
//! | [`passes`] | passes and shared identities |
//! | [`DrawSecrets`] | secrets of draws, once they may be read |
//! | [`SaleCache`] | sales and gates as they were at most a second ago |

mod cache;
mod error;
pub mod key;
mod lives;
mod moves;
pub mod orders;
pub mod passes;
pub mod payments;
pub mod resize;
pub mod sales;
mod secrets;
mod table;
pub mod without_gates;

pub use cache::SaleCache;
pub use error::Error;
pub use secrets::DrawSecrets;
pub use table::{Description, Item, Reason, Table, Transaction};

use aws_sdk_dynamodb::Client;
use runtime::Environment;

/// The ledger of all sales.
#[derive(Debug, Clone)]
pub struct Ledger {
    table: Table,
}

impl Ledger {
    /// Connects to the table that `TABLE_NAME` names.
    ///
    /// # Errors
    /// The variable is not set.
    pub fn connect(environment: &Environment) -> anyhow::Result<Self> {
        let settings = &environment.settings;
        let mut config = aws_sdk_dynamodb::config::Builder::from(&environment.aws);
        if let Some(url) = settings.get("AWS_ENDPOINT_URL_DYNAMODB") {
            config = config.endpoint_url(url);
        }
        let table = Table::new(
            Client::from_conf(config.build()),
            settings.require("TABLE_NAME")?,
        );
        Ok(Self { table })
    }

    /// The table itself, for rows that another crate owns.
    pub fn table(&self) -> &Table {
        &self.table
    }
}
