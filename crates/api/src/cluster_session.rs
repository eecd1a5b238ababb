//! A browser's session at the way to clusters (`/k8s/…`): for what our own pages fetch and the sockets that they open, never
//! for a page, a frame, a script or a worker of what runs in a cluster.

use axum::http::{HeaderMap, HeaderName, Method, header::AUTHORIZATION, header::UPGRADE};
use plural_core::Result;
use secrecy::SecretString;

use crate::site::Site;

/// What browsers say of a request; older ones say nothing.
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How the request for a worker's script is marked.
const WORKER: HeaderName = HeaderName::from_static("service-worker");
/// Things in a cluster that answer with whatever they like when they are asked through the API server.
const ANSWERING: [&str; 3] = ["nodes", "pods", "services"];

/// The console as browsers know it, for the way to clusters.
#[derive(Debug, Clone)]
pub struct ClusterSessions {
    site: Option<Site>,
}

impl ClusterSessions {
    /// Of a console at this URL. None count where no browser can sign in.
    pub fn new(public_url: Option<&str>) -> Self {
        Self { site: Site::of(public_url) }
    }

    /// The token of the session that a request comes with, where it may reach a cluster with it: `path` is what the API server
    /// is asked for. Nothing for one that has another credential, or none.
    pub fn token(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<SecretString> {
        let site = self.site.as_ref()?;
        if headers.contains_key(AUTHORIZATION) || headers.contains_key(WORKER) || asks_what_runs_there(path) {
            return None;
        }
        let is_socket = headers.contains_key(UPGRADE);
        let (mode, destination): (&[&str], &[&str]) = if is_socket {
            (&["websocket"], &["websocket", "empty"])
        } else {
            (&["cors", "same-origin"], &["empty"])
        };
        let is = |name: &HeaderName, values: &[&str]| {
            headers
                .get_all(name)
                .iter()
                .all(|value| values.iter().any(|known| value.as_bytes() == known.as_bytes()))
        };
        if !is(&MODE, mode) || !is(&DESTINATION, destination) || !is(&SITE, &["same-origin"]) {
            return None;
        }
        let token: Result<Option<&str>> =
            if is_socket { site.session_of_socket(headers) } else { site.session(method, headers) };
        token.ok().flatten().map(SecretString::from)
    }
}

/// Whether a path is the proxy of a pod, a service or a node: what runs there would speak with our address.
fn asks_what_runs_there(path: &str) -> bool {
    // As the API server reads it: percent signs are decoded, and nothing is between two slashes.
    let path = percent_decoded(path);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let proxies = |parts: &[&str]| matches!(parts, [kind, _, "proxy", ..] if ANSWERING.iter().any(|known| known.eq_ignore_ascii_case(kind)));
    // The old form, too: `/api/v1/proxy/…`.
    parts.windows(3).any(proxies) || matches!(parts.as_slice(), ["api", _, "proxy", ..])
}

fn percent_decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair =
            bytes.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|pair| hex::decode(pair).ok());
        if let Some(pair) = pair {
            decoded.extend(pair);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const OWN: &str = "https://c.example.com";

    fn found(path: &str, pairs: &[(&'static str, &str)]) -> bool {
        let headers: HeaderMap = [("cookie", "__Host-plural-session=console-1")]
            .iter()
            .chain(pairs)
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        ClusterSessions::new(Some(OWN)).token(&Method::GET, path, &headers).is_some()
    }

    #[test]
    fn only_what_our_pages_fetch_and_their_sockets_have_the_session() {
        let fetch = [
            ("x-plural-csrf", "1"),
            ("sec-fetch-mode", "cors"),
            ("sec-fetch-dest", "empty"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert!(found("/api/v1/pods", &fetch));
        assert!(found("/api/v1/pods", &[("x-plural-csrf", "1")]), "an older browser");
        for (name, value) in [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-mode", "no-cors"),
            ("sec-fetch-dest", "document"),
            ("sec-fetch-dest", "iframe"),
            ("sec-fetch-dest", "script"),
            ("sec-fetch-dest", "serviceworker"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "none"),
            ("x-plural-csrf", ""),
        ] {
            let pairs: Vec<_> = fetch
                .iter()
                .filter(|(known, _)| *known != name)
                .copied()
                .chain((!value.is_empty()).then_some((name, value)))
                .collect();
            assert!(!found("/api/v1/pods", &pairs), "{name}: {value}");
        }
        for more in
            [("service-worker", "script"), ("authorization", "Bearer x"), ("origin", "https://evil.test")]
        {
            let pairs: Vec<_> = fetch.iter().copied().chain([more]).collect();
            assert!(!found("/api/v1/pods", &pairs), "{more:?}");
        }
        let socket = [("upgrade", "websocket"), ("origin", OWN), ("sec-fetch-mode", "websocket")];
        assert!(found("/api/v1/namespaces/a/pods/p/exec", &socket));
        assert!(!found(
            "/api/v1/namespaces/a/pods/p/exec",
            &[("upgrade", "websocket"), ("x-plural-csrf", "1")]
        ));
        let evil = [("upgrade", "websocket"), ("origin", "https://evil.test")];
        assert!(!found("/api/v1/namespaces/a/pods/p/exec", &evil));
    }

    #[test]
    fn what_runs_in_a_cluster_is_not_asked_with_a_session() {
        for path in [
            "/api/v1/namespaces/a/pods/p/proxy",
            "/api/v1/namespaces/a/pods/p/proxy/",
            "/api/v1/namespaces/a/pods/p/proxy/x?y",
            "/api/v1/namespaces/a/services/https:s:443/proxy/x",
            "/api/v1/nodes/n/proxy/metrics",
            "/api/v1//nodes/n//proxy",
            "/api/v1/nodes/n/%70roxy",
            "/api/v1/proxy/nodes/n",
        ] {
            assert!(asks_what_runs_there(path.split('?').next().unwrap()), "{path}");
        }
        for path in [
            "/api/v1/namespaces/proxy/pods/proxy",
            "/apis/x/v1/proxy",
            "/api/v1/namespaces/a/pods/p/log",
            "/",
        ] {
            assert!(!asks_what_runs_there(path), "{path}");
        }
    }
}
