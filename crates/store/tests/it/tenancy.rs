//! Services that upgrade their cluster's agent, and whom limits let services act as.

use plural_app::OpCtx;
use plural_app::agent::AgentHandle;
use plural_app::agent_poll::ServiceSpec;
use plural_app::helm_repository::NewHelmAccess;
use plural_app::project::ProjectSelector;
use plural_app::repository::NewCredentials;
use plural_app::repository_reach::NewReach;
use plural_core::cluster::NewCluster;
use plural_core::dependency::ServiceLinks;
use plural_core::policy::BindingsChange;
use plural_core::project_limits::ProjectLimits;
use plural_core::repository::{GitHealth, Repository, RepositoryChange};
use plural_core::service::{
    GitRef, Helm, HelmConfig, HelmValues, NewService, RenderingChange, Service, ServiceChange, SourceRef,
};
use plural_core::service_context::ServiceContextChange;
use plural_core::specs::{Change, Edit, SyncConfig};
use plural_core::sync::SyncRequest;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{deployed, poll_until};
use crate::door::{Door, by_id, eventually, new_service, service_id, subject};

each_database!(
    an_agents_upgrade_is_changed_by_administrators_of_the_installation_only,
    so_is_what_an_agents_upgrade_is_read_from,
    a_mark_counts_for_what_was_allowed_before_it,
    chart_repositories_of_a_project_are_seen_by_its_people,
    the_trouble_of_a_chart_repository_is_its_own,
    a_project_gives_an_account_to_services_that_name_none,
);

async fn spec(door: &Door, agent: &AgentHandle, wanted: impl Fn(&ServiceSpec) -> bool) -> ServiceSpec {
    let answer = poll_until(door, agent, None, |answer| answer.services.iter().any(&wanted)).await;
    answer.services.into_iter().find(|spec| wanted(spec)).unwrap()
}

