//! Services that wait for each other, come in their order and go in the reverse one.

use std::collections::HashMap;

use plural_app::agent::{AgentHandle, AgentReport};
use plural_app::agent_poll::{PollAsked, ServiceSpec};
use plural_app::cluster::CreatedCluster;
use plural_core::component::ComponentState;
use plural_core::dependency::{DependencyRef, ServiceLinks};
use plural_core::policy::BindingsChange;
use plural_core::repository::Repository;
use plural_core::service::{Intent, PinUntil, Service, ServiceChange};
use plural_core::status::ServiceStatus;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::agent::{component, reported};
use crate::door::{Door, by_id, eventually, new_service, service_id, subject};
use crate::git::digest;

each_database!(
    a_service_waits_until_what_it_depends_on_is_healthy,
    what_runs_stays_when_what_it_depends_on_fails,
    one_commit_moves_both_in_their_order,
    a_service_on_another_cluster_is_waited_for,
    a_cycle_is_refused_and_named,
    two_edits_at_once_cannot_close_a_cycle,
    what_others_depend_on_goes_after_them,
    whoever_depends_on_something_must_be_allowed_to_see_it,
    who_changes_while_waiting_changes_what_waits,
    nobody_is_forgotten_when_the_console_dies,
);

const URL: &str = "https://example.com/deps";

/// A cluster and the agent that speaks for it.
struct Site {
    made: CreatedCluster,
    agent: AgentHandle,
    reports: std::sync::atomic::AtomicU64,
}

impl Site {
    async fn new(door: &Door, name: &str) -> Self {
        let made = door.cluster(name).await;
        let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
        Self { made, agent, reports: std::sync::atomic::AtomicU64::new(1) }
    }

    async fn specs(&self, door: &Door) -> HashMap<String, ServiceSpec> {
        let answer = door.app.agent_poll(&self.agent, &PollAsked::at(None)).await.unwrap();
        answer.services.into_iter().map(|spec| (spec.name.to_string(), spec)).collect()
    }

    /// What is to become of a service, once the agent hears of it: it is told of what was written a moment later.
    async fn spec(&self, door: &Door, name: &str) -> ServiceSpec {
        eventually(async || self.specs(door).await.remove(name)).await
    }

    /// Says how a service is that was told of.
    async fn report(&self, door: &Door, spec: &ServiceSpec, state: ComponentState) {
        let said = reported(spec, |said| said.components = Some(vec![component("a", state)]));
        let id = self.reports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let report = AgentReport { id, services: vec![said], facts: None };
        door.app.agent_report(&self.agent, report).await.unwrap();
    }

    /// Waits until the agent is told of `content`, then says that it runs.
    async fn runs(&self, door: &Door, name: &str, content: &str) {
        let spec = self.is_told(door, name, content).await;
        self.report(door, &spec, ComponentState::Running).await;
    }

    async fn is_told(&self, door: &Door, name: &str, content: &str) -> ServiceSpec {
        let wanted = digest(content);
        eventually(async || match self.specs(door).await.remove(name) {
            Some(spec) if spec.artifact_digest.as_deref() == Some(wanted.as_str()) => Ok(spec),
            other => Err(format!("{name}: {other:?}")),
        })
        .await
    }

    async fn destroyed(&self, door: &Door, name: &str) {
        let spec = eventually(async || {
            self.specs(door).await.remove(name).filter(|spec| spec.intent == Intent::Destroy)
        })
        .await;
        let said = reported(&spec, |said| said.destroyed = true);
        let id = self.reports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let report = AgentReport { id, services: vec![said], facts: None };
        door.app.agent_report(&self.agent, report).await.unwrap();
    }
}

fn links(on: &[&str]) -> ServiceLinks {
    let on = on.iter().map(|name| name.parse::<DependencyRef>().unwrap()).collect();
    ServiceLinks { dependencies: Some(on), ..ServiceLinks::default() }
}

