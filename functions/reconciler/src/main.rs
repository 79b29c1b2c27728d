//! The reconciler function under Lambda.

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    runtime::serve::<reconciler_function::ReconcilerFunction>().await
}
