//! What every provider must keep, whoever it is: one contract, each provider.
//!
//! The sandbox is held against it on the ledger's table, Stripe on localstripe.
//! Another provider is added to `sides` and to the list at the end.

#![allow(clippy::unwrap_used)]

mod contract;
mod sides;

/// Every clause, as a test of each side.
macro_rules! keep {
    ($side:ident: $start:path) => {
        mod $side {
            keep!(@clauses $start:
                a_key_is_an_intent,
                an_intent_is_found_for_its_order_alone,
                a_cancelled_intent_captures_nothing,
                a_captured_intent_can_not_be_cancelled,
                a_declined_intent_can_be_confirmed_until_it_is_cancelled,
                a_capture_goes_back_once,
                what_failed_to_be_asked_is_asked_again_and_done_once,
                books_are_those_of_the_sale_and_bucket,
                events_say_who_paid_what,
                events_are_signed_to_the_byte_and_lately,
                amounts_are_exact_in_every_currency,
            );
        }
    };
    (@clauses $start:path: $($clause:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $clause() {
                let side = $start().await;
                crate::contract::$clause(&side).await;
            }
        )*
    };
}

keep!(sandbox: crate::sides::sandbox::Sandbox::start);
keep!(stripe: crate::sides::stripe::Stripe::start);
