//! `samconfig.toml`: both profiles give the template what it knows and needs,
//! and the launch is sized for the sale that it is named for.

#![allow(clippy::unwrap_used)] // a panic is a test's report

use std::collections::BTreeMap;
use std::path::Path;

use serde_yaml_ng::Value;

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap()
}

/// The parameters that a profile gives.
fn profile(name: &str) -> BTreeMap<String, String> {
    let config = read("samconfig.toml");
    let (_, rest) = config
        .split_once(&format!("[{name}.deploy.parameters]"))
        .unwrap();
    let (_, list) = rest.split_once("parameter_overrides = [").unwrap();
    let (list, _) = list.split_once("\n]").unwrap();
    let lines = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line
                .trim_matches(|c| c == '"' || c == ',')
                .split_once('=')
                .unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

#[test]
fn profiles_give_what_the_template_asks_for() {
    let template: Value = serde_yaml_ng::from_str(&read("template.yaml")).unwrap();
    let parameters = template["Parameters"].as_mapping().unwrap();
    for name in ["rehearsal", "launch"] {
        let given = profile(name);
        for (parameter, what) in parameters {
            let parameter = parameter.as_str().unwrap();
            let has = given.contains_key(parameter);
            assert!(
                has || !what["Default"].is_null(),
                "{name} gives no {parameter}"
            );
        }
        for (parameter, value) in &given {
            let what = &parameters[parameter.as_str()];
            assert!(!what.is_null(), "{name}: there is no {parameter}");
            if what["Type"] == "Number" {
                let number: u64 = value.parse().unwrap();
                let at_least = what["MinValue"].as_u64().unwrap_or_default();
                assert!(number >= at_least, "{name}: {parameter}={value}");
            }
        }
    }
}

/// The arithmetic is the preflight's; here are only its results for 10,000
/// units and five million shoppers in ten minutes.
#[test]
fn the_launch_fits_its_sale() {
    let given = profile("launch");
    let number = |name: &str| given[name].parse::<u64>().unwrap();
    assert!(number("ApiRatePerSecond") >= 8_334);
    assert!(number("ShopperConcurrency") >= 834);
    assert!(number("WarmEnvironments") >= 67);
    assert!(number("LedgerWarmWrites") > 4_200);
    assert!(number("WarmEnvironments") <= number("ShopperConcurrency"));
    assert!(number("GateShards") * number("GateReplicas") > 0);
    assert!(!given["AlarmEmail"].is_empty(), "somebody hears of alarms");
    assert_ne!(given["PaymentProvider"], "sandbox", "money moves");
    assert!(!given.contains_key("Rehearsal"), "it is none");
}
