//! The admin function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_http::Error> {
    api::serve::<admin_function::AdminFunction>().await
}
