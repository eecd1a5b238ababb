//! Stands in for Vault and OpenBao, written from their public descriptions: login by the Kubernetes auth method, policies of roles,
//! the KV engine in both versions, a seal, and bad days.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::{Api, api::PostParams};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::background::Background;

/// Who may log in as a role, and what it reads.
#[derive(Debug, Clone)]
pub struct VaultRole {
    /// Namespace and name of the ServiceAccount.
    pub account: (String, String),
    /// For whom its token has to be made.
    pub audience: String,
    /// Beginnings of the paths that its policy reads, as the API names them (`secret/data/shop/`).
    pub reads: Vec<String>,
    /// Seconds that a login lasts.
    pub lasts: u64,
}

/// How it behaves from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultMood {
    /// Well.
    Well,
    /// It is sealed.
    Sealed,
    /// It answers everything with this status and no sense.
    Failing(u16),
    /// It sends everybody to another address.
    Redirecting,
}

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultSeen {
    /// Path.
    pub path: String,
    /// Who logged in, or whose token it is: a user of Kubernetes.
    pub user: Option<String>,
    /// Status of the answer.
    pub status: u16,
}

/// A version of a secret; nothing where it was deleted.
type Version = Option<Map<String, Value>>;

#[derive(Debug, Default)]
struct Inner {
    roles: BTreeMap<String, VaultRole>,
    /// Versions of KV by mount.
    mounts: BTreeMap<String, u8>,
    secrets: BTreeMap<String, Vec<Version>>,
    /// Role and user of each token.
    tokens: BTreeMap<String, (String, String)>,
    seen: Vec<VaultSeen>,
    mood: Option<VaultMood>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    kubeconfig: std::path::PathBuf,
}

/// A Vault. Stops on drop.
#[derive(Debug)]
pub struct VaultServer {
    background: Background,
    shared: Arc<Shared>,
}

impl VaultServer {
    /// One that asks the API server of this kubeconfig about tokens, with a versioned engine at `secret` and one without versions at
    /// `kv`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(kubeconfig: &Path) -> anyhow::Result<Self> {
        let mounts = [("secret/".to_owned(), 2), ("kv/".to_owned(), 1), ("pki/".to_owned(), 0)].into();
        let inner = Mutex::new(Inner { mounts, ..Inner::default() });
        let shared = Arc::new(Shared { inner, kubeconfig: kubeconfig.to_owned() });
        let router = Router::new()
            .route("/v1/auth/kubernetes/login", post(login))
            .route("/v1/auth/token/lookup-self", get(lookup))
            .route("/v1/sys/internal/ui/mounts/{*path}", get(mount))
            .route("/v1/{*path}", get(read))
            .with_state(Arc::clone(&shared));
        let background = Background::start("vault", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.background.address())
    }

    /// There is a role of this name from now on.
    pub fn set_role(&self, name: &str, role: VaultRole) {
        self.shared.inner.lock().roles.insert(name.to_owned(), role);
    }

    /// A secret has this content from now on: a new version, where its engine keeps them.
    pub fn put(&self, path: &str, data: &Value) {
        let data = data.as_object().cloned();
        self.shared.inner.lock().secrets.entry(path.to_owned()).or_default().push(data);
    }

    /// The newest version of a secret is deleted.
    pub fn delete(&self, path: &str) {
        if let Some(last) = self.shared.inner.lock().secrets.get_mut(path).and_then(|all| all.last_mut()) {
            *last = None;
        }
    }

    /// All logins end.
    pub fn revoke_logins(&self) {
        self.shared.inner.lock().tokens.clear();
    }

    /// Behave so from now on.
    pub fn set_mood(&self, mood: VaultMood) {
        self.shared.inner.lock().mood = Some(mood);
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<VaultSeen> {
        self.shared.inner.lock().seen.clone()
    }

    /// Users of Kubernetes that logged in.
    pub fn users(&self) -> BTreeSet<String> {
        let inner = self.shared.inner.lock();
        inner.seen.iter().filter_map(|seen| seen.user.clone()).collect()
    }
}

fn errors(status: u16, texts: &[&str]) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(json!({"errors": texts}))).into_response()
}

/// What a bad day answers.
fn mood(shared: &Shared) -> Option<Response> {
    match shared.inner.lock().mood.unwrap_or(VaultMood::Well) {
        VaultMood::Well => None,
        VaultMood::Sealed => Some(errors(503, &["Vault is sealed"])),
        VaultMood::Failing(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Some((status, "<html>").into_response())
        }
        VaultMood::Redirecting => Some(
            (StatusCode::TEMPORARY_REDIRECT, [("location", "http://127.0.0.1:1/v1/steal")]).into_response(),
        ),
    }
}

fn note(shared: &Shared, path: &str, user: Option<String>, answer: Response) -> Response {
    let seen = VaultSeen { path: path.to_owned(), user, status: answer.status().as_u16() };
    shared.inner.lock().seen.push(seen);
    answer
}

