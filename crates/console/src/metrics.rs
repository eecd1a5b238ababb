//! `/metrics`: on an address of its own, or to whoever holds a token.

use std::net::SocketAddr;

use axum::{
    http::{
        HeaderMap, StatusCode,
        header::{AUTHORIZATION, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use plural_api::Routes;
use plural_kit::Metrics;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{Server, StartError, server::Bound};

/// Characters that nobody guesses.
const LEAST: usize = 16;

/// Refuses a token that is empty, as one from an unset variable is, or short enough to be guessed.
pub(crate) fn check_token(token: Option<&SecretString>) -> Result<(), StartError> {
    match token {
        Some(token) if token.expose_secret().trim().len() < LEAST => {
            Err(StartError::Short { setting: "--metrics-token (PLURAL_METRICS_TOKEN)", least: LEAST })
        }
        _ => Ok(()),
    }
}

/// A listener that serves metrics and nothing else.
pub(crate) fn bind(address: SocketAddr) -> Result<Bound, StartError> {
    Bound::new(address, None).map_err(its_own)
}

/// Serves them there.
pub(crate) fn listen(bound: Bound, metrics: &Metrics) -> Result<(Server, Routes), StartError> {
    let server = bound.listen().map_err(its_own)?;
    if let Ok(address) = server.address() {
        tracing::info!(metrics.address = %address, "the console serves metrics");
    }
    let metrics = metrics.clone();
    Ok((server, Routes::new().get("/metrics", move || async move { page(&metrics) })))
}

/// Says whose address it is that is taken.
fn its_own(error: StartError) -> StartError {
    match error {
        StartError::Listen { address, cause } => StartError::MetricsListen { address, cause },
        other => other,
    }
}

/// The same on the console's own address, for who holds the token; nothing without one.
pub(crate) fn with_token(metrics: Option<&Metrics>, token: Option<SecretString>) -> Routes {
    let (Some(metrics), Some(token)) = (metrics, token) else { return Routes::new() };
    let metrics = metrics.clone();
    // Of one length, whatever is sent.
    let wanted: [u8; 32] = Sha256::digest(token.expose_secret().trim()).into();
    let answer = move |headers: HeaderMap| async move {
        let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let sent: [u8; 32] = Sha256::digest(sent).into();
        if bool::from(sent.ct_eq(&wanted)) {
            page(&metrics)
        } else {
            (StatusCode::UNAUTHORIZED, "metrics need the token that --metrics-token names\n").into_response()
        }
    };
    Routes::new().get("/metrics", answer)
}

fn page(metrics: &Metrics) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render()).into_response()
}
