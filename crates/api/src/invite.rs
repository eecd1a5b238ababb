//! The pages under `/auth/` with which somebody accepts an invitation, or replaces a password that they forgot.
//!
//! The code comes in forms only: a link carries it behind `#`, which browsers tell no server.

use axum::{extract::State, http::StatusCode, response::Response};
use plural_core::access::Actor;
use plural_core::invite::Invite;
use plural_core::specs::Name;
use plural_core::user::User;
use plural_core::{Error, ErrorCode};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    html,
    http::Api,
    passkey::{asked, forgotten, kept},
    sign_in::{Sender, Visitor, failed},
};

/// What the pages are called.
const TITLE: &str = "Accept an invitation";

/// `GET /auth/invite`
pub(crate) async fn page(_visitor: Visitor) -> Response {
    code_page(None, StatusCode::OK)
}

fn code_page(problem: Option<&str>, status: StatusCode) -> Response {
    let problem = told(problem);
    let text = format!(
        "{problem}<p>Enter the code that an administrator gave you.</p>\
         <form method=\"post\" action=\"/auth/invite\"><label for=\"code\">Code</label>\
         <input id=\"code\" name=\"code\" autocomplete=\"off\" maxlength=\"100\" required data-code>\
         <button>Continue</button></form>"
    );
    html::page_with_script(status, TITLE, &text)
}

fn told(problem: Option<&str>) -> String {
    problem.map_or_else(String::new, |problem| {
        format!("<p class=\"told\" role=\"alert\">{}</p>", html::escaped(problem))
    })
}

/// Somebody with a code: what it is, who they say they are. Whoever is signed in in this browser has nothing to do with it, unless
/// it is an invitation of theirs to a project.
struct Guest {
    visitor: Visitor,
    op: plural_app::OpCtx,
    code: SecretString,
    name: Option<Name>,
}

fn guest(api: &Api, visitor: Visitor) -> Result<Guest, Box<Response>> {
    let nobody = api.app.ctx(Actor::Nobody);
    let op = nobody.with_request_id(visitor.op.request_id()).with_peer(visitor.op.peer());
    let code = SecretString::from(visitor.field("code").unwrap_or_default());
    let name = visitor.field("name").map(|name| name.trim().parse::<Name>()).transpose();
    let name = name.map_err(|error| Box::new(failed(&Error::invalid("name", error.to_string()))))?;
    Ok(Guest { visitor, op, code, name })
}

/// `POST /auth/invite`
pub(crate) async fn look(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let guest = match guest(&api, visitor) {
        Ok(guest) => guest,
        Err(response) => return *response,
    };
    match api.app.invite_look(&guest.op, &guest.code).await {
        Ok(invite) => accept_page(&api, &guest, &invite, None, StatusCode::OK),
        Err(error) => unknown(&error),
    }
}

fn accept_page(
    api: &Api,
    guest: &Guest,
    invite: &Invite,
    problem: Option<&str>,
    status: StatusCode,
) -> Response {
    let code = html::escaped(guest.code.expose_secret().trim());
    let code = format!("<input type=\"hidden\" name=\"code\" value=\"{code}\">");
    let problem = told(problem);
    let email = html::escaped(invite.email.as_str());
    let password = "<label for=\"password\">Password: at least 8 characters</label>\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"new-password\" minlength=\"8\" required>\
         <label for=\"again\">The same again</label>\
         <input id=\"again\" name=\"again\" type=\"password\" autocomplete=\"new-password\" required>";
    if invite.to.is_some() && is_theirs(&guest.visitor.actor, invite) {
        let text = format!(
            "{problem}<p>You are invited to a project. You are signed in as <strong>{email}</strong>.</p>\
             <form method=\"post\" action=\"/auth/invite/accept\">{code}\
             <input type=\"hidden\" name=\"signed-in\" value=\"yes\"><button>Accept</button></form>"
        );
        return html::page(status, TITLE, &text);
    }
    if invite.user_id.is_some() {
        let text = format!(
            "{problem}<p>Choose another password for <strong>{email}</strong>. Your sessions end.</p>\
             <form method=\"post\" action=\"/auth/invite/accept\">{code}{password}<button>Change the password</button></form>"
        );
        return html::page(status, "Choose another password", &text);
    }
    // The same words whether there is one: a code does not tell.
    let known = match invite.to {
        Some(_) => {
            "<p>You have this account already? <a href=\"/auth/sign-in\">Sign in</a>, and open your link again.</p>"
        }
        None => "",
    };
    let mut text = format!(
        "{problem}<p>You are invited to make the account <strong>{email}</strong>.</p>{known}\
         <form method=\"post\" action=\"/auth/invite/accept\">{code}<label for=\"name\">Your name</label>\
         <input id=\"name\" name=\"name\" autocomplete=\"name\" maxlength=\"100\">{password}\
         <button>Make the account</button></form>"
    );
    if api.app.passkeys_work(guest.visitor.site.origin()) {
        text = format!(
            "{text}<form method=\"post\" action=\"/auth/invite/accept\" data-passkey=\"create\" \
             data-challenge=\"/auth/invite/challenge\" hidden>{code}<p>Or have no password:</p>\
             <label for=\"name2\">Your name</label>\
             <input id=\"name2\" name=\"name\" autocomplete=\"name\" maxlength=\"100\">\
             <input type=\"hidden\" name=\"answer\"><button>Make the account with a passkey</button>\
             <p class=\"told\" role=\"alert\" hidden></p></form>"
        );
    }
    html::page_with_script(status, TITLE, &text)
}

