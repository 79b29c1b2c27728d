//! The preflight of a deployment, with stubs that answer as the documentation
//! says ElastiCache, Secrets Manager and CloudWatch do.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use admin_function::AdminFunction;
use api::HttpFunction;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use runtime::{Clock, Environment};
use serde_json::{Value, json};
use testing::{World, with_variables};
use tokio::net::TcpListener;

const ROUTE: &str = "GET /v1/admin/sales/{sale}/preflight";
const SECRETS: &str = "arn:aws:secretsmanager:eu-west-1:000000000000:secret:PassKeys-a1b2c3,\
                       arn:aws:secretsmanager:eu-west-1:000000000000:secret:EdgeKey-d4e5f6";

/// What the services say.
#[derive(Clone)]
struct Cloud {
    /// Members of the replication group, in place of what is usual.
    group: BTreeMap<&'static str, &'static str>,
    /// Zones of the nodes of each shard.
    zones: Vec<Vec<&'static str>>,
    /// Members of each secret.
    secret: Value,
    /// State of each alarm.
    alarms: Vec<&'static str>,
    alarms_act: bool,
    /// Services that refuse, by the name of what they are asked.
    refuses: &'static str,
}

impl Cloud {
    fn well() -> Self {
        Self {
            group: BTreeMap::new(),
            zones: vec![
                vec!["eu-west-1a", "eu-west-1b"],
                vec!["eu-west-1b", "eu-west-1c"],
            ],
            secret: json!({"VersionIdsToStages": {"EXAMPLE1": ["AWSPREVIOUS"], "EXAMPLE2": ["AWSCURRENT"]}}),
            alarms: vec!["OK", "OK"],
            alarms_act: true,
            refuses: "",
        }
    }

