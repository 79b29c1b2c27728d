//! What stands in front of the API in the cloud: the function that is tested here
//! is the one that is deployed, nothing is kept that must not be, and the page's
//! files are read through CloudFront alone. Each rule is also held against templates
//! that break it.

use serde_yaml_ng::Value;

use crate::graph::{changed, names, parsed, text_of};

const FILE: &str = "infra/edge.yaml";

/// Errors for which CloudFront takes a time of one's own.
const ERRORS: [u64; 11] = [400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504];

fn items(value: &Value) -> Vec<&Value> {
    value.as_sequence().into_iter().flatten().collect()
}

fn has(value: &Value, text: &str) -> bool {
    items(value).iter().any(|item| item.as_str() == Some(text))
}

/// The longest time for which a behaviour keeps an answer, in seconds.
fn kept(template: &Value, behaviour: &Value) -> Option<u64> {
    const DISABLED: &str = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad";
    let policy = &behaviour["CachePolicyId"];
    if policy.as_str() == Some(DISABLED) {
        return Some(0);
    }
    let name = names(policy).pop_first()?;
    template["Resources"][name.as_str()]["Properties"]["CachePolicyConfig"]["MaxTTL"].as_u64()
}

/// When a behaviour asks a function.
fn events(behaviour: &Value) -> Vec<String> {
    let associations = items(&behaviour["FunctionAssociations"]);
    let types = associations
        .into_iter()
        .filter_map(|one| one["EventType"].as_str());
    types.map(str::to_owned).collect()
}

/// The rules that a template breaks.
fn broken(template: &Value) -> Vec<&'static str> {
    const ALL_VIEWER_BUT_HOST: &str = "b689b0a8-53d0-40ab-baf2-68738e2966ac";
    let resources = &template["Resources"];
    let function = &resources["Function"]["Properties"];
    let store = &function["FunctionConfig"]["KeyValueStoreAssociations"];
    let front = &resources["Distribution"]["Properties"]["DistributionConfig"];
    let behaviours = items(&front["CacheBehaviors"]);
    let at = |path: &str| {
        behaviours
            .iter()
            .position(|one| one["PathPattern"].as_str() == Some(path))
    };
    let of = |path: &str| at(path).map(|place| behaviours[place]);
    let status = of("/v1/sales/*/status");
    let sales = of("/v1/sales/*");
    let rest = of("/v1/*");
    let errors = items(&front["CustomErrorResponses"]);
    let forgotten = |code: &u64| {
        errors.iter().any(|one| {
            one["ErrorCode"].as_u64() == Some(*code)
                && one["ErrorCachingMinTTL"].as_u64() == Some(0)
                && one["ResponseCode"].is_null()
        })
    };
    let page = &resources["Page"]["Properties"]["PublicAccessBlockConfiguration"];
    let blocked = [
        "BlockPublicAcls",
        "BlockPublicPolicy",
        "IgnorePublicAcls",
        "RestrictPublicBuckets",
    ];
    let statements = items(&resources["PagePolicy"]["Properties"]["PolicyDocument"]["Statement"]);
    let granted = statements.iter().filter(|one| one["Effect"] == "Allow");
    let ours = |one: &&&Value| {
        one["Principal"]["Service"] == "cloudfront.amazonaws.com"
            && one["Action"] == "s3:GetObject"
            && names(&one["Condition"]).contains("Distribution")
    };
    let is_plain = |one: &&Value| {
        one["ViewerProtocolPolicy"].as_str() == Some("https-only")
            && one["OriginRequestPolicyId"].as_str() == Some(ALL_VIEWER_BUT_HOST)
            && one["ResponseHeadersPolicyId"].is_null()
            && one["TargetOriginId"] == "api"
    };
    let api = items(&front["Origins"])
        .into_iter()
        .find(|one| one["Id"] == "api")
        .map(|one| &one["CustomOriginConfig"]);
    let rules = [
        (
            function["FunctionCode"].as_str() == Some(text_of("infra/edge/function.js").as_str()),
            "the function is the one that is tested",
        ),
        (
            function["FunctionConfig"]["Runtime"] == "cloudfront-js-2.0"
                && names(store) == ["Store".to_owned()].into(),
            "it has its store",
        ),
        (
            sales.is_some_and(|one| events(one) == ["viewer-request"])
                && behaviours
                    .iter()
                    .filter(|one| !events(one).is_empty())
                    .count()
                    == 1,
            "it is asked where it answers, and only there",
        ),
        (
            at("/v1/sales/*/status") < at("/v1/sales/*")
                && at("/v1/sales/*") < at("/v1/*")
                && at("/v1/sales/*/status").is_some(),
            "the more special comes first",
        ),
        (
            status.and_then(|one| kept(template, one)) == Some(1)
                && sales.and_then(|one| kept(template, one)) == Some(60)
                && rest.and_then(|one| kept(template, one)) == Some(0),
            "K05: nothing is kept longer than its kind",
        ),
        (
            [sales, rest].iter().all(|one| {
                one.is_some_and(|one| {
                    has(&one["AllowedMethods"], "POST") && has(&one["AllowedMethods"], "DELETE")
                })
            }),
            "calls that write pass",
        ),
        (ERRORS.iter().all(forgotten), "K05: no error is kept"),
        (
            behaviours.iter().all(is_plain),
            "the API hears every header, and says its own",
        ),
        (
            api.is_some_and(|one| one["OriginProtocolPolicy"] == "https-only")
                && front["DefaultCacheBehavior"]["ViewerProtocolPolicy"] == "redirect-to-https",
            "everything is encrypted",
        ),
        (
            blocked.iter().all(|name| page[*name] == true)
                && granted.clone().count() == 1
                && granted.clone().all(|one| ours(&one)),
            "the page's files are read through CloudFront alone",
        ),
    ];
    let broken = rules.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, rule)| rule).collect()
}