async fn made(door: &Door, site: &Site, repository: &Repository, name: &str, on: &[&str]) -> Service {
    let mut new = new_service(repository, name);
    new.links = links(on);
    door.app.service_create(&door.admin, &by_id(&site.made.cluster), new).await.unwrap()
}

async fn change(door: &Door, service: &Service, on: &[&str]) -> plural_core::Result<Service> {
    let change = ServiceChange { links: links(on), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(service), change).await
}

async fn now(door: &Door, service: &Service) -> Service {
    door.app.get::<Service>(&door.admin, &service_id(service)).await.unwrap()
}

async fn note(door: &Door, service: &Service) -> String {
    let notes = door.app.service_errors(&door.admin, service.id).await.unwrap();
    notes.iter().filter(|note| note.source == "dependencies").map(|note| note.message.clone()).collect()
}

/// Commits and waits until each service has a revision of it.
async fn commit(door: &Door, services: &[&Service], sha: &str, files: &[(&str, &str)]) {
    door.git.commit(URL, sha, files);
    for service in services {
        door.app.service_kick(&door.admin, &service_id(service)).await.unwrap();
    }
    for service in services {
        eventually(async || {
            let page =
                door.app.service_revisions(&door.admin, service.id, &PageArgs::default()).await.unwrap();
            page.edges.iter().any(|edge| edge.node.sha.as_deref() == Some(sha)).then_some(())
        })
        .await;
    }
}

async fn a_service_waits_until_what_it_depends_on_is_healthy(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let blue = Site::new(&door, "blue").await;
    let repository = door.repository(URL).await;
    // It may come before what it depends on.
    let web = made(&door, &blue, &repository, "web", &["db"]).await;
    assert_eq!(web.pin.as_ref().unwrap().until, PinUntil::Dependencies);
    commit(&door, &[&web], "c1", &[("web", "w1"), ("db", "d1")]).await;
    assert!(
        note(&door, &web).await.contains("blue/db (there is no such service)"),
        "{}",
        note(&door, &web).await
    );
    assert_eq!(blue.spec(&door, "web").await.artifact_digest, None);

    let db = made(&door, &blue, &repository, "db", &[]).await;
    let spec = blue.is_told(&door, "db", "d1").await;
    blue.report(&door, &spec, ComponentState::Pending).await;
    assert_eq!(blue.spec(&door, "web").await.artifact_digest, None);
    let words = note(&door, &web).await;
    assert!(
        words.contains("blue/db (it is STALE (0 / 1") && words.contains("nothing is applied yet"),
        "{words}"
    );
    let found = door.app.services_dependencies(&door.admin, &[web.id]).await.unwrap();
    assert_eq!((found[&web.id].len(), found[&web.id][0].service_id), (1, Some(db.id)));
    let found = door.app.services_dependents(&door.admin, &[db.id]).await.unwrap();
    assert_eq!(found[&db.id][0].id, web.id);

    // Health lets it go, in the same transaction.
    blue.report(&door, &spec, ComponentState::Running).await;
    let free = now(&door, &web).await;
    assert!(free.pin.is_none() && free.artifact_digest.as_deref() == Some(digest("w1").as_str()), "{free:?}");
    blue.runs(&door, "web", "w1").await;
    assert_eq!(now(&door, &web).await.status, ServiceStatus::Healthy);
    assert_eq!(note(&door, &web).await, "");
    let events = door.app.service_events(&door.admin, web.id, &PageArgs::default()).await.unwrap();
    assert!(events.edges.iter().any(|edge| edge.node.entry.action == "service.dependencies.healthy"));
    door.stop().await;
}

