//! The console as a browser knows it: its origin, its cookies, and what a request with one of them has to show.
//!
//! A browser sends cookies with requests that other sites make it send. So a request that is authenticated by the session cookie
//! counts only with our own header, which no other site can make it send without being asked for permission, and from our own origin.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{COOKIE, ORIGIN},
};
use plural_core::{Error, Result};

/// What a request that is authenticated by the session cookie has to have, with any value.
pub(crate) const CSRF_HEADER: HeaderName = HeaderName::from_static("x-plural-csrf");
/// Bytes of all cookies that are looked at.
const LONGEST: usize = 12 << 10;

/// Which cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cookie {
    /// The session's token.
    Session,
    /// A login on its way to a provider and back.
    Login,
    /// What a passkey is asked.
    Passkey,
}

/// The console's address as browsers know it.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// `https://console.example.com`, as browsers write origins.
    origin: String,
    /// On this machine alone, the other name of the same.
    alias: Option<String>,
    is_secure: bool,
}

impl Site {
    /// The site of a public URL; none for one to which no session may go in clear.
    pub(crate) fn of(public_url: Option<&str>) -> Option<Self> {
        let url = url::Url::parse(public_url?).ok()?;
        let is_secure = url.scheme() == "https";
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let is_usable = is_secure || (url.scheme() == "http" && is_here);
        let origin = url.origin().ascii_serialization();
        let alias = match (url.host_str(), url.port_or_known_default(), is_secure) {
            (Some("127.0.0.1"), Some(port), false) => Some(format!("http://localhost:{port}")),
            (Some("localhost"), Some(port), false) => Some(format!("http://127.0.0.1:{port}")),
            _ => None,
        };
        is_usable.then_some(Self { origin, alias, is_secure })
    }

