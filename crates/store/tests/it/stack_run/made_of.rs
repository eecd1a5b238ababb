//! What runs are made of while that changes, and who changed it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use plural_app::policy::RoleChange;
use plural_app::stack_run::{NewRun, RunMove};
use plural_app::token::TokenRequest;
use plural_core::Error;
use plural_core::machine_account::NewMachineAccount;
use plural_core::policy::{BindingSubject, BindingsChange, Role};
use plural_core::stack::{NewStack, StackChange, StackTool};
use plural_core::stack_definition::NewStackDefinition;
use plural_core::stack_run::{RunKind, RunPlan, RunStatus, RunTrigger};
use plural_core::stack_spec::{StackApproval, StackCommand, StackConfiguration, StackSpec, Stage};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement, TransactionTrait as _};
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

use super::{Ground, plan};
use crate::door::subject;

each_database!(
    a_command_that_asks_makes_its_run_wait_and_a_writer_does_not_take_that_away,
    a_run_is_of_what_its_definition_says_when_it_is_there,
    whoever_changed_a_stack_does_not_approve_it_under_the_name_of_an_account,
    whoever_changed_a_stack_under_the_name_of_an_account_does_not_approve_it,
);

/// Longer than it takes to read what a run is made of.
const READ: Duration = Duration::from_millis(500);

fn steps(cmd: &str) -> Vec<StackCommand> {
    vec![StackCommand { cmd: cmd.to_owned(), args: Vec::new(), stage: Some(Stage::Apply), approve: false }]
}

async fn a_run_is_of_what_its_definition_says_when_it_is_there(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let definition = NewStackDefinition {
        name: "deploy".parse().unwrap(),
        description: None,
        configuration: StackConfiguration {
            image: Some("a.b/c".to_owned()),
            tag: Some("1".to_owned()),
            ..StackConfiguration::default()
        },
        steps: steps("before"),
        delete_steps: Vec::new(),
    };
    let definition = app.stack_definition_create(admin, &definition).await.unwrap();
    let new = NewStack {
        name: "defined".parse().unwrap(),
        tool: StackTool::Custom,
        project_id: None,
        protect: false,
        tags: BTreeMap::new(),
        source: ground.stack.source.clone(),
        follow: plural_core::stack::StackFollow::default(),
        spec: StackSpec { definition_id: Some(definition.id), ..StackSpec::default() },
        environment: Vec::new(),
        files: BTreeMap::new(),
        bindings: BindingsChange::default(),
    };
    let stack = app.stack_create(admin, new).await.unwrap();

    // Somebody holds the row of the stack: whoever makes a run of it has read the definition, and waits.
    let connection = sea_orm::Database::connect(ground.door.source.url()).await.unwrap();
    let backend = connection.get_database_backend();
    let of = |sql: &str, id: uuid::Uuid| Statement::from_sql_and_values(backend, sql, [id.into()]);
    let held = connection.begin().await.unwrap();
    let holds = of("UPDATE stacks SET paused = paused WHERE id = $1", stack.id.uuid());
    assert_eq!(held.execute_raw(holds).await.unwrap().rows_affected(), 1);
    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Manual };
    let mut asked = pin!(app.stack_run_create(admin, stack.id, new));
    assert!(timeout(READ, &mut asked).await.is_err(), "it waits for the row");
    let after = serde_json::to_string(&steps("after")).unwrap();
    let change =
        of(&format!("UPDATE stack_definitions SET steps = '{after}' WHERE id = $1"), definition.id.uuid());
    assert_eq!(held.execute_raw(change).await.unwrap().rows_affected(), 1);
    held.commit().await.unwrap();
    connection.close().await.unwrap();

    let run = asked.await.unwrap();
    assert_eq!(run.snapshot.spec.commands, steps("after"));
}

async fn a_command_that_asks_makes_its_run_wait_and_a_writer_does_not_take_that_away(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let asking = steps("make").into_iter().map(|step| StackCommand { approve: true, ..step }).collect();
    let configuration =
        StackConfiguration { image: Some("a.b/c".to_owned()), ..StackConfiguration::default() };
    let spec =
        StackSpec { configuration, commands: asking, delete_commands: steps("undo"), ..StackSpec::default() };
    let new = NewStack {
        name: "asking".parse().unwrap(),
        tool: StackTool::Custom,
        project_id: None,
        protect: false,
        tags: BTreeMap::new(),
        source: ground.stack.source.clone(),
        follow: plural_core::stack::StackFollow::default(),
        spec,
        environment: Vec::new(),
        files: BTreeMap::new(),
        bindings: BindingsChange::default(),
    };
    let stack = app.stack_create(admin, new).await.unwrap();
    assert!(!stack.spec.approval.required);
    for (kind, waits) in [(RunKind::Apply, true), (RunKind::Destroy, false)] {
        let new = NewRun { kind, trigger: RunTrigger::Manual };
        let run = app.stack_run_create(admin, stack.id, new).await.unwrap();
        assert_eq!(run.snapshot.spec.approval.required, waits, "{kind:?}");
    }

    let bob = ground.door.user("bob").await;
    let change = RoleChange { role: Role::Write.into(), add: vec![subject(&bob)], remove: Vec::new() };
    app.binding_change(admin, stack.project_id, &change).await.unwrap();
    let as_bob = ground.door.as_user(&bob).await;
    let quiet = StackSpec { commands: steps("make"), ..stack.spec.clone() };
    let change = StackChange { spec: Some(quiet), ..StackChange::default() };
    let refused = app.stack_update(&as_bob, stack.id, &change).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("less approval"), "{refused}");
    app.stack_update(admin, stack.id, &change).await.unwrap();
    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Manual };
    let run = app.stack_run_create(admin, stack.id, new).await.unwrap();
    assert!(!run.snapshot.spec.approval.required);
}

