//! Events before `lambda_http` makes requests of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lambda_http::request::LambdaRequest;

/// The event with a body that can be taken as what it is said to be. One that
/// is said to be base64 and is none would end the run where it is decoded, and
/// be answered 500: it becomes one that no call can read, and is answered 400.
pub fn readable(mut event: LambdaRequest) -> LambdaRequest {
    if let LambdaRequest::ApiGatewayV2(call) = &mut event
        && call.is_base64_encoded
        && let Some(body) = &mut call.body
        && STANDARD.decode(&*body).is_err()
    {
        call.is_base64_encoded = false;
        *body = char::REPLACEMENT_CHARACTER.to_string();
    }
    event
}
