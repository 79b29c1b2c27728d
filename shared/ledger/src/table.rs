//! The table: reads, conditional writes, transactions, and how they fail.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, BillingMode, ConditionCheck, KeysAndAttributes, Put,
    ReturnValuesOnConditionCheckFailure, TableWarmThroughputDescription, TransactWriteItem, Update,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::Error;
use crate::key::Key;

/// A row as DynamoDB holds it.
pub type Item = HashMap<String, AttributeValue>;

/// How often a request is tried that the service, or other writes, put off.
const ATTEMPTS: u32 = 8;

/// Rows that one batch may read.
const READS_MAX: usize = 100;

/// The first pause between attempts; doubled each time, with jitter.
const PAUSE: Duration = Duration::from_millis(10);

/// Why one part of a transaction was refused.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// It was not.
    None,
    /// Its condition did not hold; the row as it is, if there is one.
    Condition(Option<Item>),
}

/// The table as the service describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// `ACTIVE`, or it is being made, changed or deleted.
    pub status: String,
    /// It grows with its load: capacity is not set by hand.
    pub on_demand: bool,
    /// Write units a second that it takes at once; none where the service
    /// does not tell.
    pub warm_writes: Option<u64>,
    /// Read units a second that it gives at once; none where the service does
    /// not tell.
    pub warm_reads: Option<u64>,
}

/// The one table.
#[derive(Debug, Clone)]
pub struct Table {
    client: Client,
    name: String,
}

impl Table {
    /// A table of this name.
    pub fn new(client: Client, name: &str) -> Self {
        Self {
            client,
            name: name.to_owned(),
        }
    }

    /// The table itself.
    ///
    /// # Errors
    /// No answer.
    pub async fn describe(&self) -> Result<Description, Error> {
        let asked = self.client.describe_table().table_name(&self.name);
        let answer = asked.send().await.map_err(failure)?;
        let table = answer
            .table
            .ok_or_else(|| Error::Unavailable("it is not described".to_owned()))?;
        let billing = table.billing_mode_summary.and_then(|one| one.billing_mode);
        let warm = table.warm_throughput;
        let units = |of: fn(&TableWarmThroughputDescription) -> Option<i64>| {
            warm.as_ref()
                .and_then(of)
                .and_then(|units| units.try_into().ok())
        };
        Ok(Description {
            status: table
                .table_status
                .map_or_else(String::new, |status| status.as_str().to_owned()),
            on_demand: billing == Some(BillingMode::PayPerRequest),
            warm_writes: units(|warm| warm.write_units_per_second),
            warm_reads: units(|warm| warm.read_units_per_second),
        })
    }

    /// Reads a row, consistently: a decision is never made on an old one.
    ///
    /// # Errors
    /// No answer, or the row is not a `T`.
    pub async fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, Error> {
        self.read(key, true).await
    }