async fn login(State(shared): State<Arc<Shared>>, Json(asked): Json<Value>) -> Response {
    let path = "auth/kubernetes/login";
    if let Some(answer) = mood(&shared) {
        return note(&shared, path, None, answer);
    }
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let (name, jwt) = (text("role"), text("jwt"));
    let Some(role) = shared.inner.lock().roles.get(&name).cloned() else {
        let told = format!("invalid role name {name:?}");
        return note(&shared, path, None, errors(400, &[&told]));
    };
    let user = match review(&shared, &jwt, &role.audience).await {
        Ok(Some(user)) => user,
        Ok(None) => return note(&shared, path, None, errors(403, &["permission denied"])),
        Err(error) => return note(&shared, path, None, errors(500, &[&error.to_string()])),
    };
    let (namespace, account) = &role.account;
    if user != format!("system:serviceaccount:{namespace}:{account}") {
        return note(&shared, path, Some(user), errors(403, &["service account name not authorized"]));
    }
    let token = format!("hvs.{:032x}", rand::random::<u128>());
    shared.inner.lock().tokens.insert(token.clone(), (name, user.clone()));
    let auth = json!({"client_token": token, "lease_duration": role.lasts, "renewable": true});
    note(&shared, path, Some(user), Json(json!({"auth": auth})).into_response())
}

/// Whose token it is, as the API server says.
async fn review(shared: &Shared, jwt: &str, audience: &str) -> anyhow::Result<Option<String>> {
    let reviews: Api<TokenReview> = Api::all(crate::real::client(&shared.kubeconfig).await?);
    let spec = TokenReviewSpec { token: jwt.to_owned(), audiences: Some(vec![audience.to_owned()]) };
    let asked = TokenReview { spec, ..TokenReview::default() };
    let status = reviews.create(&PostParams::default(), &asked).await?.status.unwrap_or_default();
    let meant = status.audiences.unwrap_or_default().iter().any(|meant| meant == audience);
    let user = status.user.and_then(|user| user.username);
    Ok(user.filter(|_| status.authenticated == Some(true) && meant))
}

/// The role and user of a request's token.
fn entered(shared: &Shared, headers: &HeaderMap) -> Option<(VaultRole, String)> {
    let token = headers.get("x-vault-token")?.to_str().ok()?;
    let inner = shared.inner.lock();
    let (role, user) = inner.tokens.get(token)?;
    Some((inner.roles.get(role)?.clone(), user.clone()))
}

async fn lookup(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let path = "auth/token/lookup-self";
    if let Some(answer) = mood(&shared) {
        return note(&shared, path, None, answer);
    }
    match entered(&shared, &headers) {
        Some((_, user)) => note(&shared, path, Some(user), Json(json!({"data": {}})).into_response()),
        None => note(&shared, path, None, errors(403, &["permission denied"])),
    }
}

async fn mount(
    State(shared): State<Arc<Shared>>,
    UrlPath(path): UrlPath<String>,
    headers: HeaderMap,
) -> Response {
    let shown = format!("sys/internal/ui/mounts/{path}");
    if let Some(answer) = mood(&shared) {
        return note(&shared, &shown, None, answer);
    }
    let Some((role, user)) = entered(&shared, &headers) else {
        return note(&shared, &shown, None, errors(403, &["permission denied"]));
    };
    let found = {
        let inner = shared.inner.lock();
        let found = inner.mounts.iter().find(|(mount, _)| path.starts_with(mount.as_str()));
        found.map(|(mount, version)| (mount.clone(), *version))
    };
    let answer = match found {
        Some((mount, version)) if role.reads.iter().any(|read| read.starts_with(&mount)) => {
            let kind = if version == 0 { "pki" } else { "kv" };
            let options = (version > 0).then(|| json!({"version": version.to_string()}));
            Json(json!({"data": {"path": mount, "type": kind, "options": options}})).into_response()
        }
        Some(_) | None => errors(
            403,
            &["preflight capability check returned 403, please ensure client's policies grant access"],
        ),
    };
    note(&shared, &shown, Some(user), answer)
}

async fn read(
    State(shared): State<Arc<Shared>>,
    UrlPath(path): UrlPath<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(answer) = mood(&shared) {
        return note(&shared, &path, None, answer);
    }
    let Some((role, user)) = entered(&shared, &headers) else {
        return note(&shared, &path, None, errors(403, &["permission denied"]));
    };
    if !role.reads.iter().any(|read| path.starts_with(read.as_str())) {
        return note(&shared, &path, Some(user), errors(403, &["1 error occurred: permission denied"]));
    }
    // The API of the versioned engine has "data" behind the mount.
    let (name, versioned) = match path.strip_prefix("secret/data/") {
        Some(rest) => (format!("secret/{rest}"), true),
        None => (path.clone(), false),
    };
    let found = {
        let inner = shared.inner.lock();
        inner.secrets.get(&name).map(|all| (all.len(), all.last().cloned().flatten()))
    };
    let answer = match (found, versioned) {
        (Some((_, Some(data))), false) => {
            Json(json!({"data": data, "lease_duration": 2_764_800})).into_response()
        }
        (Some((version, Some(data))), true) => {
            Json(json!({"data": {"data": data, "metadata": {"version": version}}})).into_response()
        }
        (Some((version, None)), true) => {
            let metadata = json!({"version": version, "deletion_time": "2026-01-01T00:00:00Z"});
            let body = json!({"data": {"data": null, "metadata": metadata}});
            (StatusCode::NOT_FOUND, Json(body)).into_response()
        }
        (Some((_, None)), false) | (None, _) => errors(404, &[]),
    };
    note(&shared, &path, Some(user), answer)
}
