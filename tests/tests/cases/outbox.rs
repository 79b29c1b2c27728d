//! The outbox as the template describes it, held against rows as the ledger
//! writes them: which changes are told, and what is said of them. No emulator has
//! pipes with this source and target, so the two documents of the pipe are read
//! here as EventBridge documents them.

use domain::order::VoidReason;
use domain::{IntentId, OrderStatus};
use jiff::SignedDuration;
use ledger::key;
use ledger::payments::{Refund, RefundReason};
use serde_json::{Map, Value, json};
use testing::Bucket;

use crate::graph::{parsed, text_of};

/// The pipe's pattern and its input template.
struct Outbox {
    pattern: Value,
    template: String,
}

impl Outbox {
    fn read(template: &str) -> Self {
        let template = parsed(template);
        let pipe = &template["Resources"]["Outbox"]["Properties"];
        let text = |value: &serde_yaml_ng::Value| value.as_str().unwrap().to_owned();
        let pattern = text(&pipe["SourceParameters"]["FilterCriteria"]["Filters"][0]["Pattern"]);
        Self {
            pattern: serde_json::from_str(&pattern).unwrap(),
            template: text(&pipe["TargetParameters"]["InputTemplate"]),
        }
    }

    /// What is published of this record, if anything is. An error names what the
    /// record lacks.
    fn told(&self, record: &Value) -> Result<Option<Value>, String> {
        if !matches(&self.pattern, record) {
            return Ok(None);
        }
        let mut parts = self.template.split("<$.");
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let (path, rest) = part.split_once('>').unwrap();
            let value = path.split('.').fold(record, |value, name| &value[name]);
            // Scalars stand between quotes.
            text += value.as_str().ok_or(path)?;
            text += rest;
        }
        Ok(Some(
            serde_json::from_str(&text).map_err(|e| e.to_string())?,
        ))
    }
}

/// Whether a record fits a pattern of objects, `prefix` and `exists`.
fn matches(pattern: &Value, record: &Value) -> bool {
    match pattern {
        Value::Object(members) => members
            .iter()
            .all(|(name, inner)| matches(inner, &record[name.as_str()])),
        Value::Array(any) => any
            .iter()
            .any(|rule| match (&rule["prefix"], &rule["exists"]) {
                (Value::String(prefix), _) => {
                    record.as_str().is_some_and(|s| s.starts_with(prefix))
                }
                (_, Value::Bool(exists)) => record.is_null() != *exists,
                _ => panic!("a rule that is not known here: {rule}"),
            }),
        other => panic!("neither object nor rules: {other}"),
    }
}

/// Rows of some partitions as records of the table's stream.
async fn records(ledger: &ledger::Ledger, partitions: &[String]) -> Vec<Value> {
    let mut records = Vec::new();
    for partition in partitions {
        let rows = ledger.table().query(partition, "").await.unwrap();
        assert!(!rows.is_empty(), "{partition}");
        for row in rows {
            let attribute = |value: &_| attribute(value);
            let image: Map<_, _> = row
                .iter()
                .map(|(name, v)| (name.clone(), attribute(v)))
                .collect();
            let keys = json!({"pk": image["pk"], "sk": image["sk"]});
            records.push(json!({"dynamodb": {"Keys": keys, "NewImage": image}}));
        }
    }
    records
}

/// Texts and numbers in DynamoDB's JSON, where numbers are texts too.
fn attribute(value: &aws_sdk_dynamodb::types::AttributeValue) -> Value {
    match (value.as_s(), value.as_n()) {
        (Ok(text), _) => json!({"S": text}),
        (_, Ok(number)) => json!({"N": number}),
        _ => json!({"other": true}),
    }
}

