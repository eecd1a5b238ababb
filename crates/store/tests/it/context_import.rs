//! Outputs of stacks in contexts: which services read them, who may have a context take them, and who is told when they change.

use plural_app::ports::agents::AgentStore as _;
use plural_app::service_context::{ServiceContextFilter, ServiceContextSelector};
use plural_app::stack::Dependents;
use plural_core::dependency::ServiceLinks;
use plural_core::ids::{ServiceContextId, StackId};
use plural_core::policy::BindingsChange;
use plural_core::service::{Service, ServiceChange};
use plural_core::service_context::{ContextImport, ServiceContext, ServiceContextChange};
use plural_core::user::User;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{service_id, subject};
use crate::stack_run::Ground;

each_database!(
    outputs_reach_the_services_that_use_a_context_and_no_others,
    sensitive_outputs_are_for_contexts_of_whoever_may_read_the_state,
    a_stack_stays_while_a_context_takes_outputs_of_it,
    contexts_that_a_stack_leaves_take_nothing_of_it_any_more,
    the_upgrade_of_an_agent_reads_no_outputs_by_a_context,
);

fn import(stack_id: StackId, output: &str, name: &str, sensitive: bool) -> ContextImport {
    ContextImport { stack_id, output: output.to_owned(), name: name.to_owned(), sensitive }
}

fn taking(imports: &[ContextImport]) -> ServiceContextChange {
    ServiceContextChange { imports: Some(imports.to_vec()), ..ServiceContextChange::default() }
}

fn using(ids: &[ServiceContextId]) -> ServiceChange {
    let links = ServiceLinks { contexts: Some(ids.to_vec()), ..ServiceLinks::default() };
    ServiceChange { links, ..ServiceChange::default() }
}

fn of(read: &[&User], write: &[&User]) -> BindingsChange {
    let subjects = |users: &[&User]| Some(users.iter().map(|user| subject(user)).collect());
    BindingsChange { read: subjects(read), write: subjects(write), ..BindingsChange::default() }
}

impl Ground {
    async fn context(&self, name: &str, change: ServiceContextChange) -> ServiceContext {
        self.door.app.context_save(&self.door.admin, name.parse().unwrap(), change).await.unwrap()
    }

    async fn use_contexts(&self, service: &Service, ids: &[ServiceContextId]) {
        let (app, admin) = (&self.door.app, &self.door.admin);
        app.service_update(admin, &service_id(service), using(ids)).await.unwrap();
    }

    /// What the agent is given by contexts of a service: the names that templates read, and those of the outputs.
    async fn taken(&self, service: &Service) -> Vec<(String, String)> {
        let specs = self.door.database.agent_specs(self.cluster.cluster.id, &[service.id]).await.unwrap();
        let mut taken: Vec<_> = specs
            .into_iter()
            .flat_map(|spec| spec.contexts)
            .flat_map(|row| row.outputs.to_vec())
            .map(|one| (one.name, one.output.name))
            .collect();
        taken.sort();
        taken
    }
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, output)| ((*name).to_owned(), (*output).to_owned())).collect()
}

async fn outputs_reach_the_services_that_use_a_context_and_no_others(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let stack = ground.stack.id;
    let (web, other) = (ground.web("web").await, ground.web("other").await);
    let wanted = [import(stack, "address", "host", false), import(stack, "zones", "zones", false)];
    let context = ground.context("network", taking(&wanted)).await;
    assert_eq!(context.imports, wanted);
    assert!(!context.hides());
    ground.use_contexts(&web, &[context.id]).await;
    assert_eq!(ground.taken(&web).await, [], "nothing was applied yet");

    let place = ground.position().await;
    ground.gives(&[("zones", false), ("address", false), ("unasked", false)]).await;
    assert_eq!(ground.renewed(place).await, [web.id]);
    assert_eq!(ground.taken(&web).await, pairs(&[("host", "address"), ("zones", "zones")]));
    assert_eq!(ground.taken(&other).await, []);
    // Lists read it as the answer to the save said it.
    let filter = ServiceContextFilter::default();
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let listed = app.list::<ServiceContext>(admin, &filter, &PageArgs::default()).await.unwrap();
    assert_eq!(listed.edges[0].node.imports, wanted);

    // An output that is gone is missing, and one that becomes sensitive is for nobody who did not ask for that.
    let place = ground.position().await;
    ground.gives(&[("address", true)]).await;
    assert_eq!(ground.renewed(place).await, [web.id]);
    assert_eq!(ground.taken(&web).await, []);

    // What is so already has nothing rendered; another name does.
    ground.gives(&[("address", false)]).await;
    let place = ground.position().await;
    ground.context("network", taking(&wanted)).await;
    assert_eq!(ground.renewed(place).await, []);
    ground.context("network", taking(&[import(stack, "address", "address", false)])).await;
    assert_eq!(ground.renewed(place).await, [web.id]);
    assert_eq!(ground.taken(&web).await, pairs(&[("address", "address")]));

    // What says nothing of outputs leaves them.
    let document = serde_json::Map::from_iter([("a".to_owned(), 1.into())]);
    let plain = ServiceContextChange { configuration: Some(document), ..ServiceContextChange::default() };
    assert_eq!(ground.context("network", plain).await.imports.len(), 1);
    ground.context("network", taking(&[])).await;
    let place = ground.position().await;
    ground.gives(&[("address", false), ("zones", false)]).await;
    assert_eq!(ground.renewed(place).await, [], "no context takes it any more");
    assert_eq!(ground.taken(&web).await, []);
}

