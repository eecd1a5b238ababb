//! Secret values in the KV engine, version 2: `vault-kv://HOST[:PORT]/MOUNT/PREFIX?OPTIONS`. What is put there is sealed already.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use plural_app::ports::secret_backend::{KeeperError, ObjectName, SecretKeeper};
use plural_core::secret_backend::SecretBackend;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{Data, Vault, VaultPath};
use crate::{BadPlace, Place, Variables, not_understood};

/// Consul as Vault's storage takes entries of 512 KiB; base64 makes four bytes of three, and Vault adds its own.
const LARGEST: usize = 350 << 10;

/// The adapter.
pub(crate) struct Kv {
    vault: Vault,
    mount: String,
    prefix: String,
}

/// What there is of a version.
#[derive(Deserialize)]
struct Version {
    /// Nothing, where the version was deleted.
    data: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    sealed: String,
}

/// What is told of a version that was put. Version 1 of the engine tells nothing, and knows no metadata to delete.
#[derive(Deserialize)]
struct Put {
    #[expect(dead_code, reason = "that it is there tells the version of the engine")]
    version: u64,
}

impl Kv {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let (vault, VaultPath { namespace: _, mount, last: prefix }) =
            Vault::open(place, "HOST/MOUNT/PREFIX", variables)?;
        Ok(Self { vault, mount, prefix })
    }

    fn path(&self, what: &str, name: &ObjectName) -> String {
        format!("{}/{what}/{}/{name}", self.mount, self.prefix)
    }
}

#[async_trait]
impl SecretKeeper for Kv {
    fn backend(&self) -> SecretBackend {
        SecretBackend::Vault
    }

    fn largest(&self) -> usize {
        LARGEST
    }

    async fn put(&self, name: &ObjectName, sealed: &[u8]) -> Result<(), KeeperError> {
        // Only where there is nothing yet.
        let body = json!({"options": {"cas": 0}, "data": {"sealed": STANDARD.encode(sealed)}});
        let answer = self.vault.call(Method::POST, &self.path("data", name), Some(&body)).await?;
        if answer.status == StatusCode::BAD_REQUEST {
            // A request before this one may have put it, whose answer did not arrive.
            let is_there = self.get(name).await?.as_deref() == Some(sealed);
            return if is_there { Ok(()) } else { Err(answer.refusal()) };
        }
        if answer.status == StatusCode::NO_CONTENT {
            let why = format!("{} is no KV engine of version 2", self.mount);
            return Err(KeeperError::Refused(why));
        }
        answer.json::<Data<Put>>().map(|_| ())
    }

    async fn get(&self, name: &ObjectName) -> Result<Option<Vec<u8>>, KeeperError> {
        let answer = self.vault.call(Method::GET, &self.path("data", name), None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let Data { data: Version { data } } = answer.json()?;
        let Some(Content { sealed }) = data else { return Ok(None) };
        STANDARD.decode(sealed).map(Some).map_err(|_| not_understood())
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), KeeperError> {
        // With its metadata all versions of it go.
        let answer = self.vault.call(Method::DELETE, &self.path("metadata", name), None).await?;
        if answer.status.is_success() || answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        Err(answer.refusal())
    }
}

#[cfg(test)]
mod tests;
