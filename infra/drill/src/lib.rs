//! A drill: behaves as so many shoppers do, against any base URL, then audits
//! the sale from the ledger's own report.
//!
//! Nothing in here knows how the sale is built; it only speaks HTTP. What the
//! drill was told on the way (a yes, a payment) is held against the ledger
//! afterwards, so that a system can't pass by forgetting.
//!
//! | module | subject |
//! |---|---|
//! | [`config`] | what a drill is asked to do |
//! | [`audit`] | promises, checked on a report |
//! | [`wire`] | the API's documents, as far as they are read |
//! | [`record`] | latencies and answers, by call |
//! | [`outcome`] | what a drill found, as text and as JSON |
//! | `merchant` | makes the sale, reads its report, ends it |
//! | `shopper`, `buyer` | one shopper: pass, entry, waiting, claim; then the payment |
//! | `instrument` | what a winner pays with, at the provider |
//! | `provider` | the sandbox's side: webhooks twice, late, or never |
//! | `edge` | the CDN's side: one cached status for all |
//! | `crowd`, `settle` | all shoppers at once; then until every hold has ended |

pub mod audit;
mod buyer;
mod client;
pub mod config;
mod crowd;
mod edge;
mod instrument;
mod merchant;
pub mod outcome;
mod progress;
mod provider;
pub mod record;
mod roles;
mod settle;
mod shopper;
pub mod wire;
mod world;

pub use config::{Config, Crowd, Mode, Progress, Target};
pub use outcome::Outcome;

/// Makes a sale, sends the crowd, waits until every hold has ended, audits.
///
/// # Errors
/// The sale can't be made, sessions can't be had, or the report can't be
/// read. A broken promise is no error: it is in the outcome's audit.
pub async fn run(config: Config) -> anyhow::Result<Outcome> {
    let started = std::time::Instant::now();
    let world = crowd::prepare(config).await?;
    let display = progress::Display::start(&world);
    let ran = async {
        crowd::send(&world).await?;
        settle::settle(&world).await
    }
    .await;
    display.stop().await;
    let ledger = ran?;
    Ok(outcome::of(&world, ledger, started.elapsed()))
}
