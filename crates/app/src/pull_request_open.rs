//! Opening pull requests with automations. The request is recorded first, and each step is recorded before the next one begins: a console
//! that stops at any point resumes there, and opens exactly one pull request.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::{StreamExt as _, future::join, stream};
use plural_core::cluster::Cluster;
use plural_core::data_key::KeyOwner;
use plural_core::form::{FormQuestion, Known, QuestionType, UniqueIn, answers, context};
use plural_core::group::Group;
use plural_core::idempotency_key::IdempotencyKey;
use plural_core::ids::{PrAutomationId, PrInstanceId, PullRequestId, ScmConnectionId};
use plural_core::merge_window::PrMerging;
use plural_core::pr_automation::{PrAutomation, target_allowed};
use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_core::pr_governance::PrGoverned;
use plural_core::pr_instance::PrGenerated;
use plural_core::project::Project;
use plural_core::pull_request::{
    HostPullRequest, PrPhase, PrProgress, PrStatus, PrWork, PullRequest, branch_of,
};
use plural_core::pull_request_life::PrLife;
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::user::User;
use plural_core::{Error, Result};
use plural_kit::Backoff;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::access::{Authorized, CreatePr, actor_name};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::group::GroupSelector;
use crate::job::{JobFailure, NewJob};
use crate::jobs::{BegunPullRequest, OpenPullRequest};
use crate::ports::git_hosts::{Host, HostCause, HostCommit, HostNewPullRequest, HostOpened};
use crate::ports::scaffolds::ScaffoldEntry;
use crate::pr_automation::PrAutomationSelector;
use crate::pr_instance::{PrLedger, begun};
use crate::pr_instance_made::Compared;
use crate::pr_secret::NewPrSecret;
use crate::project::ProjectSelector;
use crate::pull_request::{PendingPullRequest, PullRequestBegin, PullRequestEnd};
use crate::pull_request_key::{Keyed, or_why_not};
use crate::pull_request_made::{AT_ONCE, Asked, CONTEXT, Made, Stop, secret_in};
use crate::pull_request_refused::{pushed, words};
use crate::scm_connection::ScmConnectionSelector;
use crate::seal::Sealed;
use crate::secret::random;
use crate::user::UserSelector;

/// How long a request waits for its pull request to be open.
const WAIT: Duration = Duration::from_secs(20);
/// Limit of deleted files whose content a preview shows.
const MOST_GONE: usize = 100;
/// Limit of conflicts in the reason of a refusal.
const MOST_TOLD: usize = 50;
/// How long calls to a host are retried before the pull request fails.
const PATIENCE: TimeDelta = TimeDelta::minutes(20);

/// A user's request to an automation. It has no `Debug`: answers may be secret.
pub struct PullRequestAsk {
    /// The automation.
    pub automation: PrAutomationId,
    /// Another repository than the automation's.
    pub identifier: Option<String>,
    /// The branch of the pull request, instead of a generated one.
    pub branch: Option<String>,
    /// The answers.
    pub context: Map<String, Value>,
    /// Idempotency key: a repeated request with the same key opens no second pull request.
    pub key: Option<IdempotencyKey>,
    /// Values of the Secret that the automation asks for.
    pub secrets: Map<String, Value>,
}

/// What a pull request would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestPreview {
    /// The repository.
    pub repository: String,
    /// Its target branch.
    pub base: String,
    /// The commit of that branch that it was computed from.
    pub commit: String,
    /// Title.
    pub title: String,
    /// Text.
    pub message: String,
    /// The files that would change.
    pub files: Vec<PreviewedFile>,
    /// Destinations whose condition does not hold.
    pub skipped: Vec<String>,
    /// What a person should check.
    pub warnings: Vec<String>,
    /// If generated files change: the conflicts that a person has to resolve, one line per file. The warnings include them.
    pub conflicts: Vec<String>,
}

/// A file that a pull request would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedFile {
    /// Its path.
    pub path: String,
    /// It would be created.
    pub is_new: bool,
    /// It would be deleted.
    pub is_gone: bool,
    /// The difference, as `git diff` shows it.
    pub diff: String,
}

/// A pull request to be opened. It has no `Debug`: answers may be secret.
pub(crate) struct Begin {
    pub(crate) id: PullRequestId,
    pub(crate) repository: String,
    pub(crate) base: String,
    pub(crate) branch: String,
    pub(crate) asked: Asked,
    pub(crate) ledger: PrLedger,
    /// The name in the audit log.
    pub(crate) action: &'static str,
    pub(crate) key: Option<Keyed>,
    pub(crate) secret: Option<NewPrSecret>,
}