async fn sensitive_outputs_are_for_contexts_of_whoever_may_read_the_state(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let (web, shop) = (ground.web("web").await, door.project("shop").await);
    ground.gives(&[("address", false), ("password", true)]).await;
    let ada = door.user("ada").await;
    door.app.binding_replace(&door.admin, shop.id, of(&[], &[&ada])).await.unwrap();
    door.app.binding_replace(&door.admin, web.id, of(&[], &[&ada])).await.unwrap();
    let as_ada = door.as_user(&ada).await;
    let save = async |name: &str, imports: &[ContextImport]| {
        let change = ServiceContextChange { project_id: Some(shop.id), ..taking(imports) };
        door.app.context_save(&as_ada, name.parse().unwrap(), change).await
    };
    let (plain, as_sensitive, unsaid) = (
        import(stack, "address", "address", false),
        import(stack, "password", "password", true),
        import(stack, "password", "password", false),
    );
    let unknown = save("plain", std::slice::from_ref(&plain)).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "she must not know of the stack: {unknown:?}");

    door.app.binding_replace(&door.admin, stack, of(&[&ada], &[])).await.unwrap();
    save("plain", std::slice::from_ref(&plain)).await.unwrap();
    let refused = save("hiding", std::slice::from_ref(&as_sensitive)).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("infra"), "{refused}");

    // Who may read the state says so.
    door.app.binding_replace(&door.admin, stack, of(&[], &[&ada])).await.unwrap();
    let refused = save("hiding", &[unsaid]).await.unwrap_err();
    assert!(refused.to_string().contains("sensitive: true"), "{refused}");
    let hiding = save("hiding", &[as_sensitive.clone(), plain.clone()]).await.unwrap();
    assert!(hiding.hides());
    door.app.service_update(&as_ada, &service_id(&web), using(&[hiding.id])).await.unwrap();
    assert_eq!(ground.taken(&web).await, pairs(&[("address", "address"), ("password", "password")]));

    // As with secret values: who only sees the context has no service read it, and one that others read gets none.
    let eve = door.user("eve").await;
    door.app.binding_replace(&door.admin, shop.id, of(&[&eve], &[&ada])).await.unwrap();
    door.app.binding_replace(&door.admin, web.id, of(&[], &[&eve])).await.unwrap();
    let as_eve = door.as_user(&eve).await;
    let refused = door.app.service_update(&as_eve, &service_id(&web), using(&[hiding.id])).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    let selector = ServiceContextSelector::Name("plain".to_owned());
    let known = door.app.get::<ServiceContext>(&as_eve, &selector).await.unwrap();
    door.app.service_update(&as_eve, &service_id(&web), using(&[known.id])).await.unwrap();
    let refused = save("plain", &[as_sensitive, plain]).await.unwrap_err();
    assert!(refused.to_string().contains("outside your write access"), "{refused}");
}

async fn a_stack_stays_while_a_context_takes_outputs_of_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    ground.context("network", taking(&[import(stack, "address", "host", false)])).await;
    for refused in [
        door.app.stack_delete(&door.admin, stack, None, Dependents::Refuse).await,
        door.app.stack_detach(&door.admin, stack, None, Dependents::Refuse).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
        assert!(refused.to_string().contains("network"), "{refused}");
    }
    ground.context("network", taking(&[])).await;
    door.app.stack_detach(&door.admin, stack, None, Dependents::Refuse).await.unwrap();
    let late = taking(&[import(stack, "address", "host", false)]);
    let late = door.app.context_save(&door.admin, "late".parse().unwrap(), late).await;
    assert!(matches!(late, Err(Error::NotFound { .. })), "{late:?}");
}

async fn contexts_that_a_stack_leaves_take_nothing_of_it_any_more(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let web = ground.web("web").await;
    let context = ground.context("network", taking(&[import(stack, "address", "host", false)])).await;
    ground.use_contexts(&web, &[context.id]).await;
    ground.gives(&[("address", false)]).await;
    assert_eq!(ground.taken(&web).await, pairs(&[("host", "address")]));
    let place = ground.position().await;
    door.app.stack_detach(&door.admin, stack, None, Dependents::Leave).await.unwrap();
    assert_eq!(ground.renewed(place).await, [web.id]);
    assert_eq!(ground.taken(&web).await, []);
}

async fn the_upgrade_of_an_agent_reads_no_outputs_by_a_context(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let web = ground.web("web").await;
    let wanted = [import(stack, "address", "host", false)];
    let context = ground.context("network", taking(&wanted)).await;
    ground.use_contexts(&web, &[context.id]).await;
    let mark = async || door.app.service_agent_upgrade(&door.admin, &service_id(&web), true).await;
    let refused = mark().await.unwrap_err().to_string();
    assert!(refused.contains("cannot import"), "{refused}");
    ground.use_contexts(&web, &[]).await;
    mark().await.unwrap();
    let late = door.app.service_update(&door.admin, &service_id(&web), using(&[context.id])).await;
    assert!(late.is_err_and(|error| error.to_string().contains("cannot import")));

    // Nor by one that begins to take them.
    ground.context("network", taking(&[])).await;
    ground.use_contexts(&web, &[context.id]).await;
    let late = door.app.context_save(&door.admin, "network".parse().unwrap(), taking(&wanted)).await;
    assert!(late.is_err_and(|error| error.to_string().contains("cannot import")));
}
