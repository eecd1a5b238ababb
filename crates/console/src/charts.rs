//! Charts and artifacts of several parts as the use cases need them: `plural-registry` and `plural-git`, joined.

mod layout;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use plural_app::ports::charts::{
    ChartAccess, ChartCredentials, ChartPart, ChartPin, ComposeError, Composed, Composer, Composition,
    GitPart,
};
use plural_app::ports::git::{Built, GitError};
use plural_app::source::SourceLimits;
use plural_core::helm_repository::chart_place;
use plural_core::service::HelmVerify;
use plural_git::{Artifact, BlobStore, Digest, SourceFile};
use plural_kit::{Hold, LaneLimits, Lanes, Turn, Turns};
use plural_registry::{
    Access, Client, Content, Credentials, Files, Freshness, Kind, Lack, Limits, Options, Pin, PublicKey,
    Repositories, Shelf, Wanted, check_provenance, complete, unpack, unpack_chart, weight,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::git::{Git, Taken, explain};
use layout::Layout;

/// How old an index may be where nobody asked for a new one.
const INDEX_LASTS: Duration = Duration::from_mins(4);

/// Part of the memory limit that sources may take while they are put together, in percent.
const MEMORY_PERCENT: u64 = 25;
/// And at least this: the largest source that there may be, alone.
const LEAST_BYTES: u64 = 2 * (128 << 20);
/// The files, and the artifact that they become.
const COPIES: u64 = 2;
/// What one begins with: many wait for other machines, and hold nothing yet.
const BASE_BYTES: u64 = 64 << 10;
/// See [`Charts`]; the second is for one project.
const UNPACKED_AT_ONCE: (usize, usize) = (2, 1);
const READ_AT_ONCE: (usize, usize) = (4, 2);
/// How long the charts that one source needs may take to come.
const FETCHING: Duration = Duration::from_mins(10);
/// Attempts: one tells what is lacking, the next has it.
const ROUNDS: usize = 4;

/// The adapter.
pub(crate) struct Charts {
    client: Client,
    git: Arc<Git>,
    blobs: Arc<dyn BlobStore>,
    /// What is put together holds bytes; waiting for other machines holds none that matter.
    lanes: Arc<Lanes>,
    /// Sources whose archives are unpacked or looked into at once: their size is known after that.
    unpacking: AtOnce,
    /// Folders of git that are read at once, for the same reason.
    reading: AtOnce,
}

/// Work that is done so many times at once, of which one party does a part.
struct AtOnce {
    all: Semaphore,
    /// Who has much to do waits for its own, and leaves the next turn to others.
    parties: Turns<String>,
}

impl AtOnce {
    fn new((all, each): (usize, usize)) -> Self {
        Self { all: Semaphore::new(all), parties: Turns::new(each, usize::MAX) }
    }

    async fn turn(&self, party: &str) -> (Option<Turn<String>>, Option<SemaphorePermit<'_>>) {
        let turn = self.parties.take(party.to_owned()).await;
        // Nobody closes it.
        (turn, self.all.acquire().await.ok())
    }
}

impl Charts {
    pub(crate) fn new(options: Options, git: Arc<Git>, blobs: Arc<dyn BlobStore>) -> Self {
        let content = Arc::new(Kept { blobs: Arc::clone(&blobs) });
        let lanes = LaneLimits::of_memory(MEMORY_PERCENT, Duration::MAX);
        let lanes = Lanes::new(LaneLimits { bytes: lanes.bytes.max(LEAST_BYTES), base: BASE_BYTES, ..lanes });
        let unpacking = AtOnce::new(UNPACKED_AT_ONCE);
        let reading = AtOnce::new(READ_AT_ONCE);
        Self { client: Client::new(options, content), git, blobs, lanes, unpacking, reading }
    }

    /// A chart or artifact in a repository: which version is meant, and its content, verified and kept. Nothing waits for it,
    /// however long the repository takes.
    async fn fetched(
        &self,
        part: &ChartPart,
        known: &Known<'_>,
        fresh: bool,
    ) -> Result<Option<Fetched>, ComposeError> {
        let ChartPart::Repository { address, chart, version, verify, pin } = part else { return Ok(None) };
        let access = known.find(address, chart.as_deref()).map_err(of_registry)?;
        let HelmVerify { cosign_key, openpgp_keys } = verify.clone().unwrap_or_default();
        let key = cosign_key.as_deref().map(PublicKey::from_pem).transpose().map_err(of_registry)?;
        let pin = pin
            .as_ref()
            .map(|ChartPin { version, digest }| Pin { version: version.clone(), digest: digest.clone() });
        let wanted = Wanted {
            access: &access,
            chart: chart.as_deref(),
            version,
            signed_by: key.as_ref(),
            pin: pin.as_ref(),
            freshness: if fresh { Freshness::Now } else { Freshness::Within(INDEX_LASTS) },
        };
        let resolved = self.client.resolve(&wanted).await.map_err(of_registry)?;
        let signed = match openpgp_keys {
            Some(keys) => {
                let signed = self.client.provenance(&access, &resolved).await.map_err(of_registry)?;
                Some(self.git.signed_text(&signed, &keys).await.map_err(owners)?)
            }
            None => None,
        };
        let content = self.client.content(&access, &resolved).await.map_err(of_registry)?;
        let digest = hex::encode(Sha256::digest(&content));
        if let Some(text) = signed {
            // In a registry a chart's name may have folders before it.
            let name = chart.as_deref().and_then(|chart| chart.rsplit('/').next()).unwrap_or_default();
            check_provenance(&text, name, &resolved.version, &digest).map_err(of_registry)?;
        }
        let pin = ChartPin { version: resolved.version, digest: resolved.digest };
        Ok(Some(Fetched { kind: resolved.kind, digest, bytes: content.len() as u64, pin }))
    }

    /// Its files; nothing when its content is not kept any more.
    async fn unpacked(&self, fetched: &Fetched, held: &mut Held<'_>) -> Result<Option<Files>, ComposeError> {
        room(held.hold, fetched.bytes)?;
        let content = self.client.kept_content(&fetched.digest).await.map_err(of_registry)?;
        let Some(content) = content else { return Ok(None) };
        let kind = fetched.kind;
        let _turn = self.unpacking.turn(held.party).await;
        let files = blocking(move || match kind {
            Kind::Chart => unpack_chart(&content, &Limits::default()),
            Kind::Manifests => unpack(&content, &Limits::default()),
        })
        .await?
        .map_err(|error| owners(told(&error)))?;
        let bytes = bytes(files.iter().map(|(path, file)| weight(path, file.content.len())));
        room(held.hold, fetched.bytes + bytes)?;
        held.more(bytes)?;
        Ok(Some(files))
    }

    async fn taken(
        &self,
        part: &GitPart,
        taken: Taken,
    ) -> Result<BTreeMap<String, SourceFile>, ComposeError> {
        let GitPart { access, sha, source } = part;
        self.git.files(access, sha, source, taken).await.map_err(owners)
    }
}

#[async_trait]
impl Composer for Charts {
    async fn compose(&self, composition: &Composition) -> Result<Composed, ComposeError> {
        let Composition { git, chart, sources, fresh, project, repositories, limits, files: _ } = composition;
        let in_git = git.iter().chain(sources.iter().map(|(_, part)| part));
        let in_git = in_git.chain(chart.iter().filter_map(|chart| match chart {
            ChartPart::Git(part) => Some(part),
            ChartPart::Repository { .. } => None,
        }));
        for part in in_git {
            if let Some(problem) = limits.problem(part.access.url.as_str()) {
                return Err(owners(GitError::terminal(problem)));
            }
        }
        // Who composes much takes turns with others.
        let party = project.map(|project| project.to_string()).unwrap_or_default();
        let known = Known { repositories, limits, party: &party };
        let mut shelf = Shelf::default();
        let mut fetched = None;
        for _ in 0..ROUNDS {
            // Nothing is held while other machines take their time.
            if fetched.is_none()
                && let Some(chart) = chart
            {
                let fetching = self.fetched(chart, &known, *fresh);
                fetched = tokio::time::timeout(FETCHING, fetching).await.map_err(|_| late(1))??;
            }
            let attempt = |hold| self.composed(composition, &party, fetched.as_ref(), &shelf, hold);
            let step = match self.lanes.run(&party, false, attempt).await {
                Ok((step, _)) => step?,
                Err(overrun) => {
                    let why = format!("the source cannot be assembled: {overrun}");
                    return Err(owners(GitError::terminal(why)));
                }
            };
            match step {
                Step::Whole(composed) => return Ok(*composed),
                Step::Gone => fetched = None,
                Step::Lacks(lacks) => {
                    let fetching = self.fetch(&known, &mut shelf, &lacks);
                    tokio::time::timeout(FETCHING, fetching).await.map_err(|_| late(lacks.len()))??;
                }
            }
        }
        Err(owners(GitError {
            transient: true,
            ..GitError::terminal("fetched charts were evicted; retrying")
        }))
    }
}

/// What came of an attempt.
enum Step {
    Whole(Box<Composed>),
    /// The chart that was fetched is not kept any more.
    Gone,
    /// These come first.
    Lacks(Vec<Lack>),
}

/// A chart or artifact of a repository. Its content is kept, not held.
struct Fetched {
    kind: Kind,
    /// Hex SHA-256 of the content.
    digest: String,
    bytes: u64,
    pin: ChartPin,
}

/// What an attempt holds, and for whom.
struct Held<'a> {
    party: &'a str,
    hold: &'a Hold,
    bytes: u64,
}

