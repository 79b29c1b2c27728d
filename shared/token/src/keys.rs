//! `PASS_KEYS`: the ES256 keys of passes and entries.
//!
//! A JSON list of `{"kid", "private", "public"}`, P-256, PKCS#8 and SPKI in
//! PEM. All verify; the first with a private key signs. To rotate: add the new
//! key behind the old one, put it in front once every function knows it, and
//! take the old one out when the last token that it signed has expired.

use anyhow::{Context, anyhow, ensure};
use jsonwebtoken::crypto::aws_lc;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use runtime::Settings;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Invalid, jws};

const SETTING: &str = "PASS_KEYS";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    kid: String,
    private: Option<String>,
    public: String,
}

fn pairs(settings: &Settings) -> anyhow::Result<Vec<Pair>> {
    // Not left to the crate's features, which another crate could widen.
    // Already installed is just as well.
    let _ = aws_lc::DEFAULT_PROVIDER.install_default();
    let text = settings.require(SETTING)?;
    // The reader's own words could quote a key.
    let pairs: Vec<Pair> = serde_json::from_str(text).map_err(|error| {
        anyhow!(
            "the variable {SETTING} is not a list of {{\"kid\", \"private\", \"public\"}} \
             (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    ensure!(!pairs.is_empty(), "the variable {SETTING} holds no key");
    for (index, pair) in pairs.iter().enumerate() {
        ensure!(
            jws::is_kid(&pair.kid),
            "key {index} of {SETTING} has a kid that is not 1 to 64 characters of A-Z, a-z, 0-9, _ and -"
        );
        ensure!(
            pairs[..index].iter().all(|other| other.kid != pair.kid),
            "two keys of {SETTING} have the same kid"
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

impl Key {
    fn read(pair: &Pair) -> anyhow::Result<Self> {
        let public = DecodingKey::from_ec_pem(pair.public.as_bytes())
            .with_context(|| format!("the public key {} can't be read", pair.kid))?;
        let mut jwk = Jwk::from_decoding_key(&public, Some(Algorithm::ES256))?;
        jwk.common.key_id = Some(pair.kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        // An uncompressed point of P-256; the curve is not in what is kept.
        ensure!(
            public.try_get_as_bytes()?.len() == 65,
            "the public key {} is not on P-256",
            pair.kid
        );
        Ok(Self {
            kid: pair.kid.clone(),
            public,
            jwk,
        })
    }
}

/// What verifies passes and entries.
#[derive(Clone)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Reads `PASS_KEYS`.
    ///
    /// # Errors
    /// It is missing, or not a list of P-256 keys with different names.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        let keys = pairs(settings)?
            .iter()
            .map(Key::read)
            .collect::<Result<_, _>>()?;
        Ok(Self(keys))
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
    /// Reads the first private key of `PASS_KEYS`.
    ///
    /// # Errors
    /// There is none, or it does not belong to its public key: found at the
    /// start, not by the first shopper whose pass nobody accepts.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        let pairs = pairs(settings)?;
        let (pair, pem) = pairs
            .iter()
            .find_map(|pair| Some((pair, pair.private.as_deref()?)))
            .ok_or_else(|| anyhow!("no key of {SETTING} has a private part"))?;
        let private = EncodingKey::from_ec_pem(pem.as_bytes())
            .with_context(|| format!("the private key {} can't be read", pair.kid))?;
        let signer = Self {
            kid: pair.kid.clone(),
            private,
        };
        let probe = signer
            .sign("probe", &())
            .with_context(|| format!("the private key {} does not sign", pair.kid))?;
        let (message, signature) = probe.rsplit_once('.').unwrap_or_default();
        let public = &Key::read(pair)?.public;
        ensure!(
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), public, Algorithm::ES256)?,
            "the private and the public key {} do not belong together",
            pair.kid
        );
        Ok(signer)
    }

    /// Signs a token of type `typ`.
    pub(crate) fn sign(
        &self,
        typ: &str,
        claims: &impl serde::Serialize,
    ) -> Result<String, crate::Broken> {
        jws::sign(typ, &self.kid, claims, &self.private)
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.kid).finish()
    }
}
