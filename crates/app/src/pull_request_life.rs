//! The life of a pull request after it was opened: the console reads it back from its host, and the host has the last word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::join_all;
use plural_core::ids::{PullRequestId, RepositoryId, ScmConnectionId};
use plural_core::merge_window::PrMerging;
use plural_core::pr_automation::target_allowed;
use plural_core::pull_request::{HostPullRequest, PrProgress, PrStatus, PullRequest};
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks, PrMarkers, PrPlace};
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::scm_webhook::identities;
use plural_core::{Error, Result};

use crate::access::{Audited, Read, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{HeardPullRequest, KnownPullRequest, PlanPullRequest, ReadPullRequest};
use crate::ports::git_hosts::{Host, HostBranch, HostCause, HostError, HostPull, HostResult};
use crate::records::there;
use crate::scm_connection::ScmConnectionSelector;
use crate::scm_webhook::{ScmWebhookRow, ScmWebhookSelector};
use crate::stack_pull_request::PullAddress;

/// How often the open pull requests of a repository are listed. Webhooks report changes sooner.
const POLLED_EVERY: TimeDelta = TimeDelta::minutes(5);
/// How often one that is unchanged in the list is read on its own: lists have no checks and reviews.
const READ_EVERY: TimeDelta = TimeDelta::hours(1);
/// Limit of those per list.
const READ_AT_A_TIME: usize = 5;
/// Time limit of the poll of one repository, so that others get their turn.
const POLLED_FOR: std::time::Duration = std::time::Duration::from_mins(1);
/// Limit of branches of plain git that are read per repository and pass.
const BRANCHES_AT_A_TIME: usize = 20;
/// A host counts as down after this many failed reads in a row.
const DOWN_AFTER: usize = 3;
/// Limit of changed pull requests that are read per list; the next pass finds the rest.
const CHANGED_AT_A_TIME: usize = 100;
/// Limit of open pull requests without an open record that are looked up per list: hosts list the newest first.
const OTHERS_AT_A_TIME: usize = 50;
/// Limit of those that are read because their text names what they belong to.
const MET_AT_A_TIME: usize = 10;
/// Limit of repositories that are listed per pass.
const REPOSITORIES: u64 = 20;
/// How long a host may report a new pull request as not found.
const GONE_AFTER: TimeDelta = TimeDelta::minutes(10);
/// Limit of the reason of a failed read, in bytes.
const MAX_ERROR: usize = 1024;
/// Delay of the job that reads one back after a change by a user, in case the console stops before it does so itself.
pub(crate) const AFTERWARDS: std::time::Duration = std::time::Duration::from_secs(30);

/// What the host reported of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestRead {
    /// The part that lists show.
    pub told: HostPullRequest,
    /// The rest, with the time of the request.
    pub life: PrLife,
}

