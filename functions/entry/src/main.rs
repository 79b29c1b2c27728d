//! The entry function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_http::Error> {
    api::serve::<entry_function::EntryFunction>().await
}
