//! Bodies of requests. They are read after the head was judged, up to a limit, and for so long at most.

use std::time::Duration;

use axum::{
    Json,
    body::{Body, HttpBody as _, to_bytes},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use serde_json::json;

/// Bytes of a request's body that we are willing to hold: a service's configuration may take one MiB, and
/// twice that when every character of it is escaped.
pub(crate) const LARGEST: usize = 4 << 20;
/// The same of somebody who has not said who they are: far more than a login takes.
pub(crate) const LARGEST_OF_NOBODY: usize = 64 << 10;
/// How long a body may take to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// All of a body.
///
/// # Errors
/// The answer for one that is too large, too slow, or broken off.
pub(crate) async fn read(body: Body, largest: usize, patience: Duration) -> Result<Bytes, Box<Response>> {
    let refuse = |status: StatusCode, told: String| {
        Err(Box::new((status, Json(json!({"message": told}))).into_response()))
    };
    let too_large = || {
        let told = format!("the body is larger than {} KiB", largest >> 10);
        refuse(StatusCode::PAYLOAD_TOO_LARGE, told)
    };
    // What says of itself that it is too large is not read at all.
    if body.size_hint().lower() > largest as u64 {
        return too_large();
    }
    match tokio::time::timeout(patience, to_bytes(body, largest)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length(&error) => too_large(),
        Ok(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the body is incomplete".to_owned()),
        Err(_) => {
            let told = format!("the body did not arrive within {} seconds", patience.as_secs());
            refuse(StatusCode::REQUEST_TIMEOUT, told)
        }
    }
}

fn is_length(error: &axum::Error) -> bool {
    std::error::Error::source(error)
        .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>)
}
