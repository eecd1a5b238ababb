//! Services that upgrade their cluster's agent, and whom limits let services act as.

use plural_app::{AgentHandle, BindingsChange, ProjectSelector, ServiceSpec};
use plural_core::{
    BindingTarget, Error, NewService, PageArgs, ProjectLimits, ServiceChange, SyncConfig, SyncRequest,
};
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{deployed, poll_until};
use crate::door::{Door, by_id, new_service, service_id, subject};

each_database!(
    an_agents_upgrade_is_changed_by_administrators_of_the_installation_only,
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
    door.app.binding_replace(&door.admin, BindingTarget::Project(project.id), admins).await.unwrap();
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
    let seen = door.app.service_get(&owner, &id).await.unwrap();
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
    let refused = door.app.binding_replace(&owner, BindingTarget::Service(service.id), own).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    door.app.service_update(&door.admin, &id, change).await.unwrap();

    // A cluster has one, which says so itself; it may be marked again.
    let repository = door.repository("https://example.com/other").await;
    let cluster = plural_app::ClusterSelector::Id(service.cluster_id);
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
    let change = ServiceChange { sync_config: Some(named), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    spec(&door, &agent, |spec| spec.sync_config.service_account == account("own")).await;
    // Without the default, a service that names none is refused.
    let limits = ProjectLimits { default_service_account: None, ..limits };
    door.app.project_limits_set(&door.admin, &selector, &limits).await.unwrap();
    let repository = door.repository("https://example.com/b").await;
    let cluster = plural_app::ClusterSelector::Id(service.cluster_id);
    let new = new_service(&repository, "none");
    let refused = door.app.service_create(&door.admin, &cluster, new.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("requireServiceAccount"), "{refused}");
    let sync_config = SyncConfig { service_account: account("own"), ..SyncConfig::default() };
    let new = NewService { sync_config, ..new };
    door.app.service_create(&door.admin, &cluster, new).await.unwrap();
}
