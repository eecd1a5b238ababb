//! The pages under `/auth/` with which people sign in and out in a browser.
//!
//! # Guarantees
//! - A session is opened for the browser that began the login, and by a form of our own pages only.
//! - The browser is sent to the provider's own page, to the console's pages, and nowhere else.

use std::{fmt::Write as _, time::Duration};

use axum::{
    extract::{FromRequest, Path, Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, SET_COOKIE},
        request::Parts,
    },
    response::Response,
};
use plural_app::{identity::SignInAnswer, token::CreatedToken};
use plural_core::access::Actor;
use plural_core::ids::RequestId;
use plural_core::{Error, ErrorCode};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    auth::{self, Caller},
    body, html,
    http::{Api, actor_name},
    passkey,
    site::{Cookie, Site},
    ui,
};

/// Bytes of a form.
pub(crate) const LARGEST: usize = 8 << 10;
/// How long one may take to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Where somebody is who came for nothing else: the web console.
const HOME: &str = "/";
/// The page that says who is signed in.
const ACCOUNT: &str = "/auth/account";
/// Bytes of an address that somebody is sent to: it travels in a cookie to a provider and back.
const LONGEST_ADDRESS: usize = 1_000;
/// Seconds that a login at a provider may take.
const LOGIN_SECONDS: i64 = 600;

/// A request for a page.
pub(crate) struct Visitor {
    pub(crate) site: Site,
    pub(crate) actor: Actor,
    pub(crate) headers: HeaderMap,
    /// What follows the `?`, or the fields of a form.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) op: plural_app::OpCtx,
    _places: auth::CallerPermits,
}

impl Visitor {
    /// The value of a field; none for an empty one, and for one that is there twice.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values =
            self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str());
        let value = values.next()?;
        (values.next().is_none() && !value.is_empty()).then_some(value)
    }

    /// What they came for.
    pub(crate) fn then(&self) -> Option<&str> {
        self.field("then").filter(|then| is_ours(then))
    }
}

