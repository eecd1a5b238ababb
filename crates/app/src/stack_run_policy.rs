//! Policy and cost of the plans of runs: what they are checked by, what that says, and whether it still counts when a plan is applied.
//!
//! What cannot be checked is refused, and the run says why: the rules cannot be read, do not compile, take too long. A git server that does not
//! answer for a while is no reason: the Job that asks, and an approved run, wait for it.

use bytes::Bytes;
use plural_core::data_key::KeyOwner;
use plural_core::ids::StackRunId;
use plural_core::project::Project;
use plural_core::repository::Repository;
use plural_core::run_call::RunReport;
use plural_core::stack_cost::PlanCost;
use plural_core::stack_plan::plan_shown;
use plural_core::stack_policy_rules::{
    CheckedPlan, MAX_FINDING, OWN_RULES, PolicyEngine, RuleFinding, RuleSets, StackPolicy, Violation,
    ViolationSource, judged, refusal, trivy_findings,
};
use plural_core::stack_reported::{ReportedCost, ReportedFinding, ReportedResource, cost_of, with_findings};
use plural_core::stack_run::{RunKind, RunPhase, StackRun};
use plural_core::stack_turns::changes_nothing;
use plural_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::access::Read;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::harness::HarnessHandle;
use crate::ports::git::SourceSpec;
use crate::project::ProjectSelector;
use crate::repository::RepositorySelector;
use crate::stack::stack_limits;
use crate::stack_run::{FindingKind, PlanPart};

/// What was found of the plan of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanFindings {
    /// What it does against policies, worst first.
    pub violations: Vec<Violation>,
    /// What it would cost, where that is known.
    pub cost: Option<PlanCost>,
    /// Resources that the runner of another client names; absent where it names none.
    pub resources: Option<Vec<ReportedResource>>,
}

/// What the runner of another client found of a run.
#[derive(Debug, Default)]
pub struct RunnerFinds {
    /// What the plan does against rules.
    pub violations: Vec<ReportedFinding>,
    /// What it would cost.
    pub cost: Vec<ReportedCost>,
    /// Its resources; absent where it names none.
    pub resources: Option<Vec<ReportedResource>>,
}

impl App {
    /// What was found of the plan of a run.
    pub async fn stack_run_findings(&self, ctx: &OpCtx, id: StackRunId) -> Result<PlanFindings> {
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        self.plan_findings(run.id).await
    }

    /// The same, for the console itself.
    pub(crate) async fn plan_findings(&self, run: StackRunId) -> Result<PlanFindings> {
        let mut found = PlanFindings::default();
        let (mut checked, mut said) = (None, Vec::new());
        for (kind, value) in self.findings_of(run).await? {
            match kind {
                FindingKind::Policy => checked = Some(read::<CheckedPlan>(value)?.violations),
                // It is judged with the rest.
                FindingKind::Trivy => {}
                FindingKind::Cost => found.cost = Some(read(value)?),
                FindingKind::Runner => said = read::<Vec<RuleFinding>>(value)?,
                FindingKind::Resources => found.resources = Some(read(value)?),
            }
        }
        // What a runner found is judged with the rest, too. Where nothing judges, it is only to be known.
        found.violations = checked.unwrap_or_else(|| {
            let known = |finding| Violation { source: ViolationSource::Runner, refuses: false, finding };
            said.into_iter().map(known).collect()
        });
        Ok(found)
    }

    /// What the runner of another client found. Findings are added to those that it told before; what the console finds by itself stays.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more resources than are kept, and [`Error::Conflict`] from a Job that does not plan; resources are told at any time.
    pub(crate) async fn runner_finds(&self, run: &StackRun, found: RunnerFinds) -> Result<()> {
        let RunnerFinds { violations, cost, resources } = found;
        if !violations.is_empty() {
            let mut was = Vec::new();
            for (kind, value) in self.findings_of(run.id).await? {
                if kind == FindingKind::Runner {
                    was = read::<Vec<RuleFinding>>(value)?;
                }
            }
            let all = with_findings(was, violations);
            self.finding_put(run, FindingKind::Runner, &write(&all)?).await?;
        }
        if !cost.is_empty() {
            self.finding_put(run, FindingKind::Cost, &write(&cost_of(cost))?).await?;
        }
        if let Some(resources) = resources {
            let resources = ReportedResource::tidied(resources)?;
            self.finding_put(run, FindingKind::Resources, &write(&resources)?).await?;
        }
        Ok(())
    }

    /// A report of a program that looked at the plan in its Job.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that cannot be read.
    pub async fn harness_finding(&self, by: &HarnessHandle, kind: FindingKind, body: Bytes) -> Result<()> {
        self.harness_beat(by).await?;
        let run = by.run();
        if run.phase != RunPhase::Plan {
            return Err(Error::conflict("the run is not at its plan"));
        }
        let report = match kind {
            FindingKind::Trivy => trivy_findings(&body).map(|found| write(&found)),
            FindingKind::Cost => PlanCost::parse(&body).map(|cost| write(&cost)),
            FindingKind::Policy | FindingKind::Runner | FindingKind::Resources => {
                return Err(Error::not_found("call"));
            }
        };
        let report = report.map_err(|why| Error::invalid(kind.as_str(), why))??;
        if body.len() > MAX_FINDING {
            return Err(Error::invalid(kind.as_str(), format!("must not exceed {} MiB", MAX_FINDING >> 20)));
        }
        self.finding_put(run, kind, &report).await
    }

