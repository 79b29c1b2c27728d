//! `verify`: recomputes a draw from what is published of it.

use std::fs;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use domain::PassId;
use serde::de::DeserializeOwned;
use serde_json::Value;
use verify::{Evidence, Found, Published, check, find, read_entries, read_pass};

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Recomputes a draw from what is published of it",
    after_help = "  curl -s $API/v1/sales/fs1111 | verify\n  curl -s $API/v1/sales/fs1111 | verify --pass 2b1f…\n\n\
        Exits with 0 if everything fits, with 1 if something does not, with 2 if it can't tell."
)]
struct Cli {
    /// What GET /v1/sales/{sale} says after the end; - is the standard input
    #[arg(default_value = "-")]
    sale: PathBuf,
    /// What the merchant's report says
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Passes that were tapped, one a line, each with its ticket if that is known
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// The entries are all that there were: the counts are checked too
    #[arg(long, requires = "entries")]
    all: bool,
    /// Says where this pass was in line
    #[arg(long, value_name = "ID", value_parser = read_pass)]
    pass: Vec<PassId>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<bool> {
    let sale: Value = object(&cli.sale)?;
    if sale["mode"] == "race" {
        bail!("a race has no draw");
    }
    if sale["draw"]["secret"].is_null() {
        bail!("the secret is not published yet: it is once the sale is over");
    }
    let sale: Published = serde_json::from_value(sale).context("this is not a sale")?;
    let entries = cli.entries.as_deref().map(text).transpose()?;
    let evidence = Evidence {
        report: cli.report.as_deref().map(object).transpose()?,
        entries: read_entries(&entries.unwrap_or_default())?,
        all: cli.all,
    };
    let checks = check(&sale, &evidence);
    for check in &checks {
        println!("{check}");
    }
    for pass in &cli.pass {
        if let Some(found) = find(&sale.draw, pass) {
            println!("{pass}: {}", said(found, &sale));
        }
    }
    Ok(checks.iter().all(verify::Check::holds))
}

fn said(found: Found, sale: &Published) -> String {
    let admitted = if found.admitted { "" } else { "not " };
    let place = found
        .place
        .map_or_else(|| "uncounted".to_owned(), |place| place.to_string());
    format!(
        "number {place} of {} with the ticket {}, {admitted}admitted: the line was drawn at {}",
        sale.draw.entries, found.ticket.0, sale.draw.admitted
    )
}

fn text(path: &Path) -> anyhow::Result<String> {
    let named = || path.display().to_string();
    if path == Path::new("-") {
        let mut read = String::new();
        stdin().read_to_string(&mut read).with_context(named)?;
        return Ok(read);
    }
    fs::read_to_string(path).with_context(named)
}

fn object<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    serde_json::from_str(&text(path)?).with_context(|| path.display().to_string())
}
