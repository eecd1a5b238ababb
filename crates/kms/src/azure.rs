//! A key of Azure Key Vault: `azure-key-vault://VAULT.vault.azure.net/keys/KEY?OPTIONS`.
//!
//! Its RSA keys wrap with RSA-OAEP-256, which authenticates nothing beside. So a fresh key is wrapped there, and seals the data key here with
//! AES-256-GCM for what it is meant for.

mod credentials;

use std::sync::Arc;

use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce,
    aead::{Aead, Payload},
};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use plural_app::ports::key_encryption::{ClearKey, KeyEncryption, KeyError, WrappedKey, clear};
use reqwest::{
    Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::{ExposeSecret, SecretBox};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::credentials::Credentials;
use crate::{
    BadPlace, Place, Variables, bad,
    endpoint::Endpoint,
    http::{Answer, Request, bearer, by_status, told},
    not_understood,
};

const API: &str = "api-version=7.4";
const ALGORITHM: &str = "RSA-OAEP-256";
const NONCE: usize = 12;

/// Hosts of vaults of a cloud, and where its tokens are got.
struct Cloud {
    vaults: &'static str,
    login: &'static str,
}

const CLOUDS: [Cloud; 3] = [
    Cloud { vaults: "vault.azure.net", login: "login.microsoftonline.com" },
    Cloud { vaults: "vault.usgovcloudapi.net", login: "login.microsoftonline.us" },
    Cloud { vaults: "vault.azure.cn", login: "login.chinacloudapi.cn" },
];

/// The adapter.
pub(crate) struct AzureKey {
    name: String,
    /// `https://VAULT.vault.azure.net/keys/KEY`, which identifies it wherever it is asked.
    id: String,
    key: String,
    endpoint: Endpoint,
    credentials: Credentials,
}

/// What is stored.
#[derive(Serialize, Deserialize)]
struct Sealed {
    /// The version of the key that wrapped `key`.
    version: String,
    /// What seals, as the vault wrapped it.
    key: String,
    /// The data key: nonce and ciphertext.
    data: String,
}

#[derive(Deserialize)]
struct Operation {
    kid: String,
    value: String,
}

#[derive(Deserialize)]
struct KeyBundle {
    key: Jwk,
}

#[derive(Deserialize)]
struct Jwk {
    kid: String,
    kty: String,
}

impl AzureKey {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        const FORM: &str = "it is azure-key-vault://VAULT.vault.azure.net/keys/KEY, without a version";
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let (host, path) =
            place.rest.strip_prefix("//").and_then(|rest| rest.split_once('/')).ok_or_else(|| bad(FORM))?;
        // As the vault names itself, whatever case it is written in.
        let host = host.to_ascii_lowercase();
        let key = path.strip_prefix("keys/").filter(|key| is_word(key)).ok_or_else(|| bad(FORM))?;
        let cloud = host.split_once('.').filter(|(vault, _)| is_word(vault));
        let cloud = cloud.and_then(|(_, domain)| CLOUDS.iter().find(|cloud| cloud.vaults == domain));
        let Cloud { vaults, login } = cloud.ok_or_else(|| {
            bad("its host is none of VAULT.vault.azure.net, VAULT.vault.usgovcloudapi.net, VAULT.vault.azure.cn")
        })?;
        let options = place.options(&[&credentials::OPTIONS[..], &["endpoint", "ca"]].concat())?;
        Ok(Self {
            name: format!("azure-key-vault:{host}/{key}"),
            id: format!("https://{host}/keys/{key}"),
            key: key.to_owned(),
            endpoint: Endpoint::of(&host, "endpoint", &options)?,
            credentials: Credentials::open(login, vaults, &options, variables)?,
        })
    }

    /// Asks, and asks again with another token when this one is refused.
    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        what: &str,
        body: Option<&Value>,
    ) -> Result<T, KeyError> {
        let mut answer = self.send(what, body).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            self.credentials.forget().await;
            answer = self.send(what, body).await?;
        }
        if answer.status.is_success() { answer.json() } else { Err(refusal(&answer)) }
    }

    async fn send(&self, what: &str, body: Option<&Value>) -> Result<Answer, KeyError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer(&self.credentials.get().await?)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut url = self.endpoint.path(&format!("/keys/{}{what}", self.key));
        url.set_query(Some(API));
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.endpoint.http.ask(&Request { method, url, headers, body: &body, is_busy: by_status }).await
    }

    /// `…` of `https://VAULT.vault.azure.net/keys/KEY/…`.
    fn version_of(&self, kid: &str) -> Result<String, KeyError> {
        let known = kid.split_at_checked(self.id.len()).filter(|(id, _)| id.eq_ignore_ascii_case(&self.id));
        let version = known.and_then(|(_, rest)| rest.strip_prefix('/'));
        let version = version.filter(|version| is_version(version)).map(str::to_owned);
        version.ok_or_else(|| another(kid))
    }

    /// The version that wraps now.
    async fn current(&self) -> Result<String, KeyError> {
        let KeyBundle { key: Jwk { kid, kty } } = self.call("", None).await?;
        if !matches!(kty.as_str(), "RSA" | "RSA-HSM") {
            let kind = told(kty.as_bytes());
            return Err(KeyError::Refused(format!("it is a key of the type {kind}, and only RSA keys wrap")));
        }
        self.version_of(&kid)
    }

    async fn operate(&self, version: &str, what: &str, value: &[u8]) -> Result<Vec<u8>, KeyError> {
        let body = json!({"alg": ALGORITHM, "value": URL_SAFE_NO_PAD.encode(value)});
        let Operation { kid, value } = self.call(&format!("/{version}/{what}"), Some(&body)).await?;
        if self.version_of(&kid)? != version {
            return Err(another(&kid));
        }
        decoded(&value)
    }
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn decoded(text: &str) -> Result<Vec<u8>, KeyError> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| not_understood())
}

