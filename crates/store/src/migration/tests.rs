//! Migrations of data that was there before.

use std::collections::BTreeSet;

use chrono::Utc;
use plural_app::cluster::ClusterFilter;
use plural_app::records::{Records, Search};
use plural_app::service::ServiceFilter;
use plural_app::stack::StackFilter;
use plural_app::stack_run::StackRunStore as _;
use plural_core::PageRequest;
use plural_core::access::{Action, Actor, Decision, UserActor, Visibility, allows, visibility};
use plural_core::cluster::Cluster;
use plural_core::ids::{ClusterId, GroupId, PolicyId, ProjectId, ServiceId, StackId, UserId};
use plural_core::page::Direction;
use plural_core::policy::{Policy, Role};
use plural_core::project::Project;
use plural_core::service::Service;
use plural_core::stack::{Stack, StackTool};
use plural_core::stack_spec::StackSpec;
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait, DatabaseConnection, EntityTrait, Statement, Value};
use sea_orm_migration::MigratorTrait;
use uuid::Uuid;

use super::Migrator;
use crate::{Database, DatabaseOptions, policy, recording_policy};

each_database!(
    no_right_moved,
    windows_stay_with_what_they_are_of,
    readers_of_recordings_become_bindings,
    stacks_stay_as_they_are_without_a_source,
);

/// Steps up to and with `m0040_chart_projects`.
const BEFORE_POLICIES: u32 = 28;
/// Steps up to and with `m0094_stacks`.
const BEFORE_RUNS: u32 = 69;
/// Worlds that are migrated together; none knows of another.
const WORLDS: u64 = 8;

/// What a thing was bound to before there were policies: the column that named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thing {
    column: &'static str,
    id: Uuid,
    parent: Option<Uuid>,
}

#[derive(Debug, Clone, Copy)]
struct OldBinding {
    on: Uuid,
    subject: Uuid,
    role: Role,
}

/// A few of everything, with random bindings.
struct World {
    things: Vec<Thing>,
    users: Vec<UserActor>,
    bindings: Vec<OldBinding>,
}

/// A small generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

async fn insert(connection: &DatabaseConnection, table: &str, row: Vec<(&str, Value)>) {
    let columns: Vec<&str> = row.iter().map(|(column, _)| *column).collect();
    let marks: Vec<String> = (1..=row.len()).map(|n| format!("${n}")).collect();
    let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), marks.join(", "));
    let values = row.into_iter().map(|(_, value)| value);
    let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
    connection.execute_raw(statement).await.unwrap();
}

/// The columns that are filled of each table, as they were at [`BEFORE_POLICIES`]; what is absent may be null.
async fn insert_named(connection: &DatabaseConnection, table: &str, id: Uuid, more: Vec<(&str, Value)>) {
    let now = || Value::from(Utc::now());
    let mut row = vec![("id", id.into()), ("created_at", now()), ("updated_at", now())];
    row.extend(more);
    insert(connection, table, row).await;
}

async fn insert_thing(connection: &DatabaseConnection, thing: Thing) {
    let Thing { column, id, parent } = thing;
    let name =
        |kind: &str| Value::from(format!("{kind}-{}", id.simple()).chars().take(60).collect::<String>());
    let empty = || Value::from(serde_json::json!({}));
    let more = match column {
        "project_id" => vec![("name", name("p")), ("is_default", false.into())],
        "cluster_id" => vec![
            ("name", name("c")),
            ("handle", name("c")),
            ("project_id", parent.unwrap().into()),
            ("tags", empty()),
            ("metadata", empty()),
            ("protect", false.into()),
            ("token_hash", id.as_bytes().to_vec().into()),
        ],
        _ => vec![
            ("cluster_id", parent.unwrap().into()),
            ("name", name("s")),
            ("namespace", "apps".into()),
            ("version", "0.0.1".into()),
            ("sync_config", empty()),
            ("protect", false.into()),
            ("dry_run", false.into()),
            ("templated", false.into()),
            ("status", "STALE".into()),
            ("component_status", "".into()),
            ("revision_id", Uuid::now_v7().into()),
            ("artifact_folder", "".into()),
            ("sequence", 1_i64.into()),
            ("seed", vec![7_u8].into()),
            ("reported_sequence", 0_i64.into()),
        ],
    };
    let table = match column {
        "project_id" => "projects",
        "cluster_id" => "clusters",
        _ => "services",
    };
    insert_named(connection, table, id, more).await;
}

