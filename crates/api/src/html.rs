//! Small pages, which work without scripts but for passkeys. Whatever is not ours is escaped.

use axum::{
    body::Body,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    response::Response,
};

/// Nothing but our own style sheet is loaded, forms go to us, and nobody frames us.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The same for a page with passkeys: our one script may run, and ask us.
const SCRIPTED: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
                        base-uri 'none'; frame-ancestors 'none'";
/// Asks browsers for passkeys.
const SCRIPT: &str = include_str!("passkeys.js");
/// The style sheet of all pages.
pub(crate) const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;background:#f5f6f8;color:#16181d;margin:0}
main{max-width:26rem;margin:12vh auto;background:#fff;padding:2rem;border:1px solid #dcdfe5;border-radius:8px}
h1{font-size:1.3rem;margin:0 0 1rem}
h2{font-size:1.1rem;margin:2rem 0 0}
label{display:block;margin:.8rem 0 .2rem}
input{width:100%;box-sizing:border-box;padding:.5rem;font:inherit;border:1px solid #8a919e;border-radius:4px}
button,a.button{display:block;width:100%;box-sizing:border-box;margin:1rem 0 0;padding:.6rem;font:inherit;text-align:center;\
text-decoration:none;color:#fff;background:#2b4acb;border:0;border-radius:4px;cursor:pointer}
dt{font-weight:600;margin-top:.6rem}
dd{margin:0;overflow-wrap:anywhere}
p.told{border-left:4px solid #b3261e;padding-left:.8rem}
@media (prefers-color-scheme:dark){body{background:#111318;color:#e8eaef}main{background:#1a1d24;border-color:#353a45}\
input{background:#111318;color:inherit}}
";

/// Text in a page or in an attribute of one.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Nothing that turns the order of what is read around, either.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A page; `body` is markup.
pub(crate) fn page(status: StatusCode, title: &str, body: &str) -> Response {
    written(status, title, body, "")
}

/// A page of which some forms need the script of passkeys.
pub(crate) fn page_with_script(status: StatusCode, title: &str, body: &str) -> Response {
    let mut response = written(status, title, body, "<script src=\"/auth/passkeys.js\" defer></script>");
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SCRIPTED));
    response
}

fn written(status: StatusCode, title: &str, body: &str, head: &str) -> Response {
    let title = escaped(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Plural</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"/auth/style.css\">{head}</head>\
         <body><main><h1>{title}</h1>{body}</main></body></html>\n"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    sealed(&mut response, "text/html; charset=utf-8");
    response
}

/// The same, whose form may also send the browser to this origin.
pub(crate) fn page_to(origin: &str, title: &str, body: &str) -> Response {
    let mut response = page(StatusCode::OK, title, body);
    let policy = POLICY.replace("form-action 'self'", &format!("form-action 'self' {origin}"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// A page that says that something did not work.
pub(crate) fn told(status: StatusCode, title: &str, text: &str) -> Response {
    let body = format!(
        "<p class=\"told\" role=\"alert\">{}</p><a class=\"button\" href=\"/auth/sign-in\">Sign in</a>",
        escaped(text)
    );
    page(status, title, &body)
}

/// Sends the browser on.
pub(crate) fn see_other(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    sealed(&mut response, "text/plain");
    match HeaderValue::from_str(to) {
        Ok(to) => {
            response.headers_mut().insert(LOCATION, to);
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_GATEWAY,
    }
    response
}

/// The style sheet.
pub(crate) async fn style() -> Response {
    let mut response = Response::new(Body::from(STYLE));
    sealed(&mut response, "text/css; charset=utf-8");
    response
}

/// The script of passkeys.
pub(crate) async fn script() -> Response {
    let mut response = Response::new(Body::from(SCRIPT));
    sealed(&mut response, "text/javascript; charset=utf-8");
    response
}

fn sealed(response: &mut Response, kind: &'static str) {
    const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Our own forms must name their origin.
        (REFERRER_POLICY, "same-origin"),
        (OPENER, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_text() {
        assert_eq!(
            escaped("<a href='x'>&\"\u{202e}\n"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn a_target_that_is_no_header_goes_nowhere() {
        assert_eq!(see_other("/auth/account\r\nx: y").status(), StatusCode::BAD_GATEWAY);
    }
}
