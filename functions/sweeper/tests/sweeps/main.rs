//! The sweeper against real gates, the real ledger and the sandbox provider.

#![allow(clippy::unwrap_used)]

mod compare;
mod deadlines;
mod paying;
mod runs;
mod told;

use jiff::SignedDuration;
use runtime::EventFunction;
use sweeper_function::SweeperFunction;
use testing::World;

const SECOND: SignedDuration = SignedDuration::from_secs(1);
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A sweeper that is started when so much time has passed.
async fn sweeper(world: &World, later: SignedDuration) -> SweeperFunction {
    let environment = world.later(later);
    SweeperFunction::start(&environment).await.unwrap()
}

/// One sweep, some time later.
async fn sweep(world: &World, later: SignedDuration) {
    assert!(sweeper(world, later).await.sweep().await.unwrap());
}

/// One sweep, then refunds and comparison, some time later.
async fn keep_up(world: &World, later: SignedDuration) {
    let sweeper = sweeper(world, later).await;
    assert!(sweeper.sweep().await.unwrap());
    assert!(sweeper.keep_up().await.unwrap());
}
