//! What is shown while a drill runs: bars on a terminal, else a line now and
//! then.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use crate::config::{Mode, Progress};
use crate::world::{World, read};

const BARS_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A display that runs beside the drill.
pub(crate) struct Display(Option<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Display {
    /// Says what will be done, then shows how far it is.
    pub(crate) fn start(world: &Arc<World>) -> Self {
        if world.config.progress == Progress::Quiet {
            return Self(None);
        }
        eprintln!("{}", plan(world));
        let (stop, stopped) = oneshot::channel();
        let world = world.clone();
        let shown = if std::io::stderr().is_terminal() {
            tokio::spawn(bars(world, stopped))
        } else {
            tokio::spawn(lines(world, stopped))
        };
        Self(Some((stop, shown)))
    }

    /// Takes the bars away.
    pub(crate) async fn stop(self) {
        if let Some((stop, shown)) = self.0 {
            // The display may have ended by itself; either way it is over.
            let _ = stop.send(());
            let _ = shown.await;
        }
    }
}

fn plan(world: &World) -> String {
    let crowd = &world.config.crowd;
    let passes_s = world.timing.passes.as_secs_f64();
    let opens_in = world
        .timing
        .opens
        .saturating_duration_since(Instant::now())
        .as_secs_f64();
    let how = match crowd.mode {
        Mode::Race => "a race".to_owned(),
        Mode::Draw => format!(
            "a draw with a window of {:.1} s",
            world.timing.window.as_secs_f64()
        ),
    };
    format!(
        "Sale {}: {} shoppers, {} units, {how}; opens in {opens_in:.1} s, passes within \
         {passes_s:.1} s before; {} s to pay, {} s from the waitlist; {} calls in flight at \
         most; seed {}",
        world.sale,
        crowd.shoppers,
        crowd.units,
        crowd.pay_window_s(),
        crowd.waitlist_pay_window_s(),
        crowd.connections,
        crowd.seed
    )
}

async fn bars(world: Arc<World>, mut stopped: oneshot::Receiver<()>) {
    let crowd = &world.config.crowd;
    let (shoppers, units) = (u64::from(crowd.shoppers), u64::from(crowd.units));
    let all = MultiProgress::new();
    let style = ProgressStyle::with_template("{prefix:>10} {bar:40} {pos}/{len}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = |name: &'static str, length: u64| {
        all.add(
            ProgressBar::new(length)
                .with_style(style.clone())
                .with_prefix(name),
        )
    };
    let tally = &world.tally;
    let rows = [
        (bar("passes", shoppers), &tally.passes),
        (bar("entries", shoppers), &tally.entries),
        (bar("claims yes", units), &tally.yes),
        (bar("paid", units), &tally.paid),
    ];
    let state = all.add(ProgressBar::new_spinner());
    let mut ticks = interval(BARS_EVERY);
    while !is_stopped(&mut stopped, &mut ticks).await {
        for (bar, counter) in &rows {
            bar.set_position(read(counter));
        }
        state.set_message(standing(&world));
        state.tick();
    }
    let _ = all.clear();
}

async fn lines(world: Arc<World>, mut stopped: oneshot::Receiver<()>) {
    let tally = &world.tally;
    let mut ticks = interval(LINE_EVERY);
    while !is_stopped(&mut stopped, &mut ticks).await {
        eprintln!(
            "{}; passes {}, entries {}, claims yes {}, paid {}",
            standing(&world),
            read(&tally.passes),
            read(&tally.entries),
            read(&tally.yes),
            read(&tally.paid)
        );
    }
}

async fn is_stopped(
    stopped: &mut oneshot::Receiver<()>,
    ticks: &mut tokio::time::Interval,
) -> bool {
    tokio::select! {
        _ = stopped => true,
        _ = ticks.tick() => false,
    }
}

fn standing(world: &World) -> String {
    let status = world.edge.last();
    format!(
        "{:?}, round {}, {} in line",
        status.state,
        status.round,
        read(&world.tally.in_line)
    )
}