    /// Reads a row that may be a moment old, at half the price: for what is
    /// shown, never for what is decided.
    ///
    /// # Errors
    /// No answer, or the row is not a `T`.
    pub async fn get_recent<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, Error> {
        self.read(key, false).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        key: &Key,
        consistent: bool,
    ) -> Result<Option<T>, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.name)
            .set_key(Some(attributes(key)))
            .consistent_read(consistent)
            .send()
            .await
            .map_err(failure)?;
        answer.item.map(from_item).transpose()
    }

    /// Reads rows by their keys, consistently, in no order; those that do not
    /// exist are left out. Each key may be named once.
    ///
    /// # Errors
    /// No answer, or the service left keys out for longer than the attempts
    /// last.
    pub async fn get_many(&self, keys: &[Key]) -> Result<Vec<Item>, Error> {
        let mut rows = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(READS_MAX) {
            let mut keys = Some(chunk.iter().map(attributes).collect::<Vec<_>>());
            let mut attempt = 0;
            while let Some(asked) = keys.take() {
                if attempt == ATTEMPTS {
                    return Err(Error::Unavailable("keys were left out".to_owned()));
                }
                pause(attempt).await;
                attempt += 1;
                let request = KeysAndAttributes::builder()
                    .set_keys(Some(asked))
                    .consistent_read(true)
                    .build()
                    .map_err(|error| Error::Broken(error.to_string()))?;
                let batch = self.client.batch_get_item();
                let answer = batch.request_items(&self.name, request).send().await;
                let answer = answer.map_err(failure)?;
                rows.extend(
                    answer
                        .responses
                        .into_iter()
                        .flatten()
                        .flat_map(|(_, rows)| rows),
                );
                let left = answer.unprocessed_keys.into_iter().flatten();
                keys = left
                    .map(|(_, left)| left.keys)
                    .find(|left| !left.is_empty());
            }
        }
        Ok(rows)
    }

    /// Reads all rows of a partition whose sort key starts with `prefix`,
    /// consistently.
    ///
    /// # Errors
    /// No answer.
    pub async fn query(&self, pk: &str, prefix: &str) -> Result<Vec<Item>, Error> {
        let mut rows = Vec::new();
        let mut start = None;
        loop {
            let mut query = self
                .client
                .query()
                .table_name(&self.name)
                .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
                .set_exclusive_start_key(start)
                .consistent_read(true);
            query = if prefix.is_empty() {
                query.key_condition_expression("pk = :pk")
            } else {
                query
                    .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                    .expression_attribute_values(":prefix", AttributeValue::S(prefix.to_owned()))
            };
            let page = query.send().await.map_err(failure)?;
            rows.extend(page.items.unwrap_or_default());
            match page.last_evaluated_key {
                Some(key) if !key.is_empty() => start = Some(key),
                _ => return Ok(rows),
            }
        }
    }

    /// Writes a transaction. A single part is written by the plain call: the
    /// service counts a write inside a transaction twice, and most rows of a
    /// sale, passes and entries, are written alone.
    ///
    /// A write whose answer was lost may be refused by its own row when it is
    /// sent again: whose condition can be met only once reads the row, here or
    /// from the reason.
    ///
    /// `Ok(Ok(()))`: written. `Ok(Err(reasons))`: refused, one reason for each
    /// part. Conflicts, throttling and reasons that are missing are tried
    /// again with growing pauses; they say nothing about conditions.
    ///
    /// # Errors
    /// No answer within the attempts, or a request that DynamoDB refuses.
    pub async fn write(&self, transaction: &Transaction) -> Result<Result<(), Vec<Reason>>, Error> {
        let parts: Vec<_> = transaction
            .parts
            .iter()
            .map(|part| part.build(&self.name))
            .collect();
        let mut last = Error::Unavailable("no attempt was made".to_owned());
        for attempt in 0..ATTEMPTS {
            pause(attempt).await;
            let refusal = match self.send(&parts).await {
                Ok(()) => return Ok(Ok(())),
                Err(Failure::Refused(refusal)) => refusal,
                Err(Failure::Other(error)) if error.is_retryable() => {
                    last = error;
                    continue;
                }
                Err(Failure::Other(error)) => return Err(error),
            };
            match judge(refusal, parts.len()) {
                Judgement::Refused(reasons) => return Ok(Err(reasons)),
                Judgement::TryAgain(why) => last = Error::Unavailable(why),
                Judgement::Invalid(why) => return Err(Error::Broken(why)),
            }
        }
        Err(last)
    }

    async fn send(&self, parts: &[TransactWriteItem]) -> Result<(), Failure> {
        match parts {
            [TransactWriteItem { put: Some(put), .. }] => self.put(put.clone()).await,
            [
                TransactWriteItem {
                    update: Some(update),
                    ..
                },
            ] => self.update(update.clone()).await,
            _ => self
                .client
                .transact_write_items()
                .set_transact_items(Some(parts.to_vec()))
                .send()
                .await
                .map(drop)
                .map_err(Failure::from),
        }
    }

    async fn put(&self, part: Put) -> Result<(), Failure> {
        self.client
            .put_item()
            .table_name(part.table_name)
            .set_item(Some(part.item))
            .set_condition_expression(part.condition_expression)
            .set_expression_attribute_names(part.expression_attribute_names)
            .set_expression_attribute_values(part.expression_attribute_values)
            .set_return_values_on_condition_check_failure(
                part.return_values_on_condition_check_failure,
            )
            .send()
            .await
            .map(drop)
            .map_err(Failure::from)
    }

    async fn update(&self, part: Update) -> Result<(), Failure> {
        self.client
            .update_item()
            .table_name(part.table_name)
            .set_key(Some(part.key))
            .update_expression(part.update_expression)
            .set_condition_expression(part.condition_expression)
            .set_expression_attribute_names(part.expression_attribute_names)
            .set_expression_attribute_values(part.expression_attribute_values)
            .set_return_values_on_condition_check_failure(
                part.return_values_on_condition_check_failure,
            )
            .send()
            .await
            .map(drop)
            .map_err(Failure::from)
    }

    /// Writes a transaction whose conditions are expected to hold.
    ///
    /// # Errors
    /// [`Error::Conflict`] if one did not.
    pub async fn write_or_conflict(&self, transaction: &Transaction) -> Result<(), Error> {
        self.write(transaction).await?.map_err(|_| Error::Conflict)
    }
}

