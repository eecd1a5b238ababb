//! Imports of services: which outputs they read, who may have them read them, and who is told when these change.

use plural_app::ports::agents::{AgentStore as _, FeedPosition, FeedSubject};
use plural_app::seal::Sealed;
use plural_app::stack::Dependents;
use plural_app::stack_run::{RunMove, SealedOutput};
use plural_core::Error;
use plural_core::dependency::ServiceLinks;
use plural_core::ids::{ServiceId, StackId};
use plural_core::policy::BindingsChange;
use plural_core::service::{Service, ServiceChange};
use plural_core::stack::StackChange;
use plural_core::stack_run::RunStatus;
use plural_core::user::User;
use plural_testkit::{TestDatabase, each_database, one_database};
use sea_orm::ConnectionTrait as _;

use crate::door::{service_id, subject};
use crate::stack_run::Ground;

each_database!(
    outputs_reach_the_services_that_import_their_stack_and_no_others,
    services_of_an_answer_share_the_outputs_that_they_read,
    sensitive_outputs_are_for_services_whose_importer_may_read_the_state,
    a_stack_stays_while_a_service_imports_it,
    services_that_a_stack_leaves_import_it_no_more,
    the_upgrade_of_an_agent_imports_nothing,
);

one_database!(
    postgres, "SQLite writes one transaction at a time.";
    outputs_and_changes_of_a_service_wait_for_each_other_in_one_order,
);

fn importing(stacks: &[StackId]) -> ServiceChange {
    let links = ServiceLinks { imports: Some(stacks.to_vec()), ..ServiceLinks::default() };
    ServiceChange { links, ..ServiceChange::default() }
}

impl Ground {
    pub(crate) async fn web(&self, name: &str) -> Service {
        self.door.service(&self.cluster.cluster, &self.repository, name).await
    }

    async fn import(&self, service: &Service, stacks: &[StackId]) {
        let (app, admin) = (&self.door.app, &self.door.admin);
        app.service_update(admin, &service_id(service), importing(stacks)).await.unwrap();
    }

    /// A run that applies ends, and tells these outputs: their names, and whether they are sensitive.
    pub(crate) async fn gives(&self, outputs: &[(&str, bool)]) {
        let output = |(name, secret): &(&str, bool)| SealedOutput {
            name: (*name).to_owned(),
            secret: *secret,
            value: Sealed::from_bytes(name.as_bytes().to_vec()),
        };
        let outputs = outputs.iter().map(output).collect();
        let run = self.running().await.id;
        let change = RunMove {
            to: Some(RunStatus::Successful),
            applied: Some(("c1".into(), Some(outputs))),
            ..self.change()
        };
        self.moved(run, change).await.unwrap();
    }

    /// What the agent is given of stacks for a service: their names, and those of the outputs.
    async fn read(&self, service: &Service) -> Vec<(String, Vec<String>)> {
        let specs = self.door.database.agent_specs(self.cluster.cluster.id, &[service.id]).await.unwrap();
        let names = |outputs: &[SealedOutput]| outputs.iter().map(|output| output.name.clone()).collect();
        specs
            .into_iter()
            .flat_map(|spec| spec.imports)
            .map(|import| (import.name, names(&import.outputs)))
            .collect()
    }

    /// The services that are told to be looked at again.
    pub(crate) async fn renewed(&self, after: FeedPosition) -> Vec<ServiceId> {
        let subjects = self.batch(after).await.events.into_iter().filter_map(|event| event.subject);
        subjects
            .filter_map(|subject| match subject {
                FeedSubject::Work { work, .. } => work.as_service(),
                FeedSubject::Cluster { .. }
                | FeedSubject::Repository { .. }
                | FeedSubject::RepositoryMoved { .. } => None,
            })
            .collect()
    }
}

fn read(stack: &str, outputs: &[&str]) -> Vec<(String, Vec<String>)> {
    vec![(stack.to_owned(), outputs.iter().map(|name| (*name).to_owned()).collect())]
}

