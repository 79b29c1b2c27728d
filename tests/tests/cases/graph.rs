//! K06, K07, J09: what the templates' resources need of each other.

use std::collections::{BTreeMap, BTreeSet};

use local::own_template;
use serde_yaml_ng::{Mapping, Value};

const FUNCTION: &str = "AWS::Serverless::Function";

fn text_of(file: &str) -> String {
    std::fs::read_to_string(own_template().with_file_name(file)).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap()
}

fn section<'a>(template: &'a Value, name: &str) -> &'a Mapping {
    template[name].as_mapping().unwrap()
}

/// Names that a value refers to.
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
        named(&resource, needs.entry(id.clone()).or_default());
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
    let text = text_of("template.yaml");
    for template in [
        text.clone(),
        text_of("infra/network.yaml"),
        text_of("infra/cache.yaml"),
        text_of("infra/watch.yaml"),
    ] {
        assert_eq!(stuck(&parsed(&template)), BTreeSet::new());
    }
    // The control: a function that knows the API that knows the function.
    let variable = "EDGE_KEY_SECRET: ";
    let ring = text.replacen(
        variable,
        &format!("API: !Sub '${{Api}}'\n          {variable}"),
        1,
    );
    let stuck = stuck(&parsed(&ring));
    assert!(
        stuck.contains("PassFunction") && stuck.contains("Api"),
        "{stuck:?}"
    );
}

#[test]
fn k06_every_name_stands_for_something() {
    for file in [
        "template.yaml",
        "infra/network.yaml",
        "infra/cache.yaml",
        "infra/watch.yaml",
    ] {
        let template = parsed(&text_of(file));
        let mut used = BTreeSet::new();
        for part in ["Globals", "Resources", "Outputs"] {
            named(&template[part], &mut used);
        }
        for name in used {
            let known = ["Parameters", "Resources"]
                .iter()
                .any(|part| !template[*part][name.as_str()].is_null());
            let given = matches!(
                name.as_str(),
                "AWS::AccountId"
                    | "AWS::NoValue"
                    | "AWS::Partition"
                    | "AWS::Region"
                    | "AWS::StackName"
                    | "AWS::URLSuffix"
            );
            assert!(known || given, "{file} has no {name}");
        }
    }
}

#[test]
fn k07_whatever_a_function_in_the_network_calls_has_an_endpoint_there() {
    let network = parsed(&text_of("infra/network.yaml"));
    let mut endpoints = BTreeSet::new();
    for (_, resource) in section(&network, "Resources") {
        if resource["Type"] == "AWS::EC2::VPCEndpoint" {
            let properties = &resource["Properties"];
            let Value::Tagged(name) = &properties["ServiceName"] else {
                panic!("{properties:?}")
            };
            let service = name.value.as_str().unwrap().rsplit('.').next().unwrap();
            if properties["VpcEndpointType"] == "Interface" {
                assert_eq!(properties["PrivateDnsEnabled"], true, "{service}");
            }
            endpoints.insert(service.to_owned());
        }
    }
    let template = parsed(&text_of("template.yaml"));
    let mut inside = 0;
    for (id, function) in section(&template, "Resources") {
        if function["Type"] != FUNCTION {
            continue;
        }
        let properties = &function["Properties"];
        let calls_gates = !properties["Environment"]["Variables"]["GATE_URL"].is_null();
        let is_inside = !properties["VpcConfig"].is_null();
        assert_eq!(calls_gates, is_inside, "{id:?}");
        if !is_inside {
            continue;
        }
        inside += 1;
        for statement in properties["Policies"][0]["Statement"]
            .as_sequence()
            .unwrap()
        {
            let action = &statement["Action"];
            let actions = match action.as_sequence() {
                Some(actions) => actions.clone(),
                None => vec![action.clone()],
            };
            for action in actions {
                let (service, _) = action.as_str().unwrap().split_once(':').unwrap();
                assert!(endpoints.contains(service), "{id:?} calls {service}");
            }
        }
    }
    assert!(inside > 4, "{inside}");
}

#[test]
fn j09_counters_are_not_evicted_and_full_memory_is_told() {
    let cache = parsed(&text_of("infra/cache.yaml"));
    let resources = &cache["Resources"];
    assert_eq!(
        resources["Settings"]["Properties"]["Properties"]["maxmemory-policy"],
        "noeviction"
    );
    let used = &resources["Gates"]["Properties"]["CacheParameterGroupName"];
    let mut settings = BTreeSet::new();
    named(used, &mut settings);
    assert_eq!(settings, ["Settings".to_owned()].into());
    let watch = parsed(&text_of("infra/watch.yaml"));
    let alarm = &watch["Resources"]["GateMemory"]["Properties"];
    assert_eq!(
        alarm["MetricName"],
        "DatabaseMemoryUsageCountedForEvictPercentage"
    );
}
