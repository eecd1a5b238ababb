//! Signing in to a registry: the challenge of a 401, and the token that answers it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use reqwest::{Url, header::HeaderValue};
use serde::Deserialize;

use crate::{
    access::{Access, Credentials, Origin, shown},
    client::SignIn,
    error::{Cause, Error, Result},
    http::{Get, Http, refusal},
};

/// Bytes of a token service's answer.
const ANSWER_BYTES: u64 = 256 << 10;
/// Tokens kept.
const TOKENS: usize = 4096;
/// How long a token is good for when its service does not say, by the specification; and at most.
const DEFAULT_SECONDS: u64 = 60;
const MAX_SECONDS: u64 = 3600;
/// A token is given up so long before its end.
const MARGIN: Duration = Duration::from_secs(10);

/// Tokens that were given, until they end.
#[derive(Default)]
pub(crate) struct Tokens {
    known: Mutex<HashMap<String, (Instant, HeaderValue)>>,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// `Bearer realm="…",service="…"`, or `Basic …`.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

impl Tokens {
    /// A token that is still good.
    pub(crate) fn known(&self, access: &Access, name: &str) -> Option<HeaderValue> {
        let known = self.lock();
        let (until, value) = known.get(&key(access, name))?;
        (*until > Instant::now()).then(|| value.clone())
    }

    /// What answers the challenge; nothing when there is nothing to answer it with.
    pub(crate) async fn sign_in(
        &self,
        http: &Http,
        access: &Access,
        name: &str,
        challenges: impl Iterator<Item = &str>,
    ) -> Result<Option<HeaderValue>> {
        let challenges: Vec<Challenge> = challenges.filter_map(parse).collect();
        for challenge in challenges {
            match challenge {
                Challenge::Basic => {
                    if matches!(access.credentials, Credentials::Basic { .. }) {
                        return access.authorization();
                    }
                }
                Challenge::Bearer { realm, service } => {
                    // A token that the owner gave was sent already, and is not what the registry wants.
                    if access.has_bearer() {
                        return Ok(None);
                    }
                    return self.ask(http, access, name, &realm, service.as_deref()).await.map(Some);
                }
            }
        }
        Ok(None)
    }

    async fn ask(
        &self,
        http: &Http,
        access: &Access,
        name: &str,
        realm: &str,
        service: Option<&str>,
    ) -> Result<HeaderValue> {
        let at = shown(&access.url);
        let mut url = Url::parse(realm)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.username().is_empty())
            .ok_or_else(|| {
                Error::malformed(format!("{at} names a sign-in service that is not an address"))
            })?;
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &format!("repository:{name}:pull"));
        }
        let authorization = access.authorization()?;
        if authorization.is_some() && !may_sign_in(&access.url, &url, http.sign_in()) {
            return Err(Error::new(
                Cause::Refused,
                format!(
                    "{at} wants its credentials sent to {}, which is not known to be its sign-in service: they were \
                     not; where it is, have the console's operator say so (--registry-sign-in {}={})",
                    shown(&url),
                    access.url.host_str().unwrap_or_default(),
                    url.host_str().unwrap_or_default(),
                ),
            ));
        }
        // The sign-in service is home for this one request.
        let home = Access { url: url.clone(), ..access.clone() };
        let reply = http
            .get(Get {
                url: url.clone(),
                access: &home,
                authorization,
                headers: Vec::new(),
                limit: ANSWER_BYTES,
            })
            .await?;
        if !reply.status.is_success() {
            return Err(refusal(&url, &reply, "token for it"));
        }
        let unreadable = || Error::malformed(format!("{} answers with no token", shown(&url)));
        let answer: Answer = serde_json::from_slice(&reply.body).map_err(|_| unreadable())?;
        let token =
            answer.token.or(answer.access_token).filter(|token| !token.is_empty()).ok_or_else(unreadable)?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unreadable())?;
        value.set_sensitive(true);
        let lasts = Duration::from_secs(
            answer.expires_in.unwrap_or(DEFAULT_SECONDS).clamp(DEFAULT_SECONDS, MAX_SECONDS),
        );
        let mut known = self.lock();
        if known.len() >= TOKENS {
            let now = Instant::now();
            known.retain(|_, (until, _)| *until > now);
            if known.len() >= TOKENS {
                known.clear();
            }
        }
        known.insert(key(access, name), (Instant::now() + lasts.saturating_sub(MARGIN), value.clone()));
        Ok(value)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, HeaderValue)>> {
        self.known.lock()
    }
}