#[tokio::test]
async fn every_state_of_an_order_is_told_and_nothing_else() {
    let (environment, ledger) = testing::ledger().await;
    let now = environment.clock.now();
    let window = SignedDuration::from_mins(10);
    let bucket = Bucket::create(&ledger, 9).await;
    let write = async |shopper: &str| bucket.order(shopper, now, window).await;

    write("u_pending").await;
    let paying = write("u_paying").await;
    ledger
        .begin_payment(&paying, now, now + window)
        .await
        .unwrap()
        .unwrap();
    let paid = write("u_paid").await;
    let paid = ledger
        .begin_payment(&paid, now, now + window)
        .await
        .unwrap()
        .unwrap();
    let intent: IntentId = "pi_1".parse().unwrap();
    ledger.bind_intent(&paid, &intent).await.unwrap();
    ledger.pay(&paid, &intent, None, now).await.unwrap();
    for (shopper, end) in [
        ("u_expired", OrderStatus::Expired),
        ("u_cancelled", OrderStatus::Cancelled),
    ] {
        let order = write(shopper).await;
        let ended = ledger
            .release(&bucket.sale, bucket.id, &[order], end, now)
            .await;
        assert_eq!(ended.unwrap().len(), 1);
    }
    let late: IntentId = "pi_2".parse().unwrap();
    let refund = Refund::owed(
        &paid.claim,
        &late,
        paid.money,
        RefundReason::OtherIntent,
        now,
    );
    let paid = ledger.order(&paid.claim).await.unwrap().unwrap();
    ledger.owe_refund(&paid, &refund, None).await.unwrap();
    let voided = bucket.unwritten("u_voided", now, window);
    ledger.void(&voided, VoidReason::Cap, now).await.unwrap();

    let partitions = [
        key::bucket_partition(&bucket.sale, bucket.id),
        key::limit(&bucket.sale, &paid.shopper).pk,
        key::refunds_partition(&bucket.sale, bucket.id),
    ];
    let records = records(&ledger, &partitions).await;
    let told = |outbox: &Outbox| {
        let told: Result<Vec<_>, _> = records.iter().map(|record| outbox.told(record)).collect();
        told.map(|told| told.into_iter().flatten().collect::<Vec<Value>>())
    };
    let template = text_of("template.yaml");
    let events = told(&Outbox::read(&template)).unwrap();

    let mut statuses: Vec<&str> = events
        .iter()
        .map(|e| e["status"].as_str().unwrap())
        .collect();
    statuses.sort_unstable();
    let mut all = OrderStatus::ALL.map(OrderStatus::name);
    all.sort_unstable();
    assert_eq!(statuses, all);
    let of_paid = events
        .iter()
        .find(|event| event["status"] == "PAID")
        .unwrap();
    let at = now.as_millisecond().to_string();
    let expected = json!({"claim": paid.claim, "status": "PAID", "changed_at_ms": at});
    assert_eq!(*of_paid, expected);
    assert!(events.iter().all(|event| !event.to_string().contains("u_")));

    // The documents, broken: rows that are no orders are told, or nothing is.
    let broken = |from: &str, to: &str| {
        assert!(template.contains(from), "{from}");
        told(&Outbox::read(&template.replacen(from, to, 1)))
    };
    let every = broken(
        r#""sk": {"S": [{"prefix": "C#"}]}"#,
        r#""sk": {"S": [{"exists": true}]}"#,
    );
    assert_ne!(every, Ok(events.clone()), "the filter keeps nothing out");
    assert_eq!(
        broken(r#"[{"prefix": "C#"}]"#, r#"[{"prefix": "O#"}]"#),
        Ok(vec![])
    );
    for (from, to) in [
        ("NewImage.changed_at.N", "NewImage.changed_at.S"),
        ("NewImage.status.S", "NewImage.state.S"),
        ("NewImage.claim.S", "OldImage.claim.S"),
        (
            r#""<$.dynamodb.NewImage.claim.S>""#,
            "<$.dynamodb.NewImage.claim.S>",
        ),
    ] {
        assert!(broken(from, to).is_err(), "{to}");
    }
}
