//! Tokens of an installation of a GitHub App, for what the App's key signs.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use crate::error::{Cause, Error, Result};

/// Seconds that an assertion lasts; GitHub takes up to ten minutes.
const ASSERTION: i64 = 540;
/// Seconds by which clocks may differ.
const SKEW: i64 = 60;

pub(crate) struct AppToken {
    pub(crate) app_id: u64,
    pub(crate) installation_id: u64,
    key: RsaKeyPair,
    /// By the repository that they open, without its owner. Held over the request for a new one, so that one request is made for many
    /// callers.
    pub(crate) held: Mutex<HashMap<Option<String>, Token>>,
}

#[derive(Deserialize)]
pub(crate) struct Token {
    pub(crate) token: SecretText,
    expires_at: DateTime<Utc>,
}

/// A secret in an answer.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(crate) struct SecretText(SecretString);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl SecretText {
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Token {
    /// It lasts through the next requests.
    pub(crate) fn is_fresh(&self) -> bool {
        self.expires_at - Utc::now() > TimeDelta::minutes(5)
    }
}

impl AppToken {
    pub(crate) fn new(app_id: u64, installation_id: u64, pem: &SecretString) -> Result<Self> {
        // The parser's own message could quote the key.
        let is_none = || Error::invalid("the App's private key is no RSA key in PEM form");
        let der = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes()).map_err(|_| is_none())?;
        let key = match &der {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            _ => return Err(is_none()),
        };
        Ok(Self { app_id, installation_id, key: key.map_err(|_| is_none())?, held: Mutex::default() })
    }

    /// What proves to be the App.
    pub(crate) fn assertion(&self) -> Result<SecretString> {
        let now = Utc::now().timestamp();
        let header = json!({"alg": "RS256", "typ": "JWT"});
        let claims = json!({"iss": self.app_id.to_string(), "iat": now - SKEW, "exp": now + ASSERTION});
        let encoded = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encoded(&header), encoded(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| Error::new(Cause::Refused, "the App's private key does not sign"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)).into())
    }
}
