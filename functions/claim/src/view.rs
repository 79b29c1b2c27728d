//! A claim as the shopper sees it: the same shape whoever knows of it.

use domain::order::ClaimStatus;
use domain::{ClaimId, Order, Sale};
use gate::Hold;
use jiff::Timestamp;
use ledger::without_gates::Confirming;
use serde_json::{Value, json};

/// A claim that the gate holds and no order stands for yet.
pub(crate) fn held(sale: &Sale, hold: &Hold, status: ClaimStatus) -> Value {
    claim(
        sale,
        &hold.claim,
        hold.quantity,
        hold.pay_by,
        status,
        "CREATING",
    )
}

/// A claim that was taken without a gate, and has no order yet.
pub(crate) fn taken(sale: &Sale, taken: &Confirming) -> Value {
    claim(
        sale,
        &taken.claim,
        taken.quantity,
        taken.pay_by,
        ClaimStatus::Confirming,
        "CREATING",
    )
}

/// A claim whose order the ledger knows.
pub(crate) fn ordered(sale: &Sale, order: &Order) -> Value {
    let mut view = claim(
        sale,
        &order.claim,
        order.quantity,
        order.pay_by,
        order.status.into(),
        order.status.name(),
    );
    if let Some(reason) = order.void_reason {
        view["reason"] = json!(reason);
        view["detail"] = reason.words().into();
    }
    view
}

fn claim(
    sale: &Sale,
    claim: &ClaimId,
    quantity: u32,
    pay_by: Timestamp,
    status: ClaimStatus,
    order_status: &str,
) -> Value {
    json!({
        "claim_id": claim,
        "sale_id": sale.id,
        "status": status,
        "quantity": quantity,
        "pay_by": sale.config.opens_at.same_offset(pay_by).to_string(),
        "order": {"order_id": claim.order(), "status": order_status},
    })
}
