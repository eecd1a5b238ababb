//! Which stacks depend on which: no cycle, whoever writes it, and nothing goes that others need.

use plural_app::stack::{Dependents, StackStore as _};
use plural_app::stack_run::{NewRun, RunMove, SealedInputs, StackRunStore as _};
use plural_core::ErrorCode;
use plural_core::ids::StackId;
use plural_core::policy::BindingsChange;
use plural_core::stack::{NewStack, Stack, StackChange};
use plural_core::stack_dependency::{StackDependency, Upstream};
use plural_core::stack_run::{RunKind, RunStatus, RunTrigger};
use plural_core::stack_spec::StackSpec;
use plural_testkit::{TestDatabase, each_database};

use crate::stack_run::Ground;

each_database!(
    the_graph_is_that_of_what_was_saved,
    of_two_that_would_make_a_cycle_one_is_saved,
    a_run_is_settled_once_and_before_its_code,
);

fn on(stacks: &[StackId]) -> StackSpec {
    let one =
        |stack_id: &StackId| StackDependency { stack_id: *stack_id, outputs: Vec::new(), reads_state: false };
    StackSpec { dependencies: stacks.iter().map(one).collect(), ..StackSpec::default() }
}

/// Another stack, of the same source.
async fn beside(ground: &Ground, name: &str, upstream: &[StackId]) -> Stack {
    let new = NewStack {
        name: name.parse().unwrap(),
        tool: ground.stack.tool,
        project_id: None,
        protect: false,
        tags: std::collections::BTreeMap::new(),
        source: ground.stack.source.clone(),
        follow: plural_core::stack::StackFollow::default(),
        spec: on(upstream),
        environment: Vec::new(),
        files: std::collections::BTreeMap::new(),
        bindings: BindingsChange::default(),
    };
    ground.door.app.stack_create(&ground.door.admin, new).await.unwrap()
}

async fn depends(ground: &Ground, stack: StackId, upstream: &[StackId]) -> plural_core::Result<Stack> {
    let change = StackChange { spec: Some(on(upstream)), ..StackChange::default() };
    ground.door.app.stack_update(&ground.door.admin, stack, &change).await
}

async fn the_graph_is_that_of_what_was_saved(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin, net) = (&ground.door.app, &ground.door.admin, ground.stack.id);
    let db = beside(&ground, "db", &[net]).await.id;
    let web = beside(&ground, "web", &[db, net]).await.id;
    let edges = async || {
        let mut edges = ground.door.database.stack_edges().await.unwrap();
        edges.sort();
        edges
    };
    let sorted = |mut edges: Vec<(StackId, StackId)>| {
        edges.sort();
        edges
    };
    assert_eq!(edges().await, sorted(vec![(db, net), (web, db), (web, net)]));
    depends(&ground, web, &[db]).await.unwrap();
    assert_eq!(edges().await, sorted(vec![(db, net), (web, db)]));
    // A change of something else leaves them.
    let change = StackChange { paused: Some(true), ..StackChange::default() };
    app.stack_update(admin, web, &change).await.unwrap();
    assert_eq!(edges().await.len(), 2);
    let graph = app.stack_graph(admin).await.unwrap();
    let names: Vec<&str> = graph.stacks.iter().map(|stack| stack.name.as_str()).collect();
    assert_eq!(names, ["infra", "db", "web"]);
    for stack in [net, db] {
        let refused = app.stack_detach(admin, stack, None, Dependents::Refuse).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Conflict);
    }
    for stack in [web, db, net] {
        app.stack_detach(admin, stack, None, Dependents::Refuse).await.unwrap();
    }
    assert!(edges().await.is_empty());
}

async fn of_two_that_would_make_a_cycle_one_is_saved(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (one, two) = (ground.stack.id, beside(&ground, "two", &[]).await.id);
    let (ones, twos) = ([two], [one]);
    let both = tokio::join!(depends(&ground, one, &ones), depends(&ground, two, &twos));
    let saved = [both.0.is_ok(), both.1.is_ok()];
    assert_eq!(saved.iter().filter(|saved| **saved).count(), 1, "{saved:?}");
    assert_eq!(ground.door.database.stack_edges().await.unwrap().len(), 1);
}

async fn a_run_is_settled_once_and_before_its_code(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let store = &ground.door.database;
    let stack = beside(&ground, "db", &[ground.stack.id]).await.id;
    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Upstream };
    let run = ground.door.app.stack_run_create(&ground.door.admin, stack, new).await.unwrap();
    assert!(run.is_held());
    let open = store.stack_runs_open(None).await.unwrap().runs;
    assert!(open.iter().any(|open| open.id == run.id && open.is_held && !open.is_prepared), "{open:?}");
    // What only looks waits for no other stack.
    let new = NewRun { kind: RunKind::Drift, trigger: RunTrigger::Manual };
    let looks = ground.door.app.stack_run_create(&ground.door.admin, stack, new).await.unwrap();
    let open = store.stack_runs_open(None).await.unwrap().runs;
    assert!(open.iter().any(|open| open.id == looks.id && !open.is_held && !open.is_prepared), "{open:?}");
    let mut snapshot = run.snapshot.clone();
    snapshot.upstream = Some(Upstream { settled_at: Some(ground.now()), ..Upstream::default() });
    let settled = store.stack_run_settle(run.id, &snapshot, &SealedInputs::default()).await.unwrap().unwrap();
    assert!(!settled.is_held());
    assert_eq!(ground.run(run.id).await.snapshot, snapshot);
    let open = store.stack_runs_open(None).await.unwrap().runs;
    assert!(open.iter().any(|open| open.id == run.id && !open.is_held), "{open:?}");
    assert_eq!(store.stack_run_newest(stack).await.unwrap().map(|run| run.id), Some(run.id));
    let ended = RunMove { to: Some(RunStatus::Cancelled), ..ground.change() };
    ground.moved(run.id, ended).await.unwrap();
    assert!(store.stack_run_settle(run.id, &snapshot, &SealedInputs::default()).await.unwrap().is_none());
}