/// A request after authorisation and validation.
pub(crate) struct Prepared {
    pub(crate) automation: Authorized<PrAutomation, CreatePr>,
    pub(crate) repository: String,
    pub(crate) base: String,
    pub(crate) asked: Asked,
}

impl App {
    /// Opens a pull request with an automation; needs the right to create some with it. Records it at once; a job opens it. Waits for that
    /// for a limited time, and returns the record.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it cannot be opened; its record has the same reason.
    pub async fn pull_request_create(
        &self,
        ctx: &OpCtx,
        ask: PullRequestAsk,
        wait: bool,
    ) -> Result<PullRequest> {
        let key = Keyed::of(ctx, ask.key.as_ref(), &ask.whole())?;
        if key.is_some() {
            // A caller without the right learns nothing about earlier requests.
            let by = PrAutomationSelector::Id(ask.automation);
            self.authorized::<PrAutomation, CreatePr>(ctx, &by).await?;
            if let Some(again) = Box::pin(self.pull_request_again(ctx, key.as_ref(), wait)).await? {
                return Ok(again);
            }
        }
        let Prepared { automation, repository, base, asked } =
            Box::pin(self.pull_request_prepared(ctx, &ask)).await?;
        if asked.spec.patch {
            return Err(Error::conflict(
                "the automation makes a patch, and no pull request: have a preview made, which holds the patch",
            ));
        }
        let (id, at) = (PullRequestId::new(), ctx.now());
        let branch = branch_of(id, asked.spec.branch_prefix.as_deref(), ask.branch.as_deref())?;
        if secret_in(&asked.spec.configuration, &asked.answers, &branch)?.is_some() {
            return Err(Error::invalid(
                "branch",
                "holds a secret answer, and everybody reads it: name another one",
            ));
        }
        if branch == base {
            return Err(Error::invalid(
                "branch",
                "is the one that the pull request goes to: name another one",
            ));
        }
        let instance = begun(&automation, (repository.as_str(), base.as_str()), &asked, (id, at))?;
        let of = (id, &ask.secrets);
        let secret = Box::pin(self.pr_secret_asked(&automation, &instance, of, &asked.answers)).await?;
        let owner = KeyOwner::of(Some(automation.project_id));
        let seed = self.sealer.seal(owner, &seed_context(instance.id), asked.seed.as_bytes()).await?;
        let ledger = PrLedger::New { instance: Box::new(instance), seed };
        let action = "pullRequest.create";
        let begin = Begin { id, repository, base, branch, asked, ledger, action, key, secret };
        Box::pin(self.pull_request_begun(ctx, &automation, begin, wait)).await
    }

    /// Records a pull request to be opened, and waits for it for a limited time.
    pub(crate) async fn pull_request_begun(
        &self,
        ctx: &OpCtx,
        automation: &Authorized<PrAutomation, CreatePr>,
        begin: Begin,
        wait: bool,
    ) -> Result<PullRequest> {
        let Begin { id, repository, base, branch, asked, ledger, action, key, secret } = begin;
        let at = ctx.now();
        self.pull_request_governable(automation).await?;
        let begun = PullRequest {
            id,
            project_id: automation.project_id,
            connection_id: automation.links.connection_id,
            automation_id: Some(automation.id),
            creator: actor_name(ctx.actor()),
            told: HostPullRequest {
                url: String::new(),
                repository,
                branch,
                title: automation.name.to_string(),
                status: PrStatus::Open,
                labels: asked.spec.labels.clone(),
            },
            progress: PrProgress { phase: PrPhase::Pending, commit: None, error: None },
            life: PrLife::default(),
            governed: automation.links.governance_id.map(PrGoverned::new),
            merging: PrMerging { windows: automation.merge_windows.clone(), ..PrMerging::default() },
            created_at: at,
            updated_at: at,
        };
        let work = PrWork { base, ..PrWork::default() };
        let json = asked.into_json()?;
        let owner = KeyOwner::of(Some(begun.project_id));
        let sealed = self.sealer.seal(owner, &seal_context(id), &json).await?;
        let job = NewJob::of::<OpenPullRequest>(&BegunPullRequest { id })?;
        let name = format!("{} {}", begun.told.repository, begun.told.branch);
        let by = automation.audited_new(ctx, action, "pull request", id, &name);
        let known = self.pull_request_key(key.as_ref(), begun.project_id, id).await?;
        let new = PullRequestBegin {
            begun: &begun,
            work: &work,
            asked: &sealed,
            ledger: &ledger,
            job: &job,
            key: known.as_ref(),
            secret: secret.as_ref(),
        };
        if !self.store.pull_request_begin(by, &new).await? {
            // The same request was faster on another connection.
            let again = self.pull_request_again(ctx, key.as_ref(), wait).await?;
            return again
                .ok_or_else(|| Error::conflict("the same request is answered at this moment: try again"));
        }
        if !wait {
            return Ok(begun);
        }
        or_why_not(self.pull_request_awaited(begun).await?)
    }

