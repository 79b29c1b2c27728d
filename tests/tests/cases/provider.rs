//! What a real payment provider needs of the templates: a key for whoever calls it,
//! and a way out of the network. With the sandbox there is neither. Each rule is also
//! held against templates that break it.

use std::collections::{BTreeMap, BTreeSet};

use local::read_template;
use serde_yaml_ng::Value;

use crate::graph::{changed, names, parsed, section, text_of};
use crate::network::{all, private};
use crate::template::nonce;

const TEMPLATE: &str = "template.yaml";
const NETWORK: &str = "infra/network.yaml";

/// The default of the template's provider, and what makes it another one.
const SANDBOX: &str = "    Default: sandbox\n";
const STRIPE: &str = "    Default: stripe\n";

/// What is wrong with who has the provider's key, in this template.
fn astray(text: &str) -> Vec<String> {
    let name = format!("provider-{}-{}.yaml", std::process::id(), nonce());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, text).unwrap();
    let read = read_template(&file);
    std::fs::remove_file(file).unwrap();
    let template = match read {
        Ok(template) => template,
        // A variable that names what no policy lets be read, or the other way round.
        Err(error) => return vec![format!("{error:#}")],
    };
    let real = !text.contains(SANDBOX);
    let mut wrong = Vec::new();
    if real != template.secrets.iter().any(|one| one.id == "ProviderKey") {
        wrong.push("the secret".to_owned());
    }
    let mut callers = 0;
    for function in &template.functions {
        let calls = function.variables.contains_key("PAYMENT_PROVIDER");
        let key = function.secrets.get("PROVIDER_KEY");
        callers += u32::from(calls);
        if key.is_some_and(|of| of != "ProviderKey") || key.is_some() != (calls && real) {
            wrong.push(format!("{} and its key", function.id));
        }
        // The preflight looks at every secret that there is, and at no other.
        let described = |right: &&local::template::Right| {
            right.action == "secretsmanager:DescribeSecret"
                && right.resource.ends_with("provider-key")
        };
        let listed = function.variables.get("SECRETS").map(|all| {
            let mut all = all.split(',');
            all.any(|secret| secret.ends_with("provider-key"))
        });
        if listed.is_some_and(|listed| listed != real)
            || function.rights.iter().any(|right| described(&right)) != (listed.is_some() && real)
        {
            wrong.push(format!("{} and the preflight", function.id));
        }
    }
    assert!(callers > 3, "{callers}");
    wrong
}

#[test]
fn a_real_providers_key_is_there_for_whoever_calls_it_and_for_nobody_else() {
    assert_eq!(astray(&text_of(TEMPLATE)), [""; 0]);
    let real = changed(TEMPLATE, SANDBOX, STRIPE);
    assert_eq!(astray(&real), [""; 0]);
    let key = "!If [TakesMoney, !Ref ProviderKey, !Ref AWS::NoValue]";
    for (from, to, said) in [
        (
            format!("          PROVIDER_KEY_SECRET: {key}\n"),
            String::new(),
            "no variable names it",
        ),
        (
            format!("                - {key}\n"),
            String::new(),
            "no policy lets it be read",
        ),
        // The list that the preflight goes by.
        (
            format!("              - {key}\n              - !GetAtt"),
            "              - !GetAtt".to_owned(),
            "AdminFunction and the preflight",
        ),
        (
            "    Condition: TakesMoney\n    Properties:\n      Description: Key with".to_owned(),
            "    Condition: KeepsWarm\n    Properties:\n      Description: Key with".to_owned(),
            "ProviderKey",
        ),
        (
            format!("PROVIDER_KEY_SECRET: {key}"),
            "PROVIDER_KEY_SECRET: !Ref WebhookSecrets".to_owned(),
            "no variable names it",
        ),
    ] {
        let broken = real.replacen(&from, &to, 1);
        assert_ne!(broken, real, "{from}");
        let wrong = astray(&broken);
        assert!(
            wrong.iter().any(|one| one.contains(said)),
            "{from}: {wrong:?}"
        );
    }
    // In the sandbox there is no key, and none is paid for.
    let always = changed(
        TEMPLATE,
        "    Condition: TakesMoney\n    Properties:\n      Description: Key with",
        "    Properties:\n      Description: Key with",
    );
    assert_eq!(astray(&always), ["the secret"]);
}

