//! A local system for the time of one drill.

use drill::Target;
use drill::config::Stripe;
use local::{Options, System};

/// How long a payment that was begun may take, in seconds.
const INTENT_S: u32 = 10;

/// A system that was started for this drill alone.
pub(crate) struct Demo {
    system: System,
    target: Target,
}

impl Demo {
    /// Starts it on free ports and waits until it serves.
    ///
    /// # Errors
    /// A part of it does not start.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut options = Options::default();
        // As short as everything else in a demonstration: a payment whose
        // webhook is lost is found when its intent ends.
        let seconds = INTENT_S.to_string();
        options
            .parameters
            .insert("PaymentIntentSeconds".to_owned(), seconds);
        let system = System::start(options).await?;
        let base_url = system.base_url().to_owned();
        let target = Target {
            token_url: format!("{base_url}/_dev/token"),
            admin_token: system.admin_token()?,
            stripe: Stripe::default(),
            base_url,
        };
        Ok(Self { system, target })
    }

    /// What to drill.
    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    /// Ends it in order.
    pub(crate) async fn stop(mut self) {
        self.system.stop().await;
    }
}
