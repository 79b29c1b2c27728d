//! What is watched is there: alarms and dashboard name metrics that functions
//! write, and everything that is written or sounds is explained.

#![allow(clippy::unwrap_used)] // a panic is a test's report

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use runtime::Metric;
use serde_json::Value as Json;
use serde_yaml_ng::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn watch() -> Value {
    serde_yaml_ng::from_str(&read("infra/watch.yaml")).unwrap()
}

/// A value without its tag: what `!Sub` or `!Ref` is given.
fn bare(value: &Value) -> &Value {
    match value {
        Value::Tagged(tagged) => &tagged.value,
        value => value,
    }
}

fn text(value: &Value) -> &str {
    bare(value).as_str().unwrap_or_default()
}

/// Logical ids and properties of all alarms.
fn alarms(watch: &Value) -> Vec<(String, Value)> {
    let resources = watch["Resources"].as_mapping().unwrap();
    let alarms = resources
        .iter()
        .filter(|(_, resource)| text(&resource["Type"]) == "AWS::CloudWatch::Alarm");
    alarms
        .map(|(id, alarm)| (text(id).to_owned(), alarm["Properties"].clone()))
        .collect()
}

fn dashboard(watch: &Value) -> Json {
    let body = text(&watch["Resources"]["Dashboard"]["Properties"]["DashboardBody"]);
    serde_json::from_str(body).unwrap()
}

fn metric(name: &str) -> Metric {
    let mut all = Metric::ALL.iter();
    let found = all.find(|metric| metric.name() == name);
    *found.unwrap_or_else(|| panic!("nobody writes {name}"))
}

/// Asserts that a metric has a series with just these dimensions.
fn assert_series(name: &str, dimensions: &[&str]) {
    let metric = metric(name);
    assert!(
        metric.dimensions().contains(&dimensions),
        "{name} has no series by {dimensions:?}"
    );
}

#[test]
fn alarms_sound_on_what_functions_write() {
    let mut own = 0;
    for (id, alarm) in alarms(&watch()) {
        if text(&alarm["Namespace"]) == "Namespace" {
            let dimensions = alarm["Dimensions"].as_sequence();
            assert!(dimensions.is_none(), "{id} is about all sales");
            assert_series(text(&alarm["MetricName"]), &[]);
            own += 1;
        }
        // Plain ones: emulators know no others.
        assert!(alarm["Metrics"].is_null(), "{id}");
        let missing = text(&alarm["TreatMissingData"]);
        let expected = if id.ends_with("NotStarted") {
            "breaching"
        } else {
            "notBreaching"
        };
        assert_eq!(missing, expected, "{id}");
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(text(&alarm[actions][0]), "Topic", "{id}");
        }
    }
    assert!(own >= 10, "{own}");
}

