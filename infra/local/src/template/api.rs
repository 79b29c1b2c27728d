//! The API: its routes, which tokens it accepts, which pages may call it.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde::Deserialize;
use serde_json::Value as Json;
use serde_yaml_ng::Value as Yaml;

use super::intrinsics::Scope;
use super::properties;

/// Who may call a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Whoever has a valid token with one of the scopes; any, if none is named.
    Token {
        /// Scopes, one of which the token must have.
        scopes: Vec<String>,
    },
}

/// One route of the API.
#[derive(Debug, Clone)]
pub struct Route {
    /// `GET`, or `ANY`.
    pub method: String,
    /// `/v1/sales/{sale}`.
    pub path: String,
    /// The function's logical id.
    pub function: String,
    /// Who may call it.
    pub access: Access,
}

impl Route {
    /// `GET /v1/sales/{sale}`, as API Gateway names it.
    pub fn key(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Which tokens are accepted.
#[derive(Debug, Clone)]
pub struct Authorizer {
    /// The `iss` they must have.
    pub issuer: String,
    /// One of these is the `aud` they must have.
    pub audience: Vec<String>,
}

/// Which pages may call the API from a browser.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Cors {
    /// Origins; `*` for all.
    #[serde(default)]
    pub allow_origins: Vec<String>,
    /// Methods.
    #[serde(default)]
    pub allow_methods: Vec<String>,
    /// Request headers.
    #[serde(default)]
    pub allow_headers: Vec<String>,
    /// Answer headers that the page may read.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// May cookies be sent?
    #[serde(default)]
    pub allow_credentials: bool,
    /// How long a preflight answer may be kept, in seconds.
    #[serde(default)]
    pub max_age: Option<u64>,
}

/// What the API asks of a caller before any route does.
pub(super) fn read(
    scope: &Scope,
    given: Option<&Yaml>,
) -> anyhow::Result<(Option<Authorizer>, Option<Cors>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        #[serde(default)]
        auth: Auth,
        cors_configuration: Option<Cors>,
        stage_name: Option<String>,
    }
    let read: Read = properties::read(
        scope,
        given,
        &["Auth", "CorsConfiguration", "StageName"],
        &[
            "AccessLogSettings",
            "DefaultRouteSettings",
            "Description",
            "Domain",
            "FailOnWarnings",
            "Name",
            "RouteSettings",
            "Tags",
        ],
    )?;
    ensure!(
        read.stage_name.is_none_or(|stage| stage == "$default"),
        "the runner knows the stage $default only"
    );
    Ok((authorizer(read.auth)?, read.cors_configuration))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Auth {
    default_authorizer: Option<String>,
    #[serde(default)]
    authorizers: BTreeMap<String, JwtAuthorizer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct JwtAuthorizer {
    identity_source: String,
    jwt_configuration: Jwt,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Jwt {
    issuer: String,
    audience: Vec<String>,
}

fn authorizer(auth: Auth) -> anyhow::Result<Option<Authorizer>> {
    ensure!(
        auth.authorizers.len() <= 1,
        "the runner knows one authorizer only"
    );
    let Some((name, one)) = auth.authorizers.into_iter().next() else {
        return Ok(None);
    };
    ensure!(
        auth.default_authorizer.as_deref() == Some(name.as_str()),
        "the authorizer {name} is not the default one"
    );
    ensure!(
        one.identity_source == "$request.header.Authorization",
        "the runner does not know the identity source {}",
        one.identity_source
    );
    Ok(Some(Authorizer {
        issuer: one.jwt_configuration.issuer,
        audience: one.jwt_configuration.audience,
    }))
}

pub(super) fn route(scope: &Scope, function: &str, given: Option<&Yaml>) -> anyhow::Result<Route> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Read {
        method: String,
        path: String,
        #[serde(default)]
        auth: Auth,
        payload_format_version: Option<Json>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Auth {
        authorizer: Option<String>,
        #[serde(default)]
        authorization_scopes: Vec<String>,
    }
    let read: Read = properties::read(
        scope,
        given,
        &["Method", "Path", "Auth", "PayloadFormatVersion"],
        &["ApiId", "RouteSettings"],
    )?;
    if let Some(version) = read.payload_format_version {
        ensure!(
            version == "2.0" || version == 2.0,
            "the runner knows payload format 2.0 only"
        );
    }
    ensure!(read.path.starts_with('/'), "the path is not absolute");
    let access = match read.auth.authorizer.as_deref() {
        Some("NONE") => Access::Public,
        // There is one authorizer at most, which is the default one.
        _ => Access::Token {
            scopes: read.auth.authorization_scopes,
        },
    };
    Ok(Route {
        method: match read.method.to_ascii_uppercase().as_str() {
            "*" | "X-AMAZON-APIGATEWAY-ANY-METHOD" => "ANY".to_owned(),
            method => method.to_owned(),
        },
        path: read.path,
        function: function.to_owned(),
        access,
    })
}
