//! Keys and secrets that a deployment would be given, made at start.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

/// Values for the template's secret parameters, fresh each time.
pub(crate) fn generate() -> anyhow::Result<BTreeMap<String, String>> {
    let mut secrets = BTreeMap::new();
    secrets.insert("PassKeys".to_owned(), pass_keys()?);
    for name in ["EdgeKey", "IdentityKey", "AttestationKey", "WebhookSecrets"] {
        secrets.insert(name.to_owned(), random()?);
    }
    Ok(secrets)
}

/// 32 random bytes as text.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| anyhow!("no random bytes"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// One ES256 key pair, in the shape that the template describes.
fn pass_keys() -> anyhow::Result<String> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)
        .map_err(|_| anyhow!("no key pair"))?;
    let private = pair.to_pkcs8v1().map_err(|_| anyhow!("no private key"))?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().context("no public key")?;
    let keys = json!([{
        "kid": "local-1",
        "private": pem("PRIVATE KEY", private.as_ref()),
        "public": pem("PUBLIC KEY", public.as_ref()),
    }]);
    Ok(keys.to_string())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
    use serde_json::Value;

    #[test]
    fn the_pass_keys_sign_and_verify() {
        let secrets = generate().unwrap();
        let keys: Value = serde_json::from_str(&secrets["PassKeys"]).unwrap();
        let bytes = |name: &str| keys[0][name].as_str().unwrap().as_bytes().to_vec();
        let private = EncodingKey::from_ec_pem(&bytes("private")).unwrap();
        let public = DecodingKey::from_ec_pem(&bytes("public")).unwrap();
        let claims = json!({"exp": 4_000_000_000_u64});
        let token = encode(&Header::new(Algorithm::ES256), &claims, &private).unwrap();
        let read = decode::<Value>(&token, &public, &Validation::new(Algorithm::ES256)).unwrap();
        assert_eq!(read.claims, claims);
        assert_ne!(secrets["EdgeKey"], generate().unwrap()["EdgeKey"]);
    }
}
