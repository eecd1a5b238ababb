//! Changes of what pull requests of automations generated, by further pull requests: upgrades and removals. They are opened like those of
//! automations, so each is opened exactly once.

use std::collections::BTreeSet;

use plural_core::fleet_plan::FleetPlan;
use plural_core::form::context;
use plural_core::idempotency_key::IdempotencyKey;
use plural_core::ids::{PrAutomationId, PrInstanceId, PullRequestId, ScmConnectionId};
use plural_core::pr_automation::{PrAutomation, target_allowed};
use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_core::pr_instance::{
    PrAnswers, PrDrift, PrInstance, PrInstanceChange, PrInstanceChangeKind, PrInstanceState, PrMade, PrParts,
    PrVersion,
};
use plural_core::pr_secret::PrSecret;
use plural_core::pull_request::{PullRequest, branch_of};
use plural_core::{Error, PageArgs, Result};
use serde_json::{Map, Value, json};

use crate::access::{Authorized, CreatePr, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::scaffolds::{ScaffoldEntry, ScaffoldMerge, ScaffoldMerged};
use crate::pr_automation::PrAutomationSelector;
use crate::pr_instance::{PrInstanceFilter, PrLedger};
use crate::pr_instance_made::{AskedChange, AskedKind, Compared, Tree, after_overwrite, files_at, plain};
use crate::pr_secret::SECRETS;
use crate::pull_request_key::Keyed;
use crate::pull_request_made::{Asked, CONTEXT};
use crate::pull_request_open::{Begin, Prepared, PullRequestPreview, seed_context};
use crate::secret::random;

/// Limit of instances of an automation that are upgraded at once.
const MOST: usize = 1_000;
/// Instances per page.
const PAGE: i64 = 100;

/// A user's request to change an instance. It has no `Debug`: answers may be secret.
pub struct PrInstanceAsk {
    /// The instance.
    pub id: PrInstanceId,
    /// Answers that change, answers to new questions, and secret ones.
    pub context: Map<String, Value>,
    /// For an upgrade: conflicting lines get conflict markers; else a conflict refuses the upgrade.
    pub allow_conflicts: bool,
    /// Idempotency key: a repeated request with the same key opens no second pull request.
    pub key: Option<IdempotencyKey>,
    /// For an upgrade: the files of the new version replace those of the instance, whatever people changed in them.
    pub overwrite: bool,
    /// For an upgrade: values of the Secret that the newest version asks for. Values that its cluster has may be left out.
    pub secrets: Map<String, Value>,
}

/// The result of one upgrade among many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrInstanceUpgraded {
    /// The instance.
    pub instance: PrInstance,
    /// Its pull request, which is being opened; or the reason why there is none.
    pub outcome: std::result::Result<PullRequest, String>,
}

/// The state of a generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrInstanceDrift {
    /// Its path.
    pub path: String,
    /// How it differs.
    pub drift: PrDrift,
    /// The changes since, as `git diff` shows them; empty if there are none.
    pub diff: String,
}

/// The authorised request, with what was generated.
struct Ready {
    instance: PrInstance,
    automation: Authorized<PrAutomation, CreatePr>,
    change: AskedChange,
}

/// What an upgrade makes of an instance.
struct Upgrade {
    asked: Asked,
    made: PrMade,
}

impl App {
    /// Upgrades an instance to the newest version of its automation, by a pull request; needs the right to create some with the
    /// automation. Changes that people made to other lines stay.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is nothing newer, or a change is open already; on conflicting lines, unless the request allows them.
    pub async fn pr_instance_upgrade(
        &self,
        ctx: &OpCtx,
        ask: PrInstanceAsk,
        wait: bool,
    ) -> Result<PullRequest> {
        Box::pin(self.pr_instance_upgrade_begun(ctx, ask, wait)).await
    }