/// Pull requests after they were opened.
#[async_trait]
pub trait PullRequestLifeStore: Send + Sync + 'static {
    /// The records of a pull request that a webhook of this connection reported: by number, or by head.
    async fn pull_requests_heard(
        &self,
        connection: ScmConnectionId,
        slug: &str,
        number: Option<u64>,
        head: Option<&str>,
    ) -> Result<Vec<PullRequestId>>;
    /// Writes what was read, with its follow-up jobs. `false`, with nothing written, if the record is of a later request, or is merged and
    /// this is not.
    async fn pull_request_read_back(
        &self,
        id: PullRequestId,
        read: &PullRequestRead,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<bool>;
    /// Records one that somebody else opened, with its follow-up jobs. `false`, with nothing written, if there is a record with its
    /// URL, or the console is opening one from this branch itself.
    async fn pull_request_adopt(&self, adopted: &PullRequest, jobs: &[NewJob]) -> Result<bool>;
    /// At most `most` repositories with open pull requests that were not listed since then, the longest waiting first.
    async fn pull_requests_due(
        &self,
        since: DateTime<Utc>,
        most: u64,
    ) -> Result<Vec<(ScmConnectionId, String)>>;
    /// The open pull requests of a repository, which counts as listed from now on.
    async fn pull_requests_polled(
        &self,
        connection: ScmConnectionId,
        repository: &str,
        at: DateTime<Utc>,
    ) -> Result<Vec<PullRequest>>;
    /// Records that a user changes one, with a job that reads it back later.
    async fn pull_request_acted(&self, by: Audited<'_, PullRequest, Write>, job: &NewJob) -> Result<()>;
}

impl App {
    /// Enqueues reads of what a webhook reported, as far as the webhook is trusted by now.
    pub(crate) async fn pull_request_heard(&self, heard: &HeardPullRequest) -> Result<()> {
        let HeardPullRequest { webhook_id, slug, number, head } = heard;
        let by = ScmWebhookSelector::Id(*webhook_id);
        let Some(ScmWebhookRow { webhook, connection, hmac: _ }) = self.store.scm_webhook_row(&by).await?
        else {
            return Ok(());
        };
        if !webhook.is_believed(&connection, slug) {
            return Ok(());
        }
        if let Some(number) = number {
            // The stacks that it affects do not depend on its record, which may not exist.
            let pull =
                PullAddress { connection_id: connection.id, repository: slug.clone(), number: *number };
            self.store.jobs_enqueue(&[NewJob::of::<PlanPullRequest>(&pull)?], self.now()).await?;
        }
        let known = self.store.pull_requests_heard(connection.id, slug, *number, head.as_deref()).await?;
        if let (true, Some(number)) = (known.is_empty(), number) {
            return Box::pin(self.pull_request_met(connection.id, slug, *number)).await;
        }
        self.pull_requests_ask(known).await
    }

    /// Enqueues reads of these.
    pub(crate) async fn pull_requests_ask(&self, ids: Vec<PullRequestId>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let jobs: Result<Vec<NewJob>> = ids.into_iter().map(job_of).collect();
        self.store.jobs_enqueue(&jobs?, self.now()).await
    }

    /// Reads a pull request without a record, and records it if its claims about what it belongs to are trusted.
    async fn pull_request_met(&self, connection: ScmConnectionId, slug: &str, number: u64) -> Result<()> {
        let at = self.now();
        let (connection, host) = match self.scm_host(connection).await {
            Ok(found) => found,
            // The connection was deleted, or has no credentials: there is nothing to wait for.
            Err(Error::NotFound { .. } | Error::Invalid { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let pull = match host.pull_request(slug, number).await {
            Ok(pull) => pull,
            // The host does not have it, or hides it.
            Err(error) if error.cause != HostCause::Later => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (project, links) = self.pull_request_links(&connection, slug, None, &pull).await?;
        let Some(project_id) = project else { return Ok(()) };
        let (author, title) = (pull.author.clone(), pull.title.clone());
        let read = self.pull_request_facts(&host, slug, pull, links, at).await?;
        let PullRequestRead { told, life } = read;
        if told.check().is_err() {
            tracing::warn!(connection.id = %connection.id, number, title, "a pull request is not recorded: the host tells of it what cannot be");
            return Ok(());
        }
        let adopted = PullRequest {
            id: PullRequestId::new(),
            project_id,
            connection_id: connection.id,
            automation_id: None,
            creator: author,
            told,
            progress: PrProgress::OPENED,
            life,
            // The author writes the text, so it never decides who has to confirm the pull request.
            governed: None,
            merging: PrMerging::default(),
            created_at: at,
            updated_at: at,
        };
        let before = PullRequest { life: PrLife::default(), ..adopted.clone() };
        let jobs = Self::pull_request_seen(&before, &adopted)?;
        if self.store.pull_request_adopt(&adopted, &jobs).await? {
            tracing::info!(pull_request.id = %adopted.id, connection.id = %connection.id, "a pull request names what reads its repository, and is recorded");
        }
        Ok(())
    }

    /// Reads one back. If its host no longer has it, or hides it, the record says so.
    pub(crate) async fn pull_request_read(&self, id: PullRequestId) -> Result<()> {
        let Some(before) = there(self.get::<PullRequest>(&self.system_ctx(), &id).await)? else {
            return Ok(());
        };
        // The host may not have it yet.
        let Ok(place) = before.place() else { return Ok(()) };
        self.pull_request_reread_at(&before, place).await.map(drop)
    }

    pub(crate) async fn pull_request_reread(&self, before: &PullRequest, number: u64) -> Result<PullRequest> {
        self.pull_request_reread_at(before, PrPlace::Number(number)).await
    }

    async fn pull_request_reread_at(&self, before: &PullRequest, place: PrPlace) -> Result<PullRequest> {
        let at = self.now();
        let asked = match place {
            PrPlace::Number(number) => Box::pin(self.pull_request_asked(before, number, at)).await,
            PrPlace::Branch => Box::pin(self.pull_request_followed(before, at)).await,
        };
        let read = match asked {
            Ok(read) => read,
            Err(error @ (Error::Unavailable { .. } | Error::Internal { .. })) => return Err(error),
            Err(error) => unread(before, &error, at),
        };
        self.pull_request_write(before, &read).await
    }

    /// The current state at its host.
    async fn pull_request_asked(
        &self,
        before: &PullRequest,
        number: u64,
        at: DateTime<Utc>,
    ) -> Result<PullRequestRead> {
        let (connection, host) = self.scm_host(before.connection_id).await?;
        let repository = &before.told.repository;
        // The repository may have moved to another project by now, or the connection may have lost access to it.
        target_allowed(before.project_id, &connection, Some(repository))?;
        let pull = match host.pull_request(repository, number).await {
            Ok(pull) => pull,
            Err(error) if error.cause == HostCause::NotFound && at - before.created_at > GONE_AFTER => {
                // A host that still lists the others has deleted this one: it can no longer be merged, and nothing waits for that.
                host.open_pull_requests(repository).await.map_err(|_| error)?;
                return Ok(gone(before, at));
            }
            Err(error) => return Err(error.into()),
        };
        let project = Some(before.project_id);
        let (_, links) = self.pull_request_links(&connection, repository, project, &pull).await?;
        let mut read = self.pull_request_facts(&host, repository, pull, links, at).await?;
        // These identify it: after a rename of the repository, the record keeps the old name.
        read.told.url.clone_from(&before.told.url);
        read.told.repository.clone_from(&before.told.repository);
        read.told.check()?;
        Ok(read)
    }

    /// The state of its branch, in a repository of plain git.
    async fn pull_request_followed(
        &self,
        before: &PullRequest,
        at: DateTime<Utc>,
    ) -> Result<PullRequestRead> {
        let (connection, host) = self.scm_host(before.connection_id).await?;
        let HostPullRequest { repository, branch, .. } = &before.told;
        target_allowed(before.project_id, &connection, Some(repository))?;
        let (Some(base), Some(commit)) = (&before.life.facts.base, &before.progress.commit) else {
            return Err(Error::conflict("it is not recorded which branch it goes to, and with which commit"));
        };
        // People push to the branch, and merge the result.
        let last = before.life.head.as_deref().filter(|head| head != commit);
        let followed = host.follow(repository, branch, base, commit, last).await?;
        let HostBranch { status, head, base: has } = followed;
        let mut life = PrLife { read_at: Some(at), ..before.life.clone() };
        life.facts.error = None;
        if head.is_some() {
            life.head = head;
        }
        if status == PrStatus::Merged && life.facts.merge_commit.is_none() {
            life.facts.merge_commit = Some(has);
        }
        Ok(PullRequestRead { told: HostPullRequest { status, ..before.told.clone() }, life })
    }

    /// Adds checks and reviews to what a host reports of one.
    async fn pull_request_facts(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        pull: HostPull,
        links: PrLinks,
        at: DateTime<Utc>,
    ) -> Result<PullRequestRead> {
        let HostPull {
            number,
            url,
            title,
            body: _,
            author,
            status,
            draft,
            fork,
            branch,
            base,
            head,
            labels,
            merge_commit,
        } = pull;
        let reviews = as_told(host.reviews(repository, number).await)?;
        let checks = if head.is_empty() { None } else { as_told(host.checks(repository, &head).await)? };
        let head = Some(head).filter(|head| !head.is_empty());
        let facts = PrFacts {
            base: Some(base).filter(|base| !base.is_empty()),
            author: Some(author).filter(|author| !author.is_empty()),
            draft,
            fork,
            merge_commit,
            checks,
            reviews,
            error: None,
        };
        let told = HostPullRequest { url, repository: repository.to_owned(), branch, title, status, labels };
        Ok(PullRequestRead { told: told.tidied(), life: PrLife { head, facts, links, read_at: Some(at) } })
    }

    /// Writes what was read, with its follow-up jobs; returns the record.
    async fn pull_request_write(&self, before: &PullRequest, read: &PullRequestRead) -> Result<PullRequest> {
        let merging = before.merging.clone().seen(read.told.status, read.life.head.as_deref());
        let after =
            PullRequest { told: read.told.clone(), life: read.life.clone(), merging, ..before.clone() };
        let jobs = Self::pull_request_seen(before, &after)?;
        if self.store.pull_request_read_back(before.id, read, &jobs, self.now()).await? {
            return Ok(after);
        }
        self.get::<PullRequest>(&self.system_ctx(), &before.id).await
    }

    /// Enqueues fetches of the git repositories that a merge changed.
    pub(crate) async fn pull_request_merged(&self, id: PullRequestId) -> Result<()> {
        let Some(merged) = there(self.get::<PullRequest>(&self.system_ctx(), &id).await)? else {
            return Ok(());
        };
        let by = ScmConnectionSelector::Id(merged.connection_id);
        let Some(connection) = there(self.get::<ScmConnection>(&self.system_ctx(), &by).await)? else {
            return Ok(());
        };
        let ids = self.scm_repositories(&connection, &merged.told.repository).await?;
        if ids.is_empty() { Ok(()) } else { self.store.repository_notify(&ids).await }
    }

    /// The git repositories that are this one of a host, in the connection's project, or in all projects if it has none.
    pub(crate) async fn scm_repositories(
        &self,
        connection: &ScmConnection,
        slug: &str,
    ) -> Result<Vec<RepositoryId>> {
        let told = identities(connection.kind, &connection.spec, slug);
        let all = self.store.scm_webhook_repositories(connection.project_id).await?;
        Ok(all.into_iter().filter(|(_, url)| told.contains(&url.identity())).map(|(id, _)| id).collect())
    }

    /// One pass of the poll: lists the open pull requests of repositories that are due, and reads those back that differ from their record.
    /// Returns the number of repositories.
    pub async fn pull_requests_tend(&self) -> Result<u64> {
        let due = self.store.pull_requests_due(self.now() - POLLED_EVERY, REPOSITORIES).await?;
        let count = due.len() as u64;
        let mut of_hosts: BTreeMap<ScmConnectionId, Vec<String>> = BTreeMap::new();
        for (connection, repository) in due {
            of_hosts.entry(connection).or_default().push(repository);
        }
        // A slow host does not delay the others.
        let polls: Vec<_> = of_hosts
            .into_iter()
            .map(|(connection, repositories)| Box::pin(self.pull_requests_poll(connection, repositories)))
            .collect();
        for polled in join_all(polls).await {
            polled?;
        }
        Ok(count)
    }

    /// Lists repositories of one host, until the host is unavailable.
    async fn pull_requests_poll(&self, id: ScmConnectionId, repositories: Vec<String>) -> Result<()> {
        let (mut is_down, mut slow) = (false, 0);
        let found = match self.scm_host(id).await {
            Ok(found) => Some(found),
            Err(error @ Error::Internal { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(connection.id = %id, %error, "pull requests are not polled");
                is_down = matches!(error, Error::Unavailable { .. });
                None
            }
        };
        for repository in repositories {
            // Before the list, so that a failure does not make it due again at once: a host that is down gets no constant retries.
            let ours = self.store.pull_requests_polled(id, &repository, self.now()).await?;
            if is_down || ours.is_empty() {
                continue;
            }
            let polling = async {
                match &found {
                    Some((connection, _)) if connection.kind == ScmType::Plain => {
                        self.pull_requests_branches(&ours).await
                    }
                    Some((connection, host)) if connection.spec.allows(&repository) => {
                        self.pull_requests_compare((id, host), &repository, &ours).await
                    }
                    Some(_) | None => self.pull_requests_unlisted(&ours).await,
                }
            };
            let Ok(polled) = tokio::time::timeout(POLLED_FOR, Box::pin(polling)).await else {
                tracing::warn!(connection.id = %id, repository, "a repository answers too slowly to poll its pull requests");
                slow += 1;
                is_down = slow >= DOWN_AFTER;
                // A job has no such limit, and its fetch serves the next pass.
                let oldest = ours.iter().min_by_key(|one| one.life.read_at).map(|one| one.id);
                self.pull_requests_ask(oldest.into_iter().collect()).await?;
                continue;
            };
            match polled {
                Ok(()) => {}
                Err(error @ Error::Internal { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(connection.id = %id, repository, %error, "pull requests are not polled");
                    is_down = matches!(error, Error::Unavailable { .. });
                }
            }
        }
        Ok(())
    }

    /// Reads branches of a repository of plain git, the least recently read first. All at the same time, so that they share one fetch
    /// of the repository.
    async fn pull_requests_branches(&self, ours: &[PullRequest]) -> Result<()> {
        let mut all: Vec<_> = ours.iter().filter_map(|one| Some((one, one.place().ok()?))).collect();
        all.sort_by_key(|(one, _)| one.life.read_at);
        all.truncate(BRANCHES_AT_A_TIME);
        let count = all.len();
        let mut reads = Vec::with_capacity(count);
        for (one, place) in all {
            reads.push(async move { (one.id, Box::pin(self.pull_request_reread_at(one, place)).await) });
        }
        let mut failed = 0;
        for (id, read) in join_all(reads).await {
            match read {
                Ok(_) => {}
                Err(error @ Error::Unavailable { .. }) => {
                    failed += 1;
                    if failed == count {
                        return Err(error);
                    }
                    tracing::warn!(pull_request.id = %id, %error, "a pull request is not read back now");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads some of those back that are in no list and are due: each gets its current state, or the reason why that is unknown.
    async fn pull_requests_unlisted(&self, ours: &[PullRequest]) -> Result<()> {
        let at = self.now();
        let is_old = |one: &&PullRequest| one.life.read_at.is_none_or(|read| at - read > READ_EVERY);
        let mut old: Vec<_> =
            ours.iter().filter(is_old).filter_map(|one| Some((one, one.place().ok()?))).collect();
        old.sort_by_key(|(one, _)| one.life.read_at);
        old.truncate(READ_AT_A_TIME);
        self.pull_requests_reread(old).await
    }

    /// Reads these back. A failure of one does not affect the others.
    async fn pull_requests_reread(&self, all: Vec<(&PullRequest, PrPlace)>) -> Result<()> {
        let mut failed = 0;
        for (one, place) in all {
            match self.pull_request_reread_at(one, place).await {
                Ok(_) => failed = 0,
                Err(error @ Error::Unavailable { .. }) => {
                    failed += 1;
                    if failed >= DOWN_AFTER {
                        return Err(error);
                    }
                    tracing::warn!(pull_request.id = %one.id, %error, "a pull request is not read back now");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads those back that differ from their record, some of the others, and those that were reopened; records those that no webhook
    /// reported.
    async fn pull_requests_compare(
        &self,
        (connection, host): (ScmConnectionId, &Arc<dyn Host>),
        repository: &str,
        ours: &[PullRequest],
    ) -> Result<()> {
        let listed = match host.open_pull_requests(repository).await {
            // One that is not listed is read by its number.
            Ok((listed, _)) => listed,
            Err(error) if error.cause == HostCause::Later => return Err(error.into()),
            // The repository was deleted, or one entry of the list is invalid.
            Err(error) => {
                tracing::warn!(connection.id = %connection, repository, %error, "pull requests are not listed");
                return self.pull_requests_unlisted(ours).await;
            }
        };
        let at = self.now();
        let (mut changed, mut same) = (Vec::new(), Vec::new());
        for one in ours {
            let Some(number) = one.told.number() else { continue };
            match listed.iter().find(|pull| pull.number == number) {
                Some(pull) if is_same(one, pull) => same.push((one, PrPlace::Number(number))),
                Some(_) | None => changed.push((one, PrPlace::Number(number))),
            }
        }
        // The least recently read first.
        changed.sort_by_key(|(one, _)| one.life.read_at);
        changed.truncate(CHANGED_AT_A_TIME);
        same.retain(|(one, _)| one.life.read_at.is_none_or(|read| at - read > READ_EVERY));
        same.sort_by_key(|(one, _)| one.life.read_at);
        same.truncate(READ_AT_A_TIME);
        self.pull_requests_reread(changed.into_iter().chain(same).collect()).await?;
        let known: BTreeSet<u64> = ours.iter().filter_map(|one| one.told.number()).collect();
        let mut claims = Vec::new();
        let others = listed.iter().filter(|pull| !known.contains(&pull.number)).take(OTHERS_AT_A_TIME);
        for HostPull { number, title, body, .. } in others {
            let slug = repository.to_lowercase();
            let again = self.store.pull_requests_heard(connection, &slug, Some(*number), None).await?;
            if again.is_empty() && !PrMarkers::of(title, body).is_empty() {
                claims.push(*number);
            }
            self.pull_requests_ask(again).await?;
        }
        for number in claims.into_iter().take(MET_AT_A_TIME) {
            match Box::pin(self.pull_request_met(connection, repository, number)).await {
                Ok(()) => {}
                // The host fails: the others would wait in vain.
                Err(error @ Error::Unavailable { .. }) => {
                    tracing::warn!(connection.id = %connection, repository, number, %error, "a pull request is not met now");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads one back at once; needs write access to it.
    pub async fn pull_request_refresh(&self, ctx: &OpCtx, id: PullRequestId) -> Result<PullRequest> {
        let known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        let place = known.place()?;
        let job = job_of(id)?.after(AFTERWARDS);
        self.store.pull_request_acted(known.audited(ctx, "pullRequest.refresh"), &job).await?;
        self.pull_request_reread_at(&known, place).await
    }

    /// Closes one without a merge; needs write access to it.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it is merged.
    pub async fn pull_request_close(&self, ctx: &OpCtx, id: PullRequestId) -> Result<PullRequest> {
        let known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        let number = known.number()?;
        Box::pin(self.pull_request_acts(ctx, &known)).await?;
        if known.told.status == PrStatus::Merged {
            return Err(Error::conflict("the pull request is merged: there is nothing to close"));
        }
        let host = self.pull_request_host(&known).await?;
        let job = job_of(id)?.after(AFTERWARDS);
        self.store.pull_request_acted(known.audited(ctx, "pullRequest.close"), &job).await?;
        host.close(&known.told.repository, number).await.map_err(refused)?;
        self.pull_request_done(&known, number, PrStatus::Closed).await
    }

    /// Refuses to merge or close a pull request that no automation opened if the caller may not see its connection: whoever writes the text of a
    /// pull request can have it recorded in a project, which must not let them use the token of the whole installation.
    pub(crate) async fn pull_request_acts(&self, ctx: &OpCtx, known: &PullRequest) -> Result<()> {
        if known.automation_id.is_some() {
            return Ok(());
        }
        let by = ScmConnectionSelector::Id(known.connection_id);
        match self.authorized::<ScmConnection, Read>(ctx, &by).await {
            Ok(_) => Ok(()),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Err(Error::forbidden(
                "no automation opened the pull request, or its automation was deleted, and its connection is of the whole installation: an \
                 administrator merges or closes it, or somebody at its host",
            )),
            Err(error) => Err(error),
        }
    }

    /// The host of one, if its connection may still use its repository.
    pub(crate) async fn pull_request_host(&self, known: &PullRequest) -> Result<Arc<dyn Host>> {
        let (connection, host) = self.scm_host(known.connection_id).await?;
        target_allowed(known.project_id, &connection, Some(&known.told.repository))?;
        Ok(host)
    }

    /// The record after the host changed something. If it cannot be read now, the record takes the change that the host confirmed.
    pub(crate) async fn pull_request_done(
        &self,
        known: &PullRequest,
        number: u64,
        status: PrStatus,
    ) -> Result<PullRequest> {
        let at = self.now();
        let read = match Box::pin(self.pull_request_asked(known, number, at)).await {
            Ok(read) => read,
            Err(error) => {
                let error = error.log_text();
                tracing::warn!(pull_request.id = %known.id, error, "a pull request was changed and could not be read back; trying again");
                PullRequestRead {
                    told: HostPullRequest { status, ..known.told.clone() },
                    life: PrLife { read_at: Some(at), ..known.life.clone() },
                }
            }
        };
        self.pull_request_write(known, &read).await
    }
}

pub(crate) fn job_of(id: PullRequestId) -> Result<NewJob> {
    NewJob::of::<ReadPullRequest>(&KnownPullRequest { id })
}

/// Whether the entry of a list equals the record.
fn is_same(known: &PullRequest, pull: &HostPull) -> bool {
    let sorted = |labels: &[String]| {
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        labels
    };
    let (told, life) = (&known.told, &known.life);
    let listed = HostPullRequest {
        branch: pull.branch.clone(),
        title: pull.title.clone(),
        labels: pull.labels.clone(),
        ..told.clone()
    };
    let listed = listed.tidied();
    told.status == pull.status
        && told.title == listed.title
        && told.branch == listed.branch
        && life.facts.draft == pull.draft
        && life.facts.error.is_none()
        // Some hosts abbreviate commits in lists.
        && life.head.as_deref().is_some_and(|head| pull.head.len() >= 12 && head.starts_with(&pull.head))
        && sorted(&told.labels) == sorted(&listed.labels)
}

/// The record of one that could not be read: the state as before, with the reason.
fn unread(before: &PullRequest, error: &Error, at: DateTime<Utc>) -> PullRequestRead {
    let mut why = error.to_string();
    let mut end = why.len().min(MAX_ERROR);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why.truncate(end);
    let mut life = PrLife { read_at: Some(at), ..before.life.clone() };
    life.facts.error = Some(why);
    PullRequestRead { told: before.told.clone(), life }
}

/// The record of one that its host no longer has.
fn gone(before: &PullRequest, at: DateTime<Utc>) -> PullRequestRead {
    let mut life = PrLife { read_at: Some(at), ..before.life.clone() };
    life.facts.error = None;
    let mut told = before.told.clone();
    if told.status == PrStatus::Open {
        told.status = PrStatus::Closed;
    }
    PullRequestRead { told, life }
}

/// An optional part of a read: if the host returns it malformed, the rest still counts.
fn as_told<T>(read: HostResult<Option<T>>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(read),
        Err(error) if error.cause == HostCause::Later => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "checks or reviews of a pull request are not read");
            Ok(None)
        }
    }
}

/// A refusal by the host is a conflict, not bad input.
pub(crate) fn refused(error: HostError) -> Error {
    match error.cause {
        HostCause::Refused | HostCause::NotFound => Error::conflict(error.message),
        HostCause::Later | HostCause::Moved | HostCause::Conflict => error.into(),
    }
}
