//! What AWS KMS, STS and a container's endpoint for credentials answer, from their public descriptions: a stand-in on loopback. It recomputes
//! signatures, knows sessions that are over, and keeps what it encrypted in a table, so that nothing opens by chance.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Method, StatusCode, request::Parts};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::background::Background;

const REGION: &str = "eu-central-1";
const ACCOUNT: &str = "111122223333";
const ROLE: &str = "arn:aws:iam::111122223333:role/plural";

/// The server. Everything in it goes when it is dropped.
#[derive(Debug)]
pub struct AwsKmsServer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Account>,
    away: AtomicBool,
    throttled: AtomicUsize,
    tampers: AtomicBool,
    requests: AtomicUsize,
    logins: AtomicUsize,
}

#[derive(Debug, Default)]
struct Account {
    /// By the id of an access key.
    sessions: HashMap<String, Session>,
    web_identity: String,
    container: String,
    /// Ids of keys, and whether they are enabled. The alias leads to the last.
    keys: Vec<(String, bool)>,
    /// By ciphertext: the id of the key, the plaintext, the encryption context.
    encrypted: HashMap<String, (String, String, Value)>,
    forbids_describing: bool,
    lets_nobody_in: bool,
}

#[derive(Debug, Clone)]
struct Session {
    secret: String,
    token: Option<String>,
    is_over: bool,
}

