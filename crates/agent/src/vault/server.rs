//! Requests to Vault, or to OpenBao, which speaks the same: login by Kubernetes, mounts, the KV engine in both versions.

use std::{collections::BTreeMap, error::Error as _, time::Duration};

use http::{HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Certificate, RequestBuilder, Url};
use serde_json::{Value, json};

use super::VaultConfig;

/// One request, with its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer: KV takes no secret over 1 MiB.
const LARGEST: usize = 2 << 20;
/// Bytes of a text of Vault that is told to people.
const LONGEST: usize = 200;
/// What stands for itself in a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What a secret holds: each key as text, and nothing for null.
pub(crate) type Data = BTreeMap<String, Option<String>>;

/// Why Vault cannot be used at all.
#[derive(Debug, Clone, thiserror::Error)]
pub enum VaultConfigError {
    /// Its address is none, or one that a token is not sent to.
    #[error("the address of Vault must be https://HOST[:PORT], or http:// on this machine: {0:?} is neither")]
    Address(String),
    /// Its certificates cannot be read.
    #[error("the certificates of Vault are not in PEM form")]
    Certificates,
    /// The mount, the namespace or the role cannot be one.
    #[error("the {0} of Vault cannot be used")]
    Setting(&'static str),
    /// No client.
    #[error("cannot prepare to talk to Vault")]
    Client,
}

/// Why Vault does not give something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VaultError {
    #[error("Vault cannot be reached: {0}")]
    Unreachable(String),
    #[error("Vault is sealed, or in standby: its operator has to unseal it")]
    Sealed,
    #[error("Vault answers {0}")]
    Busy(u16),
    #[error("Vault refuses the login ({0})")]
    Login(String),
    #[error("Vault denies it to the policies of the role")]
    Denied,
    #[error("there is no such secret")]
    Missing,
    #[error("version {0} of the secret was deleted")]
    Deleted(u64),
    #[error("its mount is no KV engine but {0:?}")]
    NoKv(String),
    #[error(
        "Vault answers with a redirect, which is not followed: name the address of the active node or of a load balancer"
    )]
    Redirect,
    #[error("the answer of Vault cannot be read")]
    Unreadable,
}

impl VaultError {
    /// It may pass without anyone changing a secret or a policy: what was read is believed for as long.
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Sealed | Self::Busy(_))
    }
}

/// A login.
pub(crate) struct Login {
    pub(crate) token: HeaderValue,
    /// For how long; nothing for one that does not end.
    pub(crate) lasts: Option<Duration>,
}

/// A KV engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// With a slash at its end.
    pub(crate) path: String,
    pub(crate) versioned: bool,
}

/// One Vault.
pub(crate) struct Server {
    client: reqwest::Client,
    base: String,
    namespace: Option<HeaderValue>,
    auth_mount: String,
}

impl Server {
    pub(crate) fn new(config: &VaultConfig) -> Result<Self, VaultConfigError> {
        let base = base(&config.address)?;
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("plural/", env!("CARGO_PKG_VERSION")))
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE)
            .pool_max_idle_per_host(4)
            // The proxy of the environment leads to the console.
            .no_proxy()
            // A token goes to the address that the operator named, and nowhere else.
            .redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = &config.ca_pem {
            let certificates = Certificate::from_pem_bundle(pem.as_bytes()).ok();
            let certificates = certificates.filter(|found| !found.is_empty());
            builder = builder.tls_certs_merge(certificates.ok_or(VaultConfigError::Certificates)?);
        }
        let namespace = config.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.map(HeaderValue::from_str).transpose();
        let auth_mount = config.auth_mount.trim_matches('/');
        if auth_mount.is_empty() || auth_mount.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(VaultConfigError::Setting("auth mount"));
        }
        if config.role.is_empty() {
            return Err(VaultConfigError::Setting("role"));
        }
        Ok(Self {
            client: builder.build().map_err(|_| VaultConfigError::Client)?,
            base,
            namespace: namespace.map_err(|_| VaultConfigError::Setting("namespace"))?,
            auth_mount: encoded(auth_mount),
        })
    }

    /// Enters with the token of a ServiceAccount.
    pub(crate) async fn login(&self, role: &str, jwt: &str) -> Result<Login, VaultError> {
        let url = format!("{}/v1/auth/{}/login", self.base, self.auth_mount);
        let asked = json!({"role": role, "jwt": jwt}).to_string();
        let request = self.client.post(url).header("content-type", "application/json").body(asked);
        let (status, answer) = self.send(request, None).await?;
        if !status.is_success() {
            return Err(match usual(status) {
                Some(error) if error.is_transient() || error == VaultError::Redirect => error,
                Some(_) | None => VaultError::Login(told(status, &answer)),
            });
        }
        let auth = &answer["auth"];
        let token = auth["client_token"].as_str().filter(|token| !token.is_empty());
        let mut token =
            token.and_then(|token| HeaderValue::from_str(token).ok()).ok_or(VaultError::Unreadable)?;
        token.set_sensitive(true);
        let seconds = auth["lease_duration"].as_u64().filter(|seconds| *seconds > 0);
        Ok(Login { token, lasts: seconds.map(Duration::from_secs) })
    }

    /// Whether a login is still one.
    pub(crate) async fn is_entered(&self, token: &HeaderValue) -> Result<bool, VaultError> {
        let url = format!("{}/v1/auth/token/lookup-self", self.base);
        match usual(self.send(self.client.get(url), Some(token)).await?.0) {
            None => Ok(true),
            Some(VaultError::Denied) => Ok(false),
            Some(error) => Err(error),
        }
    }

    /// The engine that a path belongs to, as `vault kv` asks for it.
    pub(crate) async fn mount(&self, token: &HeaderValue, path: &str) -> Result<Mount, VaultError> {
        let url = format!("{}/v1/sys/internal/ui/mounts/{}", self.base, encoded(path));
        let (status, answer) = self.send(self.client.get(url), Some(token)).await?;
        if let Some(error) = usual(status) {
            return Err(error);
        }
        let data = &answer["data"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mount = text(&data["path"]).ok_or(VaultError::Unreadable)?;
        match data["type"].as_str() {
            Some("kv" | "generic") => {}
            other => return Err(VaultError::NoKv(shortened(other.unwrap_or_default()))),
        }
        if !mount.ends_with('/') || !path.starts_with(&mount) || path.len() == mount.len() {
            return Err(VaultError::Unreadable);
        }
        Ok(Mount { path: mount, versioned: data["options"]["version"].as_str() == Some("2") })
    }

    /// The newest version of a secret.
    pub(crate) async fn read(
        &self,
        token: &HeaderValue,
        mount: &Mount,
        path: &str,
    ) -> Result<Data, VaultError> {
        let Mount { path: root, versioned } = mount;
        let rest = path.strip_prefix(root).ok_or(VaultError::Unreadable)?;
        let between = if *versioned { "data/" } else { "" };
        let url = format!("{}/v1/{}{between}{}", self.base, encoded(root), encoded(rest));
        let (status, mut answer) = self.send(self.client.get(url), Some(token)).await?;
        if status == StatusCode::NOT_FOUND
            && let Some(version) = answer["data"]["metadata"]["version"].as_u64()
        {
            return Err(VaultError::Deleted(version));
        }
        if let Some(error) = usual(status) {
            return Err(error);
        }
        let data = answer.pointer_mut(if *versioned { "/data/data" } else { "/data" }).map(Value::take);
        let Some(Value::Object(data)) = data else { return Err(VaultError::Unreadable) };
        let text = |value: Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        Ok(data.into_iter().map(|(key, value)| (key, text(value))).collect())
    }

    /// Sends, and reads a JSON answer; null where it is none.
    async fn send(
        &self,
        request: RequestBuilder,
        token: Option<&HeaderValue>,
    ) -> Result<(StatusCode, Value), VaultError> {
        let mut request = request.header("x-vault-request", "true");
        if let Some(namespace) = &self.namespace {
            request = request.header("x-vault-namespace", namespace.clone());
        }
        if let Some(token) = token {
            request = request.header("x-vault-token", token.clone());
        }
        let mut response = request.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&error))? {
            if body.len() + chunk.len() > LARGEST {
                return Err(VaultError::Unreadable);
            }
            body.extend_from_slice(&chunk);
        }
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok((status, answer)),
            Err(_) if status.is_success() => Err(VaultError::Unreadable),
            Err(_) => Ok((status, Value::Null)),
        }
    }
}