    /// What a pull request would change; needs the right to create one. Nothing is written.
    pub async fn pull_request_preview(&self, ctx: &OpCtx, ask: PullRequestAsk) -> Result<PullRequestPreview> {
        let Prepared { automation, repository, base, asked } =
            Box::pin(self.pull_request_prepared(ctx, &ask)).await?;
        Box::pin(self.pull_request_previewed(automation.links.connection_id, repository, base, &asked)).await
    }

    /// The changes of a request that is authorised and validated.
    pub(crate) async fn pull_request_previewed(
        &self,
        connection: ScmConnectionId,
        repository: String,
        base: String,
        asked: &Asked,
    ) -> Result<PullRequestPreview> {
        let (_, host) = self.scm_host(connection).await?;
        let commit = host.head(&repository, &base).await?;
        let made = Box::pin(self.pull_request_made(&host, &repository, &commit, asked)).await?;
        // A change of an instance may leave all files as they are: then only its record changes.
        if asked.change.is_none() {
            made.check(&repository)?;
        }
        let Made { mut before, after, generated: _, conflicts } = made;
        // Deleted files were listed, but not read.
        let gone = after.changes.iter().filter(|(_, after)| after.is_none()).map(|(path, _)| path.clone());
        let gone: Vec<String> = gone.take(MOST_GONE).collect();
        let mut reads = Vec::new();
        for path in gone {
            if let Some(ScaffoldEntry::File { bytes, .. }) = before.get(&path)
                && bytes.is_empty()
            {
                let (host, repository, commit) = (Arc::clone(&host), repository.clone(), commit.clone());
                reads.push(async move {
                    let read = host.read(&repository, &commit, &path).await;
                    (path, read)
                });
            }
        }
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        while let Some((path, read)) = reads.next().await {
            let read = read?;
            if let Some(ScaffoldEntry::File { bytes, .. }) = before.get_mut(&path) {
                *bytes = read;
            }
        }
        let (mut files, mut compared) = (Vec::new(), Vec::new());
        for (path, after) in after.changes {
            let before = before.remove(&path);
            let (is_new, is_gone) = (before.is_none(), after.is_none());
            files.push(PreviewedFile { path: path.clone(), is_new, is_gone, diff: String::new() });
            compared.push(Compared { path, before, after });
        }
        for (file, diff) in files.iter_mut().zip(self.differences(compared).await?) {
            file.diff = diff;
        }
        Ok(PullRequestPreview {
            files,
            repository,
            base,
            commit,
            title: after.title,
            message: after.message,
            skipped: after.skipped,
            warnings: after.warnings.into_iter().chain(conflicts.iter().cloned()).collect(),
            conflicts,
        })
    }

    /// Authorises and validates: the right, the repository, the rendered parts, the answers.
    pub(crate) async fn pull_request_prepared(&self, ctx: &OpCtx, ask: &PullRequestAsk) -> Result<Prepared> {
        let by = PrAutomationSelector::Id(ask.automation);
        let automation = self.authorized::<PrAutomation, CreatePr>(ctx, &by).await?;
        let connection = self.pull_request_connection(automation.links.connection_id).await?;
        let identifier = ask.identifier.as_deref().or(automation.spec.identifier.as_deref());
        let allowed = target_allowed(automation.project_id, &connection, identifier);
        let repository = allowed.map_err(|error| match error {
            Error::Invalid { reason, .. } => Error::invalid("identifier", reason),
            error => error,
        })?;
        let repository = repository.ok_or_else(|| {
            Error::invalid("identifier", "must be given: the automation names no repository")
        })?;
        if ask.identifier.is_some() {
            Box::pin(self.pr_target_given(ctx, &automation, &connection, &repository)).await?;
        }
        let questions = &automation.spec.configuration;
        let known = self.pull_request_known(ctx, questions, &ask.context).await?;
        context(questions, &ask.context, Some(&known))
            .map_err(|answers| Error::Answers { field: CONTEXT, answers })?;
        let asked = Asked {
            spec: automation.spec.clone(),
            answers: ask.context.clone(),
            seed: hex::encode(random::<16>()?),
            clock_ms: ctx.now().timestamp_millis(),
            parts: Box::pin(self.pull_request_parts(&automation)).await?,
            change: None,
        };
        let base = base_of(&automation.spec);
        Ok(Prepared { automation, repository, base, asked })
    }

