//! What Vault and OpenBao answer to whoever uses a key of the transit engine, or keeps secrets in the KV engine, from their public
//! description: a stand-in on loopback, with the bad days that such a service has. It keeps what it encrypted in a table, so that nothing
//! opens by chance.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::background::Background;

/// The server. Everything in it goes when it is dropped.
#[derive(Debug)]
pub struct TransitServer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Vault>,
    away: AtomicBool,
    hangs: AtomicBool,
    failing: AtomicUsize,
    requests: AtomicUsize,
    logins: AtomicUsize,
    refusals: AtomicUsize,
    renewals: AtomicUsize,
}

#[derive(Debug, Default)]
struct Vault {
    root: String,
    tokens: Vec<String>,
    jwt: String,
    secret_id: String,
    lease: u64,
    version: u64,
    oldest: u64,
    /// Plaintext and associated data by ciphertext.
    encrypted: HashMap<String, (String, String)>,
    /// Versions by path; nothing where one was deleted.
    kv: BTreeMap<String, Vec<Option<Value>>>,
    forbids: bool,
    forbids_reading: bool,
}

impl TransitServer {
    /// A server with the key `plural` of the engine `transit`, a KV engine of version 2 at `secret` and one of version 1 at `kv`, the role
    /// `plural` for Kubernetes and AppRole.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let word = |what: &str| format!("{what}-{:032x}", rand::random::<u128>());
        let vault = Vault {
            root: word("hvs.root"),
            jwt: word("jwt"),
            secret_id: word("secret-id"),
            lease: 3600,
            version: 1,
            oldest: 1,
            ..Vault::default()
        };
        let shared = Arc::new(Shared { state: Mutex::new(vault), ..Shared::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let background = Background::start("transit-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// How a console names its key, with these options: `auth=kubernetes&role=plural`.
    pub fn place(&self, options: &str) -> String {
        format!("vault-transit:http://{}/transit/plural?{options}", self.background.address())
    }

    /// How a console names what it keeps secrets in, with these options.
    pub fn kv_place(&self, options: &str) -> String {
        format!("vault-kv:http://{}/secret/plural?{options}", self.background.address())
    }

    /// The same of the engine of version 1, where nobody is to keep any.
    pub fn old_kv_place(&self, options: &str) -> String {
        format!("vault-kv:http://{}/kv/plural?{options}", self.background.address())
    }

    /// What is kept, by its path: the newest versions.
    pub fn kept(&self) -> BTreeMap<String, Value> {
        let state = self.shared.state.lock();
        let newest = |(path, versions): (&String, &Vec<Option<Value>>)| {
            Some((path.clone(), versions.last()?.as_ref()?.clone()))
        };
        state.kv.iter().filter_map(newest).collect()
    }

    /// Somebody writes something else over all that is kept.
    pub fn overwrite(&self, data: &Value) {
        for versions in self.shared.state.lock().kv.values_mut() {
            versions.push(Some(data.clone()));
        }
    }

    /// Somebody deletes the newest versions of all that is kept.
    pub fn delete_newest(&self) {
        for versions in self.shared.state.lock().kv.values_mut() {
            versions.push(None);
        }
    }

    /// A token that lasts.
    pub fn root(&self) -> String {
        self.shared.state.lock().root.clone()
    }

    /// The token of a ServiceAccount that it knows.
    pub fn jwt(&self) -> String {
        self.shared.state.lock().jwt.clone()
    }

    /// The secret of the AppRole.
    pub fn secret_id(&self) -> String {
        self.shared.state.lock().secret_id.clone()
    }

    /// A new version of the key.
    pub fn rotate(&self) {
        self.shared.state.lock().version += 1;
    }

    /// Versions before the current one decrypt no more.
    pub fn forget_old_versions(&self) {
        let mut state = self.shared.state.lock();
        state.oldest = state.version;
    }

    /// Nobody is logged in any more.
    pub fn revoke_tokens(&self) {
        self.shared.state.lock().tokens.clear();
    }

    /// Its policy lets nobody use the key, or no longer.
    pub fn forbid(&self, forbids: bool) {
        self.shared.state.lock().forbids = forbids;
    }

    /// Its policy lets nobody read what there is of the key.
    pub fn forbid_reading(&self, forbids: bool) {
        self.shared.state.lock().forbids_reading = forbids;
    }

    /// Answers everything with an error of the server's, as one that is sealed does.
    pub fn away(&self, away: bool) {
        self.shared.away.store(away, Ordering::SeqCst);
    }

    /// Answers nothing.
    pub fn hang(&self, hangs: bool) {
        self.shared.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Answers the next requests with an error of the server's.
    pub fn fail_next(&self, requests: usize) {
        self.shared.failing.store(requests, Ordering::SeqCst);
    }

    /// How often a key was used.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How often somebody logged in.
    pub fn logins(&self) -> usize {
        self.shared.logins.load(Ordering::SeqCst)
    }

    /// How often somebody was not let in.
    pub fn refusals(&self) -> usize {
        self.shared.refusals.load(Ordering::SeqCst)
    }

    /// How often a token was renewed.
    pub fn renewals(&self) -> usize {
        self.shared.renewals.load(Ordering::SeqCst)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if shared.hangs.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    let failing = shared.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    if shared.away.load(Ordering::SeqCst) || failing.is_ok() {
        return errors(StatusCode::SERVICE_UNAVAILABLE, "Vault is sealed");
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else {
        return errors(StatusCode::BAD_REQUEST, "the body is incomplete");
    };
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    if parts.headers.get("x-vault-request").is_none() {
        return errors(StatusCode::BAD_REQUEST, "missing X-Vault-Request header");
    }
    let mut state = shared.state.lock();
    match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/v1/auth/kubernetes/login") => {
            let is_known = asked["role"] == "plural" && asked["jwt"] == state.jwt.as_str();
            log_in(&shared, &mut state, is_known)
        }
        (&Method::POST, "/v1/auth/approle/login") => {
            let is_known = asked["role_id"] == "plural" && asked["secret_id"] == state.secret_id.as_str();
            log_in(&shared, &mut state, is_known)
        }
        (&Method::POST, "/v1/auth/token/renew-self") => match token(&parts.headers, &state) {
            Some(token) if token != state.root => {
                shared.renewals.fetch_add(1, Ordering::SeqCst);
                json_answer(&login(&token, state.lease))
            }
            Some(_) => errors(StatusCode::BAD_REQUEST, "lease is not renewable"),
            None => errors(StatusCode::FORBIDDEN, "permission denied"),
        },
        (method, path) => {
            let is_allowed = token(&parts.headers, &state).is_some() && !state.forbids;
            if !is_allowed {
                return errors(StatusCode::FORBIDDEN, "1 error occurred: permission denied");
            }
            shared.requests.fetch_add(1, Ordering::SeqCst);
            if let Some(path) = path.strip_prefix("/v1/secret/") {
                return kv(method, path, &asked, &mut state);
            }
            if path.starts_with("/v1/kv/") {
                return old_kv(method);
            }
            transit(method, path, &asked, &mut state)
        }
    }
}

/// The KV engine of version 2.
fn kv(method: &Method, path: &str, asked: &Value, state: &mut Vault) -> Response {
    match (method, path.split_once('/')) {
        (&Method::POST, Some(("data", path))) => {
            let versions = state.kv.entry(path.to_owned()).or_default();
            let cas = asked["options"]["cas"].as_u64();
            if cas.is_some_and(|cas| cas != versions.len() as u64) {
                return errors(
                    StatusCode::BAD_REQUEST,
                    "check-and-set parameter did not match the current version",
                );
            }
            versions.push(Some(asked["data"].clone()));
            json_answer(&json!({"data": {"version": versions.len(), "destroyed": false}}))
        }
        (&Method::GET, Some(("data", path))) => {
            let Some(versions) = state.kv.get(path) else { return errors(StatusCode::NOT_FOUND, "") };
            let (data, version) = (versions.last().cloned().flatten(), versions.len());
            let status = if data.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            of(status, &json!({"data": {"data": data, "metadata": {"version": version}}}))
        }
        (&Method::DELETE, Some(("metadata", path))) => {
            state.kv.remove(path);
            nothing()
        }
        _ => errors(StatusCode::NOT_FOUND, "no handler for route"),
    }
}

/// The KV engine of version 1 takes any path.
fn old_kv(method: &Method) -> Response {
    if *method == Method::GET {
        return errors(StatusCode::NOT_FOUND, "");
    }
    nothing()
}

fn transit(method: &Method, path: &str, asked: &Value, state: &mut Vault) -> Response {
    let text = |name: &str| asked[name].as_str().map(str::to_owned);
    match (method, path) {
        (&Method::POST, "/v1/transit/encrypt/plural") => {
            let (Some(plaintext), Some(data)) = (text("plaintext"), text("associated_data")) else {
                return errors(StatusCode::BAD_REQUEST, "missing plaintext or associated_data");
            };
            let ciphertext = format!("vault:v{}:{:032x}", state.version, rand::random::<u128>());
            state.encrypted.insert(ciphertext.clone(), (plaintext, data));
            json_answer(&json!({"data": {"ciphertext": ciphertext, "key_version": state.version}}))
        }
        (&Method::POST, "/v1/transit/decrypt/plural") => {
            let ciphertext = text("ciphertext").unwrap_or_default();
            let version = ciphertext.strip_prefix("vault:v").and_then(|rest| rest.split(':').next());
            let version = version.and_then(|version| version.parse::<u64>().ok()).unwrap_or_default();
            if version < state.oldest {
                return errors(
                    StatusCode::BAD_REQUEST,
                    "ciphertext or signature version is disallowed by policy (too old)",
                );
            }
            match state.encrypted.get(&ciphertext) {
                Some((plaintext, data)) if text("associated_data").as_ref() == Some(data) => {
                    json_answer(&json!({"data": {"plaintext": plaintext}}))
                }
                _ => errors(StatusCode::BAD_REQUEST, "cipher: message authentication failed"),
            }
        }
        (&Method::GET, "/v1/transit/keys/plural") if state.forbids_reading => {
            errors(StatusCode::FORBIDDEN, "1 error occurred: permission denied")
        }
        (&Method::GET, "/v1/transit/keys/plural") => json_answer(&json!({"data": {
            "name": "plural", "type": "aes256-gcm96", "latest_version": state.version,
            "min_decryption_version": state.oldest,
        }})),
        _ => errors(StatusCode::NOT_FOUND, "encryption key not found"),
    }
}

fn token(headers: &HeaderMap, state: &Vault) -> Option<String> {
    let token = headers.get("x-vault-token")?.to_str().ok()?;
    (token == state.root || state.tokens.iter().any(|known| known == token)).then(|| token.to_owned())
}

fn log_in(shared: &Shared, state: &mut Vault, is_known: bool) -> Response {
    if !is_known {
        shared.refusals.fetch_add(1, Ordering::SeqCst);
        return errors(StatusCode::FORBIDDEN, "permission denied");
    }
    shared.logins.fetch_add(1, Ordering::SeqCst);
    let token = format!("hvs.{:032x}", rand::random::<u128>());
    state.tokens.push(token.clone());
    json_answer(&login(&token, state.lease))
}

fn login(token: &str, lease: u64) -> Value {
    json!({"auth": {"client_token": token, "lease_duration": lease, "renewable": true}})
}

fn errors(status: StatusCode, error: &str) -> Response {
    of(status, &json!({"errors": [error]}))
}

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn json_answer(answer: &Value) -> Response {
    of(StatusCode::OK, answer)
}

fn of(status: StatusCode, answer: &Value) -> Response {
    let mut response = Response::new(Body::from(answer.to_string()));
    *response.status_mut() = status;
    response
}
