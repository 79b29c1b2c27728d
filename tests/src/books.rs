//! What must be true of a sale, computed from the merchant's report alone.

use std::collections::BTreeMap;

use serde_json::Value;

/// When the rules are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Whatever is going on.
    AtAnyTime,
    /// Nothing is on its way, and what was due was swept.
    AtRest,
}

/// The report of a sale and of each of its buckets.
#[derive(Debug, Clone)]
pub struct Books {
    /// `GET …/report`.
    pub report: Value,
    /// `GET …/report?bucket=`, in order.
    pub buckets: Vec<Value>,
}

fn number(of: &Value, name: &str) -> i64 {
    of[name].as_i64().unwrap_or(i64::MIN)
}

impl Books {
    /// A number of the report.
    pub fn count(&self, name: &str) -> i64 {
        number(&self.report, name)
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &Value> {
        let lists = self
            .buckets
            .iter()
            .filter_map(move |of| of[name].as_array());
        lists.flatten()
    }

    /// Every order.
    pub fn orders(&self) -> impl Iterator<Item = &Value> {
        self.list("orders")
    }

    /// Every capture.
    pub fn payments(&self) -> impl Iterator<Item = &Value> {
        self.list("payments")
    }

    /// Every refund.
    pub fn refunds(&self) -> impl Iterator<Item = &Value> {
        self.list("refunds")
    }

    /// Every order of a shopper.
    pub fn order_of(&self, shopper: &str) -> Vec<&Value> {
        self.orders()
            .filter(|order| order["shopper"] == shopper)
            .collect()
    }

    /// What is not as it must be, in words.
    pub fn broken(&self, rules: Rules) -> Vec<String> {
        let mut broken = Vec::new();
        self.capacity(&mut broken);
        self.captures(&mut broken);
        self.limits(&mut broken);
        if rules == Rules::AtRest {
            self.conserved(&mut broken);
        }
        broken
    }

    /// INV-A: per bucket `0 ≤ allotted ≤ capacity`, and never more paid than
    /// there are units.
    fn capacity(&self, broken: &mut Vec<String>) {
        let buckets = self.report["buckets"].as_array().into_iter().flatten();
        for bucket in buckets {
            let (allotted, capacity) = (number(bucket, "allotted"), number(bucket, "capacity"));
            let live = number(bucket, "held") + number(bucket, "paying") + number(bucket, "paid");
            if !(0..=capacity).contains(&allotted) || live > capacity || number(bucket, "free") < 0
            {
                broken.push(format!("INV-A: {bucket}"));
            }
        }
        let sum: i64 = self.buckets.iter().map(|of| number(of, "capacity")).sum();
        if sum != self.count("units") || self.count("paid") > self.count("units") {
            broken.push(format!("INV-A: capacities add up to {sum}"));
        }
    }

    /// INV-B: what is free, held and paid is what there is.
    fn conserved(&self, broken: &mut Vec<String>) {
        let parts = ["free", "held", "paying", "paid"].map(|name| self.count(name));
        if parts.iter().sum::<i64>() != self.count("units") {
            broken.push(format!("INV-B: {}", self.report));
        }
        let live = parts[1..].iter().sum::<i64>();
        if live != self.count("allotted") {
            broken.push(format!("INV-B: {live} live, {}", self.report));
        }
    }

    /// INV-C: every capture is that of a paid order, or was given back whole
    /// and once.
    fn captures(&self, broken: &mut Vec<String>) {
        // Where nothing was captured, nothing can go back.
        for payment in self.payments().filter(|of| of["amount"] != 0) {
            let paid = self.orders().any(|order| {
                order["status"] == "PAID"
                    && ["order_id", "intent", "amount", "currency"]
                        .iter()
                        .all(|name| order[*name] == payment[*name])
            });
            let returned = payment["refunded"] == true;
            let whole = payment["refund_amount"] == payment["amount"];
            let owed = self
                .refunds()
                .filter(|refund| refund["intent"] == payment["intent"])
                .count();
            let right = match paid {
                true => !returned && owed == 0,
                // Owed and not confirmed yet is a refund on its way.
                false => owed == 1 && (whole || !returned),
            };
            if !right {
                broken.push(format!("INV-C: {payment}, {owed} refunds"));
            }
        }
        // What costs nothing is captured by nobody.
        let to_pay = |order: &&Value| order["status"] == "PAID" && order["amount"] != 0;
        for order in self.orders().filter(to_pay) {
            if !self
                .payments()
                .any(|payment| payment["intent"] == order["intent"])
            {
                broken.push(format!("INV-C: paid without a capture: {order}"));
            }
        }
    }

    /// INV-D: nobody has more than the limit.
    fn limits(&self, broken: &mut Vec<String>) {
        let limit = number(&self.report["sale"], "limit_per_customer");
        let mut held = BTreeMap::<&str, i64>::new();
        for order in self.orders() {
            if matches!(
                order["status"].as_str(),
                Some("PENDING_PAYMENT" | "PAYING" | "PAID")
            ) {
                let shopper = order["shopper"].as_str().unwrap_or_default();
                *held.entry(shopper).or_default() += number(order, "quantity");
            }
        }
        held.retain(|_, units| *units > limit);
        if !held.is_empty() {
            broken.push(format!("INV-D: {held:?}"));
        }
    }
}
