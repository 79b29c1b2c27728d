//! Execution environments: each takes one event at a time, has connections of
//! its own, is made when all others are busy and is used again last in, first
//! out. A run that takes too long or panics costs its environment.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use jiff::SignedDuration;
use runtime::{Clock, Environment, Invocation};
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use crate::functions::{Instance, Start};

/// Lambda gives an environment ten seconds to start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Lambda's limit of an event and of an answer, in bytes.
const PAYLOAD_MAX: usize = 6 * 1024 * 1024;

/// Why a run has no answer.
#[derive(Debug)]
pub enum InvokeError {
    /// There is no such function.
    Unknown,
    /// The event is larger than Lambda takes.
    TooLarge,
    /// All environments are busy and no more are allowed.
    Throttled,
    /// The function failed, could not start, or panicked.
    Failed(String),
    /// The function took longer than its `Timeout`, or the system stopped.
    TimedOut,
    /// The function was killed.
    Killed,
}

impl std::fmt::Display for InvokeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such function"),
            Self::TooLarge => f.write_str("the event is too large"),
            Self::Throttled => f.write_str("all environments are busy"),
            Self::Failed(cause) => write!(f, "the function failed: {cause}"),
            Self::TimedOut => f.write_str("the run was cut off"),
            Self::Killed => f.write_str("the run was killed"),
        }
    }
}

impl std::error::Error for InvokeError {}

/// All execution environments of one function.
pub(crate) struct Pool {
    name: String,
    timeout: Duration,
    start: Start,
    environment: Environment,
    idle: Mutex<Vec<Box<dyn Instance>>>,
    /// One permit for each environment that may run at the same time.
    permits: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
    /// How far the clocks of its environments are off.
    apart: SignedDuration,
    starts: AtomicI32,
    /// Is it dead? A run that sees it die ends where it is.
    dead: watch::Sender<bool>,
}

