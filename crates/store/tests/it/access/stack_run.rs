//! Runs of stacks: who may do what.

use std::collections::BTreeMap;

use plural_app::stack::Dependents;
use plural_app::stack_run::{NewRun, RunMove, StackRunStore as _};
use plural_core::access::Actor;
use plural_core::ids::StackRunId;
use plural_core::page::PageRequest;
use plural_core::policy::BindingsChange;
use plural_core::service::GitRef;
use plural_core::stack::{NewStack, Stack, StackSource, StackTool};
use plural_core::stack_exec::ExecCommand;
use plural_core::stack_run::{RunKind, RunPhase, RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, PageArgs, Result};

use super::{Case, World, fresh};
use crate::stack_run::{plan, step};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("stack_run_create", "uhdaaa", w, c => async { w.door.app.stack_run_create(c, sourced(w).await.id, manual(RunKind::Apply)).await }),
        case!("stack_exec", "uhddaa", w, c => async { w.door.app.stack_exec(c, sourced(w).await.id, vec![ls()]).await }),
        case!("stack_run_get", "uhaaaa", w, c => async { w.door.app.stack_run_get(c, run(w).await.id).await }),
        case!("stack_runs", "uhaaaa", w, c => async { w.door.app.stack_runs(c, run(w).await.stack_id, &[], &page()).await }),
        case!("runs_waiting", "uaaaaa", w, c => async { w.door.app.runs_waiting(c, &page()).await }),
        case!("stack_run_steps", "uhaaaa", w, c => async { w.door.app.stack_run_steps(c, run(w).await.id).await }),
        case!("stack_run_log", "uhaaaa", w, c => async { w.door.app.stack_run_log(c, stepping(w).await, 0, 0, 100).await }),
        case!("stack_run_plan_text", "uhaaaa", w, c => async { w.door.app.stack_run_plan_text(c, run(w).await.id).await }),
        case!("stack_run_plan_json", "uhaaaa", w, c => async { w.door.app.stack_run_plan_json(c, run(w).await.id).await }),
        case!("stack_run_findings", "uhaaaa", w, c => async { w.door.app.stack_run_findings(c, run(w).await.id).await }),
        case!("stack_run_approve", "uhdaaa", w, c => async { let (id, digest) = waiting(w).await; w.door.app.stack_run_approve(c, id, Some(&digest)).await }),
        case!("stack_run_reject", "uhdaaa", w, c => async { w.door.app.stack_run_reject(c, waiting(w).await.0, "not now").await }),
        case!("stack_run_cancel", "uhdaaa", w, c => async { w.door.app.stack_run_cancel(c, run(w).await.id).await }),
        case!("stack_run_restart", "uhdaaa", w, c => async { w.door.app.stack_run_restart(c, applied(w).await.id).await }),
        case!("stack_pull_requests", "uhaaaa", w, c => async { w.door.app.stack_pull_requests(c, sourced(w).await.id).await }),
        // No connection is one to their host: whoever may, hears that.
        case!("stack_pull_request_plan", "uhdaaa", w, c => async { unreached(w.door.app.stack_pull_request_plan(c, sourced(w).await.id, PULL).await) }),
        case!("stack_pull_request_release", "uhdaaa", w, c => async { unreached(w.door.app.stack_pull_request_release(c, sourced(w).await.id, PULL, &"a".repeat(40)).await) }),
        case!("stack_outputs", "uhaaaa", w, c => async { w.door.app.stack_outputs(c, sourced(w).await.id).await }),
        case!("stack_inputs_shown", "uhaaaa", w, c => async { w.door.app.stack_inputs_shown(c, sourced(w).await.id).await }),
        case!("stack_detach", "uhddaa", w, c => async { w.door.app.stack_detach(c, sourced(w).await.id, None, Dependents::Refuse).await }),
        case!("stack_restore", "uhddaa", w, c => async { w.door.app.stack_restore(c, deleted(w).await.id).await }),
    ]
}

const PULL: &str = "https://git.example.com/acme/infra/pulls/1";

fn unreached(run: Result<StackRun>) -> Result<()> {
    match run {
        Err(Error::Invalid { field, .. }) if field == "url" => Ok(()),
        run => run.map(drop),
    }
}

fn page() -> PageRequest {
    PageArgs::default().request().unwrap()
}

fn manual(kind: RunKind) -> NewRun {
    NewRun { kind, trigger: RunTrigger::Manual }
}

pub(super) fn ls() -> ExecCommand {
    ExecCommand { cmd: "ls".to_owned(), ..ExecCommand::default() }
}

/// A stack with code, and with a cluster to run on.
pub(super) async fn sourced(w: &World<'_>) -> Stack {
    let new = NewStack {
        name: fresh("s").parse().unwrap(),
        tool: StackTool::Terraform,
        project_id: Some(w.project.id),
        protect: false,
        tags: BTreeMap::new(),
        source: Some(StackSource {
            repository_id: w.repository.id,
            git: GitRef::new("main", "infra", &[]).unwrap(),
            cluster_id: w.cluster.cluster.id,
        }),
        follow: plural_core::stack::StackFollow::default(),
        spec: StackSpec::default(),
        environment: Vec::new(),
        files: BTreeMap::new(),
        bindings: BindingsChange::default(),
    };
    w.door.app.stack_create(&w.door.admin, new).await.unwrap()
}

async fn run(w: &World<'_>) -> StackRun {
    let stack = sourced(w).await;
    w.door.app.stack_run_create(&w.door.admin, stack.id, manual(RunKind::Apply)).await.unwrap()
}

/// Moves a run as the console would.
async fn moved(w: &World<'_>, id: StackRunId, change: RunMove) -> StackRun {
    let change = RunMove { at: w.door.app.now(), ..change };
    w.door.database.stack_run_move(&Actor::System, id, &change).await.unwrap().unwrap()
}

async fn stepping(w: &World<'_>) -> StackRunId {
    let id = run(w).await.id;
    let steps = Some(vec![step(id, RunPhase::Plan, 0)]);
    moved(w, id, RunMove { steps, ..RunMove::default() }).await.id
}

/// A run whose plan waits for people, and the digest of that.
async fn waiting(w: &World<'_>) -> (StackRunId, String) {
    let (id, plan) = (run(w).await.id, plan(w.door.app.now()));
    let digest = plan.digest.clone();
    let change = RunMove { to: Some(RunStatus::PendingApproval), plan: Some(plan), ..RunMove::default() };
    (moved(w, id, change).await.id, digest)
}

/// A run that made something.
async fn applied(w: &World<'_>) -> StackRun {
    let id = run(w).await.id;
    let change =
        RunMove { to: Some(RunStatus::Successful), applied: Some(("c1".into(), None)), ..RunMove::default() };
    moved(w, id, change).await
}

/// A stack that is to be destroyed.
async fn deleted(w: &World<'_>) -> Stack {
    let stack = applied(w).await.stack_id;
    w.door.app.stack_delete(&w.door.admin, stack, None, Dependents::Refuse).await.unwrap()
}
