//! What Azure Key Vault and Entra ID answer to whoever wraps with an RSA key, from their public descriptions: a stand-in on loopback. It
//! keeps what it wrapped in a table, so that nothing opens by chance: no RSA is computed here.

use std::{
    collections::HashMap,
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
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Method, StatusCode, request::Parts};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::background::Background;

const HOST: &str = "plural-test.vault.azure.net";
const TENANT: &str = "00000000-1111-2222-3333-444444444444";
const CLIENT: &str = "55555555-6666-7777-8888-999999999999";

/// The server. Everything in it goes when it is dropped.
#[derive(Debug)]
pub struct AzureVaultServer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Vault>,
    away: AtomicBool,
    throttled: AtomicUsize,
    tampers: AtomicBool,
    logins: AtomicUsize,
}

#[derive(Debug, Default)]
struct Vault {
    secret: String,
    federated: String,
    tokens: Vec<String>,
    /// Versions of the key, and whether they are enabled. The last one is current.
    versions: Vec<(String, bool)>,
    /// By what was wrapped: the version, and what it is.
    wrapped: HashMap<String, (String, String)>,
    is_elliptic: bool,
}

impl AzureVaultServer {
    /// A server with one key and one application.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let state = Vault {
            secret: word("secret~"),
            federated: format!("header.{}.signature", word("")),
            versions: vec![(word(""), true)],
            ..Vault::default()
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let background = Background::start("azure-vault-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// How a console names the key, with these options.
    pub fn place(&self, options: &str) -> String {
        let address = self.background.address();
        format!(
            "azure-key-vault://{HOST}/keys/plural?endpoint=http://{address}&login_endpoint=http://{address}\
             &tenant={TENANT}&client_id={CLIENT}&{options}"
        )
    }

    /// How the key is named where it wraps.
    pub fn name() -> String {
        format!("azure-key-vault:{HOST}/plural")
    }

    /// The secret of the application.
    pub fn secret(&self) -> String {
        self.shared.state.lock().secret.clone()
    }

    /// The token of a ServiceAccount that the application trusts.
    pub fn federated_token(&self) -> String {
        self.shared.state.lock().federated.clone()
    }

    /// The current version of the key.
    pub fn version(&self) -> String {
        self.shared.state.lock().versions.last().map(|(version, _)| version.clone()).unwrap_or_default()
    }

    /// A new version of the key.
    pub fn rotate(&self) {
        self.shared.state.lock().versions.push((word(""), true));
    }

    /// Versions before the current one are disabled.
    pub fn disable_old_versions(&self) {
        let mut state = self.shared.state.lock();
        let last = state.versions.len() - 1;
        for (_, enabled) in &mut state.versions[..last] {
            *enabled = false;
        }
    }

    /// The current version is disabled, or enabled.
    pub fn disable(&self, disabled: bool) {
        if let Some((_, enabled)) = self.shared.state.lock().versions.last_mut() {
            *enabled = !disabled;
        }
    }

    /// The key is one that cannot wrap.
    pub fn be_elliptic(&self, is_elliptic: bool) {
        self.shared.state.lock().is_elliptic = is_elliptic;
    }

    /// Tokens of before are over.
    pub fn end_tokens(&self) {
        self.shared.state.lock().tokens.clear();
    }

    /// Answers everything with an error of the server's.
    pub fn away(&self, away: bool) {
        self.shared.away.store(away, Ordering::SeqCst);
    }

    /// Refuses the next requests because there were too many.
    pub fn throttle_next(&self, requests: usize) {
        self.shared.throttled.store(requests, Ordering::SeqCst);
    }

    /// Unwraps something else than what was wrapped.
    pub fn tamper(&self, tampers: bool) {
        self.shared.tampers.store(tampers, Ordering::SeqCst);
    }

    /// How often somebody got a token.
    pub fn logins(&self) -> usize {
        self.shared.logins.load(Ordering::SeqCst)
    }
}

fn word(before: &str) -> String {
    format!("{before}{:032x}", rand::random::<u128>())
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else {
        return failure(StatusCode::BAD_REQUEST, "BadParameter", "the body is incomplete");
    };
    if shared.away.load(Ordering::SeqCst) {
        return failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "try again");
    }
    let throttled = &shared.throttled;
    if throttled.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
        let mut response = failure(StatusCode::TOO_MANY_REQUESTS, "Throttled", "too many requests");
        response.headers_mut().insert("retry-after", http::HeaderValue::from_static("0"));
        return response;
    }
    if parts.method == Method::POST && parts.uri.path() == format!("/{TENANT}/oauth2/v2.0/token") {
        return of_login(&shared, &body);
    }
    of_vault(&shared, &parts, &body)
}

