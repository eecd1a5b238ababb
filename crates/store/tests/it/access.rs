//! Every use case, asked by nobody, a stranger, a reader, a writer, an owner (bindings on the project) and
//! an administrator. Each noun has a file with its cases; a use case without one fails the test.

macro_rules! case {
    ($name:literal, $expected:literal, $world:ident, $ctx:ident => $call:expr) => {
        ($name, $expected, |$world: &$crate::access::World<'_>, $ctx: &plural_app::OpCtx| {
            futures::FutureExt::boxed_local(async move { $call.await.map(drop) })
        })
    };
}

mod background_job;
mod binding;
mod cluster;
mod custom_stack_run;
mod delta;
mod fleet_plan;
mod global_service;
mod group;
mod helm_repository;
mod identity_provider;
mod installation;
mod invite;
mod machine_account;
mod managed_namespace;
mod passkey;
mod persona;
mod pr_automation;
mod pr_governance;
mod pr_instance;
mod project;
mod pull_request;
mod question;
mod recording;
mod registration_token;
mod repository;
mod role;
mod saved_view;
mod scm_connection;
mod scm_webhook;
mod service;
mod service_context;
mod stack;
mod stack_definition;
mod stack_run;
mod sync_window;
mod token;
mod user;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures::future::LocalBoxFuture;
use plural_app::OpCtx;
use plural_app::cluster::{ClusterFilter, ClusterSelector, CreatedCluster};
use plural_app::project::ProjectSelector;
use plural_app::repository::NewCredentials;
use plural_app::service::ServiceFilter;
use plural_core::cluster::{Cluster, NewCluster};
use plural_core::group::{Group, NewGroup};
use plural_core::policy::BindingsChange;
use plural_core::project::Project;
use plural_core::repository::{NewRepository, Repository};
use plural_core::service::{Service, ServiceChange};
use plural_core::user::{User, UserChange};
use plural_core::{Error, PageArgs, Result};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, by_id, service_id, subject};

each_database!(
    the_table,
    bindings_reach_down_and_never_up_or_sideways,
    users_change_themselves_but_not_their_power,
);

/// What a case may use: each attempt gets a fresh one from the administrator.
struct World<'a> {
    door: &'a Door,
    project: Project,
    cluster: CreatedCluster,
    repository: Repository,
    service: Service,
    group: Group,
    user: User,
}

type Case = (
    &'static str,
    // nobody, stranger, reader, writer, owner, administrator: `u`nauthenticated, `h`idden, `d`enied, `a`llowed.
    &'static str,
    for<'a> fn(&'a World<'a>, &'a OpCtx) -> LocalBoxFuture<'a, Result<()>>,
);

/// The cases of each noun.
const CASES: [fn() -> Vec<Case>; 37] = [
    project::cases,
    user::cases,
    group::cases,
    binding::cases,
    token::cases,
    cluster::cases,
    delta::cases,
    repository::cases,
    saved_view::cases,
    scm_connection::cases,
    scm_webhook::cases,
    pr_automation::cases,
    pr_instance::cases,
    pr_governance::cases,
    pull_request::cases,
    fleet_plan::cases,
    service::cases,
    sync_window::cases,
    recording::cases,
    helm_repository::cases,
    identity_provider::cases,
    global_service::cases,
    managed_namespace::cases,
    service_context::cases,
    stack::cases,
    stack_definition::cases,
    stack_run::cases,
    custom_stack_run::cases,
    background_job::cases,
    installation::cases,
    role::cases,
    question::cases,
    machine_account::cases,
    passkey::cases,
    invite::cases,
    registration_token::cases,
    persona::cases,
];

fn cases() -> Vec<Case> {
    CASES.into_iter().flat_map(|cases| cases()).collect()
}

