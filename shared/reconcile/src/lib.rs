//! Gate against ledger and ledger against provider, once, for everyone who compares
//! them.
//!
//! | module | what |
//! |---|---|
//! | [`compare`] | a bucket's gate and its rows side by side, and the rule that corrects a counter |
//! | [`money`] | the provider's captures against orders and refunds |
//! | [`report`] | what a reconciliation of a whole sale came to, as it is kept and shown |

pub mod compare;
pub mod money;
pub mod report;
