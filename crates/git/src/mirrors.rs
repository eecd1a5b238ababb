//! Every repository that is mirrored, and how they are fetched: [`Mirrors`], [`Options`], [`Fetched`].

mod held;
mod run;

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use plural_reach::{Guard, Reach};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::{
    artifact::Limits,
    cache::Bounded,
    error::{Error, Result},
    objects::Oid,
    quota::{Quota, Sizes},
    remote::{MirrorKey, Remote},
    repair::Layout,
    repository::{Caches, Repository},
    sessions::Sessions,
    signature::Signers,
    single::What,
    watch::RefWatch,
};

use self::run::OwnedRun;

/// Packs above which a mirror should be tidied.
const MANY_PACKS: usize = 50;
/// Bytes of commits that were made here above which a mirror should be tidied: nothing else ends them.
const MUCH_LOOSE: u64 = 512 << 20;

/// Good signatures that are remembered.
const VERIFIED: usize = 10_000;

/// Settings of [`Mirrors`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder for mirrors and for files that live as long as one run of git. Made when it does not exist.
    pub data: PathBuf,
    /// The git program.
    pub git: PathBuf,
    /// The ssh program.
    pub ssh: PathBuf,
    /// What verifies SSH signatures.
    pub ssh_keygen: PathBuf,
    /// What verifies OpenPGP signatures.
    pub gpg: PathBuf,
    /// Where git finds programs that it needs itself.
    pub path: OsString,
    /// How long the fetch of a mirror that has been fetched before may take.
    pub timeout: Duration,
    /// How long the first fetch may take.
    pub clone_timeout: Duration,
    /// How long a connection may carry next to nothing before it is given up.
    pub stall: Duration,
    /// What is done with repositories on this machine.
    pub local: LocalPaths,
    /// How large a service's source may be.
    pub limits: Limits,
    /// Runs of git at one time, over all repositories.
    pub processes: usize,
    /// How much disk and memory repositories may take.
    pub quota: Quota,
    /// Whether objects that are fetched are checked for what no git would write.
    pub fsck: bool,
    /// Which addresses are connected to, and how names become addresses.
    pub guard: Guard,
    /// Passwords and tokens are sent over http too, where everybody on the way can read them.
    pub credentials_over_http: bool,
    /// What is done with the ssh host key of a host that nobody pinned.
    pub new_host_keys: NewHostKeys,
}

/// What is done with the key of an ssh host that is seen for the first time, and is none of the large forges, whose keys
/// are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewHostKeys {
    /// It is kept, and another one is refused later.
    Accept,
    /// It is refused: the repository must say its host's keys.
    Refuse,
}

impl Options {
    /// The defaults, with mirrors in a folder: programs from `PATH`, 2 minutes a fetch, 30 minutes a first fetch, 30 s of
    /// silence, local paths refused, this machine out of reach, no credentials over http.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            git: "git".into(),
            ssh: "ssh".into(),
            ssh_keygen: "ssh-keygen".into(),
            gpg: "gpg".into(),
            path: std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()),
            timeout: Duration::from_mins(2),
            clone_timeout: Duration::from_mins(30),
            stall: Duration::from_secs(30),
            local: LocalPaths::Refused,
            limits: Limits::default(),
            processes: 128,
            guard: Guard::new(Reach::default()),
            credentials_over_http: false,
            new_host_keys: NewHostKeys::Accept,
            quota: Quota::default(),
            fsck: true,
        }
    }
}

/// What is done with repositories on this machine. A path reaches whatever this process may read, so only who runs it can
/// allow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPaths {
    /// They are an error.
    Refused,
    /// They are read in place: nothing is copied, a push is seen at once, and a fetch costs nothing. A forced push followed by
    /// `git gc --prune=now` can take a commit away between resolving and packing it; that is
    /// [`Error::CommitMissing`] or [`Error::Corrupt`], and resolving anew mends it.
    Read,
    /// They are mirrored like any other remote: for file systems that are slow or come and go.
    Mirrored,
}

/// All mirrors under one data folder. Cheap to clone.
///
/// # Guarantees
/// - One repository is fetched by one run of git at a time, also across processes that share the folder.
/// - A hung remote delays only those who ask for that remote.
/// - Whoever asks while a fetch runs gets one that began after they asked; all of them share it.
/// - Killed at any moment, the next fetch cleans up and goes on.
#[derive(Clone)]
pub struct Mirrors {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    caches: Arc<Caches>,
    sessions: Sessions,
    processes: Semaphore,
    sizes: Sizes,
    mirrors: Mutex<HashMap<MirrorKey, Arc<Mirror>>>,
    runs: AtomicU64,
    opened: Instant,
    /// Commits whose signatures were found good, with whose were accepted.
    verified: Bounded<(Oid, [u8; 32]), ()>,
}

