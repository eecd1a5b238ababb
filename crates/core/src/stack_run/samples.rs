//! Runs for tests of what follows for runs.

use super::*;

/// A run that somebody made at 1 000 000 seconds, of whose surroundings nothing is known.
pub(crate) fn run(status: RunStatus, phase: RunPhase) -> StackRun {
    StackRun {
        id: StackRunId::new(),
        stack_id: StackId::new(),
        project_id: ProjectId::new(),
        cluster_id: ClusterId::new(),
        number: 1,
        kind: RunKind::Apply,
        trigger: RunTrigger::Manual,
        status,
        phase,
        attempt: 1,
        snapshot: RunSnapshot {
            tool: StackTool::Terraform,
            repository_id: RepositoryId::new(),
            git: GitRef::new("main", "", &[]).unwrap(),
            spec: StackSpec::default(),
            inputs_digest: "aa".to_owned(),
            upstream: None,
        },
        source: None,
        plan: None,
        approvals: Vec::new(),
        cancel_asked: false,
        error: None,
        job: None,
        heartbeat_at: None,
        created_by: None,
        author: "ada@example.com".to_owned(),
        created_at: DateTime::from_timestamp(1_000_000, 0).unwrap(),
        started_at: None,
        finished_at: None,
        sequence: 1,
    }
}
