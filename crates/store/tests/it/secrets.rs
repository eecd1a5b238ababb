//! Secrets at rest: what lies in the database is sealed, and opens only where it belongs.

use plural_app::NewCredentials;
use plural_core::{Configuration, NewRepository, RepositoryChange, ServiceChange};
use secrecy::ExposeSecret;

use crate::door::{by_id, eventually, new_service, on_both, service_id};

const SECRET: &str = "hunter2-hunter2";

fn configuration(value: &str) -> Configuration {
    Configuration([("password".to_owned(), value.to_owned())].into())
}

#[test]
fn nothing_of_a_secret_lies_in_the_file() {
    on_both(|door| async move {
        let made = door.cluster("blue").await;
        let new = NewRepository { url: "https://example.com/a".parse().unwrap(), project_id: None };
        let credentials = NewCredentials { password: Some(SECRET.into()), ..NewCredentials::default() };
        let repository = door.app.repository_create(&door.admin, new, credentials).await.unwrap();
        let mut new = new_service(&repository, "web");
        new.configuration = configuration(SECRET);
        let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
        let read = door.app.service_configuration(&door.admin, service.id).await.unwrap();
        assert_eq!(read, configuration(SECRET));
        if let Some(folder) = door.source.folder() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let bytes = std::fs::read(entry.unwrap().path()).unwrap();
                for secret in [SECRET, made.deploy_token.expose_secret()] {
                    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
                }
            }
        }
    });
}

#[test]
fn a_credential_reaches_git_and_does_not_follow_to_another_host() {
    on_both(|mut door| async move {
        door.start();
        let new = NewRepository { url: "https://example.com/a".parse().unwrap(), project_id: None };
        let credentials = NewCredentials {
            username: Some("ada".into()),
            password: Some(SECRET.into()),
            ..NewCredentials::default()
        };
        let repository = door.app.repository_create(&door.admin, new, credentials).await.unwrap();
        let seen = eventually(async || door.git.seen.lock().unwrap().first().cloned()).await;
        match seen {
            Some(plural_app::GitCredentials::Basic { username, password }) => {
                assert_eq!((username.as_str(), password.expose_secret()), ("ada", SECRET));
            }
            other => panic!("{other:?}"),
        }
        let change = |url: &str| RepositoryChange { url: Some(url.parse().unwrap()) };
        let moved = door
            .app
            .repository_update(
                &door.admin,
                repository.id,
                &change("https://evil.example/a"),
                NewCredentials::default(),
            )
            .await;
        assert!(moved.unwrap_err().to_string().contains("another host"));
        let same = change("https://example.com/b");
        door.app
            .repository_update(&door.admin, repository.id, &same, NewCredentials::default())
            .await
            .unwrap();
        door.stop().await;
    });
}

#[test]
fn a_change_keeps_the_configuration_unless_it_names_one() {
    on_both(|door| async move {
        let made = door.cluster("blue").await;
        let repository = door.repository("https://example.com/a").await;
        let mut new = new_service(&repository, "web");
        new.configuration = configuration("one");
        let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
        let change = ServiceChange { dry_run: Some(true), ..ServiceChange::default() };
        let changed = door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
        assert_ne!(changed.revision_id, service.revision_id);
        assert_eq!(
            door.app.service_configuration(&door.admin, service.id).await.unwrap(),
            configuration("one")
        );
        let change = ServiceChange { configuration: Some(configuration("two")), ..ServiceChange::default() };
        door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
        assert_eq!(
            door.app.service_configuration(&door.admin, service.id).await.unwrap(),
            configuration("two")
        );
    });
}
