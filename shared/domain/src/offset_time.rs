//! A time as a merchant writes it: with an offset, and shown again in the same.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

/// What is said of a time beyond the year 9998.
pub(crate) const TOO_LATE: &str = "must be before the year 9999";

/// An instant and the offset in which the merchant wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OffsetTime {
    /// The instant.
    pub at: Timestamp,
    offset: jiff::tz::Offset,
}

impl OffsetTime {
    /// Another instant, shown in the same offset.
    pub fn same_offset(self, at: Timestamp) -> Self {
        Self { at, ..self }
    }
}

impl fmt::Display for OffsetTime {
    /// RFC 3339 with milliseconds and offset.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.offset.to_datetime(self.at);
        let seconds = self.offset.seconds();
        write!(f, "{local:.3}")?;
        if seconds == 0 {
            return f.write_str("Z");
        }
        let sign = if seconds < 0 { '-' } else { '+' };
        let minutes = seconds.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl std::str::FromStr for OffsetTime {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "must be an RFC 3339 time with an offset, such as \
            2026-11-11T12:00:00+05:30";
        let bytes = text.as_bytes();
        // jiff reads more than RFC 3339 (a space or nothing between the parts,
        // zone names, week dates); what is ambiguous to a person is refused.
        let shape = bytes.len() >= 20
            && bytes[4] == b'-'
            && bytes[7] == b'-'
            && bytes[10] == b'T'
            && bytes[13] == b':'
            && bytes[16] == b':'
            && !text.contains('[');
        let (civil, zone) = text
            .get(19..)
            .and_then(|rest| rest.find(['Z', '+', '-']))
            .map(|length| text.split_at(19 + length))
            .filter(|_| shape)
            .ok_or(EXPECTED)?;
        let seconds = match zone {
            "Z" => 0,
            // RFC 3339: "-00:00" says that the local offset is unknown.
            "-00:00" => return Err(EXPECTED),
            zone => offset_seconds(zone).ok_or(EXPECTED)?,
        };
        let offset = jiff::tz::Offset::from_seconds(seconds).map_err(|_| EXPECTED)?;
        match text.parse::<Timestamp>() {
            Ok(at) => Ok(Self { at, offset }),
            // The last hours of 9999 are well written and no instant of jiff's.
            Err(_) if civil.starts_with("9999") && civil.parse::<DateTime>().is_ok() => {
                Err(TOO_LATE)
            }
            Err(_) => Err(EXPECTED),
        }
    }
}

/// Seconds of `+05:30`.
fn offset_seconds(zone: &str) -> Option<i32> {
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    Some(if zone.starts_with('-') {
        -seconds
    } else {
        seconds
    })
}

impl TryFrom<String> for OffsetTime {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OffsetTime> for String {
    fn from(time: OffsetTime) -> String {
        time.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_an_offset() {
        for time in [
            "2026-11-11T12:00:00",
            "2026-11-11 12:00",
            "2026-11-11T12:00:00-00:00",
            "2026-02-30T00:00:00Z",
            "2026-11-11T12:00:00+05:30[Asia/Kolkata]",
            "2026-11-11T12:00:00 Europe/London",
            "2026-11-11T12:00+05:30",
            "",
        ] {
            assert!(time.parse::<OffsetTime>().is_err(), "{time}");
        }
        assert!("2026-11-11T06:30:00.5Z".parse::<OffsetTime>().is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_time_of_9999_is_the_year() {
        let reason = |time: &str| time.parse::<OffsetTime>().unwrap_err();
        for late in [
            "9999-12-31T23:59:59Z",
            "9999-12-30T22:00:01.5Z",
            "9999-12-31T23:59:59-05:30",
        ] {
            assert_eq!(reason(late), TOO_LATE, "{late}");
        }
        for none in [
            "9999-12-32T00:00:00Z",
            "9999-12-31 23:59:59Z",
            "9999-12-31T23:59:59",
        ] {
            assert_ne!(reason(none), TOO_LATE, "{none}");
        }
    }
}
