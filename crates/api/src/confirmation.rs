//! The page under `/auth/` that shows a code in the place of a password, to somebody who has just signed in.

use axum::{extract::State, http::StatusCode, response::Response};
use plural_core::access::Actor;
use plural_core::{Error, ErrorCode};
use secrecy::ExposeSecret as _;

use crate::{
    html,
    http::Api,
    sign_in::{Sender, Visitor, failed},
};

const TITLE: &str = "Confirm that it is you";
/// Where somebody signs in and comes back.
const SIGN_IN: &str = "/auth/sign-in?again=yes&then=%2Fauth%2Fconfirm";

/// `GET /auth/confirm`
pub(crate) async fn page(visitor: Visitor) -> Response {
    let Actor::User(user) = &visitor.actor else { return html::see_other(SIGN_IN) };
    let body = format!(
        "<p>A command that you started asks for your password, and you, <strong>{}</strong>, have none? Type a code in its place. It \
         is good once, for five minutes, and does what your password does: give it to nobody.</p>\
         <form method=\"post\" action=\"/auth/confirm\"><button>Show a code</button></form>",
        html::escaped(&user.email)
    );
    html::page(StatusCode::OK, TITLE, &body)
}

/// `POST /auth/confirm`
pub(crate) async fn show(State(api): State<Api>, Sender(visitor): Sender) -> Response {
    match api.app.confirmation_create(&visitor.op).await {
        Ok(code) => {
            let body = format!(
                "<p>Type or paste this where the command asks for your password:</p><p><strong>{}</strong></p>",
                html::escaped(code.expose_secret())
            );
            html::page(StatusCode::OK, TITLE, &body)
        }
        Err(Error::Unauthenticated) => html::see_other(SIGN_IN),
        Err(error) if error.code() == ErrorCode::Forbidden => {
            let body = format!(
                "<p class=\"told\" role=\"alert\">{}</p><a class=\"button\" href=\"{}\">Sign in again</a>",
                html::escaped(&error.to_string()),
                html::escaped(SIGN_IN)
            );
            html::page(StatusCode::FORBIDDEN, TITLE, &body)
        }
        Err(error) => failed(&error),
    }
}
