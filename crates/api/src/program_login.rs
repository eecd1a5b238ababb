//! Logins of programs under `/auth/`, in the shape of RFC 8628: a program shows a code, a person allows it on a page.

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use chrono::TimeDelta;
use plural_app::program_login::{BegunLogin, FetchedLogin};
use plural_core::access::Actor;
use plural_core::ids::RequestId;
use plural_core::{Error, ErrorCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::{
    auth::{self, CallerPermits},
    body, html,
    http::{Api, refuse},
    sign_in::{LARGEST, PATIENCE, Visitor, failed, parsed, sender, visitor},
};

/// Seconds between two questions of a program.
const INTERVAL: u32 = 2;
/// How a program asks for its login.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
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

/// The fields that a program sends, and its place.
async fn fields(
    api: &Api,
    request: Request,
    id: RequestId,
) -> Result<(plural_app::OpCtx, Vec<(String, String)>, CallerPermits), Box<Response>> {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        let told = json!({"error": "invalid_request", "message": "send application/x-www-form-urlencoded"});
        return Err(Box::new(answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, &told)));
    }
    let caller = auth::visitor(api, &parts, id).await?;
    // Whoever asks, it is a program that nobody allowed anything yet.
    let op = api.app.ctx(Actor::Nobody).with_request_id(id).with_peer(caller.address);
    let fields = parsed(&body::read(body, LARGEST, PATIENCE).await?);
    Ok((op, fields, caller.places))
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str()).unwrap_or_default()
}

/// `GET /auth/providers`
pub(crate) async fn providers(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let _visitor = match visitor(&api, request, id).await {
        Ok(visitor) => visitor,
        // Nobody can sign in with one.
        Err(response) if response.status() == StatusCode::FORBIDDEN => {
            return answer(StatusCode::OK, &json!({"providers": []}));
        }
        Err(response) => return *response,
    };
    match api.app.sign_in_providers().await {
        Ok(providers) => answer(StatusCode::OK, &json!({"providers": providers})),
        Err(error) => refuse(&error, id),
    }
}

/// `POST /auth/device/code`
pub(crate) async fn begin(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let (op, fields, _places) = match fields(&api, request, id).await {
        Ok(fields) => fields,
        Err(response) => return *response,
    };
    let Some(site) = &api.site else {
        let told =
            "the console's public URL is not at https://, so no browser can sign in; log in with a password";
        return refuse(&Error::forbidden(told), id);
    };
    match api.app.program_login_begin(&op, field(&fields, "client_id")).await {
        Ok(BegunLogin { device, code, seconds }) => {
            let page = format!("{}/auth/device", site.origin());
            let value = json!({
                "device_code": device.expose_secret(), "user_code": code, "verification_uri": page,
                "verification_uri_complete": format!("{page}?user_code={code}"), "expires_in": seconds,
                "interval": INTERVAL,
            });
            answer(StatusCode::OK, &value)
        }
        Err(error) => refuse(&error, id),
    }
}

/// `POST /auth/token`
pub(crate) async fn fetch(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let (op, fields, _places) = match fields(&api, request, id).await {
        Ok(fields) => fields,
        Err(response) => return *response,
    };
    let error = |word: &str| answer(StatusCode::BAD_REQUEST, &json!({"error": word}));
    match field(&fields, "grant_type") {
        GRANT => {}
        EXCHANGE => return exchange(&api, id, &op, &fields).await,
        _ => return error("unsupported_grant_type"),
    }
    let device = SecretString::from(field(&fields, "device_code"));
    match api.app.program_login_fetch(&op, &device).await {
        Ok(FetchedLogin::Pending) => error("authorization_pending"),
        Ok(FetchedLogin::Gone) => error("expired_token"),
        Ok(FetchedLogin::Allowed(token)) => {
            let ends = token.token.expires_at.map(|end| (end - token.token.created_at).num_seconds());
            let value = json!({"access_token": token.text.expose_secret(), "token_type": "Bearer", "expires_in": ends});
            answer(StatusCode::OK, &value)
        }
        Err(cause) => refuse(&cause, id),
    }
}

/// A token of a service account for a token that stands for it. `audience` names the account, where that is not clear.
async fn exchange(api: &Api, id: RequestId, op: &plural_app::OpCtx, fields: &[(String, String)]) -> Response {
    let told = |word: &str, why: String| {
        answer(StatusCode::BAD_REQUEST, &json!({"error": word, "error_description": why}))
    };
    if !EXCHANGED.contains(&field(fields, "subject_token_type")) {
        return told(
            "invalid_request",
            format!("subject_token_type must be one of {}", EXCHANGED.join(", ")),
        );
    }
    let token = SecretString::from(field(fields, "subject_token"));
    let account = Some(field(fields, "audience")).filter(|account| !account.is_empty());
    match api.app.federated_exchange(op, &token, account).await {
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
        Err(cause) => refuse(&cause, id),
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
pub(crate) async fn page(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let visitor = match visitor(&api, request, id).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
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
    let body = format!(
        "<p>A program wants to do everything that you may do. Go on only if you started it yourself just now, and if it shows \
         this code: <strong>{code}</strong></p>{warning}\
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
    html::page(StatusCode::OK, "Let a program sign in?", &body)
}

/// `POST /auth/device`
pub(crate) async fn decide(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let visitor = match sender(&api, request, id).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    let Some(code) = code(&visitor) else { return unknown(&Error::not_found("login with this code")) };
    let Actor::User(_) = &visitor.actor else { return sign_in_first(Some(code)) };
    let done = "<p>You can close this page.</p>";
    match visitor.field("decision") {
        Some("allow") => match api.app.program_login_allow(&visitor.op, code).await {
            Ok(_) => html::page(StatusCode::OK, "The program may sign in", done),
            Err(error) => unknown(&error),
        },
        Some("refuse") => match api.app.program_login_refuse(&visitor.op, code).await {
            Ok(()) => html::page(StatusCode::OK, "The program was refused", done),
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