/// None before the first attempt, then ever longer ones, with jitter.
async fn pause(attempt: u32) {
    if attempt > 0 {
        let longest = PAUSE * 2u32.pow(attempt - 1);
        tokio::time::sleep(longest.mul_f64(rand::random_range(0.5..1.0))).await;
    }
}

/// Code and row of each reason why a write was refused, in the order of its
/// parts.
type Cancellation = Vec<(String, Option<Item>)>;

/// How a write failed.
enum Failure {
    /// Its conditions, or other writes to the same rows.
    Refused(Cancellation),
    /// Before they were looked at.
    Other(Error),
}

impl Failure {
    /// A single part says by its own exceptions what a transaction says in
    /// its reasons.
    fn condition(row: Option<Item>) -> Self {
        Self::Refused(vec![("ConditionalCheckFailed".to_owned(), row)])
    }
}

impl<R: std::fmt::Debug> From<SdkError<TransactWriteItemsError, R>> for Failure {
    fn from(error: SdkError<TransactWriteItemsError, R>) -> Self {
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                let reasons = cancelled.cancellation_reasons().iter();
                Self::Refused(
                    reasons
                        .map(|reason| {
                            (reason.code.clone().unwrap_or_default(), reason.item.clone())
                        })
                        .collect(),
                )
            }
            _ => Self::Other(failure(error)),
        }
    }
}

impl<R: std::fmt::Debug> From<SdkError<PutItemError, R>> for Failure {
    fn from(error: SdkError<PutItemError, R>) -> Self {
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                Self::condition(failed.item.clone())
            }
            _ => Self::Other(failure(error)),
        }
    }
}

impl<R: std::fmt::Debug> From<SdkError<UpdateItemError, R>> for Failure {
    fn from(error: SdkError<UpdateItemError, R>) -> Self {
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                Self::condition(failed.item.clone())
            }
            _ => Self::Other(failure(error)),
        }
    }
}

/// What a cancelled transaction means.
#[derive(Debug, PartialEq)]
enum Judgement {
    Refused(Vec<Reason>),
    TryAgain(String),
    Invalid(String),
}

