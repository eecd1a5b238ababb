//! Fleet plans: what a commit that is not merged yet would change on every cluster that it affects.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{
    ClusterId, FleetPartId, FleetPlanId, PrAutomationId, ProjectId, PullRequestId, RepositoryId, ServiceId,
    StackId, StackRunId, UserId,
};
use crate::page::Keyed;
use crate::service::GitRef;
use crate::stack_pull_request::follows_branch;
use crate::stack_run::{RunSource, RunTrigger, StackRun};
use crate::stack_spec::StackSpec;
use crate::sync::{PlanAction, ReportedPlan};

/// Limit of services in one plan; the rest is only counted.
pub const MOST_PARTS: usize = 2_000;
/// How long agents have to answer.
pub const PATIENCE: TimeDelta = TimeDelta::seconds(60);
/// Least age of a pull request's plan before the console replaces it because its branch moved.
pub const REPLAN_AFTER: TimeDelta = TimeDelta::minutes(5);
/// How long the console keeps the plan of a preview, with the artifacts built for it.
pub const PREVIEW_KEEP: TimeDelta = TimeDelta::hours(1);
/// Limit of preview plans kept per project; older ones are deleted.
pub const MOST_PREVIEWS: u64 = 100;
/// Limit of those per user, so that no user evicts the plans of all others.
pub const MOST_OWN_PREVIEWS: u64 = 20;
/// Limit of stacks in the plan of a preview.
pub const MOST_STACKS: usize = 200;
/// Limit of kinds that are counted per service.
const MOST_KINDS: usize = 50;
/// Limit of a branch, tag or commit, in bytes.
const MAX_REFERENCE: usize = 255;

/// The phase of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FleetPlanPhase {
    /// The commit comes from a fork: the console does nothing with it before a user releases it.
    Held,
    /// The console looks for the services that the commit affects.
    Looking,
    /// The console asked the agents.
    Asked,
    /// All agents answered, or ran out of time.
    Done,
    /// The plan failed.
    Failed,
    /// A newer plan superseded it.
    Superseded,
}

impl FleetPlanPhase {
    /// All variants.
    pub const ALL: [Self; 6] =
        [Self::Held, Self::Looking, Self::Asked, Self::Done, Self::Failed, Self::Superseded];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "HELD",
            Self::Looking => "LOOKING",
            Self::Asked => "ASKED",
            Self::Done => "DONE",
            Self::Failed => "FAILED",
            Self::Superseded => "SUPERSEDED",
        }
    }

    /// The phase of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }

    /// Whether the plan has ended.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Held | Self::Looking | Self::Asked => false,
            Self::Done | Self::Failed | Self::Superseded => true,
        }
    }
}

/// The state of one service in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FleetPartState {
    /// Its agent was asked.
    Waiting,
    /// Its agent answered.
    Planned,
    /// It cannot be planned: it does not build, or does not render.
    Failed,
    /// Its agent was not connected, and the plan does not wait for it.
    Away,
    /// Its agent did not answer in time.
    Late,
}

impl FleetPartState {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Planned, Self::Failed, Self::Away, Self::Late];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Planned => "PLANNED",
            Self::Failed => "FAILED",
            Self::Away => "AWAY",
            Self::Late => "LATE",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// The request for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlanAsk {
    /// The repository.
    pub repository_id: RepositoryId,
    /// Commit, branch or tag to plan.
    pub reference: String,
    /// The target branch: the plan covers only services that follow it, by their difference to it. Absent: all services of the
    /// repository, by their difference to their current revision.
    pub base: Option<String>,
    /// The pull request that it belongs to.
    pub pull_request_id: Option<PullRequestId>,
}

impl FleetPlanAsk {
    /// Checks it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name of a commit, branch or tag.
    pub fn check(&self) -> Result<()> {
        let Self { repository_id: _, reference, base, pull_request_id: _ } = self;
        check_reference("ref", reference)?;
        base.as_deref().map_or(Ok(()), |base| check_reference("base", base))
    }
}

