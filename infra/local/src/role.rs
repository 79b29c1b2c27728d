//! A function's role. Its calls to AWS are let through if the policies of the
//! template allow them, and refused as AWS refuses them if not: what works on
//! one machine has the rights that it needs in the cloud. What was used is
//! noted, so that a right that nothing uses is found too. No call leaves the
//! machine: a service that has no stand-in does not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::template::{ACCOUNT, REGION, Right};

/// Where stores are in the paths of that service.
const STORES: &str = "/key-value-stores/";

/// What a function may do, and what it did.
#[derive(Debug)]
pub(crate) struct Role {
    function: String,
    granted: BTreeSet<Right>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    used: BTreeSet<Right>,
    refused: BTreeSet<Right>,
}

impl Role {
    pub(crate) fn new(function: &str, granted: &BTreeSet<Right>) -> Arc<Self> {
        Arc::new(Self {
            function: function.to_owned(),
            granted: granted.clone(),
            seen: Mutex::default(),
        })
    }

    /// The function whose role it is, by its logical id.
    pub(crate) fn function(&self) -> &str {
        &self.function
    }

    /// The configuration with which the function calls AWS.
    pub(crate) fn guard(self: &Arc<Self>, aws: &SdkConfig) -> SdkConfig {
        let guarded = Guarded {
            role: Arc::clone(self),
            inner: aws.http_client().unwrap_or_else(testing::http_client),
        };
        aws.to_builder().http_client(guarded).build()
    }

    /// Rights that were granted and not used so far.
    pub(crate) fn unused(&self) -> BTreeSet<Right> {
        self.granted
            .difference(&self.seen().used)
            .cloned()
            .collect()
    }

    /// Rights that were needed so far and are not granted.
    pub(crate) fn refused(&self) -> BTreeSet<Right> {
        self.seen().refused.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a call does; what it lacks, if that is anything.
    fn note(&self, request: &HttpRequest) -> Option<Right> {
        let needed = needed(request);
        let mut seen = self.seen();
        if let Some(missing) = needed.difference(&self.granted).next() {
            seen.refused.insert(missing.clone());
            return Some(missing.clone());
        }
        seen.used.extend(needed);
        None
    }

    /// The answer to a call that lacks a right.
    fn refusal(&self, missing: &Right) -> Result<HttpResponse, ConnectorError> {
        let Right { action, resource } = missing;
        tracing::error!(function = self.function, action, resource, "not allowed");
        let message = format!(
            "{} is not authorized to perform: {action} on resource: {resource}",
            self.function
        );
        let body = json!({"__type": "AccessDeniedException", "message": message});
        let status =
            StatusCode::try_from(400).map_err(|error| ConnectorError::other(error.into(), None))?;
        let mut answer = HttpResponse::new(status, body.to_string().into());
        let headers = answer.headers_mut();
        headers.insert("content-type", "application/x-amz-json-1.0");
        Ok(answer)
    }
}

/// The rights that a call needs: a transaction and a batch need those of their
/// parts. A call of a service that is not known needs one that nobody has.
fn needed(request: &HttpRequest) -> BTreeSet<Right> {
    let target = request.headers().get("x-amz-target").unwrap_or_default();
    let (service, operation) = target.split_once('.').unwrap_or((target, ""));
    let bytes = request.body().bytes().unwrap_or_default();
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let right = |service: &str, operation: &str, name: &str| Right {
        action: format!("{service}:{operation}"),
        resource: format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"),
    };
    let on_table =
        |operation: &str, table: &str| right("dynamodb", operation, &format!("table/{table}"));
    let table_of = |part: &Value| part["TableName"].as_str().unwrap_or_default().to_owned();
    match (service, operation) {
        ("DynamoDB_20120810", "TransactWriteItems") => {
            let parts = body["TransactItems"].as_array().into_iter().flatten();
            parts
                .filter_map(Value::as_object)
                .flatten()
                .map(|(kind, part)| {
                    let operation = match kind.as_str() {
                        "ConditionCheck" => "ConditionCheckItem".to_owned(),
                        kind => format!("{kind}Item"),
                    };
                    on_table(&operation, &table_of(part))
                })
                .collect()
        }
        ("DynamoDB_20120810", "BatchGetItem") => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            tables
                .map(|(table, _)| on_table(operation, table))
                .collect()
        }
        ("DynamoDB_20120810", _) => [on_table(operation, &table_of(&body))].into(),
        ("AmazonSQS", _) => {
            let url = body["QueueUrl"].as_str().unwrap_or_default();
            let name = url.rsplit('/').next().unwrap_or_default();
            [right("sqs", operation, name)].into()
        }
        ("secretsmanager", _) => [Right {
            action: format!("{service}:{operation}"),
            resource: body["SecretId"].as_str().unwrap_or_default().to_owned(),
        }]
        .into(),
        ("", "") if request.uri().contains(STORES) => key_value_store(request),
        // The query protocol names the operation in a form, the newest one in
        // the path.
        ("", "") => match (form(bytes), request.uri().rsplit('/').next()) {
            (Some(form), _) => {
                let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
                let group = format!("replicationgroup:{}", field("ReplicationGroupId"));
                [right("elasticache", field("Action"), &group)].into()
            }
            (None, operation) => [right(
                "cloudwatch",
                operation.unwrap_or_default(),
                "alarm:*",
            )]
            .into(),
        },
        _ => [right(service, operation, "")].into(),
    }
}

