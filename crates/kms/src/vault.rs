//! A key of the transit engine of Vault or OpenBao: `vault-transit://HOST[:PORT]/MOUNT/KEY?OPTIONS`.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use plural_app::ports::key_encryption::{ClearKey, KeyEncryption, KeyError, WrappedKey, clear};
use plural_reach::Reach;
use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    BadPlace, Options, Place, Variables, bad,
    endpoint::{Endpoint, address},
    http::{Answer, Request, by_status, secret_header},
    not_understood, read,
};

const OPTIONS: [&str; 8] =
    ["auth", "auth_mount", "role", "role_id", "secret_id_file", "token_file", "namespace", "ca"];
/// Where Kubernetes puts the token of a Pod's ServiceAccount.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// A token that lasts for ever is asked about again after so long.
const ASK_AGAIN: Duration = Duration::from_hours(1);

/// How a token is got.
enum Auth {
    /// It is there: in `VAULT_TOKEN`, or in a file that somebody renews.
    Token(Option<PathBuf>),
    /// For the token of the Pod's ServiceAccount.
    Kubernetes { mount: String, role: String, jwt: PathBuf },
    /// For a role and its secret, which is in `VAULT_SECRET_ID` or in a file.
    AppRole { mount: String, role: String, secret: Option<PathBuf> },
}

/// A token of ours.
struct Token {
    text: SecretString,
    /// When it is renewed.
    renew: Instant,
    renewable: bool,
}

/// The adapter.
pub(crate) struct Transit {
    name: String,
    endpoint: Endpoint,
    mount: String,
    key: String,
    namespace: Option<HeaderValue>,
    auth: Auth,
    variables: Arc<Variables>,
    token: Mutex<Option<Token>>,
}

#[derive(Deserialize)]
struct Data<T> {
    data: T,
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

#[derive(Deserialize)]
struct Login {
    auth: LoginAuth,
}

#[derive(Deserialize)]
struct LoginAuth {
    client_token: String,
    #[serde(default)]
    lease_duration: u64,
    #[serde(default)]
    renewable: bool,
}

impl Transit {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let rest = place.rest;
        let text = if rest.starts_with("//") { format!("https:{rest}") } else { rest.to_owned() };
        let mut base = address(&text)?;
        let path = base.path().trim_matches('/').to_owned();
        let (mount, key) = path.rsplit_once('/').ok_or_else(|| bad("it is HOST/MOUNT/KEY"))?;
        base.set_path("/");
        let options = place.options(&OPTIONS)?;
        let namespace = match options.get("namespace") {
            None => None,
            Some(text) => Some(HeaderValue::from_str(text).map_err(|_| bad("its namespace is no header"))?),
        };
        // Not its address: that may change, and what it wrapped stays.
        let name = match options.get("namespace") {
            None => format!("vault-transit:{mount}/{key}"),
            Some(namespace) => format!("vault-transit:{}/{mount}/{key}", namespace.trim_matches('/')),
        };
        Ok(Self {
            name,
            endpoint: Endpoint::at(base, Reach::Local, &options)?,
            mount: mount.to_owned(),
            key: key.to_owned(),
            namespace,
            auth: auth(&options)?,
            variables: Arc::clone(variables),
            token: Mutex::default(),
        })
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, KeyError> {
        let answer = self.send(&method, path, body, Some(&self.token(false).await?)).await?;
        if answer.status != StatusCode::FORBIDDEN || matches!(self.auth, Auth::Token(None)) {
            return Ok(answer);
        }
        // It may have been revoked, or its time was over: with another one it works, or the policy forbids it.
        self.send(&method, path, body, Some(&self.token(true).await?)).await
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        token: Option<&SecretString>,
    ) -> Result<Answer, KeyError> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("x-vault-request"), HeaderValue::from_static("true"));
        if let Some(namespace) = &self.namespace {
            headers.insert(HeaderName::from_static("x-vault-namespace"), namespace.clone());
        }
        if let Some(token) = token {
            headers.insert(HeaderName::from_static("x-vault-token"), secret_header(token)?);
        }
        let url = self.endpoint.path(&format!("v1/{path}"));
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request { method: method.clone(), url, headers, body: &body, is_busy: by_status };
        self.endpoint.http.ask(&request).await
    }

    /// A token that works: the one that there is, renewed when half of its time is over, or another one.
    async fn token(&self, another: bool) -> Result<SecretString, KeyError> {
        let mut held = self.token.lock().await;
        if another {
            *held = None;
        }
        if let Some(token) = &mut *held {
            if Instant::now() < token.renew {
                return Ok(token.text.clone());
            }
            if token.renewable {
                let renewed = self
                    .send(&Method::POST, "auth/token/renew-self", Some(&json!({})), Some(&token.text))
                    .await?;
                if let Ok(Login { auth }) = renewed.json::<Login>() {
                    token.renew = Instant::now() + half(auth.lease_duration);
                    return Ok(token.text.clone());
                }
            }
        }
        let token = self.log_in().await?;
        let text = token.text.clone();
        *held = Some(token);
        Ok(text)
    }

    async fn log_in(&self) -> Result<Token, KeyError> {
        let (mount, credentials) = match &self.auth {
            Auth::Token(file) => {
                let text = SecretString::from(self.secret(file.as_ref(), "VAULT_TOKEN").await?);
                // The first renewal says how long it lasts. A root token lasts for ever, and is not renewed.
                let renewed =
                    self.send(&Method::POST, "auth/token/renew-self", Some(&json!({})), Some(&text)).await?;
                let lasts = renewed.json::<Login>().ok().map(|login| login.auth.lease_duration);
                let renew = Instant::now() + lasts.map_or(ASK_AGAIN, half);
                return Ok(Token { text, renew, renewable: lasts.is_some() });
            }
            Auth::Kubernetes { mount, role, jwt } => {
                let jwt = read(jwt).await?;
                (mount, json!({"role": role, "jwt": jwt}))
            }
            Auth::AppRole { mount, role, secret: file } => {
                let id = self.secret(file.as_ref(), "VAULT_SECRET_ID").await?;
                (mount, json!({"role_id": role, "secret_id": id}))
            }
        };
        let answer =
            self.send(&Method::POST, &format!("auth/{mount}/login"), Some(&credentials), None).await?;
        let Login { auth } = answer.json().map_err(|error| match error {
            KeyError::Refused(why) => KeyError::Refused(format!("it does not let this console in: {why}")),
            error @ KeyError::Unavailable(_) => error,
        })?;
        let LoginAuth { client_token, lease_duration, renewable } = auth;
        Ok(Token { text: client_token.into(), renew: Instant::now() + half(lease_duration), renewable })
    }

    fn path(&self, what: &str) -> String {
        format!("{}/{what}/{}", self.mount, self.key)
    }

    async fn secret(&self, file: Option<&PathBuf>, variable: &str) -> Result<String, KeyError> {
        match file {
            Some(file) => read(file).await,
            None => (self.variables)(variable)
                .ok_or_else(|| KeyError::Refused(format!("the environment has no {variable}"))),
        }
    }
}

