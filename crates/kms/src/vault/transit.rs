//! A key of the transit engine of Vault or OpenBao: `vault-transit://HOST[:PORT]/MOUNT/KEY?OPTIONS`.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use plural_app::ports::key_encryption::{ClearKey, KeyEncryption, KeyError, WrappedKey, clear};
use reqwest::{Method, StatusCode};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;

use super::{Data, Vault, VaultPath};
use crate::{BadPlace, Place, Variables, not_understood};

/// The adapter.
pub(crate) struct Transit {
    name: String,
    vault: Vault,
    mount: String,
    key: String,
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: String,
}

#[derive(Deserialize)]
struct KeyInfo {
    latest_version: u64,
}

impl Transit {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let (vault, VaultPath { namespace, mount, last: key }) =
            Vault::open(place, "HOST/MOUNT/KEY", variables)?;
        // Not its address: that may change, and what it wrapped stays.
        let name = match namespace {
            None => format!("vault-transit:{mount}/{key}"),
            Some(namespace) => format!("vault-transit:{}/{mount}/{key}", namespace.trim_matches('/')),
        };
        Ok(Self { name, vault, mount, key })
    }

    fn path(&self, what: &str) -> String {
        format!("{}/{what}/{}", self.mount, self.key)
    }
}

#[async_trait]
impl KeyEncryption for Transit {
    fn name(&self) -> &str {
        &self.name
    }

    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError> {
        let body = json!({
            "plaintext": STANDARD.encode(key.expose_secret()), "associated_data": STANDARD.encode(context),
        });
        let answer = self.vault.call(Method::POST, &self.path("encrypt"), Some(&body)).await?;
        let Data { data: Encrypted { ciphertext } } = answer.json()?;
        let version = version_of(&ciphertext);
        let version = version.ok_or_else(not_understood)?;
        Ok(WrappedKey { version: Some(version.to_owned()), bytes: ciphertext.into_bytes() })
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        let ciphertext =
            std::str::from_utf8(wrapped).map_err(|_| KeyError::Refused("it is no text".to_owned()))?;
        let body = json!({"ciphertext": ciphertext, "associated_data": STANDARD.encode(context)});
        let answer = self.vault.call(Method::POST, &self.path("decrypt"), Some(&body)).await?;
        let Data { data: Decrypted { plaintext } } = answer.json()?;
        let bytes = STANDARD.decode(plaintext);
        clear(bytes.map_err(|_| not_understood())?)
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        let answer = self.vault.call(Method::GET, &self.path("keys"), None).await?;
        if answer.status == StatusCode::FORBIDDEN {
            // Who may encrypt and decrypt need not be able to read what there is of the key: it is not noticed when it is rotated.
            return Ok(None);
        }
        let Data { data: KeyInfo { latest_version } } = answer.json()?;
        Ok(Some(latest_version.to_string()))
    }
}

/// `3` of `vault:v3:…`.
fn version_of(ciphertext: &str) -> Option<&str> {
    ciphertext.strip_prefix("vault:v")?.split_once(':').map(|(version, _)| version)
}

#[cfg(test)]
mod tests;
