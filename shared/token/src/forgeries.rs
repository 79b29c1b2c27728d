//! Forged, altered, borrowed and stale tokens: none is accepted. Every forgery
//! starts from a token that is, so that what it changes is what is refused.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain::draw::Ticket;
use domain::{PassId, SaleId, ShopperId};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use runtime::Settings;
use serde_json::{Value, json};

use crate::{
    Attestation, AttestationKey, EdgeKeys, EntryClaims, Grant, Invalid, Keys, PassClaims, Signer,
};

const OPENS_S: i64 = 1_794_378_600;
const CLOSES_S: i64 = 1_794_382_200;

fn at(ms_after_opening: i64) -> Timestamp {
    Timestamp::from_millisecond(OPENS_S * 1_000 + ms_after_opening).unwrap()
}

fn closes() -> Timestamp {
    Timestamp::from_second(CLOSES_S).unwrap()
}

/// The secret of the key that signs, and the key's name.
const PASS_KEY: &str = "pass-key-for-tests-0123456789abcdef";
const KID: &str = "knjZTpQF7LyPKcKg";
/// Those of the key that comes after it.
const NEXT_KEY: &str = "the-next-key-for-tests-0123456789ab";
const NEXT_KID: &str = "L9rWlkaMjNH7nSUv";
const ATTESTATION_KEY: &str = "attestation-key-for-tests-0123456789";

fn settings(pass_keys: &str) -> Settings {
    let edge_key = "edge-key-for-tests-0123456789abcdef";
    variables(&[
        ("PASS_KEYS", pass_keys),
        ("EDGE_KEY", edge_key),
        ("ATTESTATION_KEY", ATTESTATION_KEY),
    ])
}

fn variables(given: &[(&str, &str)]) -> Settings {
    given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A signer's public key as a certificate would hold it.
fn public_der(signer: &Signer) -> Vec<u8> {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, signer.private().as_bytes()).unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    public.as_ref().to_vec()
}

/// One sale's issuer, its keys and a shopper.
struct World {
    keys: Keys,
    signer: Signer,
    edge: EdgeKeys,
    sale: SaleId,
    shopper: ShopperId,
    pass_id: PassId,
}

impl World {
    fn new() -> Self {
        let settings = settings(PASS_KEY);
        Self {
            keys: Keys::load(&settings).unwrap(),
            signer: Signer::load(&settings).unwrap(),
            edge: EdgeKeys::load(&settings).unwrap(),
            sale: "phone".parse().unwrap(),
            shopper: "u_42".parse().unwrap(),
            pass_id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        }
    }

    fn pass_by(&self, signer: &Signer) -> String {
        let grant = Grant {
            sale: &self.sale,
            shopper: &self.shopper,
            pass_id: &self.pass_id,
            device: "phone-1",
            valid_from: at(0),
            valid_until: closes(),
        };
        signer.pass(&self.edge, &grant, at(-60_000)).unwrap()
    }

    fn pass(&self) -> String {
        self.pass_by(&self.signer)
    }

    fn entry(&self) -> String {
        self.signer
            .entry(
                &self.sale,
                &self.shopper,
                &self.pass_id,
                Ticket(0.1),
                closes(),
                at(0),
            )
            .unwrap()
    }

    fn check(&self, pass: &str) -> Result<PassClaims, Invalid> {
        self.keys
            .pass_of(Some(pass), &self.sale, &self.shopper, at(0))
    }

    fn check_entry(&self, entry: &str) -> Result<EntryClaims, Invalid> {
        self.keys
            .entry_of(Some(entry), &self.sale, &self.shopper, &self.pass_id, at(0))
    }

    /// Claims of a good pass.
    fn claims(&self) -> Value {
        part(&self.pass(), 1)
    }

    /// A pass with this header and these claims, signed with our own key.
    fn signed(&self, header: &Value, claims: &Value) -> String {
        signed_by(&self.signer, header, &encoded(claims))
    }

