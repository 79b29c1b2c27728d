//! Requests: a call of API Gateway (HTTP API, payload 2.0), read strictly.

use domain::input::{self, Fields, Unreadable};
use domain::{SaleId, ShopperId};
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};
use serde_json::{Map, Value};

use crate::{Code, Problem};

/// One call. Routes come from the gateway's route key, and names in the path
/// from its parameters: neither holds the stage, whatever it is called.
#[derive(Debug)]
pub struct Call {
    request: Request,
    route: String,
}

impl Call {
    /// Of a request that `lambda_http` decoded.
    pub fn new(request: Request) -> Self {
        let route = match request.request_context_ref() {
            Some(RequestContext::ApiGatewayV2(context)) => {
                context.route_key.clone().unwrap_or_default()
            }
            _ => String::new(),
        };
        Self { request, route }
    }

    /// `POST /v1/sales/{sale}/claims`, as `template.yaml` names it.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// A name in the path, by its type's own rule. Whatever is not such a
    /// name is not found, as a resource under it can't exist.
    ///
    /// # Errors
    /// Not found.
    pub fn path<T: std::str::FromStr>(&self, parameter: &str) -> Result<T, Problem> {
        self.request
            .path_parameters_ref()
            .and_then(|parameters| parameters.first(parameter))
            .and_then(|text| text.parse().ok())
            .ok_or_else(Problem::not_found)
    }

    /// The sale in the path.
    ///
    /// # Errors
    /// Not found.
    pub fn sale(&self) -> Result<SaleId, Problem> {
        self.path("sale")
    }

    /// The query, to be taken apart parameter by parameter; each is a text.
    ///
    /// # Errors
    /// A parameter was sent twice.
    pub fn query(&self) -> Result<Fields, Problem> {
        let sent = self.request.query_string_parameters_ref();
        let mut sent: Vec<_> = sent.into_iter().flat_map(|sent| sent.iter()).collect();
        // They come in no order; an answer has one.
        sent.sort_unstable();
        input::query(sent).map(Fields::of).map_err(unreadable)
    }

    /// A header, whatever its case. One that was sent and is no visible ASCII is
    /// there, as something that no rule accepts: it is wrong and not missing.
    pub fn header(&self, name: &str) -> Option<&str> {
        let sent = self.request.headers().get(name)?;
        Some(sent.to_str().unwrap_or("\u{fffd}"))
    }

    /// A claim of the session that the gateway's authorizer has checked.
    fn session(&self, claim: &str) -> Option<&str> {
        match self.request.request_context_ref()? {
            RequestContext::ApiGatewayV2(context) => context
                .authorizer
                .as_ref()?
                .jwt
                .as_ref()?
                .claims
                .get(claim)
                .map(String::as_str),
            _ => None,
        }
    }

    /// The shopper: the session's `sub`.
    ///
    /// # Errors
    /// There is no session: the route is wired without an authorizer, or the
    /// store's session has no usable `sub`.
    pub fn shopper(&self) -> Result<ShopperId, Problem> {
        self.session("sub")
            .and_then(|sub| sub.parse().ok())
            .ok_or_else(|| Problem::new(Code::Unauthenticated))
    }

    /// What the header `Sale-Pass` is to `open`.
    ///
    /// # Errors
    /// It is missing, or not valid here.
    pub fn pass<T, E>(
        &self,
        open: impl FnOnce(Option<&str>) -> Result<T, E>,
    ) -> Result<T, Problem> {
        let sent = self.header("sale-pass");
        open(sent).map_err(|_| Problem::token(Code::InvalidPass, "Sale-Pass", sent))
    }

    /// Checks that the session has a scope. The gateway checks it too; a
    /// route that lost its authorizer must not become public.
    ///
    /// # Errors
    /// No session, or without the scope.
    pub fn require_scope(&self, scope: &str) -> Result<(), Problem> {
        let scopes = self
            .session("scope")
            .ok_or_else(|| Problem::new(Code::Unauthenticated))?;
        if scopes.split_whitespace().any(|held| held == scope) {
            Ok(())
        } else {
            Err(Problem::new(Code::Forbidden))
        }
    }

    /// The raw bytes of the body, decoded where the gateway sent base64.
    pub fn bytes(&self) -> &[u8] {
        self.request.body()
    }

    /// The body as one JSON object.
    ///
    /// # Errors
    /// It is not.
    pub fn object(&self) -> Result<Map<String, Value>, Problem> {
        input::object(self.bytes()).map_err(unreadable)
    }

    /// The body as one JSON object, to be taken apart field by field.
    ///
    /// # Errors
    /// It is not.
    pub fn fields(&self) -> Result<Fields, Problem> {
        self.object().map(Fields::of)
    }

    /// Lambda's id of the run.
    pub fn request_id(&self) -> &str {
        self.request
            .lambda_context_ref()
            .map_or("", |context| context.request_id.as_str())
    }

    /// The gateway's id of the call, which the client sees too.
    pub fn gateway_id(&self) -> &str {
        match self.request.request_context_ref() {
            Some(RequestContext::ApiGatewayV2(context)) => {
                context.request_id.as_deref().unwrap_or_default()
            }
            _ => "",
        }
    }
}

fn unreadable(error: Unreadable) -> Problem {
    Problem::new(Code::MalformedRequest).detail(error.0)
}
