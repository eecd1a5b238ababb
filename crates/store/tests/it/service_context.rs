//! Contexts: who may use them, what templates get, and who is told when they change.

use chrono::DateTime;
use plural_app::global_service::{GlobalServiceSelector, GlobalServiceStore as _};
use plural_app::service_context::{ServiceContextFilter, ServiceContextSelector};
use plural_core::dependency::ServiceLinks;
use plural_core::global_service::{
    GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec, NewGlobalService, ServiceTemplate,
    TemplateSecrets,
};
use plural_core::ids::ServiceContextId;
use plural_core::managed_namespace::{ManagedNamespaceSpec, NewManagedNamespace};
use plural_core::policy::{BindingsChange, Policy};
use plural_core::rollout::Rollout;
use plural_core::service::{Configuration, GitRef, Service, ServiceChange};
use plural_core::service_context::{ServiceContext, ServiceContextChange};
use plural_core::sync::{DriftKind, FieldChange, ReportedDrift, SyncReport};
use plural_core::target::ClusterTarget;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::agent::{deployed, poll_until, report, reported};
use crate::door::{Door, by_id, new_service, service_id, subject};

each_database!(
    a_context_reaches_the_services_that_name_it,
    only_those_use_a_context_who_may,
    the_first_secrets_reach_nobody_who_only_reads_the_context,
    first_secrets_and_a_template_that_begins_to_read_them_never_meet,
    secrets_that_are_taken_away_and_given_again_meet_no_new_reader,
    a_secret_that_was_replaced_is_hidden_in_records,
);

const URL: &str = "https://example.com/contexts";

fn document(value: serde_json::Value) -> ServiceContextChange {
    let serde_json::Value::Object(document) = value else { panic!("{value}") };
    ServiceContextChange { configuration: Some(document), ..ServiceContextChange::default() }
}

async fn save(door: &Door, name: &str, change: ServiceContextChange) -> ServiceContext {
    door.app.context_save(&door.admin, name.parse().unwrap(), change).await.unwrap()
}

fn using(ids: &[ServiceContextId]) -> ServiceChange {
    let links = ServiceLinks { contexts: Some(ids.to_vec()), ..ServiceLinks::default() };
    ServiceChange { links, ..ServiceChange::default() }
}

async fn service(door: &Door) -> (plural_app::agent::AgentHandle, Service) {
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    let new = new_service(&repository, "web");
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    (door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap(), service)
}

async fn a_context_reaches_the_services_that_name_it(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, web) = service(&door).await;
    let secrets = Configuration::from([("password".to_owned(), "hunter2".to_owned())]);
    let change =
        ServiceContextChange { secrets: Some(secrets), ..document(json!({"host": "db", "port": 5432})) };
    let context = save(&door, "database", change).await;
    assert_eq!(
        (context.secrets.as_slice(), context.configuration["host"].as_str()),
        (&["password".to_owned()][..], Some("db"))
    );
    assert!(!format!("{context:?}").contains("hunter2"));
    door.app.service_update(&door.admin, &service_id(&web), using(&[context.id])).await.unwrap();
    let told = poll_until(&door, &agent, None, |answer| {
        answer.services.iter().any(|spec| !spec.contexts.is_empty())
    })
    .await;
    let expected = json!({"database": {"host": "db", "port": 5432, "password": "hunter2"}});
    assert_eq!(serde_json::Value::Object(told.services[0].contexts.clone()), expected);

    // A change reaches it without a commit; what is not given stays.
    save(&door, "database", document(json!({"host": "db2"}))).await;
    let told = poll_until(&door, &agent, Some(&told.cursor), |answer| !answer.services.is_empty()).await;
    let database = &told.services[0].contexts["database"];
    assert_eq!(*database, json!({"host": "db2", "password": "hunter2"}));
    let found = door.app.services_contexts(&door.admin, &[web.id]).await.unwrap();
    assert_eq!(found[&web.id][0].name.as_str(), "database");

    let refused = door.app.context_delete(&door.admin, context.id).await.unwrap_err().to_string();
    assert!(refused.contains("blue/web"), "{refused}");
    door.app.service_update(&door.admin, &service_id(&web), using(&[])).await.unwrap();
    door.app.context_delete(&door.admin, context.id).await.unwrap();
    let gone = door.app.get::<ServiceContext>(&door.admin, &ServiceContextSelector::Id(context.id)).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })));
    let unknown = door.app.service_update(&door.admin, &service_id(&web), using(&[context.id])).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })));
    door.stop().await;
}

