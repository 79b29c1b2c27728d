//! The publisher function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    runtime::serve::<publisher_function::PublisherFunction>().await
}