impl AwsKmsServer {
    /// A server with one key, to which the alias `plural` leads, and the role `plural`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let state = Account {
            web_identity: format!("header.{:032x}.signature", rand::random::<u128>()),
            container: format!("token-{:032x}", rand::random::<u128>()),
            keys: vec![(key_id(), true)],
            ..Account::default()
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let background = Background::start("aws-kms-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// How a console names the key, with these options.
    pub fn place(&self, options: &str) -> String {
        let address = self.background.address();
        let options = options.replace("AT", &format!("http://{address}"));
        format!("aws-kms:{}?endpoint=http://{address}&{options}", Self::alias())
    }

    /// The options that enter by the token of a ServiceAccount in this file.
    pub fn web_identity_options(&self, file: &str) -> String {
        format!("auth=web-identity&role_arn={ROLE}&login_endpoint=AT&token_file={file}")
    }

    /// The ARN of the alias.
    pub fn alias() -> String {
        format!("arn:aws:kms:{REGION}:{ACCOUNT}:alias/plural")
    }

    /// The token of a ServiceAccount that may take the role.
    pub fn web_identity(&self) -> String {
        self.shared.state.lock().web_identity.clone()
    }

    /// The token that the container's endpoint wants to see.
    pub fn container_token(&self) -> String {
        self.shared.state.lock().container.clone()
    }

    /// Keys of a user that last: the id and the secret.
    pub fn user(&self) -> (String, String) {
        let (id, session) = session("AKIA", false);
        let secret = session.secret.clone();
        self.shared.state.lock().sessions.insert(id.clone(), session);
        (id, secret)
    }

    /// The id of the key to which the alias leads.
    pub fn key(&self) -> String {
        self.shared.state.lock().keys.last().map(|(id, _)| id.clone()).unwrap_or_default()
    }

    /// The alias leads to a new key.
    pub fn rotate(&self) {
        self.shared.state.lock().keys.push((key_id(), true));
    }

    /// Keys to which the alias does not lead any more are disabled.
    pub fn disable_old_keys(&self) {
        let mut state = self.shared.state.lock();
        let last = state.keys.len() - 1;
        for (_, enabled) in &mut state.keys[..last] {
            *enabled = false;
        }
    }

    /// The key to which the alias leads is disabled, or enabled.
    pub fn disable(&self, disabled: bool) {
        if let Some((_, enabled)) = self.shared.state.lock().keys.last_mut() {
            *enabled = !disabled;
        }
    }

    /// Sessions of before are over.
    pub fn end_sessions(&self) {
        for session in self.shared.state.lock().sessions.values_mut() {
            session.is_over = true;
        }
    }

    /// STS is away: nobody gets a session.
    pub fn let_nobody_in(&self, nobody: bool) {
        self.shared.state.lock().lets_nobody_in = nobody;
    }

    /// Its policy lets nobody describe the key.
    pub fn forbid_describing(&self, forbids: bool) {
        self.shared.state.lock().forbids_describing = forbids;
    }

    /// Answers everything with an error of the server's.
    pub fn away(&self, away: bool) {
        self.shared.away.store(away, Ordering::SeqCst);
    }

    /// Refuses the next requests because there were too many.
    pub fn throttle_next(&self, requests: usize) {
        self.shared.throttled.store(requests, Ordering::SeqCst);
    }

    /// Answers with another plaintext than what was encrypted.
    pub fn tamper(&self, tampers: bool) {
        self.shared.tampers.store(tampers, Ordering::SeqCst);
    }

    /// How often a key was used.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How often somebody got a session.
    pub fn logins(&self) -> usize {
        self.shared.logins.load(Ordering::SeqCst)
    }
}

fn key_id() -> String {
    let text = format!("{:032x}", rand::random::<u128>());
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

fn arn(id: &str) -> String {
    format!("arn:aws:kms:{REGION}:{ACCOUNT}:key/{id}")
}

fn session(prefix: &str, with_token: bool) -> (String, Session) {
    let random = || format!("{:032X}", rand::random::<u128>());
    let token = with_token.then(|| format!("session/{}+=", random()));
    (format!("{prefix}{}", &random()[..16]), Session { secret: random(), token, is_over: false })
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 1 << 20).await else {
        return failure(StatusCode::BAD_REQUEST, "SerializationException", "the body is incomplete");
    };
    match (&parts.method, parts.uri.path(), parts.headers.contains_key("x-amz-target")) {
        (&Method::GET, "/container", false) => of_container(&shared, &parts),
        (&Method::POST, "/", false) => of_sts(&shared, &parts, &body),
        (&Method::POST, "/", true) => of_kms(&shared, &parts, &body),
        _ => failure(StatusCode::NOT_FOUND, "UnknownOperationException", ""),
    }
}

fn of_container(shared: &Shared, parts: &Parts) -> Response {
    let mut state = shared.state.lock();
    if header(parts, "authorization") != Some(&state.container) {
        return of(StatusCode::UNAUTHORIZED, "text/plain", "no such token".to_owned());
    }
    shared.logins.fetch_add(1, Ordering::SeqCst);
    let (id, session) = session("ASIA", true);
    let answer = json!({
        "AccessKeyId": id, "SecretAccessKey": session.secret, "Token": session.token, "Expiration": in_an_hour(),
    });
    state.sessions.insert(id, session);
    of(StatusCode::OK, "application/json", answer.to_string())
}

fn of_sts(shared: &Shared, parts: &Parts, body: &[u8]) -> Response {
    let body = String::from_utf8_lossy(body);
    let field = |name: &str| {
        let found = body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        percent_decode_str(found.unwrap_or_default()).decode_utf8_lossy().into_owned()
    };
    let xml = |status, code: &str, message: &str| {
        let text = format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
             <Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        );
        of(status, "text/xml", text)
    };
    let mut state = shared.state.lock();
    if shared.away.load(Ordering::SeqCst) || state.lets_nobody_in {
        return xml(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "try again");
    }
    let is_form = header(parts, "content-type") == Some("application/x-www-form-urlencoded");
    let is_known =
        is_form && field("Action") == "AssumeRoleWithWebIdentity" && field("Version") == "2011-06-15";
    if !is_known || field("RoleSessionName").is_empty() {
        return xml(StatusCode::BAD_REQUEST, "InvalidAction", "no such action");
    }
    if field("WebIdentityToken") != state.web_identity {
        return xml(StatusCode::BAD_REQUEST, "ExpiredTokenException", "Token expired");
    }
    if field("RoleArn") != ROLE {
        let message = "Not authorized to perform sts:AssumeRoleWithWebIdentity";
        return xml(StatusCode::FORBIDDEN, "AccessDenied", message);
    }
    shared.logins.fetch_add(1, Ordering::SeqCst);
    let (id, session) = session("ASIA", true);
    let text = format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n\
         <AssumeRoleWithWebIdentityResult>\n<Credentials>\n<SessionToken>{}</SessionToken>\n\
         <SecretAccessKey>{}</SecretAccessKey>\n<Expiration>{}</Expiration>\n<AccessKeyId>{id}</AccessKeyId>\n\
         </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
        session.token.as_deref().unwrap_or_default(),
        session.secret,
        in_an_hour(),
    );
    state.sessions.insert(id, session);
    of(StatusCode::OK, "text/xml", text)
}

