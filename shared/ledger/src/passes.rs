//! Passes, shared identities, and who wants to be told of a free unit.

use domain::identity::IdentityKind;
use domain::{PassId, SaleId, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::table::from_item;
use crate::{Error, Ledger, Reason, Transaction, key};

/// A shopper's pass: one for a sale, whatever is asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The draw's input.
    pub pass_id: PassId,
    /// The device that asked first.
    pub device: String,
    /// When it was issued.
    #[serde(with = "domain::order::millis")]
    pub issued_at: Timestamp,
    /// From when it was issued for.
    #[serde(with = "domain::order::millis")]
    pub valid_from: Timestamp,
    /// Until when it was issued for.
    #[serde(with = "domain::order::millis")]
    pub valid_until: Timestamp,
    /// When the row, and the hashes written with it, may go: seconds since
    /// 1970, as DynamoDB's TTL reads them.
    pub expires_at: i64,
}

/// An attribute that accounts may share only so often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Of which kind.
    pub kind: IdentityKind,
    /// Its keyed hash.
    pub hash: String,
    /// How many accounts may share it.
    pub limit: u32,
}

/// What became of a request for a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassOutcome {
    /// It is written, and the identities are counted.
    Issued,
    /// The shopper has one already; nothing is counted again.
    Existing(Pass),
    /// Too many accounts share this kind of attribute.
    IdentityLimit(IdentityKind),
}

impl Ledger {
    /// Writes a pass and counts the account at each identity, all or nothing,
    /// so that parallel requests of one shopper are one account and those of
    /// many never exceed a limit. Each kind may be named once.
    ///
    /// DynamoDB removes rows some time after they expired; until it does, one
    /// that has expired refuses nothing. Its count goes on from where it was,
    /// which can only make a later limit stricter.
    ///
    /// # Errors
    /// No answer.
    pub async fn issue_pass(
        &self,
        sale: &SaleId,
        shopper: &ShopperId,
        pass: &Pass,
        identities: &[Identity],
    ) -> Result<PassOutcome, Error> {
        let now = pass.issued_at.as_second();
        let mut writes = Transaction::new();
        writes
            .put(&key::pass(sale, shopper), pass)?
            .only_if("attribute_not_exists(pk) OR expires_at <= :now")
            .number(":now", now);
        for Identity { kind, hash, limit } in identities {
            writes
                .update(
                    &key::identity(sale, *kind, hash),
                    "SET expires_at = :expires ADD accounts :one",
                )
                .only_if("attribute_not_exists(pk) OR accounts < :limit OR expires_at <= :now")
                .number(":expires", pass.expires_at)
                .number(":one", 1)
                .number(":limit", *limit)
                .number(":now", now);
        }
        let Err(reasons) = self.table.write(&writes).await? else {
            return Ok(PassOutcome::Issued);
        };
        // A pass that exists wins over a limit: its account is among those
        // that were counted.
        if let Some(Reason::Condition(row)) = reasons.first() {
            let existing = match row {
                Some(row) => Some(from_item(row.clone())?),
                None => self.pass(sale, shopper).await?,
            };
            return match existing {
                // Our own write, whose answer was lost.
                Some(existing) if existing.pass_id == pass.pass_id => Ok(PassOutcome::Issued),
                Some(existing) => Ok(PassOutcome::Existing(existing)),
                None => Err(Error::Conflict),
            };
        }
        let full = identities
            .iter()
            .zip(&reasons[1..])
            .find(|(_, reason)| matches!(reason, Reason::Condition(_)));
        full.map(|(identity, _)| PassOutcome::IdentityLimit(identity.kind))
            .ok_or_else(|| Error::Broken("refused without a reason".to_owned()))
    }

    /// A shopper's pass.
    ///
    /// # Errors
    /// No answer.
    pub async fn pass(&self, sale: &SaleId, shopper: &ShopperId) -> Result<Option<Pass>, Error> {
        self.table.get(&key::pass(sale, shopper)).await
    }

    /// Notes that a shopper wants to be told of a free unit, until `expires`.
    /// Returns whether that is new.
    ///
    /// # Errors
    /// No answer.
    pub async fn subscribe(
        &self,
        sale: &SaleId,
        shopper: &ShopperId,
        expires: Timestamp,
    ) -> Result<bool, Error> {
        #[derive(Serialize)]
        struct Subscription<'a> {
            shopper: &'a ShopperId,
            expires_at: i64,
        }
        let mut writes = Transaction::new();
        writes
            .put(
                &key::subscription(sale, shopper),
                &Subscription {
                    shopper,
                    expires_at: expires.as_second(),
                },
            )?
            .only_new();
        Ok(self.table.write(&writes).await?.is_ok())
    }
}