    /// Stores what was found of a plan, sealed: rules and scanners quote what is in it.
    async fn finding_put(&self, run: &StackRun, kind: FindingKind, found: &Value) -> Result<()> {
        let mut clear = head(kind);
        serde_json::to_writer(&mut clear, found)
            .map_err(|cause| Error::internal("writing what was found of a plan", cause))?;
        let owner = KeyOwner::Project(run.project_id);
        let sealed = self.sealer.seal(owner, &context(run.id), &clear).await?;
        self.store.stack_finding_put(run.id, kind, &sealed).await
    }

    /// What was found of the plan of a run, in clear.
    async fn findings_of(&self, run: StackRunId) -> Result<Vec<(FindingKind, Value)>> {
        let mut found = Vec::new();
        for (kind, sealed) in self.store.stack_findings(run).await? {
            let clear = self.sealer.open(&context(run), &sealed).await?;
            let json = clear.strip_prefix(head(kind).as_slice());
            // The cause could hold a part of it.
            let value = json.and_then(|json| serde_json::from_slice(json).ok()).ok_or_else(unreadable)?;
            found.push((kind, value));
        }
        Ok(found)
    }

    /// Why policy refuses the plan that a Job has just handed in, if it does. What it found is stored.
    pub(crate) async fn run_refused_by_policy(
        &self,
        run: &StackRun,
        report: &RunReport,
    ) -> Result<Option<String>> {
        let ended_well = report.succeeded && !report.cancelled && !run.cancel_asked;
        let Some(plan) = run.plan.as_ref().filter(|_| ended_well && run.phase == RunPhase::Plan) else {
            return Ok(None);
        };
        if changes_nothing(run, plan) || run.is_checked_only() {
            // There is nothing that could be applied.
            return Ok(None);
        }
        let sets = match self.rule_sets(run).await? {
            Ok(sets) if sets.is_empty() => return Ok(None),
            // Else whoever may give some would apply by them what the rules deny.
            Ok(_) if run.kind == RunKind::Commands => {
                return Ok(Some(unchecked(
                    "no rule can read what commands would do with the rights to apply",
                )));
            }
            Ok(sets) => sets,
            Err(why) => return Ok(Some(unchecked(&why))),
        };
        let violations = match self.violations(run, &sets).await? {
            Ok(violations) => violations,
            Err(why) => return Ok(Some(unchecked(&why))),
        };
        let why = refusal(&violations);
        let checked = write(&CheckedPlan { digest: sets.digest(), violations })?;
        self.finding_put(run, FindingKind::Policy, &checked).await?;
        Ok(why)
    }

    /// Why the plan of a run does not count any more, if it was checked by other rules than there are now.
    pub(crate) async fn run_policy_moved(&self, run: &StackRun) -> Result<Option<String>> {
        let now = match self.rule_sets(run).await? {
            Ok(sets) => Some(sets).filter(|sets| !sets.is_empty()).map(|sets| sets.digest()),
            Err(why) => return Ok(Some(format!("{}: plan again", unchecked(&why)))),
        };
        let mut then = None;
        for (kind, value) in self.findings_of(run.id).await? {
            if kind == FindingKind::Policy {
                then = Some(read::<CheckedPlan>(value)?.digest);
            }
        }
        Ok((now != then).then(|| "the policy moved since the plan was checked: plan again".to_owned()))
    }

    /// Refuses a policy whose rules the caller may not use, or that the project's stacks may not be read from.
    pub(crate) async fn stack_policy_allowed(
        &self,
        ctx: &OpCtx,
        project: &Project,
        policy: Option<&StackPolicy>,
    ) -> Result<()> {
        let Some(repository) = policy.and_then(|policy| policy.repository_id) else { return Ok(()) };
        let selector = RepositorySelector::Id(repository);
        let repository = self.authorized::<Repository, Read>(ctx, &selector).await;
        let repository =
            repository.map_err(|error| error.named_in("attributes.policyEngine.repositoryId"))?;
        match stack_limits(project).problem(&repository.url.to_string()) {
            Some(problem) => Err(Error::forbidden(problem)),
            None => Ok(()),
        }
    }