/// CloudFront's key-value store: REST, the store's ARN in the path.
fn key_value_store(request: &HttpRequest) -> BTreeSet<Right> {
    let path = request
        .uri()
        .split_once(STORES)
        .map_or("", |(_, path)| path);
    let path = path.split('?').next().unwrap_or_default();
    let (store, key) = path.split_once('/').unwrap_or((path, ""));
    let operation = match (request.method(), key.is_empty()) {
        ("GET", true) => "DescribeKeyValueStore",
        ("GET", false) => "GetKey",
        ("PUT", false) => "PutKey",
        (other, _) => other,
    };
    [Right {
        action: format!("cloudfront-keyvaluestore:{operation}"),
        resource: percent_decode_str(store).decode_utf8_lossy().into_owned(),
    }]
    .into()
}

/// Reads a form that names an action; the values that are looked at hold
/// nothing that is encoded.
fn form(body: &[u8]) -> Option<BTreeMap<&str, String>> {
    let text = std::str::from_utf8(body).ok()?;
    let fields = text.split('&').filter_map(|field| field.split_once('='));
    let fields: BTreeMap<_, _> = fields
        .map(|(name, value)| (name, value.to_owned()))
        .collect();
    fields.contains_key("Action").then_some(fields)
}

/// Does a call stay on this machine?
fn stays_here(request: &HttpRequest) -> bool {
    request.uri().starts_with("http://127.0.0.1:")
}

#[derive(Debug)]
struct Guarded {
    role: Arc<Role>,
    inner: SharedHttpClient,
}