#[test]
fn the_dashboard_shows_what_functions_write() {
    let watch = watch();
    let dashboard = dashboard(&watch);
    let mut shown = BTreeSet::new();
    for widget in dashboard["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let parts = metric.as_array().unwrap();
            if parts[0] == "${Namespace}" {
                let words: Vec<_> = parts[1..].iter().filter_map(Json::as_str).collect();
                let (name, dimensions) = words.split_first().unwrap();
                let names: Vec<_> = dimensions.iter().copied().step_by(2).collect();
                assert_series(name, &names);
                shown.insert((*name).to_owned());
            }
            let expression = parts[0]["expression"].as_str().unwrap_or_default();
            if let Some((name, names)) = searched(expression) {
                assert_series(&name, &names.iter().map(String::as_str).collect::<Vec<_>>());
                shown.insert(name);
            }
        }
    }
    let all: BTreeSet<_> = Metric::ALL
        .iter()
        .map(|one| one.name().to_owned())
        .collect();
    assert_eq!(shown, all, "every metric is somewhere on the dashboard");

    let search = dashboard["variables"][0]["search"].as_str().unwrap();
    let (name, names) = searched(&format!("SEARCH('{search}', '')")).unwrap();
    assert_series(&name, &names.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Metric and dimensions that an expression searches in our namespace.
fn searched(expression: &str) -> Option<(String, Vec<String>)> {
    let (_, rest) = expression.split_once("{\"${Namespace}\",")?;
    let (names, rest) = rest.split_once('}')?;
    let (_, rest) = rest.split_once("MetricName=\"")?;
    let (name, _) = rest.split_once('"')?;
    Some((
        name.to_owned(),
        names.split(',').map(str::to_owned).collect(),
    ))
}

#[test]
fn the_dashboard_lists_every_alarm_that_there_always_is() {
    let watch = watch();
    let dashboard = dashboard(&watch);
    let listed = &dashboard["widgets"][0]["properties"]["alarms"];
    let listed: BTreeSet<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|arn| arn.as_str().unwrap().to_owned())
        .collect();
    let resources = &watch["Resources"];
    let always = alarms(&watch)
        .into_iter()
        .filter(|(id, _)| resources[id.as_str()]["Condition"].is_null())
        .map(|(id, _)| format!("${{{id}.Arn}}"));
    assert_eq!(listed, always.collect());
}

#[test]
fn every_alarm_has_its_section_in_the_runbook_and_every_section_its_alarm() {
    let runbook = read("docs/runbook.md");
    let sections: BTreeSet<&str> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|title| title.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect();
    let mut sounded = BTreeSet::new();
    for (id, alarm) in alarms(&watch()) {
        let name = text(&alarm["AlarmName"]);
        let name = name.strip_prefix("${Prefix}-").unwrap();
        let description = text(&alarm["AlarmDescription"]);
        let (_, anchor) = description.split_once("${Runbook}#").unwrap();
        assert!(name.starts_with(anchor), "{id}: {name}, {anchor}");
        let section = sections.get(anchor);
        sounded.insert(*section.unwrap_or_else(|| panic!("{id} has no section {anchor}")));
    }
    assert_eq!(sections, sounded);
}

/// Every Rust file of functions and libraries, tests aside.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|name| name == "rs") {
                into.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    for members in ["functions", "shared"] {
        for member in std::fs::read_dir(root().join(members)).unwrap() {
            let member = member.unwrap().path();
            // What tests share is no function either.
            if !member.ends_with("testing") {
                collect(&member.join("src"), &mut found);
            }
        }
    }
    found
}

#[test]
fn every_metric_is_written_and_there_is_one_way_to_write_one() {
    let sources = sources();
    let list = Path::new("runtime/src/metrics.rs");
    let others: Vec<_> = sources
        .iter()
        .filter(|(path, _)| !path.ends_with(list))
        .collect();
    assert!(others.len() < sources.len() && others.len() > 50);
    for metric in Metric::ALL {
        let used = format!("Metric::{metric:?},");
        let written = others.iter().any(|(_, text)| text.contains(&used));
        assert!(written, "nobody writes {}", metric.name());
    }
    for (path, text) in &sources {
        // A field of a log line is no metric.
        assert!(!text.contains("metric = \""), "{}", path.display());
    }
}

#[test]
fn every_metric_is_explained() {
    let logging = read("docs/logging.md");
    for metric in Metric::ALL {
        let unit = match metric.unit() {
            "Milliseconds" => "ms",
            "Count" => "count",
            _ => "fraction",
        };
        let sets = metric.dimensions().iter().map(|set| match set {
            [] => "all".to_owned(),
            names => names.join(" + "),
        });
        let by: Vec<_> = sets.collect();
        let row = format!("| `{}` | {unit} | {} | ", metric.name(), by.join("; "));
        let rows: Vec<_> = logging
            .lines()
            .filter(|line| line.starts_with(&row))
            .collect();
        assert_eq!(rows.len(), 1, "no row {row:?}");
    }
}
