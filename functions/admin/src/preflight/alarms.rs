//! Alarms: none sounds, and each can be heard.

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{MetricAlarm, StateValue};

use super::{Check, Deployment, check, unknown};

impl Deployment {
    pub(super) async fn check_alarms(&self) -> Check {
        const ADVICE: &str = "docs/runbook.md has a section for each alarm; the network needs an endpoint of CloudWatch (monitoring) to ask.";
        match self.all_alarms().await {
            Ok(alarms) => judge(&alarms, ADVICE),
            Err(why) => unknown("alarms", why, ADVICE),
        }
    }

    async fn all_alarms(&self) -> Result<Vec<MetricAlarm>, String> {
        let prefix = self.alarms.as_ref().ok_or("no alarms are named")?;
        let asked = Client::new(&self.aws)
            .describe_alarms()
            .alarm_name_prefix(prefix);
        let mut pages = asked.into_paginator().send();
        let mut alarms = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| runtime::cause(&error).to_owned())?;
            alarms.extend(page.metric_alarms.unwrap_or_default());
        }
        Ok(alarms)
    }
}

fn judge(alarms: &[MetricAlarm], advice: &'static str) -> Check {
    const NAME: &str = "alarms";
    let names = |wanted: fn(&MetricAlarm) -> bool| {
        let some = alarms.iter().filter(|alarm| wanted(alarm));
        some.filter_map(MetricAlarm::alarm_name).collect::<Vec<_>>()
    };
    let sounding = names(|alarm| alarm.state_value() == Some(&StateValue::Alarm));
    let silent = names(|alarm| alarm.actions_enabled() == Some(false));
    let blind = names(|alarm| alarm.state_value() == Some(&StateValue::InsufficientData));
    let all = alarms.len();
    if all == 0 {
        return check(
            NAME,
            false,
            "there are none".to_owned(),
            "Deploy infra/watch.yaml: nobody would hear of a fault.",
        );
    }
    if !sounding.is_empty() {
        return check(
            NAME,
            false,
            format!("sounding: {}", sounding.join(", ")),
            advice,
        );
    }
    if !silent.is_empty() {
        return check(
            NAME,
            false,
            format!("told to nobody: {}", silent.join(", ")),
            "Turn their actions on again.",
        );
    }
    if !blind.is_empty() {
        let found = format!(
            "{} of {all} have no data yet: {}",
            blind.len(),
            blind.join(", ")
        );
        return unknown(NAME, found, "A new alarm takes some minutes; ask again.");
    }
    check(NAME, true, format!("{all} are in OK"), advice)
}
