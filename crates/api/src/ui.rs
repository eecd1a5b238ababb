//! The web console: its page for everything that people open, and the files that the page loads.
//!
//! # Guarantees
//! - No page runs a script or loads a file that is not the console's own; nobody frames one.
//! - Paths of other doors are never answered with a page.

use axum::{
    body::Body,
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
            ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    response::Response,
};
use plural_app::secret::random;
use plural_core::{Error, Result};
use plural_ui::Asset;

use crate::{html, sign_in::failed};

/// The page, among the files.
const INDEX: &str = "/index.html";
/// Where files have their content's hash in their names.
const HASHED: &str = "/assets/";
/// What stands in the page where its nonce belongs.
const NONCE: &str = "__CSP_NONCE__";
/// First parts of paths that are other doors, now or for clients of the original console. What begins with one of the last
/// two is gRPC, or a file that is well known elsewhere.
const RESERVED: [&str; 15] = [
    "agent", "api", "assets", "auth", "ext", "gql", "graphql", "health", "healthz", "k8s", "metrics",
    "oauth", "readyz", "socket", "v1",
];
const RESERVED_BEGINNINGS: [&str; 2] = ["plural.", "."];
const PLAIN_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// `GET /`
pub(crate) async fn home() -> Response {
    page(plural_ui::assets())
}

/// Whatever no other route matches.
pub(crate) async fn any(request: Request) -> Response {
    answer(plural_ui::assets(), request.method(), request.uri().path(), request.headers())
}

/// Whether a path is one of the web console's own pages, as far as a server can tell.
pub(crate) fn is_page(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return false };
    let first = rest.split('/').next().unwrap_or_default();
    !RESERVED.contains(&first) && !RESERVED_BEGINNINGS.iter().any(|begin| first.starts_with(begin))
}

fn answer(assets: &'static [Asset], method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return nothing();
    }
    let found = assets.binary_search_by_key(&path, |asset| asset.path);
    match found.ok().and_then(|place| assets.get(place)).filter(|asset| asset.path != INDEX) {
        Some(asset) => file(asset, headers),
        None if is_page(path) && is_navigation(headers) => page(assets),
        None => nothing(),
    }
}

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Whether somebody opens a page: browsers say so, and older ones ask for HTML.
fn is_navigation(headers: &HeaderMap) -> bool {
    const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    match headers.get(MODE) {
        Some(mode) => mode.as_bytes() == b"navigate",
        None => headers.get_all(ACCEPT).iter().any(|kinds| {
            kinds.to_str().is_ok_and(|kinds| kinds.split(',').any(|kind| named(kind) == "text/html"))
        }),
    }
}

/// The name in an item of a list that has weights.
fn named(item: &str) -> &str {
    item.split(';').next().unwrap_or_default().trim()
}

fn page(assets: &'static [Asset]) -> Response {
    let Some(index) = assets.iter().find(|asset| asset.path == INDEX) else { return not_built() };
    match written(index.plain) {
        Ok(response) => response,
        Err(error) => failed(&error),
    }
}

/// The page. Libraries that make style sheets while they run need a nonce for them: style sheets of others, injected with a
/// name or a label, are not applied. Scripts need none, because all of them are files.
fn written(index: &[u8]) -> Result<Response> {
    let nonce = hex::encode(random::<16>()?);
    let text = String::from_utf8_lossy(index).replace(NONCE, &nonce);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; \
         img-src 'self' data:; font-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; \
         base-uri 'none'"
    );
    let policy =
        HeaderValue::from_str(&policy).map_err(|cause| Error::internal("writing a page's policy", cause))?;
    let mut response = Response::new(Body::from(text));
    // Each page has a nonce of its own, so none has an entity tag; it is small.
    sealed(&mut response, "text/html; charset=utf-8", "no-cache", policy);
    Ok(response)
}

fn not_built() -> Response {
    let body = "<p>This program was built without the web console. To have it, with Node.js:</p>\
                <pre>cd ui\nnpm ci\nnpm run build</pre><p>Then build the program again: <code>cargo build</code>.</p>\
                <p>The command line, the API and sign-in work without it.</p>\
                <a class=\"button\" href=\"/auth/account\">Your account</a>";
    html::page(StatusCode::OK, "The web console is not in this build", body)
}

fn file(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let cached =
        if asset.path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let (encoding, bytes) = match (asset.brotli, asset.gzip) {
        (Some(bytes), _) if accepts(headers, "br") => (Some("br"), bytes),
        (_, Some(bytes)) if accepts(headers, "gzip") => (Some("gzip"), bytes),
        _ => (None, asset.plain),
    };
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|tags| {
        tags.to_str().is_ok_and(|tags| {
            tags.split(',').any(|tag| tag.trim().strip_prefix("W/").unwrap_or(tag.trim()) == asset.tag)
        })
    });
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(bytes) });
    sealed(&mut response, asset.kind, cached, HeaderValue::from_static(PLAIN_POLICY));
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    // The same content in other encodings: a weak tag.
    if let Ok(tag) = HeaderValue::from_str(&format!("W/{}", asset.tag)) {
        headers.insert(ETAG, tag);
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// Whether a browser takes an encoding.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    let mut items = lists.flat_map(|list| list.split(','));
    items.any(|item| {
        let weight = item.split_once(';').map_or("", |(_, weight)| weight.trim());
        let is_refused = matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        named(item).eq_ignore_ascii_case(encoding) && !is_refused
    })
}

