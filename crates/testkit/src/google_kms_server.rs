//! What Google Cloud KMS, its token endpoint and a machine's metadata service answer, from their public descriptions: a stand-in on
//! loopback. It verifies assertions and checksums, knows tokens that are over, and keeps what it encrypted in a table, so that nothing opens
//! by chance.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{Method, StatusCode, request::Parts};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::background::Background;

const KEY: &str = "projects/plural-test/locations/europe-west3/keyRings/console/cryptoKeys/plural";
const EMAIL: &str = "plural@plural-test.iam.gserviceaccount.com";
const PEM: &str = include_str!("../data/service-account.pem");

/// The server. Everything in it goes when it is dropped.
#[derive(Debug)]
pub struct GoogleKmsServer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Project>,
    away: AtomicBool,
    throttled: AtomicUsize,
    damaged: AtomicUsize,
    logins: AtomicUsize,
}

#[derive(Debug, Default)]
struct Project {
    tokens: Vec<String>,
    /// Whether each version is enabled. The last one is the primary.
    versions: Vec<bool>,
    /// By ciphertext: the version, the plaintext, the additional data.
    encrypted: HashMap<String, (usize, String, String)>,
    forbids_reading: bool,
    is_no_metadata: bool,
}

impl GoogleKmsServer {
    /// A server with one key.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let state = Project { versions: vec![true], ..Project::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let background = Background::start("google-kms-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// How a console names the key, with these options.
    pub fn place(&self, options: &str) -> String {
        let address = self.background.address();
        format!("google-kms:{KEY}?endpoint=http://{address}&login_endpoint=http://{address}&{options}")
    }

    /// How the key is named where it wraps.
    pub fn name() -> String {
        format!("google-kms:{KEY}")
    }

    /// The file of a service account that it knows; its address for tokens is one that nobody should ask.
    pub fn key_file() -> String {
        let pem = PEM.split_once("-----BEGIN").map(|(_, rest)| format!("-----BEGIN{rest}"));
        let file = json!({
            "type": "service_account", "project_id": "plural-test", "private_key_id": "1", "private_key": pem,
            "client_email": EMAIL, "token_uri": "https://evil.invalid/token",
        });
        file.to_string()
    }

    /// The number of the primary version.
    pub fn version(&self) -> String {
        self.shared.state.lock().versions.len().to_string()
    }

    /// A new primary version.
    pub fn rotate(&self) {
        self.shared.state.lock().versions.push(true);
    }

    /// Versions before the primary one are disabled.
    pub fn disable_old_versions(&self) {
        let mut state = self.shared.state.lock();
        let last = state.versions.len() - 1;
        state.versions[..last].fill(false);
    }

    /// The primary version is disabled, or enabled.
    pub fn disable(&self, disabled: bool) {
        if let Some(enabled) = self.shared.state.lock().versions.last_mut() {
            *enabled = !disabled;
        }
    }

    /// Tokens of before are over.
    pub fn end_tokens(&self) {
        self.shared.state.lock().tokens.clear();
    }

    /// Its policy lets nobody read what there is of the key.
    pub fn forbid_reading(&self, forbids: bool) {
        self.shared.state.lock().forbids_reading = forbids;
    }

    /// Something else answers at the address of the metadata service.
    pub fn be_no_metadata_service(&self, is_none: bool) {
        self.shared.state.lock().is_no_metadata = is_none;
    }

    /// Answers everything with an error of the server's.
    pub fn away(&self, away: bool) {
        self.shared.away.store(away, Ordering::SeqCst);
    }

    /// Refuses the next requests because there were too many.
    pub fn throttle_next(&self, requests: usize) {
        self.shared.throttled.store(requests, Ordering::SeqCst);
    }

    /// The next answers arrive with another content than they were sent with.
    pub fn damage_next(&self, answers: usize) {
        self.shared.damaged.store(answers, Ordering::SeqCst);
    }

