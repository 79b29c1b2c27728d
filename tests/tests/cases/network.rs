//! K07: a function in the network reaches everything that it calls.

use std::collections::{BTreeMap, BTreeSet};

use serde_yaml_ng::Value;

use crate::graph::{FUNCTION, changed, names, parsed, section, text_of};

const HTTPS: u64 = 443;

/// The endpoint of a service whose actions are called otherwise.
fn endpoint_of(service: &str) -> &str {
    match service {
        "cloudwatch" => "monitoring",
        service => service,
    }
}

fn named(value: &Value, name: &str) -> bool {
    names(value).contains(name)
}

/// Properties of all resources of a type, by logical id.
pub(crate) fn all<'a>(template: &'a Value, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let resources = section(template, "Resources").iter();
    resources
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(id, resource)| (id.as_str().unwrap(), &resource["Properties"]))
        .collect()
}

fn items(value: &Value) -> Vec<&Value> {
    value.as_sequence().into_iter().flatten().collect()
}

/// Does one of these rules let a port through, to or from `whom`?
fn lets(rules: &Value, port: u64, whom: impl Fn(&Value) -> bool) -> bool {
    items(rules).into_iter().any(|rule| {
        let at = |end: &str| rule[end].as_u64().unwrap();
        rule["IpProtocol"] == "tcp" && (at("FromPort")..=at("ToPort")).contains(&port) && whom(rule)
    })
}

/// The subnets that functions are in.
pub(crate) fn private(network: &Value) -> BTreeSet<String> {
    let told = names(&network["Outputs"]["SubnetIds"]["Value"]);
    let all = all(network, "AWS::EC2::Subnet");
    told.into_iter()
        .filter(|name| all.contains_key(name.as_str()))
        .collect()
}

/// The services that can be reached from every subnet.
fn endpoints(network: &Value) -> BTreeSet<&str> {
    let subnets = private(network);
    let associations = all(network, "AWS::EC2::SubnetRouteTableAssociation");
    let routed = |tables: &Value| {
        subnets.iter().all(|subnet| {
            associations.values().any(|one| {
                named(&one["SubnetId"], subnet)
                    && !names(&one["RouteTableId"]).is_disjoint(&names(tables))
            })
        })
    };
    let groups = all(network, "AWS::EC2::SecurityGroup");
    let from_all = |rule: &Value| named(&rule["CidrIp"], "Cidr");
    let open = |used: &Value| {
        names(used).iter().any(|group| {
            lets(
                &groups[group.as_str()]["SecurityGroupIngress"],
                HTTPS,
                from_all,
            )
        })
    };
    // Names lead to an interface from everywhere in the network, whichever
    // subnet it is in.
    let resolved = all(network, "AWS::EC2::VPC")
        .values()
        .all(|vpc| vpc["EnableDnsSupport"] == true && vpc["EnableDnsHostnames"] == true);
    let reached = |endpoint: &Value| match endpoint["VpcEndpointType"].as_str().unwrap() {
        "Gateway" => routed(&endpoint["RouteTableIds"]),
        _ => {
            resolved
                && endpoint["PrivateDnsEnabled"] == true
                && !items(&endpoint["SubnetIds"]).is_empty()
                && open(&endpoint["SecurityGroupIds"])
        }
    };
    let endpoints = all(network, "AWS::EC2::VPCEndpoint").into_values();
    endpoints
        .filter(|endpoint| reached(endpoint))
        .map(|endpoint| {
            let Value::Tagged(name) = &endpoint["ServiceName"] else {
                panic!("{endpoint:?}")
            };
            name.value.as_str().unwrap().rsplit('.').next().unwrap()
        })
        .collect()
}

/// Services that a function's policies name.
fn called(function: &Value) -> BTreeSet<&str> {
    let policies = items(&function["Policies"]).into_iter();
    let statements = policies.flat_map(|policy| items(&policy["Statement"]));
    statements
        .flat_map(|statement| match &statement["Action"] {
            Value::Sequence(many) => many.iter().collect(),
            one => vec![one],
        })
        .map(|action| endpoint_of(action.as_str().unwrap().split_once(':').unwrap().0))
        .collect()
}