    /// A good pass in which one claim is another, signed with our own key.
    fn with_claim(&self, claim: &str, value: Value) -> String {
        let mut claims = self.claims();
        claims[claim] = value;
        self.signed(&header(), &claims)
    }

    /// A good pass without a claim, signed with our own key.
    fn without_claim(&self, claim: &str) -> String {
        let mut claims = self.claims();
        claims.as_object_mut().unwrap().remove(claim).unwrap();
        self.signed(&header(), &claims)
    }

    /// A good pass whose header has another member, signed with our own key.
    fn with_header(&self, member: &str, value: Value) -> String {
        let mut header = header();
        header[member] = value;
        self.signed(&header, &self.claims())
    }
}

/// A token of this header and these encoded claims, with a good signature.
fn signed_by(signer: &Signer, header: &Value, claims: &str) -> String {
    let message = format!("{}.{claims}", encoded(header));
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), signer.private(), Algorithm::ES256);
    format!("{message}.{}", signature.unwrap())
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "pass+jwt", "kid": KID})
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// A token signed with a secret.
fn with_secret(typ: &str, kid: Option<&str>, claims: &Value, secret: &[u8]) -> String {
    let mut header = Header::new(Algorithm::HS256);
    header.typ = Some(typ.to_owned());
    header.kid = kid.map(str::to_owned);
    let key = EncodingKey::from_secret(secret).unwrap();
    jsonwebtoken::encode(&header, claims, &key).unwrap()
}

#[test]
fn good_tokens_are_accepted() {
    let world = World::new();
    let claims = world.check(&world.pass()).unwrap();
    assert_eq!(claims.pass_id, world.pass_id);
    assert_eq!(claims.device, "phone-1");
    assert_eq!(
        world.check_entry(&world.entry()).unwrap().ticket,
        Ticket(0.1)
    );
    // What the forgeries below start from.
    assert!(
        world
            .check(&world.signed(&header(), &world.claims()))
            .is_ok()
    );
    assert!(world.check(&world.with_claim("device", json!("x"))).is_ok());
}

#[test]
fn a_pass_has_this_form() {
    let world = World::new();
    let pass = world.pass();
    assert_eq!(part(&pass, 0), header());
    assert_eq!(
        part(&pass, 1),
        json!({
            "iss": "flash-sale", "aud": "phone", "sub": "u_42", "device": "phone-1",
            "nbf": OPENS_S, "exp": CLOSES_S, "iat": OPENS_S - 60,
            "jti": "0123456789abcdef0123456789abcdef", "mac": "G6xJrMFY39iUpWJF53Q1tA",
        })
    );
}

#[test]
fn a_ticket_survives_its_token() {
    let world = World::new();
    for n in 0..200 {
        let pass: PassId = format!("pass-{n}").parse().unwrap();
        let ticket = Ticket::drawn(b"secret", &pass);
        let token = world
            .signer
            .entry(
                &world.sale,
                &world.shopper,
                &world.pass_id,
                ticket,
                closes(),
                at(0),
            )
            .unwrap();
        let read = world.check_entry(&token).unwrap().ticket;
        assert_eq!(read.0.to_bits(), ticket.0.to_bits());
    }
}

#[test]
fn a_token_does_not_choose_its_algorithm() {
    let world = World::new();
    let claims = world.claims();
    for alg in [
        "none", "None", "nOnE", "NONE", "", "ES384", "EdDSA", "PS256",
    ] {
        let header = json!({"alg": alg, "typ": "pass+jwt", "kid": KID});
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = world.pass().rsplit_once('.').unwrap().1.to_owned();
        for token in [
            format!("{message}."),
            message.clone(),
            format!("{message}.{signature}"),
            // Even where the signature itself is ours.
            world.signed(&header, &claims),
        ] {
            assert_eq!(world.check(&token), Err(Invalid), "{alg}: {token}");
        }
    }
}

