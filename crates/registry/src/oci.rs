//! OCI registries: tags, manifests and blobs of one repository.
//!
//! Written here and not taken from `oci-client`: what it has to offer beyond this are pushes and image layouts, while the
//! rules that matter here (where a credential may go, which addresses are connected to, how much is read) would have to
//! be put around it.

mod manifest;
mod signatures;
mod token;

use std::collections::BTreeSet;

use bytes::Bytes;
use plural_versions::{Constraint, Version};
use reqwest::{
    StatusCode, Url,
    header::{ACCEPT, HeaderValue, LINK, WWW_AUTHENTICATE},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use manifest::{Layer, Manifest};
pub(crate) use token::Tokens;

use crate::{
    access::{Access, Origin, printable, shown},
    error::{Cause, Error, Result},
    http::{Get, Http, Reply, refusal},
};

/// Bytes of a manifest, as registries limit it, and of a list of tags.
const MANIFEST_BYTES: u64 = 4 << 20;
/// Pages of tags that are read, and tags in all.
const TAG_PAGES: usize = 100;
const MAX_TAGS: usize = 100_000;
const ACCEPTED: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// One repository of a registry.
pub(crate) struct Repository<'a> {
    http: &'a Http,
    tokens: &'a Tokens,
    access: &'a Access,
    /// `team/charts/web`.
    name: String,
}

impl<'a> Repository<'a> {
    /// The repository at the access' address, or below it when a chart is named.
    pub(crate) fn new(
        http: &'a Http,
        tokens: &'a Tokens,
        access: &'a Access,
        chart: Option<&str>,
    ) -> Result<Self> {
        let base = access.url.path().trim_matches('/');
        let name = match chart {
            Some(chart) if base.is_empty() => chart.to_owned(),
            Some(chart) => format!("{base}/{chart}"),
            None => base.to_owned(),
        };
        if !is_name(&name) {
            return Err(Error::invalid(format!(
                "{:?} is not the name of a repository in a registry",
                printable(&name)
            )));
        }
        Ok(Self { http, tokens, access, name })
    }

    /// Which tag is meant: exactly this one, or the highest version in a range.
    pub(crate) async fn tag(&self, wanted: &str) -> Result<String> {
        let exact = Version::parse(wanted).is_ok()
            && wanted.split(['-', '+']).next().unwrap_or_default().matches('.').count() == 2;
        if exact {
            return Ok(to_tag(wanted));
        }
        match Constraint::parse(if wanted.is_empty() { "*" } else { wanted }) {
            Ok(range) => {
                let tags = self.tags().await?;
                // Registries allow no "+" in a tag; Helm writes "_" for it.
                let versions: Vec<(Version, &String)> = tags
                    .iter()
                    .filter_map(|tag| {
                        Version::parse(&tag.replace('_', "+")).ok().map(|version| (version, tag))
                    })
                    .collect();
                plural_versions::highest(&range, versions.iter().map(|(version, tag)| (version, *tag)))
                    .map(|(_, tag)| tag.clone())
                    .ok_or_else(|| {
                        Error::new(
                            Cause::NotFound,
                            format!("{} has no version in {:?}", self.shown(), printable(wanted)),
                        )
                    })
            }
            Err(_) if is_tag(wanted) => Ok(wanted.to_owned()),
            Err(_) => Err(Error::invalid(format!(
                "{:?} is not a version, range of versions, tag or digest",
                printable(wanted)
            ))),
        }
    }

