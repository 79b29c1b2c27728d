//! What a look came to, as metrics.

use std::time::{Duration, Instant};

use domain::admission::Gates as Seen;
use domain::{Sale, SaleId};
use runtime::{Metric, Seldom, metrics};

/// A sale is told of this often; it is looked at more often.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A look that saw every bucket, and the sale as it is after it.
pub(crate) fn look(told: &Seldom<SaleId>, sale: &Sale, seen: Seen, now: Instant) {
    if !told.is_due(&sale.id, now) {
        return;
    }
    let admission = &sale.admission;
    metrics::of(&sale.id)
        .value(Metric::ControllerLook, 1.0)
        .value(Metric::SweeperLook, 0.0)
        .value(Metric::UnitsFree, seen.free as f64)
        .value(Metric::Entries, seen.entries as f64)
        .value(Metric::AdmissionThreshold, admission.threshold)
        .value(Metric::Admitted, admission.admitted as f64)
        .value(Metric::AdmissionRound, f64::from(admission.round))
        .write();
}

/// Whether any gate answers, told while none does, and once when one does again.
pub(crate) fn gates(before: &Sale, now: &Sale) {
    match (before.gates_away, now.gates_away) {
        (None, None) => return,
        (None, Some(_)) => tracing::error!(sale = %now.id, "no gate answers: the sale waits"),
        (Some(_), None) => tracing::warn!(sale = %now.id, "gates answer: the sale goes on"),
        (Some(_), Some(_)) => {}
    }
    let away = f64::from(u8::from(now.gates_away.is_some()));
    metrics::of(&now.id).value(Metric::GatesAway, away).write();
}

/// A look that failed, or did not see every bucket.
pub(crate) fn failed(sale: &SaleId) {
    metrics::of(sale).value(Metric::LooksFailed, 1.0).write();
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::config::SaleConfig;
    use runtime::metrics::heard;
    use serde_json::{Value, json};

    fn sale() -> Sale {
        let Value::Object(members) = json!({
            "sku": "PHONE-1", "name": "Phone", "units": 10, "mode": "race",
            "price": {"amount": 1, "currency": "INR"},
            "opens_at": "2027-11-11T12:00:00+05:30",
        }) else {
            unreachable!()
        };
        let config = SaleConfig::read(members).unwrap();
        Sale::new("s".parse().unwrap(), config, String::new())
    }

    #[tokio::test]
    async fn a_sale_is_told_of_once_a_second() {
        let (told, sale) = (Seldom::every(INTERVAL), sale());
        let ((), lines) = heard(async {
            // Four looks a second, for ten seconds.
            let start = Instant::now();
            for n in 0..40 {
                look(&told, &sale, Seen::default(), start + n * INTERVAL / 4);
            }
        })
        .await;
        assert_eq!(lines.len(), 10);
    }
}
