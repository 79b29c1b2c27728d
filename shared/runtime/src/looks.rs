//! A run that looks again and again until its time is over.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use domain::Sale;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep_until, timeout};

use crate::Clock;

/// A sale is watched from so long before its opening.
const NEAR: SignedDuration = SignedDuration::from_mins(2);

/// After a look that failed, the next begins so long after it began.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Takes one look after another until `end`. A look says how long after its own
/// beginning the next begins, or `None` if there is nothing to go on with.
///
/// One that fails ends nothing: a schedule begins the next run only after a minute,
/// and until then nobody would look. One that is not over by `end` is left where it is,
/// as if the run had been killed there: whatever else the run does keeps its time.
///
/// # Errors
/// Looks failed: how many, once the time is over, so that the run counts as one
/// that failed.
pub async fn looks<E, F>(
    clock: Clock,
    end: Timestamp,
    mut look: impl FnMut() -> F,
) -> anyhow::Result<()>
where
    E: Display,
    F: Future<Output = Result<Option<Duration>, E>>,
{
    let mut failures = 0u32;
    while let Some(left) = until(end, clock.now()) {
        let begun = Instant::now();
        let pause = match timeout(left, look()).await {
            Ok(Ok(Some(pause))) => pause,
            Ok(Ok(None)) => break,
            Err(_) => {
                tracing::warn!("a look was not over at the end of its run");
                break;
            }
            Ok(Err(error)) => {
                failures += 1;
                tracing::error!(%error, "a look failed");
                AFTER_FAILURE
            }
        };
        sleep_until(begun + pause.min(left)).await;
    }
    anyhow::ensure!(failures == 0, "{failures} looks failed");
    Ok(())
}

/// Whether a sale is watched by now. The same for all who look: each makes it known
/// that another is silent.
pub fn is_near(sale: &Sale, now: Timestamp) -> bool {
    now >= sale.config.opens_at.at - NEAR
}

/// How long it is until then; `None` if that is over.
fn until(end: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(end.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PAUSE: Duration = Duration::from_millis(1);

    fn soon() -> (Clock, Timestamp) {
        let clock = Clock::system();
        (clock, clock.now() + SignedDuration::from_mins(1))
    }

    #[tokio::test]
    async fn a_failure_ends_nothing_and_is_told() {
        let (clock, end) = soon();
        let begun = Cell::new(0);
        let run = looks(clock, end, async || {
            begun.set(begun.get() + 1);
            match begun.get() {
                2 => Err("no answer"),
                4 => Ok(None),
                _ => Ok(Some(PAUSE)),
            }
        });
        assert_eq!(run.await.unwrap_err().to_string(), "1 looks failed");
        assert_eq!(begun.get(), 4);
    }

    #[tokio::test]
    async fn the_time_ends_a_run() {
        let clock = Clock::system();
        let end = clock.now() + SignedDuration::from_millis(50);
        let endless = async || Ok::<_, &str>(Some(PAUSE));
        looks(clock, end, endless).await.unwrap();
        assert!(clock.now() >= end);
    }

    #[tokio::test]
    async fn no_look_and_no_pause_outlasts_a_run() {
        let clock = Clock::system();
        let soon = || clock.now() + SignedDuration::from_millis(50);
        let hangs = std::future::pending::<Result<_, &str>>;
        looks(clock, soon(), hangs).await.unwrap();
        let rests = async || Ok::<_, &str>(Some(Duration::MAX / 2));
        looks(clock, soon(), rests).await.unwrap();
    }
}
