//! Which route a request is for, by the rules of API Gateway's HTTP APIs.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use crate::template::{Access, Route};

/// One part of a route's path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Fixed(String),
    Parameter(String),
    /// `{name+}`: the rest of the path.
    Rest(String),
}

/// A route, ready to be matched.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// `GET /v1/sales/{sale}`.
    pub(crate) key: String,
    /// The function's logical id.
    pub(crate) function: String,
    /// Who may call it.
    pub(crate) access: Access,
    method: String,
    segments: Vec<Segment>,
}

impl Prepared {
    fn new(route: &Route) -> Self {
        let segments = route.path[1..].split('/').map(|segment| {
            match segment
                .strip_prefix('{')
                .and_then(|name| name.strip_suffix('}'))
            {
                None => Segment::Fixed(segment.to_owned()),
                Some(name) => match name.strip_suffix('+') {
                    None => Segment::Parameter(name.to_owned()),
                    Some(name) => Segment::Rest(name.to_owned()),
                },
            }
        });
        Self {
            key: route.key(),
            function: route.function.clone(),
            access: route.access.clone(),
            method: route.method.clone(),
            segments: segments.collect(),
        }
    }

    /// How well the route matches, segment by segment; smaller is better.
    fn rank(&self, method: &str, path: &[&str]) -> Option<Vec<u8>> {
        if self.method != method && self.method != "ANY" {
            return None;
        }
        let mut rank = Vec::with_capacity(self.segments.len() + 1);
        let mut parts = path.iter();
        for segment in &self.segments {
            let part = parts.next()?;
            match segment {
                Segment::Fixed(text) if text == part => rank.push(0),
                Segment::Parameter(_) if !part.is_empty() => rank.push(1),
                Segment::Rest(_) if !part.is_empty() => {
                    rank.push(2);
                    parts = [].iter();
                }
                _ => return None,
            }
        }
        if parts.next().is_some() {
            return None;
        }
        rank.push(u8::from(self.method == "ANY"));
        Some(rank)
    }

    /// Path parameters, decoded. The path is split first: an encoded slash
    /// does not separate.
    fn parameters(&self, path: &[&str]) -> HashMap<String, String> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let mut parameters = HashMap::new();
        for (index, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Fixed(_) => {}
                Segment::Parameter(name) => {
                    parameters.insert(name.clone(), decode(path[index]));
                }
                Segment::Rest(name) => {
                    parameters.insert(name.clone(), decode(&path[index..].join("/")));
                }
            }
        }
        parameters
    }
}

/// All routes of the API.
#[derive(Debug, Clone)]
pub(crate) struct Routes(Vec<Prepared>);

impl Routes {
    pub(crate) fn new(routes: &[Route]) -> Self {
        Self(routes.iter().map(Prepared::new).collect())
    }

    /// The most specific route for a request, and its path parameters.
    pub(crate) fn find(
        &self,
        method: &str,
        path: &str,
    ) -> Option<(&Prepared, HashMap<String, String>)> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let (_, route) = self
            .0
            .iter()
            .filter_map(|route| Some((route.rank(method, &parts)?, route)))
            .min_by(|(one, _), (other, _)| one.cmp(other))?;
        Some((route, route.parameters(&parts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        let route = |key: &str| {
            let (method, path) = key.split_once(' ').unwrap();
            Route {
                method: method.to_owned(),
                path: path.to_owned(),
                function: "F".to_owned(),
                access: Access::Public,
            }
        };
        Routes::new(&[
            route("GET /v1/sales/{sale}"),
            route("GET /v1/sales/{sale}/status"),
            route("GET /v1/sales/today"),
            route("ANY /v1/sales/{sale}/{part}"),
            route("GET /pages/{page+}"),
        ])
    }

    fn found(method: &str, path: &str) -> Option<String> {
        let routes = routes();
        routes
            .find(method, path)
            .map(|(route, _)| route.key.clone())
    }

    #[test]
    fn the_most_specific_route_wins() {
        assert_eq!(
            found("GET", "/v1/sales/today").unwrap(),
            "GET /v1/sales/today"
        );
        assert_eq!(found("GET", "/v1/sales/x").unwrap(), "GET /v1/sales/{sale}");
        assert_eq!(
            found("GET", "/v1/sales/x/status").unwrap(),
            "GET /v1/sales/{sale}/status"
        );
        assert_eq!(
            found("POST", "/v1/sales/x/status").unwrap(),
            "ANY /v1/sales/{sale}/{part}"
        );
        assert_eq!(found("GET", "/pages/a/b").unwrap(), "GET /pages/{page+}");
    }

    #[test]
    fn what_matches_no_route_is_not_found() {
        for (method, path) in [
            ("POST", "/v1/sales/x"),
            ("GET", "/v1/sales/"),
            ("GET", "/v1/sales/x/"),
            ("GET", "/v1/sales/x/status/more"),
            ("GET", "/v2"),
            ("GET", "*"),
        ] {
            assert_eq!(found(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn parameters_are_decoded_after_the_split() {
        let routes = routes();
        let (route, parameters) = routes.find("GET", "/v1/sales/a%2Fstatus%20%C3%A9").unwrap();
        assert_eq!(route.key, "GET /v1/sales/{sale}");
        assert_eq!(parameters["sale"], "a/status é");
    }
}
