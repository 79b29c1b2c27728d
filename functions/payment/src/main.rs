//! The payment function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_http::Error> {
    api::serve::<payment_function::PaymentFunction>().await
}
