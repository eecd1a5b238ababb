//! Tokens of Google Cloud: for the key of a service account, or of the machine's metadata service.

use std::{path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::Utc;
use plural_app::ports::key_encryption::KeyError;
use reqwest::{
    Method, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use crate::{
    BadPlace, Options, Variables, bad,
    endpoint::{Endpoint, address},
    held::Held,
    http::{Answer, Http, Request, by_status, form},
};

pub(super) const OPTIONS: [&str; 3] = ["auth", "key_file", "login_endpoint"];
const HOST: &str = "oauth2.googleapis.com";
const METADATA: &str = "http://metadata.google.internal";
const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const SCOPE: &str = "https://www.googleapis.com/auth/cloudkms";
/// Seconds that an assertion lasts; Google takes up to an hour.
const ASSERTION: i64 = 600;

/// Where tokens are got.
enum Source {
    /// For what the key of a service account signs.
    Key { email: String, id: String, key: Box<RsaKeyPair>, endpoint: Endpoint },
    /// Of the metadata service: workload identity of GKE, or the machine's own account.
    Metadata { url: Url, http: Http },
}

/// Tokens that are replaced before they are over.
pub(super) struct Credentials {
    source: Source,
    held: Held<SecretString>,
}

/// The file of a service account.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    client_email: String,
    private_key_id: String,
    private_key: String,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    expires_in: u64,
}

impl Credentials {
    pub(super) fn open(options: &Options, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        const FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
        let has_file = options.get("key_file").is_some() || variables(FILE).is_some();
        let source = match options.get("auth") {
            Some("key") => Source::of_key(&options.or("key_file", FILE, &**variables)?, options)?,
            None if has_file => Source::of_key(&options.or("key_file", FILE, &**variables)?, options)?,
            None | Some("metadata") => {
                let mut url = match options.get("login_endpoint") {
                    None => Url::parse(METADATA).map_err(|_| not_an_address())?,
                    Some(text) => address(text)?,
                };
                url.set_path(METADATA_PATH);
                Source::Metadata { url, http: Http::to_metadata().map_err(BadPlace)? }
            }
            Some(_) => return Err(bad("auth is key or metadata")),
        };
        Ok(Self { source, held: Held::default() })
    }

    /// A token that is not over.
    pub(super) async fn get(&self) -> Result<SecretString, KeyError> {
        self.held.get(self.source.ask()).await
    }

    /// This one was refused.
    pub(super) async fn forget(&self) {
        self.held.forget().await;
    }

    #[cfg(test)]
    pub(super) async fn grow_old(&self) {
        self.held.grow_old().await;
    }
}

impl Source {
    fn of_key(file: &str, options: &Options) -> Result<Self, BadPlace> {
        let text =
            std::fs::read(Path::new(file)).map_err(|error| bad(&format!("cannot read {file}: {error}")))?;
        // The parser's own message could quote the key.
        let is_none = || bad(&format!("{file} is no key of a service account"));
        let KeyFile { kind, client_email, private_key_id, private_key } =
            serde_json::from_slice(&text).map_err(|_| is_none())?;
        if kind != "service_account" {
            return Err(is_none());
        }
        let der = PrivatePkcs8KeyDer::from_pem_slice(private_key.as_bytes()).map_err(|_| is_none())?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| is_none())?;
        // Not the address that the file names: the token would go where whoever wrote it wants.
        let endpoint = Endpoint::of(HOST, "login_endpoint", options)?;
        Ok(Self::Key { email: client_email, id: private_key_id, key: Box::new(key), endpoint })
    }

    async fn ask(&self) -> Result<(SecretString, Duration), KeyError> {
        let answer = match self {
            Self::Key { email, id, key, endpoint } => {
                let assertion = assertion(email, id, key)?;
                let body = form(&[
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", assertion.expose_secret()),
                ]);
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
                let url = endpoint.path("/token");
                let request = Request { method: Method::POST, url, headers, body: &body, is_busy: by_status };
                endpoint.http.ask(&request).await?
            }
            Self::Metadata { url, http } => {
                let flavor = HeaderName::from_static("metadata-flavor");
                let headers = HeaderMap::from_iter([(flavor, HeaderValue::from_static("Google"))]);
                let request =
                    Request { method: Method::GET, url: url.clone(), headers, body: &[], is_busy: by_status };
                let answer = http.ask(&request).await?;
                if answer.headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
                    return Err(KeyError::Refused(
                        "what answers is not Google's metadata service".to_owned(),
                    ));
                }
                answer
            }
        };
        token(&answer)
    }
}

fn token(answer: &Answer) -> Result<(SecretString, Duration), KeyError> {
    let Token { access_token, expires_in } = answer.json().map_err(|error| match error {
        KeyError::Refused(why) => KeyError::Refused(format!("Google gives this console no token: {why}")),
        error @ KeyError::Unavailable(_) => error,
    })?;
    Ok((access_token.into(), Duration::from_secs(expires_in)))
}

/// What proves to be the service account.
fn assertion(email: &str, id: &str, key: &RsaKeyPair) -> Result<SecretString, KeyError> {
    let now = Utc::now().timestamp();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": id});
    let claims = json!({
        "iss": email, "scope": SCOPE, "aud": format!("https://{HOST}/token"), "iat": now, "exp": now + ASSERTION,
    });
    let encoded = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encoded(&header), encoded(&claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| KeyError::Refused("the key of the service account does not sign".to_owned()))?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)).into())
}

fn not_an_address() -> BadPlace {
    bad("the address of the metadata service is none")
}