    async fn tags(&self) -> Result<BTreeSet<String>> {
        let mut tags = BTreeSet::new();
        let mut next = Some(self.url("tags/list?n=1000")?);
        let home = Origin::of(&self.access.url);
        for _ in 0..TAG_PAGES {
            let Some(url) = next else { return Ok(tags) };
            let reply = self.get(&url, None, MANIFEST_BYTES).await?;
            if !reply.status.is_success() {
                return Err(refusal(&url, &reply, "tags"));
            }
            let page: Value =
                serde_json::from_slice(&reply.body).map_err(|_| self.malformed("its list of tags"))?;
            tags.extend(
                page.get("tags")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned),
            );
            if tags.len() > MAX_TAGS {
                return Err(Error::new(
                    Cause::TooLarge,
                    format!("{} has more than {MAX_TAGS} tags", self.shown()),
                ));
            }
            next = next_page(&reply, &url).filter(|next| Origin::of(next) == home);
        }
        Err(Error::new(Cause::TooLarge, format!("{} has more than {TAG_PAGES} pages of tags", self.shown())))
    }

    /// The manifest of a tag or a digest (`sha256:…`), verified.
    pub(crate) async fn manifest(&self, reference: &str) -> Result<Manifest> {
        let url = self.url(&format!("manifests/{reference}"))?;
        let reply = self.get(&url, Some(ACCEPTED), MANIFEST_BYTES).await?;
        if !reply.status.is_success() {
            return Err(refusal(&url, &reply, &format!("manifest {:?}", printable(reference))));
        }
        let actual = format!("sha256:{}", hex::encode(Sha256::digest(&reply.body)));
        if reference.starts_with("sha256:") && reference != actual {
            return Err(Error::untrusted(format!(
                "{} answers with the manifest {actual} where {reference} was asked for",
                self.shown()
            )));
        }
        let claimed = reply.headers.get("docker-content-digest").and_then(|value| value.to_str().ok());
        if claimed.is_some_and(|claimed| claimed.starts_with("sha256:") && claimed != actual) {
            return Err(Error::untrusted(format!(
                "{} says that a manifest has another digest than it has ({actual})",
                self.shown()
            )));
        }
        Manifest::parse(&reply.body, actual).ok_or_else(|| self.malformed("a manifest"))
    }

    /// The bytes of a layer, verified.
    pub(crate) async fn blob(&self, layer: &Layer, limit: u64) -> Result<Bytes> {
        let Layer { digest, size, .. } = layer;
        if *size > limit {
            return Err(Error::new(
                Cause::TooLarge,
                format!("{} has a layer of {size} bytes; at most {limit} are read", self.shown()),
            ));
        }
        let url = self.url(&format!("blobs/{digest}"))?;
        let reply = self.get(&url, None, limit).await?;
        if !reply.status.is_success() {
            return Err(refusal(&url, &reply, "such blob"));
        }
        let actual = format!("sha256:{}", hex::encode(Sha256::digest(&reply.body)));
        if actual != *digest {
            return Err(Error::untrusted(format!(
                "{} answers with the blob {actual} where {digest} was asked for",
                self.shown()
            )));
        }
        Ok(reply.body)
    }

    /// Asks, and signs in when the registry wants that.
    async fn get(&self, url: &Url, accept: Option<&'static str>, limit: u64) -> Result<Reply> {
        let mut authorization = match self.tokens.known(self.access, &self.name) {
            Some(token) => Some(token),
            // Sent unasked only where the token is the registry's own; a name and password wait for the challenge.
            None => self.access.authorization()?.filter(|_| self.access.has_bearer()),
        };
        let mut signed_in = false;
        loop {
            let accept = accept.map(|accept| (ACCEPT, HeaderValue::from_static(accept)));
            let reply = self
                .http
                .get(Get {
                    url: url.clone(),
                    access: self.access,
                    authorization,
                    headers: accept.into_iter().collect(),
                    limit,
                })
                .await?;
            if reply.status != StatusCode::UNAUTHORIZED || signed_in {
                return Ok(reply);
            }
            signed_in = true;
            let challenges =
                reply.headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
            match self.tokens.sign_in(self.http, self.access, &self.name, challenges).await? {
                Some(value) => authorization = Some(value),
                None => return Ok(reply),
            }
        }
    }

    fn url(&self, rest: &str) -> Result<Url> {
        self.access
            .url
            .join(&format!("/v2/{}/{rest}", self.name))
            .map_err(|_| Error::invalid(format!("{} is not an address", self.shown())))
    }

    /// The repository for people.
    pub(crate) fn shown(&self) -> String {
        let host = shown(&self.access.url);
        let host = host.split("://").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
        format!("oci://{host}/{}", self.name)
    }

    fn malformed(&self, what: &str) -> Error {
        Error::malformed(format!("{} has {what} that cannot be read", self.shown()))
    }
}

/// A version as a tag.
fn to_tag(version: &str) -> String {
    version.replace('+', "_")
}

/// A tag as a version.
pub(crate) fn from_tag(tag: &str) -> String {
    tag.replace('_', "+")
}

/// `LINK: </v2/…?last=…>; rel="next"`.
fn next_page(reply: &Reply, url: &Url) -> Option<Url> {
    let link = reply.headers.get(LINK)?.to_str().ok()?;
    let (target, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| url.join(target).ok()).flatten()
}

/// By the distribution specification: lower-case parts between slashes.
fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    name.len() <= 255 && name.split('/').all(part)
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// `sha256:` and 64 hex digits, in lower case.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_tags() {
        for good in ["a", "team/charts/web-1", "a.b_c/d"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "A", "a//b", "../a", "a/..", "a/-b", "a b", "a?b", "a%2e", "a:b"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_tag("v1.0.0_build") && is_tag("latest") && !is_tag("-x") && !is_tag("a/b") && !is_tag(""));
        assert!(is_digest(&format!("sha256:{}", "a1".repeat(32))));
        assert!(!is_digest(&format!("sha256:{}", "A1".repeat(32))) && !is_digest("sha256:a"));
    }
}
