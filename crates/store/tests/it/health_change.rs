//! What services' statuses were: written with what changes them, listed, and gone in time.

use chrono::{DateTime, TimeDelta, Utc};
use plural_app::OpCtx;
use plural_app::agent_poll::ServiceSpec;
use plural_app::cluster::ClusterSelector;
use plural_app::health_change::{HealthChangeFilter, HealthChangeStore as _};
use plural_app::ports::agents::{AgentReportRow, AgentStore as _, ServiceReportRow};
use plural_app::source::SourceStore as _;
use plural_core::cluster::Cluster;
use plural_core::component::{Component, ComponentState};
use plural_core::dependency::ServiceLinks;
use plural_core::health_change::HealthChange;
use plural_core::ids::{ClusterId, ProjectId, ServiceContextId};
use plural_core::mask::MASK;
use plural_core::policy::BindingsChange;
use plural_core::service::{Configuration, Service, ServiceChange};
use plural_core::service_context::ServiceContextChange;
use plural_core::service_error::ServiceError;
use plural_core::status::ServiceStatus::{self, Failed, Healthy, Paused, Stale};
use plural_core::sync::SyncReport;
use plural_core::{Page, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement};

use crate::agent::{component, deployed};
use crate::door::{Door, service_id, subject};

each_database!(
    failures_and_recoveries_are_kept,
    only_what_the_caller_may_see_and_asks_for_is_listed,
    what_the_console_and_users_do_is_kept,
    reasons_of_forgotten_revisions_are_hidden,
    reasons_are_hidden_once_a_context_has_other_secrets,
    changes_expire_and_go_with_their_service,
);

/// A deployed service, and a clock of minutes.
struct Scene {
    door: Door,
    service: Service,
    spec: ServiceSpec,
    begin: DateTime<Utc>,
}

impl Scene {
    async fn new(database: TestDatabase) -> Self {
        let mut door = Door::new(database).await;
        door.start();
        let (_, service, spec, _) = deployed(&door, "blue").await;
        // So that nothing but the test writes.
        door.stop().await;
        // Whole seconds: PostgreSQL keeps no nanoseconds.
        let begin = DateTime::from_timestamp(door.app.now().timestamp(), 0).unwrap();
        Self { door, service, spec, begin }
    }

    fn at(&self, minute: i64) -> DateTime<Utc> {
        self.begin + TimeDelta::minutes(minute)
    }

    /// The agent says at this minute that the only component is like this.
    async fn told(&self, minute: i64, state: ComponentState) {
        let message = (state == ComponentState::Failed).then(|| "CrashLoopBackOff".to_owned());
        self.told_all(minute, vec![Component { message, ..component("web", state) }]).await;
    }

    async fn told_all(&self, minute: i64, components: Vec<Component>) {
        let said = ServiceReportRow {
            id: self.spec.id,
            revision_id: self.spec.revision_id,
            sequence: self.spec.sequence,
            sha: self.spec.sha.clone(),
            applied: true,
            destroyed: false,
            components: Some(components),
            errors: Vec::new(),
            metadata: None,
            sync: SyncReport::default(),
        };
        let report =
            AgentReportRow { cluster_id: self.service.cluster_id, services: vec![said], at: self.at(minute) };
        self.door.database.agent_reports(&[report]).await.unwrap();
    }

    async fn page(&self, ctx: &OpCtx, filter: &HealthChangeFilter, args: &PageArgs) -> Page<HealthChange> {
        self.door.app.health_change_list(ctx, filter, args).await.unwrap()
    }

    async fn all(&self) -> Vec<HealthChange> {
        let page = self.page(&self.door.admin, &HealthChangeFilter::default(), &PageArgs::first(500)).await;
        page.into_nodes()
    }

    /// From what to what, newest first.
    async fn turns(&self) -> Vec<(ServiceStatus, ServiceStatus)> {
        self.all().await.into_iter().map(|change| (change.from, change.to)).collect()
    }

    async fn now(&self) -> Service {
        self.door.app.get::<Service>(&self.door.admin, &service_id(&self.service)).await.unwrap()
    }
}