    /// Where this console's pages are.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    const fn name(&self, cookie: Cookie) -> &'static str {
        // The prefix keeps other hosts of the domain from setting it.
        match (cookie, self.is_secure) {
            (Cookie::Session, true) => "__Host-plural-session",
            (Cookie::Session, false) => "plural-session",
            (Cookie::Login, true) => "__Host-plural-login",
            (Cookie::Login, false) => "plural-login",
            (Cookie::Passkey, true) => "__Host-plural-passkey",
            (Cookie::Passkey, false) => "plural-passkey",
        }
    }

    /// The header that sets a cookie for so many seconds; for none it is removed.
    pub(crate) fn set(&self, cookie: Cookie, value: &str, seconds: i64) -> Result<HeaderValue> {
        let name = self.name(cookie);
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::from_str(&text).map_err(|cause| Error::internal("writing a cookie", cause))
    }

    /// The value of a cookie.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for several, of which one may be somebody else's.
    pub(crate) fn read<'a>(&self, headers: &'a HeaderMap, cookie: Cookie) -> Result<Option<&'a str>> {
        let name = self.name(cookie);
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.take_while(|line| line.len() <= LONGEST).flat_map(|line| line.split(';'));
        let mut values = pairs.filter_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='));
        let value = values.next();
        if values.next().is_some() {
            return Err(Error::Unauthenticated);
        }
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Whether a request says that one of our own pages made it.
    pub(crate) fn is_own(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(origin), None) => [Some(&self.origin), self.alias.as_ref()]
                .into_iter()
                .flatten()
                .any(|own| origin.as_bytes() == own.as_bytes()),
            _ => false,
        }
    }

    /// The token of the session cookie, if a socket may use it: a page can send no header with one, but a browser says which
    /// page it is.
    ///
    /// # Errors
    /// [`Error::Forbidden`] where it is none of ours.
    pub(crate) fn session_of_socket<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a str>> {
        let Some(token) = self.read(headers, Cookie::Session)? else { return Ok(None) };
        if !self.is_own(headers) {
            let told = "a socket with the session cookie is opened by pages at {}; programs send an access token instead";
            return Err(Error::forbidden(told.replace("{}", &self.origin)));
        }
        Ok(Some(token))
    }

    /// The token of the session cookie, if the request may use it.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a request that another site may have made.
    pub(crate) fn session<'a>(&self, method: &Method, headers: &'a HeaderMap) -> Result<Option<&'a str>> {
        let Some(token) = self.read(headers, Cookie::Session)? else { return Ok(None) };
        // Browsers name no origin when a page reads from its own.
        let reads = method == Method::GET && !headers.contains_key(ORIGIN);
        if !headers.contains_key(CSRF_HEADER) || !(reads || self.is_own(headers)) {
            return Err(Error::forbidden(format!(
                "a request with the session cookie needs the header {CSRF_HEADER} and the origin {}; \
                 programs send an access token instead",
                self.origin
            )));
        }
        Ok(Some(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn sessions_go_over_tls_or_stay_on_this_machine() {
        assert_eq!(
            Site::of(Some("https://Console.Example.com:443/x")).unwrap().origin(),
            "https://console.example.com"
        );
        assert_eq!(Site::of(Some("http://127.0.0.1:8080")).unwrap().origin(), "http://127.0.0.1:8080");
        for none in [
            None,
            Some("http://console.example.com"),
            Some("http://127.0.0.1.evil.test"),
            Some("x"),
            Some("file:///"),
        ] {
            assert!(Site::of(none).is_none(), "{none:?}");
        }
        let site = Site::of(Some("https://c.example.com")).unwrap();
        let set = site.set(Cookie::Session, "console-1", 60).unwrap();
        assert_eq!(
            set,
            "__Host-plural-session=console-1; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
        );
        assert!(site.set(Cookie::Session, "a\r\nb", 60).is_err());
    }

    #[test]
    fn this_machine_has_two_names() {
        for (url, own) in [
            ("http://127.0.0.1:8080", ["http://127.0.0.1:8080", "http://localhost:8080"]),
            ("http://localhost:8080", ["http://localhost:8080", "http://127.0.0.1:8080"]),
        ] {
            let site = Site::of(Some(url)).unwrap();
            assert!(own.iter().all(|own| site.is_own(&headers(&[("origin", own)]))), "{url}");
            for other in
                ["http://localhost:8081", "http://localhost", "https://localhost:8080", "http://[::1]:8080"]
            {
                assert!(!site.is_own(&headers(&[("origin", other)])), "{url}: {other}");
            }
        }
        let site = Site::of(Some("https://localhost:8080")).unwrap();
        assert!(!site.is_own(&headers(&[("origin", "http://127.0.0.1:8080")])));
    }

    #[test]
    fn another_site_cannot_use_the_cookie() {
        let site = Site::of(Some("https://c.example.com")).unwrap();
        let cookie = ("cookie", "a=b; __Host-plural-session=console-1");
        let (mark, own) = (("x-plural-csrf", "1"), ("origin", "https://c.example.com"));
        let post = |pairs: &[(&'static str, &str)]| {
            site.session(&Method::POST, &headers(pairs)).map(|token| token.map(str::to_owned))
        };
        assert_eq!(post(&[cookie, mark, own]).unwrap().as_deref(), Some("console-1"));
        assert_eq!(post(&[mark, own]).unwrap(), None);
        for wrong in [
            &[cookie][..],
            &[cookie, mark],
            &[cookie, own],
            &[cookie, mark, ("origin", "null")],
            &[cookie, mark, ("origin", "https://evil.test")],
            &[cookie, mark, ("origin", "http://c.example.com")],
            &[cookie, mark, ("origin", "https://c.example.com.evil.test")],
            &[cookie, mark, own, ("origin", "https://evil.test")],
        ] {
            assert!(matches!(post(wrong), Err(Error::Forbidden { .. })), "{wrong:?}");
        }
        let twice = [cookie, ("cookie", "__Host-plural-session=console-2"), mark, own];
        let twice: HeaderMap = twice
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        assert!(matches!(site.session(&Method::POST, &twice), Err(Error::Unauthenticated)));
        let socket = |pairs: &[(&'static str, &str)]| {
            site.session_of_socket(&headers(pairs)).map(|token| token.map(str::to_owned))
        };
        assert_eq!(socket(&[cookie, own]).unwrap().as_deref(), Some("console-1"));
        assert_eq!(socket(&[]).unwrap(), None);
        for wrong in [&[cookie][..], &[cookie, mark], &[cookie, ("origin", "https://evil.test")]] {
            assert!(matches!(socket(wrong), Err(Error::Forbidden { .. })), "{wrong:?}");
        }
        let read = |pairs: &[(&'static str, &str)]| site.session(&Method::GET, &headers(pairs)).is_ok();
        assert!(read(&[cookie, mark]) && read(&[cookie, mark, own]));
        assert!(!read(&[cookie]) && !read(&[cookie, mark, ("origin", "https://evil.test")]));
    }
}
