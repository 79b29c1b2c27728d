//! `drill`: behaves as so many shoppers do, then audits the sale.

mod demo;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use drill::{Config, Crowd, Outcome, Progress, Target};

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Behaves as so many shoppers do, then audits the sale from its ledger"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drills a system that runs, local or deployed
    Run {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        options: Options,
    },
    /// Starts the whole system on this machine, drills it, ends it
    Demo {
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Debug, Args)]
struct Options {
    #[command(flatten)]
    crowd: Crowd,
    /// Write everything that was found to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show nothing until the end
    #[arg(long)]
    quiet: bool,
}

impl Options {
    fn config(&self, target: Target) -> Config {
        Config {
            target,
            crowd: self.crowd.clone(),
            progress: if self.quiet {
                Progress::Quiet
            } else {
                Progress::Shown
            },
        }
    }

    fn report(&self, outcome: &Outcome) -> anyhow::Result<ExitCode> {
        print!("{outcome}");
        if let Some(file) = &self.json {
            let json = serde_json::to_vec_pretty(outcome)?;
            std::fs::write(file, json)
                .with_context(|| format!("{} can't be written", file.display()))?;
        }
        Ok(if outcome.passed() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run { target, options } => {
            let outcome = drill::run(options.config(target)).await?;
            options.report(&outcome)
        }
        Command::Demo { options } => {
            let demo = demo::Demo::start().await?;
            let outcome = drill::run(options.config(demo.target())).await;
            demo.stop().await;
            options.report(&outcome?)
        }
    }
}
