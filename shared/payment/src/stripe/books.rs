//! Stripe's own books: every capture of a sale.
//!
//! Lists are read, not the search: what was just captured may be missing from
//! that for a minute or more, and accounts in India don't have it
//! (<https://docs.stripe.com/search>). A list can't be asked for a sale or a
//! bucket, only for a time, so all intents since the opening are read, a
//! hundred a page, and those of other sales and of other business passed over.
//!
//! Two things keep that quick. Windows of time are read side by side, since
//! pages of one window can only be read one after the other. And those who ask
//! for buckets of one sale while it is being read share the next reading:
//! everyone gets books that began to be read after they asked.

use std::sync::Arc;

use domain::{BucketId, SaleId};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::Client;
use super::objects::{Page, PaymentIntent};
use crate::{Error, ProviderPayment};

/// Intents on a page; Stripe gives no more.
const PAGE: &str = "100";

/// Pages that are asked for at the same time.
const PAGES_AT_ONCE: usize = 8;

/// How far Stripe's clock may be from ours, in seconds.
const CLOCKS_S: i64 = 60;

/// Shorter windows are not split, in seconds.
const WINDOW_MIN_S: i64 = 4;

/// What was read last, and for whom.
#[derive(Debug, Default)]
pub(super) struct Books(Mutex<Option<Reading>>);

#[derive(Debug)]
struct Reading {
    sale: SaleId,
    since: Timestamp,
    begun: Instant,
    payments: Arc<[ProviderPayment]>,
}

/// Intents made from `from` to before `to`, in seconds since 1970, that are
/// older than `after`.
#[derive(Debug)]
struct Window {
    from: i64,
    to: i64,
    after: Option<String>,
}

impl Books {
    /// Every capture for orders of one bucket of a sale that opened at `since`.
    ///
    /// # Errors
    /// No answer.
    pub(super) async fn of(
        &self,
        client: &Client,
        sale: &SaleId,
        bucket: BucketId,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ProviderPayment>, Error> {
        let asked = Instant::now();
        let mut kept = self.0.lock().await;
        let fresh = kept.as_ref().filter(|reading| {
            reading.sale == *sale && reading.since <= since && reading.begun >= asked
        });
        let payments = match fresh {
            Some(reading) => Arc::clone(&reading.payments),
            None => {
                *kept = None;
                let begun = Instant::now();
                let payments: Arc<[_]> = read(client, sale, since, now).await?.into();
                *kept = Some(Reading {
                    sale: sale.clone(),
                    since,
                    begun,
                    payments: Arc::clone(&payments),
                });
                payments
            }
        };
        drop(kept);
        let of_bucket = payments.iter().filter(|one| one.order.bucket() == bucket);
        Ok(of_bucket.cloned().collect())
    }
}

/// Every capture of a sale.
async fn read(
    client: &Client,
    sale: &SaleId,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<ProviderPayment>, Error> {
    let mut waiting = vec![Window {
        from: since.as_second() - CLOCKS_S,
        to: now.as_second() + CLOCKS_S,
        after: None,
    }];
    let mut asked = FuturesUnordered::new();
    let mut payments = Vec::new();
    loop {
        while asked.len() < PAGES_AT_ONCE
            && let Some(window) = waiting.pop()
        {
            asked.push(page(client, window));
        }
        let Some(answer) = asked.next().await else {
            return Ok(payments);
        };
        let (window, page) = answer?;
        if page.has_more
            && let Some(oldest) = page.data.last()
        {
            waiting.extend(window.rest(oldest));
        }
        for intent in page.data {
            if let Some(payment) = intent.payment()?
                && payment.order.sale() == sale
            {
                payments.push(payment);
            }
        }
    }
}

/// The newest page of a window.
async fn page(client: &Client, window: Window) -> Result<(Window, Page<PaymentIntent>), Error> {
    let (from, to) = (window.from.to_string(), window.to.to_string());
    let mut query = vec![
        ("limit", PAGE),
        ("created[gte]", &from),
        ("created[lt]", &to),
        // With it come what went back, and when it was captured.
        ("expand[]", "data.latest_charge"),
    ];
    if let Some(after) = &window.after {
        query.push(("starting_after", after));
    }
    let page = client.get("/v1/payment_intents", &query).await?;
    Ok((window, page))
}

impl Window {
    /// What is left of it once its newest page was read, down to `oldest`: in
    /// two halves, unless they would be too short.
    fn rest(self, oldest: &PaymentIntent) -> Vec<Self> {
        let newer = Self {
            after: Some(oldest.id.as_str().to_owned()),
            ..self
        };
        let left_s = oldest.created - newer.from;
        if left_s < WINDOW_MIN_S {
            return vec![newer];
        }
        let middle = newer.from + left_s / 2;
        let older = Self {
            from: newer.from,
            to: middle,
            after: None,
        };
        let newer = Self {
            from: middle,
            ..newer
        };
        vec![older, newer]
    }
}
