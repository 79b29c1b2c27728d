//! The claim function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_http::Error> {
    api::serve::<claim_function::ClaimFunction>().await
}