async fn what_runs_stays_when_what_it_depends_on_fails(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let blue = Site::new(&door, "blue").await;
    let repository = door.repository(URL).await;
    door.git.commit(URL, "c1", &[("web", "w1"), ("db", "d1")]);
    let db = made(&door, &blue, &repository, "db", &[]).await;
    let web = made(&door, &blue, &repository, "web", &["db"]).await;
    blue.runs(&door, "db", "d1").await;
    blue.runs(&door, "web", "w1").await;

    let spec = blue.specs(&door).await.remove("db").unwrap();
    blue.report(&door, &spec, ComponentState::Failed).await;
    assert_eq!(now(&door, &db).await.status, ServiceStatus::Failed);
    assert_eq!(now(&door, &web).await.status, ServiceStatus::Healthy);
    commit(&door, &[&web], "c2", &[("web", "w2"), ("db", "d1")]).await;
    let held = now(&door, &web).await;
    assert_eq!(held.artifact_digest.as_deref(), Some(digest("w1").as_str()));
    assert!(note(&door, &web).await.contains("the current revision keeps running"));
    let since = held.pin.as_ref().unwrap().at;
    // A newer one waits in its place, and it has waited since the first.
    commit(&door, &[&web], "c3", &[("web", "w3"), ("db", "d1")]).await;
    assert_eq!(now(&door, &web).await.pin.unwrap().at, since);
    blue.report(&door, &spec, ComponentState::Running).await;
    blue.is_told(&door, "web", "w3").await;
    // A person may let a revision through all the same.
    blue.report(&door, &spec, ComponentState::Failed).await;
    commit(&door, &[&web], "c4", &[("web", "w4"), ("db", "d1")]).await;
    door.app.service_release(&door.admin, &service_id(&web)).await.unwrap();
    blue.is_told(&door, "web", "w4").await;
    door.stop().await;
}

async fn one_commit_moves_both_in_their_order(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let blue = Site::new(&door, "blue").await;
    let repository = door.repository(URL).await;
    door.git.commit(URL, "c1", &[("web", "w1"), ("api", "a1"), ("db", "d1")]);
    // In the wrong order, so that ids do not help.
    let web = made(&door, &blue, &repository, "web", &["api"]).await;
    let api = made(&door, &blue, &repository, "api", &["db"]).await;
    let db = made(&door, &blue, &repository, "db", &[]).await;
    for (name, content) in [("db", "d1"), ("api", "a1"), ("web", "w1")] {
        blue.runs(&door, name, content).await;
    }
    commit(&door, &[&web, &api, &db], "c2", &[("web", "w2"), ("api", "a2"), ("db", "d2")]).await;
    let specs = blue.specs(&door).await;
    let told = |name: &str| specs[name].artifact_digest.clone().unwrap();
    assert_eq!((told("web"), told("api"), told("db")), (digest("w1"), digest("a1"), digest("d2")));
    assert!(
        note(&door, &web).await.contains("it waits for its own dependencies"),
        "{}",
        note(&door, &web).await
    );
    blue.runs(&door, "db", "d2").await;
    let spec = blue.is_told(&door, "api", "a2").await;
    assert_eq!(now(&door, &web).await.artifact_digest.unwrap(), digest("w1"));
    blue.report(&door, &spec, ComponentState::Running).await;
    blue.runs(&door, "web", "w2").await;
    assert_eq!(now(&door, &web).await.status, ServiceStatus::Healthy);
    door.stop().await;
}

async fn a_service_on_another_cluster_is_waited_for(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, green) = (Site::new(&door, "blue").await, Site::new(&door, "green").await);
    let repository = door.repository(URL).await;
    door.git.commit(URL, "c1", &[("web", "w1"), ("db", "d1")]);
    made(&door, &green, &repository, "db", &[]).await;
    let web = made(&door, &blue, &repository, "web", &["green/db"]).await;
    assert!(note(&door, &web).await.contains("green/db (it is STALE"));
    green.runs(&door, "db", "d1").await;
    blue.runs(&door, "web", "w1").await;
    // The cluster that others depend on does not go before them.
    let refused = door.app.cluster_delete(&door.admin, &by_id(&green.made.cluster)).await;
    assert!(
        matches!(&refused, Err(Error::Conflict { reason, .. }) if reason.contains("blue/web")),
        "{refused:?}"
    );
    let unknown = change(&door, &web, &["purple/db"]).await;
    assert!(matches!(unknown, Err(Error::Invalid { .. })), "{unknown:?}");
    change(&door, &web, &[]).await.unwrap();
    door.app.cluster_delete(&door.admin, &by_id(&green.made.cluster)).await.unwrap();
    door.stop().await;
}