async fn only_those_use_a_context_who_may(database: TestDatabase) {
    let door = Door::new(database).await;
    let (_, web) = service(&door).await;
    let shop = door.project("shop").await;
    let plain = ServiceContextChange { project_id: Some(shop.id), ..document(json!({"a": 1})) };
    let plain = save(&door, "plain", plain).await;
    let secrets = Some(Configuration::from([("k".to_owned(), "v".to_owned())]));
    let secret =
        ServiceContextChange { project_id: Some(shop.id), secrets, ..ServiceContextChange::default() };
    let secret = save(&door, "secret", secret).await;

    let ada = door.user("ada").await;
    let write = BindingsChange { write: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, web.id, write.clone()).await.unwrap();
    let as_ada = door.as_user(&ada).await;
    let with = async |id| door.app.service_update(&as_ada, &service_id(&web), using(&[id])).await;
    assert!(matches!(with(plain.id).await, Err(Error::NotFound { .. })));
    let read = BindingsChange { read: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    let on_shop = shop.id;
    door.app.binding_replace(&door.admin, on_shop, read).await.unwrap();
    with(plain.id).await.unwrap();
    // Whoever renders a secret can read it.
    assert!(matches!(with(secret.id).await, Err(Error::Forbidden { .. })));
    let change = document(json!({"a": 2}));
    let refused = door.app.context_save(&as_ada, "plain".parse().unwrap(), change.clone()).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })));
    door.app.binding_replace(&door.admin, on_shop, write).await.unwrap();
    with(secret.id).await.unwrap();
    door.app.context_save(&as_ada, "plain".parse().unwrap(), change).await.unwrap();

    let seen = async |ctx| {
        let filter = ServiceContextFilter::default();
        door.app.list::<ServiceContext>(ctx, &filter, &PageArgs::default()).await.unwrap().edges.len()
    };
    let eve = door.user("eve").await;
    assert_eq!((seen(&as_ada).await, seen(&door.as_user(&eve).await).await), (2, 0));
    let elsewhere = door.default_project().await.id;
    let moved = ServiceContextChange { project_id: Some(elsewhere), ..ServiceContextChange::default() };
    assert!(door.app.context_save(&door.admin, "plain".parse().unwrap(), moved).await.is_err());
    assert!(door.app.project_delete(&door.admin, shop.id).await.is_err(), "it is not empty");
}

async fn the_first_secrets_reach_nobody_who_only_reads_the_context(database: TestDatabase) {
    let door = Door::new(database).await;
    let (_, web) = service(&door).await;
    let shop = door.project("shop").await;
    let change = ServiceContextChange { project_id: Some(shop.id), ..document(json!({"a": 1})) };
    let context = save(&door, "plain", change).await;
    let (ada, eve) = (door.user("ada").await, door.user("eve").await);
    let bind = async |on: Policy, read: &[&plural_core::user::User], write: &[&plural_core::user::User]| {
        let subjects =
            |users: &[&plural_core::user::User]| Some(users.iter().map(|user| subject(user)).collect());
        let change =
            BindingsChange { read: subjects(read), write: subjects(write), ..BindingsChange::default() };
        door.app.binding_replace(&door.admin, on, change).await.unwrap();
    };
    // Eve may read what Ada may write, and write what Ada may not.
    bind(shop.id.into(), &[&eve], &[&ada]).await;
    bind(web.id.into(), &[], &[&eve]).await;
    let (as_ada, as_eve) = (door.as_user(&ada).await, door.as_user(&eve).await);
    door.app.service_update(&as_eve, &service_id(&web), using(&[context.id])).await.unwrap();
    let secrets = || ServiceContextChange {
        secrets: Some(Configuration::from([("k".to_owned(), "v".to_owned())])),
        ..ServiceContextChange::default()
    };
    let give = async |ctx| door.app.context_save(ctx, "plain".parse().unwrap(), secrets()).await;
    let refused = give(&as_ada).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
    assert!(refused.to_string().contains("1 services that read this context"), "{refused}");
    // What is no secret may change.
    door.app.context_save(&as_ada, "plain".parse().unwrap(), document(json!({"a": 2}))).await.unwrap();
    // Whoever may change both could have tied them together by now.
    bind(web.id.into(), &[], &[&eve, &ada]).await;
    assert_eq!(give(&as_ada).await.unwrap().secrets, ["k"]);
    // From then on nobody has to be asked again.
    bind(web.id.into(), &[], &[&eve]).await;
    give(&as_ada).await.unwrap();

    // The same for templates, with and without instances.
    let other = ServiceContextChange { project_id: Some(shop.id), ..document(json!({"a": 1})) };
    let other = save(&door, "other", other).await;
    let new = |name: &str, contexts| NewGlobalService {
        name: name.parse().unwrap(),
        project_id: None,
        spec: GlobalServiceSpec::default(),
        source: GlobalServiceSource::Template(Box::new(template(&web, contexts)), TemplateSecrets::default()),
    };
    door.app.global_service_create(&door.admin, new("everywhere", vec![other.id])).await.unwrap();
    let give = async |ctx, name: &str| door.app.context_save(ctx, name.parse().unwrap(), secrets()).await;
    let refused = give(&as_ada, "other").await.unwrap_err().to_string();
    assert!(refused.contains("1 services that read this context"), "{refused}");
    give(&door.admin, "other").await.unwrap();

    // And of what a rollout may go back to.
    let former = ServiceContextChange { project_id: Some(shop.id), ..document(json!({"a": 1})) };
    let former = save(&door, "former", former).await;
    let global = door.app.global_service_create(&door.admin, new("moving", vec![former.id])).await.unwrap();
    let rollout = Rollout::begin(1, 2, door.admin.now());
    assert!(door.database.global_service_progress(global.id, None, Some(&rollout)).await.unwrap());
    let change = GlobalServiceChange {
        template: Some((Box::new(template(&web, Vec::new())), TemplateSecrets::default())),
        ..GlobalServiceChange::default()
    };
    let selector = GlobalServiceSelector::Id(global.id);
    let changed = door.app.global_service_update(&door.admin, &selector, change).await.unwrap();
    assert_eq!((changed.generation, changed.template.contexts.as_slice()), (2, &[][..]));
    let refused = give(&as_ada, "former").await.unwrap_err().to_string();
    assert!(refused.contains("1 services that read this context"), "{refused}");
    give(&door.admin, "former").await.unwrap();
}

