//! Versions, digests and content: [`Client`].

use std::{collections::HashSet, str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use plural_reach::{Lookup, Reach, SystemLookup};
use plural_versions::Version;
use sha2::{Digest as _, Sha256};

use crate::{
    access::{Access, printable, shown},
    charts::Charts,
    cosign::PublicKey,
    error::{Cause, Error, Result},
    flight::Flights,
    http::{Http, Proxies},
    oci::{self, Layer, Repository, Tokens, from_tag},
};

/// Pairs of repository and content that are remembered. Beyond that they are fetched once more.
const ORIGINS: usize = 50_000;

/// A registry's sign-in service on another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// Host of the registry.
    pub registry: String,
    /// Host of the service.
    pub service: String,
}

impl FromStr for SignIn {
    type Err = Error;

    /// From `REGISTRY=SERVICE`, two host names.
    fn from_str(text: &str) -> Result<Self> {
        let host = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
            (!text.is_empty() && text.chars().all(plain)).then(|| text.to_ascii_lowercase())
        };
        let hosts = text.split_once('=').and_then(|(registry, service)| host(registry).zip(host(service)));
        let (registry, service) =
            hosts.ok_or_else(|| Error::invalid("must be REGISTRY=SERVICE, two host names without ports"))?;
        Ok(Self { registry, service })
    }
}

/// How a client behaves.
#[derive(Clone)]
pub struct Options {
    /// Which addresses are talked to.
    pub reach: Reach,
    /// How names become addresses.
    pub lookup: Arc<dyn Lookup>,
    /// Proxies, where a repository names none.
    pub proxies: Proxies,
    /// Sign-in services on other hosts than their registries, which get the registries' credentials.
    pub sign_in: Vec<SignIn>,
    /// Credentials are sent over http too, where everybody on the way can read them.
    pub credentials_over_http: bool,
    /// How long one request may take, redirects and content included.
    pub timeout: Duration,
    /// Requests to one host at once.
    pub per_host: usize,
    /// Bytes of an index.
    pub index_bytes: u64,
    /// Bytes of an archive.
    pub archive_bytes: u64,
    /// Indexes kept in memory.
    pub indexes: usize,
    /// Bytes of them together, about.
    pub indexes_bytes: usize,
    /// Bytes of answers that are held at once: being read, or read and not yet put away. One party has as many as it leaves
    /// to others.
    pub held_bytes: u64,
    /// What the client calls itself.
    pub user_agent: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reach: Reach::default(),
            lookup: Arc::new(SystemLookup),
            proxies: Proxies::Environment,
            sign_in: Vec::new(),
            credentials_over_http: false,
            timeout: Duration::from_mins(1),
            per_host: 8,
            index_bytes: 64 << 20,
            archive_bytes: 64 << 20,
            indexes: 64,
            indexes_bytes: 64 << 20,
            held_bytes: 256 << 20,
            user_agent: "plural".to_owned(),
        }
    }
}

/// Keeps content under its digest.
#[async_trait]
pub trait Content: Send + Sync + 'static {
    /// The content with this lower-case hex SHA-256. What is returned is verified again.
    async fn get(&self, digest: &str) -> Result<Option<Bytes>>;
    /// Keeps content.
    async fn put(&self, digest: &str, content: Bytes) -> Result<()>;
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// So old at most.
    Within(Duration),
    /// As it is now.
    Now,
}

impl Default for Freshness {
    fn default() -> Self {
        Self::Within(Duration::from_mins(5))
    }
}

/// What was resolved before, so that nobody can turn it back or swap it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Version.
    pub version: String,
    /// Digest.
    pub digest: String,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The repository.
    pub access: &'a Access,
    /// The chart in it; none for an artifact whose address is the repository's.
    pub chart: Option<&'a str>,
    /// A version, a range, a tag or a digest (`sha256:…`); a version or tag may be followed by `@sha256:…`.
    pub version: &'a str,
    /// The key that it must be signed with.
    pub signed_by: Option<&'a PublicKey>,
    /// What the same question was answered with last.
    pub pin: Option<&'a Pin>,
    /// How old an index may be.
    pub freshness: Freshness,
}

impl<'a> Wanted<'a> {
    /// A chart, by version or range.
    pub fn chart(access: &'a Access, chart: &'a str, version: &'a str, freshness: Freshness) -> Self {
        Self { access, chart: Some(chart), version, signed_by: None, pin: None, freshness }
    }
}

/// What content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A packed Helm chart.
    Chart,
    /// A tar of manifests.
    Manifests,
}

