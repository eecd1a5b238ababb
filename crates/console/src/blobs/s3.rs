//! Blobs in an S3-compatible store, which several replicas share.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{
    BackoffConfig, ClientConfigKey, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    path::Path,
};
use plural_git::{
    Answer, BlobStore, Bounded, Collected, Digest, Error, NOTE_BYTES, Stored, compress_blob, verify_blob,
};

use crate::{StartError, key_encryption::shown};

/// Bytes of compressed blobs kept in memory, already verified.
const MEMORY: usize = 256 << 20;
/// Bytes that a blob may have uncompressed.
const BLOB_BYTES: u64 = 1 << 30;
/// How long the store may take to accept a connection.
const CONNECT: &str = "5s";
/// How long one request may take.
const REQUEST: &str = "60s";
/// How long a request is tried again before its caller is told; callers try again by themselves.
const TRIES: Duration = Duration::from_secs(10);
/// What was stored longer ago is stored again when it is asked for, so that no collection finds it old: less than what those of previews
/// spare, by more than a job takes.
const YOUNG: Duration = Duration::from_mins(30);
/// Blobs that are removed at once.
const REMOVALS: usize = 8;

/// The adapter. What it reads has the digest it was asked for by, as [`BlobStore`] promises.
#[derive(Clone)]
pub(crate) struct S3Blobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    memory: Arc<Bounded<Digest, Bytes>>,
}

impl S3Blobs {
    /// The store at `s3://BUCKET[/PREFIX]`. Region, endpoint and credentials are taken from the `AWS_…` variables that
    /// other programs know, or from the machine's role; a plain `http` endpoint has to be allowed by `AWS_ALLOW_HTTP`.
    pub(crate) fn open(url: &str) -> Result<Self, StartError> {
        // Where programs with and without TLS of their own meet in one process, somebody has to say whose it is.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self::with(url, AmazonS3Builder::from_env())
    }

