//! Settings that several people change at the same moment, and settings that are so already.

use plural_app::global_service::GlobalServiceSelector;
use plural_app::managed_namespace::ManagedNamespaceSelector;
use plural_app::project::ProjectSelector;
use plural_app::repository::NewCredentials;
use plural_core::global_service::{
    Cascade, GlobalService, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec,
    GlobalServiceSpecChange, NewGlobalService, ServiceTemplate, TemplateSecrets,
};
use plural_core::managed_namespace::{
    ManagedNamespace, ManagedNamespaceChange, ManagedNamespaceSpec, ManagedNamespaceSpecChange,
    NewManagedNamespace,
};
use plural_core::policy::BindingsChange;
use plural_core::project_limits::ProjectLimits;
use plural_core::repository::{NewRepository, Repository, RepositoryChange};
use plural_core::rollout::{RolloutStrategy, Share};
use plural_core::service::{GitRef, Kustomize, PinUntil, RenderingChange, Service, ServiceChange, SourceRef};
use plural_core::specs::{Change, Edit, SyncConfig, SyncPolicy};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::agent::deployed;
use crate::door::{Door, new_service, service_id, subject};

each_database!(
    two_settings_at_once_both_stay,
    a_patch_and_the_whole_come_in_one_order_or_the_other,
    what_makes_no_sense_together_is_refused,
    what_is_so_already_makes_no_revision,
    what_is_so_already_needs_no_right,
    what_is_so_already_undoes_no_other_change,
    a_ref_goes_with_its_repository,
    a_service_and_its_repository_do_not_wait_for_each_other_crosswise,
    two_changes_of_a_global_service_both_stay,
    a_global_service_stays_valid,
    two_changes_of_a_managed_namespace_both_stay,
    a_managed_namespace_gets_one_service,
);

/// How often two race: they meet in between each other's steps now here, now there.
const ROUNDS: u32 = 20;

fn patch(json: Value) -> ServiceChange {
    let patch = serde_json::from_value(json).unwrap();
    ServiceChange { sync_config: Some(Edit::Patch(patch)), ..ServiceChange::default() }
}

async fn service(door: &Door) -> Service {
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    door.service(&made.cluster, &repository, "web").await
}

async fn update(door: &Door, service: &Service, change: ServiceChange) -> Result<Service, Error> {
    door.app.service_update(&door.admin, &service_id(service), change).await
}

async fn now(door: &Door, service: &Service) -> Service {
    door.app.get::<Service>(&door.admin, &service_id(service)).await.unwrap()
}

async fn two_settings_at_once_both_stay(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service(&door).await;
    for round in 1..=ROUNDS {
        let (one, other) = tokio::join!(
            update(&door, &service, patch(json!({"policy": {"prunePercent": round}}))),
            update(&door, &service, patch(json!({"policy": {"retryLimit": round}}))),
        );
        assert_ne!(one.unwrap().revision_id, other.unwrap().revision_id);
        let SyncPolicy { prune_percent, retry_limit, .. } = now(&door, &service).await.sync_config.policy;
        assert_eq!((prune_percent, retry_limit), (Some(round), Some(round)));
    }
    let all = PageArgs { first: Some(100), ..PageArgs::default() };
    let revisions = door.app.service_revisions(&door.admin, service.id, &all).await.unwrap();
    let events = door.app.service_events(&door.admin, service.id, &all).await.unwrap();
    let updates = events.edges.iter().filter(|edge| edge.node.entry.action == "service.update");
    assert_eq!((revisions.edges.len(), updates.count()), (41, 40));
}

async fn a_patch_and_the_whole_come_in_one_order_or_the_other(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service(&door).await;
    let whole = SyncConfig {
        policy: SyncPolicy { prune_percent: Some(1), retry_limit: Some(1), ..SyncPolicy::default() },
        ..SyncConfig::default()
    };
    for _ in 0..ROUNDS {
        let change =
            ServiceChange { sync_config: Some(Edit::Replace(whole.clone())), ..ServiceChange::default() };
        let (one, other) = tokio::join!(
            update(&door, &service, change),
            update(&door, &service, patch(json!({"policy": {"retryLimit": 2, "pruneObjects": 2}}))),
        );
        one.unwrap();
        other.unwrap();
        let policy = now(&door, &service).await.sync_config.policy;
        let after = SyncPolicy { retry_limit: Some(2), prune_objects: Some(2), ..whole.policy.clone() };
        assert!(policy == whole.policy || policy == after, "{policy:?}");
    }
}