impl World {
    async fn fill(connection: &DatabaseConnection, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut things = Vec::new();
        for _ in 0..3 {
            things.push(Thing { column: "project_id", id: Uuid::now_v7(), parent: None });
        }
        for _ in 0..6 {
            let parent = Some(things[random.below(3)].id);
            things.push(Thing { column: "cluster_id", id: Uuid::now_v7(), parent });
        }
        for _ in 0..12 {
            let parent = Some(things[3 + random.below(6)].id);
            things.push(Thing { column: "service_id", id: Uuid::now_v7(), parent });
        }
        for thing in &things {
            insert_thing(connection, *thing).await;
        }
        let groups: Vec<GroupId> = (0..4).map(|_| GroupId::new()).collect();
        for group in &groups {
            let name = Value::from(group.to_string());
            insert_named(connection, "user_groups", group.uuid(), vec![("name", name)]).await;
        }
        let mut users = Vec::new();
        for _ in 0..10 {
            let id = UserId::new();
            let email = format!("{id}@example.com");
            let more = vec![
                ("email", Value::from(email.clone())),
                ("name", Value::from("Somebody")),
                ("admin", Value::from(false)),
            ];
            insert_named(connection, "users", id.uuid(), more).await;
            let mut member_of = std::collections::HashSet::new();
            for group in &groups {
                if random.below(4) == 0 {
                    member_of.insert(*group);
                    let row = vec![
                        ("id", Value::from(Uuid::now_v7())),
                        ("group_id", group.uuid().into()),
                        ("user_id", id.uuid().into()),
                    ];
                    insert(connection, "group_members", row).await;
                }
            }
            users.push(UserActor { id, email, admin: false, groups: member_of, token: None });
        }
        let mut bindings = Vec::new();
        for _ in 0..30 {
            let thing = *random.of(&things);
            let (column, subject) = if random.below(2) == 0 {
                ("user_id", random.of(&users).id.uuid())
            } else {
                ("group_id", random.of(&groups).uuid())
            };
            let role = *random.of(&[Role::Read, Role::Write, Role::Admin]);
            let row = vec![
                ("id", Value::from(Uuid::now_v7())),
                (thing.column, thing.id.into()),
                (column, subject.into()),
                ("role", role.as_str().into()),
            ];
            insert(connection, "bindings", row).await;
            bindings.push(OldBinding { on: thing.id, subject, role });
        }
        Self { things, users, bindings }
    }

    /// A thing and what it is in.
    fn chain(&self, thing: Thing) -> BTreeSet<Uuid> {
        let mut chain = BTreeSet::from([thing.id]);
        let mut above = thing.parent;
        while let Some(id) = above {
            chain.insert(id);
            above = self.things.iter().find(|thing| thing.id == id).unwrap().parent;
        }
        chain
    }

