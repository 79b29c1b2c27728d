//! Claims that are taken while the gates are away, for a sale whose merchant
//! chose so. The order function makes orders of them like of any other; here is
//! what stands in for a gate until then.
//!
//! A gate that does not answer may still answer others. So before the first
//! claim is taken without it, its life is **closed** in the bucket's row, and a
//! claim at a gate is told yes only after its message was stored *and then* the
//! row was read and found not closed. Whoever takes a claim here has closed the
//! life before the message is sent. So of two messages in a bucket's group, the
//! one behind a yes that was told, and the one in front of it, the former is the
//! claim of here: it takes no unit that somebody was promised. A closed life is
//! never opened again; recovery begins the next one, from the ledger.

use domain::order::millis;
use domain::{BucketId, ClaimId, SaleId, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Error, Ledger, Reason, Transaction, key};

/// A window's row is of no use once it is over; DynamoDB may forget it then.
const WINDOW_LIFE_S: i64 = 3_600;

/// What was taken for a shopper: one claim, whatever key it is asked for by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirming {
    /// Which claim; names the bucket.
    pub claim: ClaimId,
    /// Units.
    pub quantity: u32,
    /// When it must be paid.
    #[serde(with = "millis")]
    pub pay_by: Timestamp,
    /// When it was taken.
    #[serde(with = "millis")]
    pub taken_at: Timestamp,
    /// The life of its bucket that was closed for it.
    pub epoch: u64,
}

/// So many claims in so long a time, of one bucket's shoppers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Claims that it lets through.
    pub claims: u32,
    /// Its number: time divided by its length.
    pub number: i64,
}

/// What became of asking a window to let a claim through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// It is the shopper's, and the claim is noted.
    Taken,
    /// The window has let through as many as it may.
    Busy,
    /// Another claim is noted for the shopper.
    Other,
}

impl Ledger {
    /// What was taken for a shopper without gates.
    ///
    /// # Errors
    /// No answer.
    pub async fn confirming(
        &self,
        sale: &SaleId,
        shopper: &ShopperId,
    ) -> Result<Option<Confirming>, Error> {
        self.table.get(&key::confirming(sale, shopper)).await
    }

    /// Takes a permit of the shopper's home bucket and notes the claim, both or
    /// neither. `instead`: a claim that was noted before and was taken back.
    ///
    /// # Errors
    /// No answer. Doing it again is safe: the claim may be noted.
    pub async fn take_permit(
        &self,
        sale: &SaleId,
        home: BucketId,
        window: Window,
        shopper: &ShopperId,
        confirming: &Confirming,
        instead: Option<&ClaimId>,
    ) -> Result<Permit, Error> {
        let mut writes = Transaction::new();
        let part = writes.put(&key::confirming(sale, shopper), confirming)?;
        match instead {
            None => part.only_new(),
            Some(claim) => part
                .only_if("attribute_not_exists(pk) OR claim = :instead")
                .text(":instead", claim.to_string()),
        };
        let expires_at = confirming.taken_at.as_second() + WINDOW_LIFE_S;
        writes
            .update(
                &key::permits(sale, home, window.number),
                "ADD taken :one SET expires_at = :later",
            )
            .only_if("attribute_not_exists(taken) OR taken < :most")
            .number(":one", 1)
            .number(":later", expires_at)
            .number(":most", window.claims);
        Ok(match self.table.write(&writes).await? {
            Ok(()) => Permit::Taken,
            Err(reasons) if reasons[0] != Reason::None => Permit::Other,
            Err(_) => Permit::Busy,
        })
    }
}
