//! Secrets: what is asked for, never a value.

use serde::Deserialize;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;
use super::properties::{self, Number};

/// One secret, which is made when the system starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The logical id.
    pub id: String,
    /// Characters.
    pub length: usize,
    /// May there be others than letters and digits?
    pub punctuation: bool,
}

/// The service's own default.
const DEFAULT_LENGTH: u64 = 32;

pub(super) fn read(scope: &Scope, id: &str, given: Option<&Yaml>) -> anyhow::Result<Secret> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        generate_secret_string: Generate,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Generate {
        password_length: Option<Number>,
        #[serde(default)]
        exclude_punctuation: bool,
    }
    let read: Read = properties::read(
        scope,
        given,
        &["GenerateSecretString"],
        &["Description", "KmsKeyId", "Name", "ReplicaRegions", "Tags"],
    )?;
    let wanted = read.generate_secret_string;
    let Number(length) = wanted.password_length.unwrap_or(Number(DEFAULT_LENGTH));
    Ok(Secret {
        id: id.to_owned(),
        length: length as usize,
        punctuation: !wanted.exclude_punctuation,
    })
}
