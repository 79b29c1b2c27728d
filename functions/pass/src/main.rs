//! The pass function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_http::Error> {
    api::serve::<pass_function::PassFunction>().await
}
