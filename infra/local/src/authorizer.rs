//! The JWT authorizer of an HTTP API.

use std::collections::HashMap;

use axum::http::{HeaderMap, header};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Map, Value};

use crate::template::{self, Access};

/// Why a call is turned away.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 401: no valid token.
    Unauthorized,
    /// 403: the token lacks the scope.
    Forbidden,
}

/// What the function is told about the token.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// Claims, as texts.
    pub(crate) claims: HashMap<String, String>,
    /// Scopes of the route that the token has.
    pub(crate) scopes: Option<Vec<String>>,
}

/// Checks tokens.
pub(crate) struct Authorizer {
    key: DecodingKey,
    validation: Validation,
    audience: Vec<String>,
}

impl Authorizer {
    /// Accepts tokens of this key.
    pub(crate) fn new(rules: &template::Authorizer, key: DecodingKey) -> Self {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.leeway = 0;
        validation.validate_nbf = true;
        // Ours below: `client_id` counts where there is no `aud`.
        validation.validate_aud = false;
        validation.set_issuer(&[&rules.issuer]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        Self {
            key,
            validation,
            audience: rules.audience.clone(),
        }
    }

    /// The session of a call to a route; none where the route is public.
    pub(crate) fn check(
        &self,
        access: &Access,
        headers: &HeaderMap,
    ) -> Result<Option<Session>, Refusal> {
        let Access::Token { scopes } = access else {
            return Ok(None);
        };
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .map(without_scheme)
            .ok_or(Refusal::Unauthorized)?;
        let claims = decode::<Map<String, Value>>(token, &self.key, &self.validation)
            .map_err(|_| Refusal::Unauthorized)?
            .claims;
        if !self.for_us(&claims) {
            return Err(Refusal::Unauthorized);
        }
        let matched = if scopes.is_empty() {
            None
        } else {
            let held = claims.get("scope").or_else(|| claims.get("scp"));
            let matched: Vec<String> = scopes
                .iter()
                .filter(|scope| held.is_some_and(|held| holds(held, scope)))
                .cloned()
                .collect();
            if matched.is_empty() {
                return Err(Refusal::Forbidden);
            }
            Some(matched)
        };
        let claims = claims.into_iter().map(|(name, value)| (name, text(value)));
        Ok(Some(Session {
            claims: claims.collect(),
            scopes: matched,
        }))
    }

    fn for_us(&self, claims: &Map<String, Value>) -> bool {
        let accepted = |value: &Value| {
            let text = value.as_str();
            text.is_some_and(|text| self.audience.iter().any(|known| known == text))
        };
        match claims.get("aud").or_else(|| claims.get("client_id")) {
            Some(Value::Array(all)) => all.iter().any(accepted),
            Some(one) => accepted(one),
            None => false,
        }
    }
}

/// The token; `Bearer` before it is usual and not required.
fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value,
    }
}

fn holds(held: &Value, scope: &str) -> bool {
    match held {
        Value::String(text) => text.split_whitespace().any(|one| one == scope),
        Value::Array(all) => all.iter().any(|one| one == scope),
        _ => false,
    }
}

/// Claims reach functions as texts; a list is `[a b]`.
fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(items) => {
            let items: Vec<String> = items.into_iter().map(text).collect();
            format!("[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    use crate::identity::Identity;

    const BASE: &str = "http://127.0.0.1:1";

    fn identity(base: &str, audience: &str) -> Identity {
        Identity::new(base, audience, Some(&"attestation".into())).unwrap()
    }

    fn rules() -> template::Authorizer {
        template::Authorizer {
            issuer: format!("{BASE}/_dev"),
            audience: vec!["flash-sale".to_owned()],
        }
    }

    fn any_token() -> Access {
        Access::Token { scopes: vec![] }
    }

    fn admin() -> Access {
        Access::Token {
            scopes: vec!["sales.admin".to_owned()],
        }
    }

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn a_good_token_gives_its_claims() {
        let identity = identity(BASE, "flash-sale");
        let authorizer = Authorizer::new(&rules(), identity.key());
        let token = identity.token("ada", Some("a sales.admin"), None).unwrap();
        for value in [format!("Bearer {token}"), format!("bearer {token}"), token] {
            let session = authorizer
                .check(&admin(), &headers(&value))
                .unwrap()
                .unwrap();
            assert_eq!(session.claims["sub"], "ada");
            assert_eq!(session.claims["scope"], "a sales.admin");
            assert!(session.claims["exp"].parse::<i64>().is_ok());
            assert_eq!(session.scopes, Some(vec!["sales.admin".to_owned()]));
        }
        assert_eq!(
            authorizer.check(&Access::Public, &HeaderMap::new()),
            Ok(None)
        );
    }

    #[test]
    fn a_token_without_the_scope_is_forbidden() {
        let identity = identity(BASE, "flash-sale");
        let authorizer = Authorizer::new(&rules(), identity.key());
        for scope in [None, Some("sales"), Some("sales.admins")] {
            let token = identity.token("ada", scope, None).unwrap();
            assert_eq!(
                authorizer.check(&admin(), &headers(&token)),
                Err(Refusal::Forbidden)
            );
            assert!(authorizer.check(&any_token(), &headers(&token)).is_ok());
        }
    }

    #[test]
    fn a_token_that_is_not_ours_is_refused() {
        let ours = identity(BASE, "flash-sale");
        let authorizer = Authorizer::new(&rules(), ours.key());
        let good = ours.token("ada", None, None).unwrap();
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let forged = identity(BASE, "flash-sale")
            .token("ada", None, None)
            .unwrap();
        let claims =
            json!({"iss": format!("{BASE}/_dev"), "aud": "flash-sale", "exp": 4_000_000_000_u64});
        // The public key taken for a shared secret.
        let confused = encode(
            &Header::default(),
            &claims,
            &EncodingKey::from_secret(b"any").unwrap(),
        );
        for bad in [
            String::new(),
            "Bearer".to_owned(),
            forged,
            confused.unwrap(),
            format!("{signed}."),
            format!("{signed}x.{signature}"),
            ours.token("ada", None, Some(-1)).unwrap(),
        ] {
            let answer = authorizer.check(&any_token(), &headers(&bad));
            assert_eq!(answer, Err(Refusal::Unauthorized), "{bad}");
        }
        assert_eq!(
            authorizer.check(&any_token(), &HeaderMap::new()),
            Err(Refusal::Unauthorized)
        );
    }

    #[test]
    fn issuer_and_audience_must_fit() {
        for (base, audience) in [("http://127.0.0.1:2", "flash-sale"), (BASE, "other")] {
            let identity = identity(base, audience);
            let authorizer = Authorizer::new(&rules(), identity.key());
            let token = identity.token("ada", None, None).unwrap();
            let answer = authorizer.check(&any_token(), &headers(&token));
            assert_eq!(answer, Err(Refusal::Unauthorized), "{base} {audience}");
        }
    }
}