    async fn pr_instance_upgrade_begun(
        &self,
        ctx: &OpCtx,
        ask: PrInstanceAsk,
        wait: bool,
    ) -> Result<PullRequest> {
        let key = Keyed::of(ctx, ask.key.as_ref(), &ask.whole(PrInstanceChangeKind::Upgrade))?;
        if let Some(again) = Box::pin(self.pr_instance_again(ctx, &ask, key.as_ref(), wait)).await? {
            return Ok(again);
        }
        let kind = AskedKind::Upgrade { allow_conflicts: ask.allow_conflicts, overwrite: ask.overwrite };
        let ready = Box::pin(self.pr_instance_ready(ctx, &ask, kind)).await?;
        let Upgrade { asked, made } = Box::pin(self.pr_instance_upgrade_asked(ctx, &ready, &ask)).await?;
        let Ready { instance, automation, mut change } = ready;
        let id = PullRequestId::new();
        let of = (id, &ask.secrets);
        let secret =
            Box::pin(self.pr_secret_upgraded(&automation, &instance, of, &asked.answers, ctx.now())).await?;
        let touches = match (&secret, &automation.spec.secrets) {
            (Some(_), _) => true,
            (None, Some(_)) => false,
            // The existing one is deleted.
            (None, None) => !self.store.pr_secrets_of(instance.id).await?.is_empty(),
        };
        change.needs_merge = touches && !self.pr_automation_may_write(ctx, automation.id).await?;
        let asked = Asked { change: Some(change), ..asked };
        let begun = begin(id, &instance, asked, PrInstanceChangeKind::Upgrade, made)?;
        let begin = Begin { key, secret, ..begun };
        Box::pin(self.pull_request_begun(ctx, &automation, begin, wait)).await
    }

