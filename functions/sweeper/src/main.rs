//! The sweeper function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    runtime::serve::<sweeper_function::SweeperFunction>().await
}
