//! Metrics that a piece of work wrote, read as CloudWatch reads them.

use std::collections::BTreeMap;
use std::future::Future;

use runtime::Metric;
use runtime::metrics::heard;
use serde_json::Value;

/// A dimension and its value.
pub type Dimension = (String, String);

/// Every series that lines were made into.
#[derive(Debug, Default)]
pub struct Metrics {
    lines: Vec<String>,
    series: BTreeMap<(String, Vec<Dimension>), Vec<f64>>,
}

/// Does `work`, and gives the metrics that it wrote.
///
/// # Panics
/// A line is not of the embedded metric format.
pub async fn metrics_of<T>(work: impl Future<Output = T>) -> (T, Metrics) {
    let (done, lines) = heard(work).await;
    let mut metrics = Metrics::default();
    for line in &lines {
        let document: Value = serde_json::from_str(line).expect("a line is JSON");
        assert!(!line.contains('\n'), "{line}");
        metrics.extract(&document);
    }
    metrics.lines = lines;
    (done, metrics)
}

impl Metrics {
    /// The values of a metric over all sales.
    pub fn overall(&self, metric: Metric) -> &[f64] {
        self.series(metric, &[])
    }

    /// The values of a metric of one sale.
    pub fn of(&self, metric: Metric, sale: impl std::fmt::Display) -> Vec<f64> {
        self.series(metric, &[("sale", &sale.to_string())]).to_vec()
    }

    /// The values of a series; none if nobody wrote it.
    pub fn series(&self, metric: Metric, dimensions: &[(&str, &str)]) -> &[f64] {
        let dimensions = dimensions
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let key = (metric.name().to_owned(), dimensions.collect());
        self.series.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Asserts that lines were written, and that none holds any of these.
    ///
    /// # Panics
    /// One does, or there is no line.
    #[track_caller]
    pub fn hold_none_of<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        assert!(!self.lines.is_empty());
        for secret in secrets {
            for line in &self.lines {
                assert!(!line.contains(secret), "{secret} is in {line}");
            }
        }
    }

    /// What CloudWatch does with a document, by its specification: refuses
    /// what it refuses, and makes a series for each set of dimensions.
    fn extract(&mut self, document: &Value) {
        let about = &document["_aws"];
        assert!(about["Timestamp"].is_u64(), "{document:#}");
        let directives = about["CloudWatchMetrics"].as_array();
        let directives = directives.expect("directives");
        assert!(!directives.is_empty(), "{document:#}");
        let mut numbers = 0;
        for directive in directives {
            let namespace = directive["Namespace"].as_str().unwrap_or_default();
            assert!((1..=255).contains(&namespace.len()), "{document:#}");
            let sets = directive["Dimensions"].as_array().expect("dimensions");
            assert!(!sets.is_empty(), "{document:#}");
            let definitions = directive["Metrics"].as_array().expect("metrics");
            assert!((1..=100).contains(&definitions.len()), "{document:#}");
            for definition in definitions {
                let name = definition["Name"].as_str().expect("a name");
                let unit = definition["Unit"].as_str().expect("a unit");
                assert!(["Count", "Milliseconds", "None"].contains(&unit), "{unit}");
                assert_eq!(definition["StorageResolution"], 1, "{document:#}");
                let values = values(&document[name]);
                assert!((1..=100).contains(&values.len()), "{document:#}");
                numbers += values.len();
                for set in sets {
                    let key = (name.to_owned(), dimensions(set, document));
                    self.series.entry(key).or_default().extend(&values);
                }
            }
        }
        assert!(numbers > 0, "{document:#}");
    }
}

/// A target is a number or an array of numbers.
fn values(target: &Value) -> Vec<f64> {
    match target {
        Value::Array(values) => values
            .iter()
            .map(|value| value.as_f64().expect("a number"))
            .collect(),
        value => vec![value.as_f64().expect("a number")],
    }
}

/// A dimension names a member of the document that is a text.
fn dimensions(set: &Value, document: &Value) -> Vec<Dimension> {
    let names = set.as_array().expect("a set of dimensions");
    assert!(names.len() <= 30);
    let dimension = |name: &Value| {
        let name = name.as_str().expect("a dimension's name");
        let value = document[name].as_str().expect("a dimension's value");
        assert!((1..=1024).contains(&value.len()), "{document:#}");
        (name.to_owned(), value.to_owned())
    };
    names.iter().map(dimension).collect()
}