/// What can't be reached, by whom.
fn unreached(template: &Value, network: &Value, cache: &Value) -> Vec<String> {
    let endpoints = endpoints(network);
    let mut wrong = Vec::new();
    let mut inside = 0;
    for (id, function) in all(template, FUNCTION) {
        let own = &function["VpcConfig"];
        let variables = &function["Environment"]["Variables"];
        if variables["GATE_URL"].is_null() != own.is_null() {
            wrong.push(format!("{id} and the network"));
        }
        if own.is_null() {
            continue;
        }
        inside += 1;
        if !named(&own["SubnetIds"], "Network") || !named(&own["SecurityGroupIds"], "Gates") {
            wrong.push(format!("{id} is elsewhere"));
        }
        let missing = called(function)
            .into_iter()
            .filter(|one| !endpoints.contains(one));
        wrong.extend(missing.map(|service| format!("{id} calls {service}")));
    }
    assert!(inside > 4, "{inside}");

    let groups = all(cache, "AWS::EC2::SecurityGroup");
    let gates = all(cache, "AWS::ElastiCache::ReplicationGroup")["Gates"];
    let port = gates["Port"].as_u64().unwrap();
    let out = &groups["CallerGroup"]["SecurityGroupEgress"];
    let anywhere = |rule: &Value| rule["CidrIp"] == "0.0.0.0/0";
    let callers = |rule: &Value| named(&rule["SourceSecurityGroupId"], "CallerGroup");
    let into = names(&gates["SecurityGroupIds"]);
    let let_in = |group: &String| {
        lets(
            &groups[group.as_str()]["SecurityGroupIngress"],
            port,
            callers,
        )
    };
    if !named(&cache["Outputs"]["CallerGroup"], "CallerGroup") || !lets(out, HTTPS, anywhere) {
        wrong.push("endpoints".to_owned());
    }
    if !lets(out, port, anywhere) || !into.iter().any(let_in) {
        wrong.push("gates".to_owned());
    }
    wrong
}

#[test]
fn k07_whatever_a_function_in_the_network_calls_is_reached_from_there() {
    const TEMPLATE: &str = "template.yaml";
    const NETWORK: &str = "infra/network.yaml";
    const CACHE: &str = "infra/cache.yaml";
    let check = |file: &str, from: &str, to: &str| {
        let text = |own: &str| {
            let text = if own == file {
                changed(own, from, to)
            } else {
                text_of(own)
            };
            parsed(&text)
        };
        unreached(&text(TEMPLATE), &text(NETWORK), &text(CACHE))
    };
    assert_eq!(check("", "", ""), [""; 0]);
    for (file, from, to, wrong) in [
        (
            TEMPLATE,
            "sqs:SendMessage",
            "sns:Publish",
            "ClaimFunction calls sns",
        ),
        (
            TEMPLATE,
            "!GetAtt Network.Outputs.SubnetIds",
            "!Ref SubnetIds",
            "EntryFunction is elsewhere",
        ),
        (
            TEMPLATE,
            "!GetAtt Gates.Outputs.CallerGroup",
            "sg-1",
            "EntryFunction is elsewhere",
        ),
        (
            TEMPLATE,
            "GATE_URL: ",
            "GATE: ",
            "EntryFunction and the network",
        ),
        (
            NETWORK,
            "SubnetId: !Ref SubnetB, RouteTableId",
            "SubnetId: !Ref SubnetA, RouteTableId",
            "OrderFunction calls dynamodb",
        ),
        (
            NETWORK,
            "RouteTableIds: [!Ref RoutesOfA, !Ref RoutesOfB, !Ref RoutesOfC]",
            "RouteTableIds: []",
            "OrderFunction calls dynamodb",
        ),
        (
            NETWORK,
            "PrivateDnsEnabled: true",
            "PrivateDnsEnabled: false",
            "ClaimFunction calls sqs",
        ),
        (
            NETWORK,
            "EnableDnsSupport: true",
            "EnableDnsSupport: false",
            "ClaimFunction calls sqs",
        ),
        (
            NETWORK,
            "FromPort: 443, ToPort: 443",
            "FromPort: 80, ToPort: 80",
            "ClaimFunction calls secretsmanager",
        ),
        (
            NETWORK,
            "{AWS::Region}.sqs",
            "{AWS::Region}.sns",
            "OrderFunction calls sqs",
        ),
        (
            CACHE,
            "FromPort: 443, ToPort: 443",
            "FromPort: 80, ToPort: 80",
            "endpoints",
        ),
        (CACHE, "Port: 6379\n\n", "Port: 6380\n\n", "gates"),
        (
            CACHE,
            "SourceSecurityGroupId: !Ref CallerGroup",
            "SourceSecurityGroupId: sg-1",
            "gates",
        ),
        (
            CACHE,
            "SecurityGroupIds: [!Ref GateGroup]",
            "SecurityGroupIds: [!Ref CallerGroup]",
            "gates",
        ),
    ] {
        let said = check(file, from, to);
        assert!(
            said.iter().any(|one| one == wrong),
            "{file}, {to}: {said:?}"
        );
    }
}
