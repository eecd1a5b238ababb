//! Logins of programs under `/auth/`: a person allows one on a page. A program that shows a code asks again and again (RFC 8628); one that
//! names a page of its own on loopback when it begins (RFC 8252, pushed as RFC 9126 has it) is brought a grant by the browser.

use axum::{
    Json,
    extract::{FromRequest, Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use chrono::TimeDelta;
use plural_app::program_login::{BegunLogin, FetchedLogin, INTERVAL, Loopback};
use plural_core::access::Actor;
use plural_core::{Error, ErrorCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::{
    auth::{self, CallerPermits},
    body, html,
    http::{Api, refuse},
    sign_in::{LARGEST, PATIENCE, Sender, Visitor, failed, parsed, request_id},
};

/// How a program asks for its login.
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The same with what the browser brought it.
const CODE: &str = "authorization_code";
/// How a job asks for a token of a service account, with one of its own (RFC 8693).
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// What such a token may be called.
const EXCHANGED: [&str; 2] =
    ["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"];

fn answer(status: StatusCode, value: &Value) -> Response {
    let mut response = (status, Json(value)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What a program sends. Whoever asks, it is a program that nobody allowed anything yet.
pub(crate) struct Program {
    op: plural_app::OpCtx,
    fields: Vec<(String, String)>,
    _places: CallerPermits,
}

impl Program {
    fn field(&self, name: &str) -> &str {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }

    fn secret(&self, name: &str) -> SecretString {
        SecretString::from(self.field(name))
    }

    fn refused(&self, error: &Error) -> Response {
        refuse(error, self.op.request_id())
    }
}

impl FromRequest<Api> for Program {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let id = request_id(&parts);
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
            let told = "send application/x-www-form-urlencoded";
            let told = json!({"error": "invalid_request", "message": told});
            return Err(answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, &told));
        }
        let caller = auth::visitor(api, &parts, id).await.map_err(|response| *response)?;
        let op = api.app.ctx(Actor::Nobody).with_request_id(id).with_peer(caller.address);
        let body = body::read(body, LARGEST, PATIENCE).await.map_err(|response| *response)?;
        Ok(Self { op, fields: parsed(&body), _places: caller.places })
    }
}

/// `GET /auth/providers`
pub(crate) async fn providers(State(api): State<Api>, visitor: Result<Visitor, Response>) -> Response {
    let visitor = match visitor {
        Ok(visitor) => visitor,
        // Nobody can sign in with one.
        Err(response) if response.status() == StatusCode::FORBIDDEN => {
            return answer(StatusCode::OK, &json!({"providers": []}));
        }
        Err(response) => return response,
    };
    match api.app.sign_in_providers().await {
        Ok(providers) => answer(StatusCode::OK, &json!({"providers": providers})),
        Err(error) => refuse(&error, visitor.op.request_id()),
    }
}

/// Where a program listens, if it says so.
fn loopback(program: &Program) -> plural_core::Result<Option<Loopback>> {
    let redirect = program.field("redirect_uri");
    if redirect.is_empty() {
        return Ok(None);
    }
    if program.field("code_challenge_method") != "S256" {
        return Err(Error::invalid("code_challenge_method", "must be S256"));
    }
    Loopback::parse(redirect, program.field("code_challenge"), program.field("state")).map(Some)
}

/// `POST /auth/device/code`
pub(crate) async fn begin(State(api): State<Api>, program: Program) -> Response {
    let Some(site) = &api.site else {
        let told =
            "the console's public URL is not at https://, so no browser can sign in; log in with a password";
        return program.refused(&Error::forbidden(told));
    };
    let loopback = match loopback(&program) {
        Ok(loopback) => loopback,
        Err(error) => return program.refused(&error),
    };
    // Said back, so that a program knows that it will be brought its grant.
    let redirect = loopback.as_ref().map(|loopback| loopback.redirect.clone());
    match api.app.program_login_begin(&program.op, program.field("client_id"), loopback).await {
        Ok(BegunLogin { device, code, seconds }) => {
            let page = format!("{}/auth/device", site.origin());
            let value = json!({
                "device_code": device.expose_secret(), "user_code": code, "verification_uri": page,
                "verification_uri_complete": format!("{page}?user_code={code}"), "expires_in": seconds,
                "interval": INTERVAL, "redirect_uri": redirect,
            });
            answer(StatusCode::OK, &value)
        }
        Err(error) => program.refused(&error),
    }
}

/// `POST /auth/token`
pub(crate) async fn fetch(State(api): State<Api>, program: Program) -> Response {
    let error = |word: &str| answer(StatusCode::BAD_REQUEST, &json!({"error": word}));
    let (fetched, gone) = match program.field("grant_type") {
        DEVICE => {
            let device = program.secret("device_code");
            (api.app.program_login_fetch(&program.op, &device).await, "expired_token")
        }
        CODE => {
            let (grant, verifier) = (program.secret("code"), program.secret("code_verifier"));
            let redirect = program.field("redirect_uri");
            (api.app.program_login_redeem(&program.op, &grant, &verifier, redirect).await, "invalid_grant")
        }
        EXCHANGE => return exchange(&api, &program).await,
        _ => return error("unsupported_grant_type"),
    };
    match fetched {
        Ok(FetchedLogin::Pending) => error("authorization_pending"),
        Ok(FetchedLogin::TooOften) => error("slow_down"),
        Ok(FetchedLogin::Gone) => error(gone),
        Ok(FetchedLogin::Allowed(token)) => {
            let ends = token.token.expires_at.map(|end| (end - token.token.created_at).num_seconds());
            let value = json!({"access_token": token.text.expose_secret(), "token_type": "Bearer", "expires_in": ends});
            answer(StatusCode::OK, &value)
        }
        Err(cause) => program.refused(&cause),
    }
}

/// A token of a service account for a token that stands for it. `audience` names the account, where that is not clear.
async fn exchange(api: &Api, program: &Program) -> Response {
    let told = |word: &str, why: String| {
        answer(StatusCode::BAD_REQUEST, &json!({"error": word, "error_description": why}))
    };
    if !EXCHANGED.contains(&program.field("subject_token_type")) {
        return told(
            "invalid_request",
            format!("subject_token_type must be one of {}", EXCHANGED.join(", ")),
        );
    }
    let token = program.secret("subject_token");
    let account = Some(program.field("audience")).filter(|account| !account.is_empty());
    match api.app.federated_exchange(&program.op, &token, account).await {
        Ok(token) => {
            let ends = token.token.expires_at.map(|end| (end - token.token.created_at).num_seconds());
            let value = json!({
                "access_token": token.text.expose_secret(), "token_type": "Bearer", "expires_in": ends,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            });
            answer(StatusCode::OK, &value)
        }
        // One answer for whatever is wrong with it.
        Err(Error::Unauthenticated) => {
            told("invalid_grant", "no federated credential fits this token".to_owned())
        }
        Err(cause @ Error::Invalid { .. }) => told("invalid_target", cause.to_string()),
        Err(cause) => program.refused(&cause),
    }
}

/// Sends somebody who is not signed in to do that, and back.
fn sign_in_first(code: Option<&str>) -> Response {
    let then = match code {
        Some(code) => format!("/auth/device?user_code={code}"),
        None => "/auth/device".to_owned(),
    };
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("then", &then).finish();
    html::see_other(&format!("/auth/sign-in?{query}"))
}

/// A code as it may stand in an address.
fn code(visitor: &Visitor) -> Option<&str> {
    let plain = |code: &&str| code.len() <= 32 && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    visitor.field("user_code").filter(plain)
}

/// `GET /auth/device`
pub(crate) async fn page(State(api): State<Api>, visitor: Visitor) -> Response {
    let code = code(&visitor);
    let Actor::User(user) = &visitor.actor else { return sign_in_first(code) };
    let Some(code) = code else {
        let body = "<p>Enter the code that the program shows.</p><form method=\"get\" action=\"/auth/device\">\
                    <label for=\"user_code\">Code</label>\
                    <input id=\"user_code\" name=\"user_code\" autocomplete=\"off\" maxlength=\"20\" required>\
                    <button>Continue</button></form>";
        return html::page(StatusCode::OK, "Let a program sign in", body);
    };
    let (login, allowed) = match api.app.program_login_look(&visitor.op, code).await {
        Ok(found) => found,
        Err(error) => return unknown(&error),
    };
    let place = |address: Option<std::net::IpAddr>| {
        address.map_or_else(|| "an unknown address".to_owned(), |address| address.to_string())
    };
    let lasts = match allowed.ends {
        Some(end) if allowed.is_bound => {
            format!("until your session ends, at the latest {}", end.format("%Y-%m-%d %H:%M UTC"))
        }
        Some(end) => format!(
            "{} days, until {}",
            (end - visitor.op.now() + TimeDelta::hours(1)).num_days(),
            end.format("%Y-%m-%d %H:%M UTC")
        ),
        None => "until it is revoked".to_owned(),
    };
    let (mine, theirs) = (place(visitor.op.peer().map(plural_kit::network_of)), place(login.address));
    let warning = if mine == theirs {
        String::new()
    } else {
        "<p class=\"told\" role=\"alert\">The program is at another address than you are.</p>".to_owned()
    };
    // What listens on this machine is brought its grant here: who sent the address from elsewhere gets nothing, but the person might.
    let mark = match &login.loopback {
        Some(_) => ", on this computer".to_owned(),
        None => format!(", and if it shows this code: <strong>{}</strong>", html::escaped(code)),
    };
    let body = format!(
        "<p>A program wants to do everything that you may do. Go on only if you started it yourself just now{mark}</p>{warning}\
         <dl><dt>Program, in its own words</dt><dd>{label}</dd><dt>Asked from</dt><dd>{theirs}</dd>\
         <dt>You are at</dt><dd>{mine}</dd><dt>Asked at</dt><dd>{at}</dd><dt>It signs in as</dt><dd>{email}</dd>\
         <dt>For how long</dt><dd>{lasts}</dd></dl>\
         <form method=\"post\" action=\"/auth/device\"><input type=\"hidden\" name=\"user_code\" value=\"{code}\">\
         <button name=\"decision\" value=\"allow\">Allow it</button>\
         <button name=\"decision\" value=\"refuse\">Refuse it</button></form>",
        code = html::escaped(code),
        label = html::escaped(&login.label),
        theirs = html::escaped(&theirs),
        mine = html::escaped(&mine),
        at = login.created_at.format("%Y-%m-%d %H:%M:%S UTC"),
        email = html::escaped(&user.email),
        lasts = html::escaped(&lasts),
    );
    let title = "Let a program sign in?";
    match &login.loopback {
        Some(loopback) => html::page_to(loopback.origin(), title, &body),
        None => html::page(StatusCode::OK, title, &body),
    }
}

/// `POST /auth/device`
pub(crate) async fn decide(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let Some(code) = code(&visitor) else { return unknown(&Error::not_found("login with this code")) };
    let Actor::User(_) = &visitor.actor else { return sign_in_first(Some(code)) };
    let done = "<p>You can close this page.</p>";
    match visitor.field("decision") {
        Some("allow") => match api.app.program_login_allow(&visitor.op, code).await {
            Ok(Some(program)) => html::see_other(&program),
            Ok(None) => html::page(StatusCode::OK, "The program may sign in", done),
            Err(error) => unknown(&error),
        },
        Some("refuse") => match api.app.program_login_refuse(&visitor.op, code).await {
            Ok(Some(program)) => html::see_other(&program),
            Ok(None) => html::page(StatusCode::OK, "The program was refused", done),
            Err(error) => unknown(&error),
        },
        _ => html::told(StatusCode::BAD_REQUEST, "That did not work", "The form says neither yes nor no."),
    }
}

fn unknown(error: &Error) -> Response {
    if error.code() == ErrorCode::NotFound {
        let told = "There is no login with this code. Codes can be used once, within ten minutes; start the program again.";
        return html::told(StatusCode::NOT_FOUND, "Not found", told);
    }
    failed(error)
}
