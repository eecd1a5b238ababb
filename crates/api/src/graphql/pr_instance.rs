//! Instances of automations: what their pull requests generated.

use async_graphql::{Context, Enum, ID, Object};
use chrono::{DateTime, Utc};
use plural_app::pr_instance::PrInstanceFilter;
use plural_app::pr_instance_change::PrInstanceAsk;
use plural_core::ids::PrAutomationId;
use plural_specs::{Json, Map};

use super::{
    error::{IntoGraphql as _, List, Nullable, id, id_in, list, nullable},
    fleet_plan::FleetPlan,
    page::{connection, page_args},
    pr_automation::PrAutomation,
    project::Project,
    pull_request::{PullRequest, PullRequestPreview, given_answers, key_in, object_in},
    record::{by_id, one, page_of},
    request::request,
};

/// The state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_instance::PrInstanceState")]
pub(crate) enum PrInstanceState {
    /// Its pull request is not merged yet.
    Pending,
    /// Its pull request was merged.
    Active,
    /// Its pull request was closed, or never opened.
    Abandoned,
    /// A pull request that removes it was merged.
    Removed,
}

/// How a generated file differs from its generated content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_instance::PrDrift")]
pub(crate) enum PrInstanceDrift {
    /// It does not.
    Same,
    /// It has other content, or an edit is missing.
    Changed,
    /// It was deleted.
    Missing,
}

/// What a pull request of an automation generated.
pub(crate) struct PrInstance(plural_core::pr_instance::PrInstance);

impl From<plural_core::pr_instance::PrInstance> for PrInstance {
    fn from(instance: plural_core::pr_instance::PrInstance) -> Self {
        Self(instance)
    }
}

connection!(PrInstanceConnection, PrInstanceEdge, PrInstance);

/// What a pull request of an automation generated.
#[Object]
impl PrInstance {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its state.
    async fn state(&self) -> Option<PrInstanceState> {
        Some(self.0.state.into())
    }

    /// The repository, as `acme/shop`.
    async fn repository(&self) -> Option<&str> {
        Some(self.0.repository.as_str())
    }

    /// The target branch of its pull requests.
    async fn base(&self) -> Option<&str> {
        Some(self.0.base.as_str())
    }

    /// The common folder of all files that belong to it alone; empty: the root of the repository.
    async fn path(&self) -> Option<&str> {
        Some(self.0.path())
    }

    /// The version of its automation, counted from one.
    async fn revision(&self) -> Option<i64> {
        Some(self.0.made.version.revision)
    }

    /// SHA-256 of that version's questions and actions.
    async fn digest(&self) -> Option<&str> {
        Some(self.0.made.version.digest.as_str())
    }

    /// The automation has another version now; absent if you may not see it, and for an instance that is not active.
    async fn outdated(&self, ctx: &Context<'_>) -> Nullable<bool> {
        nullable(async {
            let (Some(id), plural_core::pr_instance::PrInstanceState::Active) =
                (self.0.automation_id, self.0.state)
            else {
                return Ok(None);
            };
            let found = by_id::<
                plural_core::pr_automation::PrAutomation,
                plural_core::pr_automation::PrAutomation,
            >(ctx, id);
            let Some(automation) = found.await? else { return Ok(None) };
            Ok(Some(automation.spec.digest().into_graphql(ctx)? != self.0.made.version.digest))
        })
        .await
    }

    /// The answers, without secret ones.
    async fn answers(&self) -> Option<Map> {
        Some(Map(self.0.made.answers.known.clone()))
    }

    /// Questions with a secret answer, which is not stored: it has to be given again.
    async fn secret_answers(&self) -> List<&str> {
        list(self.0.made.answers.secret.iter().map(String::as_str))
    }

    /// The generated files.
    async fn files(&self) -> List<PrInstanceFile> {
        list(self.0.made.files.iter().cloned().map(PrInstanceFile))
    }

    /// The merge commit, if it is known.
    async fn commit(&self) -> Option<&str> {
        self.0.commit.as_deref()
    }