fn check_reference(field: &'static str, text: &str) -> Result<()> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let is_name = !text.is_empty()
        && text.len() <= MAX_REFERENCE
        && !text.starts_with('-')
        && !text.contains("..")
        && !text.contains(is_odd);
    if is_name {
        return Ok(());
    }
    Err(Error::invalid(field, "must be a commit, a branch or a tag, such as main"))
}

/// Whether a service that is read at `git` moves when `base` does.
pub fn follows(git: &GitRef, base: &str) -> bool {
    follows_branch(&git.reference, base.strip_prefix("refs/heads/").unwrap_or(base))
}

/// Whether a service moves with the default branch, whichever that is.
pub fn follows_head(git: &GitRef) -> bool {
    git.reference == "HEAD"
}

/// A stack whose code a preview changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedStack {
    /// The stack.
    pub stack_id: StackId,
    /// The run that plans it, once there is one.
    pub run_id: Option<StackRunId>,
    /// Why it is not planned, in words.
    pub problem: Option<String>,
}

/// What the run of a preview plans: code that is in no commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPreview {
    /// The plan of the preview.
    pub plan_id: FleetPlanId,
    /// The artifact of its code, built when the preview was requested.
    pub source: RunSource,
}

impl StackRun {
    /// The preview that it plans.
    pub fn preview(&self) -> Option<&RunPreview> {
        self.snapshot.spec.preview.as_ref().filter(|_| self.trigger == RunTrigger::PullRequest)
    }
}

impl StackSpec {
    /// The spec for the run of a preview: that of every plan of the stack, without its actor.
    #[must_use]
    pub fn for_preview(&self, preview: RunPreview) -> Self {
        Self { preview: Some(preview), pull_request: None, actor: None, ..self.clone() }
    }
}

/// The subject of a plan without a commit: what an automation would make of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPreview {
    /// Who asked. Only they and administrators see the plan.
    pub owner: UserId,
    /// The automation.
    pub automation_id: PrAutomationId,
    /// The stacks whose code changes; empty until the console has found them.
    pub stacks: Vec<PreviewedStack>,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
}

/// What a commit would change on every cluster that it affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlan {
    /// Id.
    pub id: FleetPlanId,
    /// The project of its repository.
    pub project_id: ProjectId,
    /// The repository.
    pub repository_id: RepositoryId,
    /// The pull request that it belongs to.
    pub pull_request_id: Option<PullRequestId>,
    /// Who asked: the name in the audit log.
    pub creator: String,
    /// The commit, branch or tag that was asked for.
    pub reference: String,
    /// The ref of the pull request's head at its host.
    pub head_reference: Option<String>,
    /// The target branch.
    pub base: Option<String>,
    /// Its phase.
    pub phase: FleetPlanPhase,
    /// What the console found; absent until then.
    pub found: Option<FleetFound>,
    /// Why the plan failed.
    pub error: Option<String>,
    /// It is of a preview, and not of a commit of the repository.
    pub preview: Option<FleetPreview>,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

/// The prefix of the error of a plan that the console retries.
const AGAIN: &str = "the console could not look at the commit and tries again at ";

/// Why there is no plan yet, if the console retries it at this time.
pub fn tried_again(at: DateTime<Utc>, why: &str) -> String {
    format!("{AGAIN}{}; `plural pr replan` does it at once: {why}", at.format("%Y-%m-%d %H:%M UTC"))
}

impl FleetPlan {
    /// When the console retries it, for people to read; from the error that [`tried_again`] wrote.
    pub fn again_at(&self) -> Option<&str> {
        let rest = self.error.as_deref()?.strip_prefix(AGAIN)?;
        rest.split_once(';').map(|(at, _)| at)
    }
}