#[test]
fn the_public_key_is_not_a_secret() {
    let world = World::new();
    let claims = world.claims();
    let jwks = world.keys.jwks();
    let (set, key) = (json!(jwks), json!(jwks.keys[0]));
    let der = public_der(&world.signer);
    let body = STANDARD.encode(&der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
    for secret in [
        pem.as_bytes(),
        pem.trim().as_bytes(),
        &der,
        // The point alone.
        &der[der.len() - 65..],
        // With members in order of their names, and as they are served.
        set.to_string().as_bytes(),
        key.to_string().as_bytes(),
        serde_json::to_string(&jwks).unwrap().as_bytes(),
        serde_json::to_string(&jwks.keys[0]).unwrap().as_bytes(),
        &[0; 32],
    ] {
        let token = with_secret("pass+jwt", Some(KID), &claims, secret);
        assert_eq!(world.check(&token), Err(Invalid));
    }
}

#[test]
fn another_kind_of_key_is_refused() {
    let world = World::new();
    let pair = rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
    let header = json!({"alg": "RS256", "typ": "pass+jwt", "kid": KID});
    let message = format!("{}.{}", encoded(&header), encoded(&world.claims()));
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        message.as_bytes(),
        &mut signature,
    )
    .unwrap();
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    assert_eq!(world.check(&token), Err(Invalid));

    let mut header = Header::new(Algorithm::ES256);
    header.typ = Some("pass+jwt".to_owned());
    header.kid = Some(KID.to_owned());
    let stranger = Signer::load(&settings(NEXT_KEY)).unwrap();
    let token = jsonwebtoken::encode(&header, &world.claims(), stranger.private()).unwrap();
    assert_eq!(world.check(&token), Err(Invalid));
}

#[test]
fn a_key_that_comes_with_the_token_is_not_used() {
    let world = World::new();
    let settings = settings(NEXT_KEY);
    let own = Signer::load(&settings).unwrap();
    let mut jwk = json!(Keys::load(&settings).unwrap().jwks().keys[0]);
    jwk["kid"] = KID.into();
    let sets = "https://keys.example/jwks.json";
    for (member, value) in [
        ("jwk", jwk),
        ("jku", json!(sets)),
        ("x5u", json!(sets)),
        ("x5c", json!([STANDARD.encode(public_der(&own))])),
    ] {
        let mut header = header();
        header[member] = value.clone();
        let token = signed_by(&own, &header, &encoded(&world.claims()));
        assert_eq!(world.check(&token), Err(Invalid), "{member}");
        // It is ignored, not even read: with our own signature it does no harm.
        assert!(
            world.check(&world.with_header(member, value)).is_ok(),
            "{member}"
        );
    }
}

#[test]
fn an_altered_token_is_refused() {
    let world = World::new();
    let pass = world.pass();
    let parts: Vec<_> = pass.split('.').collect();
    let mut claims = world.claims();
    claims["sub"] = json!("u_43");
    let altered = encoded(&claims);
    let mut signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    signature[7] ^= 1;
    let bent = URL_SAFE_NO_PAD.encode(&signature);
    let zeros = URL_SAFE_NO_PAD.encode([0; 64]);
    for token in [
        format!("{}.{altered}.{}", parts[0], parts[2]),
        format!("{}.{}.{bent}", parts[0], parts[1]),
        format!("{}.{}.{zeros}", parts[0], parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}..{}", parts[0], parts[2]),
        format!("{pass}."),
        format!("{pass}.{}", parts[2]),
        format!("{pass}="),
        format!(" {pass}"),
        format!("{pass},{pass}"),
        format!("Bearer {pass}"),
        String::new(),
        "..".to_owned(),
        "\0".to_owned(),
        "é.é.é".to_owned(),
    ] {
        let other: ShopperId = "u_43".parse().unwrap();
        assert_eq!(world.check(&token), Err(Invalid), "{token}");
        assert_eq!(
            world.keys.pass_of(Some(&token), &world.sale, &other, at(0)),
            Err(Invalid),
            "{token}"
        );
    }
    assert_eq!(
        world.keys.pass_of(None, &world.sale, &world.shopper, at(0)),
        Err(Invalid)
    );
}