async fn what_makes_no_sense_together_is_refused(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service(&door).await;
    for _ in 0..ROUNDS {
        let start = patch(json!({"policy": {"retryWait": "5s", "retryMaxWait": null}}));
        update(&door, &service, start).await.unwrap();
        // Either is valid with what there is, and not with the other.
        let (one, other) = tokio::join!(
            update(&door, &service, patch(json!({"policy": {"retryMaxWait": "1h"}}))),
            update(&door, &service, patch(json!({"policy": {"retryWait": null}}))),
        );
        let fields: Vec<String> = [one, other]
            .into_iter()
            .filter_map(Result::err)
            .map(|error| match error {
                Error::Invalid { field, .. } => field.into_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(fields, ["syncConfig.policy.retryMaxWait"]);
        now(&door, &service).await.sync_config.check().unwrap();
    }
}

async fn what_is_so_already_makes_no_revision(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (_, service, told, _) = deployed(&door, "blue").await;
    // From here on only people change it.
    door.stop().await;
    let source = SourceRef {
        path: "lib".into(),
        repository_id: service.repository_id.unwrap(),
        git: service.git.clone().unwrap(),
    };
    let kustomize = Kustomize { path: "overlay".into(), enable_helm: false, envsubst: false };
    let rendering = RenderingChange {
        kustomize: Change::Set(kustomize),
        sources: Change::Set(vec![source]),
        ..RenderingChange::default()
    };
    let first = patch(json!({"createNamespace": false, "policy": {"waveTimeout": "5m", "pruneObjects": 3}}));
    let first = ServiceChange { rendering: rendering.clone(), templated: Some(false), ..first };
    let changed = update(&door, &service, first).await.unwrap();
    assert_ne!(changed.revision_id, service.revision_id);

    // The whole object as it is shown, and with it what nobody can see to be missing.
    let shown = serde_json::to_value(&changed.sync_config).unwrap();
    let whole = ServiceChange {
        repository_id: changed.repository_id,
        git: changed.git.clone(),
        rendering,
        dry_run: Some(changed.dry_run),
        templated: Some(changed.templated),
        version: Some(changed.version.clone()),
        protect: Some(changed.protect),
        ..patch(shown)
    };
    let again = update(&door, &service, whole.clone()).await.unwrap();
    assert_eq!(again.revision_id, changed.revision_id);
    assert_eq!(again.sync_config, changed.sync_config);

    // A pinned service takes it, too, and nothing else.
    let selector = service_id(&service);
    let at = told.revision_id;
    door.app.service_rollback(&door.admin, &selector, at, PinUntil::Release).await.unwrap();
    let pinned = update(&door, &service, whole.clone()).await.unwrap();
    assert_eq!((pinned.revision_id, pinned.pin.is_some()), (at, true));
    for other in [
        ServiceChange { dry_run: Some(true), ..whole.clone() },
        ServiceChange {
            rendering: RenderingChange { kustomize: Change::Clear, ..whole.rendering.clone() },
            ..whole
        },
        patch(json!({"policy": {"pruneObjects": null}})),
    ] {
        let refused = update(&door, &service, other).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    let revisions = door.app.service_revisions(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    assert_eq!(revisions.edges.last().unwrap().node.id, changed.revision_id);
}

/// What a client sends that sends whole objects.
fn as_shown(service: &Service) -> ServiceChange {
    ServiceChange {
        repository_id: service.repository_id,
        git: service.git.clone(),
        sync_config: Some(Edit::Replace(service.sync_config.clone())),
        version: Some(service.version.clone()),
        dry_run: Some(service.dry_run),
        templated: Some(service.templated),
        ..ServiceChange::default()
    }
}

async fn limit_repositories(door: &Door, allowed: &[&str]) {
    let project = ProjectSelector::Id(door.default_project().await.id);
    let repositories = allowed.iter().map(|url| (*url).to_owned()).collect();
    let limits = ProjectLimits { repositories, ..ProjectLimits::default() };
    door.app.project_limits_set(&door.admin, &project, &limits).await.unwrap();
}

async fn what_is_so_already_needs_no_right(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let hidden = door.project("hidden").await;
    let new = NewRepository {
        url: "https://example.com/a".parse().unwrap(),
        project_id: Some(hidden.id),
        web: plural_core::web_address::WebAddress::default(),
    };
    let repository = door.app.repository_create(&door.admin, new, NewCredentials::default()).await.unwrap();
    let service = door.service(&made.cluster, &repository, "web").await;
    let user = door.user("writer").await;
    let writes = BindingsChange { write: Some(vec![subject(&user)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, service.id, writes).await.unwrap();
    let ctx = door.as_user(&user).await;
    let update = async |change| door.app.service_update(&ctx, &service_id(&service), change).await;
    // Neither may this user read the repository, nor is it allowed any more.
    limit_repositories(&door, &["https://other.example.com/*"]).await;
    let again = update(as_shown(&service)).await.unwrap();
    assert_eq!((again.revision_id, again.git.as_ref()), (service.revision_id, service.git.as_ref()));
    let protected = update(ServiceChange { protect: Some(true), ..as_shown(&service) }).await.unwrap();
    assert_eq!((protected.revision_id, protected.protect), (service.revision_id, true));
    // What is not so needs the right.
    let moved = ServiceChange { git: Some(GitRef::new("main", "other", &[]).unwrap()), ..as_shown(&service) };
    let refused = update(moved.clone()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. } | Error::Forbidden { .. })), "{refused:?}");
    let refused = door.app.service_update(&door.admin, &service_id(&service), moved).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    assert_eq!(now(&door, &service).await.revision_id, service.revision_id);
}

/// One sends a service back as it is shown, from a repository that is no longer allowed, while somebody moves it away from there.
async fn what_is_so_already_undoes_no_other_change(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service(&door).await;
    let other = door.repository("https://other.example.com/a").await;
    let moved = ServiceChange { repository_id: Some(other.id), ..ServiceChange::default() };
    for _ in 0..ROUNDS {
        limit_repositories(&door, &[]).await;
        update(&door, &service, as_shown(&service)).await.unwrap();
        limit_repositories(&door, &["https://other.example.com/*"]).await;
        let (again, moved) = tokio::join!(
            update(&door, &service, as_shown(&service)),
            update(&door, &service, moved.clone()),
        );
        moved.unwrap();
        assert!(matches!(again, Ok(_) | Err(Error::Forbidden { .. })), "{again:?}");
        assert_eq!(now(&door, &service).await.repository_id, Some(other.id));
    }
}

/// One moves a service to another repository and names the ref that it has there, too, while somebody gives it another ref where
/// it is.
async fn a_ref_goes_with_its_repository(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service(&door).await;
    let other = door.repository("https://other.example.com/a").await;
    let dev = GitRef::new("dev", "web", &[]).unwrap();
    let elsewhere = ServiceChange { repository_id: Some(other.id), ..as_shown(&service) };
    let another = ServiceChange { git: Some(dev.clone()), ..as_shown(&service) };
    for _ in 0..ROUNDS {
        update(&door, &service, as_shown(&service)).await.unwrap();
        let (moved, changed) = tokio::join!(
            update(&door, &service, elsewhere.clone()),
            update(&door, &service, another.clone()),
        );
        moved.unwrap();
        changed.unwrap();
        let found = now(&door, &service).await;
        let found = (found.repository_id, found.git);
        let last = [(Some(other.id), service.git.clone()), (service.repository_id, Some(dev.clone()))];
        assert!(last.contains(&found), "{found:?}");
    }
}

/// On PostgreSQL one of those who wait for each other is told that the database is busy.
async fn a_service_and_its_repository_do_not_wait_for_each_other_crosswise(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service(&door).await;
    let (selector, repository_id) = (service_id(&service), service.repository_id.unwrap());
    // A new address renews the services of projects with limits.
    limit_repositories(&door, &["https://example.com/*"]).await;
    for round in 0..ROUNDS {
        let address = format!("https://example.com/a-{round}").parse().unwrap();
        let address = RepositoryChange {
            url: Some(address),
            web: plural_core::web_address::WebAddressChange::default(),
        };
        let source =
            SourceRef { path: format!("lib-{round}"), repository_id, git: service.git.clone().unwrap() };
        let rendering = RenderingChange { sources: Change::Set(vec![source]), ..RenderingChange::default() };
        let (marked, moved, changed) = tokio::join!(
            door.app.service_agent_upgrade(&door.admin, &selector, true),
            door.app.repository_update(&door.admin, repository_id, &address, NewCredentials::default()),
            update(&door, &service, ServiceChange { rendering, ..ServiceChange::default() }),
        );
        for error in [marked.err(), moved.err(), changed.err()].into_iter().flatten() {
            // It was marked in between.
            assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
        }
        door.app.service_agent_upgrade(&door.admin, &selector, false).await.unwrap();
    }
}

fn template(repository: &Repository) -> ServiceTemplate {
    let new = new_service(repository, "web");
    ServiceTemplate { repository_id: new.repository_id, git: new.git, ..ServiceTemplate::default() }
}

async fn global(door: &Door, repository: &Repository) -> GlobalService {
    let source = GlobalServiceSource::Template(Box::new(template(repository)), TemplateSecrets::default());
    let new = NewGlobalService {
        name: "web".parse().unwrap(),
        project_id: None,
        spec: GlobalServiceSpec::default(),
        source,
    };
    door.app.global_service_create(&door.admin, new).await.unwrap()
}

async fn change_global(
    door: &Door,
    global: &GlobalService,
    change: GlobalServiceChange,
) -> Result<GlobalService, Error> {
    let selector = GlobalServiceSelector::Id(global.id);
    door.app.global_service_update(&door.admin, &selector, change).await
}

async fn two_changes_of_a_global_service_both_stay(database: TestDatabase) {
    let door = Door::new(database).await;
    let repository = door.repository("https://example.com/a").await;
    let global = global(&door, &repository).await;
    for round in 1..=ROUNDS {
        let spreads = |spec| GlobalServiceChange { spec, template: None };
        let tags: std::collections::BTreeMap<_, _> = [("round".to_owned(), round.to_string())].into();
        let rollout = RolloutStrategy {
            cohorts: Vec::new(),
            max_unavailable: Share::Count(1),
            soak_seconds: round,
            timeout_seconds: 600,
            max_failures: 0,
            undo: false,
        };
        let tagged =
            GlobalServiceSpecChange { tags: Some(tags.clone()), ..GlobalServiceSpecChange::default() };
        let rolled = GlobalServiceSpecChange {
            rollout: Change::Set(rollout.clone()),
            ..GlobalServiceSpecChange::default()
        };
        let (one, other) = tokio::join!(
            change_global(&door, &global, spreads(tagged)),
            change_global(&door, &global, spreads(rolled)),
        );
        one.unwrap();
        other.unwrap();
        let selector = GlobalServiceSelector::Id(global.id);
        let now = door.app.get::<GlobalService>(&door.admin, &selector).await.unwrap();
        assert_eq!((now.spec.target.tags, now.spec.rollout), (tags, Some(rollout)));
    }
}

async fn a_global_service_stays_valid(database: TestDatabase) {
    let door = Door::new(database).await;
    let repository = door.repository("https://example.com/a").await;
    let global = global(&door, &repository).await;
    let context = |context| GlobalServiceSpecChange { context, ..GlobalServiceSpecChange::default() };
    let data: serde_json::Map<String, Value> = [("word".to_owned(), json!("shop"))].into_iter().collect();
    let plain = template(&repository);
    let expanded = ServiceTemplate { dependencies: vec!["{{ context.word }}".to_owned()], ..plain.clone() };
    let of = |template: &ServiceTemplate| Some((Box::new(template.clone()), TemplateSecrets::default()));
    for _ in 0..ROUNDS {
        let start = GlobalServiceChange { spec: context(Change::Set(data.clone())), template: of(&plain) };
        change_global(&door, &global, start).await.unwrap();
        // Templates need data, and without them it may go.
        let takes = GlobalServiceChange { spec: context(Change::Clear), template: None };
        let writes =
            GlobalServiceChange { spec: GlobalServiceSpecChange::default(), template: of(&expanded) };
        let (one, other) =
            tokio::join!(change_global(&door, &global, takes), change_global(&door, &global, writes));
        let refused: Vec<Error> = [one, other].into_iter().filter_map(Result::err).collect();
        assert!(matches!(refused[..], [Error::Invalid { .. }]), "{refused:?}");
        let selector = GlobalServiceSelector::Id(global.id);
        let now = door.app.get::<GlobalService>(&door.admin, &selector).await.unwrap();
        assert_eq!(now.spec.context.is_some(), !now.template.dependencies.is_empty());
    }
}

async fn managed(door: &Door) -> ManagedNamespace {
    let new = NewManagedNamespace {
        name: "team".parse().unwrap(),
        namespace: None,
        description: None,
        project_id: None,
        spec: ManagedNamespaceSpec::default(),
        service: None,
    };
    door.app.managed_namespace_create(&door.admin, new).await.unwrap()
}

async fn change_managed(
    door: &Door,
    managed: &ManagedNamespace,
    change: ManagedNamespaceChange,
) -> Result<ManagedNamespace, Error> {
    let selector = ManagedNamespaceSelector::Id(managed.id);
    door.app.managed_namespace_update(&door.admin, &selector, change).await
}

async fn two_changes_of_a_managed_namespace_both_stay(database: TestDatabase) {
    let door = Door::new(database).await;
    let managed = managed(&door).await;
    for round in 1..=ROUNDS {
        let labels: std::collections::BTreeMap<_, _> = [("round".to_owned(), round.to_string())].into();
        let cascade = if round % 2 == 0 { Cascade::Delete } else { Cascade::Detach };
        let spec = |spec| ManagedNamespaceChange { spec, ..ManagedNamespaceChange::default() };
        let none = ManagedNamespaceSpecChange::default;
        let described = ManagedNamespaceChange {
            description: Some(format!("round {round}")),
            ..ManagedNamespaceChange::default()
        };
        let (one, two, three) = tokio::join!(
            change_managed(
                &door,
                &managed,
                spec(ManagedNamespaceSpecChange { labels: Some(labels.clone()), ..none() })
            ),
            change_managed(
                &door,
                &managed,
                spec(ManagedNamespaceSpecChange { cascade: Some(cascade), ..none() })
            ),
            change_managed(&door, &managed, described),
        );
        for changed in [one, two, three] {
            changed.unwrap();
        }
        let selector = ManagedNamespaceSelector::Id(managed.id);
        let now = door.app.get::<ManagedNamespace>(&door.admin, &selector).await.unwrap();
        assert_eq!((&now.spec.content.labels, now.spec.cascade), (&labels, cascade));
        assert_eq!(now.description, Some(format!("round {round}")));
        // What holds the namespace follows from the same.
        let holder = GlobalServiceSelector::Id(now.holder.unwrap());
        let system = door.app.ctx(plural_core::access::Actor::System);
        let holder = door.app.get::<GlobalService>(&system, &holder).await.unwrap();
        assert_eq!(holder.template.rendering.managed_namespace.unwrap().labels, labels);
        assert_eq!(holder.spec, now.spec.of_holder());
    }
}

async fn a_managed_namespace_gets_one_service(database: TestDatabase) {
    let door = Door::new(database).await;
    let repository = door.repository("https://example.com/a").await;
    let managed = managed(&door).await;
    let service = |name: &str| {
        let template = ServiceTemplate { name: Some(name.into()), ..template(&repository) };
        let service = Change::Set((Box::new(template), TemplateSecrets::default()));
        ManagedNamespaceChange { service, ..ManagedNamespaceChange::default() }
    };
    let (one, other) = tokio::join!(
        change_managed(&door, &managed, service("one")),
        change_managed(&door, &managed, service("other")),
    );
    let made: Vec<String> = [one, other]
        .into_iter()
        .filter_map(|outcome| match outcome {
            Ok(managed) => Some(managed.service.unwrap().1.name.unwrap()),
            // Before it was locked the service was there, or not: its name cannot change, or nobody knew of it.
            Err(Error::Conflict { .. } | Error::Invalid { .. }) => None,
            Err(other) => panic!("{other:?}"),
        })
        .collect();
    let selector = ManagedNamespaceSelector::Id(managed.id);
    let now = door.app.get::<ManagedNamespace>(&door.admin, &selector).await.unwrap();
    assert_eq!(made, [now.service.unwrap().1.name.unwrap()]);
}