impl HttpClient for Guarded {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(GuardedConnector {
            role: Arc::clone(&self.role),
            inner: self.inner.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct GuardedConnector {
    role: Arc<Role>,
    inner: SharedHttpConnector,
}

impl HttpConnector for GuardedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        match self.role.note(&request) {
            Some(missing) => HttpConnectorFuture::ready(self.role.refusal(&missing)),
            None if stays_here(&request) => self.inner.call(request),
            None => {
                let gone = ConnectorError::other("there is no stand-in".into(), None);
                HttpConnectorFuture::ready(Err(gone))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(action: &str, name: &str) -> Right {
        let (service, _) = action.split_once(':').unwrap();
        Right {
            action: action.to_owned(),
            resource: format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"),
        }
    }

    fn request(target: &str, body: &Value) -> HttpRequest {
        let mut request = HttpRequest::new(body.to_string().into());
        let target = target.to_owned();
        request.headers_mut().insert("x-amz-target", target);
        request
    }

    #[test]
    fn a_transaction_needs_what_its_parts_need() {
        let body = json!({"TransactItems": [
            {"Put": {"TableName": "ledger"}},
            {"ConditionCheck": {"TableName": "other"}},
        ]});
        assert_eq!(
            needed(&request("DynamoDB_20120810.TransactWriteItems", &body)),
            [
                right("dynamodb:PutItem", "table/ledger"),
                right("dynamodb:ConditionCheckItem", "table/other"),
            ]
            .into()
        );
        let body = json!({"RequestItems": {"ledger": {}, "other": {}}});
        assert_eq!(
            needed(&request("DynamoDB_20120810.BatchGetItem", &body)),
            [
                right("dynamodb:BatchGetItem", "table/ledger"),
                right("dynamodb:BatchGetItem", "table/other"),
            ]
            .into()
        );
    }

    #[test]
    fn a_call_is_known_whatever_its_protocol() {
        let asked = json!({"SecretId": "arn:aws:secretsmanager:us-east-1:0:secret:a"});
        let [described] = needed(&request("secretsmanager.DescribeSecret", &asked))
            .into_iter()
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        assert_eq!(described.action, "secretsmanager:DescribeSecret");
        assert_eq!(asked["SecretId"], described.resource);
        let form = "Action=DescribeReplicationGroups&Version=2015-02-02&ReplicationGroupId=gates";
        assert_eq!(
            needed(&HttpRequest::new(form.into())),
            [right(
                "elasticache:DescribeReplicationGroups",
                "replicationgroup:gates"
            )]
            .into()
        );
        let mut cbor = HttpRequest::new(vec![0xa0].into());
        let path = "https://monitoring.us-east-1.amazonaws.com/service/GraniteServiceVersion20100801/operation/DescribeAlarms";
        cbor.set_uri(path).unwrap();
        assert_eq!(
            needed(&cbor),
            [right("cloudwatch:DescribeAlarms", "alarm:*")].into()
        );
        assert!(!stays_here(&cbor));
        let arn = "arn:aws:cloudfront::000000000000:key-value-store/a-b";
        for (method, path, operation) in [
            ("GET", "", "DescribeKeyValueStore"),
            ("GET", "/keys/sale%3As", "GetKey"),
            ("PUT", "/keys/sale%3As", "PutKey"),
        ] {
            let mut rest = HttpRequest::new("{}".into());
            rest.set_method(method).unwrap();
            let arn = arn.replace(':', "%3A").replace('/', "%2F");
            rest.set_uri(format!("http://127.0.0.1:1/key-value-stores/{arn}{path}"))
                .unwrap();
            let [needed] = needed(&rest)
                .into_iter()
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            assert_eq!(
                needed.action,
                format!("cloudfront-keyvaluestore:{operation}")
            );
        }
    }

    #[test]
    fn only_what_is_granted_on_that_resource_is_allowed() {
        let send = right("sqs:SendMessage", "claim-queue.fifo");
        let role = Role::new("ClaimFunction", &[send.clone()].into());
        let lacks = |operation: &str, queue: &str| {
            let url = format!("http://127.0.0.1/{ACCOUNT}/{queue}");
            let target = format!("AmazonSQS.{operation}");
            role.note(&request(&target, &json!({"QueueUrl": url})))
        };
        assert!(lacks("SendMessage", "other.fifo").is_some());
        assert!(lacks("DeleteMessage", "claim-queue.fifo").is_some());
        assert_eq!(role.unused(), [send].into(), "what was refused is not used");
        assert_eq!(lacks("SendMessage", "claim-queue.fifo"), None);
        assert!(role.unused().is_empty());
        assert_eq!(
            role.refused(),
            [
                right("sqs:DeleteMessage", "claim-queue.fifo"),
                right("sqs:SendMessage", "other.fifo"),
            ]
            .into()
        );
        // A service that the runner does not know.
        let unknown = role.note(&request("AmazonSNS.Publish", &json!({})));
        assert_eq!(unknown.unwrap().action, "AmazonSNS:Publish");
        let nameless = role.note(&HttpRequest::empty());
        assert!(nameless.is_some(), "nobody may what has no name");
    }
}
