//! Clusters.

use std::collections::BTreeMap;

use plural_app::agent::AgentFacts;
use plural_app::agent_poll::PollAsked;
use plural_app::cluster::{ClusterFilter, ClusterSelector};
use plural_app::ports::agents::AgentStore as _;
use plural_app::repository::RepositorySelector;
use plural_core::cluster::{Cluster, ClusterChange, ClusterDistro, ClusterFacts, NewCluster, TagsChange};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::repository::{Repository, RepositoryChange};
use plural_core::service::{Service, ServiceChange};
use plural_core::work::Contract;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::door::{Door, by_id, eventually, service_id};

each_database!(
    what_is_given_comes_back,
    tags_find_clusters,
    a_rotated_token_ends_at_once,
    a_cluster_without_services_goes_at_once_and_one_with_them_drains,
    signs_of_life_are_kept,
    an_agent_is_sent_what_templates_read_of_its_cluster_when_that_changes,
    repositories_in_use_stay,
    local_folders_are_refused_unless_allowed,
);

async fn what_is_given_comes_back(database: TestDatabase) {
    let door = Door::new(database).await;
    let new = NewCluster {
        tags: BTreeMap::from([("env".into(), "prod".into()), ("tier".into(), "1".into())]),
        metadata: serde_json::from_str(r#"{"a": {"b": [1, null]}}"#).unwrap(),
        distro: Some(ClusterDistro::K3s),
        version: Some("1.36".into()),
        ..NewCluster::named("My Cluster".parse().unwrap())
    };
    let made = door.app.cluster_create(&door.admin, new.clone()).await.unwrap();
    assert!(made.deploy_token.expose_secret().starts_with("deploy-"));
    let handle = ClusterSelector::Handle("my-cluster".parse().unwrap());
    let cluster = door.app.get::<Cluster>(&door.admin, &handle).await.unwrap();
    assert_eq!(cluster, made.cluster);
    assert_eq!((&cluster.tags, &cluster.metadata), (&new.tags, &new.metadata));
    let change = ClusterChange {
        tags: TagsChange::All(BTreeMap::from([("env".into(), "dev".into())])),
        protect: Some(true),
        ..ClusterChange::default()
    };
    let changed = door.app.cluster_update(&door.admin, &handle, &change).await.unwrap();
    assert_eq!(changed.name, cluster.name);
    assert_eq!(changed.tags.len(), 1);
    assert!(changed.protect);
    let error = door.app.cluster_delete(&door.admin, &handle).await.unwrap_err();
    assert!(error.to_string().contains("protected"), "{error}");
}

async fn tags_find_clusters(database: TestDatabase) {
    let door = Door::new(database).await;
    for (name, env, tier) in [("a", "prod", "1"), ("b", "prod", "2"), ("c", "dev", "1")] {
        let new = NewCluster {
            tags: BTreeMap::from([("env".into(), env.into()), ("tier".into(), tier.into())]),
            ..NewCluster::named(name.parse().unwrap())
        };
        door.app.cluster_create(&door.admin, new).await.unwrap();
    }
    let find = async |tags: &[(&str, &str)], any_tag| {
        let tags = tags.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let filter = ClusterFilter { tags, any_tag, ..ClusterFilter::default() };
        let page = door.app.list::<Cluster>(&door.admin, &filter, &PageArgs::default()).await.unwrap();
        page.into_nodes().into_iter().map(|c| c.handle.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(find(&[("env", "prod")], false).await, ["a", "b"]);
    assert_eq!(find(&[("env", "prod"), ("tier", "1")], false).await, ["a"]);
    assert_eq!(find(&[("env", "dev"), ("tier", "2")], true).await, ["b", "c"]);
    assert!(find(&[("env", "x")], false).await.is_empty());
}

async fn a_rotated_token_ends_at_once(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let old = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let mut hints = door.app.agent_hints(&old, None).unwrap();
    let rotated = door.app.cluster_token_rotate(&door.admin, &by_id(&made.cluster)).await.unwrap();
    assert!(door.app.agent_authenticate(made.deploy_token.expose_secret()).is_err());
    assert!(!old.is_current());
    assert!(matches!(door.app.agent_poll(&old, &PollAsked::at(None)).await, Err(Error::Unauthenticated)));
    assert_eq!(hints.next().await, None);
    let fresh = door.app.agent_authenticate(rotated.deploy_token.expose_secret()).unwrap();
    assert!(door.app.agent_poll(&fresh, &PollAsked::at(None)).await.is_ok());
}

async fn a_cluster_without_services_goes_at_once_and_one_with_them_drains(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let empty = door.cluster("empty").await;
    let deleted = door.app.cluster_delete(&door.admin, &by_id(&empty.cluster)).await.unwrap();
    assert!(deleted.deleted_at.is_some());
    assert!(door.app.get::<Cluster>(&door.admin, &by_id(&empty.cluster)).await.is_err());

    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&made.cluster, &repository, "web").await;
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let deleting = door.app.cluster_delete(&door.admin, &by_id(&made.cluster)).await.unwrap();
    assert!(deleting.deleted_at.is_some());
    let error = door
        .app
        .service_update(&door.admin, &service_id(&service), ServiceChange::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("being deleted"), "{error}");
    let new = crate::door::new_service(&repository, "late");
    assert!(door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.is_err());

    let spec = eventually(async || {
        let answer = door.app.agent_poll(&agent, &PollAsked::at(None)).await.map_err(|e| e.to_string())?;
        match answer.services.as_slice() {
            [spec] if spec.intent == plural_core::service::Intent::Destroy => Ok(spec.clone()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let report = plural_app::agent::AgentReport {
        id: 1,
        services: vec![crate::agent::reported(&spec, |said| said.destroyed = true)],
        facts: None,
    };
    door.app.agent_report(&agent, report).await.unwrap();
    assert!(door.app.get::<Service>(&door.admin, &service_id(&service)).await.is_err());
    assert!(door.app.get::<Cluster>(&door.admin, &by_id(&made.cluster)).await.is_err());
    let gone = eventually(async || door.app.agent_poll(&agent, &PollAsked::at(None)).await.is_err()).await;
    let () = gone;
    let rows = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let actions: Vec<_> = rows.iter().map(|row| row.entry.action.as_ref()).collect();
    assert!(actions.ends_with(&["cluster.delete", "service.destroyed", "cluster.drained"]), "{actions:?}");
    door.stop().await;
}

async fn signs_of_life_are_kept(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let facts = AgentFacts {
        issuer: IssuerReport::Untold,
        facts: ClusterFacts {
            current_version: Some("v1.36.2".into()),
            agent_version: Some("0.1.0".into()),
            node_count: Some(3),
            pod_count: Some(40),
            namespace_count: Some(5),
        },
        distro: Some(ClusterDistro::Eks),
    };
    door.app.agent_ping(&agent, Some(facts.clone())).unwrap();
    door.app.agent_ping(&agent, None).unwrap();
    door.start();
    let cluster = eventually(async || {
        let cluster = door.app.get::<Cluster>(&door.admin, &by_id(&made.cluster)).await.unwrap();
        cluster.pinged_at.is_some().then_some(cluster)
    })
    .await;
    assert_eq!(cluster.facts, facts.facts);
    assert_eq!(cluster.distro, Some(ClusterDistro::Eks));
    assert!(cluster.is_healthy(chrono::Utc::now()));
    assert_eq!(cluster.agent_is_outdated(), None, "no agent has polled yet");
    // With what is said at each poll: an agent that is updated is no longer shown as one to be updated.
    for (contract, is_outdated) in [(Contract::SERVICES, true), (Contract::NEWEST, false)] {
        door.app.agent_speaks(&agent, contract);
        door.app.agent_ping(&agent, None).unwrap();
        let cluster = eventually(async || {
            let cluster = door.app.get::<Cluster>(&door.admin, &by_id(&made.cluster)).await.unwrap();
            (cluster.agent_is_outdated() == Some(is_outdated)).then_some(cluster)
        })
        .await;
        assert_eq!((cluster.agent_contract, &cluster.facts), (Some(contract), &facts.facts));
    }
    door.stop().await;
}

async fn an_agent_is_sent_what_templates_read_of_its_cluster_when_that_changes(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let mut cursor = None;
    let mut told = async |version: &str| {
        eventually(async || {
            let asked = PollAsked::at(cursor.as_ref());
            let answer = door.app.agent_poll(&agent, &asked).await.map_err(|e| e.log_text())?;
            cursor = Some(answer.cursor.clone());
            match answer.cluster {
                Some(data) if data.version == version => Ok(cursor.clone()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    };
    told("").await;
    let change = ClusterChange { version: Some("1.35".into()), ..ClusterChange::default() };
    door.app.cluster_update(&door.admin, &by_id(&made.cluster), &change).await.unwrap();
    told("1.35").await;
    let facts = |nodes| AgentFacts {
        issuer: IssuerReport::Untold,
        facts: ClusterFacts {
            current_version: Some("v1.36.2".into()),
            node_count: Some(nodes),
            ..ClusterFacts::default()
        },
        distro: Some(ClusterDistro::Eks),
    };
    door.app.agent_ping(&agent, Some(facts(3))).unwrap();
    let read = told("v1.36.2").await.unwrap().sequence;
    // Nodes come and go, and no template reads how many there are.
    let before = eventually(async || {
        let batch = door.database.feed_read(read).await.map_err(|e| e.log_text())?;
        if batch.events.is_empty() && !batch.pending { Ok(batch.position) } else { Err(format!("{batch:?}")) }
    })
    .await;
    door.app.agent_ping(&agent, Some(facts(4))).unwrap();
    eventually(async || {
        let cluster = door.app.get::<Cluster>(&door.admin, &by_id(&made.cluster)).await.unwrap();
        cluster.facts.node_count == Some(4)
    })
    .await;
    assert!(door.database.feed_read(before).await.unwrap().events.is_empty());

    // An agent that knows services only gets it with them.
    let first = PollAsked::default();
    assert_eq!(door.app.agent_poll(&agent, &first).await.unwrap().cluster, None);
    let repository = door.repository("https://example.com/a").await;
    door.service(&made.cluster, &repository, "web").await;
    eventually(async || {
        let answer = door.app.agent_poll(&agent, &first).await.unwrap();
        answer.services.len() == 1 && answer.cluster.is_some()
    })
    .await;
    door.stop().await;
}

async fn repositories_in_use_stay(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let again = plural_core::repository::NewRepository {
        url: "https://example.com/a".parse().unwrap(),
        project_id: None,
        web: plural_core::web_address::WebAddress::default(),
    };
    let error = door
        .app
        .repository_create(&door.admin, again, plural_app::repository::NewCredentials::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("repository with this url already exists"), "{error}");
    let service = door.service(&made.cluster, &repository, "web").await;
    let error = door.app.repository_delete(&door.admin, repository.id).await.unwrap_err();
    assert_eq!(error.to_string(), "could not delete repository");
    door.app.service_detach(&door.admin, &service_id(&service)).await.unwrap();
    door.app.repository_delete(&door.admin, repository.id).await.unwrap();
    let found = door
        .app
        .get::<Repository>(&door.admin, &RepositorySelector::Url("https://example.com/a".into()))
        .await;
    assert!(found.is_err());
}

async fn local_folders_are_refused_unless_allowed(database: TestDatabase) {
    let door = Door::new(database).await;
    for url in ["/srv/git/app", "file:///srv/git/app"] {
        let new = plural_core::repository::NewRepository {
            url: url.parse().unwrap(),
            project_id: None,
            web: plural_core::web_address::WebAddress::default(),
        };
        let error = door
            .app
            .repository_create(&door.admin, new, plural_app::repository::NewCredentials::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("--allow-local-repositories"), "{error}");
    }
    let repository = door.repository("https://example.com/a").await;
    let change = RepositoryChange {
        url: Some("/srv/git/app".parse().unwrap()),
        web: plural_core::web_address::WebAddressChange::default(),
    };
    let none = plural_app::repository::NewCredentials::default();
    assert!(door.app.repository_update(&door.admin, repository.id, &change, none).await.is_err());
}
