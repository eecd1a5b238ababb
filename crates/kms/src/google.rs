//! A key of Google Cloud KMS: `google-kms:projects/P/locations/L/keyRings/R/cryptoKeys/K?OPTIONS`.

mod credentials;

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use crc::{CRC_32_ISCSI, Crc};
use plural_app::ports::key_encryption::{ClearKey, KeyEncryption, KeyError, WrappedKey, clear};
use reqwest::{
    Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};

use self::credentials::Credentials;
use crate::{
    BadPlace, Place, Variables, bad,
    endpoint::Endpoint,
    http::{Answer, Request, bearer, by_status, told},
    not_understood,
};

const HOST: &str = "cloudkms.googleapis.com";
const CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The adapter.
pub(crate) struct GoogleKey {
    name: String,
    key: String,
    endpoint: Endpoint,
    credentials: Credentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Encrypted {
    name: String,
    ciphertext: String,
    ciphertext_crc32c: String,
    #[serde(default)]
    verified_plaintext_crc32c: bool,
    #[serde(default)]
    verified_additional_authenticated_data_crc32c: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Decrypted {
    plaintext: String,
    plaintext_crc32c: String,
}

#[derive(Deserialize)]
struct KeyInfo {
    primary: Option<Primary>,
}

#[derive(Deserialize)]
struct Primary {
    name: String,
}

impl GoogleKey {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let key = place.rest;
        if !is_key(key) {
            return Err(bad(
                "it is google-kms:projects/P/locations/L/keyRings/R/cryptoKeys/K, without a version",
            ));
        }
        let options = place.options(&[&credentials::OPTIONS[..], &["endpoint", "ca"]].concat())?;
        Ok(Self {
            name: format!("google-kms:{key}"),
            key: key.to_owned(),
            endpoint: Endpoint::of(HOST, "endpoint", &options)?,
            credentials: Credentials::open(&options, variables)?,
        })
    }

    /// Asks, and asks again with another token when this one is refused.
    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        verb: &str,
        body: Option<&Value>,
    ) -> Result<T, KeyError> {
        let answer = self.answer(verb, body).await?;
        if answer.status.is_success() { answer.json() } else { Err(refusal(&answer)) }
    }

    async fn answer(&self, verb: &str, body: Option<&Value>) -> Result<Answer, KeyError> {
        let answer = self.send(verb, body).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        self.credentials.forget().await;
        self.send(verb, body).await
    }

    async fn send(&self, verb: &str, body: Option<&Value>) -> Result<Answer, KeyError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer(&self.credentials.get().await?)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let url = self.endpoint.path(&format!("/v1/{}{verb}", self.key));
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.endpoint.http.ask(&Request { method, url, headers, body: &body, is_busy: by_status }).await
    }

    async fn encrypt(&self, body: &Value) -> Result<WrappedKey, Failed> {
        let answer: Encrypted = self.call(":encrypt", Some(body)).await?;
        if !answer.verified_plaintext_crc32c || !answer.verified_additional_authenticated_data_crc32c {
            return Err(Failed::Damaged("what it was sent"));
        }
        let bytes = STANDARD.decode(&answer.ciphertext).map_err(|_| not_understood())?;
        if checksum(&bytes) != answer.ciphertext_crc32c {
            return Err(Failed::Damaged("what it encrypted"));
        }
        Ok(WrappedKey { bytes, version: Some(self.version_of(&answer.name)?) })
    }

    async fn decrypt(&self, body: &Value) -> Result<ClearKey, Failed> {
        let answer: Decrypted = self.call(":decrypt", Some(body)).await?;
        let bytes = STANDARD.decode(&answer.plaintext).map_err(|_| not_understood())?;
        if checksum(&bytes) != answer.plaintext_crc32c {
            return Err(Failed::Damaged("what it decrypted"));
        }
        Ok(clear(bytes)?)
    }

    /// `3` of `…/cryptoKeys/K/cryptoKeyVersions/3`.
    fn version_of(&self, name: &str) -> Result<String, KeyError> {
        let version = name.strip_prefix(&self.key).and_then(|rest| rest.strip_prefix("/cryptoKeyVersions/"));
        let version = version.filter(|version| version.chars().all(|c| c.is_ascii_digit()));
        version.map(str::to_owned).ok_or_else(|| {
            KeyError::Refused(format!("another key than the one that is named: {}", told(name.as_bytes())))
        })
    }
}

fn is_key(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_word = |text: &&str| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        !text.is_empty() && text.chars().all(is_known) && !text.chars().all(|c| c == '.')
    };
    matches!(&parts[..], ["projects", project, "locations", location, "keyRings", ring, "cryptoKeys", key]
        if [project, location, ring, key].into_iter().all(is_word))
}

fn checksum(bytes: &[u8]) -> String {
    CRC32C.checksum(bytes).to_string()
}

/// Why a key was not used.
enum Failed {
    /// What this is arrived with another checksum.
    Damaged(&'static str),
    Key(KeyError),
}

impl From<KeyError> for Failed {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<Failed> for KeyError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Damaged(what) => {
                Self::Refused(format!("{what} was damaged on its way: the checksum is another one"))
            }
            Failed::Key(error) => error,
        }
    }
}

fn refusal(answer: &Answer) -> KeyError {
    #[derive(Deserialize)]
    struct Body {
        error: Failure,
    }
    #[derive(Deserialize)]
    struct Failure {
        status: String,
        message: String,
    }
    match serde_json::from_slice::<Body>(&answer.body) {
        Ok(Body { error: Failure { status, message } }) => KeyError::Refused(format!(
            "it answers {}: {}",
            answer.status,
            told(format!("{status}: {message}").as_bytes())
        )),
        Err(_) => answer.refusal(),
    }
}

#[async_trait]
impl KeyEncryption for GoogleKey {
    fn name(&self) -> &str {
        &self.name
    }

    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError> {
        let body = json!({
            "plaintext": STANDARD.encode(key.expose_secret()), "plaintextCrc32c": checksum(key.expose_secret()),
            "additionalAuthenticatedData": STANDARD.encode(context),
            "additionalAuthenticatedDataCrc32c": checksum(context.as_bytes()),
        });
        match self.encrypt(&body).await {
            // Once more: such a thing happens.
            Err(Failed::Damaged(_)) => Ok(self.encrypt(&body).await?),
            answer => Ok(answer?),
        }
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        let body = json!({
            "ciphertext": STANDARD.encode(wrapped), "ciphertextCrc32c": checksum(wrapped),
            "additionalAuthenticatedData": STANDARD.encode(context),
            "additionalAuthenticatedDataCrc32c": checksum(context.as_bytes()),
        });
        match self.decrypt(&body).await {
            // Once more: such a thing happens.
            Err(Failed::Damaged(_)) => Ok(self.decrypt(&body).await?),
            answer => Ok(answer?),
        }
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        let answer = self.answer("", None).await?;
        if answer.status == StatusCode::FORBIDDEN {
            // Who may encrypt and decrypt need not be able to read what there is of the key: it is not noticed when it is rotated.
            return Ok(None);
        }
        let info: KeyInfo =
            if answer.status.is_success() { answer.json()? } else { return Err(refusal(&answer)) };
        let primary = info.primary.ok_or_else(|| {
            KeyError::Refused(
                "it has no primary version: a key of the purpose ENCRYPT_DECRYPT is needed".to_owned(),
            )
        })?;
        Ok(Some(self.version_of(&primary.name)?))
    }
}

#[cfg(test)]
mod tests;