/// An answer: which version, and the digest that fixes its content.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The version, tag or digest.
    pub version: String,
    /// `sha256:…`: of the archive in a chart repository, of the manifest in a registry.
    pub digest: String,
    /// What it is.
    pub kind: Kind,
    pub(crate) place: Place,
    /// The caller had it from there before: see [`Pin`].
    pub(crate) is_pinned: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// At this address, which may be on a host of somebody else.
    Web { url: reqwest::Url },
    /// In a registry.
    Registry { chart: Option<String>, layer: Layer, provenance: Option<Layer> },
    /// In a registry that a chart repository points to; asked without credentials.
    Elsewhere { access: Box<Access>, layer: Layer, provenance: Option<Layer> },
}

/// Reads chart repositories and registries. Cheap to share; holds connections, indexes and tokens, all bounded.
pub struct Client {
    options: Options,
    http: Http,
    tokens: Tokens,
    charts: Charts,
    content: Arc<dyn Content>,
    flights: Flights,
    /// From whom which content came. What is kept is kept for all, and given only to who could have it from where they ask.
    origins: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client that keeps what it gets in `content`.
    pub fn new(options: Options, content: Arc<dyn Content>) -> Self {
        Self {
            http: Http::new(options.clone()),
            tokens: Tokens::default(),
            charts: Charts::new(options.indexes, options.indexes_bytes),
            content,
            flights: Flights::default(),
            origins: Mutex::default(),
            options,
        }
    }

    /// Which version is meant, and its digest.
    ///
    /// # Errors
    /// [`Cause::Untrusted`] when a required signature is missing, the version is listed twice, or the pin is contradicted:
    /// a range now leads to an older version, or a version has other content than before.
    pub async fn resolve(&self, wanted: &Wanted<'_>) -> Result<Resolved> {
        let (version, fixed) = match wanted.version.trim().split_once('@') {
            _ if oci::is_digest(wanted.version.trim()) => ("", Some(wanted.version.trim())),
            Some((version, digest)) => (version.trim(), Some(digest.trim())),
            None => (wanted.version.trim(), None),
        };
        if let Some(digest) = fixed.filter(|digest| !oci::is_digest(digest)) {
            return Err(Error::invalid(format!(
                "{:?} is not a digest: write sha256: and 64 hex digits in lower case",
                printable(digest)
            )));
        }
        let resolved = if wanted.access.is_oci() {
            self.resolve_oci(wanted, version, fixed).await?
        } else {
            self.resolve_web(wanted, version, fixed).await?
        };
        if let Some(pin) = wanted.pin.filter(|_| fixed.is_none()) {
            check_pin(pin, version, &resolved)?;
        }
        let is_pinned = wanted.pin.is_some_and(|pin| pin.digest == resolved.digest);
        Ok(Resolved { is_pinned, ..resolved })
    }

    async fn resolve_oci(&self, wanted: &Wanted<'_>, version: &str, fixed: Option<&str>) -> Result<Resolved> {
        let repository = Repository::new(&self.http, &self.tokens, wanted.access, wanted.chart)?;
        let (tag, manifest) = if let Some(digest) = fixed {
            (version.to_owned(), repository.manifest(digest).await?)
        } else {
            let tag = repository.tag(version).await?;
            let manifest = repository.manifest(&tag).await?;
            (tag, manifest)
        };
        if let Some(key) = wanted.signed_by {
            repository.verify(&manifest.digest, key).await?;
        }
        let kind = if manifest.is_chart() { Kind::Chart } else { Kind::Manifests };
        if wanted.chart.is_some() && kind != Kind::Chart {
            return Err(Error::malformed(format!("{} is not a Helm chart", repository.shown())));
        }
        let named = manifest.annotations.get("org.opencontainers.image.version");
        let version = match tag.as_str() {
            "" => named.cloned().unwrap_or_else(|| manifest.digest.clone()),
            tag => from_tag(tag),
        };
        let layer = manifest.content()?.clone();
        let provenance = manifest.provenance().cloned();
        let place = Place::Registry { chart: wanted.chart.map(str::to_owned), layer, provenance };
        Ok(Resolved { version, digest: manifest.digest, kind, place, is_pinned: false })
    }