fn key(access: &Access, name: &str) -> String {
    format!("{} {name}", access.fingerprint())
}

/// Registries whose sign-in service is another host of the same owner.
const SIGN_IN: &[(&str, &str)] = &[
    ("docker.io", "auth.docker.io"),
    ("index.docker.io", "auth.docker.io"),
    ("registry-1.docker.io", "auth.docker.io"),
    ("registry.gitlab.com", "gitlab.com"),
];

/// Whether a registry's credentials may go to this sign-in service: to the registry itself, or, encrypted, to a host that is
/// known to be its service. A common domain proves nothing: many registries of different people share one.
fn may_sign_in(registry: &Url, realm: &Url, told: &[SignIn]) -> bool {
    if Origin::of(registry) == Origin::of(realm) {
        return true;
    }
    let (Some(host), Some(service)) = (registry.host_str(), realm.host_str()) else { return false };
    let known = SIGN_IN.contains(&(host, service))
        || told.iter().any(|told| told.registry == host && told.service == service);
    let default_ports = registry.port().is_none() && realm.port().is_none();
    known && default_ports && realm.scheme() == "https" && registry.scheme() == "https"
}

fn parse(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = rest.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        match name.trim().trim_start_matches(',').trim() {
            "realm" => realm = Some(value.to_owned()),
            "service" => service = Some(value.to_owned()),
            _ => {}
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(Challenge::Bearer { realm: realm?, service })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges() {
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(
            parse("Bearer realm=\"https://a/token\",service=\"reg, one\",scope=\"repository:a:pull\""),
            Some(Challenge::Bearer { realm: "https://a/token".into(), service: Some("reg, one".into()) })
        );
        assert_eq!(
            parse("bearer service=x, realm=https://a/t"),
            Some(Challenge::Bearer { realm: "https://a/t".into(), service: Some("x".into()) })
        );
        for bad in ["", "Bearer", "Bearer realm", "Bearer realm=\"x", "Negotiate abc"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn credentials_stay_with_the_registry_and_its_sign_in_service() {
        let told = [SignIn { registry: "reg.example.com".into(), service: "auth.example.com".into() }];
        let may = |registry: &str, realm: &str| {
            may_sign_in(&Url::parse(registry).unwrap(), &Url::parse(realm).unwrap(), &told)
        };
        assert!(may("https://registry-1.docker.io/", "https://auth.docker.io/token"));
        assert!(may("https://registry.gitlab.com/", "https://gitlab.com/jwt/auth"));
        assert!(may("http://127.0.0.1:5000/", "http://127.0.0.1:5000/token"));
        assert!(may("https://reg.example.com/", "https://auth.example.com/token"));
        for (registry, realm) in [
            ("https://other.example.com/", "https://auth.example.com/token"),
            ("https://reg.example.com:5000/", "https://auth.example.com/token"),
            ("https://reg.example.com/", "https://auth.example.com:444/token"),
            ("https://team.azurecr.io/", "https://evil.azurecr.io/token"),
            ("https://1.dkr.ecr.eu-west-1.amazonaws.com/", "https://evil.amazonaws.com/token"),
            ("https://registry.shop.co.uk/", "https://evil.co.uk/token"),
            ("https://[2001:db8::1]/", "https://[2001:db8::2]/token"),
            ("https://registry.gitlab.com/", "https://gitlab.com.evil.test/jwt/auth"),
        ] {
            assert!(!may(registry, realm), "{registry} {realm}");
        }
        assert!(!may("https://reg.example.com/", "https://evil.test/token"));
        assert!(!may("https://reg.example.com/", "http://auth.example.com/token"));
        assert!(!may("http://127.0.0.1:5000/", "http://127.0.0.1:5001/token"));
        assert!(!may("https://10.0.0.1/", "https://9.0.0.1/token"));
        assert!(!may("https://registry/", "https://other/token"));
    }
}
