//! K06, J09: what the templates' resources need of each other. Each rule is also
//! held against templates that break it.

use std::collections::{BTreeMap, BTreeSet};

use local::own_template;
use serde_yaml_ng::{Mapping, Value};

pub(crate) const FUNCTION: &str = "AWS::Serverless::Function";
const FILES: [&str; 5] = [
    "template.yaml",
    "infra/network.yaml",
    "infra/cache.yaml",
    "infra/edge.yaml",
    "infra/watch.yaml",
];

/// The text of a template.
pub(crate) fn text_of(file: &str) -> String {
    std::fs::read_to_string(own_template().with_file_name(file)).unwrap()
}

/// A template's text with one place changed.
pub(crate) fn changed(file: &str, from: &str, to: &str) -> String {
    let text = text_of(file);
    assert!(text.contains(from), "{file} has no {from:?}");
    text.replacen(from, to, 1)
}

pub(crate) fn parsed(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap()
}

pub(crate) fn section<'a>(template: &'a Value, name: &str) -> &'a Mapping {
    template[name].as_mapping().unwrap()
}

/// Names that a value refers to.
pub(crate) fn names(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    named(value, &mut found);
    found
}

fn named(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Sequence(items) => items.iter().for_each(|item| named(item, into)),
        Value::Mapping(members) => members.values().for_each(|member| named(member, into)),
        Value::Tagged(tagged) => {
            let first = |name: &str| name.split('.').next().unwrap().to_owned();
            match (tagged.tag.to_string().as_str(), &tagged.value) {
                ("!Ref" | "!GetAtt", Value::String(name)) => {
                    into.insert(first(name));
                }
                ("!Sub", Value::String(text)) => {
                    let parts = text.split("${").skip(1);
                    into.extend(parts.map(|part| first(part.split('}').next().unwrap())));
                }
                (_, inner) => named(inner, into),
            }
        }
        _ => {}
    }
}

/// What each resource needs to be there first.
fn needs(template: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut needs = BTreeMap::<_, BTreeSet<_>>::new();
    for (id, resource) in section(template, "Resources") {
        let id = id.as_str().unwrap().to_owned();
        let mut resource = resource.clone();
        let mut events = Value::Null;
        if resource["Type"] == FUNCTION {
            // An event is a resource of its own, between function and source;
            // the routes of an API are part of it.
            let properties = resource["Properties"].as_mapping_mut().unwrap();
            events = properties.remove("Events").unwrap_or_default();
        }
        let all = needs.entry(id.clone()).or_default();
        named(&resource, all);
        let texts = match &resource["DependsOn"] {
            Value::Sequence(many) => many.clone(),
            one => vec![one.clone()],
        };
        all.extend(texts.iter().filter_map(Value::as_str).map(str::to_owned));
        for (_, event) in events.as_mapping().into_iter().flatten() {
            if event["Type"] == "HttpApi" {
                let mut api = BTreeSet::new();
                named(&event["Properties"]["ApiId"], &mut api);
                let api = api.pop_first().expect("an event names its API");
                needs.entry(api).or_default().insert(id.clone());
            }
        }
    }
    needs
}

/// Resources of which none can be made first; nothing, if all can be made.
fn stuck(template: &Value) -> BTreeSet<String> {
    let mut left = needs(template);
    loop {
        let waiting: BTreeSet<_> = left.keys().cloned().collect();
        left.retain(|_, needs| !needs.is_disjoint(&waiting));
        if left.len() == waiting.len() {
            return waiting;
        }
    }
}

#[test]
fn k06_everything_can_be_made_one_after_the_other() {
    for file in FILES {
        assert_eq!(stuck(&parsed(&text_of(file))), BTreeSet::new(), "{file}");
    }
    // A function that knows the API that knows the function, and a resource
    // that waits for what is made of it.
    for (from, to, ring) in [
        (
            "EDGE_KEY_SECRET: ",
            "API: !Sub '${Api}'\n          EDGE_KEY_SECRET: ",
            ["Api", "PassFunction"],
        ),
        (
            "DeletionPolicy: Retain\n",
            "DeletionPolicy: Retain\n    DependsOn: Outbox\n",
            ["Ledger", "Outbox"],
        ),
    ] {
        let stuck = stuck(&parsed(&changed("template.yaml", from, to)));
        for name in ring {
            assert!(stuck.contains(name), "{to}: {stuck:?}");
        }
    }
}