/// All kinds of refusal share one exception; only the reasons tell a business
/// answer from bad luck. Any bad luck among them, or a list that does not fit
/// the parts, leaves the conditions undecided.
fn judge(reasons: Cancellation, parts: usize) -> Judgement {
    if let Some((code, _)) = reasons
        .iter()
        .find(|(code, _)| code == "ValidationError" || code == "ItemCollectionSizeLimitExceeded")
    {
        return Judgement::Invalid(code.clone());
    }
    let decided = reasons.len() == parts
        && reasons
            .iter()
            .all(|(code, _)| code == "None" || code == "ConditionalCheckFailed")
        && reasons
            .iter()
            .any(|(code, _)| code == "ConditionalCheckFailed");
    if !decided {
        let codes: Vec<_> = reasons.into_iter().map(|(code, _)| code).collect();
        return Judgement::TryAgain(format!("cancelled: {}", codes.join(" ")));
    }
    let reasons = reasons.into_iter().map(|(code, item)| {
        if code == "None" {
            Reason::None
        } else {
            Reason::Condition(item.filter(|row| !row.is_empty()))
        }
    });
    Judgement::Refused(reasons.collect())
}

/// Writes that happen together or not at all; at most 100.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Kind {
    Put(Item),
    Update(String),
    Check,
}

#[derive(Debug, Clone)]
struct Part {
    key: Key,
    kind: Kind,
    condition: Option<String>,
    names: Vec<(String, String)>,
    values: Vec<(String, AttributeValue)>,
}

impl Transaction {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a whole row.
    ///
    /// # Errors
    /// The row can't be written as an item.
    pub fn put(&mut self, key: &Key, row: &impl Serialize) -> Result<PartBuilder<'_>, Error> {
        let mut item: Item = serde_dynamo::aws_sdk_dynamodb_1::to_item(row)
            .map_err(|error| Error::Broken(error.to_string()))?;
        item.extend(attributes(key));
        Ok(self.push(key, Kind::Put(item)))
    }

    /// Changes attributes of a row by an update expression.
    pub fn update(&mut self, key: &Key, expression: &str) -> PartBuilder<'_> {
        self.push(key, Kind::Update(expression.to_owned()))
    }

    /// Looks at a row that must fit, without changing it; needs a condition.
    pub fn check(&mut self, key: &Key) -> PartBuilder<'_> {
        self.push(key, Kind::Check)
    }

    fn push(&mut self, key: &Key, kind: Kind) -> PartBuilder<'_> {
        let index = self.parts.len();
        self.parts.push(Part {
            key: key.clone(),
            kind,
            condition: None,
            names: Vec::new(),
            values: Vec::new(),
        });
        PartBuilder {
            part: &mut self.parts[index],
        }
    }
}

/// Completes the part that was just added.
#[derive(Debug)]
pub struct PartBuilder<'a> {
    part: &'a mut Part,
}

impl PartBuilder<'_> {
    /// Only if this holds.
    pub fn only_if(self, condition: &str) -> Self {
        self.part.condition = Some(condition.to_owned());
        self
    }

    /// Only if there is no such row.
    pub fn only_new(self) -> Self {
        self.only_if("attribute_not_exists(pk)")
    }

    /// A placeholder for a reserved attribute name, such as `#status`.
    pub fn name(self, placeholder: &str, attribute: &str) -> Self {
        self.part
            .names
            .push((placeholder.to_owned(), attribute.to_owned()));
        self
    }

    /// A number for a placeholder.
    pub fn number(self, placeholder: &str, value: impl Into<i128>) -> Self {
        self.value(placeholder, AttributeValue::N(value.into().to_string()))
    }

    /// A text for a placeholder.
    pub fn text(self, placeholder: &str, value: impl Into<String>) -> Self {
        self.value(placeholder, AttributeValue::S(value.into()))
    }

    /// A set of one text for a placeholder, to be added to a set.
    pub fn one_of_set(self, placeholder: &str, value: impl Into<String>) -> Self {
        self.value(placeholder, AttributeValue::Ss(vec![value.into()]))
    }

    /// A yes or no for a placeholder.
    pub fn flag(self, placeholder: &str, value: bool) -> Self {
        self.value(placeholder, AttributeValue::Bool(value))
    }

    fn value(self, placeholder: &str, value: AttributeValue) -> Self {
        self.part.values.push((placeholder.to_owned(), value));
        self
    }
}