fn template(like: &Service, contexts: Vec<ServiceContextId>) -> ServiceTemplate {
    ServiceTemplate {
        repository_id: like.repository_id,
        git: Some(GitRef::new("main", "web", &[]).unwrap()),
        contexts,
        ..ServiceTemplate::default()
    }
}

async fn first_secrets_and_a_template_that_begins_to_read_them_never_meet(database: TestDatabase) {
    let door = Door::new(database).await;
    let (_, web) = service(&door).await;
    let (shop, team) = (door.project("shop").await, door.project("team").await);
    let (ada, eve) = (door.user("ada").await, door.user("eve").await);
    // Eve may read what Ada may write, and write where Ada may not.
    let on_shop = BindingsChange {
        read: Some(vec![subject(&eve)]),
        write: Some(vec![subject(&ada)]),
        ..BindingsChange::default()
    };
    door.app.binding_replace(&door.admin, shop.id, on_shop).await.unwrap();
    let to_eve = BindingsChange { write: Some(vec![subject(&eve)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, team.id, to_eve).await.unwrap();
    let read = BindingsChange { read: Some(vec![subject(&eve)]), ..BindingsChange::default() };
    let home = door.default_project().await.id;
    door.app.binding_replace(&door.admin, home, read).await.unwrap();
    let (as_ada, as_eve) = (door.as_user(&ada).await, door.as_user(&eve).await);
    let nowhere = ClusterTarget {
        tags: [("nowhere".to_owned(), "at all".to_owned())].into(),
        ..ClusterTarget::default()
    };
    for round in 0..12 {
        let name = format!("c-{round}");
        let plain = ServiceContextChange { project_id: Some(shop.id), ..document(json!({"a": 1})) };
        let context = save(&door, &name, plain).await;
        let template = Box::new(template(&web, vec![context.id]));
        let begin = async || {
            if round % 2 == 0 {
                let new = NewGlobalService {
                    name: format!("g-{round}").parse().unwrap(),
                    project_id: Some(team.id),
                    spec: GlobalServiceSpec { target: nowhere.clone(), ..GlobalServiceSpec::default() },
                    source: GlobalServiceSource::Template(template.clone(), TemplateSecrets::default()),
                };
                return door.app.global_service_create(&as_eve, new).await.map(drop);
            }
            let new = NewManagedNamespace {
                name: format!("n-{round}").parse().unwrap(),
                namespace: None,
                description: None,
                project_id: Some(team.id),
                spec: ManagedNamespaceSpec { target: nowhere.clone(), ..ManagedNamespaceSpec::default() },
                service: Some((template.clone(), TemplateSecrets::default())),
            };
            door.app.managed_namespace_create(&as_eve, new).await.map(drop)
        };
        let secrets = ServiceContextChange {
            secrets: Some(Configuration::from([("k".to_owned(), "v".to_owned())])),
            ..ServiceContextChange::default()
        };
        let give = door.app.context_save(&as_ada, name.parse().unwrap(), secrets);
        // Whoever asks first gets it more often: both do.
        let (began, given) = if round % 4 < 2 {
            tokio::join!(begin(), give)
        } else {
            let (given, began) = tokio::join!(give, begin());
            (began, given)
        };
        assert!(began.is_ok() != given.is_ok(), "{round}: {began:?} {given:?}");
    }
}

/// Whoever gives others in place of secrets that there are asks for nobody's right; so that has to hold when they are written.
async fn secrets_that_are_taken_away_and_given_again_meet_no_new_reader(database: TestDatabase) {
    let door = Door::new(database).await;
    let (_, web) = service(&door).await;
    let shop = door.project("shop").await;
    let (ada, eve) = (door.user("ada").await, door.user("eve").await);
    // Eve may read what Ada may write, and write what Ada may not.
    let on_shop = BindingsChange {
        read: Some(vec![subject(&eve)]),
        write: Some(vec![subject(&ada)]),
        ..BindingsChange::default()
    };
    door.app.binding_replace(&door.admin, shop.id, on_shop).await.unwrap();
    let to_eve = BindingsChange { write: Some(vec![subject(&eve)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, web.id, to_eve).await.unwrap();
    let (as_ada, as_eve) = (door.as_user(&ada).await, door.as_user(&eve).await);
    let secrets = |values: &[&str]| {
        let values = values.iter().map(|name| ((*name).to_owned(), "v".to_owned())).collect();
        ServiceContextChange {
            secrets: Some(Configuration { values, ..Configuration::default() }),
            ..ServiceContextChange::default()
        }
    };
    for round in 0..24 {
        let name = format!("c-{round}");
        let start = ServiceContextChange { project_id: Some(shop.id), ..secrets(&["k"]) };
        let context = save(&door, &name, start).await;
        let take = door.app.context_save(&door.admin, name.parse().unwrap(), secrets(&[]));
        let selector = service_id(&web);
        let begin = door.app.service_update(&as_eve, &selector, using(&[context.id]));
        let give = door.app.context_save(&as_ada, name.parse().unwrap(), secrets(&["k", "l"]));
        let (taken, began, given) = if round % 2 == 0 {
            tokio::join!(take, begin, give)
        } else {
            let (given, taken, began) = tokio::join!(give, take, begin);
            (taken, began, given)
        };
        taken.unwrap();
        let selector = ServiceContextSelector::Name(name.clone());
        let now = door.app.get::<ServiceContext>(&door.admin, &selector).await.unwrap();
        assert!(began.is_err() || now.secrets.is_empty(), "{round}: {began:?} {given:?} {now:?}");
        door.app.service_update(&as_eve, &service_id(&web), using(&[])).await.unwrap();
    }
}

async fn a_secret_that_was_replaced_is_hidden_in_records(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, web, _, _) = deployed(&door, "blue").await;
    let secret = |value: &str| ServiceContextChange {
        secrets: Some(Configuration::from([("token".to_owned(), value.to_owned())])),
        ..ServiceContextChange::default()
    };
    let context = save(&door, "shared", secret("former-secret-1")).await;
    door.app.service_update(&door.admin, &service_id(&web), using(&[context.id])).await.unwrap();
    let told = poll_until(&door, &agent, None, |answer| {
        answer.services.iter().any(|spec| !spec.contexts.is_empty())
    })
    .await;
    let drifted = ReportedDrift {
        event: "first".to_owned(),
        object: "ConfigMap/apps/web".parse().unwrap(),
        at: DateTime::UNIX_EPOCH,
        kind: DriftKind::Repaired,
        fields: vec![FieldChange {
            path: "/data/token".to_owned(),
            before: Some("\"former-secret-1\"".to_owned()),
            after: Some("\"ordinary-value\"".to_owned()),
            hidden: false,
            manager: None,
            written_at: None,
        }],
        what: None,
        count: 1,
    };
    let said = reported(&told.services[0], |said| {
        said.sync = SyncReport { drift: vec![drifted], ..SyncReport::default() };
    });
    door.app.agent_report(&agent, report(1, vec![said])).await.unwrap();
    let eve = door.user("eve").await;
    let sees = BindingsChange { read: Some(vec![subject(&eve)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, web.id, sees).await.unwrap();
    let fields = async || {
        let eve = door.as_user(&eve).await;
        let page = door.app.service_drift(&eve, web.id, &PageArgs::default()).await.unwrap();
        let field = page.edges[0].node.told.fields[0].clone();
        (field.before.unwrap(), field.after.unwrap())
    };
    let hidden = "\"********\"".to_owned();
    assert_eq!(fields().await, (hidden.clone(), "\"ordinary-value\"".to_owned()));
    // Nobody knows the former value any more.
    save(&door, "shared", secret("another-secret-2")).await;
    assert_eq!(fields().await, (hidden.clone(), hidden));
    door.stop().await;
}
