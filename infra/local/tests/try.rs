//! The calls that `local up` prints lead from a new sale to a paid order.

#![allow(clippy::unwrap_used)] // a test that can't be set up has failed

use std::path::Path;
use std::process::Command;

use local::{Options, System};

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_calls_work() {
    let mut system = System::start(Options::default()).await.unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("try.sh");
    let mut shell = Command::new("bash");
    shell.arg("-eu").arg(script).env("API", system.base_url());
    let output = tokio::task::spawn_blocking(move || shell.output())
        .await
        .unwrap()
        .unwrap();
    system.stop().await;
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{shown}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(shown.contains(r#""result": "paid""#), "{shown}");
    let last = shown.lines().rev().take(7).collect::<Vec<_>>().join(" ");
    assert!(
        last.contains(r#""paid": 1"#) && last.contains(r#""free": 1"#),
        "{shown}"
    );
}
