//! A development identity provider, under `/_dev`. It belongs to the runner:
//! a deployment has the store's own provider in its place, and nothing that
//! signs attestations for whoever asks. On an emulator it runs alone.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, Response, StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use runtime::Clock;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use crate::reply;

/// Below this path are the runner's own routes.
pub(crate) const PREFIX: &str = "/_dev";
/// How long a token is good for when nothing is said, in seconds.
const TTL_S: i64 = 12 * 3_600;
/// How long an attestation is good for, in seconds.
const ATTESTATION_TTL_S: i64 = 600;
const KEY_ID: &str = "dev-1";

/// The provider and its keys.
pub(crate) struct Identity {
    issuer: String,
    audience: String,
    pair: RsaKeyPair,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
    attestation: Option<EncodingKey>,
    clock: Clock,
}

/// What `POST /_dev/token` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    sub: Option<String>,
    subs: Option<Vec<String>>,
    scope: Option<String>,
    ttl_s: Option<i64>,
}

/// What `POST /_dev/attestation` takes; the rest is attested as it stands.
#[derive(Deserialize)]
struct AttestationRequest {
    sub: String,
    sale: String,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

impl Identity {
    /// Makes a key pair. `base_url` is where this provider is reached; the
    /// first attestation key, if there are several, signs. Without one nothing
    /// is attested.
    pub(crate) fn new(
        base_url: &str,
        audience: &str,
        attestation_key: Option<&SecretString>,
    ) -> anyhow::Result<Self> {
        let attestation = attestation_key.map(|keys| {
            let keys = keys.expose_secret();
            let first = keys.split(',').next().unwrap_or_default().trim();
            EncodingKey::from_secret(first.as_bytes())
        });
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| anyhow!("no key pair"))?;
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
        Ok(Self {
            issuer: format!("{base_url}{PREFIX}"),
            audience: audience.to_owned(),
            modulus: public.n,
            exponent: public.e,
            pair,
            attestation: attestation.transpose()?,
            clock: Clock::system(),
        })
    }

    /// The `iss` of its tokens.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What verifies its tokens.
    pub(crate) fn key(&self) -> DecodingKey {
        DecodingKey::from_rsa_raw_components(&self.modulus, &self.exponent)
    }

    /// A session token. The key pair signs by itself: `jsonwebtoken` would
    /// read and check it anew for each of a drill's many tokens.
    pub(crate) fn token(
        &self,
        sub: &str,
        scope: Option<&str>,
        ttl_s: Option<i64>,
    ) -> anyhow::Result<String> {
        let now = self.clock.now().as_second();
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": KEY_ID});
        let mut claims = json!({
            "iss": self.issuer,
            "aud": self.audience,
            "sub": sub,
            "iat": now,
            "exp": now + ttl_s.unwrap_or(TTL_S),
        });
        if let Some(scope) = scope {
            claims["scope"] = scope.into();
        }
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                token.as_bytes(),
                &mut signature,
            )
            .map_err(|_| anyhow!("the key does not sign"))?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// What the store would attest about a shopper, for one sale.
    pub(crate) fn attestation(
        &self,
        sub: &str,
        sale: &str,
        facts: Map<String, Value>,
    ) -> anyhow::Result<String> {
        let key = self.attestation.as_ref();
        let key = key.context("this provider attests nothing")?;
        let now = self.clock.now().as_second();
        let mut header = Header::new(Algorithm::HS256);
        header.typ = Some("attestation+jwt".to_owned());
        let mut claims = facts;
        claims.insert("aud".to_owned(), sale.into());
        claims.insert("sub".to_owned(), sub.into());
        claims.insert("iat".to_owned(), now.into());
        claims.insert("exp".to_owned(), (now + ATTESTATION_TTL_S).into());
        Ok(jsonwebtoken::encode(&header, &claims, key)?)
    }

    /// Answers a call below `/_dev`.
    pub(crate) fn answer(&self, method: &Method, path: &str, body: &[u8]) -> Response<Body> {
        let answer = match (method.as_str(), &path[PREFIX.len()..]) {
            ("GET", "/.well-known/openid-configuration") => Ok(json!({
                "issuer": self.issuer,
                "jwks_uri": format!("{}/.well-known/jwks.json", self.issuer),
                "token_endpoint": format!("{}/token", self.issuer),
                "id_token_signing_alg_values_supported": ["RS256"],
            })),
            ("GET", "/.well-known/jwks.json") => Ok(json!({"keys": [{
                "kty": "RSA",
                "use": "sig",
                "alg": "RS256",
                "kid": KEY_ID,
                "n": URL_SAFE_NO_PAD.encode(&self.modulus),
                "e": URL_SAFE_NO_PAD.encode(&self.exponent),
            }]})),
            ("POST", "/token") => self.answer_token(body),
            ("POST", "/attestation") => self.answer_attestation(body),
            _ => return reply::message(StatusCode::NOT_FOUND, "Not Found"),
        };
        match answer {
            Ok(value) => reply::json(StatusCode::OK, &value),
            Err(error) => reply::message(StatusCode::BAD_REQUEST, &format!("{error:#}")),
        }
    }

    fn answer_token(&self, body: &[u8]) -> anyhow::Result<Value> {
        let request: TokenRequest = serde_json::from_slice(body)?;
        let token = |sub: &String| self.token(sub, request.scope.as_deref(), request.ttl_s);
        match (&request.sub, &request.subs) {
            (Some(sub), None) => Ok(json!({"access_token": token(sub)?, "token_type": "Bearer"})),
            (None, Some(subs)) => {
                let tokens: Vec<String> = subs.iter().map(token).collect::<anyhow::Result<_>>()?;
                Ok(json!({"access_tokens": tokens, "token_type": "Bearer"}))
            }
            _ => Err(anyhow!("send \"sub\" or \"subs\"")),
        }
    }

    fn answer_attestation(&self, body: &[u8]) -> anyhow::Result<Value> {
        let AttestationRequest { sub, sale, facts } = serde_json::from_slice(body)?;
        Ok(json!({"attestation": self.attestation(&sub, &sale, facts)?}))
    }
}

/// Serves a provider by itself, until the process ends: session tokens, no
/// attestations. Its issuer is `http://<address>/_dev`.
///
/// # Errors
/// There is no key pair, or the listener fails.
pub async fn serve(listener: TcpListener, audience: &str) -> anyhow::Result<()> {
    let base_url = format!("http://{}", listener.local_addr()?);
    let identity = Arc::new(Identity::new(&base_url, audience, None)?);
    let answer = |State(identity): State<Arc<Identity>>, method: Method, uri: Uri, body: Bytes| async move {
        if uri.path().starts_with(PREFIX) {
            identity.answer(&method, uri.path(), &body)
        } else {
            reply::message(StatusCode::NOT_FOUND, "Not Found")
        }
    };
    let app = Router::new().fallback(answer).with_state(identity);
    Ok(axum::serve(listener, app).await?)
}
