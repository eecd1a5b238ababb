//! Whoever merged the code of a run does not approve that.

use plural_app::policy::RoleChange;
use plural_app::pull_request_life::{PullRequestLifeStore as _, PullRequestRead};
use plural_app::pull_request_merge::PullRequestMergeStore as _;
use plural_app::stack_run::RunMove;
use plural_core::Error;
use plural_core::policy::Role;
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks};
use plural_core::stack::StackChange;
use plural_core::stack_run::{RunKind, RunPlan, RunSource, RunStatus, RunTrigger};
use plural_core::stack_spec::{StackApproval, StackSpec};
use plural_testkit::{TestDatabase, each_database};

use super::{Ground, plan, source};
use crate::door::subject;
use crate::pull_request::{automation, told};

each_database!(whoever_merged_the_code_of_a_run_does_not_approve_it);

async fn whoever_merged_the_code_of_a_run_does_not_approve_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, app, admin) = (&ground.door, &ground.door.app, &ground.door.admin);
    let approval = StackApproval { required: true, forbid_self: true, ..StackApproval::default() };
    let spec = StackSpec { approval, ..StackSpec::default() };
    let change = StackChange { spec: Some(spec), ..StackChange::default() };
    app.stack_update(admin, ground.stack.id, &change).await.unwrap();
    let (bob, carol) = (door.user("bob").await, door.user("carol").await);
    let add = vec![subject(&bob), subject(&carol)];
    let change = RoleChange { role: Role::Write.into(), add, remove: Vec::new() };
    app.binding_change(admin, ground.stack.project_id, &change).await.unwrap();

    // The host squashed it: no commit of the branch is in the run, and none has the address of whoever merged it.
    let (head, squashed) = ("a".repeat(40), "b".repeat(40));
    let automation = automation(door).await;
    let opened = app.pull_request_record(admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    door.database.pull_request_merger(opened.id, bob.email.as_str(), ground.now()).await.unwrap();
    // Asked once more, they are there once.
    door.database.pull_request_merger(opened.id, bob.email.as_str(), ground.now()).await.unwrap();
    let facts = PrFacts { merge_commit: Some(squashed.clone()), ..PrFacts::default() };
    let at = ground.now();
    let life = PrLife { head: Some(head.clone()), facts, links: PrLinks::default(), read_at: Some(at) };
    let read = PullRequestRead { told: told(1, PrStatus::Merged), life };
    assert!(door.database.pull_request_read_back(opened.id, &read, &[], at).await.unwrap());
    for commits in [vec![head], vec!["c".repeat(40), squashed.clone()]] {
        let people = door.database.pull_request_people(&commits).await.unwrap();
        assert!(people.len() == 2 && people.contains(&bob.email.to_string()), "{people:?}");
        assert!(people.contains(&opened.creator), "{people:?}");
    }
    let nobody = door.database.pull_request_people(&["d".repeat(40)]).await.unwrap();
    assert!(nobody.is_empty(), "{nobody:?}");

    let run = ground.asked(RunKind::Apply, RunTrigger::Manual).await.id;
    let made = RunSource { commits: vec![squashed], ..source(7) };
    ground.moved(run, RunMove { source: Some(made), ..ground.change() }).await.unwrap();
    assert_eq!(ground.next().await, Some(run));
    ground.to(run, RunStatus::Running).await;
    let planned = RunPlan { state_serial: None, ..plan(ground.now()) };
    let digest = planned.digest.clone();
    let waits = RunMove { to: Some(RunStatus::PendingApproval), plan: Some(planned), ..ground.change() };
    ground.moved(run, waits).await.unwrap();
    let as_bob = door.as_user(&bob).await;
    let refused = app.stack_run_approve(&as_bob, run, Some(&digest)).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("merged a pull request"), "{refused}");
    let as_carol = door.as_user(&carol).await;
    app.stack_run_approve(&as_carol, run, Some(&digest)).await.unwrap();
    assert_eq!(ground.run(run).await.approvals.len(), 1);
}
