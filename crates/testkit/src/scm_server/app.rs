//! An App of the host: its key, and what it proves.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::Value;

pub(super) const APP: u64 = 12;
pub(super) const INSTALLATION: u64 = 34;
pub(super) const KEY: &str = include_str!("../../data/service-account.pem");

/// Whether what is sent is signed by the App's key, of the App, and of now.
pub(super) fn is_proven(assertion: &str) -> bool {
    check(assertion).is_some()
}

fn check(assertion: &str) -> Option<()> {
    let (text, signature) = assertion.rsplit_once('.')?;
    let (header, claims) = text.split_once('.')?;
    let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let (header, claims) = (json(header)?, json(claims)?);
    let der = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).ok()?;
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()?;
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref().to_vec());
    key.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let (from, to) = (claims["iat"].as_u64()?, claims["exp"].as_u64()?);
    let is_now = from <= now && now < to && to - now <= 600;
    (is_now && header["alg"] == "RS256" && claims["iss"] == APP.to_string().as_str()).then_some(())
}
