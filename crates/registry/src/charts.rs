//! Chart repositories over HTTP: their indexes, kept and revalidated, and their archives.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use reqwest::{
    StatusCode, Url,
    header::{DATE, ETAG, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED},
};

use tokio::sync::Semaphore;

use crate::{
    access::{Access, shown},
    client::{Client, Freshness},
    error::{Cause, Error, Result},
    flight::Flights,
    http::{Get, Http, refusal},
    index::Index,
};

/// Digests remembered of archives that their index promises none for.
const DIGESTS: usize = 4096;
/// Indexes that are read at once.
const READ_AT_ONCE: usize = 2;
/// How long such a digest counts when an index that is that old would do: a version is not supposed to change.
const DIGEST_LASTS: Duration = Duration::from_hours(1);

/// Indexes and what else is remembered of chart repositories.
pub(crate) struct Charts {
    limit: usize,
    bytes: usize,
    /// An index takes many times its size while it is read.
    reading: Semaphore,
    known: Mutex<HashMap<String, Known>>,
    digests: Mutex<HashMap<String, (Instant, String)>>,
    flights: Flights,
}

#[derive(Clone)]
struct Known {
    index: Arc<Index>,
    weight: usize,
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
    checked: Instant,
    used: Instant,
}

impl Charts {
    pub(crate) fn new(limit: usize, bytes: usize) -> Self {
        Self {
            limit: limit.max(1),
            bytes,
            reading: Semaphore::new(READ_AT_ONCE),
            known: Mutex::default(),
            digests: Mutex::default(),
            flights: Flights::default(),
        }
    }

    /// The index of a repository, asked for anew when the one that is known is too old; an unchanged one is not sent
    /// again by a repository that knows `ETag` or `Last-Modified`.
    pub(crate) async fn index(
        &self,
        http: &Http,
        access: &Access,
        freshness: Freshness,
        limit: u64,
    ) -> Result<Arc<Index>> {
        let key = access.fingerprint();
        let asked = Instant::now();
        if let Some(index) = self.fresh(&key, freshness, asked) {
            return Ok(index);
        }
        self.flights
            .run(&key, async {
                if let Some(index) = self.fresh(&key, freshness, asked) {
                    return Ok(index);
                }
                self.fetch(http, access, &key, limit).await
            })
            .await
    }

    /// The known index, if it is young enough: asked for after `asked` counts as now.
    fn fresh(&self, key: &str, freshness: Freshness, asked: Instant) -> Option<Arc<Index>> {
        let mut known = self.known();
        let found = known.get_mut(key)?;
        let young = match freshness {
            Freshness::Within(age) => found.checked.elapsed() <= age,
            Freshness::Now => found.checked >= asked,
        };
        found.used = Instant::now();
        young.then(|| Arc::clone(&found.index))
    }

    async fn fetch(&self, http: &Http, access: &Access, key: &str, limit: u64) -> Result<Arc<Index>> {
        let url = access
            .url
            .join("index.yaml")
            .map_err(|_| Error::invalid(format!("{} is not a chart repository", shown(&access.url))))?;
        let before = self.known().get(key).cloned();
        let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
        if let Some(before) = &before {
            headers.extend(before.etag.clone().map(|value| (IF_NONE_MATCH, value)));
            headers.extend(before.modified.clone().map(|value| (IF_MODIFIED_SINCE, value)));
        }
        let authorization = access.authorization()?;
        let checked = Instant::now();
        let reply = http.get(Get { url: url.clone(), access, authorization, headers, limit }).await?;
        if let (StatusCode::NOT_MODIFIED, Some(before)) = (reply.status, before) {
            let index = Arc::clone(&before.index);
            self.remember(key, Known { checked, used: checked, ..before });
            return Ok(index);
        }
        if !reply.status.is_success() {
            return Err(refusal(&url, &reply, "index.yaml, so it is not a chart repository"));
        }
        let etag = reply.headers.get(ETAG).cloned();
        let modified = reply
            .headers
            .get(LAST_MODIFIED)
            .filter(|modified| is_settled(modified, reply.headers.get(DATE)))
            .cloned();
        let body = reply.body;
        // Large ones take a second to read.
        let _turn = self.reading.acquire().await;
        let index = tokio::task::spawn_blocking(move || Index::parse(&body))
            .await
            .map_err(|_| Error::new(Cause::Unavailable, "reading an index failed unexpectedly"))?
            .map_err(|error| Error { message: format!("{}: {}", shown(&url), error.message), ..error })?;
        let weight = index.weight();
        let index = Arc::new(index);
        let entry = Known { index: Arc::clone(&index), weight, etag, modified, checked, used: checked };
        self.remember(key, entry);
        Ok(index)
    }

