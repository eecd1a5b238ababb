//! Contexts: who may use them, what templates get, and who is told when they change.

use plural_app::{BindingsChange, ServiceContextFilter, ServiceContextSelector};
use plural_core::{
    BindingTarget, Configuration, Error, PageArgs, Service, ServiceChange, ServiceContext,
    ServiceContextChange, ServiceContextId, ServiceLinks,
};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::agent::poll_until;
use crate::door::{Door, by_id, new_service, service_id, subject};

each_database!(a_context_reaches_the_services_that_name_it, only_those_use_a_context_who_may);

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

async fn service(door: &Door) -> (plural_app::AgentHandle, Service) {
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
    let secrets = Configuration([("password".to_owned(), "hunter2".to_owned())].into());
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
    let gone = door.app.context_get(&door.admin, &ServiceContextSelector::Id(context.id)).await;
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
    let secrets = Some(Configuration([("k".to_owned(), "v".to_owned())].into()));
    let secret =
        ServiceContextChange { project_id: Some(shop.id), secrets, ..ServiceContextChange::default() };
    let secret = save(&door, "secret", secret).await;

    let ada = door.user("ada").await;
    let write = BindingsChange { write: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, BindingTarget::Service(web.id), write.clone()).await.unwrap();
    let as_ada = door.as_user(&ada).await;
    let with = async |id| door.app.service_update(&as_ada, &service_id(&web), using(&[id])).await;
    assert!(matches!(with(plain.id).await, Err(Error::NotFound { .. })));
    let read = BindingsChange { read: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    let on_shop = BindingTarget::Project(shop.id);
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
        door.app.context_list(ctx, &filter, &PageArgs::default()).await.unwrap().edges.len()
    };
    let eve = door.user("eve").await;
    assert_eq!((seen(&as_ada).await, seen(&door.as_user(&eve).await).await), (2, 0));
    let elsewhere = door.default_project().await.id;
    let moved = ServiceContextChange { project_id: Some(elsewhere), ..ServiceContextChange::default() };
    assert!(door.app.context_save(&door.admin, "plain".parse().unwrap(), moved).await.is_err());
    assert!(door.app.project_delete(&door.admin, shop.id).await.is_err(), "it is not empty");
}
