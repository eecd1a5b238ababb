//! How much of something a project or a user may have.

use plural_app::repository::NewCredentials;
use plural_core::Error;
use plural_core::cluster::NewCluster;
use plural_core::ids::ProjectId;
use plural_core::repository::NewRepository;
use plural_store::{DatabaseOptions, Quotas};
use plural_testkit::{TestDatabase, each_database};
use std::sync::Arc;

use crate::door::{Door, by_id, new_service};

each_database!(each_quota_is_of_its_own_project_or_user, many_at_once_do_not_pass_a_quota);

async fn door(database: TestDatabase) -> Door {
    let quotas = Quotas { repositories: 3, services: 2, tokens: 2 };
    let options = DatabaseOptions { quotas, ..DatabaseOptions::new("") };
    Door::open_with(Arc::new(database), &options).await
}

fn refused<T: std::fmt::Debug>(made: Result<T, Error>, words: &[&str]) {
    let error = made.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
    let told = error.to_string();
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
}

async fn repository(
    door: &Door,
    project: Option<ProjectId>,
    name: &str,
) -> Result<plural_core::repository::Repository, Error> {
    let url = format!("https://example.com/{name}.git").parse().unwrap();
    let new =
        NewRepository { url, project_id: project, web: plural_core::web_address::WebAddress::default() };
    door.app.repository_create(&door.admin, new, NewCredentials::default()).await
}

async fn each_quota_is_of_its_own_project_or_user(database: TestDatabase) {
    let door = door(database).await;
    let other = door.project("other").await;
    let first = repository(&door, None, "a").await.unwrap();
    repository(&door, None, "b").await.unwrap();
    let third = repository(&door, None, "c").await.unwrap();
    refused(
        repository(&door, None, "d").await,
        &["has 3 git repositories", "may have 3 (quota", "--max-repositories"],
    );
    repository(&door, Some(other.id), "e").await.unwrap();
    door.app.repository_delete(&door.admin, third.id).await.unwrap();
    repository(&door, None, "f").await.unwrap();

    // Services count over all clusters of the project.
    let (blue, green) = (door.cluster("blue").await.cluster, door.cluster("green").await.cluster);
    let elsewhere = NewCluster { project_id: Some(other.id), ..NewCluster::named("red".parse().unwrap()) };
    let red = door.app.cluster_create(&door.admin, elsewhere).await.unwrap().cluster;
    door.service(&blue, &first, "one").await;
    door.service(&green, &first, "two").await;
    for cluster in [&blue, &green] {
        let made = door.app.service_create(&door.admin, &by_id(cluster), new_service(&first, "three")).await;
        refused(made, &["has 2 services", "may have 2 (quota", "--max-services"]);
    }
    door.service(&red, &first, "three").await;

    // Tokens of each user; sessions are none.
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    for user in [&ada, &bob] {
        for _ in 0..2 {
            door.app.token_create(&door.admin, Some(user.id), None).await.unwrap();
        }
        let made = door.app.token_create(&door.admin, Some(user.id), None).await;
        refused(made.map(|_| ()), &["has 2 access tokens", "may have 2 (quota", "--max-tokens"]);
    }
    for _ in 0..3 {
        door.app.session_create(&door.nobody(), "root@example.com", "first password".into()).await.unwrap();
    }
}

async fn many_at_once_do_not_pass_a_quota(database: TestDatabase) {
    let door = Arc::new(door(database).await);
    let all = (0..12).map(|number| {
        let door = Arc::clone(&door);
        tokio::spawn(async move { repository(&door, None, &format!("r{number}")).await.is_ok() })
    });
    let mut made = 0;
    for one in all.collect::<Vec<_>>() {
        made += usize::from(one.await.unwrap());
    }
    assert_eq!(made, 3);
}