    async fn start(self) -> String {
        let cloud = Arc::new(self);
        let router =
            Router::new().fallback(async move |uri: Uri, headers: HeaderMap, body: Bytes| {
                cloud.answer(&uri, &headers, &body)
            });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn answer(&self, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Response {
        let target = headers
            .get("x-amz-target")
            .map(|target| target.to_str().unwrap());
        if let Some(target) = target {
            assert_eq!(target, "secretsmanager.DescribeSecret");
            return self
                .secret(&serde_json::from_slice(body).unwrap())
                .into_response();
        }
        if uri.path().ends_with("/operation/DescribeAlarms") {
            return self.alarms().into_response();
        }
        let form = std::str::from_utf8(body).unwrap();
        assert!(form.contains("Action=DescribeReplicationGroups"), "{form}");
        assert!(form.contains("ReplicationGroupId=gates"), "{form}");
        self.replication_group().into_response()
    }

    fn secret(&self, asked: &Value) -> (StatusCode, String) {
        let id = asked["SecretId"].as_str().unwrap();
        if self.refuses == "DescribeSecret" {
            let error = json!({"__type": "AccessDeniedException", "Message": "not authorized"});
            return (StatusCode::BAD_REQUEST, error.to_string());
        }
        if self.secret.is_null() {
            let error = json!({"__type": "ResourceNotFoundException", "Message": "can't find it"});
            return (StatusCode::BAD_REQUEST, error.to_string());
        }
        let mut answer = json!({"ARN": id, "Name": "PassKeys", "CreatedDate": 1.523477145713e9});
        for (name, value) in self.secret.as_object().unwrap() {
            answer[name] = value.clone();
        }
        (StatusCode::OK, answer.to_string())
    }

    fn alarms(&self) -> (StatusCode, [(&'static str, &'static str); 2], Vec<u8>) {
        let headers = [
            ("smithy-protocol", "rpc-v2-cbor"),
            ("content-type", "application/cbor"),
        ];
        if self.refuses == "DescribeAlarms" {
            let error = json!({"__type": "AccessDenied", "message": "not authorized"});
            return (StatusCode::FORBIDDEN, headers, cbor(&error));
        }
        let alarms = self.alarms.iter().enumerate().map(|(n, state)| {
            json!({
                "AlarmName": format!("shop-alarm-{n}"),
                "StateValue": state,
                "ActionsEnabled": self.alarms_act,
            })
        });
        let answer = json!({"MetricAlarms": alarms.collect::<Vec<_>>(), "CompositeAlarms": []});
        (StatusCode::OK, headers, cbor(&answer))
    }

    fn replication_group(&self) -> (StatusCode, String) {
        if self.refuses == "DescribeReplicationGroups" {
            let error = "<ErrorResponse xmlns=\"http://elasticache.amazonaws.com/doc/2015-02-02/\">\
                         <Error><Type>Sender</Type><Code>ReplicationGroupNotFoundFault</Code>\
                         <Message>ReplicationGroup gates not found.</Message></Error>\
                         <RequestId>r</RequestId></ErrorResponse>";
            return (StatusCode::NOT_FOUND, error.to_owned());
        }
        let mut members = BTreeMap::from([
            ("ReplicationGroupId", "gates"),
            ("Status", "available"),
            ("AutomaticFailover", "enabled"),
            ("MultiAZ", "enabled"),
            ("ClusterEnabled", "true"),
            ("CacheNodeType", "cache.r7g.large"),
            ("AuthTokenEnabled", "true"),
            ("TransitEncryptionEnabled", "true"),
            ("TransitEncryptionMode", "required"),
        ]);
        members.extend(self.group.clone());
        let members = members
            .iter()
            .map(|(name, value)| format!("<{name}>{value}</{name}>"));
        let shards = self.zones.iter().enumerate().map(|(n, zones)| {
            let nodes = zones.iter().map(|zone| {
                format!(
                    "<NodeGroupMember><CacheClusterId>gates-000{n}-001</CacheClusterId>\
                     <PreferredAvailabilityZone>{zone}</PreferredAvailabilityZone>\
                     <CacheNodeId>0001</CacheNodeId></NodeGroupMember>"
                )
            });
            format!(
                "<NodeGroup><NodeGroupId>000{n}</NodeGroupId><Status>available</Status>\
                 <NodeGroupMembers>{}</NodeGroupMembers></NodeGroup>",
                nodes.collect::<String>()
            )
        });
        let answer = format!(
            "<DescribeReplicationGroupsResponse xmlns=\"http://elasticache.amazonaws.com/doc/2015-02-02/\">\
             <DescribeReplicationGroupsResult><ReplicationGroups><ReplicationGroup>{}\
             <NodeGroups>{}</NodeGroups></ReplicationGroup></ReplicationGroups>\
             </DescribeReplicationGroupsResult><ResponseMetadata><RequestId>r</RequestId>\
             </ResponseMetadata></DescribeReplicationGroupsResponse>",
            members.collect::<String>(),
            shards.collect::<String>()
        );
        (StatusCode::OK, answer)
    }
}

/// What CloudWatch speaks: texts, flags, lists and maps of it.
fn cbor(value: &Value) -> Vec<u8> {
    fn head(kind: u8, length: usize) -> Vec<u8> {
        let [high, low] = u16::try_from(length).unwrap().to_be_bytes();
        vec![kind << 5 | 25, high, low]
    }
    fn text(text: &str) -> Vec<u8> {
        [head(3, text.len()), text.as_bytes().to_vec()].concat()
    }
    match value {
        Value::Bool(flag) => vec![if *flag { 0xf5 } else { 0xf4 }],
        Value::String(one) => text(one),
        Value::Array(items) => {
            let items = items.iter().flat_map(cbor);
            head(4, value.as_array().unwrap().len())
                .into_iter()
                .chain(items)
                .collect()
        }
        Value::Object(members) => {
            let all = members
                .iter()
                .flat_map(|(name, value)| [text(name), cbor(value)].concat());
            head(5, members.len()).into_iter().chain(all).collect()
        }
        other => panic!("{other}"),
    }
}

/// A loaded sale that opens tomorrow.
async fn world() -> World {
    let tomorrow = Clock::system().now() + SignedDuration::from_hours(24);
    let config = json!({"opens_at": tomorrow.to_string(), "closes_at": (tomorrow + SignedDuration::from_hours(1)).to_string()});
    World::new(testing::gates::shared(), &[6, 4], config).await
}

/// All checks, by name: result and what was found.
async fn preflight(
    environment: &Environment,
    world: &World,
    query: &str,
) -> (bool, BTreeMap<String, (String, String)>) {
    let function = AdminFunction::start(environment).await.unwrap();
    let mut change = testing::session("merchant", &["sales.admin"]);
    change["rawQueryString"] = query.into();
    let event = testing::http_event(ROUTE, &json!({"sale": world.sale.to_string()}), change);
    let request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let response = api::invoke(&function, request).await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(response.status(), 200, "{body:#}");
    let checks = body["checks"].as_array().unwrap().iter().map(|check| {
        let text = |name: &str| check[name].as_str().unwrap().to_owned();
        // What to do is said where something is to be done.
        assert_eq!(
            check["result"] == "ok",
            check["advice"].is_null(),
            "{check:#}"
        );
        (text("check"), (text("result"), text("found")))
    });
    (body["ready"] == true, checks.collect())
}

/// The environment of a function that is deployed into this cloud.
async fn deployed(world: &World, cloud: Cloud) -> Environment {
    let url = cloud.start().await;
    let environment = with_variables(
        &world.environment,
        &[
            ("GATE_CLUSTER", "gates"),
            ("ALARM_PREFIX", "shop-"),
            ("SECRETS", SECRETS),
            ("SHOPPER_CONCURRENCY", "1000"),
            ("WARM_ENVIRONMENTS", "100"),
        ],
    );
    let aws = environment.aws.to_builder().endpoint_url(url).build();
    Environment { aws, ..environment }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_is_well_is_ready() {
    let world = world().await;
    let environment = deployed(&world, Cloud::well()).await;
    let query = "shoppers=5000&seconds=10&api_quota=10000";
    let (ready, checks) = preflight(&environment, &world, query).await;
    assert!(ready, "{checks:#?}");
    let not_ok: Vec<_> = checks
        .iter()
        .filter(|(_, (result, _))| result != "ok")
        .collect();
    // The database in this process does not tell what it can take.
    let names: Vec<_> = not_ok.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["warm_writes"], "{not_ok:#?}");
    let found = |name: &str| checks[name].1.as_str();
    for (name, expected) in [
        ("alarms", "2 are in OK"),
        (
            "cluster",
            "available, cluster mode, 2 shards of cache.r7g.large",
        ),
        ("encryption", "TLS required, password required"),
        ("eviction", "noeviction"),
        ("failover", "automatic failover on, several zones on"),
        (
            "order_rate",
            "10 orders at 1000 a second take 1 s; there are 600 s to pay",
        ),
        ("replicas", "replicas acknowledge for 2 of 2 buckets"),
        ("secrets", "2 are there"),
        ("table", "ACTIVE, on demand"),
        ("zones", "2 of 2 shards have nodes in several zones"),
    ] {
        assert_eq!(found(name), expected, "{name}");
    }
    assert!(
        found("engine").ends_with("on 1 of 1 primaries"),
        "{}",
        found("engine")
    );
    let documented = include_str!("../../../infra/openapi.yaml");
    let line = documented
        .lines()
        .find(|line| line.contains("check: {enum: ["))
        .unwrap();
    let (_, names) = line.split_once('[').unwrap();
    let mut names: Vec<_> = names.trim_end_matches(['}', ']']).split(", ").collect();
    names.sort_unstable();
    assert_eq!(
        names,
        checks.keys().collect::<Vec<_>>(),
        "openapi.yaml names them"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named() {
    let world = world().await;
    let well = Cloud::well();
    let group = |name, value| Cloud {
        group: [(name, value)].into(),
        ..well.clone()
    };
    let gone =
        json!({"DeletedDate": 1.524085349095e9, "VersionIdsToStages": {"E": ["AWSCURRENT"]}});
    let empty = json!({"VersionIdsToStages": {}});
    for (cloud, name, found) in [
        (group("Status", "modifying"), "cluster", "modifying"),
        (
            group("ClusterEnabled", "false"),
            "cluster",
            "no cluster mode",
        ),
        (
            group("AutomaticFailover", "disabled"),
            "failover",
            "automatic failover off",
        ),
        (
            group("AutomaticFailover", "enabling"),
            "failover",
            "automatic failover off",
        ),
        (
            group("MultiAZ", "disabled"),
            "failover",
            "several zones off",
        ),
        (
            group("TransitEncryptionMode", "preferred"),
            "encryption",
            "TLS not required",
        ),
        (
            group("AuthTokenEnabled", "false"),
            "encryption",
            "password not required",
        ),
        (
            Cloud {
                zones: vec![vec!["a", "b"], vec!["a", "a"]],
                ..well.clone()
            },
            "zones",
            "1 of 2 shards",
        ),
        (
            Cloud {
                zones: vec![vec!["a"]],
                ..well.clone()
            },
            "zones",
            "0 of 1 shards",
        ),
        (
            Cloud {
                zones: vec![],
                ..well.clone()
            },
            "zones",
            "0 of 0 shards",
        ),
        (
            Cloud {
                secret: Value::Null,
                ..well.clone()
            },
            "secrets",
            "PassKeys-a1b2c3 is not there",
        ),
        (
            Cloud {
                secret: gone,
                ..well.clone()
            },
            "secrets",
            "EdgeKey-d4e5f6 is to be deleted",
        ),
        (
            Cloud {
                secret: empty,
                ..well.clone()
            },
            "secrets",
            "has no value",
        ),
        (
            Cloud {
                alarms: vec!["OK", "ALARM"],
                ..well.clone()
            },
            "alarms",
            "sounding: shop-alarm-1",
        ),
        (
            Cloud {
                alarms: vec![],
                ..well.clone()
            },
            "alarms",
            "there are none",
        ),
        (
            Cloud {
                alarms_act: false,
                ..well.clone()
            },
            "alarms",
            "told to nobody: shop-alarm-0",
        ),
    ] {
        let environment = deployed(&world, cloud).await;
        let (ready, checks) = preflight(&environment, &world, "").await;
        assert!(!ready, "{name}: {found}");
        let wrong: Vec<_> = checks
            .iter()
            .filter(|(_, (result, _))| result == "not_ok")
            .collect();
        assert_eq!(wrong.len(), 1, "{wrong:#?}");
        assert_eq!(wrong[0].0, name, "{wrong:#?}");
        assert!(wrong[0].1.1.contains(found), "{wrong:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_asked_is_not_checked() {
    let world = world().await;
    let cluster = ["cluster", "encryption", "failover", "zones"].as_slice();
    let well = Cloud::well();
    for (cloud, names, found) in [
        (
            Cloud {
                refuses: "DescribeReplicationGroups",
                ..well.clone()
            },
            cluster,
            "ReplicationGroupNotFoundFault",
        ),
        (
            Cloud {
                refuses: "DescribeSecret",
                ..well.clone()
            },
            &["secrets"],
            "AccessDeniedException",
        ),
        (
            Cloud {
                refuses: "DescribeAlarms",
                ..well.clone()
            },
            &["alarms"],
            "AccessDenied",
        ),
        (
            Cloud {
                alarms: vec!["OK", "INSUFFICIENT_DATA"],
                ..well.clone()
            },
            &["alarms"],
            "1 of 2 have no data yet: shop-alarm-1",
        ),
    ] {
        let environment = deployed(&world, cloud).await;
        let (ready, checks) = preflight(&environment, &world, "").await;
        assert!(ready, "what is not known is no fault");
        for name in names {
            assert_eq!(
                checks[*name],
                ("not_checked".to_owned(), found.to_owned()),
                "{name}"
            );
        }
    }
    // Nothing is named, as on one machine; and a sale's own checks go on.
    let (ready, checks) = preflight(&world.environment, &world, "").await;
    assert!(ready, "{checks:#?}");
    for name in [
        "alarms",
        "api_rate",
        "cluster",
        "concurrency",
        "failover",
        "secrets",
        "zones",
    ] {
        assert_eq!(checks[name].0, "not_checked", "{name}");
    }
    for name in [
        "clock",
        "engine",
        "eviction",
        "gates",
        "placement",
        "replicas",
        "stock",
        "table",
    ] {
        assert_eq!(checks[name].0, "ok", "{name}: {checks:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_off_is_told() {
    let world = world().await;
    for ms in [-2_000, 2_000] {
        let off = world.later(SignedDuration::from_millis(ms));
        let (ready, checks) = preflight(&off, &world, "").await;
        assert!(!ready);
        assert_eq!(checks["clock"].0, "not_ok", "{checks:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_is_for_rehearsals() {
    let world = world().await;
    let launch = with_variables(&world.environment, &[("REHEARSAL", "false")]);
    let (ready, checks) = preflight(&launch, &world, "").await;
    assert!(!ready);
    let expected = ("not_ok".to_owned(), "sandbox".to_owned());
    assert_eq!(checks["payment_provider"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_costs_nothing_needs_no_provider() {
    let tomorrow = Clock::system().now() + SignedDuration::from_hours(24);
    let close = tomorrow + SignedDuration::from_hours(1);
    let free = json!({"opens_at": tomorrow.to_string(), "closes_at": close.to_string(),
        "price": {"amount": 0, "currency": "INR"}});
    let world = World::new(testing::gates::shared(), &[6, 4], free).await;
    let launch = with_variables(&world.environment, &[("REHEARSAL", "false")]);
    let (_, checks) = preflight(&launch, &world, "").await;
    let expected = ("ok".to_owned(), "none is asked: the price is 0".to_owned());
    assert_eq!(checks["payment_provider"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forecast_is_made_of_whole_numbers() {
    let world = world().await;
    let function = AdminFunction::start(&world.environment).await.unwrap();
    for (name, value) in [
        ("shoppers", "0"),
        ("shoppers", "1000000001"),
        ("shoppers", "many"),
        ("units", "100001"),
        ("seconds", "-1"),
        ("api_quota", "1.5"),
        ("concurrency_quota", ""),
    ] {
        let mut change = testing::session("merchant", &["sales.admin"]);
        change["rawQueryString"] = format!("{name}={value}").into();
        let event = testing::http_event(ROUTE, &json!({"sale": world.sale.to_string()}), change);
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        let response = api::invoke(&function, request).await;
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(
            (response.status().as_u16(), &body["errors"][0]["field"]),
            (422, &name.into()),
            "{body:#}"
        );
    }
}
