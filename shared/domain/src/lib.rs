//! The rules of a flash sale: no I/O, no clock, no cloud.
//!
//! Everything that decides something is here and takes what it needs as
//! arguments, so that a rule can be read, tested and modelled by itself.
//!
//! | module | rule |
//! |---|---|
//! | [`id`] | typed names, and how a claim's name tells where it lives |
//! | [`money`] | integer minor units with ISO 4217 exponents |
//! | [`input`] | strict reading of JSON, every error names its field |
//! | [`config`] | what a merchant configures, and its limits |
//! | [`offset_time`] | a merchant's times, shown as they were written |
//! | [`sale`] | a sale, its states, and what an operator turns |
//! | [`bucket`] | how units are split and where a shopper's home is |
//! | [`slot`] | which cluster slot a bucket's keys land on |
//! | [`order`] | claim and order states and the transitions that exist |
//! | [`draw`] | tickets, the commitment, positions |
//! | [`admission`] | the threshold: when it rises, and by how much |
//! | [`edge`] | what the function in front of the API knows of a sale |
//! | [`identity`] | when two addresses, phones or mailboxes are the same |

pub mod admission;
pub mod bucket;
pub mod config;
pub mod draw;
pub mod edge;
pub mod id;
pub mod identity;
pub mod input;
pub mod money;
pub mod offset_time;
pub mod order;
pub mod sale;
pub mod slot;

pub use id::{BucketId, ClaimId, IdempotencyKey, IntentId, OrderId, PassId, SaleId, ShopperId};
pub use money::{Currency, Money};
pub use offset_time::OffsetTime;
pub use order::{Order, OrderStatus};
pub use sale::Sale;
