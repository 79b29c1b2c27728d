//! The order function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    runtime::serve::<order_function::OrderFunction>().await
}