impl Keyed for FleetPlan {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What the console found before it asked agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFound {
    /// The commit, in full.
    pub sha: String,
    /// First line of its message.
    pub message: String,
    /// The commit of the target branch.
    pub base_sha: Option<String>,
    /// The plan is of the commit merged into that: the branch had moved.
    pub is_merged: bool,
    /// Number of services that read from the repository and are not affected.
    pub untouched: u32,
    /// Number of services with several sources that were skipped: there are too many, or a repository was not fetched yet.
    pub composed: u32,
    /// Number of affected services beyond the limit of one plan.
    pub omitted: u32,
    /// Deadline of the agents.
    pub deadline: DateTime<Utc>,
    /// Digest that tells whether the plan stays the same when the branch moves; absent without a branch, and from earlier releases.
    pub about: Option<String>,
    /// The newest commit of the branch that was compared with the plan.
    pub since: Option<FleetSince>,
}

/// A later commit of the target branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetSince {
    /// The commit.
    pub sha: String,
    /// The plan would differ there.
    pub is_other: bool,
}

impl FleetFound {
    /// The commit that the branch moved to, if the plan would differ there.
    pub fn moved(&self) -> Option<&str> {
        self.since.as_ref().filter(|since| since.is_other).map(|since| since.sha.as_str())
    }

    /// The last compared commit of the branch, and whether the plan would differ there.
    pub fn looked_at(&self) -> Option<(&str, bool)> {
        match &self.since {
            Some(FleetSince { sha, is_other }) => Some((sha.as_str(), *is_other)),
            None => Some((self.base_sha.as_deref()?, false)),
        }
    }
}

/// Numbers of objects by kind of change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Created.
    pub created: u32,
    /// Changed.
    pub changed: u32,
    /// Deleted.
    pub deleted: u32,
    /// Hooks that run.
    pub hooks: u32,
    /// Unchanged.
    pub unchanged: u32,
    /// Blocked: by policies, limits, other owners, or kinds that the cluster does not serve.
    pub blocked: u32,
    /// Changed, but beyond the number that a plan lists.
    pub omitted: u32,
}

impl PlanCounts {
    /// The counts of a plan, with this many objects that it lacks because the agent cannot send them.
    pub fn of(plan: &ReportedPlan, unsent: usize) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let mut counts = Self {
            unchanged: plan.unchanged,
            omitted: plan.omitted,
            blocked: count(unsent),
            ..Self::default()
        };
        for planned in &plan.objects {
            let one = match planned.action {
                PlanAction::Create => &mut counts.created,
                PlanAction::Change => &mut counts.changed,
                PlanAction::Prune => &mut counts.deleted,
                PlanAction::RunHook => &mut counts.hooks,
                PlanAction::Unchanged => &mut counts.unchanged,
                PlanAction::Conflict | PlanAction::Blocked => &mut counts.blocked,
            };
            *one = one.saturating_add(1);
        }
        counts
    }

    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let Self { created, changed, deleted, hooks, unchanged, blocked, omitted } = other;
        Self {
            created: self.created.saturating_add(created),
            changed: self.changed.saturating_add(changed),
            deleted: self.deleted.saturating_add(deleted),
            hooks: self.hooks.saturating_add(hooks),
            unchanged: self.unchanged.saturating_add(unchanged),
            blocked: self.blocked.saturating_add(blocked),
            omitted: self.omitted.saturating_add(omitted),
        }
    }

    /// Whether anything would change.
    pub fn is_any(self) -> bool {
        let Self { created, changed, deleted, hooks, unchanged: _, blocked, omitted } = self;
        [created, changed, deleted, hooks, blocked, omitted].iter().any(|number| *number > 0)
    }
}

/// How many objects of a kind change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// The kind.
    pub kind: String,
    /// Its objects.
    pub count: u32,
}

impl KindCount {
    /// The kinds of a plan, most frequent first.
    pub fn of(plan: &ReportedPlan) -> Vec<Self> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for planned in plan.objects.iter().filter(|planned| planned.action != PlanAction::Unchanged) {
            *counts.entry(&planned.object.kind).or_default() += 1;
        }
        let mut kinds: Vec<Self> =
            counts.into_iter().map(|(kind, count)| Self { kind: kind.to_owned(), count }).collect();
        kinds.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
        kinds.truncate(MOST_KINDS);
        kinds
    }
}