/// Whether somebody may be sent here after they signed in: one of our own pages, and nothing that a browser could read as
/// another host.
fn is_ours(address: &str) -> bool {
    let (page, query) = address.split_once('?').unwrap_or((address, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=' | '&' | '.');
    if matches!(page, ACCOUNT | "/auth/device" | "/auth/passkeys" | "/auth/confirm") {
        return query.len() <= 600 && query.chars().all(plain);
    }
    let also = |c: char| {
        matches!(c, '~' | '!' | '$' | '\'' | '(' | ')' | '*' | '+' | ',' | ';' | ':' | '@' | '/' | '%' | '?')
    };
    let is_plain = address.len() <= LONGEST_ADDRESS && address.chars().all(|c| plain(c) || also(c));
    let climbs = page.split('/').any(|part| matches!(part, "." | ".."));
    is_plain && !climbs && !page.contains("//") && ui::is_page(page)
}

/// Who visits a page, by the session cookie alone. The answer is a page, too.
impl FromRequest<Api> for Visitor {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Response> {
        let (parts, _) = request.into_parts();
        let fields = parsed(parts.uri.query().unwrap_or_default().as_bytes());
        enter(api, parts, fields).await.map_err(|response| *response)
    }
}

/// Who sends a form: one of our own pages must have it.
pub(crate) struct Sender(pub(crate) Visitor);

impl FromRequest<Api> for Sender {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Response> {
        sender(api, request).await.map(Self).map_err(|response| *response)
    }
}

async fn sender(api: &Api, request: Request) -> Result<Visitor, Box<Response>> {
    let (parts, body) = request.into_parts();
    let site = site(api)?;
    if !site.is_own(&parts.headers) {
        let told = format!("Forms are taken from pages at {} only. Open the console there.", site.origin());
        return Err(Box::new(html::told(StatusCode::FORBIDDEN, "Not sent from here", &told)));
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        let told = "The form was sent in a way that is not understood.";
        return Err(Box::new(html::told(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Not a form", told)));
    }
    // A place comes before the body is read.
    let mut visitor = enter(api, parts, Vec::new()).await?;
    visitor.fields = parsed(&body::read(body, LARGEST, PATIENCE).await?);
    Ok(visitor)
}

/// The id that this request has.
pub(crate) fn request_id(parts: &Parts) -> RequestId {
    parts.extensions.get().copied().unwrap_or_else(RequestId::new)
}

async fn enter(api: &Api, parts: Parts, fields: Vec<(String, String)>) -> Result<Visitor, Box<Response>> {
    let site = site(api)?;
    let id = request_id(&parts);
    let Caller { actor, address, visit: _, places } = auth::visitor(api, &parts, id).await?;
    let op = api.app.ctx(actor.clone()).with_request_id(id).with_peer(address);
    Ok(Visitor { site, actor, headers: parts.headers, fields, op, _places: places })
}

fn site(api: &Api) -> Result<Site, Box<Response>> {
    api.site.clone().ok_or_else(|| {
        let told = "The console's public URL is not at https://, so no session can be opened in a browser. Its \
                    operator sets it with --public-url.";
        Box::new(html::told(StatusCode::FORBIDDEN, "Sign-in is off", told))
    })
}

pub(crate) fn parsed(text: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text)
        .take(32)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

/// `GET /auth/sign-in`
pub(crate) async fn form(State(api): State<Api>, visitor: Visitor) -> Response {
    let then = visitor.then();
    // Somebody may have to show anew that it is them.
    if let Actor::User(_) = visitor.actor
        && visitor.field("again").is_none()
    {
        return html::see_other(then.unwrap_or(HOME));
    }
    sign_in_page(&api, then, None, StatusCode::OK).await
}

pub(crate) async fn sign_in_page(
    api: &Api,
    then: Option<&str>,
    problem: Option<&str>,
    status: StatusCode,
) -> Response {
    let providers = match api.app.sign_in_providers().await {
        Ok(providers) => providers,
        Err(error) => return failed(&error),
    };
    let query = then.map(|then| {
        format!(
            "?{}",
            url::form_urlencoded::Serializer::new(String::new()).append_pair("then", then).finish()
        )
    });
    let query = html::escaped(&query.unwrap_or_default());
    let mut text = String::new();
    if let Some(problem) = problem {
        let _ = write!(text, "<p class=\"told\" role=\"alert\">{}</p>", html::escaped(problem));
    }
    let has_passkeys = api.site.as_ref().is_some_and(|site| api.app.passkeys_work(site.origin()));
    if has_passkeys {
        text.push_str(&passkey::sign_in_form(then));
    }
    for provider in providers {
        let provider = html::escaped(&provider);
        let _ = write!(
            text,
            "<a class=\"button\" href=\"/auth/login/{provider}{query}\">Sign in with {provider}</a>"
        );
    }
    let then = then.map_or_else(String::new, |then| {
        format!("<input type=\"hidden\" name=\"then\" value=\"{}\">", html::escaped(then))
    });
    let _ = write!(
        text,
        "<form method=\"post\" action=\"/auth/sign-in\">{then}\
         <label for=\"email\">E-mail address</label>\
         <input id=\"email\" name=\"email\" type=\"email\" autocomplete=\"username\" required>\
         <label for=\"password\">Password</label>\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required>\
         <label for=\"code\">Code of your authenticator app, if you have one</label>\
         <input id=\"code\" name=\"code\" autocomplete=\"one-time-code\" maxlength=\"40\">\
         <button>Sign in with a password</button></form>"
    );
    if has_passkeys {
        return html::page_with_script(status, "Sign in", &text);
    }
    html::page(status, "Sign in", &text)
}

/// `POST /auth/sign-in`
pub(crate) async fn with_password(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let then = visitor.then();
    let (email, password) = (visitor.field("email").unwrap_or_default(), visitor.field("password"));
    let password = SecretString::from(password.unwrap_or_default());
    let nobody =
        api.app.ctx(Actor::Nobody).with_request_id(visitor.op.request_id()).with_peer(visitor.op.peer());
    match api.app.session_create_with(&nobody, email, password, visitor.field("code")).await {
        Ok(session) => opened(&visitor.site, &session, then),
        Err(Error::Unauthenticated) => {
            let told = "The e-mail address, the password or the code is wrong.";
            sign_in_page(&api, then, Some(told), StatusCode::UNAUTHORIZED).await
        }
        Err(Error::Forbidden { .. }) => {
            let told = "Enter the password again, with a code of your authenticator app or a recovery code.";
            sign_in_page(&api, then, Some(told), StatusCode::UNAUTHORIZED).await
        }
        Err(error) => failed(&error),
    }
}

/// `POST /auth/link`
pub(crate) async fn with_link(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let nobody =
        api.app.ctx(Actor::Nobody).with_request_id(visitor.op.request_id()).with_peer(visitor.op.peer());
    match api.app.sign_in_link_redeem(&nobody, visitor.field("code").unwrap_or_default()).await {
        Ok(session) => opened(&visitor.site, &session, visitor.then()),
        Err(Error::Unauthenticated) => {
            let told = "This link was used, or is older than ten minutes. Sign in with a password, or start the demo again.";
            sign_in_page(&api, visitor.then(), Some(told), StatusCode::UNAUTHORIZED).await
        }
        Err(error) => failed(&error),
    }
}

/// A browser that is signed in from here on.
pub(crate) fn opened(site: &Site, session: &CreatedToken, then: Option<&str>) -> Response {
    let CreatedToken { token, text } = session;
    // It was made a moment after its end was decided.
    let lasts = token.expires_at.map_or(0, |end| ((end - token.created_at).num_milliseconds() + 999) / 1000);
    let mut response = html::see_other(then.filter(|then| is_ours(then)).unwrap_or(HOME));
    let cookies = [site.set(Cookie::Session, text.expose_secret(), lasts), site.set(Cookie::Login, "", 0)];
    for cookie in cookies {
        match cookie {
            Ok(cookie) => {
                response.headers_mut().append(SET_COOKIE, cookie);
            }
            Err(error) => return failed(&error),
        }
    }
    response
}

/// `GET /auth/login/{provider}`
pub(crate) async fn begin(
    State(api): State<Api>,
    Path(provider): Path<String>,
    visitor: Visitor,
) -> Response {
    let then = visitor.then().map(str::to_owned);
    let redirect = redirect(&visitor.site, &provider);
    let begun = api.app.sign_in_begin(&visitor.op, &provider, redirect, then).await;
    let cookie = begun
        .and_then(|begun| Ok((visitor.site.set(Cookie::Login, &begun.cookie, LOGIN_SECONDS)?, begun.url)));
    match cookie {
        Ok((cookie, url)) => {
            let mut response = html::see_other(&url);
            response.headers_mut().insert(SET_COOKIE, cookie);
            response
        }
        Err(error) => failed(&error),
    }
}

fn redirect(site: &Site, provider: &str) -> String {
    format!("{}/auth/callback/{provider}", site.origin())
}

/// `GET /auth/callback/{provider}`
pub(crate) async fn finish(
    State(api): State<Api>,
    Path(provider): Path<String>,
    visitor: Visitor,
) -> Response {
    let field = |name: &str| visitor.field(name).map(str::to_owned);
    let answer = SignInAnswer {
        code: field("code"),
        state: field("state"),
        issuer: field("iss"),
        error: field("error"),
    };
    let nobody =
        api.app.ctx(Actor::Nobody).with_request_id(visitor.op.request_id()).with_peer(visitor.op.peer());
    let cookie = visitor.site.read(&visitor.headers, Cookie::Login).ok().flatten().unwrap_or_default();
    let redirect = redirect(&visitor.site, &provider);
    let finished = api.app.sign_in_finish(&nobody, &provider, redirect, cookie, answer).await;
    let mut response = match &finished {
        Ok(signed_in) => return opened(&visitor.site, &signed_in.session, signed_in.then.as_deref()),
        Err(Error::Unauthenticated) => {
            let told = "This login was not begun in this browser, took too long, was finished before, or its answer is \
                        not to be believed. Try again; if it happens again, the console's log says more to its operator.";
            html::told(StatusCode::UNAUTHORIZED, "Not signed in", told)
        }
        Err(error) => failed(error),
    };
    if let Ok(cookie) = visitor.site.set(Cookie::Login, "", 0) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// `GET /auth/account`
pub(crate) async fn account(visitor: Visitor) -> Response {
    let Actor::User(user) = &visitor.actor else { return html::see_other("/auth/sign-in") };
    let body = format!(
        "<p>You are signed in as <strong>{}</strong>.</p><p><a href=\"/auth/passkeys\">Your passkeys</a></p>\
         <form method=\"post\" action=\"/auth/sign-out\"><button>Sign out</button></form>",
        html::escaped(&user.email)
    );
    let mut response = html::page(StatusCode::OK, "Your account", &body);
    response.extensions_mut().insert(actor_name(&visitor.actor));
    response
}

/// `POST /auth/sign-out`
pub(crate) async fn sign_out(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let back = format!("{}/auth/sign-in", visitor.site.origin());
    let mut elsewhere = String::new();
    if let Actor::User(_) = &visitor.actor {
        match api.app.session_end(&visitor.op, &back).await {
            Ok(Some((provider, url))) => {
                elsewhere = format!(
                    "<p>{0} may still know you: <a href=\"{1}\">sign out there, too</a>.</p>",
                    html::escaped(&provider),
                    html::escaped(&url)
                );
            }
            Ok(None) => {}
            Err(error) => return failed(&error),
        }
    }
    let body = format!(
        "<p>You are signed out here.</p>{elsewhere}<a class=\"button\" href=\"/auth/sign-in\">Sign in</a>"
    );
    let mut response = html::page(StatusCode::OK, "Signed out", &body);
    if let Ok(cookie) = visitor.site.set(Cookie::Session, "", 0) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// A page for an error.
pub(crate) fn failed(error: &Error) -> Response {
    let status =
        StatusCode::from_u16(error.code().http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if error.code() == ErrorCode::Internal {
        tracing::error!(error = error.log_text(), "a sign-in page failed");
        return html::told(
            status,
            "That did not work",
            "Something went wrong here. Retry; the console's log says more.",
        );
    }
    let mut response = html::told(status, "That did not work", &error.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert("retry-after", HeaderValue::from_static("5"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for ours in [
            "/auth/account",
            "/auth/device?user_code=ABCD-EFGH",
            "/",
            "/clusters/blue?q=a%20b&sort=-name",
            "/services?next=https://evil.test",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        let long = format!("/clusters?q={}", "a".repeat(LONGEST_ADDRESS));
        for other in [
            "https://evil.test",
            "//evil.test",
            "/\\evil.test",
            "/auth/../x",
            "/auth/account/x",
            "/auth/cli?a=b",
            "/auth/device#x",
            "/auth/device?\r\nx: y",
            "",
            "clusters",
            "javascript:alert(1)",
            "/auth/sign-out",
            "/gql",
            "/k8s/blue/api",
            "/clusters//evil.test",
            "/clusters/../../evil",
            "/./evil",
            "/clusters#x",
            "/clusters?a=\u{e9}",
            "/clusters?<script>",
            long.as_str(),
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