fn of_kms(shared: &Shared, parts: &Parts, body: &[u8]) -> Response {
    let bad = |kind: &str, message: &str| failure(StatusCode::BAD_REQUEST, kind, message);
    if shared.away.load(Ordering::SeqCst) {
        return failure(StatusCode::INTERNAL_SERVER_ERROR, "KMSInternalException", "try again");
    }
    let throttled = &shared.throttled;
    if throttled.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
        return bad("ThrottlingException", "Rate exceeded");
    }
    let mut state = shared.state.lock();
    if let Err((kind, message)) = check_signature(&state, parts, body) {
        return bad(kind, &message);
    }
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let named = text("KeyId");
    let found = if named == AwsKmsServer::alias() {
        state.keys.last().cloned()
    } else {
        state.keys.iter().find(|(id, _)| arn(id) == named).cloned()
    };
    let Some((id, is_enabled)) = found else {
        return bad("NotFoundException", &format!("Key '{named}' does not exist"));
    };
    let operation = header(parts, "x-amz-target").unwrap_or_default();
    if operation == "TrentService.DescribeKey" {
        if state.forbids_describing {
            return bad("AccessDeniedException", "not authorized to perform: kms:DescribeKey");
        }
        let state = if is_enabled { "Enabled" } else { "Disabled" };
        return ok(&json!({"KeyMetadata": {
            "AWSAccountId": ACCOUNT, "Arn": arn(&id), "KeyId": id, "Enabled": is_enabled, "KeyState": state,
            "KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "SYMMETRIC_DEFAULT",
        }}));
    }
    if !is_enabled {
        return bad("DisabledException", &format!("{} is disabled.", arn(&id)));
    }
    match operation {
        "TrentService.Encrypt" => {
            let blob = STANDARD.encode(rand::random::<[u8; 32]>());
            let kept = (id.clone(), text("Plaintext"), asked["EncryptionContext"].clone());
            state.encrypted.insert(blob.clone(), kept);
            ok(
                &json!({"CiphertextBlob": blob, "KeyId": arn(&id), "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}),
            )
        }
        "TrentService.Decrypt" => match state.encrypted.get(&text("CiphertextBlob")) {
            Some((by, _, _)) if *by != id => bad(
                "IncorrectKeyException",
                "The key ID in the request does not identify a CMK that can perform this operation.",
            ),
            Some((_, plaintext, context)) if *context == asked["EncryptionContext"] => {
                let plaintext = if shared.tampers.load(Ordering::SeqCst) {
                    STANDARD.encode(rand::random::<[u8; 32]>())
                } else {
                    plaintext.clone()
                };
                ok(
                    &json!({"Plaintext": plaintext, "KeyId": arn(&id), "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}),
                )
            }
            _ => failure(StatusCode::BAD_REQUEST, "InvalidCiphertextException", ""),
        },
        _ => bad("UnknownOperationException", ""),
    }
}

/// Whether the request is signed (version 4, in its header) by somebody whom it knows.
fn check_signature(state: &Account, parts: &Parts, body: &[u8]) -> Result<(), (&'static str, String)> {
    let incomplete = || ("IncompleteSignatureException", "Authorization header is incomplete".to_owned());
    let authorization = header(parts, "authorization").ok_or_else(incomplete)?;
    let authorization = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(incomplete)?;
    let part = |name: &str| {
        let found =
            authorization.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(incomplete)
    };
    let (credential, names, signature) = (part("Credential")?, part("SignedHeaders")?, part("Signature")?);
    let (id, scope) = credential.split_once('/').ok_or_else(incomplete)?;
    let unknown = || {
        ("UnrecognizedClientException", "The security token included in the request is invalid.".to_owned())
    };
    let session = state.sessions.get(id).ok_or_else(unknown)?;
    if header(parts, "x-amz-security-token") != session.token.as_deref() {
        return Err(unknown());
    }
    if session.is_over {
        return Err((
            "ExpiredTokenException",
            "The security token included in the request is expired".to_owned(),
        ));
    }
    let stamp = header(parts, "x-amz-date").ok_or_else(incomplete)?;
    if scope != format!("{}/{REGION}/kms/aws4_request", stamp.split('T').next().unwrap_or_default()) {
        return Err((
            "InvalidSignatureException",
            "Credential should be scoped to a valid region.".to_owned(),
        ));
    }
    let signed: Vec<&str> = names.split(';').collect();
    let mut needed = vec!["host", "x-amz-date", "x-amz-target"];
    needed.extend(session.token.is_some().then_some("x-amz-security-token"));
    if !signed.is_sorted() || needed.iter().any(|name| !signed.contains(name)) {
        return Err(incomplete());
    }
    let mut request =
        format!("{}\n{}\n{}\n", parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default());
    for name in &signed {
        let _ = writeln!(request, "{name}:{}", header(parts, name).ok_or_else(incomplete)?.trim());
    }
    let _ = write!(request, "\n{names}\n{}", hex::encode(Sha256::digest(body)));
    let text =
        format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(Sha256::digest(request.as_bytes())));
    let mut key = format!("AWS4{}", session.secret).into_bytes();
    for part in scope.split('/') {
        key = mac(&key, part.as_bytes());
    }
    if hex::encode(mac(&key, text.as_bytes())) == signature {
        return Ok(());
    }
    // As the real one: with the whole request, its token included.
    Err((
        "InvalidSignatureException",
        format!("The Canonical String for this request should have been\n'{request}'"),
    ))
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

fn in_an_hour() -> String {
    let time = SystemTime::now() + Duration::from_hours(1);
    let time = k8s_openapi::jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn failure(status: StatusCode, kind: &str, message: &str) -> Response {
    of(status, "application/x-amz-json-1.1", json!({"__type": kind, "message": message}).to_string())
}

fn ok(answer: &Value) -> Response {
    of(StatusCode::OK, "application/x-amz-json-1.1", answer.to_string())
}

fn of(status: StatusCode, kind: &str, text: String) -> Response {
    let response = Response::builder().status(status).header("content-type", kind).body(Body::from(text));
    response.unwrap_or_default()
}