async fn outputs_reach_the_services_that_import_their_stack_and_no_others(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (web, other) = (ground.web("web").await, ground.web("other").await);
    let place = ground.position().await;
    ground.import(&web, &[ground.stack.id]).await;
    assert_eq!(ground.renewed(place).await, [web.id]);
    // Nothing was applied yet.
    assert_eq!(ground.read(&web).await, read("infra", &[]));
    let before = ground.door.app.services_imports(&ground.door.admin, &[web.id, other.id]).await.unwrap();
    assert_eq!((before.len(), before[&web.id][0].stack_id), (1, ground.stack.id));

    let place = ground.position().await;
    ground.gives(&[("zones", false), ("address", false), ("password", true)]).await;
    assert_eq!(ground.renewed(place).await, [web.id]);
    assert_eq!(ground.read(&web).await, read("infra", &["address", "password", "zones"]));
    assert_eq!(ground.read(&other).await, []);

    // What is so already stays, with its id.
    ground.import(&web, &[ground.stack.id]).await;
    let same = ground.door.app.services_imports(&ground.door.admin, &[web.id]).await.unwrap();
    assert_eq!(same[&web.id], before[&web.id]);

    // Another name is another key for the templates.
    let place = ground.position().await;
    let change = StackChange { name: Some("net".parse().unwrap()), ..StackChange::default() };
    ground.door.app.stack_update(&ground.door.admin, ground.stack.id, &change).await.unwrap();
    assert_eq!(ground.renewed(place).await, [web.id]);
    assert_eq!(ground.read(&web).await, read("net", &["address", "password", "zones"]));

    // A run that tells nothing of outputs changes none.
    let run = ground.running().await.id;
    let place = ground.position().await;
    let change =
        RunMove { to: Some(RunStatus::Successful), applied: Some(("c2".into(), None)), ..ground.change() };
    ground.moved(run, change).await.unwrap();
    assert_eq!(ground.renewed(place).await, []);

    ground.import(&web, &[]).await;
    assert_eq!(ground.read(&web).await, []);
    let place = ground.position().await;
    ground.gives(&[]).await;
    assert_eq!(ground.renewed(place).await, [], "nothing imports it any more");
}

async fn services_of_an_answer_share_the_outputs_that_they_read(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let services = [ground.web("one").await, ground.web("two").await];
    for service in &services {
        ground.import(service, &[ground.stack.id]).await;
    }
    ground.gives(&[("address", false)]).await;
    let ids = services.map(|service| service.id);
    let specs = ground.door.database.agent_specs(ground.cluster.cluster.id, &ids).await.unwrap();
    let [one, two] = specs.as_slice() else { panic!("{}", specs.len()) };
    assert!(std::sync::Arc::ptr_eq(&one.imports[0].outputs, &two.imports[0].outputs));
}

