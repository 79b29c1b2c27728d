//! What a drill is asked to do. The command line's options are these fields,
//! so there is one place for a name, its meaning and its default.

use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use domain::{Money, SaleId};
use serde::Serialize;

/// A whole drill.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// Which system.
    pub target: Target,
    /// Who comes, to what sale, and how they behave.
    pub crowd: Crowd,
    /// What is shown meanwhile.
    #[serde(skip)]
    pub progress: Progress,
}

/// The system that is drilled. All load goes to `base_url`, and sessions are
/// had from `token_url`.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Target {
    /// Where the API is, such as https://abc.execute-api.eu-west-1.amazonaws.com
    #[arg(long)]
    pub base_url: String,
    /// Session with the scope sales.admin
    #[arg(long, env = "DRILL_ADMIN_TOKEN", hide_env_values = true)]
    #[serde(skip)]
    pub admin_token: String,
    /// Where shoppers' sessions are issued: POST {"subs": [...]}
    #[arg(long)]
    pub token_url: String,
    /// Where shoppers pay.
    #[command(flatten)]
    pub stripe: Stripe,
}

/// Stripe in test mode, or what stands in for it, if that is the provider of
/// the system. Its webhooks are its own to deliver.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub struct Stripe {
    /// Where shoppers' clients reach Stripe [default: the sandbox is the provider]
    #[arg(long = "stripe-url", value_name = "URL", requires = "publishable_key")]
    pub url: Option<String>,
    /// The account's publishable key of test mode
    #[arg(long = "stripe-publishable-key", value_name = "KEY")]
    #[serde(skip)]
    pub publishable_key: Option<String>,
}

/// What is shown while a drill runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Bars on a terminal, else a line every few seconds.
    Shown,
    /// Nothing.
    Quiet,
}

/// How it is decided who may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Entries within a window, then a draw.
    Draw,
    /// First come, first served.
    Race,
}

/// The crowd and the sale it comes to.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Crowd {
    /// How many shoppers come
    #[arg(long, default_value_t = 2_000)]
    pub shoppers: u32,
    /// Units on sale
    #[arg(long, default_value_t = 200)]
    pub units: u32,
    /// Buckets that the units are split into [default: as few as may be]
    #[arg(long)]
    pub buckets: Option<u16>,
    /// Price of one unit in minor units
    #[arg(long, default_value_t = 999_900)]
    pub price_amount: u64,
    /// Currency of the price, ISO 4217
    #[arg(long, default_value = "INR")]
    pub price_currency: domain::Currency,
    /// How it is decided who may claim
    #[arg(long, value_enum, default_value_t = Mode::Draw)]
    pub mode: Mode,
    /// Length of the draw's window [default: what the entries need, see --entries-per-s]
    #[arg(long)]
    pub draw_window_ms: Option<u32>,
    /// Time to pay after a claim [default: what the payments need, see --payments-per-s]
    #[arg(long)]
    pub pay_window_s: Option<u32>,
    /// Time to pay for those who come from the waitlist [default: half of the pay window]
    #[arg(long)]
    pub waitlist_pay_window_s: Option<u32>,
    /// Over how many seconds admitted shoppers spread their claims
    #[arg(long, default_value_t = 3)]
    pub claim_spread_s: u32,
    /// Passes a second that the system is trusted to issue; the opening is set so far ahead
    #[arg(long, default_value_t = 1_500)]
    pub passes_per_s: u32,
    /// Entries a second that the system is trusted to take; the draw's window is set by it
    #[arg(long, default_value_t = 1_000)]
    pub entries_per_s: u32,
    /// Units a second that the system is trusted to be paid for; the pay window is set by it
    #[arg(long, default_value_t = 60)]
    pub payments_per_s: u32,
    /// How long the sale may take from the draw on [default: by pay windows and shoppers]
    #[arg(long)]
    pub sale_limit_s: Option<u32>,
    /// Shares of the crowd that behave in some way
    #[command(flatten)]
    pub shares: Shares,
    /// Who behaves how, and every wait; the same seed, the same crowd
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Calls in flight at a time, all shoppers together
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    pub connections: u32,
    /// Name of the sale [default: a new one]
    #[arg(long)]
    pub sale: Option<SaleId>,
}