    /// The connection of an automation.
    pub(crate) async fn pull_request_connection(&self, id: ScmConnectionId) -> Result<ScmConnection> {
        // The right to create pull requests does not include the right to read the connection.
        self.get::<ScmConnection>(&self.system_ctx(), &ScmConnectionSelector::Id(id)).await
    }

    /// The answered names that exist: of clusters, projects, groups and users, those that the caller may see. For names that have to be
    /// new, those that are taken, whether the caller may see them or not.
    pub(crate) async fn pull_request_known(
        &self,
        ctx: &OpCtx,
        questions: &[FormQuestion],
        given: &Map<String, Value>,
    ) -> Result<Known> {
        let mut known = Known::default();
        for answer in answers(CONTEXT, questions, given)? {
            let value = answer.value;
            match answer.kind {
                QuestionType::Cluster => {
                    if self.is_cluster(ctx, &value).await? {
                        known.clusters.insert(value.clone());
                    }
                }
                QuestionType::Project => {
                    if is_there(self.get::<Project>(ctx, &ProjectSelector::Name(value.clone())).await)? {
                        known.projects.insert(value.clone());
                    }
                }
                QuestionType::Group => {
                    if is_there(self.get::<Group>(ctx, &GroupSelector::Name(value.clone())).await)? {
                        known.groups.insert(value.clone());
                    }
                }
                QuestionType::User => {
                    if let Ok(email) = value.parse()
                        && is_there(self.get::<User>(ctx, &UserSelector::Email(email)).await)?
                    {
                        known.users.insert(value.clone());
                    }
                }
                // There are no flows.
                QuestionType::Flow
                | QuestionType::String
                | QuestionType::Int
                | QuestionType::Bool
                | QuestionType::Json
                | QuestionType::Password
                | QuestionType::Enum => {}
            }
            let question = questions.iter().find(|question| question.name == answer.name);
            let validation = question.and_then(|question| question.validation.as_ref());
            let (system, scope) = (self.system_ctx(), validation.and_then(|validation| validation.uniq_by));
            match scope.map(|uniq| uniq.scope) {
                Some(UniqueIn::Cluster) if self.is_cluster(&system, &value).await? => {
                    known.clusters.insert(value);
                }
                Some(UniqueIn::Project)
                    if is_there(
                        self.get::<Project>(&system, &ProjectSelector::Name(value.clone())).await,
                    )? =>
                {
                    known.projects.insert(value);
                }
                None | Some(UniqueIn::Cluster | UniqueIn::Project) => {}
            }
        }
        Ok(known)
    }

    async fn is_cluster(&self, ctx: &OpCtx, handle: &str) -> Result<bool> {
        let Ok(handle) = handle.parse() else { return Ok(false) };
        is_there(self.get::<Cluster>(ctx, &ClusterSelector::Handle(handle)).await)
    }