async fn sensitive_outputs_are_for_services_whose_importer_may_read_the_state(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let web = ground.web("web").await;
    ground.gives(&[("address", false)]).await;
    let ada = door.user("ada").await;
    let of = |read: &[&User], write: &[&User]| {
        let subjects = |users: &[&User]| Some(users.iter().map(|user| subject(user)).collect());
        BindingsChange { read: subjects(read), write: subjects(write), ..BindingsChange::default() }
    };
    let (read_only, write) = (of(&[&ada], &[]), of(&[], &[&ada]));
    door.app.binding_replace(&door.admin, web.id, write.clone()).await.unwrap();
    let as_ada = door.as_user(&ada).await;
    let import = async || door.app.service_update(&as_ada, &service_id(&web), importing(&[stack])).await;
    assert!(matches!(import().await, Err(Error::NotFound { .. })), "she must not know of it");

    // Who sees the stack imports what everybody may see who sees it, also of what comes later.
    door.app.binding_replace(&door.admin, stack, read_only.clone()).await.unwrap();
    import().await.unwrap();
    ground.gives(&[("address", false), ("password", true)]).await;
    assert_eq!(ground.read(&web).await, read("infra", &["address"]));
    let refused = import().await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("infra"), "{refused}");
    assert!(!door.app.services_imports(&as_ada, &[web.id]).await.unwrap()[&web.id][0].secrets);

    // Who may read the state brings all of it; that stays when somebody else saves the service.
    door.app.binding_replace(&door.admin, stack, write).await.unwrap();
    import().await.unwrap();
    assert_eq!(ground.read(&web).await, read("infra", &["address", "password"]));
    ground.gives(&[("address", false)]).await;
    door.app.binding_replace(&door.admin, stack, read_only).await.unwrap();
    import().await.unwrap();
    ground.gives(&[("address", false), ("password", true)]).await;
    assert_eq!(ground.read(&web).await, read("infra", &["address", "password"]));

    // Who does not see the stack does not see that it is imported.
    let eve = door.user("eve").await;
    let sees = BindingsChange { read: Some(vec![subject(&eve)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, web.id, sees).await.unwrap();
    let seen = door.app.services_imports(&door.as_user(&eve).await, &[web.id]).await.unwrap();
    assert!(seen.values().all(Vec::is_empty), "{seen:?}");
}

async fn a_stack_stays_while_a_service_imports_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let web = ground.web("web").await;
    ground.import(&web, &[stack]).await;
    ground.gives(&[("address", false)]).await;
    for refused in [
        door.app.stack_delete(&door.admin, stack, None, Dependents::Refuse).await,
        door.app.stack_detach(&door.admin, stack, None, Dependents::Refuse).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
        assert!(refused.to_string().contains("blue/web"), "{refused}");
    }
    ground.import(&web, &[]).await;
    door.app.stack_delete(&door.admin, stack, None, Dependents::Refuse).await.unwrap();

    // What is being destroyed is imported by nobody any more.
    let late = door.app.service_update(&door.admin, &service_id(&web), importing(&[stack])).await;
    assert!(late.is_err_and(|error| error.to_string().contains("being deleted")));
    let unknown = importing(&[StackId::new()]);
    let unknown = door.app.service_update(&door.admin, &service_id(&web), unknown).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })));
}

async fn services_that_a_stack_leaves_import_it_no_more(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let web = ground.web("web").await;
    ground.import(&web, &[stack]).await;
    ground.gives(&[("address", false)]).await;
    assert!(!ground.read(&web).await.is_empty());
    let sequence = async || {
        let specs = door.database.agent_specs(ground.cluster.cluster.id, &[web.id]).await.unwrap();
        specs.into_iter().map(|spec| spec.service.sequence).max()
    };
    let before = sequence().await;
    door.app.stack_detach(&door.admin, stack, None, Dependents::Leave).await.unwrap();
    assert!(ground.read(&web).await.is_empty());
    // The agent is told: it renders what it has anew.
    assert!(sequence().await > before);
}

async fn the_upgrade_of_an_agent_imports_nothing(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let door = &ground.door;
    let web = ground.web("web").await;
    ground.import(&web, &[ground.stack.id]).await;
    let mark = async || door.app.service_agent_upgrade(&door.admin, &service_id(&web), true).await;
    let refused = mark().await.unwrap_err().to_string();
    assert!(refused.contains("cannot import"), "{refused}");
    ground.import(&web, &[]).await;
    mark().await.unwrap();
    let late = door.app.service_update(&door.admin, &service_id(&web), importing(&[ground.stack.id])).await;
    assert!(late.is_err_and(|error| error.to_string().contains("cannot import")));
}

async fn outputs_and_changes_of_a_service_wait_for_each_other_in_one_order(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, stack) = (&ground.door, ground.stack.id);
    let web = ground.web("web").await;
    ground.gives(&[("password", true)]).await;
    // Much is told of the service: whoever hides it takes a while.
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let told = format!(
        "INSERT INTO health_changes (id, service_id, revision_id, status_before, status, reason, at) \
         SELECT gen_random_uuid(), id, revision_id, 'STALE', 'FAILED', 'no such image', now() \
         FROM services, generate_series(1, 300) WHERE id = '{}'",
        web.id
    );
    assert_eq!(connection.execute_unprepared(&told).await.unwrap().rows_affected(), 300);
    connection.close().await.unwrap();
    let (admin, selector) = (&door.admin, service_id(&web));
    for round in 0..20 {
        ground.import(&web, &[stack]).await;
        let ends = door.app.service_update(admin, &selector, importing(&[]));
        let (ended, ()) = tokio::join!(ends, ground.gives(&[("password", true)]));
        assert!(ended.is_ok(), "{round}: {ended:?}");
    }
}
