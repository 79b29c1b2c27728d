//! Names of all rows. The bucket's row and its orders share a partition, so
//! that one consistent query sees a whole bucket.

use domain::{BucketId, ClaimId, IntentId, SaleId, ShopperId, identity::IdentityKind};

/// A row's primary key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

impl Key {
    fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }
}

/// Partition of a sale's own rows.
pub fn sale_partition(sale: &SaleId) -> String {
    format!("S#{sale}")
}

/// The sale: configuration, state, threshold, switches.
pub fn sale(sale: &SaleId) -> Key {
    Key::new(sale_partition(sale), "SALE")
}

/// The draw secret, sealed until opening.
pub fn secret(sale: &SaleId) -> Key {
    Key::new(sale_partition(sale), "SECRET")
}

/// Hash tags and epochs of a sale's gates.
pub fn gates(sale: &SaleId) -> Key {
    Key::new(sale_partition(sale), "GATES")
}

/// Sort-key prefix of the rounds.
pub const ROUND_PREFIX: &str = "ROUND#";

/// One raising of the threshold.
pub fn round(sale: &SaleId, round: u32) -> Key {
    Key::new(sale_partition(sale), format!("{ROUND_PREFIX}{round:06}"))
}

/// Partition of the list of all sales.
pub const SALES_PARTITION: &str = "SALES";

/// A sale in the list of sales.
pub fn listed(sale: &SaleId) -> Key {
    Key::new(SALES_PARTITION.to_owned(), sale.as_str())
}

/// Partition of a bucket: its row and its orders.
pub fn bucket_partition(sale: &SaleId, bucket: BucketId) -> String {
    format!("S#{sale}#B{bucket}")
}

/// A bucket: capacity, allotted, epoch.
pub fn bucket(sale: &SaleId, bucket: BucketId) -> Key {
    Key::new(bucket_partition(sale, bucket), "BUCKET")
}

/// Sort-key prefix of the orders.
pub const ORDER_PREFIX: &str = "C#";

/// A claim and the order it became.
pub fn order(claim: &ClaimId) -> Key {
    Key::new(
        bucket_partition(claim.sale(), claim.bucket()),
        format!("{ORDER_PREFIX}{claim}"),
    )
}

/// Units that a customer holds and has bought.
pub fn limit(sale: &SaleId, shopper: &ShopperId) -> Key {
    Key::new(format!("S#{sale}#U{shopper}"), "LIMIT")
}

/// Whose row that is, by its partition key.
pub fn limit_of(sale: &SaleId, pk: &str) -> Option<ShopperId> {
    pk.strip_prefix(&format!("S#{sale}#U"))?.parse().ok()
}

/// What the newest reconciliation of a sale came to.
pub fn reconciliation(sale: &SaleId) -> Key {
    Key::new(sale_partition(sale), "RECONCILIATION")
}

/// What was taken for a shopper while the gates were away.
pub fn confirming(sale: &SaleId, shopper: &ShopperId) -> Key {
    Key::new(format!("S#{sale}#U{shopper}"), "CONFIRMING")
}

/// How many claims of a bucket's shoppers one window let through without gates.
/// Beside the bucket's partition, not in it: whoever asks in vain writes here.
pub fn permits(sale: &SaleId, bucket: BucketId, window: i64) -> Key {
    Key::new(format!("S#{sale}#L{bucket}"), format!("PERMITS#{window}"))
}

/// A shopper's pass.
pub fn pass(sale: &SaleId, shopper: &ShopperId) -> Key {
    Key::new(format!("S#{sale}#U{shopper}"), "PASS")
}

/// A shopper who wants to be told of a free unit.
pub fn subscription(sale: &SaleId, shopper: &ShopperId) -> Key {
    Key::new(format!("S#{sale}#U{shopper}"), "WAITLIST")
}

/// How many accounts share this attribute; only its keyed hash is known.
pub fn identity(sale: &SaleId, kind: IdentityKind, hash: &str) -> Key {
    Key::new(format!("S#{sale}#I{}#{hash}", kind.name()), "COUNT")
}

/// An event of a provider that was seen.
pub fn event(provider: &str, event: &str) -> Key {
    Key::new(format!("W#{provider}#{event}"), "EVENT")
}

/// Partition of a bucket's refunds.
pub fn refunds_partition(sale: &SaleId, bucket: BucketId) -> String {
    format!("S#{sale}#R{bucket}")
}

/// A refund that is owed or was made: one for an intent, ever.
pub fn refund(claim: &ClaimId, intent: &IntentId) -> Key {
    Key::new(
        refunds_partition(claim.sale(), claim.bucket()),
        intent.as_str(),
    )
}

/// Partition of the sandbox provider's intents for a bucket.
pub fn sandbox_partition(sale: &SaleId, bucket: BucketId) -> String {
    format!("SANDBOX#{sale}#B{bucket}")
}

/// An intent of the sandbox provider.
pub fn sandbox_intent(claim: &ClaimId, intent: &IntentId) -> Key {
    Key::new(
        sandbox_partition(claim.sale(), claim.bucket()),
        intent.as_str(),
    )
}
