//! A run of the sweeper, as the schedule begins it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::OrderStatus;
use jiff::Timestamp;
use payment::Cashier;
use runtime::{Environment, EventFunction, Invocation};
use serde_json::{Value, json};
use sweeper_function::SweeperFunction;
use testing::{Asked, Fate, World, judged};

use crate::{MINUTE, SECOND};

/// When a run is ended from outside.
const RUN_MAX: Duration = Duration::from_secs(7);

/// A run that looks after everything for two seconds.
async fn run(environment: &Environment) -> anyhow::Result<()> {
    let sweeper = SweeperFunction::start(environment).await.unwrap();
    let deadline: Timestamp = environment.clock.now() + RUN_MAX;
    let request_id = "run".to_owned();
    let invocation = Invocation {
        request_id,
        deadline,
    };
    sweeper.handle(Value::Null, invocation).await
}

fn partition(asked: &Asked) -> &str {
    let partition = &asked.body["ExpressionAttributeValues"][":pk"]["S"];
    partition.as_str().unwrap_or_default()
}

/// A sale with one hold whose time is over a second after now by the clock of
/// this environment.
async fn ending() -> (World, Environment) {
    let world = World::open(&[5]).await;
    let hold = world.claim(0, "u", world.now() + MINUTE).await;
    world.order(&hold).await;
    let environment = world.later(MINUTE - SECOND);
    (world, environment)
}

#[tokio::test]
async fn a_list_that_can_not_be_read_ends_no_run() {
    let (world, environment) = ending().await;
    let refused = AtomicU32::new(0);
    let environment = judged(&environment, move |asked| {
        // The first of each kind of look.
        if partition(asked) == "SALES" && refused.fetch_add(1, Ordering::Relaxed) < 4 {
            return Fate::Answered(400, json!({ "__type": "AccessDeniedException" }));
        }
        Fate::Passed
    });
    // It counts as one that failed, and has done its work.
    run(&environment).await.unwrap_err();
    assert_eq!(world.count(0, OrderStatus::Expired).await, 1);
    assert_eq!(world.left(0).await, 5);
}

/// Deadlines and payments are looked after side by side, each told of the other.
#[tokio::test]
async fn a_run_ends_payments_that_are_over() {
    let (world, _) = ending().await;
    let hold = world.claim(0, "v", world.now() + MINUTE).await;
    let cashier = Cashier::connect(&world.environment, &world.ledger).unwrap();
    cashier.begin(world.order(&hold).await).await.unwrap();
    run(&world.later(MINUTE * 20)).await.unwrap();
    assert_eq!(world.count(0, OrderStatus::Expired).await, 2);
    assert_eq!(world.left(0).await, 5);
}

#[tokio::test]
async fn a_comparison_that_takes_long_delays_no_deadline() {
    let (world, environment) = ending().await;
    let buckets = format!("S#{}#B", world.sale);
    let environment = judged(&environment, move |asked| {
        if asked.action == "Query" && partition(asked).starts_with(&buckets) {
            return Fate::Late(Duration::from_secs(20));
        }
        Fate::Passed
    });
    let back = async {
        while world.left(0).await < 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        // The comparison lasts: the run can't be over before the unit is back.
        ran = run(&environment) => panic!("over with {} units: {ran:?}", world.left(0).await),
        () = back => {}
    }
    assert_eq!(world.count(0, OrderStatus::Expired).await, 1);
}

/// Nothing that reads a bucket is answered while there is time: the run ends by itself, and
/// is none that had to be ended.
#[tokio::test]
async fn a_run_is_over_in_time_whatever_is_not_answered() {
    let (world, environment) = ending().await;
    let buckets = format!("S#{}#B", world.sale);
    let environment = judged(&environment, move |asked| {
        if asked.action == "Query" && partition(asked).starts_with(&buckets) {
            return Fate::Late(Duration::from_secs(20));
        }
        Fate::Passed
    });
    let ran = tokio::time::timeout(RUN_MAX, run(&environment)).await;
    ran.expect("over by itself").unwrap();
}