fn of_login(shared: &Shared, body: &[u8]) -> Response {
    let body = String::from_utf8_lossy(body);
    let field = |name: &str| {
        let found = body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        percent_decode_str(found.unwrap_or_default()).decode_utf8_lossy().into_owned()
    };
    let refused = |status, error: &str, description: &str| {
        of(status, &json!({"error": error, "error_description": description, "error_codes": [7_000_215]}))
    };
    let is_request = field("grant_type") == "client_credentials"
        && field("scope") == "https://vault.azure.net/.default"
        && field("client_id") == CLIENT;
    if !is_request {
        return refused(StatusCode::BAD_REQUEST, "invalid_request", "AADSTS900144: the request is not one");
    }
    let mut state = shared.state.lock();
    let is_federated = field("client_assertion_type")
        == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        && field("client_assertion") == state.federated;
    if !is_federated && field("client_secret") != state.secret {
        let why = "AADSTS7000215: Invalid client secret provided.";
        return refused(StatusCode::UNAUTHORIZED, "invalid_client", why);
    }
    shared.logins.fetch_add(1, Ordering::SeqCst);
    let token = word("eyJ");
    state.tokens.push(token.clone());
    of(StatusCode::OK, &json!({"token_type": "Bearer", "expires_in": 3599, "access_token": token}))
}

fn of_vault(shared: &Shared, parts: &Parts, body: &[u8]) -> Response {
    let mut state = shared.state.lock();
    let token =
        parts.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if token.is_none_or(|token| !state.tokens.iter().any(|known| known == token)) {
        return failure(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "AKV10000: Request is missing a valid Bearer token.",
        );
    }
    if parts.uri.query() != Some("api-version=7.4") {
        return failure(StatusCode::BAD_REQUEST, "BadParameter", "api-version is missing");
    }
    let kid = |version: &str| format!("https://{HOST}/keys/plural/{version}");
    let path: Vec<&str> = parts.uri.path().trim_start_matches('/').split('/').collect();
    let (version, verb) = match (&parts.method, &path[..]) {
        (&Method::GET, ["keys", "plural"]) => {
            let (version, enabled) = state.versions.last().cloned().unwrap_or_default();
            let kind = if state.is_elliptic { "EC" } else { "RSA" };
            let answer = json!({
                "key": {"kid": kid(&version), "kty": kind, "key_ops": ["wrapKey", "unwrapKey"]},
                "attributes": {"enabled": enabled},
            });
            return of(StatusCode::OK, &answer);
        }
        (&Method::POST, ["keys", "plural", version, verb]) => ((*version).to_owned(), *verb),
        _ => return failure(StatusCode::NOT_FOUND, "KeyNotFound", "A key with this name was not found."),
    };
    match state.versions.iter().find(|(known, _)| *known == version) {
        None => {
            return failure(StatusCode::NOT_FOUND, "KeyNotFound", "A key with this version was not found.");
        }
        Some((_, false)) => {
            let message = format!("Operation {verb} is not allowed on a disabled key.");
            return failure(StatusCode::FORBIDDEN, "Forbidden", &message);
        }
        Some((_, true)) => {}
    }
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let value = asked["value"].as_str().unwrap_or_default().to_owned();
    if asked["alg"] != "RSA-OAEP-256" {
        return failure(StatusCode::BAD_REQUEST, "BadParameter", "the algorithm is not supported");
    }
    match verb {
        "wrapkey" => {
            let wrapped = URL_SAFE_NO_PAD.encode([rand::random::<[u8; 32]>(); 8].concat());
            state.wrapped.insert(wrapped.clone(), (version.clone(), value));
            of(StatusCode::OK, &json!({"kid": kid(&version), "value": wrapped}))
        }
        "unwrapkey" => match state.wrapped.get(&value) {
            Some((by, clear)) if *by == version => {
                let tampered = shared.tampers.load(Ordering::SeqCst);
                let clear = if tampered { URL_SAFE_NO_PAD.encode([1; 32]) } else { clear.clone() };
                of(StatusCode::OK, &json!({"kid": kid(&version), "value": clear}))
            }
            _ => failure(StatusCode::BAD_REQUEST, "BadParameter", "The parameter is incorrect."),
        },
        _ => failure(StatusCode::NOT_FOUND, "KeyNotFound", "no such operation"),
    }
}

fn failure(status: StatusCode, code: &str, message: &str) -> Response {
    of(status, &json!({"error": {"code": code, "message": message}}))
}

fn of(status: StatusCode, answer: &Value) -> Response {
    let mut response = Response::new(Body::from(answer.to_string()));
    *response.status_mut() = status;
    response
}
