//! Cross-origin rules, answered by the gateway and not by functions.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use crate::template;

/// The API's rules, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Cors {
    origins: Vec<String>,
    any_origin: bool,
    /// Headers of a preflight answer beside the origin.
    preflight: HeaderMap,
    /// Headers of every other answer beside the origin.
    answer: HeaderMap,
}

impl Cors {
    pub(crate) fn new(rules: &template::Cors) -> anyhow::Result<Self> {
        let mut preflight = HeaderMap::new();
        let mut answer = HeaderMap::new();
        let list = |headers: &mut HeaderMap, name, values: &[String]| -> anyhow::Result<()> {
            if !values.is_empty() {
                headers.insert(name, HeaderValue::from_str(&values.join(","))?);
            }
            Ok(())
        };
        list(
            &mut preflight,
            header::ACCESS_CONTROL_ALLOW_METHODS,
            &rules.allow_methods,
        )?;
        list(
            &mut preflight,
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            &rules.allow_headers,
        )?;
        list(
            &mut answer,
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            &rules.expose_headers,
        )?;
        if let Some(seconds) = rules.max_age {
            preflight.insert(header::ACCESS_CONTROL_MAX_AGE, seconds.into());
        }
        if rules.allow_credentials {
            for headers in [&mut preflight, &mut answer] {
                headers.insert(
                    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
                    HeaderValue::from_static("true"),
                );
            }
        }
        Ok(Self {
            any_origin: rules.allow_origins.iter().any(|origin| origin == "*"),
            origins: rules.allow_origins.clone(),
            preflight,
            answer,
        })
    }

    /// The answer to `OPTIONS`: 204 always, with the rules for an allowed
    /// origin only. No token is asked for.
    pub(crate) fn preflight(&self, origin: Option<&HeaderValue>) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        self.add(response.headers_mut(), origin, &self.preflight);
        response
    }

    /// Adds the rules to an answer. Those that a function sent are dropped,
    /// as API Gateway does where it has rules of its own.
    pub(crate) fn apply(&self, headers: &mut HeaderMap, origin: Option<&HeaderValue>) {
        let own: Vec<HeaderName> = headers
            .keys()
            .filter(|name| name.as_str().starts_with("access-control-"))
            .cloned()
            .collect();
        for name in own {
            headers.remove(name);
        }
        self.add(headers, origin, &self.answer);
    }

    fn add(&self, headers: &mut HeaderMap, origin: Option<&HeaderValue>, rules: &HeaderMap) {
        let Some(origin) = origin else { return };
        let allowed = if self.any_origin {
            HeaderValue::from_static("*")
        } else if self
            .origins
            .iter()
            .any(|known| known.as_bytes() == origin.as_bytes())
        {
            origin.clone()
        } else {
            return;
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        for (name, value) in rules {
            headers.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors() -> Cors {
        Cors::new(&template::Cors {
            allow_origins: vec!["https://shop.example".to_owned()],
            allow_methods: vec!["GET".to_owned(), "POST".to_owned()],
            allow_headers: vec!["authorization".to_owned()],
            expose_headers: vec!["retry-after".to_owned()],
            allow_credentials: false,
            max_age: Some(600),
        })
        .unwrap()
    }

    #[test]
    fn only_the_allowed_origin_is_told_the_rules() {
        let shop = HeaderValue::from_static("https://shop.example");
        let other = HeaderValue::from_static("https://shop.example.evil");
        let allowed = cors().preflight(Some(&shop));
        assert_eq!(allowed.status(), 204);
        assert_eq!(allowed.headers()["access-control-allow-origin"], shop);
        assert_eq!(
            allowed.headers()["access-control-allow-methods"],
            "GET,POST"
        );
        assert_eq!(allowed.headers()["access-control-max-age"], "600");
        for origin in [None, Some(&other)] {
            let refused = cors().preflight(origin);
            assert_eq!(refused.status(), 204);
            assert!(refused.headers().is_empty());
        }
    }

    #[test]
    fn a_functions_own_rules_are_dropped() {
        let other = HeaderValue::from_static("https://other.example");
        let mut headers = HeaderMap::new();
        headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
        headers.insert("retry-after", HeaderValue::from_static("1"));
        cors().apply(&mut headers, Some(&other));
        assert_eq!(headers.len(), 1);
    }
}
