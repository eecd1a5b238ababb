//! An OpenID Connect provider that says whatever a test has it say: honest as it starts, and as dishonest as it is told to be.
//!
//! Whoever is sent to it is signed in at once. Codes count once and only with their verifier, refresh tokens count once, and ID
//! tokens are signed with a key of its own, all of that unless a test decides otherwise.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use p256::ecdsa::{Signature, SigningKey, signature::Signer as _};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::background::Background;

/// What the console is known as.
pub const CLIENT_ID: &str = "plural";
/// What proves that it is the console.
pub const CLIENT_SECRET: &str = "a secret of the console";

/// How ID tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// With the published key.
    Well,
    /// Not at all: `alg` is `none`.
    Not,
    /// With another key, under the published one's id.
    ByAnother,
    /// As HS256, with the client secret.
    WithClientSecret,
    /// As HS256, with the published key taken for a secret.
    WithPublicKey,
}

/// What becomes of refresh tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// None are given.
    None,
    /// Each is good once, and gives the next one.
    Rotates,
    /// `invalid_grant`, as for somebody who was removed.
    Refused,
    /// The token endpoint answers 500.
    Broken,
}

/// How it behaves from now on.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Put over the claims of each ID token; null removes one.
    pub claims: Map<String, Value>,
    /// Put over its header.
    pub header: Map<String, Value>,
    /// How it is signed.
    pub signed: Signed,
    /// Refresh tokens.
    pub renewal: Renewal,
    /// Put over its description.
    pub description: Map<String, Value>,
    /// The `iss` that a browser comes back with.
    pub answers_as: Option<String>,
    /// Codes are good as often as they are shown.
    pub codes_last: bool,
    /// The token endpoint answers with a redirect to this address.
    pub redirects_to: Option<String>,
    /// Bytes of blanks behind each answer of the token endpoint.
    pub padding: usize,
    /// Where it stops after it took a refresh token, before it gives the next one.
    pub halt: Option<Arc<Halt>>,
}

/// A place where it waits for the test.
#[derive(Debug, Default)]
pub struct Halt {
    /// Notified when it came there.
    pub came: Notify,
    /// It goes on when this is notified.
    pub goes: Notify,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            claims: Map::new(),
            header: Map::new(),
            signed: Signed::Well,
            renewal: Renewal::Rotates,
            description: Map::new(),
            answers_as: None,
            codes_last: false,
            redirects_to: None,
            padding: 0,
            halt: None,
        }
    }
}

/// A running provider. Stops on drop.
#[derive(Debug)]
pub struct FakeIssuer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    behaviour: Mutex<Behaviour>,
    key: SigningKey,
    other: SigningKey,
    codes: Mutex<HashMap<String, Code>>,
    refresh: Mutex<HashMap<String, String>>,
    requests: Mutex<Vec<String>>,
    url: Mutex<String>,
}

#[derive(Debug, Clone)]
struct Code {
    nonce: String,
    challenge: String,
    redirect: String,
}

impl FakeIssuer {
    /// An honest provider of one user, `ada@example.com`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let key = |byte: u8| SigningKey::from_slice(&[byte; 32]).map_err(|error| anyhow::anyhow!("{error}"));
        let shared = Arc::new(Shared {
            behaviour: Mutex::default(),
            key: key(7)?,
            other: key(9)?,
            codes: Mutex::default(),
            refresh: Mutex::default(),
            requests: Mutex::default(),
            url: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(description))
            .route("/jwks", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&shared));
        let background = Background::start("fake-issuer", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        *shared.url.lock() = format!("http://{}", background.address());
        Ok(Self { background, shared })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.background.address())
    }

    /// Behave so from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock() = behaviour;
    }

    /// Be honest, and say these claims from now on.
    pub fn say(&self, claims: &Value) {
        let claims = claims.as_object().cloned().unwrap_or_default();
        self.behave(Behaviour { claims, ..Behaviour::default() });
    }

    /// A token as it says and signs them now, for whoever does not sign in: the job of a CI system.
    pub fn token(&self) -> String {
        id_token(&self.shared, &self.shared.behaviour.lock().clone(), None)
    }

    /// The key that it publishes, as a key set.
    pub fn keys(&self) -> Value {
        key_set(&self.shared.key)
    }

    /// The key of [`Signed::ByAnother`], as a key set that calls it the same.
    pub fn keys_of_another(&self) -> Value {
        key_set(&self.shared.other)
    }

    /// Requests so far, by endpoint.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().clone()
    }
}

fn over(base: Value, changes: &Map<String, Value>) -> Value {
    let Value::Object(mut object) = base else { return Value::Null };
    for (name, value) in changes {
        if value.is_null() {
            object.remove(name);
        } else {
            object.insert(name.clone(), value.clone());
        }
    }
    Value::Object(object)
}

fn random_word() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

async fn description(State(shared): State<Arc<Shared>>) -> Json<Value> {
    shared.requests.lock().push("description".into());
    let url = shared.url.lock().clone();
    let base = json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/jwks"),
        "end_session_endpoint": format!("{url}/end"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
    });
    let changes = shared.behaviour.lock().description.clone();
    Json(over(base, &changes))
}

fn public_key(key: &SigningKey) -> (String, String) {
    let point = key.verifying_key().to_sec1_point(false);
    let coordinate = |bytes: Option<&[u8]>| URL_SAFE_NO_PAD.encode(bytes.unwrap_or_default());
    (coordinate(point.x().map(|x| &x[..])), coordinate(point.y().map(|y| &y[..])))
}