impl Part {
    #[allow(clippy::expect_used)] // every member that the builders require is given
    fn build(&self, table: &str) -> TransactWriteItem {
        const REQUIRED: &str = "table, key and expression are given";
        let names = (!self.names.is_empty()).then(|| self.names.iter().cloned().collect());
        let values = (!self.values.is_empty()).then(|| self.values.iter().cloned().collect());
        let condition = self.condition.clone();
        let seen = Some(ReturnValuesOnConditionCheckFailure::AllOld);
        let part = TransactWriteItem::builder();
        match &self.kind {
            Kind::Put(item) => part.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(item.clone()))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .set_return_values_on_condition_check_failure(seen)
                    .build()
                    .expect(REQUIRED),
            ),
            Kind::Update(expression) => part.update(
                Update::builder()
                    .table_name(table)
                    .set_key(Some(attributes(&self.key)))
                    .update_expression(expression)
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .set_return_values_on_condition_check_failure(seen)
                    .build()
                    .expect(REQUIRED),
            ),
            Kind::Check => part.condition_check(
                ConditionCheck::builder()
                    .table_name(table)
                    .set_key(Some(attributes(&self.key)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .expect(REQUIRED),
            ),
        }
        .build()
    }
}

fn attributes(key: &Key) -> Item {
    HashMap::from([
        ("pk".to_owned(), AttributeValue::S(key.pk.clone())),
        ("sk".to_owned(), AttributeValue::S(key.sk.clone())),
    ])
}

/// Reads a row.
///
/// # Errors
/// It is not a `T`. The reader's own words could quote what is in the row, and
/// the error is logged.
pub(crate) fn from_item<T: DeserializeOwned>(item: Item) -> Result<T, Error> {
    serde_dynamo::aws_sdk_dynamodb_1::from_item(item)
        .map_err(|_| Error::Broken(format!("a row is no {}", std::any::type_name::<T>())))
}

/// Sorts an SDK error. Requests that DynamoDB calls invalid, and rights that
/// are missing, do not get better by trying again at once, but the latter are
/// mended by an operator: the message must wait, not be thrown away.
fn failure<E: ProvideErrorMetadata + std::fmt::Debug, R: std::fmt::Debug>(
    error: SdkError<E, R>,
) -> Error {
    match error.code() {
        Some("ValidationException") => {
            Error::Broken(error.message().unwrap_or("validation").to_owned())
        }
        Some(code) => Error::Unavailable(code.to_owned()),
        None => Error::Unavailable(kind(&error).to_owned()),
    }
}

fn kind<E, R>(error: &SdkError<E, R>) -> &'static str {
    match error {
        SdkError::ConstructionFailure(_) => "request could not be built",
        SdkError::TimeoutError(_) => "time-out",
        SdkError::DispatchFailure(_) => "no connection",
        SdkError::ResponseError(_) => "answer could not be read",
        _ => "error without a code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(codes: &[&str]) -> Cancellation {
        codes
            .iter()
            .map(|code| ((*code).to_owned(), None))
            .collect()
    }

    #[test]
    fn only_conditions_are_a_business_answer() {
        let failed = Reason::Condition(None);
        assert_eq!(
            judge(reasons(&["None", "ConditionalCheckFailed", "None"]), 3),
            Judgement::Refused(vec![Reason::None, failed, Reason::None])
        );
        for luck in [
            &["None", "TransactionConflict", "None"][..],
            &["None", "ThrottlingError", "None"],
            &["ConditionalCheckFailed", "TransactionConflict", "None"],
            &["ProvisionedThroughputExceeded", "None", "None"],
            &["None", "None", "None"],
            &["ConditionalCheckFailed"],
            &[],
        ] {
            assert!(
                matches!(judge(reasons(luck), 3), Judgement::TryAgain(_)),
                "{luck:?}"
            );
        }
        assert!(matches!(
            judge(reasons(&["None", "ValidationError", "None"]), 3),
            Judgement::Invalid(_)
        ));
    }
}
