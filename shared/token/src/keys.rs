//! `PASS_KEYS`: what the ES256 keys of passes and entries are made of.
//!
//! A list of secrets, separated by commas, the newest first. Each is a key:
//! all verify, the first signs. Functions read the list when they start, and
//! at any moment some of them have not read a change yet. So a key is rotated
//! in these steps, each after all functions have started anew since the last:
//!
//! 1. `old,new`: everyone verifies the new key, nobody signs with it.
//! 2. `new,old`: it signs. Who still has the first list knows it already.
//! 3. `new`, when every sale is over whose tokens the old key has signed: no
//!    shopper is sent back for another pass.
//!
//! A new secret that comes in front at once is signed with by some while
//! others answer its tokens with 401.
//!
//! A key's private scalar is HKDF-SHA256 (RFC 5869) of the secret, without a
//! salt, with [`INFO`] and a counter of one byte, which starts at 0 and is
//! counted up if P-256 has no such scalar. Its name is the beginning of its
//! thumbprint (RFC 7638): it follows from the key and tells nothing of it.

use anyhow::{anyhow, ensure};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use jsonwebtoken::crypto::aws_lc;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use runtime::Settings;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;

use crate::{Invalid, jws, mac};

const SETTING: &str = "PASS_KEYS";

/// What the secrets are used for, in the derivation.
const INFO: &[u8] = b"flash-sale pass key ES256";

/// Characters of a thumbprint that are a key's name: 96 bits.
const KID_CHARACTERS: usize = 16;

/// A key of which both halves are known.
struct Pair {
    kid: String,
    private: EncodingKey,
    public: DecodingKey,
    jwk: Jwk,
}

impl Pair {
    fn derive(secret: &[u8]) -> anyhow::Result<Self> {
        let scalar = scalar(secret).map_err(|_| anyhow!("a secret of {SETTING} gives no key"))?;
        let document: Pkcs8V1Der<'_> = scalar
            .as_der()
            .map_err(|_| anyhow!("a key of {SETTING} can't be encoded"))?;
        let private = EncodingKey::from_ec_der(document.as_ref());
        let mut jwk = Jwk::from_encoding_key(&private, Algorithm::ES256)?;
        let mut kid = jwk.thumbprint(ThumbprintHash::SHA256)?;
        kid.truncate(KID_CHARACTERS);
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self {
            kid,
            private,
            public: DecodingKey::from_jwk(&jwk)?,
            jwk,
        })
    }
}

fn scalar(secret: &[u8]) -> Result<PrivateKey, Unspecified> {
    let key = Salt::none(HKDF_SHA256).extract(secret);
    for counter in 0..=u8::MAX {
        let mut bytes = [0; 32];
        key.expand(&[INFO, &[counter]], HKDF_SHA256)?
            .fill(&mut bytes)?;
        // All but one in 2^32 are the first.
        if let Ok(scalar) = PrivateKey::from_private_key(&ECDH_P256, &bytes) {
            return Ok(scalar);
        }
    }
    Err(Unspecified)
}

fn pairs(settings: &Settings) -> anyhow::Result<Vec<Pair>> {
    // Not left to the crate's features, which another crate could widen.
    // Already installed is just as well.
    let _ = aws_lc::DEFAULT_PROVIDER.install_default();
    let pairs: Vec<Pair> = mac::list(settings, SETTING)?
        .iter()
        .map(|secret| Pair::derive(secret.expose_secret().as_bytes()))
        .collect::<anyhow::Result<_>>()?;
    for (index, pair) in pairs.iter().enumerate() {
        ensure!(
            pairs[..index].iter().all(|other| other.kid != pair.kid),
            "two secrets of {SETTING} are the same"
        );
    }
    Ok(pairs)
}

#[derive(Clone)]
struct Key {
    kid: String,
    public: DecodingKey,
    jwk: Jwk,
}

/// What verifies passes and entries.
#[derive(Clone)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Derives the keys of `PASS_KEYS`.
    ///
    /// # Errors
    /// It is missing, or one of its secrets is short or there twice.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        let keys = pairs(settings)?.into_iter().map(|pair| Key {
            kid: pair.kid,
            public: pair.public,
            jwk: pair.jwk,
        });
        Ok(Self(keys.collect()))
    }

    /// The public keys, for `/.well-known/jwks.json`.
    pub fn jwks(&self) -> JwkSet {
        JwkSet {
            keys: self.0.iter().map(|key| key.jwk.clone()).collect(),
        }
    }

    /// Checks a token of type `typ` that one of the keys signed. The key's
    /// name is only compared with those that are known.
    pub(crate) fn open<C: DeserializeOwned>(
        &self,
        token: Option<&str>,
        typ: &str,
    ) -> Result<C, Invalid> {
        let token = token
            .filter(|token| token.len() <= jws::BYTES_MAX)
            .ok_or(Invalid)?;
        let kid = jws::kid(token)?;
        let key = self.0.iter().find(|key| key.kid == kid).ok_or(Invalid)?;
        jws::open(token, typ, Algorithm::ES256, &key.public)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|key| &key.kid))
            .finish()
    }
}

/// What signs passes and entries.
#[derive(Clone)]
pub struct Signer {
    kid: String,
    private: EncodingKey,
}

impl Signer {
    /// Derives the first key of `PASS_KEYS`.
    ///
    /// # Errors
    /// As for [`Keys::load`].
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        let first = pairs(settings)?.into_iter().next();
        let first = first.ok_or_else(|| anyhow!("the variable {SETTING} holds no secret"))?;
        Ok(Self {
            kid: first.kid,
            private: first.private,
        })
    }

    /// Signs a token of type `typ`.
    pub(crate) fn sign(
        &self,
        typ: &str,
        claims: &impl serde::Serialize,
    ) -> Result<String, crate::Broken> {
        jws::sign(typ, &self.kid, claims, &self.private)
    }

    /// What signs, for forgeries that start from a good signature.
    #[cfg(test)]
    pub(crate) fn private(&self) -> &EncodingKey {
        &self.private
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.kid).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public_of(secret: &str) -> serde_json::Value {
        let settings = [(SETTING.to_owned(), secret.to_owned())];
        let keys = Keys::load(&settings.into_iter().collect()).unwrap();
        serde_json::to_value(&keys.jwks().keys[0]).unwrap()
    }

    /// Computed by other means: functions of two versions must agree, or one
    /// refuses what the other signs.
    #[test]
    fn a_secret_is_this_key() {
        assert_eq!(
            public_of("pass-key-for-tests-0123456789abcdef"),
            serde_json::json!({
                "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig",
                "kid": "knjZTpQF7LyPKcKg",
                "x": "Ua9NwMw3mJn4hyhBudlrMQVamNBpIcNaBVUToG4cBRg",
                "y": "ztUnZuU6pMIB6aijKPqny4Fffo7iLMAu1guzpiEbEpA",
            })
        );
        assert_eq!(
            public_of("the-next-key-for-tests-0123456789ab")["kid"],
            "L9rWlkaMjNH7nSUv"
        );
    }

    /// What the counter relies on.
    #[test]
    fn numbers_that_are_no_scalar_are_refused() {
        let order = [
            0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2,
            0xfc, 0x63, 0x25, 0x51,
        ];
        let mut below = order;
        below[31] -= 1;
        for (bytes, accepted) in [
            ([0; 32], false),
            (below, true),
            (order, false),
            ([0xff; 32], false),
        ] {
            let key = PrivateKey::from_private_key(&ECDH_P256, &bytes);
            assert_eq!(key.is_ok(), accepted, "{bytes:x?}");
        }
    }
}