/// One service of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlanPart {
    /// Id; also the id of the request to its agent.
    pub id: FleetPartId,
    /// The plan.
    pub plan_id: FleetPlanId,
    /// The service.
    pub service_id: ServiceId,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// The service's name when the plan was made.
    pub service: String,
    /// The cluster's handle when the plan was made.
    pub cluster: String,
    /// The project of the cluster when the plan was made.
    pub project_id: ProjectId,
    /// Its state.
    pub state: FleetPartState,
    /// The changes in numbers.
    pub counts: PlanCounts,
    /// The kinds of the objects that change, most frequent first.
    pub kinds: Vec<KindCount>,
    /// Why it is not planned, in words.
    pub error: Option<String>,
    /// When its agent answered.
    pub answered_at: Option<DateTime<Utc>>,
}

/// The plan of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSum {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// Its handle when the plan was made.
    pub cluster: String,
    /// Number of affected services.
    pub services: u32,
    /// Of those, the ones whose agent has not answered yet.
    pub waiting: u32,
    /// The ones that cannot be planned.
    pub failed: u32,
    /// The ones whose agent was not connected.
    pub away: u32,
    /// The ones whose agent did not answer in time.
    pub late: u32,
    /// The changes in numbers.
    pub counts: PlanCounts,
}

impl ClusterSum {
    fn of(part: &FleetPlanPart) -> Self {
        Self {
            cluster_id: part.cluster_id,
            cluster: part.cluster.clone(),
            services: 0,
            waiting: 0,
            failed: 0,
            away: 0,
            late: 0,
            counts: PlanCounts::default(),
        }
    }

    fn add(&mut self, part: &FleetPlanPart) {
        self.services += 1;
        self.counts = self.counts.and(part.counts);
        match part.state {
            FleetPartState::Planned => {}
            FleetPartState::Waiting => self.waiting += 1,
            FleetPartState::Failed => self.failed += 1,
            FleetPartState::Away => self.away += 1,
            FleetPartState::Late => self.late += 1,
        }
    }
}

/// The parts summed up by cluster, ordered by handle.
pub fn by_cluster(parts: &[FleetPlanPart]) -> Vec<ClusterSum> {
    let mut sums: BTreeMap<(&str, ClusterId), ClusterSum> = BTreeMap::new();
    for part in parts {
        let sum =
            sums.entry((part.cluster.as_str(), part.cluster_id)).or_insert_with(|| ClusterSum::of(part));
        sum.add(part);
    }
    sums.into_values().collect()
}

