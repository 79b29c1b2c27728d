//! What holds the protocol together, each to be taken out in turn.

/// A guard of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// `create_orders`: the bucket has units to spare.
    Cap,
    /// `create_orders`: the customer's units stay within the limit.
    Limit,
    /// `create_orders`: the key has no order in another bucket.
    OneOrderAKey,
    /// `create_orders`: the order is new.
    NewOrder,
    /// `create_orders`: the bucket is in the life of the gate that said yes.
    OrderEpoch,
    /// `release` of the ledger: the order is as it was read.
    ReleaseStatus,
    /// `release.lua`: only who removes the deadline acts.
    Zrem,
    /// `bury`: the claim is voided before its unit returns.
    Tombstone,
    /// Recovery comes through the bucket's group.
    Barrier,
    /// `begin_life`: the published life is the one that was found frozen.
    BeginPublished,
    /// `publish_life`: the row is still in this life.
    PublishEpoch,
    /// `load.lua`: no later life has been loaded.
    LoadEpoch,
    /// `claim.lua`: the hash is of the script's life.
    HashEpoch,
    /// `claim.lua`, `release.lua`: a mark is moved or erased by its turn.
    Turn,
    /// `bind_intent`: the attempt has not ended.
    BindPaying,
    /// `end_unbound`: no intent is in the order's row.
    EndUnbound,
    /// `pay`: the order can still be paid.
    PayStatus,
    /// `close_intent`: the intent is cancelled before its hold ends.
    CloseIntent,
    /// `next_attempt`: the declined intent is cancelled first.
    CancelDeclined,
    /// `owe_refund`: the order is as it was read.
    RefundStatus,
    /// `refund`: the provider knows the request by its key.
    RefundKey,
    /// Rebalancing: units are moved only while nobody gave up on the move.
    MoveBegun,
    /// Rebalancing: the ledger moves units of the life they were taken in.
    MoveEpoch,
    /// Rebalancing: units go to the gate as it was before the ledger moved them.
    PutSeen,
    /// `secure`: the gate is asked for the claim after it was sent.
    LookAfterSend,
    /// `secure`: the bucket must still be open in the claim's life then.
    LookAtLife,
    /// `secure`: the bucket's life must not be closed, read after the send.
    LookAtClosed,
    /// `recover`: a closed life is recovered though its gate is open.
    RecoverClosed,
    /// `claim_by_ledger`: the life is closed before the claim is sent.
    CloseFirst,
    /// `adopt`: while the bucket is frozen, the claim goes behind what recovers it.
    Requeue,
}