fn sealed(response: &mut Response, kind: &'static str, cached: &'static str, policy: HeaderValue) {
    const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
    const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, cached),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (OPENER, "same-origin"),
        (RESOURCE, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    const BUILT: &[Asset] = &[
        Asset {
            path: "/assets/index-3f2a.js",
            kind: "text/javascript; charset=utf-8",
            tag: "\"1\"",
            plain: b"plain",
            brotli: Some(b"brotli"),
            gzip: Some(b"gzip"),
        },
        Asset {
            path: "/favicon.svg",
            kind: "image/svg+xml",
            tag: "\"2\"",
            plain: b"<svg/>",
            brotli: None,
            gzip: None,
        },
        Asset {
            path: INDEX,
            kind: "text/html; charset=utf-8",
            tag: "\"3\"",
            plain: b"<meta name=csp-nonce content=__CSP_NONCE__>",
            brotli: None,
            gzip: None,
        },
    ];

    async fn get(path: &str, headers: &[(&'static str, &'static str)]) -> (StatusCode, HeaderMap, String) {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let (head, body) = answer(BUILT, &Method::GET, path, &headers).into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn whoever_opens_a_page_gets_the_page_and_nobody_else() {
        let opens = [("sec-fetch-mode", "navigate")];
        for path in ["/clusters", "/clusters/blue/services", "/authors", "/index.html", "/v10"] {
            assert_eq!(get(path, &opens).await.0, StatusCode::OK, "{path}");
            let by_kind = [("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")];
            assert_eq!(get(path, &by_kind).await.0, StatusCode::OK, "{path}");
            for no_page in
                [&[("sec-fetch-mode", "no-cors"), ("accept", "text/html")][..], &[("accept", "*/*")], &[]]
            {
                assert_eq!(get(path, no_page).await.0, StatusCode::NOT_FOUND, "{path}");
            }
            let posted = answer(BUILT, &Method::POST, path, &HeaderMap::new());
            assert_eq!(posted.status(), StatusCode::NOT_FOUND, "{path}");
        }
        for other in [
            "/auth/x",
            "/gql/x",
            "/k8s",
            "/assets/gone.js",
            "/plural.agent.v1.AgentService/X",
            "/.well-known/x",
        ] {
            assert_eq!(get(other, &opens).await.0, StatusCode::NOT_FOUND, "{other}");
        }
        assert_eq!(page(&[]).status(), StatusCode::OK, "it says how to build it");
    }

    #[tokio::test]
    async fn each_page_has_a_nonce_of_its_own_and_nothing_inline() {
        let opens = [("sec-fetch-mode", "navigate")];
        let (_, headers, text) = get("/clusters", &opens).await;
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert_eq!(text, format!("<meta name=csp-nonce content={nonce}>"));
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; ") && !policy.contains("unsafe"));
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{policy}");
        assert_eq!(headers[CACHE_CONTROL], "no-cache");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        let (_, again, _) = get("/clusters", &opens).await;
        assert_ne!(again[CONTENT_SECURITY_POLICY].to_str().unwrap(), policy);
    }

    #[tokio::test]
    async fn files_come_compressed_as_the_browser_asks_and_are_kept() {
        let script = "/assets/index-3f2a.js";
        for (accepted, encoding, body) in [
            ("gzip, deflate, br, zstd", Some("br"), "brotli"),
            ("gzip", Some("gzip"), "gzip"),
            ("br;q=0, gzip;q=0.5", Some("gzip"), "gzip"),
            ("identity", None, "plain"),
        ] {
            let (status, headers, text) = get(script, &[("accept-encoding", accepted)]).await;
            assert_eq!((status, text.as_str()), (StatusCode::OK, body), "{accepted}");
            assert_eq!(headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap()), encoding);
            assert_eq!(headers[VARY], "accept-encoding");
            assert_eq!(headers[CACHE_CONTROL], "public, max-age=31536000, immutable");
            assert_eq!(headers[CONTENT_SECURITY_POLICY], PLAIN_POLICY);
        }
        let (_, headers, _) = get("/favicon.svg", &[("accept-encoding", "br")]).await;
        assert_eq!(
            (&headers[CACHE_CONTROL], &headers[ETAG]),
            (&"no-cache".parse().unwrap(), &"W/\"2\"".parse().unwrap())
        );
        let (status, _, text) = get("/favicon.svg", &[("if-none-match", "\"9\", W/\"2\"")]).await;
        assert_eq!((status, text.as_str()), (StatusCode::NOT_MODIFIED, ""));
    }
}