    /// How often somebody got a token.
    pub fn logins(&self) -> usize {
        self.shared.logins.load(Ordering::SeqCst)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else {
        return failure(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", "the body is incomplete");
    };
    if shared.away.load(Ordering::SeqCst) {
        return failure(
            StatusCode::SERVICE_UNAVAILABLE,
            "UNAVAILABLE",
            "The service is currently unavailable.",
        );
    }
    if take(&shared.throttled) {
        return failure(StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", "Quota exceeded");
    }
    match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/token") => of_assertion(&shared, &body),
        (&Method::GET, "/computeMetadata/v1/instance/service-accounts/default/token") => {
            of_metadata(&shared, &parts)
        }
        _ => of_kms(&shared, &parts, &body),
    }
}

fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn new_token(shared: &Shared) -> Value {
    shared.logins.fetch_add(1, Ordering::SeqCst);
    let token = format!("ya29.{:032x}", rand::random::<u128>());
    shared.state.lock().tokens.push(token.clone());
    json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"})
}

fn of_metadata(shared: &Shared, parts: &Parts) -> Response {
    if parts.headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
        return of(StatusCode::FORBIDDEN, &json!({"error": "Missing Metadata-Flavor:Google header"}));
    }
    let mut response = of(StatusCode::OK, &new_token(shared));
    if !shared.state.lock().is_no_metadata {
        response.headers_mut().insert("metadata-flavor", http::HeaderValue::from_static("Google"));
    }
    response
}

fn of_assertion(shared: &Shared, body: &[u8]) -> Response {
    let body = String::from_utf8_lossy(body);
    let field = |name: &str| {
        let found = body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        percent_decode_str(found.unwrap_or_default()).decode_utf8_lossy().into_owned()
    };
    let is_grant = field("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer";
    match check_assertion(&field("assertion")) {
        Some(()) if is_grant => of(StatusCode::OK, &new_token(shared)),
        _ => {
            let answer = json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."});
            of(StatusCode::BAD_REQUEST, &answer)
        }
    }
}

fn check_assertion(assertion: &str) -> Option<()> {
    let (text, signature) = assertion.rsplit_once('.')?;
    let (header, claims) = text.split_once('.')?;
    let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let (header, claims) = (json(header)?, json(claims)?);
    let der = PrivatePkcs8KeyDer::from_pem_slice(PEM.as_bytes()).ok()?;
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()?;
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref().to_vec());
    key.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let (from, to) = (claims["iat"].as_u64()?, claims["exp"].as_u64()?);
    let is_now = from <= now + 60 && now < to && to - from <= 3600;
    let is_for_us = claims["aud"] == "https://oauth2.googleapis.com/token"
        && claims["iss"] == EMAIL
        && claims["scope"] == "https://www.googleapis.com/auth/cloudkms";
    let is_known = header["alg"] == "RS256" && header["kid"] == "1";
    (is_now && is_for_us && is_known).then_some(())
}

fn of_kms(shared: &Shared, parts: &Parts, body: &[u8]) -> Response {
    let mut state = shared.state.lock();
    let token =
        parts.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if token.is_none_or(|token| !state.tokens.iter().any(|known| known == token)) {
        let message = "Request had invalid authentication credentials.";
        return failure(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message);
    }
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let path = parts.uri.path().strip_prefix("/v1/").unwrap_or_default();
    let verb = path.strip_prefix(KEY);
    let version = |number: usize| format!("{KEY}/cryptoKeyVersions/{}", number + 1);
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let primary = state.versions.len() - 1;
    let not_enabled = |number: usize| {
        let message = format!("{} is not enabled, current state is: DISABLED.", version(number));
        failure(StatusCode::BAD_REQUEST, "FAILED_PRECONDITION", &message)
    };
    let is_intact = |name: &str| {
        let bytes = STANDARD.decode(text(name)).unwrap_or_default();
        text(&format!("{name}Crc32c")) == crc32c(&bytes).to_string()
    };
    match (&parts.method, verb) {
        (&Method::GET, Some("")) if state.forbids_reading => {
            failure(StatusCode::FORBIDDEN, "PERMISSION_DENIED", "Permission 'cloudkms.cryptoKeys.get' denied")
        }
        (&Method::GET, Some("")) => {
            let state = if state.versions[primary] { "ENABLED" } else { "DISABLED" };
            of(
                StatusCode::OK,
                &json!({"name": KEY, "purpose": "ENCRYPT_DECRYPT", "primary": {"name": version(primary), "state": state}}),
            )
        }
        (&Method::POST, Some(":encrypt")) => {
            if !is_intact("plaintext") || !is_intact("additionalAuthenticatedData") {
                return failure(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", "The checksum does not match.");
            }
            if !state.versions[primary] {
                return not_enabled(primary);
            }
            let bytes = rand::random::<[u8; 32]>();
            let ciphertext = STANDARD.encode(bytes);
            let kept = (primary, text("plaintext"), text("additionalAuthenticatedData"));
            state.encrypted.insert(ciphertext.clone(), kept);
            let checksum = crc32c(&bytes) ^ u32::from(take(&shared.damaged));
            of(
                StatusCode::OK,
                &json!({
                    "name": version(primary), "ciphertext": ciphertext, "ciphertextCrc32c": checksum.to_string(),
                    "verifiedPlaintextCrc32c": true, "verifiedAdditionalAuthenticatedDataCrc32c": true,
                    "protectionLevel": "SOFTWARE",
                }),
            )
        }
        (&Method::POST, Some(":decrypt")) => {
            if !is_intact("ciphertext") || !is_intact("additionalAuthenticatedData") {
                return failure(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", "The checksum does not match.");
            }
            match state.encrypted.get(&text("ciphertext")) {
                Some((number, _, _)) if !state.versions[*number] => not_enabled(*number),
                Some((number, plaintext, data)) if *data == text("additionalAuthenticatedData") => {
                    let mut bytes = STANDARD.decode(plaintext).unwrap_or_default();
                    let checksum = crc32c(&bytes).to_string();
                    if take(&shared.damaged) {
                        bytes.fill(1);
                    }
                    of(
                        StatusCode::OK,
                        &json!({
                            "plaintext": STANDARD.encode(&bytes), "plaintextCrc32c": checksum,
                            "usedPrimary": *number == primary, "protectionLevel": "SOFTWARE",
                        }),
                    )
                }
                _ => failure(
                    StatusCode::BAD_REQUEST,
                    "INVALID_ARGUMENT",
                    "Decryption failed: the ciphertext is invalid.",
                ),
            }
        }
        _ => failure(StatusCode::NOT_FOUND, "NOT_FOUND", "CryptoKey not found."),
    }
}

/// Bit by bit, as the polynomial says: whoever asks uses a table of a library.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

fn failure(status: StatusCode, kind: &str, message: &str) -> Response {
    of(status, &json!({"error": {"code": status.as_u16(), "message": message, "status": kind}}))
}

fn of(status: StatusCode, answer: &Value) -> Response {
    let mut response = Response::new(Body::from(answer.to_string()));
    *response.status_mut() = status;
    response
}
