//! Signed webhooks, as Stripe signs them: `t=<unix seconds>,v1=<hex HMAC>`
//! over `"{t}.{body}"` with SHA-256.
//!
//! The bytes that were received are what is verified; nothing is parsed, and
//! nothing is written, before that. Several secrets are current while one is
//! rotated, and several `v1` may be sent: one match is enough.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use runtime::Settings;
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::WebhookError;

/// How far a stamp may be from our clock, both ways: instances disagree about
/// the time, and a sender's clock can be ahead.
pub const TOLERANCE_S: i64 = 300;

/// The secrets that webhooks are signed with; never empty, and neither is any
/// of them.
#[derive(Clone)]
pub struct WebhookSecrets(Vec<SecretString>);

impl WebhookSecrets {
    /// Of `WEBHOOK_SECRETS`, separated by commas; the first one signs.
    ///
    /// # Errors
    /// There is none, or one is empty: anyone can sign with an empty key.
    pub fn from_settings(settings: &Settings) -> anyhow::Result<Self> {
        let list = settings.secret("WEBHOOK_SECRETS")?;
        let secrets: Vec<&str> = list.expose_secret().split(',').map(str::trim).collect();
        anyhow::ensure!(
            secrets.iter().all(|secret| !secret.is_empty()),
            "the variable WEBHOOK_SECRETS holds an empty secret"
        );
        Ok(Self(secrets.into_iter().map(SecretString::from).collect()))
    }

    /// Checks who sent these bytes, and when.
    ///
    /// # Errors
    /// [`WebhookError::InvalidSignature`], whatever is wrong with it.
    pub fn verify(&self, header: &str, body: &[u8], now: Timestamp) -> Result<(), WebhookError> {
        let signed = Signed::parse(header).ok_or(WebhookError::InvalidSignature)?;
        let age_s = i128::from(now.as_second()) - i128::from(signed.at_s);
        if age_s.abs() > i128::from(TOLERANCE_S) {
            return Err(WebhookError::InvalidSignature);
        }
        let mut matches = subtle::Choice::from(0);
        for secret in &self.0 {
            let expected = signature(secret, signed.at_s, body);
            for given in &signed.signatures {
                matches |= expected.as_bytes().ct_eq(given.as_bytes());
            }
        }
        if bool::from(matches) {
            Ok(())
        } else {
            Err(WebhookError::InvalidSignature)
        }
    }

    /// Signs with the first secret, as the sandbox does.
    pub fn sign(&self, body: &[u8], now: Timestamp) -> String {
        let at_s = now.as_second();
        let first = self.0.first().map(|secret| signature(secret, at_s, body));
        format!("t={at_s},v1={}", first.unwrap_or_default())
    }

    /// A MAC of some other text, with the first secret. It can't be taken for
    /// that of a webhook, whose text begins with digits.
    pub(crate) fn mac(&self, purpose: &str, text: &str) -> String {
        let text = format!("{purpose}:{text}");
        let first = self.0.first().map(|secret| mac(secret, &[text.as_bytes()]));
        first.unwrap_or_default()
    }
}

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} webhook secrets", self.0.len())
    }
}

/// A header taken apart.
struct Signed<'a> {
    at_s: i64,
    signatures: Vec<&'a str>,
}

impl<'a> Signed<'a> {
    /// One stamp, at least one signature; other schemes (`v0`) are passed over.
    fn parse(header: &'a str) -> Option<Self> {
        let mut at_s = None;
        let mut signatures = Vec::new();
        for pair in header.split(',') {
            match pair.split_once('=')? {
                ("t", digits) => {
                    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                    let stamp = plain.then(|| digits.parse().ok()).flatten()?;
                    if at_s.replace(stamp).is_some() {
                        return None;
                    }
                }
                ("v1", signature) => signatures.push(signature),
                _ => {}
            }
        }
        Some(Self {
            at_s: at_s?,
            signatures,
        })
    }
}

fn signature(secret: &SecretString, at_s: i64, body: &[u8]) -> String {
    mac(secret, &[format!("{at_s}.").as_bytes(), body])
}

