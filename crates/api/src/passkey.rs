//! The pages under `/auth/` with which people sign in with passkeys, add and remove them.

use std::fmt::Write as _;

use axum::{
    Json,
    extract::State,
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, SET_COOKIE},
    },
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, Utc};
use plural_app::passkey::BegunPasskey;
use plural_core::access::Actor;
use plural_core::ids::PasskeyId;
use plural_core::specs::Name;
use plural_core::{Error, ErrorCode};
use secrecy::SecretString;
use serde_json::json;

use crate::{
    html,
    http::Api,
    sign_in::{Sender, Visitor, failed, opened, sign_in_page},
    site::{Cookie, Site},
};

/// Seconds that a browser may take to answer.
const CHALLENGE_SECONDS: i64 = 300;
/// Where somebody signs in again who is signed in.
const AGAIN: &str = "/auth/sign-in?again=yes&amp;then=%2Fauth%2Fpasskeys";

/// The form with which somebody signs in; hidden where the browser has no passkeys, or no script.
pub(crate) fn sign_in_form(then: Option<&str>) -> String {
    let then = then.map_or_else(String::new, |then| {
        format!("<input type=\"hidden\" name=\"then\" value=\"{}\">", html::escaped(then))
    });
    format!(
        "<form method=\"post\" action=\"/auth/sign-in/passkey\" data-passkey=\"get\" \
         data-challenge=\"/auth/sign-in/challenge\" hidden>{then}<input type=\"hidden\" name=\"answer\">\
         <button>Sign in with a passkey</button><p class=\"told\" role=\"alert\" hidden></p></form>"
    )
}

