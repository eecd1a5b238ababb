//! Global services: who gets an instance, who loses it, and how a change moves.

use std::sync::Arc;

use plural_app::agent::AgentReport;
use plural_app::agent_poll::PollAsked;
use plural_app::global_service::RolloutAction;
use plural_app::instance::InstanceCounts;
use plural_core::Error;
use plural_core::component::ComponentState;
use plural_core::global_service::{
    Cascade, GlobalService, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec,
    GlobalServiceSpecChange, NewGlobalService, ServiceTemplate, TemplateSecrets,
};
use plural_core::rollout::RolloutState;
use plural_core::service::{Configuration, ConfigurationEdit, Intent, Service, ServiceChange};
use plural_core::service_context::ServiceContextChange;
use plural_core::specs::DiffNormalizer;
use plural_core::target::ClusterTarget;
use plural_testkit::{TestDatabase, each_database};

use crate::agent::reported;
use crate::door::{eventually, service_id};
use crate::fleet::{Fleet, URL, by, canary, tagged, version, with};

each_database!(
    clusters_that_fit_get_it_and_those_that_no_longer_do_lose_it,
    instances_are_changed_through_their_global_service,
    a_deletion_that_nobody_asked_for_waits_and_is_taken_back,
    a_cluster_that_is_meant_again_gets_another_one_when_the_old_one_is_gone,
    copies_follow_their_service,
    a_service_of_the_same_name_is_left_alone_or_taken_over,
    what_was_wrong_with_a_cluster_is_tried_again_by_itself,
    each_cluster_can_get_its_own,
    instances_depend_on_their_own_clusters_services_and_read_contexts,
    a_change_moves_cohort_by_cohort_and_survives_a_kill,
    a_failure_halts_and_undo_brings_everybody_back,
    a_new_commit_is_a_rollout_only_where_it_touches,
    a_project_decides_who_may,
);