async fn whoever_changed_a_stack_does_not_approve_it_under_the_name_of_an_account(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let approval = StackApproval { required: true, forbid_self: true, ..StackApproval::default() };
    let spec = StackSpec { approval, ..StackSpec::default() };
    let change = StackChange { spec: Some(spec), ..StackChange::default() };
    app.stack_update(admin, ground.stack.id, &change).await.unwrap();
    let run = ground.running().await.id;
    let planned = RunPlan { state_serial: None, ..plan(ground.now()) };
    let digest = planned.digest.clone();
    let waits = RunMove { to: Some(RunStatus::PendingApproval), plan: Some(planned), ..ground.change() };
    ground.moved(run, waits).await.unwrap();
    // A commit made it.
    let sql = "UPDATE stack_runs SET author = 'system', created_by_id = NULL WHERE id = $1";
    assert_eq!(ground.sql(sql, vec![run.uuid().into()]).await, 1);

    let project = ground.stack.project_id;
    let robot = NewMachineAccount {
        name: "robot".parse().unwrap(),
        email: None,
        project_id: Some(project),
        assume: Vec::new(),
    };
    let robot = app.machine_account_create(admin, robot).await.unwrap();
    let bob = ground.door.user("bob").await;
    let add = vec![BindingSubject::User(robot.user_id()), subject(&bob)];
    let change = RoleChange { role: Role::Write.into(), add, remove: Vec::new() };
    app.binding_change(admin, project, &change).await.unwrap();
    let token = app.machine_account_token(admin, robot.id, TokenRequest::default()).await.unwrap();
    let as_robot = app.ctx(app.actor_authenticate(token.text.expose_secret()).await.unwrap());

    for own in [admin, &as_robot] {
        let refused = app.stack_run_approve(own, run, Some(&digest)).await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
        assert!(refused.to_string().contains("last changed"), "{refused}");
    }
    assert_eq!(ground.run(run).await.approvals.len(), 0);
    let as_bob = ground.door.as_user(&bob).await;
    app.stack_run_approve(&as_bob, run, Some(&digest)).await.unwrap();
    assert_eq!(ground.run(run).await.approvals.len(), 1);
}

async fn whoever_changed_a_stack_under_the_name_of_an_account_does_not_approve_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let approval = StackApproval { required: true, forbid_self: true, ..StackApproval::default() };
    let spec = StackSpec { approval, ..StackSpec::default() };
    let project = ground.stack.project_id;
    let robot = NewMachineAccount {
        name: "robot".parse().unwrap(),
        email: None,
        project_id: Some(project),
        assume: Vec::new(),
    };
    let robot = app.machine_account_create(admin, robot).await.unwrap();
    let bob = ground.door.user("bob").await;
    let as_bob = ground.door.as_user(&bob).await;
    let add = vec![BindingSubject::User(robot.user_id()), subject(&bob)];
    let change = RoleChange { role: Role::Write.into(), add, remove: Vec::new() };
    app.binding_change(admin, project, &change).await.unwrap();
    let change = StackChange { spec: Some(spec), ..StackChange::default() };
    app.stack_update(admin, ground.stack.id, &change).await.unwrap();

    let token = app.machine_account_token(admin, robot.id, TokenRequest::default()).await.unwrap();
    let as_robot = app.ctx(app.actor_authenticate(token.text.expose_secret()).await.unwrap());
    let files = BTreeMap::from([("a.txt".to_owned(), Some("other".to_owned()))]);
    let change = StackChange { files: Some(files), ..StackChange::default() };
    app.stack_update(&as_robot, ground.stack.id, &change).await.unwrap();
    let stack = ground.stack_now().await;
    assert_eq!(stack.changed_by, Some(robot.user_id()));
    assert!(
        stack.changed_as.as_deref().is_some_and(|by| by.contains("(assumed by ")),
        "{:?}",
        stack.changed_as
    );

    let run = ground.running().await.id;
    let planned = RunPlan { state_serial: None, ..plan(ground.now()) };
    let digest = planned.digest.clone();
    let waits = RunMove { to: Some(RunStatus::PendingApproval), plan: Some(planned), ..ground.change() };
    ground.moved(run, waits).await.unwrap();
    let sql = "UPDATE stack_runs SET author = 'system', created_by_id = NULL WHERE id = $1";
    assert_eq!(ground.sql(sql, vec![run.uuid().into()]).await, 1);
    for own in [admin, &as_robot] {
        let refused = app.stack_run_approve(own, run, Some(&digest)).await.unwrap_err();
        assert!(refused.to_string().contains("last changed"), "{refused}");
    }
    app.stack_run_approve(&as_bob, run, Some(&digest)).await.unwrap();
    assert_eq!(ground.run(run).await.approvals.len(), 1);
}
