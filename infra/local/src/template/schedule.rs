//! Schedules.

use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;
use super::properties;

/// A function that is run again and again.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The function's logical id.
    pub function: String,
    /// How often.
    pub every: Duration,
}

/// A schedule; none if it is switched off.
pub(super) fn event(
    scope: &Scope,
    function: &str,
    given: Option<&Yaml>,
) -> anyhow::Result<Option<Schedule>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        schedule_expression: String,
        state: Option<String>,
    }
    // A retry or a flexible window changes nothing for a run that is repeated
    // within a second here.
    let read: Read = properties::read(
        scope,
        given,
        &["ScheduleExpression", "State"],
        &["Name", "Description", "RetryPolicy", "FlexibleTimeWindow"],
    )?;
    let expression = read.schedule_expression;
    let every = rate(&expression)
        .with_context(|| format!("the runner does not know the schedule {expression}"))?;
    match read.state.as_deref() {
        None | Some("ENABLED") => Ok(Some(Schedule {
            function: function.to_owned(),
            every,
        })),
        Some("DISABLED") => Ok(None),
        Some(other) => bail!("the runner does not know the state {other}"),
    }
}

/// `rate(1 minute)`.
fn rate(expression: &str) -> Option<Duration> {
    let inside = expression.strip_prefix("rate(")?.strip_suffix(')')?;
    let (number, unit) = inside.split_once(' ')?;
    let seconds = match unit {
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3_600,
        "day" | "days" => 86_400,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()? * seconds))
}