    /// Whether an automation has a Secret, and which, is the decision of its author.
    async fn pr_automation_may_write(&self, ctx: &OpCtx, id: PrAutomationId) -> Result<bool> {
        match self.authorized::<PrAutomation, Write>(ctx, &PrAutomationSelector::Id(id)).await {
            Ok(_) => Ok(true),
            Err(Error::Forbidden { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What an upgrade would change; needs the same right. Nothing is written, and conflicts are shown.
    pub async fn pr_instance_upgrade_preview(
        &self,
        ctx: &OpCtx,
        ask: PrInstanceAsk,
    ) -> Result<PullRequestPreview> {
        let prepared = Box::pin(self.pr_instance_upgrade_prepared(ctx, &ask)).await?;
        let goes = prepared.automation.spec.secrets.is_none();
        Box::pin(self.pr_instance_previewed(ctx, ask.id, prepared, goes)).await
    }

    /// The preview of a change of an instance, with the note on its Secret if that `goes`.
    async fn pr_instance_previewed(
        &self,
        ctx: &OpCtx,
        id: PrInstanceId,
        prepared: Prepared,
        goes: bool,
    ) -> Result<PullRequestPreview> {
        let Prepared { automation, repository, base, asked } = prepared;
        let connection = automation.links.connection_id;
        let mut preview = Box::pin(self.pull_request_previewed(connection, repository, base, &asked)).await?;
        let gone = if goes { self.store.pr_secrets_of(id).await? } else { Vec::new() };
        if gone.is_empty() {
            return Ok(preview);
        }
        let when = if preview.files.is_empty() {
            if self.pr_automation_may_write(ctx, automation.id).await? {
                "at once, as there is nothing to merge"
            } else {
                "only where whoever may write the automation asks for it, as there is nothing to merge"
            }
        } else {
            "once this is merged"
        };
        let told = |PrSecret { namespace, name, .. }: PrSecret| {
            format!("the Secret {namespace}/{name} is deleted from its cluster {when}")
        };
        preview.warnings.extend(gone.into_iter().map(told));
        Ok(preview)
    }

    /// Starts a fleet plan of an upgrade; needs the same right. Returns at once: the plan fills while the agents answer. It is the plan of
    /// a preview, like any other of the automation. On conflicting lines it says so and plans nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is nothing newer, or no git repository of the automation's project is the one that it changes.
    pub async fn pr_instance_upgrade_plan(&self, ctx: &OpCtx, ask: PrInstanceAsk) -> Result<FleetPlan> {
        let prepared = Box::pin(self.pr_instance_upgrade_prepared(ctx, &ask)).await?;
        Box::pin(self.preview_plan_begun(ctx, prepared)).await
    }

    /// The request of a preview, which shows conflicts.
    async fn pr_instance_upgrade_prepared(&self, ctx: &OpCtx, ask: &PrInstanceAsk) -> Result<Prepared> {
        let kind = AskedKind::Upgrade { allow_conflicts: true, overwrite: ask.overwrite };
        let ready = Box::pin(self.pr_instance_ready(ctx, ask, kind)).await?;
        let Upgrade { asked, made: _ } = Box::pin(self.pr_instance_upgrade_asked(ctx, &ready, ask)).await?;
        let Ready { instance, automation, change } = ready;
        let PrInstance { repository, base, .. } = instance;
        Ok(Prepared { automation, repository, base, asked: Asked { change: Some(change), ..asked } })
    }

    /// Upgrades all instances of an automation that have an older version, each by its own pull request, opened in the background; needs
    /// the right to create some with it. One that cannot be upgraded does not affect the others.
    pub async fn pr_instance_upgrade_all(
        &self,
        ctx: &OpCtx,
        automation: PrAutomationId,
        context: &Map<String, Value>,
        allow_conflicts: bool,
    ) -> Result<Vec<PrInstanceUpgraded>> {
        self.authorized::<PrAutomation, CreatePr>(ctx, &PrAutomationSelector::Id(automation)).await?;
        let filter = PrInstanceFilter {
            automation_id: Some(automation),
            outdated: Some(true),
            ..PrInstanceFilter::default()
        };
        let (mut done, mut after) = (Vec::new(), None);
        while done.len() < MOST {
            let args = PageArgs { after, first: Some(PAGE), ..PageArgs::default() };
            let page = self.list::<PrInstance>(ctx, &filter, &args).await?;
            after = page.end_cursor().map(str::to_owned);
            let is_last = !page.has_next_page;
            for instance in page.into_nodes() {
                let ask = PrInstanceAsk {
                    id: instance.id,
                    context: context.clone(),
                    allow_conflicts,
                    // An overwrite needs a preview of each instance first.
                    overwrite: false,
                    // A value cannot serve many instances: the result of those that need one says so.
                    secrets: Map::new(),
                    key: None,
                };
                let outcome = match Box::pin(self.pr_instance_upgrade(ctx, ask, false)).await {
                    Ok(begun) => Ok(begun),
                    Err(error @ (Error::Internal { .. } | Error::Unauthenticated)) => return Err(error),
                    Err(error) => Err(error.to_string()),
                };
                done.push(PrInstanceUpgraded { instance, outcome });
            }
            if is_last || after.is_none() {
                break;
            }
        }
        Ok(done)
    }

    /// Removes an instance, by a pull request; needs the right to create some with the automation. Files that only it generated are
    /// deleted, its edits of others are reversed; later changes stay, and the pull request lists them.
    pub async fn pr_instance_uninstall(
        &self,
        ctx: &OpCtx,
        ask: PrInstanceAsk,
        wait: bool,
    ) -> Result<PullRequest> {
        let key = Keyed::of(ctx, ask.key.as_ref(), &ask.whole(PrInstanceChangeKind::Uninstall))?;
        if let Some(again) = Box::pin(self.pr_instance_again(ctx, &ask, key.as_ref(), wait)).await? {
            return Ok(again);
        }
        let Ready { instance, automation, mut change } =
            Box::pin(self.pr_instance_uninstall_ready(ctx, &ask)).await?;
        // If nothing of it is left in the repository, nobody reviews what is deleted with it.
        change.needs_merge = !self.store.pr_secrets_of(instance.id).await?.is_empty()
            && !self.pr_automation_may_write(ctx, automation.id).await?;
        let asked = uninstalls(&instance, change, ctx)?;
        let made = PrMade { files: Vec::new(), ..instance.made.clone() };
        let begun = begin(PullRequestId::new(), &instance, asked, PrInstanceChangeKind::Uninstall, made)?;
        let begin = Begin { key, ..begun };
        Box::pin(self.pull_request_begun(ctx, &automation, begin, wait)).await
    }

    /// What a removal would change; needs the same right. Nothing is written.
    pub async fn pr_instance_uninstall_preview(
        &self,
        ctx: &OpCtx,
        ask: PrInstanceAsk,
    ) -> Result<PullRequestPreview> {
        let prepared = Box::pin(self.pr_instance_uninstall_prepared(ctx, &ask)).await?;
        Box::pin(self.pr_instance_previewed(ctx, ask.id, prepared, true)).await
    }

    /// Starts a fleet plan of a removal; needs the same right. Returns at once: the plan fills while the agents
    /// answer.
    ///
    /// # Errors
    /// [`Error::Conflict`] if no git repository of the automation's project is the one that it changes.
    pub async fn pr_instance_uninstall_plan(&self, ctx: &OpCtx, ask: PrInstanceAsk) -> Result<FleetPlan> {
        let prepared = Box::pin(self.pr_instance_uninstall_prepared(ctx, &ask)).await?;
        Box::pin(self.preview_plan_begun(ctx, prepared)).await
    }

    async fn pr_instance_uninstall_prepared(&self, ctx: &OpCtx, ask: &PrInstanceAsk) -> Result<Prepared> {
        let Ready { instance, automation, change } =
            Box::pin(self.pr_instance_uninstall_ready(ctx, ask)).await?;
        let asked = uninstalls(&instance, change, ctx)?;
        let PrInstance { repository, base, .. } = instance;
        Ok(Prepared { automation, repository, base, asked })
    }

    /// How the files of an instance differ from what was generated; needs the right to create pull requests with the automation, whose
    /// connection reads them.
    pub async fn pr_instance_drift(&self, ctx: &OpCtx, ask: PrInstanceAsk) -> Result<Vec<PrInstanceDrift>> {
        let kind = AskedKind::Uninstall { shared: BTreeSet::new() };
        let Ready { instance, automation, change } =
            Box::pin(self.pr_instance_ready(ctx, &ask, kind)).await?;
        let repository = &instance.repository;
        let (_, host) = self.scm_host(automation.links.connection_id).await?;
        let head = host.head(repository, &instance.base).await?;
        let made = Box::pin(self.pr_instance_generated(&host, repository, &change)).await;
        let made = made.map_err(after_overwrite)?;
        let is_edited = |path: &&String| {
            made.before.contains_key(*path) && made.after.changes.get(*path).is_some_and(Option::is_some)
        };
        let edited: BTreeSet<String> = made.after.changes.keys().filter(is_edited).cloned().collect();
        let base = files_at(&host, repository, &change.commit, &edited).await?;
        let ours = files_at(&host, repository, &head, &made.after.changes.keys().cloned().collect()).await?;
        // An edit is still in place if doing it again changes nothing.
        let of_edited =
            |tree: Tree| tree.into_iter().filter(|(path, _)| edited.contains(path)).collect::<Tree>();
        let generated: Tree = made
            .after
            .changes
            .iter()
            .filter_map(|(path, after)| Some((path.clone(), plain(after.clone()?))))
            .collect();
        let merge =
            ScaffoldMerge { base, theirs: of_edited(generated.clone()), ours: of_edited(ours.clone()) };
        let merged = self.scaffolds.merge(merge).await?.map_err(Error::conflict)?;
        let mut all = Vec::with_capacity(made.after.changes.len());
        let (mut places, mut compared) = (Vec::new(), Vec::new());
        for path in made.after.changes.keys() {
            let now = ours.get(path);
            let expected = expected(path, edited.contains(path), generated.get(path), now, &merged);
            let drift = match (expected, now) {
                (expected, now) if expected == now => PrDrift::Same,
                (Some(_), None) => PrDrift::Missing,
                _ => PrDrift::Changed,
            };
            if drift != PrDrift::Same {
                places.push(all.len());
                compared.push(Compared {
                    path: path.clone(),
                    before: expected.cloned(),
                    after: now.cloned(),
                });
            }
            all.push(PrInstanceDrift { path: path.clone(), drift, diff: String::new() });
        }
        for (place, diff) in places.into_iter().zip(self.differences(compared).await?) {
            if let Some(one) = all.get_mut(place) {
                one.diff = diff;
            }
        }
        Ok(all)
    }

    /// The result of an earlier request with the same key, if the caller may ask for it.
    async fn pr_instance_again(
        &self,
        ctx: &OpCtx,
        ask: &PrInstanceAsk,
        keyed: Option<&Keyed>,
        wait: bool,
    ) -> Result<Option<PullRequest>> {
        if keyed.is_none() {
            return Ok(None);
        }
        let instance = self.get::<PrInstance>(ctx, &ask.id).await?;
        let Some(automation) = instance.automation_id else { return Ok(None) };
        self.authorized::<PrAutomation, CreatePr>(ctx, &PrAutomationSelector::Id(automation)).await?;
        self.pull_request_again(ctx, keyed, wait).await
    }

    async fn pr_instance_uninstall_ready(&self, ctx: &OpCtx, ask: &PrInstanceAsk) -> Result<Ready> {
        let kind = AskedKind::Uninstall { shared: BTreeSet::new() };
        let mut ready = Box::pin(self.pr_instance_ready(ctx, ask, kind)).await?;
        let PrInstance { id, connection_id, repository, .. } = &ready.instance;
        let shared = self.store.pr_instance_shared(*id, *connection_id, repository).await?;
        ready.change.kind = AskedKind::Uninstall { shared: shared.into_iter().collect() };
        Ok(ready)
    }

    /// Authorises and validates: the right, the instance, the repository, the secret answers of its version.
    async fn pr_instance_ready(&self, ctx: &OpCtx, ask: &PrInstanceAsk, kind: AskedKind) -> Result<Ready> {
        let instance = self.get::<PrInstance>(ctx, &ask.id).await?;
        let Some(automation) = instance.automation_id else {
            return Err(Error::conflict(
                "the automation of the instance is gone: what it made can be changed by hand only",
            ));
        };
        let by = PrAutomationSelector::Id(automation);
        let automation = self.authorized::<PrAutomation, CreatePr>(ctx, &by).await?;
        let why = match instance.state {
            PrInstanceState::Active => None,
            PrInstanceState::Pending => Some("its pull request is not merged yet"),
            PrInstanceState::Abandoned => Some("its pull request was not merged"),
            PrInstanceState::Removed => Some("it was taken away"),
        };
        if let Some(why) = why {
            return Err(Error::conflict(format!("the instance is not there: {why}")));
        }
        let Some(commit) = instance.base_commit.clone() else {
            return Err(Error::conflict("it is not known on which commit the instance was made"));
        };
        self.pr_instance_allowed(&automation, automation.links.connection_id, &instance.repository).await?;
        let PrVersion { spec, .. } = &instance.made.version;
        let answers = &instance.made.answers;
        let missing = answers.missing(&spec.configuration, &ask.context);
        if !missing.is_empty() {
            return Err(Error::invalid(
                CONTEXT,
                format!(
                    "secret answers are not kept, so these have to be given again: {}",
                    missing.join(", ")
                ),
            ));
        }
        let mut known = answers.known.clone();
        let again = answers.secret.iter().filter_map(|name| Some((name, ask.context.get(name)?)));
        known.extend(again.map(|(name, value)| (name.clone(), value.clone())));
        let sealed = self.store.pr_instance_seed(instance.id).await?;
        let seed = self.sealer.open(&seed_context(instance.id), &sealed).await?;
        let seed = String::from_utf8(seed)
            .map_err(|_| Error::internal("reading the seed of an instance", "it is no text"))?;
        let change = AskedChange {
            spec: spec.clone(),
            answers: known,
            templates: instance.made.version.templates.clone().unwrap_or_else(|| commit.clone()),
            commit,
            seed,
            clock_ms: instance.clock_ms,
            files: instance.made.files.clone(),
            parts: instance.made.version.parts.clone(),
            needs_merge: false,
            kind,
        };
        Ok(Ready { instance, automation, change })
    }

    /// The connection may have lost access to the repository since.
    async fn pr_instance_allowed(
        &self,
        automation: &PrAutomation,
        connection: ScmConnectionId,
        repository: &str,
    ) -> Result<()> {
        let connection = self.pull_request_connection(connection).await?;
        let allowed = target_allowed(automation.project_id, &connection, Some(repository));
        allowed.map(drop).map_err(|error| match error {
            Error::Invalid { reason, .. } => Error::conflict(reason),
            error => error,
        })
    }

    /// The newest version with the previous answers and the given ones, which win.
    async fn pr_instance_upgrade_asked(
        &self,
        ctx: &OpCtx,
        ready: &Ready,
        ask: &PrInstanceAsk,
    ) -> Result<Upgrade> {
        let Ready { instance, automation, change } = ready;
        let spec = automation.spec.clone();
        if spec.patch {
            return Err(Error::conflict("the automation makes a patch now, and no pull request"));
        }
        let (was, questions) = (&instance.made, &spec.configuration);
        // A secret answer that only the previous version asks for is not an answer to the new one.
        let is_asked = |name: &str| questions.iter().any(|question| question.name == name);
        let given: Map<String, Value> = ask
            .context
            .iter()
            .filter(|(name, _)| is_asked(name) || !was.answers.secret.contains(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let answers = was.answers.with(questions, &given);
        // The names in previous answers were looked up then; names that had to be new exist by now.
        let known = self.pull_request_known(ctx, questions, &answers).await?;
        let mut errors = context(questions, &answers, None).err().unwrap_or_default();
        if let Err(found) = context(questions, &answers, Some(&known)) {
            errors.extend(found.into_iter().filter(|(name, _)| given.contains_key(name)));
        }
        if !errors.is_empty() {
            return Err(Error::Answers { field: CONTEXT, answers: errors });
        }
        let (digest, parts) = (spec.digest()?, Box::pin(self.pull_request_parts(automation)).await?);
        // Templates of the repository itself change without the automation, and so do parts from elsewhere.
        let may_be_newer = spec.creates.templates.iter().any(|template| !template.external)
            || was.version.parts.as_ref().map_or(spec.takes_parts(), |was| *was != parts);
        let is_same = digest == was.version.digest && answers == change.answers && ask.secrets.is_empty();
        // Values that were deleted before a cluster had them have to be given again.
        if is_same && !may_be_newer && Box::pin(self.pr_secret_stands(automation, instance, &answers)).await?
        {
            return Err(Error::conflict("the instance is of the newest version already, with these answers"));
        }
        let version = PrVersion {
            revision: automation.revision,
            digest,
            spec: spec.clone(),
            templates: None,
            parts: Some(parts.clone()),
        };
        let made = PrMade { version, answers: PrAnswers::of(questions, &answers), files: Vec::new() };
        Ok(Upgrade { asked: Asked { parts, ..asked(spec, answers, ctx)? }, made })
    }
}

impl PrInstanceAsk {
    /// The whole request: two requests with the same one are equal.
    fn whole(&self, kind: PrInstanceChangeKind) -> Value {
        let Self { id, context, allow_conflicts, overwrite, secrets, key: _ } = self;
        let what = match kind {
            PrInstanceChangeKind::Upgrade => "upgrade",
            PrInstanceChangeKind::Uninstall => "uninstall",
        };
        let mut whole = json!({what: id.to_string(), "context": context, "allowConflicts": allow_conflicts, "overwrite": overwrite});
        // The previous release does not write this field.
        if !secrets.is_empty() {
            whole[SECRETS] = Value::Object(secrets.clone());
        }
        whole
    }
}

/// The expected content of a file: what was generated, or for an edit, the current file with the edit.
fn expected<'a>(
    path: &str,
    is_edited: bool,
    generated: Option<&'a ScaffoldEntry>,
    now: Option<&'a ScaffoldEntry>,
    merged: &'a ScaffoldMerged,
) -> Option<&'a ScaffoldEntry> {
    if !is_edited {
        return generated;
    }
    match merged.changes.get(path) {
        Some(after) => after.as_ref(),
        // On a conflict, the file does not show what the edit would give.
        None if merged.conflicts.contains_key(path) => generated,
        None => now,
    }
}

/// A request with a new seed, which identifies its pull request.
fn asked(spec: PrAutomationSpec, answers: Map<String, Value>, ctx: &OpCtx) -> Result<Asked> {
    let seed = hex::encode(random::<16>()?);
    let clock_ms = ctx.now().timestamp_millis();
    Ok(Asked { spec, answers, seed, clock_ms, parts: PrParts::default(), change: None })
}

fn uninstalls(instance: &PrInstance, change: AskedChange, ctx: &OpCtx) -> Result<Asked> {
    let asked = asked(instance.made.version.spec.clone(), change.answers.clone(), ctx)?;
    Ok(Asked { change: Some(change), ..asked })
}

fn begin(
    id: PullRequestId,
    instance: &PrInstance,
    asked: Asked,
    kind: PrInstanceChangeKind,
    made: PrMade,
) -> Result<Begin> {
    let branch = branch_of(id, asked.spec.branch_prefix.as_deref(), None)?;
    let action = match kind {
        PrInstanceChangeKind::Upgrade => "prInstance.upgrade",
        PrInstanceChangeKind::Uninstall => "prInstance.uninstall",
    };
    let change = PrInstanceChange { pull_request_id: id, kind, made };
    let ledger = PrLedger::Change {
        id: instance.id,
        from: instance.made.version.digest.clone(),
        change: Box::new(change),
    };
    let (repository, base) = (instance.repository.clone(), instance.base.clone());
    Ok(Begin { id, repository, base, branch, asked, ledger, action, key: None, secret: None })
}
