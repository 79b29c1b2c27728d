//! localstripe, which stands in for Stripe: real books, real webhooks.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use runtime::Settings;

/// The secret key that functions call it with; it takes any of this form.
pub const KEY: &str = "sk_test_of_the_local_stand_in";
/// The publishable key that shoppers' clients confirm with.
pub const PUBLISHABLE_KEY: &str = "pk_test_of_the_local_stand_in";
/// The secret that its webhooks are signed with.
pub const WEBHOOK_SECRET: &str = "whsec_of_the_local_stand_in";

/// A card that is charged.
pub const GOOD_CARD: &str = "pm_card_visa";
/// A card whose bank says no. Both are Stripe's own test cards.
pub const BAD_CARD: &str = "pm_card_chargeCustomerFail";

/// A stand-in of one test, with empty books. It ends when this is dropped, and
/// with this process in any case.
#[derive(Debug)]
pub struct LocalStripe {
    process: Child,
    url: String,
}

impl LocalStripe {
    /// Starts one that sends its webhooks to a URL. Blocks until it answers.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(webhook_url: &str) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let settings = Settings::from_process();
        let python = match settings.get("LOCALSTRIPE_PYTHON") {
            Some(path) => path.into(),
            None => root.join(".venv-stripe/bin/python"),
        };
        ensure!(
            python.exists(),
            "localstripe is not installed: run .ci/setup-stripe"
        );
        let mut process = Command::new(&python)
            .arg(root.join("tests/stripe/stand_in.py"))
            .args(["--webhook", webhook_url, WEBHOOK_SECRET])
            // It ends when this pipe does, so with this process.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("localstripe does not start")?;
        let output = process.stdout.take().context("its output is piped")?;
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        let url = url.trim().to_owned();
        let stripe = Self { process, url };
        ensure!(
            stripe.url.starts_with("http://"),
            "localstripe ended before it served"
        );
        Ok(stripe)
    }

    /// Where it is, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for LocalStripe {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
