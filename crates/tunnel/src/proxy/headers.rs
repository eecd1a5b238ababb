//! Which headers pass. What says who somebody is, how a connection is kept, or who forwarded it, never does.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::v1::ProxyHeader;

/// How a token looks among the protocols of a WebSocket: browsers can set no header there.
pub const WEBSOCKET_TOKEN_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Headers that end at each hop, whether `Connection` names them or not.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Headers that say who asks or on whose behalf: the agent's to set.
const IDENTITY: [&str; 11] = [
    "authorization",
    "cookie",
    "forwarded",
    "via",
    "host",
    "expect",
    "x-real-ip",
    "x-original-url",
    "x-rewrite-url",
    "x-original-uri",
    "x-http-method-override",
];

/// Families of such headers, by how they begin.
const IDENTITY_FAMILIES: [&str; 5] =
    ["impersonate-", "x-remote-", "x-forwarded-", "x-plural-", "x-auth-request-"];

/// Headers of an answer that pass. The others could make a browser or program act on the console's address: cookies, redirects,
/// what may be read from elsewhere, what is forgotten or asked for next.
const ANSWER: [&str; 25] = [
    "accept-ranges",
    "age",
    "allow",
    "audit-id",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "pragma",
    "retry-after",
    "sec-websocket-accept",
    "sec-websocket-protocol",
    "vary",
    "warning",
    // Streams of kubectl's older protocol.
    "x-accepted-stream-protocol-versions",
    "x-stream-protocol-version",
    // Which of the API server's queues a request was in.
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
    "x-content-type-options",
];

/// The headers of a request that may go on to the API server.
pub fn forwarded_request_headers(headers: &HeaderMap) -> Vec<ProxyHeader> {
    let named = named_by_connection(headers);
    let passes = |name: &str| {
        !HOP_BY_HOP.contains(&name)
            && !IDENTITY.contains(&name)
            && !IDENTITY_FAMILIES.iter().any(|family| name.starts_with(family))
            // `X_Remote_User` is `X-Remote-User` to some servers.
            && !name.contains('_')
            && name != "content-length"
            && !named.iter().any(|other| other == name)
    };
    let mut passed = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        if !passes(name.as_str()) {
            continue;
        }
        if *name == header::SEC_WEBSOCKET_PROTOCOL {
            // A token among the protocols would be believed before our own identity is.
            let Ok(text) = value.to_str() else { continue };
            let kept: Vec<&str> = text
                .split(',')
                .map(str::trim)
                .filter(|protocol| !protocol.starts_with("base64url.bearer."))
                .collect();
            if !kept.is_empty() {
                passed.push(ProxyHeader {
                    name: name.as_str().to_owned(),
                    value: kept.join(", ").into_bytes(),
                });
            }
            continue;
        }
        passed.push(ProxyHeader { name: name.as_str().to_owned(), value: value.as_bytes().to_vec() });
    }
    passed
}

/// The headers of an answer that may go on to the client: those of [`ANSWER`].
pub fn forwarded_response_headers(headers: &HeaderMap) -> Vec<ProxyHeader> {
    let named = named_by_connection(headers);
    headers
        .iter()
        .filter(|(name, _)| {
            let name = name.as_str();
            ANSWER.contains(&name) && !named.iter().any(|other| other == name)
        })
        .map(|(name, value)| ProxyHeader { name: name.as_str().to_owned(), value: value.as_bytes().to_vec() })
        .collect()
}

/// Headers as they travelled; `None` when one cannot be a header.
pub fn header_map(headers: Vec<ProxyHeader>) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for ProxyHeader { name, value } in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = HeaderValue::from_maybe_shared(Bytes::from(value)).ok()?;
        map.append(name, value);
    }
    Some(map)
}

fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value))
            })
            .collect()
    }

    fn names(headers: Vec<ProxyHeader>) -> Vec<String> {
        headers.into_iter().map(|header| header.name).collect()
    }

    #[test]
    fn what_says_who_asks_does_not_pass() {
        let told = map(&[
            ("accept", "application/json"),
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("impersonate-user", "system:admin"),
            ("impersonate-group", "system:masters"),
            ("impersonate-extra-scopes", "all"),
            ("impersonate-uid", "0"),
            ("x-remote-user", "root"),
            ("x_remote_user", "root"),
            ("x-remote-extra-a", "root"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-client-cert", "x"),
            ("forwarded", "for=1.2.3.4"),
            ("x-original-url", "/api/v1/secrets"),
            ("via", "1.1 a"),
            ("host", "evil"),
            ("user-agent", "kubectl"),
        ]);
        assert_eq!(names(forwarded_request_headers(&told)), ["accept", "user-agent"]);
    }

    #[test]
    fn what_belongs_to_the_connection_does_not_pass() {
        let told = map(&[
            ("connection", "close, X-Mine"),
            ("connection", "Upgrade, accept-encoding"),
            ("x-mine", "1"),
            ("accept-encoding", "gzip"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("content-length", "5"),
            ("content-type", "text/plain"),
        ]);
        assert_eq!(names(forwarded_request_headers(&told)), ["content-type"]);
        assert_eq!(names(forwarded_response_headers(&told)), ["content-type"]);
    }

    #[test]
    fn a_token_among_websocket_protocols_does_not_pass() {
        let told = map(&[(
            "sec-websocket-protocol",
            "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.eA, v4.channel.k8s.io",
        )]);
        let passed = forwarded_request_headers(&told);
        assert_eq!(passed[0].value, b"v5.channel.k8s.io, v4.channel.k8s.io");
        let only = map(&[("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA")]);
        assert!(forwarded_request_headers(&only).is_empty());
    }

    #[test]
    fn what_a_client_would_act_on_does_not_come_back() {
        let told = map(&[
            ("set-cookie", "a=b"),
            ("location", "/k8s/other/api"),
            ("refresh", "0; url=/"),
            ("clear-site-data", "\"*\""),
            ("www-authenticate", "Basic"),
            ("access-control-allow-origin", "*"),
            ("link", "</a>; rel=preload"),
            ("service-worker-allowed", "/"),
            ("warning", "299 - x"),
            ("audit-id", "1"),
        ]);
        assert_eq!(names(forwarded_response_headers(&told)), ["warning", "audit-id"]);
    }
}