    /// What the plan of a run is checked by, now; or why that cannot be told.
    async fn rule_sets(&self, run: &StackRun) -> Result<std::result::Result<RuleSets, String>> {
        let project = self.get::<Project>(&self.system_ctx(), &ProjectSelector::Id(run.project_id)).await?;
        let rules = self.store.project_stack_rules(project.id).await?;
        let mut sets = RuleSets { project: rules, ..RuleSets::default() };
        let Some(policy) = &run.snapshot.spec.policy else { return Ok(Ok(sets)) };
        let StackPolicy { engine, max_severity, custom_policies, repository_id, git } = policy;
        sets.trivy = *engine == PolicyEngine::Trivy;
        sets.max_severity = *max_severity;
        let mut rules = Vec::new();
        if *custom_policies {
            let Some(source) = &run.source else { return Ok(Err("the run has no code".to_owned())) };
            let spec = SourceSpec { folder: OWN_RULES.to_owned(), files: Vec::new() };
            // Whoever opens a pull request does not judge it: what it says of the rules counts when it is merged.
            let is_proposed = run.pull_request().is_some() || run.preview().is_some();
            let at = if is_proposed { run.snapshot.git.reference.as_str() } else { source.sha.as_str() };
            let of = (run.snapshot.repository_id, at);
            match self.stack_rules_in(&project, of, &spec).await? {
                Ok(found) => rules.extend(found),
                Err(why) => return Ok(Err(format!("{OWN_RULES} of the stack's repository: {why}"))),
            }
        }
        if let (Some(repository), Some(git)) = (repository_id, git) {
            let spec = SourceSpec::from(git);
            match self.stack_rules_in(&project, (*repository, &git.reference), &spec).await? {
                Ok(found) => rules.extend(found),
                Err(why) => return Ok(Err(format!("the policy's repository: {why}"))),
            }
        }
        if *custom_policies || repository_id.is_some() {
            sets.stack = Some(rules);
        }
        Ok(Ok(sets))
    }

    /// What all rules say of the plan of a run; or why that cannot be told.
    async fn violations(
        &self,
        run: &StackRun,
        sets: &RuleSets,
    ) -> Result<std::result::Result<Vec<Violation>, String>> {
        let RuleSets { project, stack, max_severity, trivy } = sets;
        let mut all = Vec::new();
        let rules = [
            (ViolationSource::Project, Some(project).filter(|rules| !rules.is_empty())),
            (ViolationSource::Stack, stack.as_ref()),
        ];
        if rules.iter().any(|(_, rules)| rules.is_some()) {
            let Some(plan) = self.plan_for_rules(run).await? else {
                return Ok(Err(format!(
                    "there is no plan as JSON that rules could read: runs of {} cannot be checked",
                    run.snapshot.tool.as_str()
                )));
            };
            for (source, rules) in rules {
                // Each set by itself: no rule of a stack is in the way of one of its project.
                let Some(rules) = rules else { continue };
                match self.rules.check(rules.clone(), plan.clone()).await? {
                    Ok(found) => all.extend(judged(source, found, *max_severity)),
                    Err(why) => return Ok(Err(format!("the {}'s rules: {why}", source.as_str()))),
                }
            }
        }
        if *trivy {
            let mut found = None;
            for (kind, value) in self.findings_of(run.id).await? {
                if kind == FindingKind::Trivy {
                    found = Some(read::<Vec<RuleFinding>>(value)?);
                }
            }
            let Some(found) = found else {
                return Ok(Err(
                    "the Job handed in no report of Trivy: use an image that has `trivy`".to_owned()
                ));
            };
            all.extend(judged(ViolationSource::Trivy, found, *max_severity));
        }
        for (kind, value) in self.findings_of(run.id).await? {
            if kind == FindingKind::Runner {
                all.extend(judged(ViolationSource::Runner, read(value)?, *max_severity));
            }
        }
        all.sort_by_key(|violation| std::cmp::Reverse((violation.refuses, violation.finding.severity)));
        Ok(Ok(all))
    }

    /// The plan of a run as readers may see it: what a rule says of it is shown to them.
    async fn plan_for_rules(&self, run: &StackRun) -> Result<Option<String>> {
        // All of it is in memory, and takes many times as much as a value.
        let _place = self.state_looks.acquire().await;
        let Some(json) = self.plan_part(run, PlanPart::Json).await? else { return Ok(None) };
        let shown = spawn_blocking(move || {
            serde_json::from_slice::<Value>(&json.body).map(|plan| plan_shown(plan).to_string())
        });
        let shown = shown.await.map_err(|cause| Error::internal("reading a plan", cause))?;
        // One that is no JSON cannot be checked, and the cause could hold a part of a value.
        Ok(shown.ok())
    }
}

fn unchecked(why: &str) -> String {
    format!("the plan could not be checked against its policy, so it is refused: {why}")
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|_| unreadable())
}

fn unreadable() -> Error {
    Error::internal("reading what was found of a plan", "it is stored in a way that cannot be read")
}

/// What findings of a run are sealed for.
fn context(run: StackRunId) -> String {
    format!("stack_run_finding:{run}")
}

/// What stands before the JSON: none takes the place of one of another kind.
fn head(kind: FindingKind) -> Vec<u8> {
    let mut head = kind.as_str().as_bytes().to_vec();
    head.push(0);
    head
}

fn write<T: Serialize>(value: &T) -> Result<Value> {
    serde_json::to_value(value).map_err(|cause| Error::internal("writing what was found of a plan", cause))
}
