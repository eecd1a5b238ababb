//! Secret values in Secrets of a Kubernetes cluster, the one that the console runs in: `kubernetes:NAMESPACE?OPTIONS`. What is put there
//! is sealed already.
//!
//! Three requests are all it takes, so they are made with the HTTP client of everything else here: the console has no client of Kubernetes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use plural_app::ports::secret_backend::{KeeperError, ObjectName, SecretKeeper};
use plural_core::secret_backend::SecretBackend;
use plural_reach::Reach;
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    BadPlace, POD, Place, Variables, bad,
    endpoint::{Endpoint, address, is_here},
    http::{Answer, Request, bearer, by_status},
    not_understood, read,
};

const OPTIONS: [&str; 3] = ["server", "token_file", "ca"];
/// A Secret has at most 1 MiB; so much of it fits into an answer in base64.
const LARGEST: usize = 700 << 10;

/// The adapter.
pub(crate) struct Secrets {
    endpoint: Endpoint,
    namespace: String,
    token: PathBuf,
}

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    data: SecretData,
}

#[derive(Deserialize, Default)]
struct SecretData {
    sealed: Option<String>,
}

impl Secrets {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let namespace = place.rest;
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if namespace.is_empty() || namespace.len() > 63 || !namespace.chars().all(is_word) {
            return Err(bad("it is kubernetes:NAMESPACE"));
        }
        let mut options = place.options(&OPTIONS)?;
        let url = if let Some(server) = options.get("server") {
            address(server)?
        } else {
            // As every client in a Pod: the authority is that of the Pod's own cluster.
            options.default("ca", &format!("{POD}/ca.crt"));
            own_cluster(variables)?
        };
        if url.path() != "/" || url.query().is_some() {
            return Err(bad("server is a host without a path: https://HOST"));
        }
        let reach = if is_here(&url) { Reach::Local } else { Reach::Private };
        Ok(Self {
            endpoint: Endpoint::at(url, reach, &options)?,
            namespace: namespace.to_owned(),
            token: options.file("token_file").unwrap_or_else(|| Path::new(POD).join("token")),
        })
    }

    async fn ask(&self, method: Method, name: Option<&str>, body: &[u8]) -> Result<Answer, KeeperError> {
        let mut headers = HeaderMap::new();
        // Read each time: the kubelet renews it.
        headers.insert(AUTHORIZATION, bearer(&SecretString::from(read(&self.token).await?))?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let all = format!("api/v1/namespaces/{}/secrets", self.namespace);
        let path = name.map_or_else(|| all.clone(), |name| format!("{all}/{name}"));
        let url = self.endpoint.path(&path);
        self.endpoint.http.ask(&Request { method, url, headers, body, is_busy: by_status }).await
    }

    fn manifest(&self, name: &ObjectName, sealed: &[u8]) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name_of(name),
                "namespace": self.namespace,
                "labels": {
                    "app.kubernetes.io/managed-by": "plural-console",
                    "plural.sh/project": name.project.to_string(),
                },
            },
            "type": "plural.sh/sealed",
            "immutable": true,
            "data": {"sealed": STANDARD.encode(sealed)},
        })
    }
}

/// Names of Secrets have no slashes; the id alone is one of its own.
fn name_of(name: &ObjectName) -> String {
    format!("plural-sealed-{}", name.id)
}

/// The API server of the Pod's own cluster.
fn own_cluster(variables: &Arc<Variables>) -> Result<Url, BadPlace> {
    let (host, port) = (variables("KUBERNETES_SERVICE_HOST"), variables("KUBERNETES_SERVICE_PORT"));
    let host = host.ok_or_else(|| bad("it needs the option \"server\" where the console runs in no Pod"))?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    address(&format!("https://{host}:{}", port.as_deref().unwrap_or("443")))
}

#[async_trait]
impl SecretKeeper for Secrets {
    fn backend(&self) -> SecretBackend {
        SecretBackend::Kubernetes
    }

    fn largest(&self) -> usize {
        LARGEST
    }

    async fn put(&self, name: &ObjectName, sealed: &[u8]) -> Result<(), KeeperError> {
        let body = self.manifest(name, sealed).to_string();
        let answer = self.ask(Method::POST, None, body.as_bytes()).await?;
        if answer.status == StatusCode::CONFLICT {
            // A request before this one may have put it, whose answer did not arrive.
            let is_there = self.get(name).await?.as_deref() == Some(sealed);
            return if is_there { Ok(()) } else { Err(answer.refusal()) };
        }
        if answer.status.is_success() { Ok(()) } else { Err(answer.refusal()) }
    }

    async fn get(&self, name: &ObjectName) -> Result<Option<Vec<u8>>, KeeperError> {
        let answer = self.ask(Method::GET, Some(&name_of(name)), &[]).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let Secret { data: SecretData { sealed } } = answer.json()?;
        let Some(sealed) = sealed else { return Ok(None) };
        STANDARD.decode(sealed).map(Some).map_err(|_| not_understood())
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), KeeperError> {
        let answer = self.ask(Method::DELETE, Some(&name_of(name)), &[]).await?;
        if answer.status.is_success() || answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        Err(answer.refusal())
    }
}

#[cfg(test)]
mod tests;
