//! Identity: when two phones, addresses, instruments, devices or mailboxes
//! are the same. Only keyed hashes of the normal form are ever stored.

use serde::{Deserialize, Serialize};

/// An attribute of a person that accounts may share only so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityKind {
    /// A verified phone number.
    Phone,
    /// A delivery address.
    Address,
    /// A payment instrument, already hashed by the store.
    Instrument,
    /// A device.
    Device,
    /// A mailbox.
    Email,
}

impl IdentityKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Phone,
        Self::Address,
        Self::Instrument,
        Self::Device,
        Self::Email,
    ];

    /// As configuration and attestations name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Address => "address",
            Self::Instrument => "instrument",
            Self::Device => "device",
            Self::Email => "email",
        }
    }

    /// The normal form: equal for what is the same in the world.
    pub fn normalise(self, text: &str) -> String {
        match self {
            Self::Phone => phone(text),
            Self::Address => address(text),
            Self::Email => email(text),
            Self::Instrument | Self::Device => text.trim().to_owned(),
        }
    }
}

/// Full-width forms to ASCII, and lower case.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
            '\u{3000}' => ' ',
            _ => c,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// Digits, without trunk zeros and the Indian country code in front of a
/// ten-digit number.
fn phone(text: &str) -> String {
    let digits: String = plain(text).chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0');
    match digits.strip_prefix("91") {
        Some(national) if national.len() == 10 => national.to_owned(),
        _ => digits.to_owned(),
    }
}

/// Words without punctuation; numbers stick to their letter ("4-B" is "4b");
/// common words of addresses in their short form.
fn address(text: &str) -> String {
    const SHORT: &[(&str, &str)] = &[
        ("road", "rd"),
        ("street", "st"),
        ("avenue", "ave"),
        ("lane", "ln"),
        ("apartment", "apt"),
        ("flat", ""),
        ("apt", ""),
        ("number", ""),
        ("no", ""),
        ("floor", "fl"),
        ("building", "bldg"),
    ];
    let joined: String = plain(text)
        .chars()
        .filter(|c| !matches!(c, '.' | '-' | '\'' | '#'))
        .collect();
    joined
        .split(|c: char| !c.is_alphanumeric())
        .map(|word| {
            SHORT
                .iter()
                .find(|(long, _)| *long == word)
                .map_or(word, |(_, short)| *short)
        })
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Lower case without a tag behind `+`; for Gmail, whose mailboxes ignore
/// them, without dots.
fn email(text: &str) -> String {
    let text = plain(text);
    let text = text.trim().trim_end_matches('.');
    let Some((local, host)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    let local = local.split('+').next().unwrap_or(local).trim();
    match host.trim() {
        "gmail.com" | "googlemail.com" => format!("{}@gmail.com", local.replace('.', "")),
        host => format!("{local}@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(kind: IdentityKind, texts: &[&str]) {
        for text in texts {
            assert_eq!(kind.normalise(text), kind.normalise(texts[0]), "{text}");
        }
    }

    #[test]
    fn one_mailbox_is_one_mailbox() {
        same(
            IdentityKind::Email,
            &[
                "a.b@gmail.com",
                "ab@gmail.com",
                "AB@GoogleMail.com",
                "ab+x@gmail.com",
                "ａｂ@gmail.com",
                "ab@gmail.com. ",
            ],
        );
        assert_ne!(
            IdentityKind::Email.normalise("a.b@example.org"),
            IdentityKind::Email.normalise("ab@example.org")
        );
    }

    #[test]
    fn one_phone_is_one_phone() {
        same(
            IdentityKind::Phone,
            &[
                "+91 98765 43210",
                "098765-43210",
                "9876543210",
                "0091 9876543210",
            ],
        );
        assert_ne!(
            IdentityKind::Phone.normalise("9876543210"),
            IdentityKind::Phone.normalise("9876543211")
        );
    }

    #[test]
    fn one_address_is_one_address() {
        same(
            IdentityKind::Address,
            &["Flat 4B, MG Road", "4-B, M.G. Rd.", "4b mg road"],
        );
        assert_ne!(
            IdentityKind::Address.normalise("4B, MG Road"),
            IdentityKind::Address.normalise("4C, MG Road")
        );
    }
}