    /// The rule as it was: the best role along the chain decides, and who has none does not see the thing.
    fn decided(&self, user: &UserActor, thing: Thing, action: Action) -> Decision {
        let chain = self.chain(thing);
        let rank = |role| match role {
            Role::Read => 1,
            Role::Write => 2,
            Role::Admin => 3,
            Role::Recordings | Role::Assume | Role::Create => unreachable!("there was none"),
        };
        let concerns = |binding: &&OldBinding| {
            let is_subject = binding.subject == user.id.uuid()
                || user.groups.iter().any(|group| group.uuid() == binding.subject);
            is_subject && chain.contains(&binding.on)
        };
        let best = self.bindings.iter().filter(concerns).map(|binding| rank(binding.role)).max();
        let needed = match action {
            Action::Read => 1,
            Action::Write => 2,
            Action::Admin => 3,
            // No role allowed it, or nobody asked.
            Action::ReadRecordings
            | Action::Approve
            | Action::Exec
            | Action::Rollback
            | Action::Prune
            | Action::ImpersonateGroup
            | Action::Assume
            | Action::ReadState
            | Action::WriteState
            | Action::ExecStack
            | Action::CreatePr => 4,
        };
        match best {
            None => Decision::Hide,
            Some(best) if best >= needed => Decision::Allow,
            Some(_) => Decision::Deny,
        }
    }
}

async fn old(source: &TestDatabase) -> DatabaseConnection {
    old_of(source, BEFORE_POLICIES).await
}

async fn old_of(source: &TestDatabase, steps: u32) -> DatabaseConnection {
    let connection = sea_orm::Database::connect(source.url()).await.unwrap();
    Migrator::up(&connection, Some(steps)).await.unwrap();
    connection
}

async fn migrated(source: &TestDatabase, connection: DatabaseConnection) -> Database {
    connection.close().await.unwrap();
    Database::open(&DatabaseOptions::new(source.url())).await.unwrap()
}

/// What each of several people sees and may do of each thing is what the old tables said.
async fn no_right_moved(source: TestDatabase) {
    let connection = old(&source).await;
    let mut worlds = Vec::new();
    for seed in 1..=WORLDS {
        worlds.push(World::fill(&connection, seed).await);
    }
    let database = migrated(&source, connection).await;
    let (mut allowed, mut denied, mut hidden) = (0, 0, 0);
    for (world, user) in worlds.iter().flat_map(|world| world.users.iter().map(move |user| (world, user))) {
        let actor = Actor::User(user.clone());
        let seen = seen(&database, &visibility(&actor).unwrap()).await;
        // What a look-up of a project, a cluster and a service asks for.
        let of: Vec<Vec<PolicyId>> = world
            .things
            .iter()
            .map(|thing| {
                [Some(thing.id), thing.parent].into_iter().flatten().map(PolicyId::from_uuid).collect()
            })
            .collect();
        let scopes = policy::scopes(&database.reader, &actor, &of).await.unwrap();
        for (thing, scope) in world.things.iter().zip(scopes) {
            for action in [Action::Read, Action::Write, Action::Admin, Action::ReadRecordings] {
                let expected = world.decided(user, *thing, action);
                assert_eq!(allows(&actor, action, &scope), expected, "{} {action:?} {thing:?}", user.email);
                match expected {
                    Decision::Allow => allowed += 1,
                    Decision::Deny => denied += 1,
                    Decision::Hide | Decision::Unauthenticated => hidden += 1,
                }
            }
        }
        let expected: BTreeSet<Uuid> = world
            .things
            .iter()
            .filter(|thing| world.decided(user, **thing, Action::Read) == Decision::Allow)
            .map(|thing| thing.id)
            .collect();
        assert_eq!(seen, expected, "{}", user.email);
    }
    assert!(allowed > 100 && denied > 100 && hidden > 100, "{allowed} {denied} {hidden}");
    // A policy is below what its thing is in.
    for world in &worlds {
        let ids: Vec<Uuid> = world.things.iter().map(|thing| thing.id).collect();
        let chains = policy::chains_on(&database.reader, &ids).await.unwrap();
        for thing in &world.things {
            let chain: BTreeSet<Uuid> = chains[&thing.id].iter().copied().collect();
            assert_eq!(chain, world.chain(*thing));
        }
    }
}

