//! The functions, by the name of their binary, and how an event that
//! arrives as JSON is handed to one: what Lambda's runtime client does in the
//! cloud.

use aws_lambda_events::encodings::Body;
use aws_lambda_events::event::apigw::ApiGatewayV2httpResponse;
use futures::future::BoxFuture;
use lambda_http::http::header::SET_COOKIE;
use lambda_http::request::LambdaRequest;
use lambda_http::{Request, RequestExt, Response};
use runtime::{Environment, EventFunction, Invocation};

use api::HttpFunction;

/// One execution environment of a function.
pub(crate) trait Instance: Send + Sync {
    /// Handles one event. An error is a failed run.
    fn handle<'a>(
        &'a self,
        event: &'a [u8],
        invocation: Invocation,
    ) -> BoxFuture<'a, anyhow::Result<Vec<u8>>>;
}

/// An execution environment that is being made.
type Started = BoxFuture<'static, anyhow::Result<Box<dyn Instance>>>;

/// Makes an execution environment.
pub(crate) type Start = fn(Environment) -> Started;

/// How the function in a binary is started; none if there is no such binary.
pub(crate) fn start_of(binary: &str) -> Option<Start> {
    Some(match binary {
        "admin-function" => http::<admin_function::AdminFunction>,
        "claim-function" => http::<claim_function::ClaimFunction>,
        "controller-function" => event::<controller_function::ControllerFunction>,
        "entry-function" => http::<entry_function::EntryFunction>,
        "order-function" => event::<order_function::OrderFunction>,
        "pass-function" => http::<pass_function::PassFunction>,
        "payment-function" => http::<payment_function::PaymentFunction>,
        "publisher-function" => event::<publisher_function::PublisherFunction>,
        "reconciler-function" => event::<reconciler_function::ReconcilerFunction>,
        "status-function" => http::<status_function::StatusFunction>,
        "sweeper-function" => event::<sweeper_function::SweeperFunction>,
        _ => return None,
    })
}

fn started<I: Instance + 'static>(
    start: impl Future<Output = anyhow::Result<I>> + Send + 'static,
) -> Started {
    Box::pin(async move { Ok(Box::new(start.await?) as Box<dyn Instance>) })
}

fn http<F: HttpFunction>(environment: Environment) -> Started {
    started(async move { F::start(&environment).await.map(Http) })
}

fn event<F: EventFunction>(environment: Environment) -> Started {
    started(async move { F::start(&environment).await.map(Event) })
}

struct Http<F>(F);

impl<F: HttpFunction> Instance for Http<F> {
    fn handle<'a>(
        &'a self,
        event: &'a [u8],
        invocation: Invocation,
    ) -> BoxFuture<'a, anyhow::Result<Vec<u8>>> {
        Box::pin(async move {
            let request: LambdaRequest = serde_json::from_slice(event)?;
            let mut context = lambda_http::Context::default();
            context.request_id = invocation.request_id;
            context.deadline = invocation.deadline.as_millisecond() as u64;
            let request = Request::from(api::readable(request)).with_lambda_context(context);
            let response = api::invoke(&self.0, request).await;
            Ok(serde_json::to_vec(&payload(response))?)
        })
    }
}

/// The answer in payload format 2.0, as `lambda_http` writes it.
fn payload(response: Response<Body>) -> ApiGatewayV2httpResponse {
    let (parts, body) = response.into_parts();
    let mut payload = ApiGatewayV2httpResponse::default();
    payload.status_code = parts.status.as_u16().into();
    payload.headers = parts.headers;
    if payload.headers.contains_key(SET_COOKIE) {
        let cookies = payload.headers.get_all(SET_COOKIE).iter();
        payload.cookies = cookies
            .filter_map(|cookie| cookie.to_str().ok().map(str::to_owned))
            .collect();
        payload.headers.remove(SET_COOKIE);
    }
    payload.is_base64_encoded = matches!(body, Body::Binary(_));
    payload.body = (!matches!(body, Body::Empty)).then_some(body);
    payload
}

struct Event<F>(F);

impl<F: EventFunction> Instance for Event<F> {
    fn handle<'a>(
        &'a self,
        event: &'a [u8],
        invocation: Invocation,
    ) -> BoxFuture<'a, anyhow::Result<Vec<u8>>> {
        Box::pin(async move {
            let event = serde_json::from_slice(event)?;
            let answer = self.0.handle(event, invocation).await?;
            Ok(serde_json::to_vec(&answer)?)
        })
    }
}