impl Held<'_> {
    /// Files, and the artifact that they become.
    fn more(&mut self, bytes: u64) -> Result<(), ComposeError> {
        self.bytes = self.bytes.saturating_add(bytes);
        room(self.hold, COPIES.saturating_mul(self.bytes))
    }
}

impl Charts {
    async fn fetch(&self, known: &Known<'_>, shelf: &mut Shelf, lacks: &[Lack]) -> Result<(), ComposeError> {
        for lack in lacks {
            shelf.fetch(&self.client, known, lack).await.map_err(|error| of_dependency(&error))?;
        }
        Ok(())
    }

    /// Adds the files of a git folder. Few are read at once: how large they are is known after that.
    async fn add(
        &self,
        layout: &mut Layout,
        path: &str,
        part: &GitPart,
        taken: Taken,
        held: &mut Held<'_>,
    ) -> Result<(), ComposeError> {
        let _turn = self.reading.turn(held.party).await;
        let files = self.taken(part, taken).await?;
        held.more(bytes(files.iter().map(|(path, file)| weight(path, file.content.len()))))?;
        layout.add(path, &part.source.folder, files);
        Ok(())
    }

    async fn composed(
        &self,
        composition: &Composition,
        party: &str,
        fetched: Option<&Fetched>,
        shelf: &Shelf,
        hold: Arc<Hold>,
    ) -> Result<Step, ComposeError> {
        let Composition { git, chart, files, sources, fresh: _, limits: _, project: _, repositories: _ } =
            composition;
        let mut layout = Layout::default();
        let mut held = Held { party, hold: &hold, bytes: 0 };
        match chart {
            None => {
                if let Some(part) = git {
                    self.add(&mut layout, "", part, Taken::All, &mut held).await?;
                }
            }
            Some(chart) => {
                match chart {
                    ChartPart::Repository { .. } => {
                        let Some(fetched) = fetched else { return Ok(Step::Gone) };
                        let Some(files) = self.unpacked(fetched, &mut held).await? else {
                            return Ok(Step::Gone);
                        };
                        let files = files.into_iter().map(|(path, file)| (path, of_chart(file)));
                        layout.add("", "", files.collect());
                    }
                    ChartPart::Git(part) => {
                        self.add(&mut layout, "", part, Taken::All, &mut held).await?;
                    }
                }
                if let Some(part) = git {
                    self.add(&mut layout, "", part, Taken::Named(files.clone()), &mut held).await?;
                }
            }
        }
        for (path, part) in sources {
            self.add(&mut layout, path, part, Taken::All, &mut held).await?;
        }
        if let Some(absent) = files.iter().find(|file| !layout.has(file)) {
            return Err(owners(GitError {
                location: Some(absent.clone()),
                ..GitError::terminal(format!("no source of the service has {absent:?}, which it names"))
            }));
        }
        let own = git.as_ref().map_or("", |part| part.source.folder.as_str());
        let (files, folder) = layout.finish(own);
        let mut charts: Vec<String> = vec![folder.clone()];
        charts.extend(sources.iter().map(|(path, _)| join(&folder, path)));
        let files: Files = files.into_iter().map(|(path, file)| (path, of_git(file))).collect();
        charts.retain(|chart| files.contains_key(&join(chart, "Chart.yaml")));

        let held_before = held.bytes;
        let own_hold = Arc::clone(&hold);
        let mut taken = 0_u64;
        let mut room = move |bytes: usize| {
            taken = taken.saturating_add(bytes as u64);
            let all = held_before.saturating_add(taken);
            if own_hold.cover(COPIES.saturating_mul(all)) { Ok(()) } else { Err(no_room()) }
        };
        let loaded = shelf.load(&self.client, &mut room).await.map_err(|error| of_dependency(&error))?;
        // Archives are looked into, and files copied: that takes a while.
        let (files, lacks) = {
            let _turn = self.unpacking.turn(party).await;
            blocking(move || {
                let mut files = files;
                let lacks = complete(&loaded, &mut files, &charts, &Limits::default(), &mut room);
                (files, lacks)
            })
            .await?
        };
        let lacks = lacks.map_err(|error| of_dependency(&error))?;
        if !lacks.is_empty() {
            return Ok(Step::Lacks(lacks));
        }
        let artifact = blocking(move || {
            let files =
                files.iter().map(|(path, file)| (path.as_str(), file.content.as_slice(), file.executable));
            Artifact::of_files(files, folder, &plural_git::Limits::default())
        })
        .await?
        .map_err(|error| owners(explain(error)))?;
        let built = Built {
            digest: artifact.digest.to_string(),
            folder: artifact.folder,
            bytes: artifact.tar.len() as u64,
            incomplete: false,
        };
        self.blobs.put(artifact.digest, artifact.tar).await.map_err(|error| owners(explain(error)))?;
        let chart = fetched.map(|fetched| fetched.pin.clone());
        Ok(Step::Whole(Box::new(Composed { built, chart })))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn of_registry(error: plural_registry::Error) -> ComposeError {
    let repository = matches!(
        error.cause,
        plural_registry::Cause::Unavailable
            | plural_registry::Cause::Unauthorized
            | plural_registry::Cause::Refused
    );
    ComposeError { error: told(&error), repository }
}

fn no_room() -> plural_registry::Error {
    plural_registry::Error::new(plural_registry::Cause::Malformed, "there is no room for the source")
}

/// A chart that another needs cannot be had.
fn of_dependency(error: &plural_registry::Error) -> ComposeError {
    // Its repository is not the one that the chart itself is read from.
    owners(told(error))
}

fn late(charts: usize) -> ComposeError {
    let minutes = FETCHING.as_secs() / 60;
    owners(GitError {
        transient: true,
        ..GitError::terminal(format!(
            "fetching the {charts} charts that it needs took longer than {minutes} minutes; retrying"
        ))
    })
}

/// Whether a composition may hold so much; if not, it is begun again with more room, or told that there is none.
fn room(hold: &Hold, bytes: u64) -> Result<(), ComposeError> {
    if hold.cover(bytes) {
        Ok(())
    } else {
        Err(owners(GitError::terminal("there is no room for the source")))
    }
}

fn bytes(sizes: impl Iterator<Item = usize>) -> u64 {
    sizes.map(|size| size as u64).sum()
}

/// The repositories that the console knows how to sign in to, and from which of all that there are it may read.
struct Known<'a> {
    repositories: &'a [ChartAccess],
    limits: &'a SourceLimits,
    party: &'a str,
}

impl Known<'_> {
    fn find(&self, address: &str, chart: Option<&str>) -> plural_registry::Result<Access> {
        // Nobody is asked before, with credentials or without.
        if let Some(problem) = self.limits.problem(address) {
            return Err(plural_registry::Error::new(plural_registry::Cause::Invalid, problem));
        }
        let access = Access::new(address)?.with_party(self.party);
        // Credentials can be for one repository of a registry.
        let place = chart_place(address, chart);
        let covering = self.repositories.iter().filter(|known| {
            let is_ours = known.project_id.is_none() || known.project_id == self.limits.charts_of;
            is_ours && known.url.covers(&place)
        });
        let Some(known) = covering.max_by_key(|known| known.url.as_str().len()) else { return Ok(access) };
        let ChartAccess { url: _, project_id: _, credentials, ca, proxy } = known.clone();
        let credentials = match credentials {
            None => Credentials::None,
            Some(ChartCredentials::Basic { username, password }) => Credentials::Basic { username, password },
            Some(ChartCredentials::Bearer { token }) => Credentials::Bearer { token },
        };
        Ok(access.with_credentials(credentials).with_ca(ca).with_proxy(proxy))
    }
}