impl Pool {
    /// No environment yet; `concurrency` at most.
    pub(crate) fn new(
        name: String,
        timeout: Duration,
        concurrency: usize,
        start: Start,
        environment: Environment,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self {
            name,
            timeout,
            start,
            environment,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(concurrency)),
            stopped,
            apart: SignedDuration::ZERO,
            starts: AtomicI32::new(0),
            dead: watch::Sender::new(false),
        }
    }

    /// The same with clocks that are off by so much: one ahead, one behind,
    /// one right, and so on.
    pub(crate) fn apart(self, apart: SignedDuration) -> Self {
        Self { apart, ..self }
    }

    /// Kills what runs, where it is, and starts nothing more.
    pub(crate) fn kill(&self) {
        self.dead.send_replace(true);
        self.clear();
    }

    /// Waits until it is not dead.
    pub(crate) async fn alive(&self) {
        // Its sender is here: there is always an answer.
        let _ = self.dead.subscribe().wait_for(|dead| !*dead).await;
    }

    /// Starts again.
    pub(crate) fn revive(&self) {
        self.dead.send_replace(false);
    }

    /// Runs the function once. The run goes on when the caller loses
    /// interest, as in the cloud.
    pub(crate) async fn invoke(self: &Arc<Self>, event: Vec<u8>) -> Result<Vec<u8>, InvokeError> {
        if event.len() > PAYLOAD_MAX {
            return Err(InvokeError::TooLarge);
        }
        let permit = Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|_| InvokeError::Throttled)?;
        let mut dead = self.dead.subscribe();
        let pool = Arc::clone(self);
        let run = tokio::spawn(async move {
            let mut stopped = pool.stopped.clone();
            let answer = tokio::select! {
                biased;
                _ = dead.wait_for(|dead| *dead) => Err(InvokeError::Killed),
                _ = stopped.wait_for(|stopped| *stopped) => Err(InvokeError::TimedOut),
                answer = pool.run(&event) => answer,
            };
            drop(permit);
            answer
        });
        match run.await {
            Ok(answer) => answer,
            Err(panic) => {
                tracing::error!(function = self.name, %panic, "the function panicked");
                Err(InvokeError::Failed(panic.to_string()))
            }
        }
    }

    async fn run(&self, event: &[u8]) -> Result<Vec<u8>, InvokeError> {
        let idle = self.lock().pop();
        let instance = match idle {
            Some(instance) => instance,
            None => self.cold_start().await?,
        };
        let deadline = Clock::system().now()
            + SignedDuration::try_from(self.timeout).unwrap_or(SignedDuration::MAX);
        let invocation = Invocation {
            request_id: Uuid::new_v4().to_string(),
            deadline,
        };
        let answer = tokio::time::timeout(self.timeout, instance.handle(event, invocation)).await;
        match answer {
            Ok(answer) => {
                // An error is an answer too: the environment stays.
                self.lock().push(instance);
                let answer = answer.and_then(|answer| {
                    let size = answer.len();
                    anyhow::ensure!(size <= PAYLOAD_MAX, "the answer has {size} bytes");
                    Ok(answer)
                });
                answer.map_err(|error| {
                    tracing::error!(
                        function = self.name,
                        error = format!("{error:#}"),
                        "run failed"
                    );
                    InvokeError::Failed(format!("{error:#}"))
                })
            }
            Err(_) => {
                tracing::error!(function = self.name, "the run took longer than its Timeout");
                Err(InvokeError::TimedOut)
            }
        }
    }

    async fn cold_start(&self) -> Result<Box<dyn Instance>, InvokeError> {
        let mut environment = self.environment.clone();
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        environment.clock = environment
            .clock
            .ahead(self.apart * [1, -1, 0][number as usize % 3]);
        let start = (self.start)(environment);
        let started = tokio::time::timeout(START_LIMIT, start)
            .await
            .context("it did not start in time")
            .flatten();
        started.map_err(|error| {
            tracing::error!(
                function = self.name,
                error = format!("{error:#}"),
                "could not start"
            );
            InvokeError::Failed(format!("{error:#}"))
        })
    }

    /// Throws the idle environments away.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Instance>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use std::sync::atomic::AtomicUsize;

    /// Starts of all pools of this test binary that use [`start`].
    static STARTS: AtomicUsize = AtomicUsize::new(0);

    struct Obedient(usize);

    impl Instance for Obedient {
        fn handle<'a>(
            &'a self,
            event: &'a [u8],
            _: Invocation,
        ) -> BoxFuture<'a, anyhow::Result<Vec<u8>>> {
            Box::pin(async move {
                match event {
                    b"panic" => panic!("told to"),
                    b"fail" => anyhow::bail!("told to"),
                    b"hang" => std::future::pending().await,
                    b"much" => Ok(vec![b'x'; PAYLOAD_MAX + 1]),
                    _ => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Ok(self.0.to_string().into_bytes())
                    }
                }
            })
        }
    }

    fn start(_: Environment) -> BoxFuture<'static, anyhow::Result<Box<dyn Instance>>> {
        Box::pin(async {
            let number = STARTS.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Obedient(number)) as Box<dyn Instance>)
        })
    }

    fn pool(concurrency: usize) -> (Arc<Pool>, watch::Sender<bool>) {
        let (stop, stopped) = watch::channel(false);
        let environment = Environment {
            settings: runtime::Settings::default(),
            aws: aws_config::SdkConfig::builder().build(),
            clock: Clock::system(),
        };
        let timeout = Duration::from_millis(200);
        let pool = Pool::new(
            "f".to_owned(),
            timeout,
            concurrency,
            start,
            environment,
            stopped,
        );
        (Arc::new(pool), stop)
    }

    #[tokio::test]
    async fn events_and_answers_beyond_lambdas_limits_are_refused() {
        let (pool, _stop) = pool(1);
        let event = "x".repeat(PAYLOAD_MAX);
        assert!(run(&pool, &event).await.is_ok());
        let refused = run(&pool, &(event + "x")).await;
        assert!(matches!(refused, Err(InvokeError::TooLarge)), "{refused:?}");
        let failed = run(&pool, "much").await;
        assert!(matches!(failed, Err(InvokeError::Failed(_))), "{failed:?}");
    }

    async fn run(pool: &Arc<Pool>, event: &str) -> Result<String, InvokeError> {
        let answer = pool.invoke(event.as_bytes().to_vec()).await?;
        Ok(String::from_utf8(answer).unwrap())
    }

    #[tokio::test]
    async fn one_event_at_a_time_and_no_more_than_allowed() {
        let (pool, _stop) = pool(2);
        let (one, two, three) = tokio::join!(run(&pool, "a"), run(&pool, "b"), run(&pool, "c"));
        assert_ne!(one.unwrap(), two.unwrap());
        assert!(matches!(three, Err(InvokeError::Throttled)));
        assert_eq!(pool.lock().len(), 2);
    }

    #[tokio::test]
    async fn an_environment_is_used_again_until_it_is_lost() {
        let (pool, _stop) = pool(1);
        let first = run(&pool, "a").await.unwrap();
        assert!(matches!(
            run(&pool, "fail").await,
            Err(InvokeError::Failed(_))
        ));
        assert_eq!(run(&pool, "a").await.unwrap(), first);
        assert!(matches!(
            run(&pool, "panic").await,
            Err(InvokeError::Failed(_))
        ));
        let second = run(&pool, "a").await.unwrap();
        assert_ne!(second, first);
        assert!(matches!(
            run(&pool, "hang").await,
            Err(InvokeError::TimedOut)
        ));
        assert_ne!(run(&pool, "a").await.unwrap(), second);
    }

    #[tokio::test]
    async fn who_is_killed_stops_where_it_is_until_it_is_revived() {
        let (pool, _stop) = pool(2);
        run(&pool, "a").await.unwrap();
        let hanging = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { run(&pool, "hang").await }
        });
        tokio::task::yield_now().await;
        pool.kill();
        assert!(matches!(hanging.await.unwrap(), Err(InvokeError::Killed)));
        assert!(matches!(run(&pool, "a").await, Err(InvokeError::Killed)));
        pool.revive();
        run(&pool, "a").await.unwrap();
        assert_eq!(pool.lock().len(), 1, "the ones before are gone");
    }

    #[tokio::test]
    async fn stopping_cuts_runs_off() {
        let (pool, stop) = pool(1);
        let hanging = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { run(&pool, "hang").await }
        });
        tokio::task::yield_now().await;
        let before = std::time::Instant::now();
        stop.send(true).unwrap();
        assert!(matches!(hanging.await.unwrap(), Err(InvokeError::TimedOut)));
        assert!(before.elapsed() < pool.timeout, "not the timeout");
    }
}