async fn a_cycle_is_refused_and_named(database: TestDatabase) {
    let door = Door::new(database).await;
    let (blue, green) = (Site::new(&door, "blue").await, Site::new(&door, "green").await);
    let repository = door.repository(URL).await;
    let a = made(&door, &blue, &repository, "a", &["green/b"]).await;
    let itself = change(&door, &a, &["a"]).await.unwrap_err().to_string();
    assert!(itself.contains("blue/a -> blue/a"), "{itself}");
    // The one that closes the cycle is only now made.
    let mut new = new_service(&repository, "b");
    new.links = links(&["blue/a"]);
    let refused = door.app.service_create(&door.admin, &by_id(&green.made.cluster), new).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("green/b -> blue/a -> green/b"), "{words}");
    let b = made(&door, &green, &repository, "b", &["c"]).await;
    let c = made(&door, &green, &repository, "c", &[]).await;
    let words = change(&door, &c, &["b"]).await.unwrap_err().to_string();
    assert!(words.contains("green/c -> green/b -> green/c"), "{words}");
    assert!(change(&door, &c, &["blue/a"]).await.is_err());
    change(&door, &b, &[]).await.unwrap();
    change(&door, &c, &["blue/a"]).await.unwrap();
}

async fn two_edits_at_once_cannot_close_a_cycle(database: TestDatabase) {
    let door = Door::new(database).await;
    let blue = Site::new(&door, "blue").await;
    let repository = door.repository(URL).await;
    let mut services = Vec::new();
    for name in ["a", "b", "c", "d"] {
        services.push(made(&door, &blue, &repository, name, &[]).await);
    }
    for _ in 0..5 {
        for service in &services {
            change(&door, service, &[]).await.unwrap();
        }
        // Each alone is fine; all four are a circle.
        let names = ["b", "c", "d", "a"];
        let edits = services.iter().zip(names).map(|(service, on)| {
            let door = &door;
            async move { change(door, service, &[on]).await }
        });
        let outcomes = futures::future::join_all(edits).await;
        let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(refused, 1, "{outcomes:?}");
    }
}

