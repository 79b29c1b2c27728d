//! The pass: a signed right to take part in one sale, for one shopper.

use domain::{PassId, SaleId, ShopperId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::jws::ISSUER;
use crate::{Broken, EdgeKeys, Invalid, Keys, Signer, time};

const TYP: &str = "pass+jwt";

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: SaleId,
    sub: ShopperId,
    device: String,
    nbf: i64,
    exp: i64,
    iat: i64,
    jti: PassId,
    mac: String,
}

/// What a pass is issued for.
#[derive(Debug, Clone)]
pub struct Grant<'a> {
    /// The only sale that it is good for.
    pub sale: &'a SaleId,
    /// The only shopper.
    pub shopper: &'a ShopperId,
    /// The draw's input.
    pub pass_id: &'a PassId,
    /// The device that asked for it.
    pub device: &'a str,
    /// From here on, in whole seconds.
    pub valid_from: Timestamp,
    /// Up to here, in whole seconds.
    pub valid_until: Timestamp,
}

impl Signer {
    /// Issues a pass.
    ///
    /// # Errors
    /// It can't be signed.
    pub fn pass(
        &self,
        edge: &EdgeKeys,
        grant: &Grant<'_>,
        now: Timestamp,
    ) -> Result<String, Broken> {
        let nbf = time::begun(grant.valid_from);
        let exp = time::over(grant.valid_until);
        let claims = Claims {
            iss: ISSUER.to_owned(),
            aud: grant.sale.clone(),
            sub: grant.shopper.clone(),
            device: grant.device.to_owned(),
            nbf,
            exp,
            iat: time::begun(now),
            jti: grant.pass_id.clone(),
            mac: edge.code(grant.sale, grant.pass_id, grant.shopper, nbf, exp),
        };
        self.sign(TYP, &claims)
    }
}

/// What a valid pass says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassClaims {
    /// The draw's input.
    pub pass_id: PassId,
    /// The device that asked for it.
    pub device: String,
}

impl Keys {
    /// Checks the header `Sale-Pass`: signed by us, a pass, for this sale and
    /// this session's shopper, and valid now.
    ///
    /// # Errors
    /// It is not, whatever the reason.
    pub fn pass_of(
        &self,
        header: Option<&str>,
        sale: &SaleId,
        shopper: &ShopperId,
        now: Timestamp,
    ) -> Result<PassClaims, Invalid> {
        let claims: Claims = self.open(header, TYP)?;
        let valid = claims.iss == ISSUER
            && claims.aud == *sale
            && claims.sub == *shopper
            && time::is_within(claims.nbf, claims.exp, now);
        if !valid {
            return Err(Invalid);
        }
        Ok(PassClaims {
            pass_id: claims.jti,
            device: claims.device,
        })
    }
}