    /// The record once it is open or failed, or once the wait ends.
    pub(crate) async fn pull_request_awaited(&self, begun: PullRequest) -> Result<PullRequest> {
        let until = tokio::time::Instant::now() + WAIT;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(80));
        loop {
            let now = self.get::<PullRequest>(&self.system_ctx(), &begun.id).await?;
            if now.progress.phase != PrPhase::Pending || tokio::time::Instant::now() >= until {
                return Ok(now);
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Resumes opening one at its last recorded step.
    pub(crate) async fn pull_request_open(&self, id: PullRequestId) -> Result<(), JobFailure> {
        let Some(pending) = self.store.pull_request_pending(id).await? else { return Ok(()) };
        let PendingPullRequest { begun, mut work, asked } = pending;
        if let Some(error) = work.refused.clone() {
            return Ok(self.pull_request_refused(&begun, &mut work, error).await?);
        }
        let stop = match Box::pin(self.pull_request_steps(&begun, &mut work, &asked)).await {
            Ok(end) => {
                let jobs = end.follows(id)?;
                return Ok(self.store.pull_request_end(id, &end, &jobs, self.now()).await?);
            }
            Err(stop) => stop,
        };
        let is_late = self.now() - begun.created_at > PATIENCE;
        let (error, retry) = match stop {
            Stop::Failed(error) => (error, None),
            Stop::Later(error) => {
                let again = Error::unavailable(error.clone());
                (error, (!is_late).then_some(again))
            }
            Stop::Ours(error) => (words(&error), (!is_late).then_some(error)),
        };
        if let Some(again) = retry {
            self.store.pull_request_step(id, &work, Some(&error), self.now()).await?;
            Err(JobFailure::Retry(again))
        } else {
            Ok(self.pull_request_refused(&begun, &mut work, error).await?)
        }
    }

    async fn pull_request_steps(
        &self,
        begun: &PullRequest,
        work: &mut PrWork,
        sealed: &Sealed,
    ) -> Result<PullRequestEnd, Stop> {
        let json = self.sealer.open(&seal_context(begun.id), sealed).await?;
        let asked = Asked::from_json(&json)?;
        let (connection, host) = self.scm_host(begun.connection_id).await?;
        let HostPullRequest { repository, branch, labels, .. } = &begun.told;
        // The repository may have moved to another project by now, or the connection may have lost access to it.
        target_allowed(begun.project_id, &connection, Some(repository))?;
        let made = Box::pin(self.pull_request_committed(begun, work, &host, &asked)).await?;
        let title = if made.after.title.is_empty() { &begun.told.title } else { &made.after.title };
        if connection.kind == ScmType::Plain {
            return pushed(begun, work, title);
        }
        let marker = marker(begun.id, &asked.seed);
        let new = HostNewPullRequest {
            head: branch.clone(),
            base: work.base.clone(),
            title: title.clone(),
            body: format!("{}\n\n{marker}\n", made.after.message.trim_end()),
        };
        // It may have been opened, and closed by somebody, before the console learned that it exists.
        let before = if work.opening { host.find(repository, branch, &marker).await? } else { None };
        work.opening = true;
        self.pull_request_stepped(begun.id, work).await?;
        let opened = match before {
            Some(before) => before,
            None => host.open(repository, &new).await?,
        };
        let HostOpened { number, url, title: _, body, author, status, existed } = opened;
        // One that was open already is ours only if it has the marker that nobody else knows.
        if existed && !body.contains(&marker) {
            return Err(Stop::Failed(format!(
                "{author} has a pull request open for the branch {branch}: {url}. Name another branch"
            )));
        }
        if !labels.is_empty() {
            match host.add_labels(repository, number, labels).await {
                Err(error) if error.cause == HostCause::Later => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(pull_request.id = %begun.id, %error, "a pull request gets no labels");
                }
                Ok(()) => {}
            }
        }
        let told = HostPullRequest { url, title: title.clone(), status, ..begun.told.clone() };
        told.check()?;
        Ok(PullRequestEnd::Opened { url: told.url, title: told.title, status })
    }

    /// Pushes the changes to their branch, on top of the base; computes them once more if the base moves meanwhile.
    async fn pull_request_committed(
        &self,
        begun: &PullRequest,
        work: &mut PrWork,
        host: &Arc<dyn Host>,
        asked: &Asked,
    ) -> Result<Made, Stop> {
        let HostPullRequest { repository, branch, .. } = &begun.told;
        loop {
            let parent = if let Some(parent) = &work.parent {
                parent.clone()
            } else {
                let head = host.head(repository, &work.base).await?;
                work.parent = Some(head.clone());
                self.pull_request_stepped(begun.id, work).await?;
                head
            };
            // Checks at the same time whether the branch exists.
            let made = Box::pin(self.pull_request_made(host, repository, &parent, asked));
            let (made, taken) = join(made, host.head(repository, branch)).await;
            let made = made?;
            self.pull_request_checked(begun, work, &made, asked).await?;
            if work.commit.is_some() {
                return Ok(made);
            }
            let commit = HostCommit {
                branch: branch.clone(),
                base: work.base.clone(),
                parent,
                message: message(&made, &begun.told.title),
                changes: made.changes(),
            };
            match taken {
                Ok(head) => {
                    // An earlier attempt may have pushed it, without learning that it succeeded.
                    let found = (head.as_str(), &commit);
                    if work.making && self.pull_request_found(begun, work, host, found).await? {
                        return Ok(made);
                    }
                    return Err(Stop::Failed(format!(
                        "{repository} has a branch {branch} already: name another one, or have it deleted"
                    )));
                }
                Err(error) if error.cause == HostCause::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            work.making = true;
            self.pull_request_stepped(begun.id, work).await?;
            match host.commit(repository, &commit).await {
                Ok(made_commit) => {
                    work.commit = Some(made_commit);
                    self.pull_request_stepped(begun.id, work).await?;
                    return Ok(made);
                }
                Err(error) if error.cause == HostCause::Moved && !work.rebased => {
                    work.rebased = true;
                    work.parent = None;
                    self.pull_request_stepped(begun.id, work).await?;
                }
                Err(error) if error.cause == HostCause::Moved => {
                    return Err(Stop::Failed(format!(
                        "the branch {} of {repository} moved twice while the changes were made: try again",
                        work.base
                    )));
                }
                // It may exist because this attempt pushed it, and the answer was lost.
                Err(error) if error.cause == HostCause::Conflict => {
                    if self.pull_request_conflict(begun, work, host, &commit).await? {
                        return Ok(made);
                    }
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Refuses what must not become a pull request, and collects what is generated for its record: the next step writes it.
    async fn pull_request_checked(
        &self,
        begun: &PullRequest,
        work: &mut PrWork,
        made: &Made,
        asked: &Asked,
    ) -> Result<(), Stop> {
        let repository = &begun.told.repository;
        let refuses = asked.change.as_ref().is_some_and(|change| !change.may_conflict());
        if refuses && !made.conflicts.is_empty() {
            let told: Vec<&str> = made.conflicts.iter().take(MOST_TOLD).map(String::as_str).collect();
            let more = match made.conflicts.len() - told.len() {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            return Err(Stop::Failed(format!(
                "{repository} changed what was generated, and both cannot be had: {}{more}. Allow conflicts to get them between markers",
                told.join("; ")
            )));
        }
        let commit = work.parent.clone().unwrap_or_default();
        let generated = made.generated.clone();
        work.generated = Some(generated.unwrap_or_else(|| PrGenerated {
            templates: commit.clone(),
            commit,
            files: made.files(),
        }));
        if let (true, Some(change)) = (made.after.changes.is_empty(), &asked.change) {
            if change.needs_merge {
                return Err(Stop::Failed(format!(
                    "{repository} is so already, so there is nothing to merge, and without a merge only whoever may write the automation \
                     has its Secret changed, or deleted: have one of them ask for it"
                )));
            }
            work.unneeded = true;
            self.pull_request_stepped(begun.id, work).await?;
            return Err(Stop::Failed(format!(
                "no pull request is needed: {repository} is so already, which is recorded now"
            )));
        }
        made.check(repository)
    }

    async fn pull_request_stepped(&self, id: PullRequestId, work: &PrWork) -> Result<()> {
        self.store.pull_request_step(id, work, None, self.now()).await
    }
}

/// The target branch of an automation's pull requests.
pub(crate) fn base_of(spec: &PrAutomationSpec) -> String {
    spec.branch.clone().unwrap_or_else(|| "main".to_owned())
}

fn is_there<T>(found: Result<T>) -> Result<bool> {
    match found {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The message of the commit.
fn message(made: &Made, name: &str) -> String {
    let title = if made.after.title.is_empty() { name } else { made.after.title.as_str() };
    let message = made.after.message.trim();
    if message.is_empty() || message == title { title.to_owned() } else { format!("{title}\n\n{message}\n") }
}

/// The marker in a pull request's text that says where it comes from. Nobody else knows it before the pull request is open.
fn marker(id: PullRequestId, seed: &str) -> String {
    let proof = hex::encode(Sha256::digest(format!("pull request {id} {seed}")));
    format!("<!-- plural-pull-request: {id} {} -->", &proof[..32])
}

/// The associated data of an instance's sealed seed.
pub(crate) fn seed_context(id: PrInstanceId) -> String {
    format!("pr_instance:{id}:seed")
}

fn seal_context(id: PullRequestId) -> String {
    format!("pull_request:{id}:asked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_of_one_pull_request_and_needs_its_seed() {
        let id = PullRequestId::new();
        assert_eq!(marker(id, "a"), marker(id, "a"));
        assert_ne!(marker(id, "a"), marker(id, "b"));
        assert_ne!(marker(id, "a"), marker(PullRequestId::new(), "a"));
    }
}
