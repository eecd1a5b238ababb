//! Lists of runs, by what these are of.

use plural_core::ids::StackRunId;
use plural_core::stack_run::{RunGroup, RunKind, RunTrigger, StackRun};
use plural_core::{Page, PageArgs, PageRequest};
use plural_testkit::{TestDatabase, each_database};

use super::Ground;

each_database!(a_list_of_runs_is_of_what_it_is_asked_for);

/// A list is of what it is asked for, and its pages are too.
async fn a_list_of_runs_is_of_what_it_is_asked_for(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let mut made = Vec::new();
    for (kind, trigger) in [
        (RunKind::Apply, RunTrigger::Commit),
        (RunKind::DryRun, RunTrigger::PullRequest),
        (RunKind::Drift, RunTrigger::Cron),
        (RunKind::Commands, RunTrigger::Manual),
        (RunKind::DryRun, RunTrigger::Manual),
        (RunKind::Destroy, RunTrigger::Manual),
    ] {
        let is_commands = kind == RunKind::Commands;
        let run = if is_commands { ground.commands().await } else { ground.asked(kind, trigger).await };
        made.push(run.id);
    }
    let page = PageArgs { first: Some(2), ..PageArgs::default() }.request().unwrap();
    let listed = async |of: &[RunGroup], page: &PageRequest| {
        ground.door.app.stack_runs(&ground.door.admin, ground.stack.id, of, page).await.unwrap()
    };
    let first = listed(&[RunGroup::Stack], &page).await;
    let cursor = first.edges.last().unwrap().cursor.clone();
    assert!(first.has_next_page);
    let ids = |page: Page<StackRun>| page.into_nodes().into_iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(ids(first), [made[5], made[4]]);
    let next = PageArgs { first: Some(2), after: Some(cursor), ..PageArgs::default() }.request().unwrap();
    assert_eq!(ids(listed(&[RunGroup::Stack], &next).await), [made[0]]);
    let cases: [(&[RunGroup], Vec<StackRunId>); 4] = [
        (&[RunGroup::PullRequest], vec![made[1]]),
        (&[RunGroup::Drift], vec![made[2]]),
        (&[RunGroup::Commands, RunGroup::Drift], vec![made[3], made[2]]),
        (&[], vec![made[5], made[4]]),
    ];
    for (of, expected) in cases {
        assert_eq!(ids(listed(of, &page).await), expected, "{of:?}");
    }
}