/// Ids of all that somebody's lists show.
async fn seen(database: &Database, visibility: &Visibility) -> BTreeSet<Uuid> {
    let page = PageRequest { limit: 1000, after: None, before: None, direction: Direction::Forward };
    let projects = Records::<Project>::list(database, visibility, &Search::default(), &page).await.unwrap();
    let clusters =
        Records::<Cluster>::list(database, visibility, &ClusterFilter::default(), &page).await.unwrap();
    let services =
        Records::<Service>::list(database, visibility, &ServiceFilter::default(), &page).await.unwrap();
    let projects = projects.into_nodes().into_iter().map(|project| project.id.uuid());
    let clusters = clusters.into_nodes().into_iter().map(|cluster| cluster.id.uuid());
    let services = services.into_nodes().into_iter().map(|service| service.id.uuid());
    projects.chain(clusters).chain(services).collect()
}

async fn windows_stay_with_what_they_are_of(source: TestDatabase) {
    let connection = old(&source).await;
    let project = Thing { column: "project_id", id: Uuid::now_v7(), parent: None };
    let cluster = Thing { column: "cluster_id", id: Uuid::now_v7(), parent: Some(project.id) };
    let service = Thing { column: "service_id", id: Uuid::now_v7(), parent: Some(cluster.id) };
    let mut windows = Vec::new();
    for thing in [project, cluster, service] {
        insert_thing(&connection, thing).await;
        let id = Uuid::now_v7();
        let row = vec![
            ("id", Value::from(id)),
            (thing.column, thing.id.into()),
            ("kind", "DENY".into()),
            ("schedule", "0 2 * * *".into()),
            ("seconds", 3600_i32.into()),
            ("time_zone", "Europe/Berlin".into()),
            ("description", thing.column.into()),
        ];
        insert(&connection, "sync_windows", row).await;
        windows.push(id);
    }
    let database = migrated(&source, connection).await;
    let policies: [Policy; 3] = [
        ProjectId::from_uuid(project.id).into(),
        ClusterId::from_uuid(cluster.id).into(),
        ServiceId::from_uuid(service.id).into(),
    ];
    for ((policy, thing), window) in policies.into_iter().zip([project, cluster, service]).zip(windows) {
        let found = crate::sync_window::list_on(&database.reader, policy).await.unwrap();
        assert_eq!(found.len(), 1, "{policy:?}");
        let found = &found[0];
        assert_eq!((found.id.uuid(), found.description.as_deref()), (window, Some(thing.column)));
        assert_eq!((found.rule.seconds, found.rule.schedule.to_string().as_str()), (3600, "0 2 * * *"));
        assert_eq!(found.rule.time_zone.name(), "Europe/Berlin");
    }
}

/// Those that there still are, each once.
async fn readers_of_recordings_become_bindings(source: TestDatabase) {
    let connection = old(&source).await;
    let project = Thing { column: "project_id", id: Uuid::now_v7(), parent: None };
    let silent = Thing { column: "project_id", id: Uuid::now_v7(), parent: None };
    let (ada, sre, gone) = (UserId::new(), GroupId::new(), UserId::new());
    insert_thing(&connection, project).await;
    insert_thing(&connection, silent).await;
    let more = vec![
        ("email", Value::from("ada@example.com")),
        ("name", Value::from("Ada")),
        ("admin", Value::from(false)),
    ];
    insert_named(&connection, "users", ada.uuid(), more).await;
    insert_named(&connection, "user_groups", sre.uuid(), vec![("name", Value::from("sre"))]).await;
    let policy = serde_json::json!({
        "record": true, "input": false, "keep_days": 7, "limit_megabytes": 5, "users": [ada, gone, ada], "groups": [sre],
    });
    // What the first release that recorded may have stored.
    let short = serde_json::json!({"record": true});
    for (thing, policy) in [(project, policy), (silent, short)] {
        let row = vec![
            ("project_id", Value::from(thing.id)),
            ("policy", policy.into()),
            ("updated_at", Utc::now().into()),
        ];
        insert(&connection, "recording_policies", row).await;
    }
    let database = migrated(&source, connection).await;
    let of = |user: UserId, groups: &[GroupId]| {
        let groups = groups.iter().copied().collect();
        Actor::User(UserActor { id: user, email: "x@example.com".into(), admin: false, groups, token: None })
    };
    let stranger = UserId::new();
    for (thing, actor, expected) in [
        (project, of(ada, &[]), Decision::Allow),
        (project, of(stranger, &[sre]), Decision::Allow),
        (project, of(gone, &[]), Decision::Hide),
        (silent, of(ada, &[sre]), Decision::Hide),
    ] {
        let scope = policy::scope(&database.reader, &actor, &[PolicyId::from_uuid(thing.id)]).await.unwrap();
        assert_eq!(allows(&actor, Action::ReadRecordings, &scope), expected, "{actor:?}");
        assert_eq!(allows(&actor, Action::Read, &scope), Decision::Hide, "{actor:?}");
    }
    let bound = policy::bound::Entity::find().all(&database.reader).await.unwrap();
    assert_eq!(bound.len(), 2, "{bound:?}");
    let rows = recording_policy::row::Entity::find().all(&database.reader).await.unwrap();
    for row in rows {
        let keys: Vec<&String> = row.policy.as_object().unwrap().keys().collect();
        let readers = keys.iter().any(|key| ["users", "groups"].contains(&key.as_str()));
        assert!(!readers && row.policy["record"] == true, "{keys:?}");
    }
}