async fn keys(State(shared): State<Arc<Shared>>) -> Json<Value> {
    shared.requests.lock().push("keys".into());
    Json(key_set(&shared.key))
}

fn key_set(key: &SigningKey) -> Value {
    let (x, y) = public_key(key);
    json!({"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1", "x": x, "y": y}]})
}

/// Signs whoever comes in, and sends them back.
async fn authorize(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Response {
    shared.requests.lock().push("authorize".into());
    let field = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let good = field("response_type") == "code"
        && field("client_id") == CLIENT_ID
        && field("code_challenge_method") == "S256"
        && field("scope").split(' ').any(|scope| scope == "openid");
    if !good {
        return (StatusCode::BAD_REQUEST, format!("{asked:?}")).into_response();
    }
    let (code, redirect) = (random_word(), field("redirect_uri"));
    let kept = Code { nonce: field("nonce"), challenge: field("code_challenge"), redirect: redirect.clone() };
    shared.codes.lock().insert(code.clone(), kept);
    let mut target = format!("{redirect}?code={code}&state={}", field("state"));
    if let Some(issuer) = &shared.behaviour.lock().answers_as {
        target.push_str("&iss=");
        target.push_str(issuer);
    }
    (StatusCode::SEE_OTHER, [(header::LOCATION, target)]).into_response()
}

fn refused(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response()
}

async fn token(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response {
    let behaviour = shared.behaviour.lock().clone();
    let given: BTreeMap<String, String> = reqwest::Url::parse(&format!("http://form/?{body}"))
        .map(|url| url.query_pairs().into_owned().collect())
        .unwrap_or_default();
    let field = |name: &str| given.get(name).cloned().unwrap_or_default();
    shared.requests.lock().push(format!("token {}", field("grant_type")));
    if let Some(target) = behaviour.redirects_to {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response();
    }
    let encoded: String = CLIENT_SECRET.replace(' ', "+");
    let expected = format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{encoded}")));
    if headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) != Some(expected.as_str()) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "invalid_client"}))).into_response();
    }
    if field("grant_type") == "refresh_token" {
        return match behaviour.renewal {
            Renewal::Broken => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Renewal::Refused | Renewal::None => refused("invalid_grant"),
            Renewal::Rotates => {
                let known = shared.refresh.lock().remove(&field("refresh_token"));
                if let Some(halt) = &behaviour.halt {
                    halt.came.notify_one();
                    halt.goes.notified().await;
                }
                if known.is_none() { refused("invalid_grant") } else { tokens(&shared, &behaviour, None) }
            }
        };
    }
    let code = field("code");
    let found = {
        let mut codes = shared.codes.lock();
        if behaviour.codes_last { codes.get(&code).cloned() } else { codes.remove(&code) }
    };
    let Some(kept) = found else { return refused("invalid_grant") };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier").as_bytes()));
    if challenge != kept.challenge || field("redirect_uri") != kept.redirect {
        return refused("invalid_grant");
    }
    tokens(&shared, &behaviour, Some(&kept.nonce))
}

fn tokens(shared: &Arc<Shared>, behaviour: &Behaviour, nonce: Option<&str>) -> Response {
    let mut answer = json!({"access_token": random_word(), "token_type": "Bearer", "expires_in": 300});
    answer["id_token"] = id_token(shared, behaviour, nonce).into();
    if behaviour.renewal != Renewal::None {
        let refresh = random_word();
        shared.refresh.lock().insert(refresh.clone(), String::new());
        answer["refresh_token"] = refresh.into();
    }
    let text = format!("{answer}{}", " ".repeat(behaviour.padding));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn id_token(shared: &Arc<Shared>, behaviour: &Behaviour, nonce: Option<&str>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut claims = json!({
        "iss": shared.url.lock().clone(), "aud": CLIENT_ID, "sub": "ada", "iat": now, "exp": now + 300,
        "email": "ada@example.com", "email_verified": true, "name": "Ada Lovelace",
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = nonce.into();
    }
    let claims = over(claims, &behaviour.claims);
    let algorithm = match behaviour.signed {
        Signed::Well | Signed::ByAnother => "ES256",
        Signed::Not => "none",
        Signed::WithClientSecret | Signed::WithPublicKey => "HS256",
    };
    let head = over(json!({"alg": algorithm, "kid": "1", "typ": "JWT"}), &behaviour.header);
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&head), encode(&claims));
    let elliptic = |key: &SigningKey| {
        let signature: Signature = key.sign(text.as_bytes());
        signature.to_bytes().to_vec()
    };
    let secret = |key: &[u8]| {
        // A key of any length is one.
        Hmac::<Sha256>::new_from_slice(key)
            .map(|mac| mac.chain_update(&text).finalize().into_bytes().to_vec())
            .unwrap_or_default()
    };
    let signature = match behaviour.signed {
        Signed::Well => elliptic(&shared.key),
        Signed::ByAnother => elliptic(&shared.other),
        Signed::Not => Vec::new(),
        Signed::WithClientSecret => secret(CLIENT_SECRET.as_bytes()),
        Signed::WithPublicKey => secret(shared.key.verifying_key().to_sec1_point(false).as_bytes()),
    };
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}
