//! From the `Authorization` header to an actor.

use axum::http::{HeaderMap, header::AUTHORIZATION};
use plural_app::App;
use plural_core::{Error, Result, access::Actor};

/// The token of `Authorization: Token …` or `Authorization: Bearer …`; some clients write `Token:`.
/// `None` without the header.
///
/// # Errors
/// [`Error::Unauthenticated`] for another scheme, two headers, or text that no token can be.
fn token(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::Unauthenticated);
    }
    let text = value.to_str().map_err(|_| Error::Unauthenticated)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(Error::Unauthenticated)?;
    let scheme = scheme.strip_suffix(':').unwrap_or(scheme);
    if !scheme.eq_ignore_ascii_case("token") && !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Error::Unauthenticated);
    }
    Ok(Some(token.trim()))
}

/// Who asks: nobody without a credential, else the user that it speaks for.
///
/// # Errors
/// [`Error::Unauthenticated`] for a credential that is wrong, expired, revoked or an agent's: agents have
/// a door of their own.
pub(crate) async fn actor(app: &App, headers: &HeaderMap) -> Result<Actor> {
    let Some(token) = token(headers)? else { return Ok(Actor::Nobody) };
    match app.actor_authenticate(token).await? {
        Actor::User(user) => Ok(Actor::User(user)),
        // `actor_authenticate` answers neither of the last two; this does not rest on it.
        Actor::Cluster(_) | Actor::Nobody | Actor::System => Err(Error::Unauthenticated),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_schemes_that_clients_use() {
        for value in ["Token console-1", "Token: console-1", "token  console-1", "Bearer console-1"] {
            assert_eq!(token(&headers(&[value])).unwrap(), Some("console-1"), "{value}");
        }
        assert_eq!(token(&headers(&[])).unwrap(), None);
    }

    #[test]
    fn anything_else_is_no_credential() {
        for values in [&["Basic YTpi"][..], &["console-1"], &[""], &["Token a", "Token b"]] {
            assert!(matches!(token(&headers(values)), Err(Error::Unauthenticated)), "{values:?}");
        }
    }
}