/// A stack as the release before runs of stacks makes it.
async fn insert_stack(connection: &DatabaseConnection, project: Uuid, name: &str) -> StackId {
    let id = StackId::new();
    let policy =
        vec![("id", Value::from(id.uuid())), ("parent_id", project.into()), ("noun", "stack".into())];
    insert(connection, "policies", policy).await;
    let more = vec![
        ("project_id", Value::from(project)),
        ("name", name.into()),
        ("tool", StackTool::Terraform.as_str().into()),
        ("protect", true.into()),
        ("fence", 3_i64.into()),
        ("writes", 7_i64.into()),
    ];
    insert_named(connection, "stacks", id.uuid(), more).await;
    id
}

/// Those that were there, and those that the release before makes beside this one.
async fn stacks_stay_as_they_are_without_a_source(source: TestDatabase) {
    let connection = old_of(&source, BEFORE_RUNS).await;
    let pending = Migrator::get_pending_migrations(&connection).await.unwrap();
    assert_eq!(pending.first().unwrap().name(), "m0095_stack_runs");
    let project = Uuid::now_v7();
    insert(&connection, "policies", vec![("id", project.into()), ("noun", "project".into())]).await;
    let more = vec![("name", Value::from("infra")), ("is_default", Value::from(false))];
    insert_named(&connection, "projects", project, more).await;
    let before = insert_stack(&connection, project, "before").await;
    let database = migrated(&source, connection).await;
    let connection = sea_orm::Database::connect(source.url()).await.unwrap();
    let beside = insert_stack(&connection, project, "beside").await;
    connection.close().await.unwrap();

    let page = PageRequest { limit: 10, after: None, before: None, direction: Direction::Forward };
    let filter = StackFilter::default();
    let stacks = Records::<Stack>::list(&database, &Visibility::All, &filter, &page).await.unwrap();
    let stacks = stacks.into_nodes();
    assert_eq!(stacks.iter().map(|stack| stack.id).collect::<Vec<_>>(), [before, beside]);
    for stack in &stacks {
        assert!(stack.protect && stack.source.is_none() && !stack.paused, "{stack:?}");
        assert_eq!(stack.spec, StackSpec::default());
        let inputs = database.stack_inputs(stack.id).await.unwrap();
        assert!(inputs.environment.is_none() && inputs.files.is_none());
    }
    let rows = crate::stack::row::Entity::find().all(&database.reader).await.unwrap();
    assert!(rows.iter().all(|row| (row.fence, row.writes, row.runs) == (3, 7, 0)), "{rows:?}");
}