async fn failures_and_recoveries_are_kept(database: TestDatabase) {
    let scene = Scene::new(database).await;
    assert_eq!(scene.turns().await, [], "a service that was made became nothing else yet");
    scene.told(0, ComponentState::Running).await;
    assert_eq!(scene.turns().await, [(Stale, Healthy)]);
    let service = scene.now().await;
    assert_eq!((service.failing_since, service.recovered_at), (None, None), "it never failed");

    // What is no news writes nothing, however often it is said.
    let database = &scene.door.database;
    let before = database.statements();
    scene.told(1, ComponentState::Running).await;
    let took = database.statements() - before;
    scene.told(2, ComponentState::Running).await;
    assert_eq!(database.statements() - before, 2 * took);
    assert_eq!(scene.turns().await, [(Stale, Healthy)]);

    scene.told(3, ComponentState::Failed).await;
    assert_eq!(scene.now().await.failing_since, Some(scene.at(3)));
    // Another object fails as well: it still fails.
    let two = vec![component("web", ComponentState::Failed), component("other", ComponentState::Failed)];
    scene.told_all(4, two).await;
    scene.told(5, ComponentState::Pending).await;
    scene.told(6, ComponentState::Failed).await;
    let service = scene.now().await;
    assert_eq!(service.failing_since, Some(scene.at(3)), "it was not healthy in between");
    assert_eq!(service.recovered_at, None);
    scene.told(7, ComponentState::Running).await;
    let service = scene.now().await;
    assert_eq!((service.failing_since, service.recovered_at), (None, Some(scene.at(7))));
    scene.told(8, ComponentState::Failed).await;
    let service = scene.now().await;
    assert_eq!((service.failing_since, service.recovered_at), (Some(scene.at(8)), Some(scene.at(7))));

    let all = scene.all().await;
    let said: Vec<_> = all.iter().map(|one| (one.from, one.to, one.at, one.failing_since)).collect();
    assert_eq!(
        said,
        [
            (Healthy, Failed, scene.at(8), Some(scene.at(8))),
            (Failed, Healthy, scene.at(7), Some(scene.at(3))),
            (Stale, Failed, scene.at(6), Some(scene.at(3))),
            (Failed, Stale, scene.at(5), None),
            (Healthy, Failed, scene.at(3), Some(scene.at(3))),
            (Stale, Healthy, scene.at(0), None),
        ]
    );
    for change in &all {
        assert_eq!(change.service_id, scene.service.id);
        assert_eq!((change.revision_id, change.sha.as_deref()), (scene.spec.revision_id, Some("c1")));
        let reason = change.reason.as_deref().unwrap_or_default();
        match change.to {
            Failed => assert!(reason.contains("web: CrashLoopBackOff"), "{reason}"),
            Healthy => assert_eq!(change.reason, None),
            Stale | Paused | ServiceStatus::Synced => assert!(reason.contains("is not ready"), "{reason}"),
        }
    }
}