    fn with(url: &str, builder: AmazonS3Builder) -> Result<Self, StartError> {
        let bad = |reason: String| StartError::BlobStore { url: shown(url), reason };
        let rest = url.strip_prefix("s3://").ok_or_else(|| bad("it must begin with \"s3://\"".to_owned()))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(bad("it has no bucket".to_owned()));
        }
        if bucket.contains(['@', ':']) {
            return Err(bad(
                "it holds a user or a password: credentials come from the environment".to_owned()
            ));
        }
        let prefix = Path::parse(prefix.trim_matches('/')).map_err(|error| bad(error.to_string()))?;
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: Duration::from_millis(100), ..BackoffConfig::default() },
            max_retries: 5,
            retry_timeout: TRIES,
        };
        let store = builder
            .with_bucket_name(bucket)
            // One by one: the other options of the client are what the environment says.
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT)
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST)
            // Not every compatible store can remove many at once.
            .with_disable_bulk_delete(true)
            .with_retry(retry)
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { store: Arc::new(store), prefix, memory: Arc::new(Bounded::new(MEMORY)) })
    }

    fn folder(&self) -> Path {
        self.prefix.clone().join("artifacts")
    }

    fn path(&self, digest: Digest) -> Path {
        let hex = digest.to_string();
        self.folder().join(&hex[..2]).join(format!("{hex}.zst"))
    }

    async fn store(&self, digest: Digest, content: Vec<u8>) -> Result<Stored, Error> {
        let doing = || format!("cannot store blob {digest}");
        let actual = Digest::of(&content);
        if actual != digest {
            return Err(Error::Corrupt {
                what: format!("blob {digest}"),
                detail: format!("its content has digest {actual}"),
            });
        }
        let path = self.path(digest);
        let known = match self.store.head(&path).await {
            Ok(known) => Some(known),
            Err(object_store::Error::NotFound { .. }) => None,
            Err(error) => return Err(away(doing(), &error)),
        };
        if known.as_ref().is_some_and(|known| age(known) < YOUNG) {
            return Ok(Stored::Known);
        }
        let compressed = tokio::task::spawn_blocking(move || compress_blob(&content))
            .await
            .map_err(|_| Error::Stopped { doing: "compressing a blob" })?
            .map_err(|error| Error::Io { doing: doing(), detail: error.to_string() })?;
        let bytes = compressed.len() as u64;
        self.store.put(&path, PutPayload::from(compressed)).await.map_err(|error| away(doing(), &error))?;
        Ok(if known.is_some() { Stored::Known } else { Stored::New { bytes } })
    }

    async fn compressed(&self, digest: Digest) -> Result<Option<Bytes>, Error> {
        if let Some(known) = self.memory.get(&digest) {
            return Ok(Some(known));
        }
        let doing = || format!("cannot read blob {digest}");
        let path = self.path(digest);
        let bytes = match self.store.get(&path).await {
            Ok(found) => found.bytes().await.map_err(|error| away(doing(), &error))?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(away(doing(), &error)),
        };
        let checked = bytes.clone();
        let verdict = tokio::task::spawn_blocking(move || verify_blob(&checked, digest, BLOB_BYTES))
            .await
            .map_err(|_| Error::Stopped { doing: "verifying a blob" })?;
        if let Err(detail) = verdict {
            // Put aside, so that it is stored anew.
            let aside = self.prefix.clone().join("damaged").join(format!("{digest}.zst"));
            self.store.put(&aside, PutPayload::from(bytes)).await.map_err(|error| away(doing(), &error))?;
            self.store.delete(&path).await.map_err(|error| away(doing(), &error))?;
            return Err(Error::Corrupt {
                what: format!("blob {digest}"),
                detail: format!("{detail}; it was moved to {aside}"),
            });
        }
        self.memory.put(digest, bytes.clone(), bytes.len());
        Ok(Some(bytes))
    }

    fn notes_folder(&self, folder: &str) -> Path {
        self.prefix.clone().join("notes").join(folder)
    }

    async fn newest_notes(&self, folder: Path, most: usize) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let doing = || "cannot read notes".to_owned();
        // Only the last ones are held, however many there are.
        let mut last: BTreeMap<String, Path> = BTreeMap::new();
        let mut listing = self.store.list(Some(&folder));
        while let Some(found) = listing.try_next().await.map_err(|error| away(doing(), &error))? {
            if let Some(name) = found.location.filename().filter(|_| found.size <= NOTE_BYTES) {
                last.insert(name.to_owned(), found.location.clone());
                if last.len() > most {
                    last.pop_first();
                }
            }
        }
        let mut notes = Vec::with_capacity(last.len());
        for (name, path) in last {
            let found = self.store.get(&path).await.map_err(|error| away(doing(), &error))?;
            let content = found.bytes().await.map_err(|error| away(doing(), &error))?;
            notes.push((name, content.to_vec()));
        }
        Ok(notes)
    }

    async fn sweep(&self, live: HashSet<Digest>, spare: Duration) -> Result<Collected, Error> {
        let doing = || "cannot remove old blobs".to_owned();
        let mut collected = Collected::default();
        let mut listing = self.store.list(Some(&self.folder()));
        let mut old = Vec::new();
        while let Some(found) = listing.try_next().await.map_err(|error| away(doing(), &error))? {
            let name = found.location.filename().and_then(|name| name.strip_suffix(".zst"));
            let Some(digest) = name.and_then(|name| name.parse::<Digest>().ok()) else { continue };
            if live.contains(&digest) || age(&found) < spare {
                collected.kept += 1;
            } else {
                old.push((digest, found));
            }
        }
        let mut removals = stream::iter(old.into_iter().map(|(digest, found)| async move {
            self.store.delete(&found.location).await.map(|()| (digest, found.size))
        }))
        .buffer_unordered(REMOVALS);
        while let Some(removed) = removals.next().await {
            let (digest, bytes) = removed.map_err(|error| away(doing(), &error))?;
            self.memory.remove(&digest);
            collected.removed += 1;
            collected.bytes += bytes;
        }
        Ok(collected)
    }
}

impl S3Blobs {
    async fn forget_old(&self, these: HashSet<Digest>, spare: Duration) -> Result<u64, Error> {
        let doing = || "cannot remove blobs".to_owned();
        let mut removed = 0;
        for digest in these {
            let path = self.path(digest);
            let found = match self.store.head(&path).await {
                Ok(found) => found,
                Err(object_store::Error::NotFound { .. }) => continue,
                Err(error) => return Err(away(doing(), &error)),
            };
            if age(&found) < spare {
                continue;
            }
            match self.store.delete(&path).await {
                Ok(()) => removed += 1,
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(away(doing(), &error)),
            }
            self.memory.remove(&digest);
        }
        Ok(removed)
    }
}