async fn what_others_depend_on_goes_after_them(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, green) = (Site::new(&door, "blue").await, Site::new(&door, "green").await);
    let repository = door.repository(URL).await;
    door.git.commit(URL, "c1", &[("web", "w1"), ("api", "a1"), ("db", "d1")]);
    let db = made(&door, &blue, &repository, "db", &[]).await;
    let api = made(&door, &blue, &repository, "api", &["db"]).await;
    let web = made(&door, &green, &repository, "web", &["blue/api"]).await;
    let words = door.app.service_delete(&door.admin, &service_id(&db)).await.unwrap_err().to_string();
    assert!(words.contains("blue/api, green/web"), "{words}");
    assert!(door.app.service_detach(&door.admin, &service_id(&db)).await.is_err());
    let told = eventually(async || blue.specs(&door).await.get("db").map(|spec| spec.intent)).await;
    assert_eq!(told, Intent::Apply);

    let protect = ServiceChange { protect: Some(true), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&web), protect).await.unwrap();
    assert!(door.app.service_delete_cascade(&door.admin, &service_id(&db)).await.is_err());
    let free = ServiceChange { protect: Some(false), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&web), free).await.unwrap();

    let plan = door.app.service_deletion(&door.admin, &service_id(&db), true).await.unwrap();
    let names: Vec<&str> = plan.services.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((names.as_slice(), plan.hidden, plan.omitted), (["web", "api", "db"].as_slice(), 0, 0));
    let alone = door.app.service_deletion(&door.admin, &service_id(&db), false).await.unwrap();
    assert_eq!(alone.services.len(), 1);

    let gone = door.app.service_delete_cascade(&door.admin, &service_id(&db)).await.unwrap();
    assert!(gone.deleted_at.is_some() && gone.outlives);
    assert!(note(&door, &db).await.contains("is deleted when these are gone, which depend on it: blue/api"));
    // Nobody may begin to depend on what goes.
    let late = new_service(&repository, "late");
    let late = plural_core::service::NewService { links: links(&["db"]), ..late };
    assert!(door.app.service_create(&door.admin, &by_id(&blue.made.cluster), late).await.is_err());
    let intent = async |site: &Site, name: &str| site.spec(&door, name).await.intent;
    eventually(async || (intent(&green, "web").await == Intent::Destroy).then_some(())).await;
    assert_eq!((intent(&blue, "api").await, intent(&blue, "db").await), (Intent::Apply, Intent::Apply));
    green.destroyed(&door, "web").await;
    eventually(async || (intent(&blue, "api").await == Intent::Destroy).then_some(())).await;
    assert_eq!(intent(&blue, "db").await, Intent::Apply);
    blue.destroyed(&door, "api").await;
    blue.destroyed(&door, "db").await;
    for service in [&db, &api, &web] {
        let left = door.app.get::<Service>(&door.admin, &service_id(service)).await;
        assert!(matches!(left, Err(Error::NotFound { .. })), "{left:?}");
    }

    // A cluster drains in the same order.
    let db = made(&door, &blue, &repository, "db", &[]).await;
    made(&door, &blue, &repository, "api", &["db"]).await;
    door.app.cluster_delete(&door.admin, &by_id(&blue.made.cluster)).await.unwrap();
    assert!(now(&door, &db).await.outlives);
    blue.destroyed(&door, "api").await;
    blue.destroyed(&door, "db").await;
    door.stop().await;
}

async fn whoever_depends_on_something_must_be_allowed_to_see_it(database: TestDatabase) {
    let door = Door::new(database).await;
    let (blue, green) = (Site::new(&door, "blue").await, Site::new(&door, "green").await);
    let repository = door.repository(URL).await;
    let db = made(&door, &green, &repository, "db", &[]).await;
    let web = made(&door, &blue, &repository, "web", &[]).await;
    let ada = door.user("ada").await;
    let only = |subject| BindingsChange { write: Some(vec![subject]), ..BindingsChange::default() };
    let on = blue.made.cluster.id;
    door.app.binding_replace(&door.admin, on, only(subject(&ada))).await.unwrap();
    let as_ada = door.as_user(&ada).await;
    let edit = async || {
        let change = ServiceChange { links: links(&["green/db"]), ..ServiceChange::default() };
        door.app.service_update(&as_ada, &service_id(&web), change).await
    };
    assert!(matches!(edit().await, Err(Error::Invalid { .. })));
    let readable = BindingsChange { read: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, db.id, readable).await.unwrap();
    edit().await.unwrap();
    // Of another project only what she may change: nobody deletes it then without her.
    let team = door.project("team").await;
    let red = plural_core::cluster::NewCluster {
        project_id: Some(team.id),
        ..plural_core::cluster::NewCluster::named("red".parse().unwrap())
    };
    let red = door.app.cluster_create(&door.admin, red).await.unwrap().cluster;
    let queue = door.service(&red, &repository, "queue").await;
    let may = async |role: fn(plural_core::policy::BindingSubject) -> BindingsChange| {
        let on = queue.id;
        door.app.binding_replace(&door.admin, on, role(subject(&ada))).await.unwrap();
        let change = ServiceChange { links: links(&["green/db", "red/queue"]), ..ServiceChange::default() };
        door.app.service_update(&as_ada, &service_id(&web), change).await
    };
    let refused =
        may(|ada| BindingsChange { read: Some(vec![ada]), ..BindingsChange::default() }).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("depending on red/queue (another project)"), "{refused}");
    may(only).await.unwrap();

    // Those who depend on it are named to whoever may see them, and nobody deletes them without being asked.
    let eve = door.user("eve").await;
    door.app.binding_replace(&door.admin, db.id, only(subject(&eve))).await.unwrap();
    let as_eve = door.as_user(&eve).await;
    let words = door.app.service_delete(&as_eve, &service_id(&db)).await.unwrap_err().to_string();
    assert!(words.contains("1 that you may not see") && !words.contains("web"), "{words}");
    let plan = door.app.service_deletion(&as_eve, &service_id(&db), true).await.unwrap();
    assert_eq!((plan.services.len(), plan.hidden), (1, 1), "{plan:?}");
    let refused = door.app.service_delete_cascade(&as_eve, &service_id(&db)).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert!(door.app.services_dependents(&as_eve, &[db.id]).await.unwrap()[&db.id].is_empty());
}

