//! Runs scheduled functions again and again.
//!
//! In the cloud a schedule fires once a minute and the function loops inside.
//! Here it fires every second or so: a sale that was just made opens seconds
//! later, and a loop that was lost is replaced as soon. What does not loop but
//! reads whole sales fires every five seconds, so that it is not all that runs. A run for which no
//! environment is free is dropped, as it is in the cloud without retries.

use std::sync::Arc;
use std::time::Duration;

use runtime::Clock;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use crate::environments::Pool;
use crate::template::{ACCOUNT, REGION};

/// Fires until told to stop; `overlap` runs at the same time at most.
pub(crate) async fn run(
    pool: Arc<Pool>,
    every: Duration,
    overlap: usize,
    mut stopped: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(overlap));
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let fire = async {
        loop {
            ticks.tick().await;
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                continue;
            };
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                // What went wrong is logged where it went wrong.
                let _ = pool.invoke(event().to_string().into_bytes()).await;
                drop(slot);
            });
        }
    };
    tokio::select! {
        () = fire => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
}

/// What a schedule without an input of its own sends.
fn event() -> Value {
    json!({
        "version": "0",
        "id": Uuid::new_v4().to_string(),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": ACCOUNT,
        "time": Clock::system().now().to_string(),
        "region": REGION,
        "resources": [format!("arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/local")],
        "detail": "{}",
    })
}