#[test]
fn a_key_id_is_only_compared() {
    let world = World::new();
    for kid in [
        json!(null),
        json!(NEXT_KID),
        json!(""),
        json!("../../dev/null"),
        json!(format!("{KID}\0")),
        json!(format!("{KID}\r\n")),
        json!(format!("'{KID}'")),
        json!(format!("{KID}?x=1")),
        json!(KID.to_lowercase()),
        json!("x".repeat(10_000)),
        json!([KID]),
        json!({"kid": KID}),
        json!(1),
    ] {
        let token = world.with_header("kid", kid.clone());
        assert_eq!(world.check(&token), Err(Invalid), "{kid}");
    }
    let token = world.signed(&json!({"alg": "ES256", "typ": "pass+jwt"}), &world.claims());
    assert_eq!(world.check(&token), Err(Invalid));
}

#[test]
fn a_token_is_for_one_purpose() {
    let world = World::new();
    for typ in [
        json!("entry+jwt"),
        json!("JWT"),
        json!("PASS+JWT"),
        json!("application/pass+jwt"),
        json!(""),
        json!(null),
    ] {
        let token = world.with_header("typ", typ.clone());
        assert_eq!(world.check(&token), Err(Invalid), "{typ}");
    }
    assert_eq!(world.check(&world.entry()), Err(Invalid));
    assert_eq!(world.check_entry(&world.pass()), Err(Invalid));
    // All that an entry says, but as a pass.
    let entry = part(&world.entry(), 1);
    assert_eq!(
        world.check_entry(&world.signed(&header(), &entry)),
        Err(Invalid)
    );
    let as_entry = json!({"alg": "ES256", "typ": "entry+jwt", "kid": KID});
    assert!(world.check_entry(&world.signed(&as_entry, &entry)).is_ok());
    // A session of the store: another issuer.
    let token = world.with_claim("iss", json!("https://store.example"));
    assert_eq!(world.check(&token), Err(Invalid));
}

