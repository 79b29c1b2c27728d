//! `make faults`: a sale for each fault, a table with a row for each.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use runtime::Settings;
use tests::faults::{Fault, Row, Scale, due, run};

/// The run of many holds that fall due together, by this name.
const HOLDS: &str = "holds";

/// The table stands between these lines.
const BEGIN: &str = "<!-- begin: make faults -->\n";
const END: &str = "<!-- end: make faults -->\n";

#[derive(Debug, Parser)]
#[command(about = "A sale for each fault, audited")]
struct Cli {
    /// Only these, by name
    #[arg(long, value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// Units on sale
    #[arg(long)]
    units: Option<u32>,
    /// Who come
    #[arg(long)]
    shoppers: Option<u32>,
    /// Of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the table into this file, between its marks
    #[arg(long)]
    into: Option<PathBuf>,
    /// Show all that the drill says of every run, and what the functions log
    #[arg(long)]
    verbose: bool,
}

impl Cli {
    fn runs(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == name)
    }
}

fn names() -> PossibleValuesParser {
    let faults = Fault::ALL.map(Fault::name).into_iter();
    PossibleValuesParser::new(faults.chain([HOLDS]))
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut scale = Scale::full();
    scale.seed = cli.seed;
    scale.units = cli.units.unwrap_or(scale.units);
    scale.shoppers = cli.shoppers.unwrap_or(scale.shoppers);
    if cli.verbose {
        runtime::init_telemetry(&Settings::from_process());
    }
    let mut table = format!("{}\n", Row::head());
    println!("{}", Row::head());
    let mut holds = true;
    let chosen = Fault::ALL.into_iter();
    for fault in chosen.filter(|fault| cli.runs(fault.name())) {
        let row = run(fault, scale).await?;
        println!("{}", row.line());
        if cli.verbose || !row.holds() {
            println!("{}", row.text);
        }
        for broken in &row.broken {
            println!("BROKEN: {broken}");
        }
        table += &format!("{}\n", row.line());
        holds &= row.holds();
    }
    if cli.runs(HOLDS) {
        let lapsed = due::run(due::HOLDS).await?;
        println!("\n{lapsed}");
        table += &format!("\n{lapsed}\n");
        holds &= lapsed.in_time();
    }
    if let Some(file) = cli.into {
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{} can't be read", file.display()))?;
        let (before, rest) = text.split_once(BEGIN).context("no mark to begin at")?;
        let (_, after) = rest.split_once(END).context("no mark to end at")?;
        std::fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}"))?;
    }
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