async fn an_agents_upgrade_is_changed_by_administrators_of_the_installation_only(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, _, _) = deployed(&door, "blue").await;
    let project = door.default_project().await;
    let user = door.user("owner").await;
    let admins = BindingsChange { admin: Some(vec![subject(&user)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, project.id, admins).await.unwrap();
    let owner = door.as_user(&user).await;
    let id = service_id(&service);

    // Who administers the project may not mark it, nor take a mark off.
    for marked in [true, false] {
        let refused = door.app.service_agent_upgrade(&owner, &id, marked).await;
        assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    }
    let change = ServiceChange { version: Some("1.2.3".to_owned()), ..ServiceChange::default() };
    door.app.service_update(&owner, &id, change.clone()).await.unwrap();

    let marked = door.app.service_agent_upgrade(&door.admin, &id, true).await.unwrap();
    assert!(marked.agent_upgrade && marked.sequence > service.sequence);
    assert!(spec(&door, &agent, |spec| spec.agent_upgrade).await.sequence >= marked.sequence);
    // It is seen as before, and changed by nobody else, by no way.
    let seen = door.app.get::<Service>(&owner, &id).await.unwrap();
    assert!(seen.agent_upgrade);
    let refusals = [
        door.app.service_update(&owner, &id, change.clone()).await.err(),
        door.app.service_delete(&owner, &id).await.err(),
        door.app.service_detach(&owner, &id).await.err(),
        door.app.service_pause(&owner, &id).await.err(),
        door.app.service_kick(&owner, &id).await.err(),
        door.app.service_sync(&owner, &id, SyncRequest::default()).await.err(),
        door.app.service_configuration(&owner, service.id).await.err(),
        door.app.service_agent_upgrade(&owner, &id, false).await.err(),
    ];
    for (number, refused) in refusals.into_iter().enumerate() {
        assert!(matches!(refused, Some(Error::Forbidden { .. })), "{number}: {refused:?}");
    }
    let refused = door.app.service_update(&owner, &id, change.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("upgrade of its cluster's agent"), "{refused}");
    // Nor by bindings of its own, which would let somebody write it.
    let own = BindingsChange { write: Some(vec![subject(&user)]), ..BindingsChange::default() };
    let refused = door.app.binding_replace(&owner, service.id, own).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    door.app.service_update(&door.admin, &id, change).await.unwrap();

    // A cluster has one, which says so itself; it may be marked again.
    let repository = door.repository("https://example.com/other").await;
    let cluster = plural_app::cluster::ClusterSelector::Id(service.cluster_id);
    let other =
        door.app.service_create(&door.admin, &cluster, new_service(&repository, "other")).await.unwrap();
    let refused = door.app.service_agent_upgrade(&door.admin, &service_id(&other), true).await.unwrap_err();
    assert!(refused.to_string().contains(service.name.as_str()), "{refused}");
    door.app.service_agent_upgrade(&door.admin, &id, true).await.unwrap();
    let green = door.cluster("green").await;
    let there =
        door.app.service_create(&door.admin, &by_id(&green.cluster), new_service(&repository, "x")).await;
    door.app.service_agent_upgrade(&door.admin, &service_id(&there.unwrap()), true).await.unwrap();

    door.app.service_agent_upgrade(&door.admin, &id, false).await.unwrap();
    spec(&door, &agent, |spec| spec.id == service.id && !spec.agent_upgrade).await;
    door.app.service_pause(&owner, &id).await.unwrap();
    let events = door.app.service_events(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    let actions: Vec<&str> = events.edges.iter().map(|edge| edge.node.entry.action.as_ref()).collect();
    for action in ["service.agent_upgrade.mark", "service.agent_upgrade.unmark"] {
        assert!(actions.contains(&action), "{actions:?}");
    }
}

async fn so_is_what_an_agents_upgrade_is_read_from(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let own = door.repository("https://example.com/agent").await;
    let further = door.repository("https://example.com/further").await;
    let other = door.repository("https://example.com/other").await;
    let service = door.service(&made.cluster, &own, "agent").await;
    let id = service_id(&service);
    let document = || ServiceContextChange {
        configuration: Some([("a".to_owned(), "b".into())].into_iter().collect()),
        ..ServiceContextChange::default()
    };
    let (read, unread) = ("read".parse().unwrap(), "unread".parse().unwrap());
    let context = door.app.context_save(&door.admin, read, document()).await.unwrap();
    door.app.context_save(&door.admin, unread, document()).await.unwrap();
    let git = GitRef::new("main", "lib", &[]).unwrap();
    let source = SourceRef { path: "lib".to_owned(), repository_id: further.id, git };
    let change = ServiceChange {
        rendering: RenderingChange { sources: Change::Set(vec![source]), ..RenderingChange::default() },
        links: ServiceLinks { contexts: Some(vec![context.id]), ..ServiceLinks::default() },
        ..ServiceChange::default()
    };
    door.app.service_update(&door.admin, &id, change).await.unwrap();

    let user = door.user("owner").await;
    let project = door.default_project().await;
    let admins = BindingsChange { admin: Some(vec![subject(&user)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, project.id, admins).await.unwrap();
    let owner = door.as_user(&user).await;
    let proxied = || NewCredentials {
        reach: NewReach { proxy: Some("http://proxy.example.com:3128".into()), ..NewReach::default() },
        ..NewCredentials::default()
    };
    let update = async |ctx: &OpCtx, repository: &Repository| {
        door.app.repository_update(ctx, repository.id, &RepositoryChange::default(), proxied()).await
    };
    let save =
        async |ctx: &OpCtx, name: &str| door.app.context_save(ctx, name.parse().unwrap(), document()).await;
    for repository in [&own, &further, &other] {
        update(&owner, repository).await.unwrap();
    }
    save(&owner, "read").await.unwrap();

    door.app.service_agent_upgrade(&door.admin, &id, true).await.unwrap();
    let refusals = [
        update(&owner, &own).await.err(),
        update(&owner, &further).await.err(),
        door.app.repository_delete(&owner, own.id).await.err(),
        door.app.repository_delete(&owner, further.id).await.err(),
        save(&owner, "read").await.err(),
        door.app.context_delete(&owner, context.id).await.err(),
    ];
    for (number, refused) in refusals.into_iter().enumerate() {
        let refused = refused.unwrap();
        assert!(matches!(refused, Error::Forbidden { .. }), "{number}: {refused:?}");
        assert!(refused.to_string().contains("upgrade of its cluster's agent"), "{refused}");
    }
    // Nobody else is concerned, and fetching soon changes nothing.
    update(&owner, &other).await.unwrap();
    save(&owner, "unread").await.unwrap();
    door.app.repository_kick(&owner, own.id).await.unwrap();
    update(&door.admin, &own).await.unwrap();
    save(&door.admin, "read").await.unwrap();

    door.app.service_agent_upgrade(&door.admin, &id, false).await.unwrap();
    update(&owner, &own).await.unwrap();
    save(&owner, "read").await.unwrap();
}

/// Whoever was allowed to write waits for the same rows as the mark, and may come after it.
async fn a_mark_counts_for_what_was_allowed_before_it(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let own = door.repository("https://example.com/agent").await;
    let service = door.service(&made.cluster, &own, "agent").await;
    let id = service_id(&service);
    let document = |round: i32| ServiceContextChange {
        configuration: Some([("round".to_owned(), round.into())].into_iter().collect()),
        ..ServiceContextChange::default()
    };
    let name = || "read".parse().unwrap();
    let context = door.app.context_save(&door.admin, name(), document(-1)).await.unwrap();
    let links = ServiceLinks { contexts: Some(vec![context.id]), ..ServiceLinks::default() };
    let change = ServiceChange { links, ..ServiceChange::default() };
    door.app.service_update(&door.admin, &id, change).await.unwrap();
    let user = door.user("owner").await;
    let project = door.default_project().await;
    let admins = BindingsChange { admin: Some(vec![subject(&user)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, project.id, admins).await.unwrap();
    let owner = door.as_user(&user).await;
    let last = PageArgs { last: Some(1), ..PageArgs::default() };

    for round in 0..32 {
        door.app.service_agent_upgrade(&door.admin, &id, false).await.unwrap();
        let write = async {
            match round % 4 {
                0 => {
                    let change = ServiceChange {
                        repository_id: Some(own.id),
                        git: Some(GitRef::new("main", &format!("agent-{round}"), &[]).unwrap()),
                        ..ServiceChange::default()
                    };
                    door.app.service_update(&owner, &id, change).await.map(drop)
                }
                1 => {
                    let proxy = Some(format!("http://proxy-{round}.example.com:3128").into());
                    let reach = NewReach { proxy, ..NewReach::default() };
                    let credentials = NewCredentials { reach, ..NewCredentials::default() };
                    let none = RepositoryChange::default();
                    door.app.repository_update(&owner, own.id, &none, credentials).await.map(drop)
                }
                2 => door.app.context_save(&owner, name(), document(round)).await.map(drop),
                _ => door.app.service_pause(&owner, &id).await.map(drop),
            }
        };
        let mark = door.app.service_agent_upgrade(&door.admin, &id, true);
        // Whoever asks first gets it more often: both do.
        let (marked, written) = if round % 8 < 4 {
            tokio::join!(mark, write)
        } else {
            let (written, marked) = tokio::join!(write, mark);
            (marked, written)
        };
        assert!(marked.unwrap().agent_upgrade);
        if let Err(refused) = written {
            let is_told = matches!(refused, Error::Forbidden { .. } | Error::Conflict { .. });
            assert!(is_told && refused.to_string().contains("upgrade"), "{round}: {refused:?}");
        }
        // Lines are in the order in which they were written.
        let line = door.app.audit_list(&door.admin, &last).await.unwrap().into_nodes().remove(0);
        assert_eq!(line.entry.action, "service.agent_upgrade.mark", "{round}");
    }
}

async fn chart_repositories_of_a_project_are_seen_by_its_people(database: TestDatabase) {
    let door = Door::new(database).await;
    let (blue, red) = (door.project("blue").await, door.project("red").await);
    let user = door.user("reader").await;
    let readers = BindingsChange { read: Some(vec![subject(&user)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, blue.id, readers).await.unwrap();
    let (reader, stranger) = (door.as_user(&user).await, door.as_user(&door.user("stranger").await).await);
    let url = |name: &str| format!("https://charts.example.com/{name}");
    for (name, project) in [("all", None), ("blue", Some(blue.id)), ("red", Some(red.id))] {
        let access = NewHelmAccess { project: Some(project), ..NewHelmAccess::default() };
        door.app.helm_repository_upsert(&door.admin, &url(name), access).await.unwrap();
    }
    let page = PageArgs::default();
    for (who, expected) in [
        (&door.admin, &["all", "blue", "red"][..]),
        (&reader, &["all", "blue"][..]),
        (&stranger, &["all"][..]),
    ] {
        let listed = door.app.helm_repository_list(who, &page).await.unwrap().into_nodes();
        let mut listed: Vec<String> = listed.iter().map(|one| one.url.to_string()).collect();
        listed.sort();
        assert_eq!(listed, expected.iter().map(|name| url(name)).collect::<Vec<_>>());
        for name in ["all", "blue", "red"] {
            let found = door.app.helm_repository_get(who, &url(name)).await;
            match found {
                Ok(_) => assert!(expected.contains(&name), "{name}"),
                // As one that nobody registered.
                Err(error) => {
                    assert!(!expected.contains(&name), "{name}: {error}");
                    let unknown = door.app.helm_repository_get(who, &url("unknown")).await.unwrap_err();
                    assert_eq!(error.to_string(), unknown.to_string());
                }
            }
        }
    }
    assert!(matches!(
        door.app.helm_repository_list(&door.nobody(), &page).await,
        Err(Error::Unauthenticated)
    ));
}

/// Whose credentials were used is who hears that they were refused.
async fn the_trouble_of_a_chart_repository_is_its_own(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.project("blue").await;
    let (all, own) = ("oci://registry.example.com", "oci://registry.example.com/blue");
    for (url, project) in [(all, None), (own, Some(blue.id))] {
        let access = NewHelmAccess { project: Some(project), ..NewHelmAccess::default() };
        door.app.helm_repository_upsert(&door.admin, url, access).await.unwrap();
    }
    let cluster = NewCluster { project_id: Some(blue.id), ..NewCluster::named("blue".parse().unwrap()) };
    let made = door.app.cluster_create(&door.admin, cluster).await.unwrap();
    let helm = Helm {
        url: Some(all.to_owned()),
        chart: Some("blue".to_owned()),
        version: Some("1.0.0".to_owned()),
        ..Helm::default()
    };
    let config = HelmConfig { helm, values: HelmValues::default() };
    let like = new_service(&door.repository("https://example.com/none").await, "web");
    let rendering = RenderingChange { helm: Change::Set(config), ..RenderingChange::default() };
    let new = NewService { repository_id: None, git: None, rendering, ..like };
    door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    door.start();
    let read = async |url| door.app.helm_repository_get(&door.admin, url).await.unwrap();
    eventually(async || read(own).await.health.ok_or("nobody looked")).await;
    let (own, all) = (read(own).await, read(all).await);
    assert_eq!(
        (own.health, own.error.as_deref()),
        (Some(GitHealth::Failed), Some("there are no charts here"))
    );
    assert_eq!((all.health, all.error), (None, None));
    door.stop().await;
}

async fn a_project_gives_an_account_to_services_that_name_none(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    assert_eq!(told.sync_config.service_account, None);
    let project = door.default_project().await;
    let limits = ProjectLimits {
        require_service_account: true,
        default_service_account: Some("deployer".to_owned()),
        ..ProjectLimits::default()
    };
    let selector = ProjectSelector::Id(project.id);
    door.app.project_limits_set(&door.admin, &selector, &limits).await.unwrap();
    let account = |name: &str| Some(name.to_owned());
    spec(&door, &agent, |spec| spec.sync_config.service_account == account("deployer")).await;
    // What it says itself counts, and stays what it says.
    let named = SyncConfig { service_account: account("own"), ..SyncConfig::default() };
    let change = ServiceChange { sync_config: Some(Edit::Replace(named)), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    spec(&door, &agent, |spec| spec.sync_config.service_account == account("own")).await;
    // Without the default, a service that names none is refused.
    let limits = ProjectLimits { default_service_account: None, ..limits };
    door.app.project_limits_set(&door.admin, &selector, &limits).await.unwrap();
    let repository = door.repository("https://example.com/b").await;
    let cluster = plural_app::cluster::ClusterSelector::Id(service.cluster_id);
    let new = new_service(&repository, "none");
    let refused = door.app.service_create(&door.admin, &cluster, new.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("requireServiceAccount"), "{refused}");
    let sync_config = SyncConfig { service_account: account("own"), ..SyncConfig::default() };
    let new = NewService { sync_config, ..new };
    door.app.service_create(&door.admin, &cluster, new).await.unwrap();
}