/// An entry admits: all of this for it too.
#[test]
fn an_entry_is_as_hard_to_forge() {
    let world = World::new();
    let entry = world.entry();
    let claims = part(&entry, 1);
    let header = |alg: &str, kid: Value| json!({"alg": alg, "typ": "entry+jwt", "kid": kid});
    let good = header("ES256", json!(KID));
    let ours = |header: &Value, claims: &Value| signed_by(&world.signer, header, &encoded(claims));
    assert!(world.check_entry(&ours(&good, &claims)).is_ok());

    let signature = entry.rsplit_once('.').unwrap().1;
    let mut forged = Vec::new();
    for alg in [
        "none", "None", "nOnE", "", "HS256", "RS256", "ES384", "EdDSA",
    ] {
        let header = header(alg, json!(KID));
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        forged.push(format!("{message}."));
        forged.push(format!("{message}.{signature}"));
        forged.push(message);
        forged.push(ours(&header, &claims));
    }
    let jwks = world.keys.jwks();
    let der = public_der(&world.signer);
    let pem = STANDARD.encode(&der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----\n");
    for secret in [
        pem.as_bytes(),
        &der,
        serde_json::to_string(&jwks).unwrap().as_bytes(),
        serde_json::to_string(&jwks.keys[0]).unwrap().as_bytes(),
        &[0; 32],
    ] {
        forged.push(with_secret("entry+jwt", Some(KID), &claims, secret));
    }
    for kid in [
        json!(null),
        json!(NEXT_KID),
        json!(""),
        json!("../../dev/null"),
        json!([KID]),
    ] {
        forged.push(ours(&header("ES256", kid), &claims));
    }
    let settings = settings(NEXT_KEY);
    let stranger = Signer::load(&settings).unwrap();
    let mut brought = good.clone();
    brought["jwk"] = json!(Keys::load(&settings).unwrap().jwks().keys[0]);
    brought["jwk"]["kid"] = KID.into();
    forged.push(signed_by(&stranger, &good, &encoded(&claims)));
    forged.push(signed_by(&stranger, &brought, &encoded(&claims)));
    // The best ticket, under the signature of another.
    let mut better = claims.clone();
    better["ticket"] = json!(0.0);
    forged.push(format!(
        "{}.{}.{signature}",
        encoded(&good),
        encoded(&better)
    ));
    for claim in ["iss", "aud", "sub", "pass", "ticket", "exp"] {
        let mut less = claims.clone();
        less.as_object_mut().unwrap().remove(claim).unwrap();
        forged.push(ours(&good, &less));
    }
    for token in forged {
        assert_eq!(world.check_entry(&token), Err(Invalid), "{token}");
        let World {
            keys,
            edge,
            sale,
            shopper,
            pass_id,
            ..
        } = &world;
        let proof = keys.proof_of(edge, &token, sale, shopper, pass_id, at(0));
        assert_eq!(proof, Err(Invalid), "{token}");
    }
}

#[test]
fn a_token_is_for_one_sale_and_one_shopper() {
    let world = World::new();
    let (pass, entry) = (world.pass(), world.entry());
    let other_sale: SaleId = "phone-2".parse().unwrap();
    let other_shopper: ShopperId = "u_43".parse().unwrap();
    let other_pass: PassId = "another".parse().unwrap();
    let keys = &world.keys;
    assert_eq!(
        keys.pass_of(Some(&pass), &other_sale, &world.shopper, at(0)),
        Err(Invalid)
    );
    assert_eq!(
        keys.pass_of(Some(&pass), &world.sale, &other_shopper, at(0)),
        Err(Invalid)
    );
    for (sale, shopper, pass) in [
        (&other_sale, &world.shopper, &world.pass_id),
        (&world.sale, &other_shopper, &world.pass_id),
        (&world.sale, &world.shopper, &other_pass),
    ] {
        assert_eq!(
            keys.entry_of(Some(&entry), sale, shopper, pass, at(0)),
            Err(Invalid)
        );
    }
    for aud in [
        json!(["phone"]),
        json!(["phone", "phone-2"]),
        json!([]),
        json!({"phone": 1}),
        json!("*"),
        json!(""),
        json!("Phone"),
        json!(null),
    ] {
        let token = world.with_claim("aud", aud.clone());
        assert_eq!(world.check(&token), Err(Invalid), "{aud}");
    }
    for sub in [json!(["u_42"]), json!(42), json!(null), json!("")] {
        let token = world.with_claim("sub", sub.clone());
        assert_eq!(world.check(&token), Err(Invalid), "{sub}");
    }
}

#[test]
fn a_claim_that_is_given_twice_is_refused() {
    let world = World::new();
    let claims = world
        .claims()
        .to_string()
        .replace("\"aud\":\"phone\"", "\"aud\":\"phone-2\",\"aud\":\"phone\"");
    let token = signed_by(&world.signer, &header(), &URL_SAFE_NO_PAD.encode(claims));
    assert_eq!(world.check(&token), Err(Invalid));
}

#[test]
fn a_token_has_its_time_without_leeway() {
    let world = World::new();
    let length_ms = (CLOSES_S - OPENS_S) * 1_000;
    let pass = world.pass();
    let entry = world.entry();
    let valid = |ms| {
        world
            .keys
            .pass_of(Some(&pass), &world.sale, &world.shopper, at(ms))
            .is_ok()
    };
    assert!(!valid(-1));
    assert!(valid(0));
    assert!(valid(length_ms - 1));
    assert!(!valid(length_ms));
    let valid = |ms| {
        world
            .keys
            .entry_of(
                Some(&entry),
                &world.sale,
                &world.shopper,
                &world.pass_id,
                at(ms),
            )
            .is_ok()
    };
    assert!(valid(length_ms - 1));
    assert!(!valid(length_ms));
    for claim in ["nbf", "exp", "aud", "sub", "jti", "iss"] {
        assert_eq!(
            world.check(&world.without_claim(claim)),
            Err(Invalid),
            "{claim}"
        );
    }
    for exp in [
        json!(CLOSES_S.to_string()),
        json!(CLOSES_S as f64 + 0.5),
        json!(u64::MAX),
        json!(null),
    ] {
        assert_eq!(
            world.check(&world.with_claim("exp", exp.clone())),
            Err(Invalid),
            "{exp}"
        );
    }
}

#[test]
fn keys_are_rotated() {
    let world = World::new();
    let load = |keys: &str| {
        let settings = settings(keys);
        (
            Keys::load(&settings).unwrap(),
            Signer::load(&settings).unwrap(),
        )
    };
    let accepts = |keys: &Keys, pass: &str| {
        keys.pass_of(Some(pass), &world.sale, &world.shopper, at(0))
            .is_ok()
    };
    let old_pass = world.pass();

    // Announced: everyone verifies the new key, the old one still signs.
    let (announced, signer) = load(&format!("{PASS_KEY},{NEXT_KEY}"));
    assert_eq!(part(&world.pass_by(&signer), 0)["kid"], KID);
    assert!(accepts(&announced, &old_pass));

    // Turned over: the old one only verifies.
    let (keys, signer) = load(&format!("{NEXT_KEY}, {PASS_KEY}\n"));
    let new_pass = world.pass_by(&signer);
    assert_eq!(part(&new_pass, 0)["kid"], NEXT_KID);
    assert!(accepts(&keys, &old_pass));
    assert!(accepts(&keys, &new_pass));
    let jwks = serde_json::to_value(keys.jwks()).unwrap();
    assert_eq!(jwks["keys"].as_array().unwrap().len(), 2);
    // Who has not read the change yet is not surprised, unless the new key was
    // not announced.
    assert!(accepts(&announced, &new_pass));
    assert!(!accepts(&world.keys, &new_pass));

    // Retired.
    let (keys, _) = load(NEXT_KEY);
    assert!(!accepts(&keys, &old_pass));
    assert!(accepts(&keys, &new_pass));
}

#[test]
fn the_published_keys_are_public() {
    let world = World::new();
    let jwks = serde_json::to_value(world.keys.jwks()).unwrap();
    // The last 64 bytes of the key are its coordinates.
    let der = public_der(&world.signer);
    let (x, y) = der[der.len() - 64..].split_at(32);
    assert_eq!(
        jwks,
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KID,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    );
}

#[test]
fn odd_key_settings_are_refused_without_showing_them() {
    let short = &PASS_KEY[..31];
    for keys in [
        String::new(),
        ",".to_owned(),
        short.to_owned(),
        format!("{short} "),
        format!("{PASS_KEY},"),
        format!(",{PASS_KEY}"),
        format!("{PASS_KEY},,{NEXT_KEY}"),
        format!("{PASS_KEY},{short}"),
        format!("{PASS_KEY},{PASS_KEY}"),
        format!("{PASS_KEY}, {PASS_KEY}"),
    ] {
        let settings = settings(&keys);
        for error in [Signer::load(&settings).err(), Keys::load(&settings).err()] {
            let error = format!("{:?}", error.unwrap_or_else(|| panic!("{keys}")));
            assert!(error.contains("PASS_KEYS"), "{error}");
            assert!(!error.contains("for-tests"), "{error}");
        }
    }
    assert!(Keys::load(&Settings::default()).is_err());
    for keys in [short, &format!("{ATTESTATION_KEY},"), ","] {
        let settings = variables(&[("ATTESTATION_KEY", keys)]);
        let error = format!("{:?}", AttestationKey::load(&settings).unwrap_err());
        assert!(error.contains("ATTESTATION_KEY"), "{error}");
        assert!(!error.contains("for-tests"), "{error}");
    }
}

#[test]
fn debug_shows_no_key() {
    let world = World::new();
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        world.keys,
        world.signer,
        world.edge,
        AttestationKey::load(&settings(PASS_KEY)).unwrap()
    );
    assert!(shown.contains(KID));
    assert!(!shown.contains("for-tests"), "{shown}");
    for secret in [
        world.signer.private().as_bytes(),
        ATTESTATION_KEY.as_bytes(),
    ] {
        let bytes = format!("{secret:?}");
        assert!(!shown.contains(bytes.trim_matches(['[', ']'])), "{shown}");
    }
}

