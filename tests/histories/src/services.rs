//! DynamoDB and SQS in this process, behind the SDK's own client: what the
//! code sends is what is carried out, without sockets in between.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use dynoxide::Database;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The table's name.
pub const TABLE: &str = "ledger";

/// How long SQS knows a message's id, in seconds.
const REMEMBERED_S: i64 = 300;

/// A guard taken out of what is sent to the table. May change the request of
/// this operation; an answer of its own is given in place of the table's.
pub type Edit = fn(operation: &str, request: &mut Value) -> Option<Value>;

/// Table and queue.
#[derive(Clone)]
pub struct Services(Arc<Inner>);

struct Inner {
    database: Database,
    queue: Mutex<Fifo>,
    edit: Option<Edit>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

/// The groups of a FIFO queue.
#[derive(Debug, Default)]
pub struct Fifo {
    groups: BTreeMap<String, VecDeque<String>>,
    /// When each id was sent.
    seen: HashMap<String, i64>,
    /// How late it is, in seconds: time passes here as everywhere.
    pub now_s: i64,
}

impl Fifo {
    fn send(&mut self, group: &str, id: &str, body: &str) {
        let known = self.seen.get(id);
        if known.is_some_and(|sent| self.now_s - sent < REMEMBERED_S) {
            return;
        }
        self.seen.insert(id.to_owned(), self.now_s);
        let group = self.groups.entry(group.to_owned()).or_default();
        group.push_back(body.to_owned());
    }

    /// The first messages of a group.
    pub fn first(&self, group: &str, most: usize) -> Vec<String> {
        let bodies = self.groups.get(group).into_iter().flatten();
        bodies.take(most).cloned().collect()
    }

    /// Deletes the first of the messages with this body.
    pub fn delete(&mut self, group: &str, body: &str) {
        if let Some(bodies) = self.groups.get_mut(group)
            && let Some(at) = bodies.iter().position(|one| one == body)
        {
            bodies.remove(at);
        }
    }

    /// Messages of a group.
    pub fn count(&self, group: &str) -> usize {
        self.groups.get(group).map_or(0, VecDeque::len)
    }

    /// Nothing was ever sent.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Services {
    /// An empty table and an empty queue.
    pub fn new(edit: Option<Edit>) -> Self {
        let database = Database::memory().expect("a database");
        let table = json!({
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            "KeySchema": [
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
        });
        let table = serde_json::from_value(table).expect("a description");
        database.create_table(table).expect("a table");
        Self(Arc::new(Inner {
            database,
            queue: Mutex::default(),
            edit,
        }))
    }

    /// The queue.
    pub fn queue(&self) -> MutexGuard<'_, Fifo> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every row of a partition, read past the SDK and the ledger's code.
    ///
    /// # Panics
    /// The table does not answer.
    pub fn rows(&self, partition: &str) -> Vec<Value> {
        let query = json!({
            "TableName": TABLE,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": partition}},
            "ConsistentRead": true,
        });
        let query = serde_json::from_value(query).expect("a request");
        let answer = self.0.database.query(query).expect("an answer");
        let mut answer = serde_json::to_value(answer).expect("an answer");
        let Value::Array(items) = answer["Items"].take() else {
            return Vec::new();
        };
        items
            .into_iter()
            .map(|row| plain(json!({"M": row})))
            .collect()
    }

    fn answer(&self, request: &HttpRequest) -> (u16, String) {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        let (_, operation) = target.split_once('.').expect("a service and an operation");
        if operation == "SendMessage" {
            let message: Value = serde_json::from_slice(body).expect("a message");
            let text = |name: &str| message[name].as_str().expect("a member").to_owned();
            self.queue().send(
                &text("MessageGroupId"),
                &text("MessageDeduplicationId"),
                &text("MessageBody"),
            );
            return (200, json!({"MessageId": "stored"}).to_string());
        }
        let Some(edit) = self.0.edit else {
            return self.carry_out(operation, body);
        };
        let mut request: Value = serde_json::from_slice(body).expect("a request");
        match edit(operation, &mut request) {
            Some(answer) => (200, answer.to_string()),
            None => self.carry_out(operation, request.to_string().as_bytes()),
        }
    }

    fn carry_out(&self, operation: &str, body: &[u8]) -> (u16, String) {
        let database = &self.0.database;
        match operation {
            "BatchGetItem" => run(body, |request| database.batch_get_item(request)),
            "GetItem" => run(body, |request| database.get_item(request)),
            "PutItem" => run(body, |request| database.put_item(request)),
            "Query" => run(body, |request| database.query(request)),
            "TransactWriteItems" => run(body, |request| database.transact_write_items(request)),
            "UpdateItem" => run(body, |request| database.update_item(request)),
            other => panic!("the ledger does not use {other}"),
        }
    }
}

/// A value without the names of DynamoDB's types.
fn plain(typed: Value) -> Value {
    let Value::Object(typed) = typed else {
        panic!("{typed} is no value of DynamoDB");
    };
    let (kind, value) = typed.into_iter().next().expect("a value has a type");
    match (kind.as_str(), value) {
        ("N", Value::String(digits)) => Value::Number(digits.parse().expect("a number")),
        ("NULL", _) => Value::Null,
        ("M", Value::Object(members)) => members
            .into_iter()
            .map(|(name, member)| (name, plain(member)))
            .collect(),
        ("L", Value::Array(items)) => items.into_iter().map(plain).collect(),
        (_, value) => value,
    }
}

fn run<Q: DeserializeOwned, A: Serialize>(
    body: &[u8],
    work: impl FnOnce(Q) -> dynoxide::Result<A>,
) -> (u16, String) {
    let request = serde_json::from_slice(body).expect("a request");
    match work(request) {
        Ok(answer) => (200, serde_json::to_string(&answer).expect("an answer")),
        Err(error) => (error.status_code(), error.to_json()),
    }
}

impl HttpClient for Services {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Services {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (status, body) = self.answer(&request);
        let status = status.try_into().expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, body.into())))
    }
}