/// Half of these seconds; of a token without end, a while.
fn half(seconds: u64) -> Duration {
    if seconds == 0 { ASK_AGAIN } else { Duration::from_secs(seconds) / 2 }
}

fn auth(options: &Options) -> Result<Auth, BadPlace> {
    let needs = |name: &str| {
        options.get(name).map(str::to_owned).ok_or_else(|| bad(&format!("it needs the option {name:?}")))
    };
    let mount = |default: &str| options.get("auth_mount").unwrap_or(default).to_owned();
    match options.get("auth") {
        None | Some("token") => Ok(Auth::Token(options.file("token_file"))),
        Some("kubernetes") => Ok(Auth::Kubernetes {
            mount: mount("kubernetes"),
            role: needs("role")?,
            jwt: options.file("token_file").unwrap_or_else(|| PathBuf::from(POD_TOKEN)),
        }),
        Some("approle") => Ok(Auth::AppRole {
            mount: mount("approle"),
            role: needs("role_id")?,
            secret: options.file("secret_id_file"),
        }),
        Some(_) => Err(bad("auth is token, kubernetes or approle")),
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
        let answer = self.call(Method::POST, &self.path("encrypt"), Some(&body)).await?;
        let Data { data: Encrypted { ciphertext } } = answer.json()?;
        let version = version_of(&ciphertext);
        let version = version.ok_or_else(not_understood)?;
        Ok(WrappedKey { version: Some(version.to_owned()), bytes: ciphertext.into_bytes() })
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        let ciphertext =
            std::str::from_utf8(wrapped).map_err(|_| KeyError::Refused("it is no text".to_owned()))?;
        let body = json!({"ciphertext": ciphertext, "associated_data": STANDARD.encode(context)});
        let answer = self.call(Method::POST, &self.path("decrypt"), Some(&body)).await?;
        let Data { data: Decrypted { plaintext } } = answer.json()?;
        let bytes = STANDARD.decode(plaintext);
        clear(bytes.map_err(|_| not_understood())?)
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        let answer = self.call(Method::GET, &self.path("keys"), None).await?;
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