    async fn resolve_web(&self, wanted: &Wanted<'_>, version: &str, fixed: Option<&str>) -> Result<Resolved> {
        let Wanted { access, signed_by, freshness, .. } = wanted;
        let at = shown(&access.url);
        let chart = wanted.chart.ok_or_else(|| {
            Error::invalid(format!("{at} is a repository of charts: name the one that is meant"))
        })?;
        if signed_by.is_some() {
            return Err(Error::untrusted(format!(
                "the service requires a cosign signature, which only a registry (oci://) can hold; {at} is none"
            )));
        }
        if version.is_empty() && fixed.is_some() {
            return Err(Error::invalid(
                "a chart repository finds nothing by digest alone: write VERSION@sha256:…",
            ));
        }
        let index = self.charts.index(&self.http, access, *freshness, self.options.index_bytes).await?;
        let entry = index.find(chart, version)?;
        let found = entry.version.original.clone();
        let address = entry.url.as_deref().ok_or_else(|| {
            Error::malformed(format!("{at} names no address for {} {found}", printable(chart)))
        })?;
        if address.starts_with("oci://") {
            return self.resolve_elsewhere(address, &found, fixed).await;
        }
        let url = access.url.join(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            Error::malformed(format!("{at} names an address for {} {found} that is none", printable(chart)))
        })?;
        let digest = match &entry.digest {
            Some(digest) => format!("sha256:{digest}"),
            // An index without digests: the content tells, once.
            None => format!("sha256:{}", self.charts.digest_of(self, access, &url, *freshness).await?),
        };
        if !oci::is_digest(&digest) {
            return Err(Error::malformed(format!(
                "{at} has a digest of {} {found} that is none",
                printable(chart)
            )));
        }
        if let Some(fixed) = fixed.filter(|fixed| *fixed != digest) {
            return Err(Error::untrusted(format!(
                "{} {found} has the digest {digest} in {at}, and the service asks for {fixed}",
                printable(chart)
            )));
        }
        let place = Place::Web { url };
        Ok(Resolved { version: found, digest, kind: Kind::Chart, place, is_pinned: false })
    }

    /// A chart repository whose archives are in a registry: `oci://host/path/chart:1.2.3`. It is another host, so nobody
    /// signs in to it.
    async fn resolve_elsewhere(&self, address: &str, version: &str, fixed: Option<&str>) -> Result<Resolved> {
        let (address, tag) = match address.rsplit_once(':') {
            Some((address, tag)) if !tag.contains('/') => (address, tag.to_owned()),
            _ => (address, version.replace('+', "_")),
        };
        let access = Access::new(address)?;
        let repository = Repository::new(&self.http, &self.tokens, &access, None)?;
        let manifest = repository.manifest(fixed.unwrap_or(&tag)).await?;
        if !manifest.is_chart() {
            return Err(Error::malformed(format!("{} is not a Helm chart", repository.shown())));
        }
        let layer = manifest.content()?.clone();
        let provenance = manifest.provenance().cloned();
        let place = Place::Elsewhere { access: Box::new(access), layer, provenance };
        let (version, digest) = (version.to_owned(), manifest.digest);
        Ok(Resolved { version, digest, kind: Kind::Chart, place, is_pinned: false })
    }

    /// The archive, verified: from where content is kept, or from the repository, once for all who ask at the same time.
    ///
    /// # Errors
    /// [`Cause::Untrusted`] when it does not have the digest.
    pub async fn content(&self, access: &Access, resolved: &Resolved) -> Result<Bytes> {
        let limit = self.options.archive_bytes;
        let known = resolved.is_pinned;
        match &resolved.place {
            Place::Web { url } => {
                let digest = resolved.digest.trim_start_matches("sha256:");
                let fetch = || self.charts.archive(&self.http, access, url, limit);
                self.kept(&origin(access, None, digest), known, digest, fetch).await.map_err(|error| {
                    match error.cause {
                        Cause::Untrusted => Error::untrusted(format!(
                            "{} does not have the digest {} that its index promises",
                            shown(url),
                            resolved.digest
                        )),
                        _ => error,
                    }
                })
            }
            Place::Registry { chart, layer, provenance: _ } => {
                let repository = Repository::new(&self.http, &self.tokens, access, chart.as_deref())?;
                let digest = layer.digest.trim_start_matches("sha256:");
                let origin = origin(access, chart.as_deref(), digest);
                self.kept(&origin, known, digest, || repository.blob(layer, limit)).await
            }
            Place::Elsewhere { access, layer, provenance: _ } => {
                let repository = Repository::new(&self.http, &self.tokens, access, None)?;
                let digest = layer.digest.trim_start_matches("sha256:");
                let origin = origin(access, None, digest);
                self.kept(&origin, known, digest, || repository.blob(layer, limit)).await
            }
        }
    }

    /// What is kept under the hex SHA-256 of something that this client fetched for the same party; nothing when it is not
    /// kept any more.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn kept_content(&self, digest: &str) -> Result<Option<Bytes>> {
        let kept = self.content.get(digest).await?;
        Ok(kept.filter(|kept| sha256(kept) == digest))
    }

    pub(crate) fn charts(&self) -> &Charts {
        &self.charts
    }

    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }
    /// What is kept under a digest, if it came from `origin` before or is `known` to; else what `fetch` gets if it has it.
    /// A repository that only names the digest of somebody else's content is given nothing for it.
    async fn kept<F: Future<Output = Result<Bytes>>>(
        &self,
        origin: &str,
        known: bool,
        digest: &str,
        fetch: impl FnOnce() -> F,
    ) -> Result<Bytes> {
        // Each waits for their own repository only, and shares no other's failure.
        self.flights
            .run(origin, async {
                if (known || self.origins().contains(origin))
                    && let Some(kept) = self.content.get(digest).await?
                    && sha256(&kept) == digest
                {
                    return Ok(kept);
                }
                let content = fetch().await?;
                if sha256(&content) != digest {
                    return Err(Error::untrusted(format!(
                        "the content does not have the digest sha256:{digest}"
                    )));
                }
                self.content.put(digest, content.clone()).await?;
                self.came_from(origin);
                Ok(content)
            })
            .await
    }

    /// Gets and keeps content whose digest nobody promises; gives the digest.
    pub(crate) async fn keep_unpromised(&self, access: &Access, url: &reqwest::Url) -> Result<String> {
        let content = self.charts.archive(&self.http, access, url, self.options.archive_bytes).await?;
        let digest = sha256(&content);
        self.content.put(&digest, content).await?;
        self.came_from(&origin(access, None, &digest));
        Ok(digest)
    }

    fn came_from(&self, origin: &str) {
        let mut origins = self.origins();
        if origins.len() >= ORIGINS {
            origins.clear();
        }
        origins.insert(origin.to_owned());
    }

    fn origins(&self) -> MutexGuard<'_, HashSet<String>> {
        self.origins.lock()
    }
}

