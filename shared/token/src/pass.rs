//! The pass: a signed right to take part in one sale, for one shopper.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{PassId, SaleId, ShopperId};
use jiff::Timestamp;
use runtime::Settings;
use serde::{Deserialize, Serialize};

use crate::jws::ISSUER;
use crate::mac::MacKey;
use crate::{Broken, Invalid, Keys, Signer, time};

const TYP: &str = "pass+jwt";

/// Length of the edge's code: 128 bits.
const MAC_BYTES: usize = 16;

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

/// The key of the code that the edge checks (`EDGE_KEY`). The edge can't
/// verify ES256; the code only lets a request reach the origin, which does
/// not look at it.
#[derive(Debug, Clone)]
pub struct EdgeKey(MacKey);

impl EdgeKey {
    /// Reads `EDGE_KEY`.
    ///
    /// # Errors
    /// It is missing or short.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        MacKey::load(settings, "EDGE_KEY").map(Self)
    }

    /// HMAC-SHA256 over sale, pass id, shopper, `nbf` and `exp`, a line each,
    /// cut to 16 bytes, in base64url. None of them can hold a line feed, so no
    /// two passes share a message.
    fn code(
        &self,
        sale: &SaleId,
        pass: &PassId,
        shopper: &ShopperId,
        nbf: i64,
        exp: i64,
    ) -> String {
        let tag = self
            .0
            .of(format!("{sale}\n{pass}\n{shopper}\n{nbf}\n{exp}").as_bytes());
        URL_SAFE_NO_PAD.encode(&tag.as_ref()[..MAC_BYTES])
    }
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
        edge: &EdgeKey,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The same numbers are in the tests of the edge function.
    #[test]
    fn the_edge_code_has_this_form() {
        let settings: Settings = [(
            "EDGE_KEY".to_owned(),
            "edge-key-for-tests-0123456789abcdef".to_owned(),
        )]
        .into_iter()
        .collect();
        let code = EdgeKey::load(&settings).unwrap().code(
            &"phone".parse().unwrap(),
            &"0123456789abcdef0123456789abcdef".parse().unwrap(),
            &"u_42".parse().unwrap(),
            1_794_378_600,
            1_794_382_200,
        );
        assert_eq!(code, "G6xJrMFY39iUpWJF53Q1tA");
    }

    #[test]
    fn a_key_must_be_there_and_long() {
        for (key, problem) in [("", "is not set"), ("short", "shorter than 32 bytes")] {
            let settings: Settings = [("EDGE_KEY".to_owned(), key.to_owned())]
                .into_iter()
                .collect();
            let error = EdgeKey::load(&settings).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
