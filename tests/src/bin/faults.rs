//! `make faults`: a sale for each fault, a table with a row for each.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tests::faults::{Fault, Row, Scale, due, run};

/// The table stands between these lines.
const BEGIN: &str = "<!-- begin: make faults -->\n";
const END: &str = "<!-- end: make faults -->\n";

#[derive(Debug, Parser)]
#[command(about = "A sale for each fault, audited")]
struct Cli {
    /// Only these, by name
    #[arg(long, value_delimiter = ',', value_parser = fault)]
    only: Vec<Fault>,
    /// Units on sale
    #[arg(long)]
    units: Option<u32>,
    /// Who come
    #[arg(long)]
    shoppers: Option<u32>,
    /// Of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Without the run of ten thousand holds that fall due together
    #[arg(long)]
    without_due: bool,
    /// Write the table into this file, between its marks
    #[arg(long)]
    into: Option<PathBuf>,
    /// Show all that the drill says of every run
    #[arg(long)]
    verbose: bool,
}

fn fault(name: &str) -> Result<Fault, String> {
    let names: Vec<_> = Fault::ALL.map(Fault::name).into();
    let found = Fault::ALL.into_iter().find(|fault| fault.name() == name);
    found.ok_or_else(|| format!("one of {}", names.join(", ")))
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut scale = Scale::full();
    scale.seed = cli.seed;
    scale.units = cli.units.unwrap_or(scale.units);
    scale.shoppers = cli.shoppers.unwrap_or(scale.shoppers);
    let chosen = match cli.only.is_empty() {
        true => Fault::ALL.to_vec(),
        false => cli.only,
    };
    let mut table = format!("{}\n", Row::head());
    println!("{}", Row::head());
    let mut holds = true;
    for fault in chosen {
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
    if !cli.without_due {
        let lapsed = due::run(due::HOLDS).await?;
        println!("\n{lapsed}");
        table += &format!("\n{lapsed}\n");
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