/// What a status says of any request; nothing for a success.
fn usual(status: StatusCode) -> Option<VaultError> {
    Some(match status.as_u16() {
        200..=299 => return None,
        300..=399 => VaultError::Redirect,
        401 | 403 => VaultError::Denied,
        404 => VaultError::Missing,
        // What a standby node answers.
        472 | 473 | 503 => VaultError::Sealed,
        code @ (412 | 429 | 500..) => VaultError::Busy(code),
        _ => VaultError::Unreadable,
    })
}

/// The address without a slash at its end: where tokens may go.
fn base(address: &str) -> Result<String, VaultConfigError> {
    let wrong = || VaultConfigError::Address(address.to_owned());
    let url = Url::parse(address).map_err(|_| wrong())?;
    let is_here = match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => return Err(wrong()),
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_here);
    let is_bare = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_safe || !is_bare {
        return Err(wrong());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn encoded(path: &str) -> String {
    let parts: Vec<String> =
        path.split('/').map(|part| utf8_percent_encode(part, PLAIN).to_string()).collect();
    parts.join("/")
}

/// What Vault says of a login that it refuses, as far as people need it.
fn told(status: StatusCode, answer: &Value) -> String {
    let errors = answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let errors = errors.collect::<Vec<_>>().join("; ");
    if errors.is_empty() { status.as_u16().to_string() } else { shortened(&errors) }
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST);
    text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The last cause, which says what is wrong with a connection.
fn unreachable(error: &reqwest::Error) -> VaultError {
    if error.is_timeout() {
        return VaultError::Unreachable(format!("no answer within {} s", PATIENCE.as_secs()));
    }
    let mut last = error.source();
    while let Some(next) = last.and_then(std::error::Error::source) {
        last = Some(next);
    }
    VaultError::Unreachable(last.map_or_else(|| "the connection broke".to_owned(), ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_no_address_in_clear() {
        for (address, good) in [
            ("https://vault.example.com:8200", true),
            ("https://vault.example.com/", true),
            ("http://127.0.0.1:8200", true),
            ("http://localhost:8200", true),
            ("http://vault.example.com:8200", false),
            ("http://127.0.0.1.example.com", false),
            ("https://user:password@vault.example.com", false),
            ("https://vault.example.com?x=1", false),
            ("file:///etc/passwd", false),
            ("vault", false),
        ] {
            assert_eq!(base(address).is_ok(), good, "{address}");
        }
        assert_eq!(base("https://vault.example.com/").unwrap(), "https://vault.example.com");
    }

    #[test]
    fn paths_and_texts_are_tame() {
        assert_eq!(encoded("secret/a b/c?d#e"), "secret/a%20b/c%3Fd%23e");
        let long = json!({"errors": ["a\nb", "ü".repeat(300)]});
        let told = told(StatusCode::FORBIDDEN, &long);
        assert!(told.starts_with("a b; ") && told.len() <= LONGEST, "{told}");
    }
}
