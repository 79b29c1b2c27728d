//! Keys of HMAC-SHA256.

use anyhow::ensure;
use aws_lc_rs::hmac::{self, HMAC_SHA256, Key, Tag};
use runtime::Settings;
use secrecy::{ExposeSecret, SecretString};

/// The shortest key: as many bytes as the digest has (RFC 2104, section 3).
const KEY_BYTES_MIN: usize = 32;

/// Reads a key from a setting; its bytes are those of the text.
pub(crate) fn setting(settings: &Settings, name: &str) -> anyhow::Result<SecretString> {
    let key = settings.secret(name)?;
    ensure!(
        key.expose_secret().len() >= KEY_BYTES_MIN,
        "the variable {name} is shorter than {KEY_BYTES_MIN} bytes"
    );
    Ok(key)
}

/// A key that makes codes. `Debug` names the algorithm only.
#[derive(Debug, Clone)]
pub(crate) struct MacKey(Key);

impl MacKey {
    pub(crate) fn load(settings: &Settings, name: &str) -> anyhow::Result<Self> {
        let key = setting(settings, name)?;
        Ok(Self(Key::new(HMAC_SHA256, key.expose_secret().as_bytes())))
    }

    pub(crate) fn of(&self, message: &[u8]) -> Tag {
        hmac::sign(&self.0, message)
    }
}
