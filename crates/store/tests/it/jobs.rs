//! From a commit to a moved service.

use hmac_of::github;
use plural_app::service::ServiceSelector;
use plural_app::webhook::{WebhookProvider, WebhookRequest};
use plural_core::Error;
use plural_core::repository::{GitHealth, Repository};
use plural_core::service::{GitRef, Service, ServiceChange};
use plural_core::status::ServiceStatus;
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, eventually, service_id};
use crate::git::digest;

each_database!(
    a_commit_moves_only_the_services_whose_files_it_touches,
    what_is_missing_is_said_on_the_service_and_the_last_good_artifact_stays,
    a_repository_that_cannot_be_fetched_says_so,
    a_repository_that_hangs_delays_only_itself,
    a_removed_repository_is_forgotten,
    a_webhook_fetches_what_it_names,
    a_deleted_service_is_not_moved,
);

const URL: &str = "https://example.com/team/app";

mod hmac_of {
    use sha2::{Digest, Sha256};

    /// HMAC-SHA-256 from its definition (RFC 2104), so that the test does not trust what it tests.
    pub(super) fn github(secret: &str, body: &[u8]) -> String {
        let mut key = [0_u8; 64];
        key[..secret.len()].copy_from_slice(secret.as_bytes());
        let inner = Sha256::new().chain_update(key.map(|b| b ^ 0x36)).chain_update(body).finalize();
        let outer = Sha256::new().chain_update(key.map(|b| b ^ 0x5c)).chain_update(inner).finalize();
        format!("sha256={}", hex::encode(outer))
    }
}

async fn until(door: &Door, service: &Service, wanted: impl Fn(&Service) -> bool) -> Service {
    eventually(async || {
        let service =
            door.app.get::<Service>(&door.admin, &service_id(service)).await.map_err(|e| e.log_text())?;
        if wanted(&service) { Ok(service) } else { Err(format!("{service:?}")) }
    })
    .await
}

fn at(content: &str) -> impl Fn(&Service) -> bool {
    let digest = digest(content);
    move |service| service.artifact_digest.as_deref() == Some(digest.as_str())
}

async fn a_commit_moves_only_the_services_whose_files_it_touches(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one"), ("api", "two")]);
    let repository = door.repository(URL).await;
    let web = door.service(&made.cluster, &repository, "web").await;
    let api = door.service(&made.cluster, &repository, "api").await;
    let web = until(&door, &web, at("one")).await;
    let api = until(&door, &api, at("two")).await;
    assert_eq!((web.sha.as_deref(), web.message.as_deref()), (Some("c1"), Some("commit c1")));

    door.git.commit(URL, "c2", &[("web", "three")]);
    door.app.repository_kick(&door.admin, repository.id).await.unwrap();
    let moved = until(&door, &web, at("three")).await;
    assert_eq!(moved.sha.as_deref(), Some("c2"));
    assert_ne!(moved.revision_id, web.revision_id);
    let other = door.app.get::<Service>(&door.admin, &service_id(&api)).await.unwrap();
    assert_eq!((other.sequence, other.revision_id), (api.sequence, api.revision_id));
    assert_eq!(door.git.builds(), 3);
    let repository = door
        .app
        .get::<Repository>(&door.admin, &plural_app::repository::RepositorySelector::Id(repository.id))
        .await
        .unwrap();
    assert_eq!(repository.health, Some(GitHealth::Pullable));
    assert!(repository.pulled_at.is_some());
    door.stop().await;
}

async fn what_is_missing_is_said_on_the_service_and_the_last_good_artifact_stays(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    let web = door.service(&made.cluster, &repository, "web").await;
    until(&door, &web, at("one")).await;
    for (git, text, location) in [
        (GitRef::new("main", "nowhere", &[]).unwrap(), "no folder \"nowhere\"", Some("nowhere")),
        (GitRef::new("gone", "web", &[]).unwrap(), "no ref \"gone\"", None),
    ] {
        let change = ServiceChange { git: Some(git), ..ServiceChange::default() };
        door.app.service_update(&door.admin, &service_id(&web), change).await.unwrap();
        let errors = eventually(async || {
            let errors = door.app.service_errors(&door.admin, web.id).await.unwrap();
            errors.iter().any(|error| error.message.contains(text)).then_some(errors)
        })
        .await;
        assert_eq!((errors[0].source.as_str(), errors[0].location.as_deref()), ("git", location));
        let service = door.app.get::<Service>(&door.admin, &service_id(&web)).await.unwrap();
        assert_eq!(service.status, ServiceStatus::Failed);
        assert!(at("one")(&service), "what runs goes on running");
    }
    let git = GitRef::new("main", "web", &[]).unwrap();
    let change = ServiceChange { git: Some(git), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&web), change).await.unwrap();
    until(&door, &web, |service| service.status == ServiceStatus::Stale).await;
    assert!(door.app.service_errors(&door.admin, web.id).await.unwrap().is_empty());
    door.stop().await;
}