async fn who_changes_while_waiting_changes_what_waits(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let blue = Site::new(&door, "blue").await;
    let repository = door.repository(URL).await;
    door.git.commit(URL, "c1", &[("web", "w1"), ("db", "d1")]);
    made(&door, &blue, &repository, "db", &[]).await;
    let web = made(&door, &blue, &repository, "web", &["db"]).await;
    blue.runs(&door, "db", "d1").await;
    blue.runs(&door, "web", "w1").await;
    let spec = blue.specs(&door).await.remove("db").unwrap();
    blue.report(&door, &spec, ComponentState::Failed).await;
    commit(&door, &[&web], "c2", &[("web", "w2"), ("db", "d1")]).await;
    // A new configuration joins the commit that waits.
    let configuration = plural_core::service::Configuration::from([("k".to_owned(), "v".to_owned())]);
    let edit = ServiceChange {
        configuration: Some(plural_core::service::ConfigurationEdit::Replace(configuration)),
        ..ServiceChange::default()
    };
    let held = door.app.service_update(&door.admin, &service_id(&web), edit).await.unwrap();
    assert_eq!((held.status, held.artifact_digest.unwrap()), (ServiceStatus::Healthy, digest("w1")));
    // It is what was asked for last, as the other settings are.
    let asked = door.app.service_configuration(&door.admin, web.id).await.unwrap();
    assert_eq!(asked.values["k"], "v");
    let told = blue.specs(&door).await.remove("web").unwrap();
    assert!(told.configuration.values.is_empty() && told.artifact_digest.unwrap() == digest("w1"));
    // Without the dependency it has nothing to wait for.
    let free = change(&door, &web, &[]).await.unwrap();
    assert!(free.pin.is_none() && free.sha.as_deref() == Some("c2"), "{free:?}");
    let told = blue.is_told(&door, "web", "w2").await;
    assert_eq!(told.configuration.values["k"], "v");
    door.stop().await;
}

async fn nobody_is_forgotten_when_the_console_dies(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let blue = Site::new(&door, "blue").await;
    let repository = door.repository(URL).await;
    door.git.commit(URL, "c1", &[("web", "w1"), ("db", "d1")]);
    made(&door, &blue, &repository, "db", &[]).await;
    let web = made(&door, &blue, &repository, "web", &["db"]).await;
    let spec = blue.is_told(&door, "db", "d1").await;
    commit(&door, &[&web], "c1", &[("web", "w1"), ("db", "d1")]).await;
    // The report is stored; then the console dies before it could do anything about it.
    blue.report(&door, &spec, ComponentState::Running).await;
    door.kill().await;
    let again = Door::open_on(
        std::sync::Arc::clone(&door.source),
        &plural_store::DatabaseOptions::new(""),
        std::sync::Arc::clone(&door.git),
    )
    .await;
    let agent = again.app.agent_authenticate(blue.made.deploy_token.expose_secret()).unwrap();
    let told = again.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap().services;
    let told = told.iter().find(|spec| spec.name.as_str() == "web").unwrap();
    assert_eq!(told.artifact_digest.as_deref(), Some(digest("w1").as_str()));
}
