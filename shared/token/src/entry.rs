//! The entry: the ticket of a pass, signed, so that nobody has to remember it.

use domain::draw::Ticket;
use domain::{PassId, SaleId, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::jws::ISSUER;
use crate::{Broken, EdgeKeys, Invalid, Keys, Signer, time};

const TYP: &str = "entry+jwt";

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: SaleId,
    sub: ShopperId,
    pass: PassId,
    ticket: Ticket,
    iat: i64,
    exp: i64,
}

impl Signer {
    /// Issues the entry of a pass, until the sale closes.
    ///
    /// # Errors
    /// It can't be signed.
    pub fn entry(
        &self,
        sale: &SaleId,
        shopper: &ShopperId,
        pass: &PassId,
        ticket: Ticket,
        closes_at: Timestamp,
        now: Timestamp,
    ) -> Result<String, Broken> {
        let claims = Claims {
            iss: ISSUER.to_owned(),
            aud: sale.clone(),
            sub: shopper.clone(),
            pass: pass.clone(),
            ticket,
            iat: time::begun(now),
            exp: time::over(closes_at),
        };
        self.sign(TYP, &claims)
    }
}

/// What a valid entry says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EntryClaims {
    /// The ticket.
    pub ticket: Ticket,
}

/// What a `Sale-Entry` proves of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Proof {
    /// This ticket, by the signature of the origin.
    Ticket(Ticket),
    /// A tap in the draw's window, by a receipt of the edge: the ticket is the
    /// one that the draw gives the pass.
    Tapped,
}

impl Keys {
    /// Checks the header `Sale-Entry`, a token of the origin or a receipt of
    /// the edge, for a pass that was verified.
    ///
    /// # Errors
    /// It is neither, or of something else.
    pub fn proof_of(
        &self,
        edge: &EdgeKeys,
        header: &str,
        sale: &SaleId,
        shopper: &ShopperId,
        pass: &PassId,
        now: Timestamp,
    ) -> Result<Proof, Invalid> {
        match edge.check_receipt(header, sale, pass, shopper) {
            Some(receipt) => receipt.map(|()| Proof::Tapped),
            None => self
                .entry_of(Some(header), sale, shopper, pass, now)
                .map(|entry| Proof::Ticket(entry.ticket)),
        }
    }

    /// Checks the header `Sale-Entry`: signed by us, an entry, for this sale,
    /// this session's shopper and their pass, and valid now.
    ///
    /// # Errors
    /// It is not, whatever the reason.
    pub fn entry_of(
        &self,
        header: Option<&str>,
        sale: &SaleId,
        shopper: &ShopperId,
        pass: &PassId,
        now: Timestamp,
    ) -> Result<EntryClaims, Invalid> {
        let claims: Claims = self.open(header, TYP)?;
        let valid = claims.iss == ISSUER
            && claims.aud == *sale
            && claims.sub == *shopper
            && claims.pass == *pass
            && time::is_within(i64::MIN, claims.exp, now);
        if !valid {
            return Err(Invalid);
        }
        Ok(EntryClaims {
            ticket: claims.ticket,
        })
    }
}
