//! Functions that answer HTTP calls: one log line and one error mapping for
//! all of them.

use std::future::Future;
use std::sync::Arc;

use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Body, LambdaEvent, Request, Response, lambda_runtime, service_fn};
use runtime::Environment;
use tower::util::MapRequest;

use crate::{Call, Code, Problem, Reply, readable};

/// Largest body of any request, in bytes: a provider's webhook, which is a few
/// kilobytes, and far below what the gateway hands over.
const BODY_MAX: usize = 256 * 1024;

/// A function behind API Gateway: `start` once in each execution environment,
/// then `handle` for one call at a time.
pub trait HttpFunction: Sized + Send + Sync + 'static {
    /// Connects to what it needs.
    ///
    /// # Errors
    /// A setting is missing: Lambda then reports a failed start.
    fn start(environment: &Environment) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Answers one call.
    ///
    /// # Errors
    /// The problem that is answered instead.
    fn handle(&self, call: Call) -> impl Future<Output = Result<Reply, Problem>> + Send;
}

/// Runs `F` under Lambda.
///
/// # Errors
/// The function could not start.
pub async fn serve<F: HttpFunction>() -> Result<(), lambda_http::Error> {
    let environment = Environment::load().await?;
    runtime::start_telemetry(&environment.settings);
    let function = Arc::new(F::start(&environment).await?);
    let answers = Adapter::from(service_fn(move |request: Request| {
        let function = Arc::clone(&function);
        async move { Ok::<_, std::convert::Infallible>(invoke(&*function, request).await) }
    }));
    // `lambda_http::run` with one step before it.
    let made = |event: LambdaEvent<LambdaRequest>| {
        LambdaEvent::new(readable(event.payload), event.context)
    };
    lambda_runtime::run(MapRequest::new(answers, made)).await
}

/// Answers one request, whatever happens, and logs it once: ids and the
/// outcome as fields, no token, no personal data.
pub async fn invoke<F: HttpFunction>(function: &F, request: Request) -> Response<Body> {
    let call = Call::new(request);
    let route = call.route().to_owned();
    let request_id = call.request_id().to_owned();
    let gateway_id = call.gateway_id().to_owned();
    let sale = call.sale().map(|sale| sale.to_string()).unwrap_or_default();
    let answer = if call.bytes().len() > BODY_MAX {
        let limit = format!("A body has at most {BODY_MAX} bytes.");
        Err(Problem::new(Code::BodyTooLarge).detail(limit))
    } else {
        function.handle(call).await
    };
    match answer {
        Ok(reply) => {
            let status = reply.status().as_u16();
            tracing::info!(route, status, request_id, gateway_id, sale, "answered");
            reply.into_response()
        }
        Err(problem) => {
            let status = problem.code.status().as_u16();
            let error = problem.code.name();
            let cause = problem.cause.as_deref().unwrap_or_default();
            if status == 500 {
                tracing::error!(
                    route, status, error, cause, request_id, gateway_id, sale, "failed"
                );
            } else if status > 500 {
                tracing::warn!(
                    route, status, error, cause, request_id, gateway_id, sale, "refused"
                );
            } else {
                tracing::info!(
                    route, status, error, cause, request_id, gateway_id, sale, "refused"
                );
            }
            problem.into_response()
        }
    }
}