pub(crate) struct Mirror {
    pub(crate) layout: Layout,
    /// When it was asked for last, after the start of this process.
    used: Mutex<Duration>,
    /// Number of the fetch that began last.
    started: AtomicU64,
    pub(crate) turn: Arc<AsyncMutex<Option<Turn>>>,
    open: Mutex<Option<Open>>,
    /// Packs after the last fetch by this process.
    packs: AtomicUsize,
    /// Hash over all references, as of the last fetch by this process.
    references: Mutex<Option<[u8; 32]>>,
}

/// The fetch that ended last.
pub(crate) struct Turn {
    number: u64,
    fingerprint: [u8; 32],
    result: Result<Fetched>,
}

struct Open {
    path: PathBuf,
    repository: Repository,
}

/// What a fetch gave.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The repository, as it is now.
    pub repository: Repository,
    /// Whether any branch or tag moved since the last fetch by this process; true for the first one.
    pub changed: bool,
    /// How long it took.
    pub took: Duration,
    /// Whether the mirror has so many packs that [`Mirrors::tidy`] is worth its while.
    pub wants_tidying: bool,
}

impl Mirrors {
    /// Opens, or makes, the data folder. Credentials that a killed process left there are removed.
    pub fn open(mut options: Options) -> Result<Self> {
        // git runs elsewhere, so relative paths would lead elsewhere.
        options.data = std::path::absolute(&options.data)
            .map_err(|e| Error::io("cannot find folder", &options.data, e))?;
        // Private repositories lie in them: nobody else on this machine gets past the first.
        let mirrors = options.data.join("mirrors");
        for folder in [&options.data, &mirrors] {
            plural_kit::private_folder(folder).map_err(|e| Error::io("cannot make folder", folder, e))?;
        }
        let sessions = Sessions::open(&options.data.join("sessions"))?;
        let processes = Semaphore::new(options.processes.max(1));
        let sizes = Sizes::of(&mirrors);
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                caches: Arc::new(Caches::new()),
                sessions,
                processes,
                sizes,
                mirrors: Mutex::new(HashMap::new()),
                runs: AtomicU64::new(0),
                opened: Instant::now(),
                verified: Bounded::new(VERIFIED),
            }),
        })
    }

    /// Brings a mirror up to date. Dropping the future kills git.
    ///
    /// # Errors
    /// Any of the `cannot fetch` errors. What was fetched before stays readable by [`Mirrors::repository`].
    pub async fn fetch(&self, remote: &Remote) -> Result<Fetched> {
        remote.check(self.inner.options.credentials_over_http)?;
        if let Some(path) = self.read_in_place(remote)? {
            return self.look_at(remote, path).await;
        }
        let mirror = self.mirror(&remote.key);
        let fingerprint = remote.fingerprint();
        // A fetch that begins after this line sees every push that our caller knows of.
        let ticket = mirror.started.load(Ordering::SeqCst) + 1;
        let mut turn = mirror.turn.lock().await;
        if let Some(turn) = &*turn
            && turn.number >= ticket
            && turn.fingerprint == fingerprint
        {
            return turn.result.clone();
        }
        let number = mirror.started.fetch_add(1, Ordering::SeqCst) + 1;
        let result = self.fetch_now(remote, &mirror, &What::All).await;
        *turn = Some(Turn { number, fingerprint, result: result.clone() });
        result
    }

    /// Fetches one thing alone.
    pub(crate) async fn fetch_single(&self, remote: &Remote, what: &What) -> Result<Fetched> {
        remote.check(self.inner.options.credentials_over_http)?;
        if let Some(path) = self.read_in_place(remote)? {
            return self.look_at(remote, path).await;
        }
        let mirror = self.mirror(&remote.key);
        let _turn = mirror.turn.lock().await;
        self.fetch_now(remote, &mirror, what).await
    }

    /// A repository as it was fetched last; asks nobody.
    ///
    /// # Errors
    /// [`Error::NotFetched`] where it never was.
    pub async fn repository(&self, remote: &Remote) -> Result<Repository> {
        if let Some(path) = self.read_in_place(remote)? {
            return self.in_place(remote, path).await;
        }
        let mirror = self.mirror(&remote.key);
        if !mirror.layout.is_of(&remote.url.to_string()) {
            return Err(Error::NotFetched { key: remote.key.to_string() });
        }
        let path = mirror.layout.repo();
        self.opened(remote, &mirror, path).await
    }

    /// Tells when references of a repository on this machine move.
    ///
    /// # Errors
    /// [`Error::BadInput`] unless it is a local path that is read in place.
    pub async fn watch(&self, remote: &Remote) -> Result<RefWatch> {
        let Some(path) = self.read_in_place(remote)? else {
            return Err(Error::bad("repository", &remote.url.to_string(), "only local paths can be watched"));
        };
        let (common, own) = self.in_place(remote, path).await?.ref_folders();
        blocking("watching references", move || Ok(RefWatch::new(common, own))).await
    }

    /// Joins a mirror's packs and removes what nothing leads to. Takes seconds for large repositories; fetches wait.
    pub async fn tidy(&self, remote: &Remote) -> Result<()> {
        if self.read_in_place(remote)?.is_some() {
            return Ok(());
        }
        let mirror = self.mirror(&remote.key);
        let _turn = mirror.turn.lock().await;
        let url = remote.url.to_string();
        let _lock = mirror.layout.lock(&url, self.inner.options.timeout).await?;
        if !mirror.layout.is_of(&url) {
            return Ok(());
        }
        mirror.layout.begin()?;
        let tidied = self.run(remote, &mirror.layout, self.inner.options.clone_timeout).tidy().await;
        // Who has it open looks for objects in packs that are gone.
        mirror.close();
        tidied?;
        mirror.layout.end()
    }

    /// Whether a commit carries a good signature of one of these.
    ///
    /// # Errors
    /// [`Error::Unverified`] says why not.
    pub async fn verify(&self, repository: &Repository, commit: Oid, signers: &Signers) -> Result<()> {
        let key = (commit, signers.fingerprint());
        // A commit's id stands for all of its bytes, signature included.
        if self.inner.verified.get(&key).is_some() {
            return Ok(());
        }
        let repository = repository.clone();
        let signed = blocking("reading a signature", move || repository.signed(commit)).await?;
        signed.verify(signers, &self.inner.options, self.sessions()).await?;
        self.inner.verified.put(key, (), 1);
        Ok(())
    }

    /// The text of a clear-signed document, if one of these OpenPGP keys (armoured) signed it.
    ///
    /// # Errors
    /// [`Error::Unsigned`] says why not.
    pub async fn signed_text(&self, document: &str, keys: &str) -> Result<String> {
        crate::signature::signed_text(document, keys, &self.inner.options, self.sessions()).await
    }

    /// Removes every mirror that `keep` does not want and that nobody is fetching; tells how many. `keep` is told a mirror's
    /// key and for how long this process has not asked for it.
    pub async fn retain(&self, keep: impl Fn(&MirrorKey, Duration) -> bool) -> Result<usize> {
        let folder = self.inner.options.data.join("mirrors");
        let found = {
            let folder = folder.clone();
            blocking("listing mirrors", move || {
                let listing = fs::read_dir(&folder).map_err(|e| Error::io("cannot list", &folder, e))?;
                let names =
                    listing.filter_map(io::Result::ok).filter_map(|e| e.file_name().into_string().ok());
                Ok(names.filter_map(|n| MirrorKey::new(n).ok()).collect::<Vec<_>>())
            })
            .await?
        };
        let mut removed = 0;
        for key in found.into_iter().filter(|key| !keep(key, self.unused_for(key))) {
            removed += usize::from(self.remove(&key).await?);
        }
        Ok(removed)
    }

    /// Removes a mirror; false when there is none, or while it is being fetched.
    pub async fn remove(&self, key: &MirrorKey) -> Result<bool> {
        let mirror = self.entry(key);
        let Ok(_turn) = mirror.turn.try_lock() else { return Ok(false) };
        let layout = mirror.layout.clone();
        let gone = blocking("removing a mirror", move || {
            if !layout.folder.exists() {
                return Ok(false);
            }
            let Some(_lock) = layout.try_lock()? else { return Ok(false) };
            fs::remove_dir_all(&layout.folder).map_err(|e| Error::io("cannot remove", &layout.folder, e))?;
            Ok(true)
        })
        .await?;
        self.lock_mirrors().remove(key);
        self.inner.sizes.remove(key);
        Ok(gone)
    }

    /// How often git was started to fetch, so that callers can see what sharing saves.
    pub fn runs(&self) -> u64 {
        self.inner.runs.load(Ordering::Relaxed)
    }

    fn lock_mirrors(&self) -> MutexGuard<'_, HashMap<MirrorKey, Arc<Mirror>>> {
        self.inner.mirrors.lock()
    }

    /// A mirror that somebody asks for.
    pub(crate) fn mirror(&self, key: &MirrorKey) -> Arc<Mirror> {
        let mirror = self.entry(key);
        *mirror.used.lock() = self.inner.opened.elapsed();
        mirror
    }

    /// For how long nobody has asked for a mirror; since the start where nobody ever did.
    fn unused_for(&self, key: &MirrorKey) -> Duration {
        let known = self.lock_mirrors().get(key).map(Arc::clone);
        let used = known.map(|mirror| *mirror.used.lock());
        self.inner.opened.elapsed().saturating_sub(used.unwrap_or_default())
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn sessions(&self) -> &Path {
        self.inner.sessions.folder()
    }

    pub(crate) fn reads_in_place(&self, remote: &Remote) -> bool {
        remote.url.local_path().is_some() && self.inner.options.local != LocalPaths::Mirrored
    }

    fn entry(&self, key: &MirrorKey) -> Arc<Mirror> {
        let mut mirrors = self.lock_mirrors();
        let found = mirrors.entry(key.clone()).or_insert_with(|| {
            Arc::new(Mirror {
                layout: Layout { folder: self.inner.options.data.join("mirrors").join(key.as_str()) },
                used: Mutex::new(Duration::ZERO),
                started: AtomicU64::new(0),
                turn: Arc::new(AsyncMutex::new(None)),
                open: Mutex::new(None),
                packs: AtomicUsize::new(0),
                references: Mutex::new(None),
            })
        });
        Arc::clone(found)
    }

    /// The path of a repository that is read where it is.
    fn read_in_place(&self, remote: &Remote) -> Result<Option<PathBuf>> {
        let Some(path) = remote.url.local_path() else { return Ok(None) };
        match self.inner.options.local {
            LocalPaths::Refused => Err(Error::bad(
                "repository URL",
                &remote.url.to_string(),
                "local paths are not allowed here; use an https or ssh URL, or allow local paths where the console is started",
            )),
            LocalPaths::Read => Ok(Some(path.to_path_buf())),
            LocalPaths::Mirrored => Ok(None),
        }
    }

    /// A "fetch" of a local repository: see whether its references moved.
    async fn look_at(&self, remote: &Remote, path: PathBuf) -> Result<Fetched> {
        let started = Instant::now();
        let repository = self.in_place(remote, path).await?;
        let changed = self.moved(&self.mirror(&remote.key), &repository).await?;
        Ok(Fetched { repository, changed, took: started.elapsed(), wants_tidying: false })
    }

    /// A local repository, where it is.
    async fn in_place(&self, remote: &Remote, path: PathBuf) -> Result<Repository> {
        if !path.exists() {
            return Err(Error::NotFound {
                url: remote.url.to_string(),
                detail: "there is no such folder on this machine".to_owned(),
            });
        }
        let is_repository = path.join(".git").exists() || path.join("HEAD").exists();
        if !is_repository {
            return Err(Error::NotFound {
                url: remote.url.to_string(),
                detail: "the folder is not a git repository".to_owned(),
            });
        }
        self.opened(remote, &self.mirror(&remote.key), path).await
    }

    async fn fetch_now(&self, remote: &Remote, mirror: &Arc<Mirror>, what: &What) -> Result<Fetched> {
        let started = Instant::now();
        let (options, url) = (&self.inner.options, remote.url.to_string());
        let _slot = self.inner.processes.acquire().await.map_err(|_| Error::Stopped { doing: "fetching" })?;
        let _lock = mirror.layout.lock(&url, options.timeout).await?;
        // What could not be read may only have been moved into another pack meanwhile.
        let mut damaged = mirror.is_suspect()
            && !self.run(remote, &mirror.layout, options.clone_timeout).is_whole().await?;
        if !damaged && mirror.is_suspect() {
            mirror.close();
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let (layout, name) = (mirror.layout.clone(), url.clone());
            let empty = blocking("preparing a mirror", move || layout.prepare(&name, damaged)).await?;
            if empty {
                mirror.close();
            }
            let (own, quota) = (mirror.layout.pack_bytes(), what.of(options.quota, empty));
            let room = self.inner.sizes.room(&remote.key, own, quota, &url)?;
            mirror.layout.begin()?;
            let limit = if empty { options.clone_timeout } else { options.timeout };
            let run = OwnedRun { room, first: empty, ..self.run(remote, &mirror.layout, limit) };
            let fetched = match what {
                What::Commit(commit) if !empty => run.fetch_commit(&commit.to_hex()).await,
                What::Reference(reference) if !empty => run.fetch_reference(reference).await,
                What::Commit(_) | What::Reference(_) | What::All => run.fetch_all().await,
            };
            match fetched {
                // What sounds like damage may be the other side's: only a mirror that is not whole is made anew, and once.
                Err(Error::Corrupt { detail, .. }) if tries == 1 && !empty && !run.is_whole().await? => {
                    tracing::warn!(url, detail, "the mirror is damaged");
                    damaged = true;
                }
                Err(e) => {
                    // Half a pack of a large repository must not stay until the next fetch.
                    let layout = mirror.layout.clone();
                    let name = url.clone();
                    blocking("cleaning a mirror", move || {
                        layout.sweep();
                        if empty && !layout.is_filled(&name) {
                            // Nothing came of the first fetch: the next one is the first again, and may take as long.
                            layout.discard()?;
                        }
                        layout.end()
                    })
                    .await?;
                    if empty {
                        mirror.close();
                    }
                    return Err(match e {
                        Error::Corrupt { detail, .. } => Error::Git { url, detail },
                        e => e,
                    });
                }
                Ok(()) => {
                    mirror.layout.end()?;
                    break;
                }
            }
        }
        let packs = mirror.layout.packs();
        self.inner.sizes.put(&remote.key, mirror.layout.pack_bytes());
        mirror.packs_are(packs);
        let repository = self.opened(remote, mirror, mirror.layout.repo()).await?;
        let changed = self.moved(mirror, &repository).await?;
        let wants_tidying = packs > MANY_PACKS || mirror.layout.loose_bytes() > MUCH_LOOSE;
        Ok(Fetched { repository, changed, took: started.elapsed(), wants_tidying })
    }

    /// Whether references moved since this was asked last. Only fetches ask: who reads in between must not hear of a move in
    /// their place.
    async fn moved(&self, mirror: &Arc<Mirror>, repository: &Repository) -> Result<bool> {
        let (mirror, repository) = (Arc::clone(mirror), repository.clone());
        blocking("comparing references", move || {
            let now = hash_references(&repository)?;
            let mut known = mirror.references.lock();
            Ok(known.replace(now) != Some(now))
        })
        .await
    }

    /// The open repository.
    pub(crate) async fn opened(
        &self,
        remote: &Remote,
        mirror: &Arc<Mirror>,
        path: PathBuf,
    ) -> Result<Repository> {
        let mirror = Arc::clone(mirror);
        let (caches, limits) = (Arc::clone(&self.inner.caches), self.inner.options.limits.clone());
        let name = remote.url.to_string();
        blocking("opening a repository", move || {
            let mut open = mirror.open.lock();
            if let Some(known) = &*open
                && known.path == path
                && !known.repository.is_suspect()
            {
                return Ok(known.repository.clone());
            }
            let repository = Repository::open(&path, name, caches, limits)?;
            *open = Some(Open { path, repository: repository.clone() });
            Ok(repository)
        })
        .await
    }
}

impl std::fmt::Debug for Mirrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrors").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Mirror {
    fn is_suspect(&self) -> bool {
        let open = self.open.lock();
        open.as_ref().is_some_and(|o| o.repository.is_suspect())
    }

    /// Forgets the open repository when packs came or went since this was told last: what reads them has room for only a
    /// few more than there were when it opened them (gix-odb's slots: a tenth, 32 in all at least).
    fn packs_are(&self, packs: usize) {
        if self.packs.swap(packs, Ordering::SeqCst) != packs {
            self.close();
        }
    }

    /// Forgets the open repository, whose files are no longer the mirror's.
    pub(crate) fn close(&self) {
        *self.open.lock() = None;
    }
}

pub(crate) fn hash_references(repository: &Repository) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    for (name, id) in repository.references()? {
        hash.update(name);
        hash.update([0]);
        hash.update(id.to_hex());
    }
    Ok(hash.finalize().into())
}

pub(crate) async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Stopped { doing }))
}
