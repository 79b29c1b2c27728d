//! The status function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_http::Error> {
    api::serve::<status_function::StatusFunction>().await
}