impl BlobStore for S3Blobs {
    fn put(&self, digest: Digest, content: Vec<u8>) -> Answer<'_, Stored> {
        Box::pin(self.store(digest, content))
    }

    fn get(&self, digest: Digest) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let Some(compressed) = self.compressed(digest).await? else { return Ok(None) };
            // It was verified when it was read.
            let content = tokio::task::spawn_blocking(move || zstd::decode_all(&*compressed))
                .await
                .map_err(|_| Error::Stopped { doing: "decompressing a blob" })?;
            content.map(Some).map_err(|error| Error::Io {
                doing: format!("cannot decompress blob {digest}"),
                detail: error.to_string(),
            })
        })
    }

    fn get_compressed(&self, digest: Digest) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.compressed(digest))
    }

    fn contains(&self, digest: Digest) -> Answer<'_, bool> {
        Box::pin(async move {
            match self.store.head(&self.path(digest)).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(away(format!("cannot look for blob {digest}"), &error)),
            }
        })
    }

    fn collect(&self, live: HashSet<Digest>, spare: Duration) -> Answer<'_, Collected> {
        Box::pin(self.sweep(live, spare))
    }

    fn forget(&self, these: HashSet<Digest>, spare: Duration) -> Answer<'_, u64> {
        Box::pin(self.forget_old(these, spare))
    }

    fn put_note(&self, folder: &str, name: &str, content: Vec<u8>) -> Answer<'_, ()> {
        let path = self.notes_folder(folder).join(name);
        Box::pin(async move {
            let stored = self.store.put(&path, PutPayload::from(content)).await;
            stored.map(drop).map_err(|error| away("cannot keep a note".to_owned(), &error))
        })
    }

    fn notes(&self, folder: &str, most: usize) -> Answer<'_, Vec<(String, Vec<u8>)>> {
        Box::pin(self.newest_notes(self.notes_folder(folder), most))
    }
}

/// How long ago it was stored, by the two clocks; a clock that is behind makes things look young, which only keeps them.
fn age(stored: &ObjectMeta) -> Duration {
    SystemTime::now().duration_since(stored.last_modified.into()).unwrap_or_default()
}

/// The whole chain of causes but no header of the request, which is where credentials are.
fn away(doing: String, error: &object_store::Error) -> Error {
    let mut detail = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let text = error.to_string();
        if !detail.contains(&text) {
            detail.push_str(": ");
            detail.push_str(&text);
        }
        cause = error.source();
    }
    Error::StoreAway { doing, detail: detail.chars().take(500).collect() }
}

#[cfg(test)]
mod tests {
    use plural_testkit::S3Server;

    use super::*;

    fn open(server: &S3Server, secret: &str) -> S3Blobs {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = AmazonS3Builder::new()
            .with_endpoint(server.url())
            .with_region("us-east-1")
            .with_access_key_id(server.access_key())
            .with_secret_access_key(secret)
            .with_allow_http(true);
        S3Blobs::with("s3://blobs/here/and there/", builder).unwrap()
    }

    #[tokio::test]
    async fn what_is_stored_is_read_by_others_and_has_its_digest() {
        let server = S3Server::start("blobs").unwrap();
        let (one, other) = (open(&server, server.secret_key()), open(&server, server.secret_key()));
        let content = b"an artifact".repeat(1000);
        let digest = Digest::of(&content);
        assert!(!one.contains(digest).await.unwrap());
        assert_eq!(one.get(digest).await.unwrap(), None);
        assert!(matches!(one.put(digest, content.clone()).await.unwrap(), Stored::New { .. }));
        assert_eq!(other.put(digest, content.clone()).await.unwrap(), Stored::Known);
        assert!(other.contains(digest).await.unwrap());
        assert_eq!(other.get(digest).await.unwrap(), Some(content.clone()));
        let wrong = other.put(Digest::of(b"other"), content).await.unwrap_err();
        assert!(matches!(wrong, Error::Corrupt { .. }), "{wrong}");
    }

