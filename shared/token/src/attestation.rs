//! The attestation: what the store has verified about a shopper, signed with
//! a key that it shares with us (HS256, `ATTESTATION_KEY`).
//!
//! The variable may hold several keys, separated by commas, and one that
//! verifies is enough: to rotate, add the new key, let the store sign with it
//! once every function has started anew, then drop the old one.

use domain::identity::IdentityKind;
use domain::{SaleId, ShopperId};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey};
use runtime::Settings;
use secrecy::ExposeSecret;
use serde::Deserialize;

use crate::{Invalid, jws, mac, time};

const TYP: &str = "attestation+jwt";

/// The keys that the store may sign with.
#[derive(Debug, Clone)]
pub struct AttestationKey(Vec<DecodingKey>);

impl AttestationKey {
    /// Reads `ATTESTATION_KEY`.
    ///
    /// # Errors
    /// It is missing, or a key of it is short.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        let keys = mac::list(settings, "ATTESTATION_KEY")?;
        let keys = keys
            .iter()
            .map(|key| DecodingKey::from_secret(key.expose_secret().as_bytes()));
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }
}

#[derive(Deserialize)]
struct Claims {
    aud: SaleId,
    sub: ShopperId,
    nbf: Option<i64>,
    exp: i64,
    #[serde(flatten)]
    facts: Facts,
}

#[derive(Deserialize)]
struct Facts {
    phone: Option<String>,
    address: Option<String>,
    instrument: Option<String>,
    email: Option<String>,
}

/// Facts about a shopper: personal data, so `Debug` shows none.
pub struct Attestation(Facts);

impl Attestation {
    /// Checks an attestation: signed by the store, for this sale and this
    /// session's shopper, and valid now.
    ///
    /// # Errors
    /// It is not, whatever the reason.
    pub fn verify(
        key: &AttestationKey,
        token: &str,
        sale: &SaleId,
        shopper: &ShopperId,
        now: Timestamp,
    ) -> Result<Self, Invalid> {
        let mut keys = key.0.iter();
        let claims: Claims = keys
            .find_map(|key| jws::open(token, TYP, Algorithm::HS256, key).ok())
            .ok_or(Invalid)?;
        let valid = claims.aud == *sale
            && claims.sub == *shopper
            && time::is_within(claims.nbf.unwrap_or(i64::MIN), claims.exp, now);
        if valid {
            Ok(Self(claims.facts))
        } else {
            Err(Invalid)
        }
    }

    /// What the store says of this kind. It does not vouch for devices.
    pub fn fact(&self, kind: IdentityKind) -> Option<&str> {
        match kind {
            IdentityKind::Phone => self.0.phone.as_deref(),
            IdentityKind::Address => self.0.address.as_deref(),
            IdentityKind::Instrument => self.0.instrument.as_deref(),
            IdentityKind::Email => self.0.email.as_deref(),
            IdentityKind::Device => None,
        }
    }
}

impl std::fmt::Debug for Attestation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attestation").finish_non_exhaustive()
    }
}