/// The one name that a value refers to, of those that are there.
fn one<'a>(of: &Value, among: &'a BTreeMap<&str, &Value>) -> Option<(&'a str, &'a Value)> {
    let named = names(of);
    let found = among.iter().find(|(id, _)| named.contains(**id));
    found.map(|(id, properties)| (*id, *properties))
}

/// Why calls do not get out of the network, or others get in.
fn shut(template: &Value, network: &Value) -> BTreeSet<String> {
    let subnets = all(network, "AWS::EC2::Subnet");
    let associations = all(network, "AWS::EC2::SubnetRouteTableAssociation");
    let routes = all(network, "AWS::EC2::Route");
    let nats = all(network, "AWS::EC2::NatGateway");
    let gateways = all(network, "AWS::EC2::InternetGateway");
    // Where a subnet's calls go that are for nobody in the network.
    let ways = |subnet: &str| -> Vec<&Value> {
        let tables: BTreeSet<_> = associations
            .values()
            .filter(|of| names(&of["SubnetId"]).contains(subnet))
            .flat_map(|of| names(&of["RouteTableId"]))
            .collect();
        let mut leading = routes.values().copied().collect::<Vec<_>>();
        leading.retain(|route| {
            route["DestinationCidrBlock"] == "0.0.0.0/0"
                && !names(&route["RouteTableId"]).is_disjoint(&tables)
        });
        leading
    };
    let mut wrong = BTreeSet::new();
    let mut say = |what: &str| {
        wrong.insert(what.to_owned());
    };
    let private = private(network);
    assert!(private.len() > 1, "{private:?}");
    for subnet in &private {
        let own = &subnets[subnet.as_str()];
        let [way] = *ways(subnet) else {
            say("no way out");
            continue;
        };
        if !way["GatewayId"].is_null() {
            say("a way in");
        }
        let Some((_, nat)) = one(&way["NatGatewayId"], &nats) else {
            say("no way out");
            continue;
        };
        let Some((public, place)) = one(&nat["SubnetId"], &subnets) else {
            say("a NAT that is nowhere");
            continue;
        };
        if private.contains(public) {
            say("a NAT that leads to itself");
        }
        if place["AvailabilityZone"] != own["AvailabilityZone"] {
            say("another zone's NAT");
        }
        let out = ways(public);
        if !out
            .iter()
            .any(|way| one(&way["GatewayId"], &gateways).is_some())
        {
            say("a NAT that leads nowhere");
        }
        if names(&nat["AllocationId"]).is_empty() {
            say("a NAT without an address");
        }
    }
    // It costs by the hour: with the sandbox there is none of it.
    let outward = [
        "AWS::EC2::EIP",
        "AWS::EC2::InternetGateway",
        "AWS::EC2::NatGateway",
        "AWS::EC2::Route",
        "AWS::EC2::VPCGatewayAttachment",
    ];
    for (id, resource) in section(network, "Resources") {
        let kind = resource["Type"].as_str().unwrap();
        let outward = outward.contains(&kind)
            || (kind == "AWS::EC2::Subnet" && !private.contains(id.as_str().unwrap()));
        if outward && resource["Condition"] != "Opens" {
            say("what is always there");
        }
    }
    let asked = &template["Resources"]["Network"]["Properties"]["Parameters"]["WayOut"];
    let Value::Tagged(choice) = asked else {
        panic!("{asked:?}")
    };
    if choice.value != parsed(r#"[TakesMoney, "true", "false"]"#) {
        say("who asks for it");
    }
    wrong
}