async fn clusters_that_fit_get_it_and_those_that_no_longer_do_lose_it(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green", "red"]).await;
    fleet.tag("blue", &[("stage", "prod")]).await;
    let spec = GlobalServiceSpec {
        target: tagged("stage", "prod"),
        cascade: Cascade::Detach,
        ..GlobalServiceSpec::default()
    };
    let global = fleet.make(spec.clone()).await;
    fleet.until_on(&global, &["blue"]).await;
    let service = fleet.on(&global, "blue").await;
    assert_eq!((service.name.as_str(), service.namespace.as_str()), ("web", "apps"));
    assert_eq!(service.owner, Some(global.id));

    fleet.tag("green", &[("stage", "prod")]).await;
    fleet.until_on(&global, &["blue", "green"]).await;
    fleet.tag("blue", &[]).await;
    fleet.until_on(&global, &["green"]).await;
    let gone = fleet.door.app.get::<Service>(&fleet.door.admin, &service_id(&service)).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");

    // Kept, where nothing else is said.
    let change = GlobalServiceChange {
        spec: GlobalServiceSpecChange { cascade: Some(Cascade::Keep), ..GlobalServiceSpecChange::default() },
        template: None,
    };
    fleet.door.app.global_service_update(&fleet.door.admin, &by(&global), change).await.unwrap();
    let service = fleet.on(&global, "green").await;
    fleet.door.app.global_service_delete(&fleet.door.admin, &by(&global)).await.unwrap();
    eventually(async || match fleet.door.app.get::<GlobalService>(&fleet.door.admin, &by(&global)).await {
        Err(Error::NotFound { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(fleet.service(service.id).await.owner, None);
    fleet.door.stop().await;
}

async fn instances_are_changed_through_their_global_service(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    let global = fleet.make(GlobalServiceSpec::default()).await;
    fleet.until_on(&global, &["blue", "green"]).await;
    let service = fleet.on(&global, "blue").await;
    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    let change = ServiceChange { version: Some("9.9.9".into()), ..ServiceChange::default() };
    let ignored =
        DiffNormalizer { json_pointers: vec!["/spec/replicas".into()], ..DiffNormalizer::default() };
    for refused in [
        app.service_update(admin, &service_id(&service), change).await,
        app.service_delete(admin, &service_id(&service)).await,
        app.service_detach(admin, &service_id(&service)).await,
        app.service_delete_cascade(admin, &service_id(&service)).await,
        // The next generation would not know of it.
        app.service_drift_ignore(admin, &service_id(&service), &ignored).await,
    ] {
        assert!(refused.unwrap_err().to_string().contains("managed by a global service"));
    }
    app.service_kick(admin, &service_id(&service)).await.unwrap();
    // Nor is it deleted along with what it depends on.
    let blue = &fleet.clusters["blue"].0;
    let base = fleet.door.service(blue, &fleet.repository, "base").await;
    let template = ServiceTemplate {
        dependencies: vec!["base".into()],
        version: Some("1.5.0".into()),
        ..fleet.template()
    };
    let change = GlobalServiceChange {
        template: Some((Box::new(template), TemplateSecrets::default())),
        spec: GlobalServiceSpecChange::default(),
    };
    app.global_service_update(admin, &by(&global), change).await.unwrap();
    fleet.until_generations(&global, &[2, 2]).await;
    let refused = app.service_delete_cascade(admin, &service_id(&base)).await.unwrap_err().to_string();
    assert!(refused.contains("the service web is managed by a global service"), "{refused}");

    let same = GlobalServiceChange {
        template: Some((Box::new(fleet.template()), TemplateSecrets::default())),
        spec: GlobalServiceSpecChange::default(),
    };
    assert_eq!(app.global_service_update(admin, &by(&global), same).await.unwrap().generation, 3);
    app.global_service_update(admin, &by(&global), version(&fleet, "2.0.0")).await.unwrap();
    fleet.until_generations(&global, &[4, 4]).await;
    assert_eq!(fleet.on(&global, "green").await.version, "2.0.0");
    fleet.door.stop().await;
}

/// A global service on the cluster `blue`, for as long as that is tagged `stage=prod`.
async fn destroyed_where_not_meant(database: TestDatabase) -> (Fleet, GlobalService) {
    let fleet = Fleet::new(database, &["blue"]).await;
    fleet.tag("blue", &[("stage", "prod")]).await;
    let spec = GlobalServiceSpec {
        target: tagged("stage", "prod"),
        cascade: Cascade::Delete,
        ..GlobalServiceSpec::default()
    };
    let global = fleet.make(spec).await;
    fleet.until_on(&global, &["blue"]).await;
    (fleet, global)
}

async fn a_deletion_that_nobody_asked_for_waits_and_is_taken_back(database: TestDatabase) {
    let (mut fleet, global) = destroyed_where_not_meant(database).await;
    let service = fleet.on(&global, "blue").await;
    let told = async |fleet: &Fleet, wanted: (Intent, bool)| {
        eventually(async || {
            let answer =
                fleet.door.app.agent_poll(&fleet.clusters["blue"].1, &PollAsked::at(None)).await.unwrap();
            let found: Vec<_> = answer.services.iter().map(|spec| (spec.intent, spec.cascaded)).collect();
            if found == [wanted] { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    fleet.tag("blue", &[]).await;
    told(&fleet, (Intent::Destroy, true)).await;
    fleet.tag("blue", &[("stage", "prod")]).await;
    told(&fleet, (Intent::Apply, false)).await;
    fleet.tag("blue", &[]).await;
    told(&fleet, (Intent::Destroy, true)).await;
    // A person's word is approval, and is not taken back.
    fleet.door.app.service_delete(&fleet.door.admin, &service_id(&service)).await.unwrap();
    told(&fleet, (Intent::Destroy, false)).await;
    fleet.tag("blue", &[("stage", "prod")]).await;
    fleet.door.app.global_service_delete(&fleet.door.admin, &by(&global)).await.unwrap();
    told(&fleet, (Intent::Destroy, false)).await;
    fleet.door.stop().await;
}

async fn a_cluster_that_is_meant_again_gets_another_one_when_the_old_one_is_gone(database: TestDatabase) {
    let (mut fleet, global) = destroyed_where_not_meant(database).await;
    let old = fleet.on(&global, "blue").await;
    let until = async |fleet: &Fleet, wanted: (bool, InstanceCounts)| {
        eventually(async || {
            let (app, admin) = (&fleet.door.app, &fleet.door.admin);
            let counts = app.global_services_counts(admin, &[global.id]).await.unwrap();
            let counts = counts.get(&global.id).copied().unwrap_or_default();
            let found = (fleet.get(&global).await.spread, counts);
            if found == wanted { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    fleet.says("blue", ComponentState::Running).await;
    until(&fleet, (true, InstanceCounts { all: 1, healthy: 1, newest: 1, leaving: 0 })).await;
    // Nothing is missing anywhere, though one still has to go.
    fleet.tag("blue", &[]).await;
    until(&fleet, (true, InstanceCounts { all: 1, healthy: 0, newest: 0, leaving: 1 })).await;
    fleet.door.app.service_delete(&fleet.door.admin, &service_id(&old)).await.unwrap();
    // The cluster should have one and has none.
    fleet.tag("blue", &[("stage", "prod")]).await;
    until(&fleet, (false, InstanceCounts { all: 1, healthy: 0, newest: 0, leaving: 1 })).await;
    let agent = &fleet.clusters["blue"].1;
    let told = eventually(async || {
        let answer = fleet.door.app.agent_poll(agent, &PollAsked::at(None)).await.unwrap();
        let mut specs = answer.services.into_iter();
        specs.find(|spec| spec.intent == Intent::Destroy && !spec.cascaded).ok_or("nothing goes")
    })
    .await;
    let gone = reported(&told, |said| said.destroyed = true);
    let id = fleet.reports + 1;
    let report = AgentReport { id, services: vec![gone], facts: None };
    fleet.door.app.agent_report(agent, report).await.unwrap();
    until(&fleet, (true, InstanceCounts { all: 1, healthy: 0, newest: 0, leaving: 0 })).await;
    assert_ne!(fleet.on(&global, "blue").await.id, old.id);
    fleet.door.stop().await;
}

async fn copies_follow_their_service(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    let original = {
        let mut new = crate::door::new_service(&fleet.repository, "web");
        new.configuration = Configuration::from([("k".to_owned(), "v1".to_owned())]);
        let cluster = plural_app::cluster::ClusterSelector::Id(fleet.id("blue"));
        fleet.door.app.service_create(&fleet.door.admin, &cluster, new).await.unwrap()
    };
    let global =
        fleet.make_from(GlobalServiceSpec::default(), GlobalServiceSource::Service(original.id)).await;
    // The original is no instance; its cluster needs no other.
    fleet.until_on(&global, &["green"]).await;
    let copy = fleet.on(&global, "green").await;
    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    assert_eq!(app.service_configuration(admin, copy.id).await.unwrap().values["k"], "v1");
    let change = ServiceChange {
        configuration: Some(ConfigurationEdit::Replace(Configuration::from([(
            "k".to_owned(),
            "v2".to_owned(),
        )]))),
        ..ServiceChange::default()
    };
    app.service_update(admin, &service_id(&original), change).await.unwrap();
    // Nobody tells the job of it: another cluster does.
    fleet.tag("green", &[("a", "b")]).await;
    eventually(async || {
        let now = app.service_configuration(admin, copy.id).await.unwrap();
        if now.values["k"] == "v2" { Ok(()) } else { Err(format!("{:?}", fleet.get(&global).await)) }
    })
    .await;
    assert_eq!(fleet.get(&global).await.generation, 2);
    fleet.door.stop().await;
}

async fn a_service_of_the_same_name_is_left_alone_or_taken_over(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    let own = fleet.door.service(&fleet.clusters["blue"].0, &fleet.repository, "web").await;
    let global = fleet.make(GlobalServiceSpec::default()).await;
    fleet.until_on(&global, &["green"]).await;
    let error = eventually(async || fleet.get(&global).await.error.ok_or("no error")).await;
    assert!(error.contains("cluster blue") && error.contains("reparent"), "{error}");
    // What an administrator marked as the agent's upgrade is nobody's to take over.
    let admin = fleet.door.admin.clone();
    fleet.door.app.service_agent_upgrade(&admin, &service_id(&own), true).await.unwrap();
    let spec = GlobalServiceSpec { reparent: true, ..GlobalServiceSpec::default() };
    let change = GlobalServiceChange { spec: spec.into(), template: None };
    fleet.door.app.global_service_update(&fleet.door.admin, &by(&global), change).await.unwrap();
    eventually(async || {
        let error = fleet.get(&global).await.error.unwrap_or_default();
        if error.contains("remove the mark") { Ok(()) } else { Err(error) }
    })
    .await;
    fleet.door.app.service_agent_upgrade(&admin, &service_id(&own), false).await.unwrap();
    let found = fleet.until_on(&global, &["blue", "green"]).await;
    assert_eq!(found[&fleet.id("blue")].service_id, own.id);
    eventually(async || {
        let error = fleet.get(&global).await.error;
        error.map_or(Ok(()), Err)
    })
    .await;
    fleet.door.stop().await;
}

async fn what_was_wrong_with_a_cluster_is_tried_again_by_itself(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue"]).await;
    let own = fleet.door.service(&fleet.clusters["blue"].0, &fleet.repository, "web").await;
    let global = fleet.make(GlobalServiceSpec::default()).await;
    eventually(async || fleet.get(&global).await.error.ok_or("no error")).await;
    // Nobody tells the job that it went.
    fleet.door.app.service_detach(&fleet.door.admin, &service_id(&own)).await.unwrap();
    fleet.until_on(&global, &["blue"]).await;
    eventually(async || fleet.get(&global).await.error.map_or(Ok(()), Err)).await;
    fleet.door.stop().await;
}

async fn each_cluster_can_get_its_own(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    let secrets = TemplateSecrets {
        configuration: Configuration::from([(
            "host".to_owned(),
            "{{ cluster.handle }}.example.com".to_owned(),
        )]),
        ..TemplateSecrets::default()
    };
    let source = GlobalServiceSource::Template(Box::new(fleet.template()), secrets);
    let spec = GlobalServiceSpec { context: Some(serde_json::Map::new()), ..GlobalServiceSpec::default() };
    let global = fleet.make_from(spec, source).await;
    let found = fleet.until_on(&global, &["blue", "green"]).await;
    for name in ["blue", "green"] {
        let id = found[&fleet.id(name)].service_id;
        let configuration = fleet.door.app.service_configuration(&fleet.door.admin, id).await.unwrap();
        assert_eq!(configuration.values["host"], format!("{name}.example.com"));
    }
    fleet.door.stop().await;
}

async fn instances_depend_on_their_own_clusters_services_and_read_contexts(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue", "green"]).await;
    fleet.tag("blue", &[("stage", "prod")]).await;
    fleet.tag("green", &[("stage", "prod")]).await;
    let db = fleet.door.service(&fleet.clusters["blue"].0, &fleet.repository, "db").await;
    let document = serde_json::json!({"region": "eu"});
    let network = ServiceContextChange {
        configuration: document.as_object().cloned(),
        ..ServiceContextChange::default()
    };
    let (app, admin) = (Arc::clone(&fleet.door.app), fleet.door.admin.clone());
    let network = app.context_save(&admin, "network".parse().unwrap(), network).await.unwrap();
    let template = |dependencies: &[&str]| ServiceTemplate {
        dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        contexts: vec![network.id],
        ..fleet.template()
    };
    let spec = GlobalServiceSpec {
        target: tagged("stage", "prod"),
        cascade: Cascade::Delete,
        ..GlobalServiceSpec::default()
    };
    let source = |template| GlobalServiceSource::Template(Box::new(template), TemplateSecrets::default());
    let global = fleet.make_from(spec, source(template(&["db"]))).await;
    let found = fleet.until_on(&global, &["blue", "green"]).await;
    let ids = ["blue", "green"].map(|name| found[&fleet.id(name)].service_id);
    let on = app.services_dependencies(&admin, &ids).await.unwrap();
    let on = ids.map(|id| (on[&id][0].on.cluster.clone(), on[&id][0].service_id));
    assert_eq!(on, [("blue".to_owned(), Some(db.id)), ("green".to_owned(), None)]);
    let used = app.services_contexts(&admin, &ids).await.unwrap();
    assert!(ids.iter().all(|id| used[id][0].id == network.id));
    let waits = fleet.service(ids[0]).await.pin.unwrap();
    assert_eq!(waits.until, plural_core::service::PinUntil::Dependencies);
    assert!(app.context_delete(&admin, network.id).await.is_err(), "it is used");

    // What a template does not say any more, its instances do not have any more.
    let change = GlobalServiceChange {
        spec: GlobalServiceSpecChange::default(),
        template: Some((Box::new(fleet.template()), TemplateSecrets::default())),
    };
    app.global_service_update(&admin, &by(&global), change).await.unwrap();
    fleet.until_generations(&global, &[2, 2]).await;
    assert!(app.services_dependencies(&admin, &ids).await.unwrap().is_empty());
    assert!(app.services_contexts(&admin, &ids).await.unwrap().values().all(Vec::is_empty));
    assert!(fleet.service(ids[0]).await.pin.is_none(), "nothing to wait for");

    // One on which another service depends stays, and its owner is told.
    let front = plural_core::service::NewService {
        links: plural_core::dependency::ServiceLinks {
            dependencies: Some(vec!["web".parse().unwrap()]),
            ..plural_core::dependency::ServiceLinks::default()
        },
        ..crate::door::new_service(&fleet.repository, "front")
    };
    let blue = plural_app::cluster::ClusterSelector::Id(fleet.id("blue"));
    let front = app.service_create(&admin, &blue, front).await.unwrap();
    fleet.tag("blue", &[]).await;
    let error = eventually(async || fleet.get(&global).await.error.ok_or("no error")).await;
    assert!(error.contains("the service front depends on it"), "{error}");
    assert!(fleet.service(ids[0]).await.deleted_at.is_none());
    // When that goes, it goes as well, and after it.
    app.service_delete(&admin, &service_id(&front)).await.unwrap();
    fleet.tag("blue", &[("a", "b")]).await;
    let leaving = eventually(async || {
        let service = fleet.service(ids[0]).await;
        if service.deleted_at.is_some() { Ok(service) } else { Err(format!("{service:?}")) }
    })
    .await;
    assert!(leaving.cascaded && leaving.outlives);
    fleet.door.stop().await;
}

async fn a_change_moves_cohort_by_cohort_and_survives_a_kill(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["a", "b", "c", "d"]).await;
    fleet.tag("c", &[("tier", "canary")]).await;
    let global = fleet.make(with(canary())).await;
    // The first time, too: the canary, then the others, two at a time.
    fleet.until_generations(&global, &[0, 0, 1, 0]).await;
    fleet.says("c", ComponentState::Running).await;
    fleet.until_generations(&global, &[1, 1, 1, 0]).await;
    fleet.says("a", ComponentState::Running).await;
    fleet.until_generations(&global, &[1, 1, 1, 1]).await;
    for name in ["b", "d"] {
        fleet.says(name, ComponentState::Running).await;
    }
    fleet.until_state(&global, RolloutState::Complete).await;

    let change = version(&fleet, "2.0.0");
    fleet.door.app.global_service_update(&fleet.door.admin, &by(&global), change).await.unwrap();
    fleet.until_generations(&global, &[1, 1, 2, 1]).await;
    fleet.kill().await;
    fleet.says("c", ComponentState::Running).await;
    fleet.until_generations(&global, &[2, 2, 2, 1]).await;
    fleet.kill().await;
    for name in ["a", "b"] {
        fleet.says(name, ComponentState::Running).await;
    }
    fleet.until_generations(&global, &[2, 2, 2, 2]).await;
    fleet.says("d", ComponentState::Running).await;
    fleet.until_state(&global, RolloutState::Complete).await;
    fleet.door.stop().await;
}

async fn a_failure_halts_and_undo_brings_everybody_back(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["a", "b"]).await;
    fleet.tag("a", &[("tier", "canary")]).await;
    let global = fleet.make(with(canary())).await;
    fleet.until_generations(&global, &[1, 0]).await;
    fleet.says("a", ComponentState::Running).await;
    fleet.until_generations(&global, &[1, 1]).await;
    fleet.says("b", ComponentState::Running).await;
    fleet.until_state(&global, RolloutState::Complete).await;

    let change = version(&fleet, "2.0.0");
    fleet.door.app.global_service_update(&fleet.door.admin, &by(&global), change).await.unwrap();
    fleet.until_generations(&global, &[2, 1]).await;
    fleet.says("a", ComponentState::Failed).await;
    let halted = fleet.until_state(&global, RolloutState::Halted).await;
    let message = halted.rollout.unwrap().message.unwrap();
    assert_eq!(message, "1 cluster is not healthy with the change");
    assert_eq!(fleet.generations(&global).await, [2, 1], "nobody else got it");

    let (app, admin) = (&fleet.door.app, &fleet.door.admin);
    app.global_service_steer(admin, &by(&global), RolloutAction::Undo).await.unwrap();
    fleet.until_generations(&global, &[1, 1]).await;
    let undone = fleet.until_state(&global, RolloutState::Undone).await;
    assert_eq!(undone.rollout.unwrap().message.as_deref(), Some("undone by root@example.com"));
    assert_eq!(fleet.on(&global, "a").await.version, fleet.on(&global, "b").await.version);
    let again = app.global_service_steer(admin, &by(&global), RolloutAction::Undo).await;
    assert!(matches!(again, Err(Error::Conflict { .. })));
    fleet.door.stop().await;
}

async fn a_new_commit_is_a_rollout_only_where_it_touches(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["a", "b"]).await;
    fleet.tag("a", &[("tier", "canary")]).await;
    let global = fleet.make(with(canary())).await;
    fleet.until_generations(&global, &[1, 0]).await;
    fleet.says("a", ComponentState::Running).await;
    fleet.until_generations(&global, &[1, 1]).await;
    fleet.says("b", ComponentState::Running).await;
    fleet.until_state(&global, RolloutState::Complete).await;
    assert_eq!(fleet.on(&global, "a").await.git.unwrap().reference, "c1", "pinned");

    let (repository, url) = (fleet.repository.id, URL);
    fleet.door.git.commit(url, "c2", &[("other", "two")]);
    fleet.door.app.repository_kick(&fleet.door.admin, repository).await.unwrap();
    fleet.door.git.commit(url, "c3", &[("web", "three")]);
    fleet.door.app.repository_kick(&fleet.door.admin, repository).await.unwrap();
    fleet.until_generations(&global, &[2, 1]).await;
    assert_eq!(fleet.on(&global, "a").await.git.unwrap().reference, "c3");
    fleet.says("a", ComponentState::Running).await;
    fleet.until_generations(&global, &[2, 2]).await;
    assert_eq!(fleet.get(&global).await.generation, 2, "c2 touched nothing");
    fleet.door.stop().await;
}

async fn a_project_decides_who_may(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["blue"]).await;
    let user = fleet.door.user("ada").await;
    let project = fleet.door.project("team").await;
    let change = plural_core::policy::BindingsChange {
        write: Some(vec![crate::door::subject(&user)]),
        ..plural_core::policy::BindingsChange::default()
    };
    let target = project.id;
    fleet.door.app.binding_replace(&fleet.door.admin, target, change).await.unwrap();
    let ada = fleet.door.as_user(&user).await;
    let app = &fleet.door.app;
    let repository = plural_core::repository::NewRepository {
        url: "https://example.com/team/own".parse().unwrap(),
        project_id: Some(project.id),
        web: plural_core::web_address::WebAddress::default(),
    };
    let own = app
        .repository_create(&ada, repository, plural_app::repository::NewCredentials::default())
        .await
        .unwrap();
    let new = |project_id, repository_id| NewGlobalService {
        name: "team-web".parse().unwrap(),
        project_id,
        spec: GlobalServiceSpec {
            target: ClusterTarget { project_id, ..ClusterTarget::default() },
            ..GlobalServiceSpec::default()
        },
        source: GlobalServiceSource::Template(
            Box::new(ServiceTemplate { repository_id: Some(repository_id), ..fleet.template() }),
            TemplateSecrets::default(),
        ),
    };
    // Everywhere is for administrators; a repository that she may not read is not there.
    let everywhere = app.global_service_create(&ada, new(None, own.id)).await;
    assert!(matches!(everywhere, Err(Error::Forbidden { .. })), "{everywhere:?}");
    let foreign = app.global_service_create(&ada, new(Some(project.id), fleet.repository.id)).await;
    assert!(matches!(foreign, Err(Error::NotFound { .. })), "{foreign:?}");
    let global = app.global_service_create(&ada, new(Some(project.id), own.id)).await.unwrap();
    app.get::<GlobalService>(&ada, &by(&global)).await.unwrap();
    let stranger = fleet.door.user("eve").await;
    let eve = fleet.door.as_user(&stranger).await;
    let hidden = app.get::<GlobalService>(&eve, &by(&global)).await;
    assert!(matches!(hidden, Err(Error::NotFound { .. })), "{hidden:?}");
    // Only clusters of the project are meant, and there is none.
    assert!(fleet.instances(&global).await.is_empty());
    fleet.door.stop().await;
}
