//! How every token is made and checked.
//!
//! The algorithm and the type are the caller's, never the token's. Dates are
//! the caller's to compare, since "now" comes from `runtime::Clock`.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Broken, Invalid};

/// The longest token that is looked at; ours are a quarter of it.
pub(crate) const BYTES_MAX: usize = 4_096;

/// Who issues passes and entries.
pub(crate) const ISSUER: &str = "flash-sale";

/// A token signed with ES256.
pub(crate) fn sign(
    typ: &str,
    kid: &str,
    claims: &impl Serialize,
    key: &EncodingKey,
) -> Result<String, Broken> {
    let mut header = Header::new(Algorithm::ES256);
    header.typ = Some(typ.to_owned());
    header.kid = Some(kid.to_owned());
    jsonwebtoken::encode(&header, claims, key).map_err(|_| Broken("the token can't be signed"))
}

/// The key id that a token names, if it is one that a key could have.
pub(crate) fn kid(token: &str) -> Result<String, Invalid> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| Invalid)?;
    header.kid.filter(|kid| is_kid(kid)).ok_or(Invalid)
}

/// Characters that are safe wherever a key id may turn up.
pub(crate) fn is_kid(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Checks signature, algorithm and type, and reads the claims. A claim that
/// `C` names is required unless it is an `Option`; an `aud` that is a text
/// there is not read from a list.
pub(crate) fn open<C: DeserializeOwned>(
    token: &str,
    typ: &str,
    algorithm: Algorithm,
    key: &DecodingKey,
) -> Result<C, Invalid> {
    if token.len() > BYTES_MAX {
        return Err(Invalid);
    }
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    // By the machine's clock and with leeway: the caller compares instead.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    // A list of audiences would do here: the caller compares instead.
    validation.validate_aud = false;
    let read = jsonwebtoken::decode::<C>(token, key, &validation).map_err(|_| Invalid)?;
    if read.header.typ.as_deref() == Some(typ) {
        Ok(read.claims)
    } else {
        Err(Invalid)
    }
}