async fn only_what_the_caller_may_see_and_asks_for_is_listed(database: TestDatabase) {
    let scene = Scene::new(database).await;
    for (minute, state) in [
        (0, ComponentState::Running),
        (1, ComponentState::Failed),
        (2, ComponentState::Pending),
        (3, ComponentState::Failed),
        (4, ComponentState::Running),
    ] {
        scene.told(minute, state).await;
    }
    let admin = &scene.door.admin;
    let ids: Vec<_> = scene.all().await.into_iter().map(|change| change.id).collect();
    assert_eq!(ids.len(), 5);

    // By pages, from both ends.
    let any = HealthChangeFilter::default();
    let (mut forward, mut args) = (Vec::new(), PageArgs::first(2));
    loop {
        let page = scene.page(admin, &any, &args).await;
        assert_eq!(page.has_previous_page, !forward.is_empty());
        args.after = page.end_cursor().map(str::to_owned);
        let goes_on = page.has_next_page;
        forward.extend(page.into_nodes().into_iter().map(|change| change.id));
        if !goes_on {
            break;
        }
    }
    assert_eq!(forward, ids);
    let end = scene.page(admin, &any, &PageArgs { last: Some(2), ..PageArgs::default() }).await;
    assert!(end.has_previous_page && !end.has_next_page);
    assert_eq!(end.into_nodes().into_iter().map(|change| change.id).collect::<Vec<_>>(), ids[3..]);

    // Many services at once, each with the same page.
    let (app, id) = (&scene.door.app, scene.service.id);
    let mut found = app.services_health_changes(admin, &[id], &PageArgs::first(2)).await.unwrap();
    let page = found.remove(&id).unwrap();
    assert!(page.has_next_page);
    let after = page.end_cursor().map(str::to_owned);
    assert_eq!(page.into_nodes().into_iter().map(|change| change.id).collect::<Vec<_>>(), ids[..2]);
    let rest = PageArgs { after, ..PageArgs::default() };
    let mut found = app.services_health_changes(admin, &[id], &rest).await.unwrap();
    let page = found.remove(&id).unwrap();
    assert_eq!(page.into_nodes().into_iter().map(|change| change.id).collect::<Vec<_>>(), ids[2..]);

    // By time, by what they are, by place.
    let by = ClusterSelector::Id(scene.service.cluster_id);
    let project_id = app.get::<Cluster>(admin, &by).await.unwrap().project_id;
    let filters = [
        (HealthChangeFilter { since: Some(scene.at(3)), ..any.clone() }, 2),
        (HealthChangeFilter { since: Some(scene.at(5)), ..any.clone() }, 0),
        (HealthChangeFilter { failures: true, ..any.clone() }, 3),
        (HealthChangeFilter { cluster_id: Some(scene.service.cluster_id), ..any.clone() }, 5),
        (HealthChangeFilter { cluster_id: Some(ClusterId::new()), ..any.clone() }, 0),
        (HealthChangeFilter { project_id: Some(project_id), ..any.clone() }, 5),
        (HealthChangeFilter { project_id: Some(ProjectId::new()), ..any.clone() }, 0),
    ];
    for (filter, count) in filters {
        let page = scene.page(admin, &filter, &PageArgs::first(500)).await;
        assert_eq!(page.edges.len(), count, "{filter:?}");
    }

    // Who may see nothing.
    let user = scene.door.user("eve").await;
    let stranger = scene.door.as_user(&user).await;
    assert_eq!(scene.page(&stranger, &any, &PageArgs::first(500)).await.edges, []);
    assert!(app.services_health_changes(&stranger, &[id], &PageArgs::default()).await.unwrap().is_empty());
}

async fn what_the_console_and_users_do_is_kept(database: TestDatabase) {
    let scene = Scene::new(database).await;
    let (door, id) = (&scene.door, scene.service.id);
    let error = ServiceError {
        source: ServiceError::GIT.to_owned(),
        message: "no such branch".into(),
        warning: false,
        terminal: false,
        location: None,
    };
    for now in [scene.at(0), scene.at(1)] {
        door.database.service_source_errors(&[(id, Some(error.clone()))], now).await.unwrap();
    }
    let all = scene.all().await;
    assert_eq!(all.len(), 1, "the second found nothing new");
    assert_eq!((all[0].from, all[0].to, all[0].at), (Stale, Failed, scene.at(0)));
    assert!(all[0].reason.as_deref().unwrap().contains("no such branch"), "{all:?}");
    assert_eq!(scene.now().await.failing_since, Some(scene.at(0)));
    door.database.service_source_errors(&[(id, None)], scene.at(2)).await.unwrap();
    assert_eq!(scene.turns().await, [(Failed, Stale), (Stale, Failed)]);

    scene.told(3, ComponentState::Running).await;
    assert_eq!(scene.now().await.recovered_at, Some(scene.at(3)));
    door.app.service_pause(&door.admin, &service_id(&scene.service)).await.unwrap();
    door.app.service_resume(&door.admin, &service_id(&scene.service)).await.unwrap();
    let change = ServiceChange { dry_run: Some(true), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&scene.service), change).await.unwrap();
    let expected = [
        (Healthy, Stale),
        (Paused, Healthy),
        (Healthy, Paused),
        (Stale, Healthy),
        (Failed, Stale),
        (Stale, Failed),
    ];
    assert_eq!(scene.turns().await, expected);
}

