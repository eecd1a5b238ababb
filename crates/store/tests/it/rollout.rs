//! Global services on bad days: instances that cannot be given what they should have, originals that go, deletions that are
//! refused.

use plural_app::cluster::ClusterSelector;
use plural_app::global_service::RolloutAction;
use plural_core::Error;
use plural_core::component::ComponentState;
use plural_core::global_service::{
    Cascade, GlobalService, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec,
    GlobalServiceSpecChange, ServiceTemplate, TemplateSecrets,
};
use plural_core::rollout::{RolloutState, RolloutStrategy};
use plural_core::service::{Configuration, PinUntil};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{eventually, new_service, service_id};
use crate::fleet::{Fleet, by, canary, tagged, version, with};

each_database!(
    a_canary_that_cannot_be_given_the_change_keeps_it_from_the_others,
    who_could_not_be_given_it_gets_it_when_the_rollout_is_over,
    another_context_is_a_change_and_is_undone_like_one,
    an_original_is_not_taken_away_from_its_copies,
    copies_stay_as_they_are_when_the_original_is_gone,
    protected_instances_refuse_the_deletion_at_once,
    one_that_stays_does_not_keep_the_others,
    hundreds_of_instances_take_fewer_statements_than_they_are,
);

/// Two clusters, the canary first, that have the first generation and are well.
async fn complete(
    database: TestDatabase,
    rollout: RolloutStrategy,
) -> (Fleet, plural_core::global_service::GlobalService) {
    let mut fleet = Fleet::new(database, &["a", "b"]).await;
    fleet.tag("a", &[("tier", "canary")]).await;
    let global = fleet.make(with(rollout)).await;
    fleet.until_generations(&global, &[1, 0]).await;
    fleet.says("a", ComponentState::Running).await;
    fleet.until_generations(&global, &[1, 1]).await;
    fleet.says("b", ComponentState::Running).await;
    fleet.until_state(&global, RolloutState::Complete).await;
    (fleet, global)
}

async fn pin(
    fleet: &Fleet,
    global: &plural_core::global_service::GlobalService,
    name: &str,
) -> plural_app::service::ServiceSelector {
    let service = fleet.on(global, name).await;
    let (app, admin, by) = (&fleet.door.app, &fleet.door.admin, service_id(&service));
    app.service_rollback(admin, &by, service.revision_id, PinUntil::Release).await.unwrap();
    by
}

