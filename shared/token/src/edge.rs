//! What the function in front of the API can check: it has no ES256, so passes
//! carry a code of HMAC-SHA256, and for a tap it gives a receipt of the same
//! kind. Neither gives anyone a unit: the origin does not look at codes, and a
//! receipt only says that a pass was tapped in the draw's window.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{PassId, SaleId, ShopperId};
use runtime::Settings;
use secrecy::{ExposeSecret, SecretString};

use crate::Invalid;
use crate::mac::{self, MacKey};

/// Length of a code: 128 bits.
const CODE_BYTES: usize = 16;

/// What a receipt begins with in `Sale-Entry`; no JWS has it.
const RECEIPT: &str = "edge.";

/// The keys of `EDGE_KEY`, separated by commas while one is changed for
/// another: the first makes codes, all are checked with. `Debug` shows none.
#[derive(Debug, Clone)]
pub struct EdgeKeys {
    texts: Vec<SecretString>,
    keys: Vec<MacKey>,
}

impl EdgeKeys {
    /// Reads `EDGE_KEY`.
    ///
    /// # Errors
    /// It is missing, or one of them is short.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        let texts = mac::list(settings, "EDGE_KEY")?;
        let keys = texts.iter().map(MacKey::of_secret).collect();
        Ok(Self { texts, keys })
    }

    /// The keys as the edge is told of them, the one that signs first.
    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(ExposeSecret::expose_secret).collect()
    }

    /// The code of a pass: over sale, pass id, shopper, `nbf` and `exp`, a line
    /// each. None of them can hold a line feed, so no two passes share one.
    pub(crate) fn code(
        &self,
        sale: &SaleId,
        pass: &PassId,
        shopper: &ShopperId,
        nbf: i64,
        exp: i64,
    ) -> String {
        let message = format!("{sale}\n{pass}\n{shopper}\n{nbf}\n{exp}");
        self.keys
            .first()
            .map(|key| code(key, &message))
            .unwrap_or_default()
    }

    /// The receipt of a tap in the draw's window, as the edge gives it.
    pub fn receipt(&self, sale: &SaleId, pass: &PassId, shopper: &ShopperId) -> String {
        let message = tapped(sale, pass, shopper);
        let code = self.keys.first().map(|key| code(key, &message));
        format!("{RECEIPT}{}", code.unwrap_or_default())
    }

    /// Whether a `Sale-Entry` is a receipt at all; if so, it must be of this
    /// pass, which was verified.
    pub(crate) fn check_receipt(
        &self,
        sent: &str,
        sale: &SaleId,
        pass: &PassId,
        shopper: &ShopperId,
    ) -> Option<Result<(), Invalid>> {
        let sent = sent.strip_prefix(RECEIPT)?;
        let message = tapped(sale, pass, shopper);
        let fits = self.keys.iter().any(|key| {
            verify_slices_are_equal(code(key, &message).as_bytes(), sent.as_bytes()).is_ok()
        });
        Some(fits.then_some(()).ok_or(Invalid))
    }
}

fn tapped(sale: &SaleId, pass: &PassId, shopper: &ShopperId) -> String {
    format!("entry\n{sale}\n{pass}\n{shopper}")
}

fn code(key: &MacKey, message: &str) -> String {
    let tag = key.of(message.as_bytes());
    URL_SAFE_NO_PAD.encode(&tag.as_ref()[..CODE_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> anyhow::Result<EdgeKeys> {
        let settings = [("EDGE_KEY".to_owned(), text.to_owned())];
        EdgeKeys::load(&settings.into_iter().collect())
    }

    /// The same numbers are in the tests of the edge function.
    #[test]
    fn a_code_has_this_form() {
        let code = keys("edge-key-for-tests-0123456789abcdef").unwrap().code(
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
        let long = "edge-key-for-tests-0123456789abcdef";
        for (key, problem) in [
            ("", "is not set"),
            ("short", "shorter than 32 bytes"),
            (&format!("{long},short"), "shorter than 32 bytes"),
        ] {
            let error = keys(key).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_receipt_is_of_one_pass_and_of_our_keys() {
        let (one, next) = (
            "edge-key-for-tests-0123456789abcdef",
            "the-next-edge-key-0123456789abcdef",
        );
        let sale: SaleId = "phone".parse().unwrap();
        let pass: PassId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let shopper: ShopperId = "u_42".parse().unwrap();
        let receipt = keys(one).unwrap().receipt(&sale, &pass, &shopper);
        let check = |keys: EdgeKeys, sent: &str, pass: &PassId| {
            keys.check_receipt(sent, &sale, pass, &shopper)
        };
        let rotated = keys(&format!("{next},{one}")).unwrap();
        assert_eq!(check(keys(one).unwrap(), &receipt, &pass), Some(Ok(())));
        assert_eq!(check(rotated, &receipt, &pass), Some(Ok(())));
        assert_eq!(
            check(keys(next).unwrap(), &receipt, &pass),
            Some(Err(Invalid))
        );
        let other = "ffffffffffffffffffffffffffffffff".parse().unwrap();
        assert_eq!(
            check(keys(one).unwrap(), &receipt, &other),
            Some(Err(Invalid))
        );
        assert_eq!(
            check(keys(one).unwrap(), "edge.", &pass),
            Some(Err(Invalid))
        );
        // A token of the origin, looked at elsewhere.
        assert_eq!(check(keys(one).unwrap(), "a.b.c", &pass), None);
    }
}
