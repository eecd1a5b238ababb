//! Fleet plans of pull requests: one for each head that is read back, published at the host in a comment and a check. Code from a fork
//! waits for a user.

use plural_core::access::Actor;
use plural_core::fleet_plan::{FleetPlan, FleetPlanPhase, follows, follows_head};
use plural_core::fleet_plan_comment::{CHECK, check, comment};
use plural_core::ids::{FleetPlanId, PullRequestId, RepositoryId};
use plural_core::pr_automation::target_allowed;
use plural_core::pull_request::{PrStatus, PullRequest};
use plural_core::repository::Repository;
use plural_core::scm_connection::ScmConnection;
use plural_core::stack_pull_request::{check_releasable, head_reference};
use plural_core::{Error, Result};

use crate::access::{Approve, Authorized, Read, Write, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::fleet_plan::{beginners, beginners_again};
use crate::ports::git_host_pulls::HostCheck;
use crate::records::there;
use crate::repository::RepositorySelector;
use crate::scm_connection::ScmConnectionSelector;

impl App {
    /// Plans the services that a pull request affects, at its head as of the last read. Idempotent.
    pub(crate) async fn fleet_plans_of_pull_request(&self, id: PullRequestId) -> Result<()> {
        let system = self.system_ctx();
        let Some(opened) = there(self.get::<PullRequest>(&system, &id).await)? else { return Ok(()) };
        let (Some(head), Ok(number)) = (opened.life.head.clone(), opened.number()) else { return Ok(()) };
        if opened.told.status != PrStatus::Open {
            return Ok(());
        }
        let by = ScmConnectionSelector::Id(opened.connection_id);
        let Some(connection) = there(self.get::<ScmConnection>(&system, &by).await)? else { return Ok(()) };
        // A connection is not trusted about repositories that it may not use.
        if target_allowed(opened.project_id, &connection, Some(&opened.told.repository)).is_err() {
            return Ok(());
        }
        let reference = head_reference(connection.kind, number);
        for repository in self.scm_repositories(&connection, &opened.told.repository).await? {
            self.fleet_plan_of_pull(&system, &opened, repository, (head.as_str(), reference.as_deref()))
                .await?;
        }
        Ok(())
    }

    async fn fleet_plan_of_pull(
        &self,
        system: &OpCtx,
        opened: &PullRequest,
        repository: RepositoryId,
        (head, reference): (&str, Option<&str>),
    ) -> Result<()> {
        let by = RepositorySelector::Id(repository);
        let found = there(self.authorized::<Repository, Write>(system, &by).await)?;
        // A connection of the installation reads the repositories of many projects: the record is of one.
        let Some(found) = found.filter(|found| found.project_id == opened.project_id) else { return Ok(()) };
        let base = opened.life.facts.base.clone();
        if self.store.fleet_plan_is_known(repository, opened.id, head, base.as_deref()).await? {
            return Ok(());
        }
        // A plan without services is not published.
        let targets = self.store.fleet_plan_targets(repository).await?;
        let is_followed = match &base {
            None => !targets.is_empty(),
            Some(base) if targets.iter().any(|target| target.moves(|git| follows(git, base))) => true,
            Some(base) if targets.iter().any(|target| target.moves(follows_head)) => {
                self.is_default_branch(repository, base).await?
            }
            Some(_) => false,
        };
        // If the target branch changed, the host is told that nothing reads it: the plan before is of another branch.
        let is_elsewhere = |plan: &FleetPlan| {
            plan.repository_id == repository
                && plan.base.as_deref().zip(base.as_deref()).is_some_and(|(was, is)| was != is)
        };
        if !is_followed && !self.store.fleet_plans_newest(opened.id).await?.iter().any(is_elsewhere) {
            return Ok(());
        }
        let (id, at) = (FleetPlanId::new(), self.now());
        let phase = if opened.life.facts.fork { FleetPlanPhase::Held } else { FleetPlanPhase::Looking };
        let plan = FleetPlan {
            id,
            project_id: opened.project_id,
            repository_id: repository,
            pull_request_id: Some(opened.id),
            creator: actor_name(system.actor()),
            reference: head.to_owned(),
            head_reference: reference.map(str::to_owned),
            base,
            phase,
            found: None,
            error: None,
            preview: None,
            created_at: at,
            updated_at: at,
        };
        let by = found.audited_new(system, "fleetPlan.create", "fleet plan", id, &plan.reference);
        if !self.store.fleet_plan_begin(by, &plan, None, &beginners(&plan)?).await? {
            return Err(Error::unavailable(
                "another plan of the pull request began at the same time: this is tried again",
            ));
        }
        Ok(())
    }

    /// Plans the services that an open pull request affects again; needs write access to its project and to their repositories. An
    /// unfinished plan is not started again.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is no plan yet, if one waits for a release, and if the pull request is not open.
    pub async fn fleet_plans_again(&self, ctx: &OpCtx, id: PullRequestId) -> Result<Vec<FleetPlan>> {
        let opened = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        if opened.told.status != PrStatus::Open {
            return Err(Error::conflict("the pull request is not open: there is nothing to plan"));
        }
        let newest = self.store.fleet_plans_newest(id).await?;
        if newest.is_empty() {
            return Err(Error::conflict(
                "there is no plan of services to make again: the pull request has none before its head is read back, and where no service follows its branch",
            ));
        }
        let fork = opened.life.facts.fork;
        // All are checked before one begins.
        let mut allowed = Vec::with_capacity(newest.len());
        for plan in newest {
            let is_moved = plan.found.as_ref().is_some_and(|found| found.moved().is_some());
            match plan.phase {
                FleetPlanPhase::Looking => allowed.push((plan, None)),
                FleetPlanPhase::Asked if !is_moved => allowed.push((plan, None)),
                FleetPlanPhase::Superseded if fork => return Err(unreleased()),
                FleetPlanPhase::Held => return Err(unreleased()),
                FleetPlanPhase::Asked
                | FleetPlanPhase::Done
                | FleetPlanPhase::Failed
                | FleetPlanPhase::Superseded => {
                    let by = RepositorySelector::Id(plan.repository_id);
                    if fork {
                        self.authorized::<Repository, Approve>(ctx, &by).await?;
                    }
                    let repository = self.authorized::<Repository, Write>(ctx, &by).await?;
                    allowed.push((plan, Some(repository)));
                }
            }
        }
        let mut plans = Vec::with_capacity(allowed.len());
        for (plan, repository) in allowed {
            let Some(repository) = repository else {
                plans.push(plan);
                continue;
            };
            let renewed = self.fleet_plan_renewed_by(ctx, &repository, &plan, 0).await?;
            plans.push(renewed.ok_or_else(|| {
                Error::conflict("the pull request has moved on meanwhile: read its plans again")
            })?);
        }
        Ok(plans)
    }

    /// Replaces a plan of a pull request because its branch moved; `false` if it is no longer the one to replace.
    /// Only the console itself does this: the API does not.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn fleet_plan_renewed(&self, before: &FleetPlan) -> Result<bool> {
        self.fleet_plan_tried_again(before, 0).await
    }

    /// [`Self::fleet_plan_renewed`], because the console could not read the commit: `again` is the number of retries, including this one.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn fleet_plan_tried_again(&self, before: &FleetPlan, again: usize) -> Result<bool> {
        let system = self.system_ctx();
        let by = RepositorySelector::Id(before.repository_id);
        let Some(repository) = there(self.authorized::<Repository, Write>(&system, &by).await)? else {
            return Ok(false);
        };
        Ok(self.fleet_plan_renewed_by(&system, &repository, before, again).await?.is_some())
    }

    /// The same commit again. That of a fork was released with the plan before.
    async fn fleet_plan_renewed_by(
        &self,
        ctx: &OpCtx,
        repository: &Authorized<Repository, Write>,
        before: &FleetPlan,
        again: usize,
    ) -> Result<Option<FleetPlan>> {
        let (id, at) = (FleetPlanId::new(), ctx.now());
        let plan = FleetPlan {
            id,
            creator: actor_name(ctx.actor()),
            // The commit that was found, also if a branch was asked for.
            reference: before
                .found
                .as_ref()
                .map_or_else(|| before.reference.clone(), |found| found.sha.clone()),
            phase: FleetPlanPhase::Looking,
            found: None,
            error: None,
            created_at: at,
            updated_at: at,
            ..before.clone()
        };
        let by = repository.audited_new(ctx, "fleetPlan.create", "fleet plan", id, &plan.reference);
        let jobs = beginners_again(&plan, again)?;
        let has_begun = self.store.fleet_plan_begin(by, &plan, Some(before.id), &jobs).await?;
        Ok(has_begun.then_some(plan))
    }

    /// Whether a branch is the default one, as far as it is known here: an unfetched repository is read later.
    async fn is_default_branch(&self, repository: RepositoryId, branch: &str) -> Result<bool> {
        let Some(work) = self.store.repository_work(repository).await? else { return Ok(false) };
        let access = self.git_access(&work).await?;
        let head = self.git.resolve(&access, "HEAD").await;
        let known = self.git.resolve(&access, &format!("refs/heads/{branch}")).await;
        Ok(match (head, known) {
            (Ok(head), Ok(known)) => head.sha == known.sha,
            (Err(_), _) | (_, Err(_)) => true,
        })
    }

    /// Releases the commit of a fork: its plan begins. Needs the right to approve what waits in the repository; the request names the
    /// commit, so that nobody releases another one than they read.
    pub async fn fleet_plan_release(&self, ctx: &OpCtx, id: FleetPlanId, sha: &str) -> Result<FleetPlan> {
        let plan = self.authorized::<FleetPlan, Read>(ctx, &id).await?;
        let by = RepositorySelector::Id(plan.repository_id);
        let repository = self.authorized::<Repository, Approve>(ctx, &by).await?;
        if !matches!(ctx.actor(), Actor::User(_)) {
            return Err(Error::forbidden("only people and service accounts release commits"));
        }
        if plan.phase != FleetPlanPhase::Held {
            return Err(Error::conflict("the plan does not wait for a release"));
        }
        if plan.reference != sha {
            return Err(Error::conflict(format!(
                "the plan is of the commit {}: read that commit, and release it",
                plan.reference
            )));
        }
        check_releasable(sha)?;
        let begun = FleetPlan { phase: FleetPlanPhase::Looking, ..plan.into_inner() };
        let by = repository.audited_new(ctx, "fleetPlan.release", "fleet plan", id, &begun.reference);
        self.store.fleet_plan_release(by, id, &beginners(&begun)?).await
    }

    /// Publishes the state of a plan at the host of its pull request: one comment, and a check of the commit. It publishes the current
    /// state, so it is idempotent.
    pub(crate) async fn fleet_plan_tell(&self, id: FleetPlanId) -> Result<()> {
        let system = self.system_ctx();
        let Some(plan) = there(self.authorized::<FleetPlan, Read>(&system, &id).await)? else {
            return Ok(());
        };
        let Some(pull_request) = plan.pull_request_id else { return Ok(()) };
        let Some(opened) = there(self.get::<PullRequest>(&system, &pull_request).await)? else {
            return Ok(());
        };
        let Ok(number) = opened.number() else { return Ok(()) };
        let parts = self.store.fleet_plan_parts(&plan).await?;
        let Some((state, description)) = check(&plan, &parts) else { return Ok(()) };
        let connected = there(self.scm_host(opened.connection_id).await)?;
        let Some((connection, host)) = connected else { return Ok(()) };
        let slug = &opened.told.repository;
        // The connection may have lost access since the plan was requested.
        if target_allowed(plan.project_id, &connection, Some(slug)).is_err() {
            return Ok(());
        }
        let link = self.fleet_plan_link(pull_request);
        let text = comment(&plan, &parts, link.as_deref());
        host.pull_tell(slug, number, &marker(plan.repository_id), &text).await?;
        // The request may name a branch; a check is of a commit.
        let sha = plan.found.as_ref().map_or(plan.reference.as_str(), |found| found.sha.as_str());
        let told = HostCheck { context: CHECK.to_owned(), state, description, url: link };
        Ok(host.check_tell(slug, sha, &told).await?)
    }

    /// The URL of a pull request's page, if the console knows its own URL.
    fn fleet_plan_link(&self, id: PullRequestId) -> Option<String> {
        let console = self.settings.public_url.as_deref()?.trim_end_matches('/');
        Some(format!("{console}/settings/pull-requests/{id}"))
    }
}

fn unreleased() -> Error {
    Error::conflict("the commit comes from a fork and waits for its release: read it, and release it")
}

/// The marker of the comment: a repository that the console has twice gets two comments.
fn marker(repository: RepositoryId) -> String {
    let id = repository.uuid().simple().to_string();
    // Without its end, which begins with a time.
    let end = id.get(id.len().saturating_sub(12)..).unwrap_or_default();
    format!("plural-services-{end}")
}