/// Whether an invitation is for the account that somebody is signed in with.
fn is_theirs(actor: &Actor, invite: &Invite) -> bool {
    match actor {
        Actor::User(user) => user.email == invite.email.as_str(),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => false,
    }
}

/// `POST /auth/invite/challenge`
pub(crate) async fn challenge(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let Guest { visitor, op, code, name } = match guest(&api, visitor) {
        Ok(guest) => guest,
        Err(response) => return *response,
    };
    let origin = visitor.site.origin();
    asked(&visitor.site, api.app.invite_passkey_begin(&op, origin, &code, name.as_ref()).await)
}

/// `POST /auth/invite/accept`
pub(crate) async fn accept(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    let guest = match guest(&api, visitor) {
        Ok(guest) => guest,
        Err(response) => return *response,
    };
    let response = match accepted(&api, &guest).await {
        Ok(_) if guest.visitor.field("signed-in").is_some() => joined(),
        Ok(user) => done(&user),
        Err(error) => match error.code() {
            // With the code they may try again.
            ErrorCode::Invalid | ErrorCode::Unauthenticated => {
                let problem = match &error {
                    Error::Unauthenticated => {
                        "That took too long, or was begun in another browser. Try again.".to_owned()
                    }
                    error => error.to_string(),
                };
                match api.app.invite_look(&guest.op, &guest.code).await {
                    Ok(invite) => {
                        accept_page(&api, &guest, &invite, Some(&problem), StatusCode::UNPROCESSABLE_ENTITY)
                    }
                    Err(error) => unknown(&error),
                }
            }
            _ => unknown(&error),
        },
    };
    forgotten(&guest.visitor.site, response)
}

async fn accepted(api: &Api, guest: &Guest) -> plural_core::Result<User> {
    let Guest { visitor, op, code, name } = guest;
    if visitor.field("signed-in").is_some() {
        return api.app.invite_accept_signed_in(&visitor.op, code).await;
    }
    if let Some(answer) = visitor.field("answer") {
        let kept = (kept(visitor), answer);
        return api.app.invite_accept_passkey(op, visitor.site.origin(), code, name.clone(), kept).await;
    }
    let password = visitor.field("password").unwrap_or_default();
    if visitor.field("again") != Some(password) {
        return Err(Error::invalid("password", "was not the same both times"));
    }
    api.app.invite_accept(op, code, name.clone(), SecretString::from(password)).await
}

fn done(user: &User) -> Response {
    let text = format!(
        "<p>You can sign in as <strong>{}</strong> now.</p><a class=\"button\" href=\"/auth/sign-in\">Sign in</a>",
        html::escaped(user.email.as_str())
    );
    html::page(StatusCode::OK, "That worked", &text)
}

fn joined() -> Response {
    let text =
        "<p>You have your role on the project now.</p><a class=\"button\" href=\"/\">Open the console</a>";
    html::page(StatusCode::OK, "That worked", text)
}

fn unknown(error: &Error) -> Response {
    if error.code() == ErrorCode::NotFound {
        let told = "There is no invitation with this code. Codes are good once and for a few days; ask for another one. If you have \
                    an account already, sign in with it first.";
        return code_page(Some(told), StatusCode::NOT_FOUND);
    }
    failed(error)
}