async fn the_table(database: TestDatabase) {
    let door = Door::new(database).await;
    let world = world(&door).await;
    let mut actors = vec![("nobody", door.nobody())];
    let mut change = BindingsChange::default();
    for name in ["stranger", "reader", "writer", "owner"] {
        let user = door.user(name).await;
        match name {
            "reader" => change.read = Some(vec![subject(&user)]),
            "writer" => change.write = Some(vec![subject(&user)]),
            "owner" => change.admin = Some(vec![subject(&user)]),
            _ => {}
        }
        actors.push((name, door.as_user(&user).await));
    }
    actors.push(("administrator", door.admin.clone()));
    door.app.binding_replace(&door.admin, world.project.id, change).await.unwrap();

    let (mut wrong, mut asked) = (Vec::new(), BTreeMap::new());
    for (name, expected, call) in cases() {
        assert_eq!(expected.len(), actors.len(), "{name}");
        let place = asked.entry(name).or_insert(0);
        let questions =
            question::QUESTIONS.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, all)| all);
        let question = questions.get(*place);
        *place += 1;
        for ((who, ctx), expected) in actors.iter().zip(expected.chars()) {
            // What a case takes away must be there for the next one to ask.
            let mut world = World { door: &door, ..clone(&world) };
            if name.starts_with("user_") || name.starts_with("group_") {
                world.user = door.user(&fresh("u")).await;
                world.group = group(&door).await;
            }
            // Before it is done: what is done may end the thing.
            if let Some(question) = question {
                let told = question::letter(&question::ask(&world, ctx, question).await);
                if told != expected {
                    wrong.push(format!("{question} by {who}: expected {expected}, told {told}"));
                }
            }
            let got = match call(&world, ctx).await {
                Ok(()) => 'a',
                Err(Error::Unauthenticated) => 'u',
                Err(Error::NotFound { .. }) => 'h',
                Err(Error::Forbidden { .. }) => 'd',
                Err(other) => panic!("{name} by {who}: {}", other.log_text()),
            };
            if got != expected {
                wrong.push(format!("{name} by {who}: expected {expected}, got {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Reads the sources: whatever takes a context is a use case; one for all records is one of each.
#[test]
fn every_use_case_is_in_the_table() {
    let known: BTreeSet<&str> = cases().into_iter().map(|(name, ..)| name).collect();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/src");
    let (mut found, mut generic, mut records) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for start in ["pub async fn ", "pub fn "] {
            for piece in text.split(start).skip(1) {
                let Some((name, rest)) = piece.split_once('(') else { continue };
                if rest.starts_with("&self, ctx: &OpCtx") || rest.starts_with(" &self, ctx: &OpCtx") {
                    match name.strip_suffix("<N: Record>") {
                        Some(name) => generic.insert(name.to_owned()),
                        None => found.insert(name.to_owned()),
                    };
                }
            }
        }
        let nouns = text.split(" record!(").skip(1).filter_map(|piece| piece.split_once(','));
        records.extend(nouns.map(|(noun, _)| noun.trim().to_owned()));
    }
    assert!(generic.len() == 3 && records.len() > 9, "{generic:?} {records:?}");
    found.extend(generic.iter().flat_map(|name| records.iter().map(move |noun| format!("{name}::<{noun}>"))));
    assert!(found.len() > 40, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "use cases without a row in the access table: {missing:?}");
    let gone: Vec<_> = known.iter().filter(|name| !found.contains(**name)).collect();
    assert!(gone.is_empty(), "rows of the access table without a use case: {gone:?}");
    // Whether it may be done can be asked of each, but of those that say why not.
    let asked = question::QUESTIONS.iter().map(|(name, _)| *name).chain(question::UNASKED.iter().copied());
    let asked: BTreeSet<&str> = asked.collect();
    assert_eq!(asked, known, "use cases with a question, or a place among those without one");
}

/// A binding on a cluster reaches its services and nothing beside; one on a service only that.
async fn bindings_reach_down_and_never_up_or_sideways(database: TestDatabase) {
    let door = Door::new(database).await;
    let world = world(&door).await;
    let other = door.service(&world.cluster.cluster, &world.repository, "other").await;
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    let group = group(&door).await;
    door.app.group_member_create(&door.admin, group.id, bob.id).await.unwrap();
    let on_cluster = BindingsChange { read: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    let target = world.cluster.cluster.id;
    door.app.binding_replace(&door.admin, target, on_cluster).await.unwrap();
    let on_service = BindingsChange {
        write: Some(vec![plural_core::policy::BindingSubject::Group(group.id)]),
        ..BindingsChange::default()
    };
    let target = world.service.id;
    let bound = door.app.binding_replace(&door.admin, target, on_service).await.unwrap();
    assert!(
        matches!(&bound[0].subject, plural_app::policy::SubjectNoun::Group(found) if found.id == group.id)
    );

    let (ada, bob) = (door.as_user(&ada).await, door.as_user(&bob).await);
    let services = async |ctx: &OpCtx| {
        let page =
            door.app.list::<Service>(ctx, &ServiceFilter::default(), &PageArgs::default()).await.unwrap();
        page.into_nodes().into_iter().map(|service| service.id).collect::<Vec<_>>()
    };
    assert_eq!(services(&ada).await, [world.service.id, other.id]);
    assert_eq!(services(&bob).await, [world.service.id]);
    assert!(door.app.get::<Service>(&bob, &service_id(&other)).await.is_err());
    assert!(door.app.get::<Cluster>(&bob, &by_id(&world.cluster.cluster)).await.is_err());
    assert!(door.app.get::<Cluster>(&ada, &by_id(&world.cluster.cluster)).await.is_ok());
    assert!(door.app.get::<Project>(&ada, &ProjectSelector::Id(world.project.id)).await.is_err());
    // Lists say the same as single questions.
    for ctx in [&ada, &bob] {
        let clusters =
            door.app.list::<Cluster>(ctx, &ClusterFilter::default(), &PageArgs::default()).await.unwrap();
        for id in [world.cluster.cluster.id] {
            let listed = clusters.edges.iter().any(|edge| edge.node.id == id);
            assert_eq!(listed, door.app.get::<Cluster>(ctx, &ClusterSelector::Id(id)).await.is_ok());
        }
    }
    // Writing one service is not a way to move it onto a repository that one may not read.
    let elsewhere = door.repository("https://example.com/team/elsewhere").await;
    let change = ServiceChange { repository_id: Some(elsewhere.id), ..ServiceChange::default() };
    let moved = door.app.service_update(&bob, &service_id(&world.service), change).await;
    assert!(matches!(moved, Err(Error::NotFound { .. })));
}

async fn users_change_themselves_but_not_their_power(database: TestDatabase) {
    let door = Door::new(database).await;
    let ada = door.user("ada").await;
    let me = door.as_user(&ada).await;
    let name = UserChange { name: Some("Ada L".parse().unwrap()), ..UserChange::default() };
    assert!(
        door.app
            .user_update(
                &me,
                ada.id,
                &name,
                Some(plural_app::user::NewPassword::new("a long password".into()))
            )
            .await
            .is_ok()
    );
    let power = UserChange { admin: Some(true), ..UserChange::default() };
    assert!(matches!(door.app.user_update(&me, ada.id, &power, None).await, Err(Error::Forbidden { .. })));
    let address = UserChange { email: Some("root2@example.com".parse().unwrap()), ..UserChange::default() };
    assert!(matches!(door.app.user_update(&me, ada.id, &address, None).await, Err(Error::Forbidden { .. })));
    assert!(door.app.user_delete(&me, ada.id).await.is_err());
}

async fn world(door: &Door) -> World<'_> {
    let project = door.project("team").await;
    let cluster = door.app.cluster_create(&door.admin, new_cluster(&project)).await.unwrap();
    let repository = new_repository(&project);
    let repository =
        door.app.repository_create(&door.admin, repository, NewCredentials::default()).await.unwrap();
    let service = door.service(&cluster.cluster, &repository, "web").await;
    let (group, user) = (group(door).await, door.user("target").await);
    World { door, project, cluster, repository, service, group, user }
}

fn clone<'a>(world: &World<'a>) -> World<'a> {
    let CreatedCluster { cluster, deploy_token, join_token: _ } = &world.cluster;
    World {
        door: world.door,
        project: world.project.clone(),
        cluster: CreatedCluster {
            cluster: cluster.clone(),
            deploy_token: deploy_token.clone(),
            join_token: None,
        },
        repository: world.repository.clone(),
        service: world.service.clone(),
        group: world.group.clone(),
        user: world.user.clone(),
    }
}

fn fresh(prefix: &str) -> String {
    format!("{prefix}-{}", uuid::Uuid::now_v7().simple())
}

fn new_cluster(project: &Project) -> NewCluster {
    NewCluster { project_id: Some(project.id), ..NewCluster::named(fresh("c").parse().unwrap()) }
}

fn new_repository(project: &Project) -> NewRepository {
    let url = format!("https://example.com/{}", fresh("r")).parse().unwrap();
    NewRepository { url, project_id: Some(project.id), web: plural_core::web_address::WebAddress::default() }
}

async fn group(door: &Door) -> Group {
    let new = NewGroup { name: fresh("g").parse().unwrap(), description: None, global: false };
    door.app.group_create(&door.admin, &new).await.unwrap()
}

fn found(there: bool) -> Result<()> {
    if there { Ok(()) } else { Err(Error::not_found("row")) }
}

/// Bindings that let the world's user look.
fn readable(w: &World<'_>) -> BindingsChange {
    BindingsChange { read: Some(vec![subject(&w.user)]), ..BindingsChange::default() }
}