async fn reasons_of_forgotten_revisions_are_hidden(database: TestDatabase) {
    let scene = Scene::new(database).await;
    let door = &scene.door;
    scene.told(0, ComponentState::Failed).await;
    let user = door.user("eve").await;
    let bindings = BindingsChange { read: Some(vec![subject(&user)]), ..BindingsChange::default() };
    let change = ServiceChange { dry_run: Some(true), bindings, ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&scene.service), change).await.unwrap();
    let reader = door.as_user(&user).await;
    let any = HealthChangeFilter { failures: true, ..HealthChangeFilter::default() };
    let reason = async |ctx: &OpCtx| {
        let mut all = scene.page(ctx, &any, &PageArgs::first(1)).await.into_nodes();
        all.remove(0).reason.unwrap()
    };
    assert!(reason(&reader).await.contains("CrashLoopBackOff"));

    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let sql = "DELETE FROM revisions WHERE id = $1";
    let values = [scene.spec.revision_id.uuid().into()];
    let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
    assert_eq!(connection.execute_raw(statement).await.unwrap().rows_affected(), 1);
    connection.close().await.unwrap();
    // What was secret then is not known any more.
    assert_eq!(reason(&reader).await, MASK);
    assert!(reason(&door.admin).await.contains("CrashLoopBackOff"), "whoever may read all secrets");
}

/// What a context's secrets were is known no more, and whoever reads the service may not learn it from its past.
async fn reasons_are_hidden_once_a_context_has_other_secrets(database: TestDatabase) {
    let scene = Scene::new(database).await;
    let door = &scene.door;
    let reason = async || {
        let failed = scene.all().await.into_iter().find(|change| change.to == Failed);
        failed.and_then(|change| change.reason).unwrap()
    };
    let keep = async |value: &str| {
        let secrets = Some(Configuration::from([("password".to_owned(), value.to_owned())]));
        let change = ServiceContextChange { secrets, ..ServiceContextChange::default() };
        door.app.context_save(&door.admin, "network".parse().unwrap(), change).await.unwrap()
    };
    let read = async |contexts: Vec<ServiceContextId>| {
        let links = ServiceLinks { contexts: Some(contexts), ..ServiceLinks::default() };
        let change = ServiceChange { links, ..ServiceChange::default() };
        door.app.service_update(&door.admin, &service_id(&scene.service), change).await.unwrap();
    };
    let network = keep("hunter2").await;
    scene.told(0, ComponentState::Failed).await;
    let told = reason().await;
    assert_ne!(told, MASK);
    read(vec![network.id]).await;
    // Nobody lost a secret, nor by the same contexts once more.
    assert_eq!(reason().await, told);
    read(vec![network.id]).await;
    assert_eq!(reason().await, told);
    keep("hunter3").await;
    assert_eq!(reason().await, MASK);
}

async fn changes_expire_and_go_with_their_service(database: TestDatabase) {
    let scene = Scene::new(database).await;
    for minute in 0..8 {
        let states = [ComponentState::Running, ComponentState::Failed];
        scene.told(minute, states[usize::try_from(minute).unwrap() % 2]).await;
    }
    let ids: Vec<_> = scene.all().await.into_iter().map(|change| change.id).collect();
    assert_eq!(ids.len(), 8);
    let left = async || scene.all().await.into_iter().map(|change| change.id).collect::<Vec<_>>();
    let database = &scene.door.database;
    // Few and young ones stay.
    assert_eq!(database.health_changes_prune(scene.at(0), 8).await.unwrap(), 0);
    assert_eq!(database.health_changes_prune(scene.at(0), 6).await.unwrap(), 2);
    assert_eq!(left().await, ids[..6], "the newest stay");
    assert_eq!(database.health_changes_prune(scene.at(0), 6).await.unwrap(), 0);
    assert_eq!(database.health_changes_prune(scene.at(5), 6).await.unwrap(), 3);
    assert_eq!(left().await, ids[..3]);

    scene.door.app.service_detach(&scene.door.admin, &service_id(&scene.service)).await.unwrap();
    assert_eq!(left().await, [], "they go with their service");
}