fn another(key: &str) -> KeyError {
    KeyError::Refused(format!("another key than the one that is named: {}", told(key.as_bytes())))
}

fn refusal(answer: &Answer) -> KeyError {
    #[derive(Deserialize)]
    struct Body {
        error: Failure,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: String,
        message: String,
    }
    match serde_json::from_slice::<Body>(&answer.body) {
        Ok(Body { error: Failure { code, message } }) => KeyError::Refused(format!(
            "it answers {}: {}",
            answer.status,
            told(format!("{code}: {message}").as_bytes())
        )),
        Err(_) => answer.refusal(),
    }
}

fn cipher(key: &ClearKey) -> Aes256Gcm {
    Aes256Gcm::new(&(*key.expose_secret()).into())
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], KeyError> {
    let mut bytes = [0; LENGTH];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| KeyError::Refused("the machine has no randomness".to_owned()))?;
    Ok(bytes)
}

#[async_trait]
impl KeyEncryption for AzureKey {
    fn name(&self) -> &str {
        &self.name
    }

    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError> {
        let version = self.current().await?;
        let between: ClearKey = SecretBox::new(Box::new(random()?));
        let nonce = random::<NONCE>()?;
        let payload = Payload { msg: key.expose_secret(), aad: context.as_bytes() };
        let sealed = cipher(&between).encrypt(&Nonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| KeyError::Refused("the cipher refused".to_owned()))?;
        let wrapped = self.operate(&version, "wrapkey", between.expose_secret()).await?;
        let stored = Sealed {
            version: version.clone(),
            key: URL_SAFE_NO_PAD.encode(wrapped),
            data: URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()),
        };
        let bytes = serde_json::to_vec(&stored).map_err(|_| not_understood())?;
        Ok(WrappedKey { bytes, version: Some(version) })
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        let is_none = || KeyError::Refused("it was not wrapped by a key of Azure".to_owned());
        let Sealed { version, key, data } = serde_json::from_slice(wrapped).map_err(|_| is_none())?;
        let (key, sealed) = (decoded(&key).map_err(|_| is_none())?, decoded(&data).map_err(|_| is_none())?);
        let (nonce, sealed) = sealed.split_at_checked(NONCE).ok_or_else(is_none)?;
        let nonce = <[u8; NONCE]>::try_from(nonce).map_err(|_| is_none())?;
        if !is_version(&version) {
            return Err(is_none());
        }
        let between = clear(self.operate(&version, "unwrapkey", &key).await?)?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        let opened = cipher(&between).decrypt(&Nonce::from(nonce), payload);
        clear(opened.map_err(|_| {
            KeyError::Refused("what it unwraps does not open the data key: authentication failed".to_owned())
        })?)
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        Ok(Some(self.current().await?))
    }
}

#[cfg(test)]
mod tests;