#[test]
fn calls_of_a_real_provider_get_out_of_each_zone_by_its_own_way() {
    let check = |file: &str, from: &str, to: &str| {
        let text = |own: &str| match own == file {
            true => changed(own, from, to),
            false => text_of(own),
        };
        shut(&parsed(&text(TEMPLATE)), &parsed(&text(NETWORK)))
    };
    assert_eq!(check("", "", ""), BTreeSet::new());
    let everywhere = "DestinationCidrBlock: 0.0.0.0/0";
    for (from, to, wrong) in [
        (
            format!("!Ref RoutesOfB, {everywhere}"),
            format!("!Ref RoutesOfC, {everywhere}"),
            "no way out",
        ),
        (
            "NatGatewayId: !Ref NatC".to_owned(),
            "GatewayId: !Ref Gateway".to_owned(),
            "a way in",
        ),
        (
            "NatGatewayId: !Ref NatC".to_owned(),
            "NatGatewayId: !Ref NatA".to_owned(),
            "another zone's NAT",
        ),
        (
            "SubnetId: !Ref PublicB, AllocationId".to_owned(),
            "SubnetId: !Ref SubnetB, AllocationId".to_owned(),
            "a NAT that leads to itself",
        ),
        (
            "GatewayId: !Ref Gateway}".to_owned(),
            "GatewayId: igw-1}".to_owned(),
            "a NAT that leads nowhere",
        ),
        (
            "AllocationId: !GetAtt AddressA.AllocationId".to_owned(),
            "ConnectivityType: private".to_owned(),
            "a NAT without an address",
        ),
        (
            "    Type: AWS::EC2::NatGateway\n    Condition: Opens".to_owned(),
            "    Type: AWS::EC2::NatGateway\n    Condition: New".to_owned(),
            "what is always there",
        ),
    ] {
        // The attachment names the gateway in the same way, and comes first.
        let said = match from.starts_with("GatewayId: !Ref Gateway") {
            true => check(
                NETWORK,
                &format!("{everywhere}, {from}"),
                &format!("{everywhere}, {to}"),
            ),
            false => check(NETWORK, &from, &to),
        };
        assert!(said.contains(wrong), "{to}: {said:?}");
    }
    let said = check(TEMPLATE, "[TakesMoney, \"true\"", "[KeepsWarm, \"true\"");
    assert!(said.contains("who asks for it"), "{said:?}");
}

/// The first address of a block, and how many it has.
type Block = (u64, u64);

/// The block that a subnet's addresses stand for, in a network with this one.
fn block(value: &Value, network: Block) -> Block {
    let Value::Tagged(call) = value else {
        panic!("{value:?}")
    };
    match (call.tag.to_string().as_str(), &call.value) {
        ("!Ref", name) if name == "Cidr" => network,
        ("!Select", Value::Sequence(asked)) => {
            let Value::Tagged(cidr) = &asked[1] else {
                panic!("{asked:?}")
            };
            let (within, size) = block(&cidr.value[0], network);
            let (count, bits) = (
                cidr.value[1].as_u64().unwrap(),
                cidr.value[2].as_u64().unwrap(),
            );
            let (n, part) = (asked[0].as_u64().unwrap(), 1 << bits);
            assert!(n < count && count * part <= size, "{value:?} of {size}");
            (within + n * part, part)
        }
        other => panic!("{other:?}"),
    }
}

/// CloudFormation would notice when a network is made, and no linter before.
#[test]
fn subnets_do_not_overlap_in_the_largest_and_the_smallest_network() {
    let overlaps = |text: &str, size: u64| {
        let network = parsed(text);
        let mut blocks: Vec<Block> = all(&network, "AWS::EC2::Subnet")
            .values()
            .map(|subnet| block(&subnet["CidrBlock"], (0, size)))
            .collect();
        blocks.sort_unstable();
        // The smallest that a subnet may be.
        assert!(blocks.iter().all(|(_, size)| *size >= 16));
        blocks.windows(2).any(|two| two[0].0 + two[0].1 > two[1].0)
    };
    for bits in [12, 16] {
        assert!(!overlaps(&text_of(NETWORK), 1 << bits), "{bits}");
    }
    let wrong = changed(NETWORK, "!Select [3, !Cidr", "!Select [2, !Cidr");
    assert!(overlaps(&wrong, 1 << 16));
}