    /// The commit that it was first generated on.
    async fn base_commit(&self) -> Option<&str> {
        self.0.base_commit.as_deref()
    }

    /// The pull request of its current version; absent once that is deleted.
    async fn pull_request(&self, ctx: &Context<'_>) -> Nullable<PullRequest> {
        nullable(by_id::<plural_core::pull_request::PullRequest, _>(ctx, self.0.pull_request_id)).await
    }

    /// The last pull request that is to change or remove it, and was not merged.
    async fn change(&self, ctx: &Context<'_>) -> Nullable<PullRequest> {
        let id = self.0.change.as_ref().map(|change| change.pull_request_id);
        nullable(by_id::<plural_core::pull_request::PullRequest, _>(ctx, id)).await
    }

    /// Its automation; absent once that is deleted, or if you may not see it.
    async fn automation(&self, ctx: &Context<'_>) -> Nullable<PrAutomation> {
        nullable(by_id::<plural_core::pr_automation::PrAutomation, _>(ctx, self.0.automation_id)).await
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was requested.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// A generated file.
pub(crate) struct PrInstanceFile(plural_core::pr_instance::PrInstanceFile);

/// A generated file.
#[Object]
impl PrInstanceFile {
    /// Its path.
    async fn path(&self) -> Option<&str> {
        Some(self.0.path.as_str())
    }

    /// SHA-256 of its generated content; absent: it was deleted.
    async fn digest(&self) -> Option<&str> {
        self.0.digest.as_deref()
    }

    /// It did not exist before.
    async fn created(&self) -> Option<bool> {
        Some(self.0.is_new)
    }
}

/// The current state of a generated file.
pub(crate) struct PrInstanceFileDrift(plural_app::pr_instance_change::PrInstanceDrift);

/// The current state of a generated file.
#[Object]
impl PrInstanceFileDrift {
    /// Its path.
    async fn path(&self) -> Option<&str> {
        Some(self.0.path.as_str())
    }

    /// How it differs from its generated content.
    async fn drift(&self) -> Option<PrInstanceDrift> {
        Some(self.0.drift.into())
    }

    /// The changes since, as `git diff` shows them.
    async fn diff(&self) -> Option<&str> {
        Some(self.0.diff.as_str())
    }
}

/// The result of one upgrade among many.
pub(crate) struct PrInstanceUpgrade(plural_app::pr_instance_change::PrInstanceUpgraded);

/// The result of one upgrade among many.
#[Object]
impl PrInstanceUpgrade {
    /// The instance before the upgrade.
    async fn instance(&self) -> Option<PrInstance> {
        Some(self.0.instance.clone().into())
    }

    /// Its pull request, which is being opened.
    async fn pull_request(&self) -> Option<PullRequest> {
        self.0.outcome.as_ref().ok().cloned().map(PullRequest::from)
    }

    /// Why there is none.
    async fn error(&self) -> Option<&str> {
        self.0.outcome.as_ref().err().map(String::as_str)
    }
}

/// Reading instances.
#[derive(Default)]
pub(crate) struct PrInstanceQuery;

/// Reading instances.
#[Object]
impl PrInstanceQuery {
    /// The instance of one pull request.
    async fn pr_instance(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
    ) -> Nullable<PrInstance> {
        one::<plural_core::pr_instance::PrInstance, _>(ctx, id(&instance)).await
    }

    /// The instances of the projects that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn pr_instances(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only of this automation.")] automation_id: Option<ID>,
        #[graphql(desc = "Only those that stand so.")] state: Option<PrInstanceState>,
        #[graphql(desc = "true: only those that are there and whose automation has another version now.")]
        outdated: Option<bool>,
        #[graphql(desc = "Only with this in the name of their repository.")] q: Option<String>,
        #[graphql(desc = "Only those that this pull request made what they are, or is to change.")]
        pull_request_id: Option<ID>,
    ) -> Nullable<PrInstanceConnection> {
        let ids = id_in("projectId", project_id.as_deref()).and_then(|project_id| {
            let automation_id = id_in("automationId", automation_id.as_deref())?;
            Ok((project_id, automation_id, id_in("pullRequestId", pull_request_id.as_deref())?))
        });
        let filter = ids.map(|(project_id, automation_id, pull_request_id)| PrInstanceFilter {
            project_id,
            automation_id,
            state: state.map(Into::into),
            outdated,
            q,
            pull_request_id,
        });
        page_of::<plural_core::pr_instance::PrInstance, _>(ctx, filter, page_args(after, first, before, last))
            .await
    }
}

/// The preview of a change of an instance, by this method of `App`; nothing is written.
macro_rules! dry_run {
    ($ctx:ident, $method:ident, $ask:expr) => {
        nullable(async {
            let request = request($ctx);
            let ask = $ask.into_graphql($ctx)?;
            let made = Box::pin(request.app.$method(&request.op, ask)).await;
            Ok(Some(made.into_graphql($ctx)?.into()))
        })
        .await
    };
}

/// Changing instances.
#[derive(Default)]
pub(crate) struct PrInstanceMutation;

/// Changing instances.
#[Object]
impl PrInstanceMutation {
    /// Upgrades an instance to the newest version of its automation, by a pull request; needs the right to create some with the
    /// automation. Changes that people made to other lines stay.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn upgrade_pr_instance(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Answers that change, those to new questions, and secret ones.")] context: Option<
            Json,
        >,
        #[graphql(desc = "true: lines that both changed come between markers; else nothing is done.")]
        allow_conflicts: Option<bool>,
        #[graphql(
            desc = "true: its files become those of the new version, whatever people changed in them."
        )]
        overwrite: Option<bool>,
        #[graphql(desc = "false: answer at once, with what is recorded.")] wait: Option<bool>,
        #[graphql(
            desc = "1 to 128 printable characters of your own: asked once more with the same within 24 hours, there is one pull request."
        )]
        idempotency_key: Option<String>,
        #[graphql(
            desc = "Values of the Secret that the newest version asks for, by name. Those that its cluster has stay as they are where they are left out."
        )]
        secrets: Option<Json>,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let key = key_in(idempotency_key).into_graphql(ctx)?;
            let secrets = object_in("secrets", secrets).into_graphql(ctx)?;
            let ask = PrInstanceAsk {
                secrets,
                allow_conflicts: allow_conflicts.unwrap_or(false),
                overwrite: overwrite.unwrap_or(false),
                key,
                ..ask(&instance, context).into_graphql(ctx)?
            };
            let wait = wait.unwrap_or(true);
            let made = Box::pin(request.app.pr_instance_upgrade(&request.op, ask, wait)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Upgrades all instances with an older version of an automation, each by its own pull request, opened in the
    /// background; needs the right to create some with it.
    async fn upgrade_pr_instances(
        &self,
        ctx: &Context<'_>,
        automation_id: ID,
        #[graphql(desc = "Answers that change, those to new questions, and secret ones: of all.")]
        context: Option<Json>,
        #[graphql(desc = "true: lines that both changed come between markers; else nothing is done.")]
        allow_conflicts: Option<bool>,
    ) -> Nullable<Vec<Option<PrInstanceUpgrade>>> {
        nullable(async {
            let request = request(ctx);
            let automation: PrAutomationId = id(&automation_id).into_graphql(ctx)?;
            let context = given_answers(context).into_graphql(ctx)?;
            let allow = allow_conflicts.unwrap_or(false);
            let done =
                Box::pin(request.app.pr_instance_upgrade_all(&request.op, automation, &context, allow)).await;
            Ok(list(done.into_graphql(ctx)?.into_iter().map(PrInstanceUpgrade)))
        })
        .await
    }

    /// Removes an instance, by a pull request; needs the right to create some with the automation. Later changes stay, and
    /// the pull request lists them.
    async fn uninstall_pr_instance(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Secret answers, which are not kept.")] context: Option<Json>,
        #[graphql(desc = "false: answer at once, with what is recorded.")] wait: Option<bool>,
        #[graphql(
            desc = "1 to 128 printable characters of your own: asked once more with the same within 24 hours, there is one pull request."
        )]
        idempotency_key: Option<String>,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let key = key_in(idempotency_key).into_graphql(ctx)?;
            let ask = PrInstanceAsk { key, ..ask(&instance, context).into_graphql(ctx)? };
            let wait = wait.unwrap_or(true);
            let made = Box::pin(request.app.pr_instance_uninstall(&request.op, ask, wait)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// What an upgrade would change; needs the right to do it. Nothing is written. Conflicts are among the warnings.
    async fn preview_pr_instance_upgrade(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Answers that change, those to new questions, and secret ones.")] context: Option<
            Json,
        >,
        #[graphql(
            desc = "true: its files become those of the new version, whatever people changed in them."
        )]
        overwrite: Option<bool>,
    ) -> Nullable<PullRequestPreview> {
        dry_run!(ctx, pr_instance_upgrade_preview, upgrade_ask(&instance, context, overwrite))
    }

    /// What a removal would change; needs the right to do it. Nothing is written. What stays is among the warnings.
    async fn preview_pr_instance_uninstall(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Secret answers, which are not kept.")] context: Option<Json>,
    ) -> Nullable<PullRequestPreview> {
        dry_run!(ctx, pr_instance_uninstall_preview, ask(&instance, context))
    }

    /// Starts a fleet plan of an upgrade; needs the right to do it. Returns at once: the plan fills while the agents
    /// answer. Only you and administrators see it, for an hour; it supersedes an earlier one of yours with the same automation. Nothing is
    /// written, and nothing is applied. On conflicting lines, it fails and names them.
    async fn plan_pr_instance_upgrade(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Answers that change, those to new questions, and secret ones.")] context: Option<
            Json,
        >,
        #[graphql(
            desc = "true: its files become those of the new version, whatever people changed in them."
        )]
        overwrite: Option<bool>,
    ) -> Nullable<FleetPlan> {
        dry_run!(ctx, pr_instance_upgrade_plan, upgrade_ask(&instance, context, overwrite))
    }

    /// Starts a fleet plan of a removal; needs the right to do it. Otherwise like that of an upgrade.
    async fn plan_pr_instance_uninstall(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Secret answers, which are not kept.")] context: Option<Json>,
    ) -> Nullable<FleetPlan> {
        dry_run!(ctx, pr_instance_uninstall_plan, ask(&instance, context))
    }

    /// How files differ from their generated content; needs the right to create pull requests with the automation. Nothing is written.
    async fn diff_pr_instance(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] instance: ID,
        #[graphql(desc = "Secret answers, which are not kept.")] context: Option<Json>,
    ) -> Nullable<Vec<Option<PrInstanceFileDrift>>> {
        nullable(async {
            let request = request(ctx);
            let ask = ask(&instance, context).into_graphql(ctx)?;
            let found = Box::pin(request.app.pr_instance_drift(&request.op, ask)).await;
            Ok(list(found.into_graphql(ctx)?.into_iter().map(PrInstanceFileDrift)))
        })
        .await
    }
}

/// The request of a preview.
fn upgrade_ask(
    instance: &ID,
    context: Option<Json>,
    overwrite: Option<bool>,
) -> plural_core::Result<PrInstanceAsk> {
    Ok(PrInstanceAsk { overwrite: overwrite.unwrap_or(false), ..ask(instance, context)? })
}

fn ask(instance: &ID, context: Option<Json>) -> plural_core::Result<PrInstanceAsk> {
    Ok(PrInstanceAsk {
        id: id(instance)?,
        context: given_answers(context)?,
        allow_conflicts: false,
        overwrite: false,
        secrets: serde_json::Map::new(),
        key: None,
    })
}