    fn remember(&self, key: &str, entry: Known) {
        let mut known = self.known();
        known.remove(key);
        let weight = |known: &HashMap<String, Known>| known.values().map(|known| known.weight).sum::<usize>();
        // One that is larger than all may be together is asked for each time.
        if entry.weight > self.bytes {
            return;
        }
        while known.len() >= self.limit || weight(&known) + entry.weight > self.bytes {
            let oldest = known.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            known.remove(&oldest);
        }
        known.insert(key.to_owned(), entry);
    }

    /// The archive at an address; credentials go along only when it is at home.
    pub(crate) async fn archive(&self, http: &Http, access: &Access, url: &Url, limit: u64) -> Result<Bytes> {
        let authorization = access.authorization()?;
        let reply =
            http.get(Get { url: url.clone(), access, authorization, headers: Vec::new(), limit }).await?;
        if !reply.status.is_success() {
            return Err(refusal(url, &reply, "chart"));
        }
        Ok(reply.body)
    }

    /// The digest of an archive whose index promises none.
    pub(crate) async fn digest_of(
        &self,
        client: &Client,
        access: &Access,
        url: &Url,
        freshness: Freshness,
    ) -> Result<String> {
        let key = format!("{} {url}", access.fingerprint());
        let asked = Instant::now();
        let known = || {
            let digests = self.digests.lock();
            let (at, digest) = digests.get(&key)?;
            let young = match freshness {
                Freshness::Within(_) => at.elapsed() <= DIGEST_LASTS,
                Freshness::Now => *at >= asked,
            };
            young.then(|| digest.clone())
        };
        self.flights
            .run(&key, async {
                if let Some(digest) = known() {
                    return Ok(digest);
                }
                let digest = client.keep_unpromised(access, url).await?;
                let mut digests = self.digests.lock();
                if digests.len() >= DIGESTS {
                    digests.clear();
                }
                digests.insert(key.clone(), (Instant::now(), digest.clone()));
                Ok(digest)
            })
            .await
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock()
    }
}

/// Whether a time of modification tells one content from another. Within the second it was written in, a file can be
/// written again, and looks the same; then it must be asked for whole the next time.
fn is_settled(modified: &HeaderValue, date: Option<&HeaderValue>) -> bool {
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let read = |value: &HeaderValue| -> Option<(String, u32)> {
        let (day, time) = value.to_str().ok()?.strip_suffix(" GMT")?.rsplit_once(' ')?;
        let mut parts = time.split(':').map(|part| part.parse::<u32>().ok());
        let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
        Some((day.to_owned(), hours * 3600 + minutes * 60 + seconds))
    };
    match (read(modified), date.and_then(read)) {
        (Some((day, at)), Some((today, now))) if day == today => now.saturating_sub(at) >= 2,
        (Some((_, at)), Some(_)) => at < 86_398,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_within_the_last_second_tells_nothing() {
        let settled = |modified: &'static str, date: &'static str| {
            is_settled(&HeaderValue::from_static(modified), Some(&HeaderValue::from_static(date)))
        };
        assert!(settled("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:39 GMT"));
        assert!(settled("Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 00:00:00 GMT"));
        assert!(!settled("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"));
        assert!(!settled("Sun, 06 Nov 1994 23:59:59 GMT", "Mon, 07 Nov 1994 00:00:00 GMT"));
        assert!(!settled("nonsense", "Mon, 07 Nov 1994 00:00:00 GMT"));
        assert!(!is_settled(&HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"), None));
    }
}
