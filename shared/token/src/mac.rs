//! Secrets as settings hold them, and keys of HMAC-SHA256.

use anyhow::ensure;
use aws_lc_rs::hmac::{self, HMAC_SHA256, Key, Tag};
use runtime::Settings;
use secrecy::{ExposeSecret, SecretString};

/// The shortest secret: as many bytes as the digest has (RFC 2104, section 3).
const SECRET_BYTES_MIN: usize = 32;

/// Reads secrets that are separated by commas, as they are while one is
/// rotated; the bytes of each are those of its text.
pub(crate) fn list(settings: &Settings, name: &str) -> anyhow::Result<Vec<SecretString>> {
    let list = settings.secret(name)?;
    let secrets: Vec<&str> = list.expose_secret().split(',').map(str::trim).collect();
    ensure!(
        secrets.iter().all(|secret| is_long(secret)),
        "the variable {name} holds a secret that is shorter than {SECRET_BYTES_MIN} bytes"
    );
    Ok(secrets.into_iter().map(SecretString::from).collect())
}

fn is_long(secret: &str) -> bool {
    secret.len() >= SECRET_BYTES_MIN
}

/// A key that makes codes. `Debug` names the algorithm only.
#[derive(Debug, Clone)]
pub(crate) struct MacKey(Key);

impl MacKey {
    pub(crate) fn load(settings: &Settings, name: &str) -> anyhow::Result<Self> {
        let key = settings.secret(name)?;
        ensure!(
            is_long(key.expose_secret()),
            "the variable {name} is shorter than {SECRET_BYTES_MIN} bytes"
        );
        Ok(Self::of_secret(&key))
    }

    /// Of a secret that is long enough.
    pub(crate) fn of_secret(secret: &SecretString) -> Self {
        Self(Key::new(HMAC_SHA256, secret.expose_secret().as_bytes()))
    }

    pub(crate) fn of(&self, message: &[u8]) -> Tag {
        hmac::sign(&self.0, message)
    }
}