/// Names that stand for nothing: a parameter or resource that is not there, a
/// pseudo parameter that CloudFormation does not have.
fn nameless(template: &Value) -> BTreeSet<String> {
    const GIVEN: [&str; 6] = [
        "AWS::AccountId",
        "AWS::NoValue",
        "AWS::Partition",
        "AWS::Region",
        "AWS::StackName",
        "AWS::URLSuffix",
    ];
    let parts = ["Globals", "Resources", "Outputs"];
    let used = parts.iter().flat_map(|part| names(&template[*part]));
    used.filter(|name| {
        let parts = ["Parameters", "Resources"];
        !GIVEN.contains(&name.as_str())
            && parts
                .iter()
                .all(|part| template[*part][name.as_str()].is_null())
    })
    .collect()
}

#[test]
fn k06_every_name_stands_for_something() {
    for file in FILES {
        assert_eq!(nameless(&parsed(&text_of(file))), BTreeSet::new(), "{file}");
    }
    for (from, to, name) in [
        ("!Ref ClaimQueue", "!Ref ClaimQueu", "ClaimQueu"),
        ("${AWS::StackName}", "${AWS::Stackname}", "AWS::Stackname"),
    ] {
        let wrong = nameless(&parsed(&changed("template.yaml", from, to)));
        assert_eq!(wrong, [name.to_owned()].into());
    }
}

/// Why counters could be evicted, or memory run full unseen.
fn forgetful(cache: &Value, watch: &Value) -> Vec<&'static str> {
    let (cache, watch) = (&cache["Resources"], &watch["Resources"]);
    let used = names(&cache["Gates"]["Properties"]["CacheParameterGroupName"]);
    let settings = used
        .iter()
        .map(|name| &cache[name.as_str()]["Properties"]["Properties"]);
    let alarm = &watch["GateMemory"]["Properties"];
    let told = alarm["MetricName"] == "DatabaseMemoryUsageCountedForEvictPercentage"
        && names(&alarm["Dimensions"]) == ["GateCluster".to_owned()].into()
        && alarm["Threshold"]
            .as_u64()
            .is_some_and(|percent| percent <= 80)
        && !alarm["AlarmActions"].is_null();
    let kept: Vec<_> = settings
        .map(|own| own["maxmemory-policy"] == "noeviction")
        .collect();
    let mut wrong = Vec::new();
    if kept != [true] {
        wrong.push("counters are evicted");
    }
    if !told {
        wrong.push("nobody hears of full memory");
    }
    wrong
}

#[test]
fn j09_counters_are_not_evicted_and_full_memory_is_told() {
    let (cache, watch) = ("infra/cache.yaml", "infra/watch.yaml");
    let wrong = |cache: &str, watch: &str| forgetful(&parsed(cache), &parsed(watch));
    assert_eq!(wrong(&text_of(cache), &text_of(watch)), [""; 0]);
    for (from, to) in [
        (
            "maxmemory-policy: noeviction",
            "maxmemory-policy: allkeys-lru",
        ),
        ("        maxmemory-policy: noeviction\n", ""),
        (
            "CacheParameterGroupName: !Ref Settings",
            "CacheParameterGroupName: default.valkey8",
        ),
    ] {
        let wrong = wrong(&changed(cache, from, to), &text_of(watch));
        assert_eq!(wrong, ["counters are evicted"], "{to}");
    }
    for (from, to) in [
        (
            "DatabaseMemoryUsageCountedForEvictPercentage",
            "EngineCPUUtilization",
        ),
        (
            "{Name: ReplicationGroupId, Value: !Ref GateCluster}",
            "{Name: ReplicationGroupId, Value: other}",
        ),
    ] {
        let wrong = wrong(&text_of(cache), &changed(watch, from, to));
        assert_eq!(wrong, ["nobody hears of full memory"], "{to}");
    }
}