#[test]
fn k05_what_stands_in_front_is_what_is_tested_and_keeps_no_error() {
    assert_eq!(broken(&parsed(&text_of(FILE))), [""; 0]);
    for (from, to, rule) in [
        ("Date.now()", "Date.now() + 1", "the function is"),
        ("cloudfront-js-2.0", "cloudfront-js-1.0", "it has its store"),
        ("viewer-request", "viewer-response", "it is asked"),
        (
            "PathPattern: /v1/sales/*/status",
            "PathPattern: /v1/sales/*/state",
            "the more special",
        ),
        ("MaxTTL: 1\n", "MaxTTL: 2\n", "K05: nothing"),
        (
            "CachePolicyId: 4135ea2d-6df8-44a3-9df3-4b5a84be39ad",
            "CachePolicyId: !Ref OriginsWord",
            "K05: nothing",
        ),
        (", POST, DELETE]", ", DELETE]", "calls that write"),
        (
            "{ErrorCode: 503, ErrorCachingMinTTL: 0}",
            "{ErrorCode: 503, ErrorCachingMinTTL: 1}",
            "K05: no error",
        ),
        (
            "          - {ErrorCode: 404, ErrorCachingMinTTL: 0}\n",
            "",
            "K05: no error",
        ),
        (
            "OriginRequestPolicyId: b689b0a8-53d0-40ab-baf2-68738e2966ac\n",
            "OriginRequestPolicyId: 88a5eaf4-2fd4-4709-b370-b4c650ea3fcf\n",
            "the API hears",
        ),
        (
            "OriginProtocolPolicy: https-only",
            "OriginProtocolPolicy: match-viewer",
            "everything is encrypted",
        ),
        (
            "RestrictPublicBuckets: true",
            "RestrictPublicBuckets: false",
            "the page's files",
        ),
        (
            "distribution/${Distribution}",
            "distribution/*",
            "the page's files",
        ),
    ] {
        let found = broken(&parsed(&changed(FILE, from, to)));
        assert!(
            found.iter().any(|one| one.starts_with(rule)),
            "{to}: {found:?}"
        );
    }
}

/// What the publisher writes, and what it may write, if an edge is made and if
/// there was one.
fn told(template: &Value) -> bool {
    let publisher = &template["Resources"]["PublisherFunction"]["Properties"];
    let variable = &publisher["Environment"]["Variables"]["EDGE_STORE_ARN"];
    let statements = items(&publisher["Policies"][0]["Statement"]);
    let may = statements
        .into_iter()
        .find(|one| has(&one["Action"], "cloudfront-keyvaluestore:PutKey"));
    [Some(variable), may.map(|one| &one["Resource"])]
        .into_iter()
        .all(|value| {
            let names = value.map(names).unwrap_or_default();
            names.contains("Front") && names.contains("EdgeStoreArn")
        })
        && template["Resources"]["Front"]["Condition"] == "MakesEdge"
        && template["Parameters"]["Edge"]["Default"] == "false"
}

#[test]
fn the_publisher_writes_the_store_that_is_made_or_named() {
    const OWN: &str = "template.yaml";
    assert!(told(&parsed(&text_of(OWN))));
    for (from, to) in [
        (
            "!If [MakesEdge, !GetAtt Front.Outputs.StoreArn, !Ref EdgeStoreArn]",
            "!Ref EdgeStoreArn",
        ),
        (
            "                  - !GetAtt Front.Outputs.StoreArn\n",
            "                  - '*'\n",
        ),
        (
            "    Condition: MakesEdge\n    Properties:",
            "    Properties:",
        ),
    ] {
        assert!(!told(&parsed(&changed(OWN, from, to))), "{to}");
    }
}
