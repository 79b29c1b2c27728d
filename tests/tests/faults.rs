//! Small sales in which something breaks; `make faults` runs large ones, and
//! what takes longer.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use tests::faults::{Fault, Row, Scale, run};
use tokio::sync::Mutex;

/// One at a time: each is a whole system, and its time-outs are its own.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn holds(fault: Fault) -> Row {
    let _alone = ALONE.lock().await;
    let row = run(fault, Scale::small()).await.unwrap();
    println!("{}\n{}", Row::head(), row.line());
    assert!(row.holds(), "{:#?}\n{}", row.broken, row.text);
    assert_eq!((row.oversold, row.stranded), (0, 0), "{}", row.text);
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_outlives_a_flush_of_all_scripts() {
    let row = holds(Fault::Flush).await;
    // One that was recovered between two looks, a tenth of a second apart, is not seen.
    let buckets = usize::from(Scale::small().buckets);
    assert!((1..=buckets).contains(&row.frozen), "{}", row.frozen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_outlives_lost_answers_of_the_ledger() {
    let row = holds(Fault::LedgerAnswers).await;
    assert!(row.troubled > 50, "{} answers were lost", row.troubled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_outlives_messages_that_come_again_and_late() {
    holds(Fault::Duplicates).await;
}