async fn until_error(fleet: &Fleet, global: &plural_core::global_service::GlobalService, words: &str) {
    eventually(async || match fleet.get(global).await.error {
        Some(error) if error.contains(words) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn a_canary_that_cannot_be_given_the_change_keeps_it_from_the_others(database: TestDatabase) {
    let (mut fleet, global) = complete(database, canary()).await;
    let pinned = pin(&fleet, &global, "a").await;
    let (app, admin) = (std::sync::Arc::clone(&fleet.door.app), fleet.door.admin.clone());
    app.global_service_update(&admin, &by(&global), version(&fleet, "2.0.0")).await.unwrap();
    until_error(&fleet, &global, "cluster a: the service is pinned").await;
    let waits = fleet.get(&global).await.rollout.unwrap();
    assert_eq!((waits.state, waits.cohort), (RolloutState::Progressing, 0), "{waits:?}");
    assert_eq!(fleet.generations(&global).await, [1, 1], "nobody has what the canary has not shown to work");
    // Let go, it moves, and then the others.
    app.service_release(&admin, &pinned).await.unwrap();
    fleet.until_generations(&global, &[2, 1]).await;
    fleet.says("a", ComponentState::Running).await;
    fleet.until_generations(&global, &[2, 2]).await;
    fleet.door.stop().await;
}

async fn who_could_not_be_given_it_gets_it_when_the_rollout_is_over(database: TestDatabase) {
    let (mut fleet, global) = complete(database, canary()).await;
    let pinned = pin(&fleet, &global, "b").await;
    let (app, admin) = (std::sync::Arc::clone(&fleet.door.app), fleet.door.admin.clone());
    let impatient = GlobalServiceChange {
        spec: with(RolloutStrategy { timeout_seconds: 0, ..canary() }).into(),
        ..version(&fleet, "2.0.0")
    };
    // The canary is given no time either: a person goes on without it, and then without the one that is pinned.
    app.global_service_update(&admin, &by(&global), impatient).await.unwrap();
    fleet.until_state(&global, RolloutState::Halted).await;
    fleet.says("a", ComponentState::Running).await;
    app.global_service_steer(&admin, &by(&global), RolloutAction::Resume).await.unwrap();
    eventually(async || match fleet.get(&global).await.rollout {
        Some(rollout) if rollout.state == RolloutState::Halted && !rollout.refused.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    app.global_service_steer(&admin, &by(&global), RolloutAction::Resume).await.unwrap();
    fleet.until_state(&global, RolloutState::Complete).await;
    assert_eq!(fleet.generations(&global).await, [2, 1]);
    until_error(&fleet, &global, "cluster b: the service is pinned").await;

    app.service_release(&admin, &pinned).await.unwrap();
    fleet.tag("b", &[("any", "news")]).await;
    fleet.until_generations(&global, &[2, 2]).await;
    eventually(async || fleet.get(&global).await.error.map_or(Ok(()), Err)).await;
    fleet.door.stop().await;
}

async fn another_context_is_a_change_and_is_undone_like_one(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["a"]).await;
    let word = |word: &str| GlobalServiceSpec {
        context: serde_json::json!({"word": word}).as_object().cloned(),
        ..with(canary())
    };
    let secrets = TemplateSecrets {
        configuration: Configuration::from([("k".to_owned(), "{{ context.word }}".to_owned())]),
        ..TemplateSecrets::default()
    };
    let source = GlobalServiceSource::Template(Box::new(fleet.template()), secrets);
    let global = fleet.make_from(word("one"), source).await;
    let (app, admin) = (std::sync::Arc::clone(&fleet.door.app), fleet.door.admin.clone());
    let reads = async |fleet: &Fleet| {
        let service = fleet.on(&global, "a").await;
        app.service_configuration(&admin, service.id).await.unwrap().values["k"].clone()
    };
    fleet.until_generations(&global, &[1]).await;
    assert_eq!(reads(&fleet).await, "one");
    fleet.says("a", ComponentState::Running).await;
    fleet.until_state(&global, RolloutState::Complete).await;

    let change = GlobalServiceChange { spec: word("two").into(), template: None };
    let changed = app.global_service_update(&admin, &by(&global), change.clone()).await.unwrap();
    assert_eq!(changed.generation, 2);
    fleet.until_generations(&global, &[2]).await;
    assert_eq!(reads(&fleet).await, "two");
    let same = app.global_service_update(&admin, &by(&global), change).await.unwrap();
    assert_eq!(same.generation, 2, "nothing changed");

    app.global_service_steer(&admin, &by(&global), RolloutAction::Undo).await.unwrap();
    fleet.until_generations(&global, &[1]).await;
    assert_eq!(reads(&fleet).await, "one");
    fleet.door.stop().await;
}

async fn an_original_is_not_taken_away_from_its_copies(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    let original = fleet.door.service(&fleet.clusters["blue"].0, &fleet.repository, "web").await;
    let source = GlobalServiceSource::Service(original.id);
    let global = fleet.make_from(GlobalServiceSpec::default(), source).await;
    fleet.until_on(&global, &["green"]).await;
    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    let id = service_id(&original);
    for refused in [
        app.service_delete(admin, &id).await,
        app.service_detach(admin, &id).await,
        app.service_delete_cascade(admin, &id).await,
    ] {
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("the instances of the global service web are copies of web"), "{words}");
    }
    // Its name is for those who may see it.
    let ada = fleet.door.user("ada").await;
    let write = plural_core::policy::BindingsChange {
        write: Some(vec![crate::door::subject(&ada)]),
        ..plural_core::policy::BindingsChange::default()
    };
    let on = original.id;
    app.binding_replace(admin, on, write).await.unwrap();
    let words = app.service_delete(&fleet.door.as_user(&ada).await, &id).await.unwrap_err().to_string();
    assert!(words.contains("a global service that you may not see"), "{words}");

    app.global_service_delete(admin, &by(&global)).await.unwrap();
    app.service_delete(admin, &id).await.unwrap();
    fleet.door.stop().await;
}

async fn copies_stay_as_they_are_when_the_original_is_gone(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green", "red"]).await;
    fleet.tag("green", &[("stage", "prod")]).await;
    let original = fleet.door.service(&fleet.clusters["blue"].0, &fleet.repository, "web").await;
    let spec = GlobalServiceSpec { target: tagged("stage", "prod"), ..GlobalServiceSpec::default() };
    let global = fleet.make_from(spec, GlobalServiceSource::Service(original.id)).await;
    let before = fleet.until_on(&global, &["green"]).await;
    let blue = ClusterSelector::Id(fleet.id("blue"));
    fleet.door.app.cluster_detach(&fleet.door.admin, &blue).await.unwrap();
    fleet.tag("red", &[("stage", "prod")]).await;
    until_error(&fleet, &global, "no longer exists").await;
    assert_eq!(fleet.instances(&global).await.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    fleet.door.stop().await;
}

async fn protected_instances_refuse_the_deletion_at_once(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue"]).await;
    let template = |protect| ServiceTemplate { protect, ..fleet.template() };
    let source = GlobalServiceSource::Template(Box::new(template(true)), TemplateSecrets::default());
    let spec = GlobalServiceSpec { cascade: Cascade::Delete, ..GlobalServiceSpec::default() };
    let global = fleet.make_from(spec, source).await;
    fleet.until_on(&global, &["blue"]).await;
    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    let refused = app.global_service_delete(admin, &by(&global)).await.unwrap_err();
    assert!(refused.to_string().contains("1 of its instances are protected"), "{refused}");
    let change = GlobalServiceChange {
        spec: GlobalServiceSpecChange::default(),
        template: Some((Box::new(template(false)), TemplateSecrets::default())),
    };
    app.global_service_update(admin, &by(&global), change).await.unwrap();
    fleet.until_generations(&global, &[2]).await;
    app.global_service_delete(admin, &by(&global)).await.unwrap();
    fleet.door.stop().await;
}

async fn one_that_stays_does_not_keep_the_others(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    let spec = GlobalServiceSpec { cascade: Cascade::Detach, ..GlobalServiceSpec::default() };
    let global = fleet.make(spec).await;
    fleet.until_on(&global, &["blue", "green"]).await;
    let front = plural_core::service::NewService {
        links: plural_core::dependency::ServiceLinks {
            dependencies: Some(vec!["web".parse().unwrap()]),
            ..plural_core::dependency::ServiceLinks::default()
        },
        ..new_service(&fleet.repository, "front")
    };
    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    // Whichever of the two comes first is the one that stays.
    let first = fleet.instances(&global).await.into_keys().next().unwrap();
    let stays = if first == fleet.id("blue") { "blue" } else { "green" };
    let front = app.service_create(admin, &ClusterSelector::Id(first), front).await.unwrap();
    app.global_service_delete(admin, &by(&global)).await.unwrap();
    fleet.until_on(&global, &[stays]).await;
    until_error(&fleet, &global, "depend on it").await;
    app.service_detach(admin, &service_id(&front)).await.unwrap();
    eventually(async || match app.get::<GlobalService>(admin, &by(&global)).await {
        Err(Error::NotFound { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    fleet.door.stop().await;
}

async fn hundreds_of_instances_take_fewer_statements_than_they_are(database: TestDatabase) {
    const CLUSTERS: usize = 300;
    let mut fleet = Fleet::new(database, &[]).await;
    for n in 0..CLUSTERS {
        fleet.door.cluster(&format!("c{n}")).await;
    }
    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    // Whoever watches has a database of its own, so that its statements are not counted.
    let watcher = crate::door::Door::open(std::sync::Arc::clone(&fleet.door.source)).await;
    let all_have = async |global: &plural_core::global_service::GlobalService, generation| {
        eventually(async || {
            let found = watcher.app.global_service_instances(&watcher.admin, global.id).await.unwrap();
            let has = |one: &plural_app::global_service::Instance| one.generation == generation && one.placed;
            let count = found.iter().filter(|one| has(one)).count();
            if count == CLUSTERS { Ok(found) } else { Err(format!("{count}")) }
        })
        .await
    };
    let before = fleet.door.database.statements();
    let global = fleet.make(GlobalServiceSpec::default()).await;
    let made = all_have(&global, 1).await;
    let first = fleet.door.database.statements();
    app.global_service_update(admin, &by(&global), version(&fleet, "2.0.0")).await.unwrap();
    all_have(&global, 2).await;
    let second = fleet.door.database.statements();
    let (making, changing) = (first - before, second - first);
    assert!(making < CLUSTERS as u64 && changing < CLUSTERS as u64, "{making} and {changing} statements");
    // Each has its own line in the audit log, and its own revisions.
    let one = made[CLUSTERS / 2].service_id;
    let page = plural_core::PageArgs::default();
    let lines = app.service_events(admin, one, &page).await;
    let lines = lines.unwrap().into_nodes();
    for action in ["service.create", "service.update"] {
        assert_eq!(lines.iter().filter(|line| line.entry.action == action).count(), 1, "{lines:?}");
    }
    assert_eq!(app.service_revisions(admin, one, &page).await.unwrap().edges.len(), 3);
    fleet.door.stop().await;
}