/// What a script is told.
pub(crate) fn asked(site: &Site, begun: plural_core::Result<BegunPasskey>) -> Response {
    let cookie = begun.and_then(|BegunPasskey { options, cookie }| {
        Ok((site.set(Cookie::Passkey, &cookie, CHALLENGE_SECONDS)?, options))
    });
    let mut response = match cookie {
        Ok((cookie, options)) => {
            let mut response = Json(options).into_response();
            response.headers_mut().insert(SET_COOKIE, cookie);
            response
        }
        Err(error) => {
            let status = StatusCode::from_u16(error.code().http_status());
            let told = if error.code() == ErrorCode::Internal {
                tracing::error!(error = error.log_text(), "a challenge could not be made");
                "Something went wrong here. Retry; the console's log says more.".to_owned()
            } else {
                error.to_string()
            };
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(json!({"message": told})))
                .into_response()
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The challenge that a browser brings back.
pub(crate) fn kept(visitor: &Visitor) -> &str {
    visitor.site.read(&visitor.headers, Cookie::Passkey).ok().flatten().unwrap_or_default()
}

/// The same answer, after which the browser keeps no challenge.
pub(crate) fn forgotten(site: &Site, mut response: Response) -> Response {
    if let Ok(cookie) = site.set(Cookie::Passkey, "", 0) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// `POST /auth/sign-in/challenge`
pub(crate) async fn sign_in_challenge(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    asked(&visitor.site, api.app.passkey_sign_in_begin(&visitor.op, visitor.site.origin()).await)
}

/// `POST /auth/sign-in/passkey`
pub(crate) async fn sign_in(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let then = visitor.then();
    let nobody =
        api.app.ctx(Actor::Nobody).with_request_id(visitor.op.request_id()).with_peer(visitor.op.peer());
    let answer = visitor.field("answer").unwrap_or_default();
    let origin = visitor.site.origin();
    let signed_in = api.app.passkey_sign_in_finish(&nobody, origin, kept(&visitor), answer).await;
    let response = match signed_in {
        Ok(session) => opened(&visitor.site, &session, then),
        Err(Error::Unauthenticated) => {
            let told = "This passkey signs nobody in here: it was removed, it is of another console, or it took too long. Try \
                        again, or sign in in another way.";
            sign_in_page(&api, then, Some(told), StatusCode::UNAUTHORIZED).await
        }
        Err(error) => failed(&error),
    };
    forgotten(&visitor.site, response)
}

/// `GET /auth/passkeys`
pub(crate) async fn page(State(api): State<Api>, visitor: Visitor) -> Response {
    passkeys_page(&api, &visitor, None, StatusCode::OK).await
}

async fn passkeys_page(api: &Api, visitor: &Visitor, problem: Option<&str>, status: StatusCode) -> Response {
    let Actor::User(user) = &visitor.actor else {
        return html::see_other("/auth/sign-in?then=%2Fauth%2Fpasskeys");
    };
    let passkeys = match api.app.passkeys(&visitor.op, None).await {
        Ok(passkeys) => passkeys,
        Err(error) => return failed(&error),
    };
    let mut text = String::new();
    if let Some(problem) = problem {
        let _ = write!(text, "<p class=\"told\" role=\"alert\">{}</p>", html::escaped(problem));
    }
    let _ = write!(
        text,
        "<p>A passkey signs you in as <strong>{}</strong> without password and code. Your device holds it, and asks for your \
         fingerprint, face or PIN.</p>",
        html::escaped(&user.email)
    );
    if passkeys.is_empty() {
        text.push_str("<p>You have none.</p>");
    }
    let day = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M UTC").to_string();
    for passkey in passkeys {
        let used = passkey
            .last_used_at
            .map_or_else(|| "never used".to_owned(), |at| format!("last used {}", day(at)));
        let _ = write!(
            text,
            "<dl><dt>{name}</dt><dd>added {added}, {used}</dd></dl>\
             <form method=\"post\" action=\"/auth/passkeys/delete\"><input type=\"hidden\" name=\"id\" value=\"{id}\">\
             <button>Remove {name}</button></form>",
            name = html::escaped(passkey.name.as_str()),
            added = day(passkey.created_at),
            id = passkey.id,
        );
    }
    if api.app.passkeys_work(visitor.site.origin()) {
        let _ = write!(
            text,
            "<form method=\"post\" action=\"/auth/passkeys\" data-passkey=\"create\" \
             data-challenge=\"/auth/passkeys/challenge\" hidden><h2>Add a passkey</h2>\
             <label for=\"name\">Name, for you to tell it from others</label>\
             <input id=\"name\" name=\"name\" maxlength=\"60\" required>\
             <label for=\"password\">Your password, if you signed in more than ten minutes ago; \
             or <a href=\"{AGAIN}\">sign in again</a></label>\
             <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\">\
             <label for=\"code\">With the password: code of your authenticator app, if you have one</label>\
             <input id=\"code\" name=\"code\" autocomplete=\"one-time-code\" maxlength=\"40\">\
             <input type=\"hidden\" name=\"answer\"><button>Add a passkey</button>\
             <p class=\"told\" role=\"alert\" hidden></p></form>\
             <noscript><p>To add one, allow scripts of this page.</p></noscript>"
        );
    } else {
        text.push_str("<p>Passkeys belong to a host name, and this console's address has none.</p>");
    }
    text.push_str("<p><a href=\"/auth/account\">Your account</a></p>");
    html::page_with_script(status, "Your passkeys", &text)
}

/// `POST /auth/passkeys/challenge`
pub(crate) async fn add_challenge(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let password = visitor.field("password").map(SecretString::from);
    let origin = visitor.site.origin();
    let begun = api.app.passkey_add_begin(&visitor.op, origin, password, visitor.field("code")).await;
    asked(&visitor.site, begun)
}

/// `POST /auth/passkeys`
pub(crate) async fn add(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let Actor::User(_) = &visitor.actor else {
        return html::see_other("/auth/sign-in?then=%2Fauth%2Fpasskeys");
    };
    let name = visitor.field("name").unwrap_or_default().trim().parse::<Name>();
    let answer = visitor.field("answer").unwrap_or_default();
    let added = match name {
        Ok(name) => {
            let origin = visitor.site.origin();
            api.app.passkey_add_finish(&visitor.op, origin, kept(&visitor), answer, &name).await
        }
        Err(error) => Err(Error::invalid("name", error.to_string())),
    };
    let response = match added {
        Ok(_) => html::see_other("/auth/passkeys"),
        Err(Error::Unauthenticated) => {
            let told =
                "That took too long, was done before, or was begun in another browser or session. Try again.";
            passkeys_page(&api, &visitor, Some(told), StatusCode::UNAUTHORIZED).await
        }
        Err(error) => refused(&api, &visitor, &error).await,
    };
    forgotten(&visitor.site, response)
}

/// `POST /auth/passkeys/delete`
pub(crate) async fn delete(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let Ok(passkey) = visitor.field("id").unwrap_or_default().parse::<PasskeyId>() else {
        return failed(&Error::not_found("passkey"));
    };
    match api.app.passkey_delete(&visitor.op, passkey).await {
        Ok(_) => html::see_other("/auth/passkeys"),
        Err(Error::Unauthenticated) => html::see_other("/auth/sign-in?then=%2Fauth%2Fpasskeys"),
        Err(error) => refused(&api, &visitor, &error).await,
    }
}

/// The page with what did not work.
async fn refused(api: &Api, visitor: &Visitor, error: &Error) -> Response {
    match error.code() {
        ErrorCode::Conflict | ErrorCode::Invalid | ErrorCode::Forbidden => {
            let status = StatusCode::from_u16(error.code().http_status());
            let status = status.unwrap_or(StatusCode::BAD_REQUEST);
            passkeys_page(api, visitor, Some(&error.to_string()), status).await
        }
        _ => failed(error),
    }
}
