//! Many histories, each from its own seed, on as many benches as there is work
//! for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use runtime::Settings;

use crate::bench::{Bench, Twin, persistently};
use crate::play::play;
use crate::step::{Faults, History, histories};

/// Which histories.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What goes wrong in them.
    pub faults: Faults,
    /// What is not as it should be.
    pub twin: Twin,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// How many histories.
    pub count: u64,
    /// How many at a time.
    pub benches: usize,
    /// How often a failing history is made smaller.
    pub shrinks: u32,
}

impl Plan {
    /// So many histories against which every promise holds, from the seed and
    /// in the number that `HISTORIES_SEED` and `HISTORIES` say.
    ///
    /// # Panics
    /// They say no numbers.
    pub fn from_environment(faults: Faults, count: u64) -> Self {
        let settings = Settings::from_process();
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            faults,
            twin: Twin::default(),
            seed: settings.parse_or("HISTORIES_SEED", 1).expect("a number"),
            count: settings.parse_or("HISTORIES", count).expect("a number"),
            // One waits while others compute.
            benches: cores + 1,
            shrinks: 400,
        }
    }
}

/// What histories came to.
#[derive(Debug)]
pub struct Report {
    /// How many were played to their end.
    pub histories: u64,
    /// Comparisons in them.
    pub steps: u64,
    /// Histories that failed for once, as they do on a machine that is slower
    /// than the gates' client waits.
    pub again: u64,
    /// How long they took, the start of the servers apart.
    pub took: Duration,
    /// The first that broke something.
    pub failure: Option<Failure>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let took = self.took.as_secs_f64();
        write!(
            f,
            "{} histories, {} steps in {took:.1} s: {:.0} steps a second; {} played again",
            self.histories,
            self.steps,
            self.steps as f64 / took,
            self.again
        )
    }
}

/// A history that breaks something, as small as it could be made.
#[derive(Debug)]
pub struct Failure {
    /// The seed that begins it.
    pub seed: u64,
    /// Which promise, and how.
    pub why: String,
    /// What happens.
    pub history: History,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, why, history } = self;
        write!(
            f,
            "HISTORIES_SEED={seed} HISTORIES=1 repeats it\n{why}\n{history:?}"
        )
    }
}

/// Plays histories until one fails.
///
/// # Panics
/// A bench can't be set up.
pub fn run(plan: &Plan) -> Report {
    let next = AtomicU64::new(0);
    let [histories, steps, again] = [const { AtomicU64::new(0) }; 3];
    let failure = Mutex::new(None);
    let benches: Vec<Bench> = (0..plan.benches).map(|_| Bench::new(plan.twin)).collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for bench in benches {
            let (next, failure) = (&next, &failure);
            let (histories, steps, again) = (&histories, &steps, &again);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= plan.count || failure.lock().expect("no panic").is_some() {
                        break;
                    }
                    match one(plan, &bench, plan.seed + number) {
                        Ok((compared, repeated)) => {
                            histories.fetch_add(1, Ordering::Relaxed);
                            steps.fetch_add(compared, Ordering::Relaxed);
                            again.fetch_add(repeated, Ordering::Relaxed);
                        }
                        Err(failed) => {
                            let mut first = failure.lock().expect("no panic");
                            first.get_or_insert(failed);
                        }
                    }
                }
            });
        }
    });
    Report {
        histories: histories.into_inner(),
        steps: steps.into_inner(),
        again: again.into_inner(),
        took: begun.elapsed(),
        failure: failure.into_inner().expect("no panic"),
    }
}

/// The history of one seed, the same whoever plays it: its steps, and whether it
/// was played more than once.
fn one(plan: &Plan, bench: &Bench, seed: u64) -> Result<(u64, u64), Failure> {
    let config = Config {
        cases: 1,
        // The seed repeats it: no file has to.
        failure_persistence: None,
        max_shrink_iters: plan.shrinks,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let (compared, again) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut runner = TestRunner::new_with_rng(config, random);
    let ran = runner.run(&histories(plan.faults), |history| {
        let played = persistently(|| {
            let played = bench.runtime.block_on(play(bench, plan.faults, &history));
            played.map_err(|broken| broken.to_string())
        });
        let (steps, repeated) = played.map_err(TestCaseError::fail)?;
        compared.store(steps, Ordering::Relaxed);
        again.store(repeated.into(), Ordering::Relaxed);
        Ok(())
    });
    match ran {
        Ok(()) => Ok((compared.into_inner(), again.into_inner())),
        Err(TestError::Fail(why, history)) => Err(Failure {
            seed,
            why: why.message().to_owned(),
            history,
        }),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