async fn a_repository_that_cannot_be_fetched_says_so(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/nothing").await;
    let web = door.service(&made.cluster, &repository, "web").await;
    let failed = until(&door, &web, |service| service.status == ServiceStatus::Failed).await;
    assert_eq!(failed.artifact_digest, None);
    let selector = plural_app::repository::RepositorySelector::Id(repository.id);
    let repository = door.app.get::<Repository>(&door.admin, &selector).await.unwrap();
    assert_eq!(repository.health, Some(GitHealth::Failed));
    assert!(repository.error.unwrap().contains("no repository"));
    // It appears: the next look mends everything.
    door.git.commit("https://example.com/nothing", "c1", &[("web", "one")]);
    door.app.service_kick(&door.admin, &service_id(&web)).await.unwrap();
    let mended = until(&door, &web, at("one")).await;
    assert_eq!(mended.status, ServiceStatus::Stale);
    door.stop().await;
}

async fn a_repository_that_hangs_delays_only_itself(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.git.hang("https://example.com/slow");
    door.start();
    let made = door.cluster("blue").await;
    let slow = door.repository("https://example.com/slow").await;
    let stuck = door.service(&made.cluster, &slow, "stuck").await;
    eventually(async || (door.git.fetches() > 0).then_some(())).await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    let web = door.service(&made.cluster, &repository, "web").await;
    until(&door, &web, at("one")).await;
    let stuck = door.app.get::<Service>(&door.admin, &service_id(&stuck)).await.unwrap();
    assert_eq!(stuck.artifact_digest, None);
    door.stop().await;
}

async fn a_removed_repository_is_forgotten(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    door.git.commit(URL, "c1", &[]);
    let repository = door.repository(URL).await;
    eventually(async || (door.git.fetches() > 0).then_some(())).await;
    door.app.repository_delete(&door.admin, repository.id).await.unwrap();
    eventually(async || door.git.forgotten.lock().contains(&repository.id).then_some(())).await;
    door.stop().await;
}

async fn a_webhook_fetches_what_it_names(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    let web = door.service(&made.cluster, &repository, "web").await;
    until(&door, &web, at("one")).await;
    door.git.commit(URL, "c2", &[("web", "two")]);
    let body = br#"{"repository": {"ssh_url": "git@example.com:team/app.git"}}"#;
    let signature = github("webhook secret", body);
    let ask = async |provider, signature: &str, body: &[u8]| {
        door.app.webhook_receive(&WebhookRequest { provider, signature, body, about: None }).await
    };
    assert!(matches!(ask(WebhookProvider::Github, "sha256=00", body).await, Err(Error::Unauthenticated)));
    assert!(matches!(ask(WebhookProvider::Gitlab, "wrong", body).await, Err(Error::Unauthenticated)));
    assert_eq!(ask(WebhookProvider::Github, &signature, body).await.unwrap(), 1);
    until(&door, &web, at("two")).await;
    let elsewhere = br#"{"project": {"git_http_url": "https://example.com/other"}}"#;
    assert_eq!(ask(WebhookProvider::Gitlab, "webhook secret", elsewhere).await.unwrap(), 0);
    let broken = ask(WebhookProvider::Gitlab, "webhook secret", b"payload=%7B%7D").await.unwrap_err();
    assert!(broken.to_string().contains("application/json"), "{broken}");
    door.stop().await;
}

async fn a_deleted_service_is_not_moved(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one"), ("api", "a")]);
    let repository = door.repository(URL).await;
    let web = door.service(&made.cluster, &repository, "web").await;
    let api = door.service(&made.cluster, &repository, "api").await;
    until(&door, &web, at("one")).await;
    door.app.service_delete(&door.admin, &ServiceSelector::Id(web.id)).await.unwrap();
    door.git.commit(URL, "c2", &[("web", "two"), ("api", "b")]);
    door.app.repository_kick(&door.admin, repository.id).await.unwrap();
    until(&door, &api, at("b")).await;
    let web = door.app.get::<Service>(&door.admin, &service_id(&web)).await.unwrap();
    assert!(at("one")(&web) && web.deleted_at.is_some());
    door.stop().await;
}
