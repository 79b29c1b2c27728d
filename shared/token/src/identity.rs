//! Keyed hashes of what accounts share. Without the key nobody can find out
//! by trying whose phone a row is about, and rows of two sales do not match.

use domain::SaleId;
use domain::id::hex;
use domain::identity::IdentityKind;
use runtime::Settings;

use crate::mac::MacKey;

/// The key of the hashes (`IDENTITY_KEY`).
#[derive(Debug, Clone)]
pub struct IdentityKey(MacKey);

impl IdentityKey {
    /// Reads `IDENTITY_KEY`.
    ///
    /// # Errors
    /// It is missing or short.
    pub fn load(settings: &Settings) -> anyhow::Result<Self> {
        MacKey::load(settings, "IDENTITY_KEY").map(Self)
    }

    /// HMAC-SHA256 in hex over sale, kind and the normal form of `text`, each
    /// behind its length in 8 bytes. `None` if nothing is left of the text: all
    /// such texts would be one person.
    pub fn hash(&self, sale: &SaleId, kind: IdentityKind, text: &str) -> Option<String> {
        let normal = kind.normalise(text);
        if normal.is_empty() {
            return None;
        }
        let mut message = Vec::new();
        for part in [sale.as_str(), kind.name(), &normal] {
            message.extend((part.len() as u64).to_be_bytes());
            message.extend(part.as_bytes());
        }
        Some(hex(self.0.of(&message).as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> IdentityKey {
        let settings: Settings = [("IDENTITY_KEY".to_owned(), text.to_owned())]
            .into_iter()
            .collect();
        IdentityKey::load(&settings).unwrap()
    }

    const KEY: &str = "identity-key-for-tests-0123456789abcd";

    fn hash(sale: &str, kind: IdentityKind, text: &str) -> Option<String> {
        key(KEY).hash(&sale.parse().unwrap(), kind, text)
    }

    #[test]
    fn one_person_is_one_hash() {
        let first = hash("phone", IdentityKind::Email, "a.b+x@GoogleMail.com").unwrap();
        assert_eq!(
            first,
            "81116a0180969745ab9e608ec4e5398a294e2b366b627659eda43877209ccc24"
        );
        assert_eq!(
            hash("phone", IdentityKind::Email, "ab@gmail.com"),
            Some(first)
        );
    }

    #[test]
    fn key_sale_kind_and_text_all_count() {
        let first = hash("phone", IdentityKind::Email, "ab@gmail.com");
        for other in [
            hash("phone2", IdentityKind::Email, "ab@gmail.com"),
            hash("phone", IdentityKind::Instrument, "ab@gmail.com"),
            hash("phone", IdentityKind::Email, "ac@gmail.com"),
            key("another-key-for-tests-0123456789abcdef").hash(
                &"phone".parse().unwrap(),
                IdentityKind::Email,
                "ab@gmail.com",
            ),
        ] {
            assert!(other.is_some());
            assert_ne!(other, first);
        }
    }

    #[test]
    fn nothing_is_nobody() {
        assert_eq!(hash("phone", IdentityKind::Phone, "none"), None);
        assert_eq!(hash("phone", IdentityKind::Device, "  "), None);
    }
}
