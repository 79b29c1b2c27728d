//! Settings: a function's variables and secrets, read once, with errors that
//! name them.

use std::collections::HashMap;
use std::str::FromStr;

use secrecy::SecretString;

/// The variable `X` with this behind its name holds the ARN or the name of the
/// secret whose value is the setting `X`.
pub const REFERENCE: &str = "_SECRET";

/// A variable that a function needs is not set, or not what it must be.
#[derive(Debug, thiserror::Error)]
#[error("the variable {name} {problem}")]
pub struct MissingSetting {
    name: String,
    problem: String,
}

/// A function's variables. Values may be secrets, so `Debug` shows names only.
#[derive(Clone, Default)]
pub struct Settings(HashMap<String, String>);

impl Settings {
    /// Of this process.
    pub fn from_process() -> Self {
        std::env::vars().collect()
    }

    /// An optional variable; empty is the same as missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A variable that must be set.
    ///
    /// # Errors
    /// It is not.
    pub fn require(&self, name: &str) -> Result<&str, MissingSetting> {
        self.get(name).ok_or_else(|| wrong(name, "is not set"))
    }

    /// A secret that must be set.
    ///
    /// # Errors
    /// It is not, or it is empty: no check is ever skipped for want of a key.
    pub fn secret(&self, name: &str) -> Result<SecretString, MissingSetting> {
        self.require(name).map(SecretString::from)
    }

    /// What is given by reference only: the name of each such setting, and the
    /// secret that holds its value. One that is given directly too is not
    /// among them.
    pub(crate) fn references(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.keys().filter_map(|variable| {
            let name = variable.strip_suffix(REFERENCE)?;
            let secret = self.get(variable)?;
            (!name.is_empty() && self.get(name).is_none()).then_some((name, secret))
        })
    }

    /// A variable of another type, or its default.
    ///
    /// # Errors
    /// It is set and can't be read.
    pub fn parse_or<T: FromStr>(&self, name: &str, default: T) -> Result<T, MissingSetting> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| wrong(name, "can't be read")),
        }
    }
}

fn wrong(name: &str, problem: &str) -> MissingSetting {
    MissingSetting {
        name: name.to_owned(),
        problem: problem.to_owned(),
    }
}

impl FromIterator<(String, String)> for Settings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl Extend<(String, String)> for Settings {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, variables: I) {
        self.0.extend(variables);
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_missing_and_debug_hides_values() {
        let settings: Settings = [
            ("A".to_owned(), String::new()),
            ("B".to_owned(), "hidden".to_owned()),
        ]
        .into_iter()
        .collect();
        assert!(settings.secret("A").is_err());
        assert_eq!(
            settings.require("C").unwrap_err().to_string(),
            "the variable C is not set"
        );
        assert!(settings.parse_or("B", 1u32).is_err());
        assert!(!format!("{settings:?}").contains("hidden"));
    }
}