#[async_trait]
impl Repositories for Known<'_> {
    async fn access(&self, address: &str, chart: &str) -> plural_registry::Result<Access> {
        self.find(address, Some(chart))
    }
}

/// Fetched archives among the artifacts: under their digest, shared by all services.
struct Kept {
    blobs: Arc<dyn BlobStore>,
}

#[async_trait]
impl Content for Kept {
    async fn get(&self, digest: &str) -> plural_registry::Result<Option<Bytes>> {
        let digest: Digest = digest.parse().map_err(kept)?;
        Ok(self.blobs.get(digest).await.map_err(kept)?.map(Bytes::from))
    }

    async fn put(&self, digest: &str, content: Bytes) -> plural_registry::Result<()> {
        let digest: Digest = digest.parse().map_err(kept)?;
        self.blobs.put(digest, content.to_vec()).await.map(drop).map_err(kept)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn kept(error: plural_git::Error) -> plural_registry::Error {
    plural_registry::Error::new(plural_registry::Cause::Unavailable, format!("cannot keep a chart: {error}"))
}

fn told(error: &plural_registry::Error) -> GitError {
    GitError { message: error.message.clone(), location: None, transient: error.is_transient() }
}

fn owners(error: GitError) -> ComposeError {
    ComposeError { error, repository: false }
}

fn of_chart(file: plural_registry::File) -> SourceFile {
    let plural_registry::File { content, executable } = file;
    SourceFile { content, executable }
}

fn of_git(file: SourceFile) -> plural_registry::File {
    let SourceFile { content, executable } = file;
    plural_registry::File { content, executable }
}

fn join(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ComposeError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(error = %error, "putting an artifact together failed unexpectedly");
        owners(GitError {
            transient: true,
            ..GitError::terminal("putting the artifact together failed unexpectedly: see the console's log")
        })
    })
}