/// The sum of all parts.
pub fn total(parts: &[FleetPlanPart]) -> PlanCounts {
    parts.iter().fold(PlanCounts::default(), |sum, part| sum.and(part.counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RevisionId;
    use crate::stack::StackTool;
    use crate::sync::{ObjectRef, PlannedObject};

    #[test]
    fn words_round_trip() {
        for phase in FleetPlanPhase::ALL {
            assert_eq!(FleetPlanPhase::parse(phase.as_str()), Some(phase));
        }
        for state in FleetPartState::ALL {
            assert_eq!(FleetPartState::parse(state.as_str()), Some(state));
        }
        assert_eq!((FleetPlanPhase::parse(""), FleetPartState::parse("done")), (None, None));
    }

    #[test]
    fn what_is_planned_is_a_name() {
        let ask = |reference: &str, base: Option<&str>| FleetPlanAsk {
            repository_id: RepositoryId::new(),
            reference: reference.to_owned(),
            base: base.map(str::to_owned),
            pull_request_id: None,
        };
        for good in ["main", "feature/a-1", "v1.2.3", "0123456789abcdef0123456789abcdef01234567"] {
            ask(good, Some(good)).check().unwrap();
        }
        for bad in ["", "-f", "a b", "a..b", "a:b", "a\nb", "a^", &"x".repeat(256)] {
            assert!(ask(bad, None).check().unwrap_err().to_string().starts_with("ref"), "{bad:?}");
            assert!(ask("main", Some(bad)).check().unwrap_err().to_string().starts_with("base"), "{bad:?}");
        }
    }

    #[test]
    fn a_preview_is_of_runs_and_of_no_stack() {
        let source = RunSource {
            sha: "c0ffee".to_owned(),
            message: "Add it".to_owned(),
            author: "plural".to_owned(),
            emails: Vec::new(),
            more_emails: false,
            commits: Vec::new(),
            closure_digest: "c".to_owned(),
            artifact_digest: "d".to_owned(),
            folder: String::new(),
        };
        let preview = RunPreview { plan_id: FleetPlanId::new(), source };
        let stack = StackSpec { actor: Some(UserId::new()), ..StackSpec::default() };
        assert_eq!(serde_json::to_value(&stack).unwrap().get("preview"), None);
        let run = stack.for_preview(preview.clone());
        assert_eq!((run.actor, run.preview.as_ref()), (None, Some(&preview)));
        let refused = run.check(StackTool::Terraform).unwrap_err().to_string();
        assert!(refused.starts_with("attributes.preview"), "{refused}");
    }

    #[test]
    fn services_follow_their_branch() {
        let git = |reference: &str| GitRef::new(reference, "a", &[]).unwrap();
        for (reference, base, expected) in [
            ("main", "main", true),
            ("refs/heads/main", "main", true),
            ("main", "refs/heads/main", true),
            ("v1.0.0", "main", false),
            ("main-2", "main", false),
        ] {
            assert_eq!(follows(&git(reference), base), expected, "{reference} {base}");
        }
    }

    fn part(cluster: (&str, ClusterId), state: FleetPartState, created: u32) -> FleetPlanPart {
        FleetPlanPart {
            id: FleetPartId::new(),
            plan_id: FleetPlanId::new(),
            service_id: ServiceId::new(),
            cluster_id: cluster.1,
            service: "shop".to_owned(),
            cluster: cluster.0.to_owned(),
            project_id: ProjectId::new(),
            state,
            counts: PlanCounts { created, ..PlanCounts::default() },
            kinds: Vec::new(),
            error: None,
            answered_at: None,
        }
    }

    #[test]
    fn parts_add_up_by_cluster() {
        let (blue, red) = (("blue", ClusterId::new()), ("red", ClusterId::new()));
        let parts = [
            part(red, FleetPartState::Away, 0),
            part(blue, FleetPartState::Planned, 2),
            part(blue, FleetPartState::Planned, 1),
            part(blue, FleetPartState::Waiting, 0),
            part(red, FleetPartState::Late, 0),
            part(red, FleetPartState::Failed, 0),
        ];
        let sums = by_cluster(&parts);
        let told: Vec<(&str, u32, u32)> =
            sums.iter().map(|sum| (sum.cluster.as_str(), sum.services, sum.counts.created)).collect();
        assert_eq!(told, [("blue", 3, 3), ("red", 3, 0)]);
        assert_eq!((sums[0].waiting, sums[1].away, sums[1].late, sums[1].failed), (1, 1, 1, 1));
        assert_eq!(total(&parts).created, 3);
    }

    #[test]
    fn objects_are_counted_by_what_happens_to_them() {
        let planned = |action| PlannedObject {
            object: ObjectRef::default(),
            version: String::new(),
            action,
            phase: None,
            wave: 0,
            why: None,
            fields: Vec::new(),
            fields_omitted: 0,
            location: None,
        };
        let plan = ReportedPlan {
            request_id: None,
            revision_id: RevisionId::new(),
            digest: String::new(),
            objects: [
                PlanAction::Create,
                PlanAction::Change,
                PlanAction::Change,
                PlanAction::Prune,
                PlanAction::RunHook,
                PlanAction::Conflict,
                PlanAction::Blocked,
            ]
            .map(planned)
            .to_vec(),
            unchanged: 9,
            omitted: 3,
            error: None,
        };
        let counts = PlanCounts::of(&plan, 2);
        let expected =
            PlanCounts { created: 1, changed: 2, deleted: 1, hooks: 1, unchanged: 9, blocked: 4, omitted: 3 };
        assert_eq!(counts, expected);
        assert_eq!(counts.and(PlanCounts::default()), counts);
        assert_eq!(counts.and(counts).blocked, 8);
        assert_eq!(KindCount::of(&plan), [KindCount { kind: String::new(), count: 7 }]);
        assert!(counts.is_any() && !PlanCounts { unchanged: 3, ..PlanCounts::default() }.is_any());
    }
}
