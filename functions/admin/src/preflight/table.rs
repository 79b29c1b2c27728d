//! The ledger's table.

use super::forecast::Forecast;
use super::{Check, check, unknown};
use crate::AdminFunction;

impl AdminFunction {
    pub(super) async fn check_table(&self, forecast: &Forecast) -> Vec<Check> {
        const WARM: &str = "Raise LedgerWarmWrites, or lower OrderRatePerSecond.";
        let table = match self.ledger.table().describe().await {
            Ok(table) => table,
            Err(error) => {
                let advice = "Look at the table in the DynamoDB console.";
                return ["table", "warm_writes"]
                    .map(|name| unknown(name, &error, advice))
                    .into();
            }
        };
        let billing = if table.on_demand {
            "on demand"
        } else {
            "provisioned"
        };
        let needed = forecast.write_units_per_s(&self.deployment.limits);
        vec![
            check(
                "table",
                table.status == "ACTIVE" && table.on_demand,
                format!("{}, {billing}", table.status),
                "The table must be ACTIVE and on demand: a fixed capacity throttles orders.",
            ),
            match table.warm_writes {
                Some(warm) => check(
                    "warm_writes",
                    needed <= warm,
                    format!("orders need {needed} write units a second, {warm} are warm"),
                    WARM,
                ),
                None => unknown(
                    "warm_writes",
                    format!(
                        "orders need {needed} write units a second; the table does not tell what is warm"
                    ),
                    WARM,
                ),
            },
        ]
    }
}
