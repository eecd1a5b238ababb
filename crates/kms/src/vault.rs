//! Vault and OpenBao: `SCHEME://HOST[:PORT]/MOUNT/NAME?OPTIONS`. Here is how the console gets in; below, what it does there.

pub(crate) mod kv;
pub(crate) mod transit;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use plural_app::ports::key_encryption::KeyError;
use plural_reach::Reach;
use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    BadPlace, Options, POD, Place, Variables, bad,
    endpoint::{Endpoint, address},
    http::{Answer, Request, by_status, secret_header},
    read,
};

const OPTIONS: [&str; 8] =
    ["auth", "auth_mount", "role", "role_id", "secret_id_file", "token_file", "namespace", "ca"];
/// A token that lasts for ever is asked about again after so long.
const ASK_AGAIN: Duration = Duration::from_hours(1);
/// After a token that was made anew was forbidden as well, it is the policy that forbids: so long no other one is made for it.
const FORBIDDEN: Duration = Duration::from_secs(30);
/// After a login was refused, so long none is tried: servers lock out who tries again and again.
const REFUSED: Duration = Duration::from_secs(5);

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

/// What is known of logins. Whoever has the lock is the only one who logs in.
#[derive(Default)]
struct Held {
    token: Option<Token>,
    /// Until when a refusal of a token is not a reason to get another one, and where it was refused.
    forbidden: Option<(Instant, String)>,
    /// When there was a login last.
    entered: Option<Instant>,
    /// Until when no login is tried, and what the last one was told.
    refused: Option<(Instant, KeyError)>,
}

/// A server, and the console's token for it.
pub(crate) struct Vault {
    endpoint: Endpoint,
    namespace: Option<HeaderValue>,
    auth: Auth,
    variables: Arc<Variables>,
    held: Mutex<Held>,
}

/// What a place names there.
struct VaultPath {
    namespace: Option<String>,
    /// Where the engine is mounted.
    mount: String,
    /// The last part.
    last: String,
}

#[derive(Deserialize)]
struct Data<T> {
    data: T,
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

impl Vault {
    fn open(
        place: &Place<'_>,
        form: &str,
        variables: &Arc<Variables>,
    ) -> Result<(Self, VaultPath), BadPlace> {
        let rest = place.rest;
        let text = if rest.starts_with("//") { format!("https:{rest}") } else { rest.to_owned() };
        let mut base = address(&text)?;
        let path = base.path().trim_matches('/').to_owned();
        let (mount, last) = path.rsplit_once('/').ok_or_else(|| bad(&format!("it is {form}")))?;
        base.set_path("/");
        let options = place.options(&OPTIONS)?;
        let namespace = options.get("namespace");
        let header = namespace.map(HeaderValue::from_str).transpose();
        let vault = Self {
            endpoint: Endpoint::at(base, Reach::Local, &options)?,
            namespace: header.map_err(|_| bad("its namespace is no header"))?,
            auth: auth(&options)?,
            variables: Arc::clone(variables),
            held: Mutex::default(),
        };
        let namespace = namespace.map(str::to_owned);
        Ok((vault, VaultPath { namespace, mount: mount.to_owned(), last: last.to_owned() }))
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, KeyError> {
        let token = self.token().await?;
        let answer = self.send(&method, path, body, Some(&token)).await?;
        if answer.status != StatusCode::FORBIDDEN || matches!(self.auth, Auth::Token(None)) {
            return Ok(answer);
        }
        // It may have been revoked, or its time was over: with another one it works, or the policy forbids it.
        let Some(another) = self.another(&token, path).await? else { return Ok(answer) };
        let answer = self.send(&method, path, body, Some(&another)).await?;
        if answer.status == StatusCode::FORBIDDEN {
            self.held.lock().await.forbidden = Some((Instant::now() + FORBIDDEN, path.to_owned()));
        }
        Ok(answer)
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
    async fn token(&self) -> Result<SecretString, KeyError> {
        let mut held = self.held.lock().await;
        if let Some(token) = &mut held.token {
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
        self.entered(&mut held).await
    }

    /// Another token than this one, which was forbidden something; none while it is known that another one does not help.
    async fn another(&self, forbidden: &SecretString, path: &str) -> Result<Option<SecretString>, KeyError> {
        let mut held = self.held.lock().await;
        // Whoever was in front has one already.
        if let Some(token) = &held.token
            && token.text.expose_secret() != forbidden.expose_secret()
        {
            return Ok(Some(token.text.clone()));
        }
        let now = Instant::now();
        if let Some((until, known)) = &held.forbidden
            && now < *until
        {
            // What one path is forbidden says nothing of a token that another finds revoked; that takes a login now and then.
            let is_soon = held.entered.is_some_and(|entered| now < entered + REFUSED);
            if known == path || is_soon {
                return Ok(None);
            }
        }
        // The one of before stays until there is another one: it may do for all but this path.
        self.entered(&mut held).await.map(Some)
    }

    /// Logs in, unless that was refused a moment ago.
    async fn entered(&self, held: &mut Held) -> Result<SecretString, KeyError> {
        if let Some((until, error)) = &held.refused
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        match self.log_in().await {
            Ok(token) => {
                let text = token.text.clone();
                (held.token, held.refused, held.entered) = (Some(token), None, Some(Instant::now()));
                Ok(text)
            }
            Err(error) => {
                if matches!(error, KeyError::Refused(_)) {
                    held.refused = Some((Instant::now() + REFUSED, error.clone()));
                }
                Err(error)
            }
        }
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
            jwt: options.file("token_file").unwrap_or_else(|| Path::new(POD).join("token")),
        }),
        Some("approle") => Ok(Auth::AppRole {
            mount: mount("approle"),
            role: needs("role_id")?,
            secret: options.file("secret_id_file"),
        }),
        Some(_) => Err(bad("auth is token, kubernetes or approle")),
    }
}