/// An attestation that is good unless `change` makes it otherwise.
fn attested(change: impl Fn(&mut Value)) -> Value {
    let mut claims = json!({
        "aud": "phone", "sub": "u_42", "exp": OPENS_S + 600, "iat": OPENS_S,
        "phone": "+91 98765 43210", "level": 3,
    });
    change(&mut claims);
    claims
}

#[test]
fn attestations_are_checked_as_strictly() {
    use domain::identity::IdentityKind;

    let world = World::new();
    let key = AttestationKey::load(&settings(PASS_KEY)).unwrap();
    let read =
        |token: &str, ms| Attestation::verify(&key, token, &world.sale, &world.shopper, at(ms));
    let signed = |typ, claims: &Value| with_secret(typ, None, claims, ATTESTATION_KEY.as_bytes());
    let good = signed("attestation+jwt", &attested(|_| {}));
    let facts = read(&good, 0).unwrap();
    assert_eq!(facts.fact(IdentityKind::Phone), Some("+91 98765 43210"));
    assert_eq!(facts.fact(IdentityKind::Email), None);
    assert!(!format!("{facts:?}").contains("98765"));
    assert!(read(&good, 599_999).is_ok());
    assert!(read(&good, 600_000).is_err());

    for (name, claims) in [
        ("another sale", attested(|c| c["aud"] = json!("phone-2"))),
        (
            "two sales",
            attested(|c| c["aud"] = json!(["phone", "phone-2"])),
        ),
        ("another shopper", attested(|c| c["sub"] = json!("u_43"))),
        ("no end", attested(|c| c["exp"] = json!(null))),
        ("not yet", attested(|c| c["nbf"] = json!(OPENS_S + 1))),
        (
            "a number",
            attested(|c| c["phone"] = json!(9_876_543_210u64)),
        ),
        ("a list", attested(|c| c["email"] = json!(["a@b", "c@d"]))),
    ] {
        assert!(
            read(&signed("attestation+jwt", &claims), 0).is_err(),
            "{name}"
        );
    }
    for typ in ["JWT", "pass+jwt", "entry+jwt", ""] {
        assert!(read(&signed(typ, &attested(|_| {})), 0).is_err(), "{typ}");
    }
    for secret in [&[0; 32][..], b"another-key-for-tests-0123456789abcdef"] {
        let token = with_secret("attestation+jwt", None, &attested(|_| {}), secret);
        assert!(read(&token, 0).is_err());
    }
    // Of the same family, but not the one algorithm.
    let mut header = Header::new(Algorithm::HS512);
    header.typ = Some("attestation+jwt".to_owned());
    let secret = EncodingKey::from_secret(ATTESTATION_KEY.as_bytes()).unwrap();
    let token = jsonwebtoken::encode(&header, &attested(|_| {}), &secret).unwrap();
    assert!(read(&token, 0).is_err());
    let none = json!({"alg": "none", "typ": "attestation+jwt"});
    let token = format!("{}.{}.", encoded(&none), encoded(&attested(|_| {})));
    assert!(read(&token, 0).is_err());
    assert!(read(&world.pass(), 0).is_err());
}

#[test]
fn each_attestation_key_verifies() {
    let world = World::new();
    let keys = format!("{NEXT_KEY},{ATTESTATION_KEY}");
    let key = AttestationKey::load(&variables(&[("ATTESTATION_KEY", &keys)])).unwrap();
    for (secret, accepted) in [
        (NEXT_KEY, true),
        (ATTESTATION_KEY, true),
        (PASS_KEY, false),
        // The list itself is no key.
        (&keys, false),
    ] {
        let token = with_secret(
            "attestation+jwt",
            None,
            &attested(|_| {}),
            secret.as_bytes(),
        );
        let read = Attestation::verify(&key, &token, &world.sale, &world.shopper, at(0));
        assert_eq!(read.is_ok(), accepted, "{secret}");
    }
}
