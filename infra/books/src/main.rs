//! `books`: holds the provider's list of a sale's payments against its ledger.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use books::{Closing, SaleReport, close, read_buckets};
use clap::Parser;
use runtime::Clock;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Holds the provider's list of a sale's payments against its ledger",
    after_help = "  admin fs1111/report > report.json\n  \
        for b in $(jq '.buckets[].bucket' report.json); do admin \"fs1111/report?bucket=$b\"; done |\n    \
        books report.json\n\n\
        Exits with 0 if they agree, with 1 if they differ, with 2 if it can't tell."
)]
struct Cli {
    /// The merchant's report of the sale
    sale: PathBuf,
    /// Its reports of all buckets, one after the other; - is the standard input
    #[arg(default_value = "-")]
    buckets: PathBuf,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(closing) => {
            print(&closing);
            ExitCode::from(u8::from(!closing.differences.is_empty()))
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<Closing> {
    let named = |path: &Path| path.display().to_string();
    let sale = File::open(&cli.sale).with_context(|| named(&cli.sale))?;
    let sale: SaleReport = serde_json::from_reader(sale).with_context(|| named(&cli.sale))?;
    let buckets: Box<dyn Read> = match cli.buckets == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(&cli.buckets).with_context(|| named(&cli.buckets))?),
    };
    let buckets = read_buckets(buckets).with_context(|| named(&cli.buckets))?;
    close(&sale, &buckets, Clock::system().now())
}

fn print(closing: &Closing) {
    let Closing {
        sale,
        sums,
        differences,
    } = closing;
    println!("{sale}");
    println!("  captured    {}", sums.captured);
    println!("  gone back   {}", sums.returned);
    println!("  paid orders {}", sums.paid);
    for difference in differences {
        println!("DIFFERS  {difference}");
    }
    match differences.len() {
        0 => println!("The books agree."),
        many => println!("Differences: {many}."),
    }
}
