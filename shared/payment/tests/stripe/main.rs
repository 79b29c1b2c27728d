//! Stripe's documented answers, one by one, which no stand-in gives by itself:
//! failures, conflicts, refunds that take their time, books of many pages.

#![allow(clippy::unwrap_used)]

mod books;
mod calls;
mod intents;
mod refunds;
mod secrets;
mod stub;
mod unmade;
