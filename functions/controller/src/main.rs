//! The controller function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    runtime::serve::<controller_function::ControllerFunction>().await
}
