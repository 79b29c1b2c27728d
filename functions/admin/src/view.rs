//! A sale as its merchant sees it: the configuration as it can be sent back,
//! and where the sale is.

use domain::Sale;
use serde_json::{Value, json};

pub(crate) fn sale(sale: &Sale) -> Value {
    let mut view = sale.config.to_members();
    let admission = &sale.admission;
    view.insert("sale_id".into(), json!(sale.id));
    view.insert("version".into(), json!(sale.version));
    view.insert("commitment".into(), json!(sale.commitment));
    view.insert("loaded".into(), json!(sale.loaded));
    view.insert("state".into(), json!(sale.state));
    view.insert("switches".into(), json!(sale.switches));
    view.insert("display_price".into(), json!(sale.config.price.to_string()));
    view.insert(
        "draw".into(),
        json!({
            "entries": admission.entries,
            "scale": admission.scale,
            "threshold": admission.threshold,
            "admitted": admission.admitted,
            "round": admission.round,
        }),
    );
    Value::Object(view)
}
