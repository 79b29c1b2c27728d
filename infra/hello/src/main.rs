//! The least that a function can be: what `make bench-start` holds all others
//! against.

use lambda_http::{Error, Request, Response, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    lambda_http::run(service_fn(async |_: Request| {
        Ok::<_, Error>(Response::new("hello".to_owned()))
    }))
    .await
}