/// From whom content comes: the repository, with the credentials that it is read with.
fn origin(access: &Access, chart: Option<&str>, digest: &str) -> String {
    format!("{} {} {digest}", access.fingerprint(), chart.unwrap_or_default())
}

fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// A range never leads back, and a version never to other content: both are what an attacker with the repository does.
fn check_pin(pin: &Pin, wanted: &str, resolved: &Resolved) -> Result<()> {
    let (Ok(before), Ok(now)) = (Version::parse(&pin.version), Version::parse(&resolved.version)) else {
        // A tag such as "latest" is made to move.
        return Ok(());
    };
    if now.compare(&before).is_lt() {
        return Err(Error::untrusted(format!(
            "{wanted:?} leads to {} now and led to {} before: it stays there; to go back, ask for {} itself",
            resolved.version, pin.version, resolved.version
        )));
    }
    if resolved.version == pin.version && resolved.digest != pin.digest {
        return Err(Error::untrusted(format!(
            "{} was published again with other content ({} before, {} now): it stays as it was; to take the new \
             content, ask for {}@{}",
            resolved.version, pin.digest, resolved.digest, resolved.version, resolved.digest
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(version: &str, digest: &str) -> Resolved {
        let place = Place::Web { url: reqwest::Url::parse("http://a/").unwrap() };
        Resolved {
            version: version.into(),
            digest: digest.into(),
            kind: Kind::Chart,
            place,
            is_pinned: false,
        }
    }

    #[test]
    fn what_was_resolved_cannot_be_turned_back_or_swapped() {
        let pin = Pin { version: "1.5.0".into(), digest: "sha256:a".into() };
        assert!(check_pin(&pin, "1.x", &resolved("1.5.0", "sha256:a")).is_ok());
        assert!(check_pin(&pin, "1.x", &resolved("1.6.0", "sha256:b")).is_ok());
        let error = check_pin(&pin, "1.x", &resolved("1.4.0", "sha256:c")).unwrap_err();
        assert!(error.message.contains("1.4.0") && error.cause == Cause::Untrusted, "{error}");
        let error = check_pin(&pin, "1.5.0", &resolved("1.5.0", "sha256:b")).unwrap_err();
        assert!(error.message.contains("other content"), "{error}");
        let latest = Pin { version: "latest".into(), digest: "sha256:a".into() };
        assert!(check_pin(&latest, "latest", &resolved("latest", "sha256:b")).is_ok());
    }
}