/// How many of a hundred shoppers behave in some way.
#[derive(Debug, Clone, Copy, Args, Serialize)]
pub struct Shares {
    /// Percent whose first payment is declined, and who then pay
    #[arg(long = "decline-percent", default_value_t = 5.0)]
    pub decline: f64,
    /// Percent who win and never pay
    #[arg(long = "never-pay-percent", default_value_t = 15.0)]
    pub never_pay: f64,
    /// Percent who win and give their hold back
    #[arg(long = "give-back-percent", default_value_t = 1.0)]
    pub give_back: f64,
    /// Percent who enter after the draw's window
    #[arg(long = "late-percent", default_value_t = 2.0)]
    pub late: f64,
    /// Percent who send the same call twice in parallel
    #[arg(long = "double-tap-percent", default_value_t = 10.0)]
    pub double_tap: f64,
    /// Percent who repeat the claim with the same key later
    #[arg(long = "retry-same-key-percent", default_value_t = 10.0)]
    pub retry_same_key: f64,
    /// Percent who claim again with another key
    #[arg(long = "second-key-percent", default_value_t = 3.0)]
    pub second_key: f64,
    /// Percent of payments whose webhook is never delivered
    #[arg(long = "lost-webhook-percent", default_value_t = 1.0)]
    pub lost_webhook: f64,
    /// Each webhook is delivered 1 to so many times, in any order
    #[arg(long = "webhook-copies-max", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub webhook_copies_max: u32,
}

impl Default for Crowd {
    fn default() -> Self {
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            crowd: Crowd,
        }
        Defaults::parse_from(["drill"]).crowd
    }
}

/// The shortest window that is set by itself; shorter ones can be asked for.
const DRAW_WINDOW_MS_MIN: u64 = 2_000;
/// The longest window that a sale may have.
const DRAW_WINDOW_MS_MAX: u64 = 3_600_000;

/// The shortest pay windows that are set by themselves.
const PAY_WINDOW_S_MIN: u32 = 10;
const WAITLIST_PAY_WINDOW_S_MIN: u32 = 6;

impl Crowd {
    /// Time to pay after a claim, in seconds: what was asked, or what all
    /// units together need at `payments_per_s`. In a shorter one the units
    /// would go round among shoppers who all come too late to pay.
    pub fn pay_window_s(&self) -> u32 {
        self.pay_window_s
            .unwrap_or((self.units / self.payments_per_s.max(1)).max(PAY_WINDOW_S_MIN))
    }

    /// The same for those who come from the waitlist.
    pub fn waitlist_pay_window_s(&self) -> u32 {
        self.waitlist_pay_window_s
            .unwrap_or((self.pay_window_s() / 2).max(WAITLIST_PAY_WINDOW_S_MIN))
    }

    /// The longer of the two.
    pub fn longest_pay_window(&self) -> Duration {
        let longest = self.pay_window_s().max(self.waitlist_pay_window_s());
        Duration::from_secs(u64::from(longest))
    }

    /// Of one unit.
    pub fn price(&self) -> Money {
        Money {
            amount: self.price_amount,
            currency: self.price_currency,
        }
    }

    /// The draw's window: what was asked, or what the entries need at
    /// `entries_per_s`. Zero in a race.
    pub fn window_ms(&self) -> u32 {
        match self.mode {
            Mode::Race => 0,
            Mode::Draw => self.draw_window_ms.unwrap_or_else(|| {
                let needed =
                    u64::from(self.shoppers) * 1_000 / u64::from(self.entries_per_s.max(1));
                needed.clamp(DRAW_WINDOW_MS_MIN, DRAW_WINDOW_MS_MAX) as u32
            }),
        }
    }

    /// How long passes are issued before the opening, in milliseconds.
    pub fn passes_ms(&self) -> u64 {
        u64::from(self.shoppers) * 1_000 / u64::from(self.passes_per_s.max(1))
    }

    /// How long the sale may take from the draw on, in seconds: some rounds
    /// of the waitlist, and time for entries that a small machine takes late.
    pub fn limit_s(&self) -> u32 {
        self.sale_limit_s.unwrap_or(
            120 + self.shoppers / 100 + 2 * self.pay_window_s() + 6 * self.waitlist_pay_window_s(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_fits_the_crowd() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.window_ms(), 2_000);
        crowd.shoppers = 200_000;
        assert_eq!(crowd.window_ms(), 200_000);
        crowd.draw_window_ms = Some(500);
        assert_eq!(crowd.window_ms(), 500);
        crowd.mode = Mode::Race;
        assert_eq!(crowd.window_ms(), 0);
    }
}