fn mac(secret: &SecretString, parts: &[&[u8]]) -> String {
    #[allow(clippy::expect_used)] // HMAC takes a key of any length
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("any length will do");
    for part in parts {
        mac.update(part);
    }
    domain::id::hex(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = "{\"id\": \"evt_1\",  \"note\":\"\\u20b9 and é\"}".as_bytes();

    fn secrets(list: &str) -> WebhookSecrets {
        let settings = [("WEBHOOK_SECRETS".to_owned(), list.to_owned())];
        WebhookSecrets::from_settings(&settings.into_iter().collect()).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn verifies(header: &str) -> bool {
        secrets("new,old").verify(header, BODY, now()).is_ok()
    }

    fn signed(secret: &str, offset_s: i64) -> String {
        let at = Timestamp::from_second(now().as_second() + offset_s).unwrap();
        secrets(secret).sign(BODY, at)
    }

    /// C10: the window is open on both sides, and closed on both.
    #[test]
    fn a_stamp_may_be_five_minutes_off_either_way() {
        for (offset_s, right) in [
            (0, true),
            (-299, true),
            (-300, true),
            (-301, false),
            (299, true),
            (301, false),
            (3600, false),
            (-3600, false),
        ] {
            assert_eq!(verifies(&signed("new", offset_s)), right, "{offset_s}");
        }
    }

    /// C10: any `v1` of any current secret will do.
    #[test]
    fn secrets_can_be_rotated() {
        assert!(verifies(&signed("old", 0)));
        let gone = signed("gone", 0);
        assert!(!verifies(&gone));
        let (_, old) = signed("old", 0)
            .split_once(",")
            .map(|(t, v)| (t.to_owned(), v.to_owned()))
            .unwrap();
        assert!(verifies(&format!("{gone},{old}")));
        assert!(verifies(&format!("{gone},v0=00,{old}")));
    }

    /// C10, C11: what is not one stamp and a signature proves nothing.
    #[test]
    fn malformed_headers_are_refused() {
        let good = signed("new", 0);
        let (stamp, v1) = good.split_once(',').unwrap();
        for header in [
            "",
            " ",
            "v1=",
            "t=abc",
            stamp,
            v1,
            "t=,v1=",
            &format!("{stamp},v1="),
            &format!("t=abc,{v1}"),
            &format!("t=+1800000000,{v1}"),
            &format!("t=99999999999999999999,{v1}"),
            &format!("t=-9223372036854775808,{v1}"),
            &format!("t=9223372036854775807,{v1}"),
            &format!("{stamp},{stamp},{v1}"),
            &format!("t=1799999999,{stamp},{v1}"),
            &format!("{good},{good}"),
            &format!("{good},"),
            &good.replace("v1", "v0"),
            &good.to_uppercase(),
        ] {
            assert!(!verifies(header), "{header}");
        }
        assert!(verifies(&good));
    }

    /// C11: the HMAC of an empty key is one that anyone can make.
    #[test]
    fn an_empty_secret_is_no_secret() {
        for list in ["", " ", ",", "new,", "new,,old", " ,new"] {
            let settings = [("WEBHOOK_SECRETS".to_owned(), list.to_owned())];
            let read = WebhookSecrets::from_settings(&settings.into_iter().collect());
            assert!(read.is_err(), "{list:?}");
        }
        assert!(WebhookSecrets::from_settings(&Settings::default()).is_err());
        let empty = WebhookSecrets(vec![SecretString::from("")]).sign(BODY, now());
        assert!(!verifies(&empty));
        // The control: a verifier with that key would have taken it.
        let careless = WebhookSecrets(vec![SecretString::from("")]);
        assert!(careless.verify(&empty, BODY, now()).is_ok());
    }

    #[test]
    fn every_byte_and_the_stamp_are_covered() {
        let header = signed("new", 0);
        let respaced = BODY
            .iter()
            .copied()
            .filter(|b| *b != b' ')
            .collect::<Vec<_>>();
        assert!(secrets("new").verify(&header, &respaced, now()).is_err());
        let restamped = header.replace("1800000000", "1800000001");
        assert!(!verifies(&restamped));
    }

    #[test]
    fn the_scheme_is_the_one_that_stripe_documents() {
        // openssl dgst -sha256 -hmac whsec_test over "1800000000.{}"
        let header = secrets("whsec_test").sign(b"{}", now());
        assert_eq!(
            header,
            "t=1800000000,v1=482e6337ac5272392d375c6fdc4d52a7e615dc2facedab0ffe155ddfd6a56e66"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", secrets("new,old")), "2 webhook secrets");
    }
}
