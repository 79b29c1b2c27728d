//! Values of the template's secrets, made at start.

use std::collections::BTreeMap;

use anyhow::{anyhow, ensure};
use aws_lc_rs::rand;
use secrecy::SecretString;

use crate::template::Secret;

/// A value for each secret, by logical id: the given one, else a fresh one.
///
/// # Errors
/// One is given that the template does not have, or there are no random bytes.
pub(crate) fn make(
    secrets: &[Secret],
    given: &BTreeMap<String, SecretString>,
) -> anyhow::Result<BTreeMap<String, SecretString>> {
    for id in given.keys() {
        ensure!(
            secrets.iter().any(|secret| secret.id == *id),
            "the template has no secret {id}"
        );
    }
    secrets
        .iter()
        .map(|secret| match given.get(&secret.id) {
            Some(value) => Ok((secret.id.clone(), value.clone())),
            None => Ok((secret.id.clone(), random(secret)?)),
        })
        .collect()
}

fn random(secret: &Secret) -> anyhow::Result<SecretString> {
    let characters: Vec<char> = ('!'..='~')
        .filter(|one| secret.punctuation || one.is_ascii_alphanumeric())
        .collect();
    // The bytes beyond would make the first characters likelier.
    let fair = 256 - 256 % characters.len();
    let mut text = String::with_capacity(secret.length);
    while text.len() < secret.length {
        let mut byte = [0];
        rand::fill(&mut byte).map_err(|_| anyhow!("there are no random bytes"))?;
        let number = usize::from(byte[0]);
        if number < fair {
            text.push(characters[number % characters.len()]);
        }
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn secret(id: &str, length: usize, punctuation: bool) -> Secret {
        Secret {
            id: id.to_owned(),
            length,
            punctuation,
        }
    }

    #[test]
    fn secrets_are_made_as_they_are_wanted_unless_they_are_given() {
        let wanted = [secret("A", 64, false), secret("B", 2_000, true)];
        let made = make(&wanted, &BTreeMap::new()).unwrap();
        let (a, b) = (made["A"].expose_secret(), made["B"].expose_secret());
        assert_eq!(a.len(), 64);
        assert!(a.chars().all(|one| one.is_ascii_alphanumeric()));
        assert_eq!(b.len(), 2_000);
        assert!(b.chars().any(|one| one.is_ascii_punctuation()));
        let given = |id: &str| BTreeMap::from([(id.to_owned(), "known".into())]);
        let again = make(&wanted, &given("A")).unwrap();
        assert_eq!(again["A"].expose_secret(), "known");
        assert_ne!(again["B"].expose_secret(), b);
        let error = make(&wanted, &given("C")).unwrap_err().to_string();
        assert!(error.contains("no secret C") && !error.contains("known"));
    }
}
