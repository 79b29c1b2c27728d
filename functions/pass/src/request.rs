//! What a shopper sends to get a pass.

use std::fmt;
use std::str::FromStr;

use api::Problem;
use domain::input::Fields;

/// The name of a device, as the page made it up and keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device(String);

impl Device {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Device {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // ASCII, since two names that look the same must be the same.
        let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if printable && text.len() <= 128 && !text.trim().is_empty() {
            Ok(Self(text.to_owned()))
        } else {
            Err("must be 1 to 128 printable ASCII characters, not all of them spaces")
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request for a pass. The attestation holds personal data: no `Debug`.
pub(crate) struct PassRequest {
    pub(crate) device: Device,
    pub(crate) attestation: Option<String>,
}

impl PassRequest {
    /// Reads the body; a field that is not documented is refused.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, Problem> {
        let device = fields.text::<Device>("device");
        let device = fields.require("device", device);
        let attestation = fields.text::<String>("attestation");
        fields.finish().map_err(Problem::fields)?;
        Ok(Self {
            // Required above; an error is told there.
            device: device.ok_or_else(|| Problem::field("device", "is required"))?,
            attestation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(body: &str) -> Vec<String> {
        let fields = Fields::of(domain::input::object(body.as_bytes()).unwrap());
        match PassRequest::read(fields) {
            Ok(_) => vec![],
            Err(problem) => problem.errors.into_iter().map(|e| e.field).collect(),
        }
    }

    #[test]
    fn a_request_is_read_strictly() {
        assert!(wrong(r#"{"device":"d"}"#).is_empty());
        assert!(wrong(r#"{"attestation":"a.b.c","device":"\u0064-1"}"#).is_empty());
        let longest = format!(r#"{{"device":"{}"}}"#, "d".repeat(128));
        assert!(wrong(&longest).is_empty());
        let too_long = format!(r#"{{"device":"{}"}}"#, "d".repeat(129));
        for body in [
            "{}",
            r#"{"device":""}"#,
            r#"{"device":"  "}"#,
            r#"{"device":1}"#,
            r#"{"device":null}"#,
            r#"{"device":"a\nb"}"#,
            r#"{"device":"a\u200bb"}"#,
            &too_long,
        ] {
            assert_eq!(wrong(body), ["device"], "{body}");
        }
        assert_eq!(
            wrong(r#"{"device":"d","attestation":null}"#),
            ["attestation"]
        );
        assert_eq!(wrong(r#"{"device":"d","sub":"u_1"}"#), ["sub"]);
    }
}