    #[tokio::test]
    async fn a_damaged_blob_is_never_given_out_and_can_be_stored_anew() {
        let server = S3Server::start("blobs").unwrap();
        let one = open(&server, server.secret_key());
        let (content, digest) = (b"good".to_vec(), Digest::of(b"good"));
        one.put(digest, content.clone()).await.unwrap();
        assert_eq!(server.keys().len(), 1);
        server.overwrite(&server.keys()[0], compress_blob(b"bad").unwrap());
        let other = open(&server, server.secret_key());
        let damaged = other.get(digest).await.unwrap_err();
        assert!(matches!(damaged, Error::Corrupt { .. }), "{damaged}");
        assert_eq!(other.get(digest).await.unwrap(), None, "it was put aside");
        other.put(digest, content.clone()).await.unwrap();
        assert_eq!(other.get(digest).await.unwrap(), Some(content));
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_named_without_a_credential_and_comes_back() {
        let server = S3Server::start("blobs").unwrap();
        let one = open(&server, server.secret_key());
        let digest = Digest::of(b"x");
        one.put(digest, b"x".to_vec()).await.unwrap();
        // One bad answer is tried again.
        server.fail_next(1);
        assert_eq!(one.get(digest).await.unwrap(), Some(b"x".to_vec()));
        server.away(true);
        let other = open(&server, server.secret_key());
        let error = other.get(digest).await.unwrap_err();
        assert!(matches!(error, Error::StoreAway { .. }) && error.is_transient(), "{error}");
        assert!(error.to_string().contains("the blob store does not answer"), "{error}");
        assert!(!error.to_string().contains(server.secret_key()), "{error}");
        assert!(other.put(Digest::of(b"y"), b"y".to_vec()).await.is_err());
        server.away(false);
        assert_eq!(other.get(digest).await.unwrap(), Some(b"x".to_vec()));
        let stranger = open(&server, "a wrong secret");
        let error = stranger.get(digest).await.unwrap_err();
        assert!(matches!(error, Error::StoreAway { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_collection_that_is_stopped_half_way_goes_on_the_next_time() {
        let server = S3Server::start("blobs").unwrap();
        let one = open(&server, server.secret_key());
        let mut live = HashSet::new();
        for n in 0..20_u8 {
            let digest = Digest::of(&[n]);
            one.put(digest, vec![n]).await.unwrap();
            if n % 4 == 0 {
                live.insert(digest);
            }
        }
        let young = one.collect(live.clone(), Duration::from_hours(1)).await.unwrap();
        assert_eq!((young.removed, young.kept), (0, 20));
        // Dropped while it waits for an answer: as a killed process would.
        server.hang_after(6);
        let stopped =
            tokio::time::timeout(Duration::from_secs(2), one.collect(live.clone(), Duration::ZERO)).await;
        assert!(stopped.is_err());
        server.hang_after(usize::MAX);
        for digest in &live {
            assert!(one.contains(*digest).await.unwrap());
        }
        let rest = one.collect(live.clone(), Duration::ZERO).await.unwrap();
        assert!(rest.removed < 15, "{rest:?}");
        assert_eq!(server.keys().len(), live.len());
    }

    #[tokio::test]
    async fn what_is_forgotten_by_name_goes_unless_it_is_young() {
        let server = S3Server::start("blobs").unwrap();
        let one = open(&server, server.secret_key());
        for n in 0..2_u8 {
            one.put(Digest::of(&[n]), vec![n]).await.unwrap();
        }
        let these: HashSet<Digest> = [Digest::of(&[0]), Digest::of(b"never stored")].into();
        assert_eq!(one.forget(these.clone(), Duration::from_hours(1)).await.unwrap(), 0);
        assert_eq!(one.forget(these, Duration::ZERO).await.unwrap(), 1);
        assert_eq!(one.get(Digest::of(&[0])).await.unwrap(), None);
        assert_eq!(one.get(Digest::of(&[1])).await.unwrap(), Some(vec![1]));
    }

    #[test]
    fn what_names_no_bucket_is_refused() {
        for url in ["file:///tmp", "s3://", "bucket"] {
            assert!(S3Blobs::open(url).is_err(), "{url}");
        }
        let told =
            S3Blobs::open("s3://ada:hunter2@blobs").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains("credentials") && !told.contains("hunter2"), "{told}");
    }
}
