//! What the console's own kinds of jobs do.

use std::sync::Arc;

use plural_app::data_key::{DataKeyRow, DataKeyStore as _};
use plural_app::job::JobFilter;
use plural_app::ports::key_encryption::{KeyEncryption as _, LocalKey};
use plural_app::project::ProjectSelector;
use plural_app::repository::NewCredentials;
use plural_core::PageArgs;
use plural_core::data_key::{DataKey, KeyOwner};
use plural_core::ids::ServiceId;
use plural_core::job::{BackgroundJob, JobState};
use plural_core::project::ProjectChange;
use plural_core::project_limits::ProjectLimits;
use plural_core::repository::RepositoryChange;
use plural_core::service::Service;
use plural_testkit::{TestDatabase, each_database};
use tokio::task::JoinSet;

use crate::door::{Door, KEY, Opening, by_id, eventually, new_service};

each_database!(
    a_new_address_and_a_new_name_renew_services_in_the_change_and_in_a_job,
    values_that_no_key_opens_are_a_dead_job_until_the_key_is_back,
);

async fn jobs(door: &Door) -> Vec<BackgroundJob> {
    let page = door.app.list::<BackgroundJob>(&door.admin, &JobFilter::default(), &PageArgs::default()).await;
    page.unwrap().into_nodes()
}

fn moved(url: &str) -> RepositoryChange {
    RepositoryChange {
        url: Some(url.parse().unwrap()),
        web: plural_core::web_address::WebAddressChange::default(),
    }
}

async fn a_new_address_and_a_new_name_renew_services_in_the_change_and_in_a_job(database: TestDatabase) {
    // One more than a transaction renews.
    const SERVICES: usize = 501;
    let mut door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let other = door.repository("https://example.com/b").await;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (app, admin) = (Arc::clone(&door.app), door.admin.clone());
        let (cluster, repository) = (made.cluster.clone(), repository.clone());
        writers.spawn(async move {
            let mut ids = Vec::new();
            for n in (writer..SERVICES).step_by(8) {
                let new = new_service(&repository, &format!("s-{n}"));
                ids.push(app.service_create(&admin, &by_id(&cluster), new).await.unwrap().id);
            }
            ids
        });
    }
    let mut ids: Vec<ServiceId> = writers.join_all().await.into_iter().flatten().collect();
    ids.sort_unstable();
    let (app, admin) = (Arc::clone(&door.app), door.admin.clone());
    let sequences = async || {
        let mut found = Vec::new();
        for chunk in ids.chunks(100) {
            let services = app.get_many::<Service>(&admin, chunk).await.unwrap();
            found.extend(chunk.iter().map(|id| services[id].sequence));
        }
        found
    };
    let update = async |change: &RepositoryChange| {
        app.repository_update(&admin, repository.id, change, NewCredentials::default()).await
    };
    // Agents are sent the address only where there are limits.
    update(&moved("https://example.com/c")).await.unwrap();
    assert_eq!(jobs(&door).await, []);
    let project = door.default_project().await.id;
    let limits =
        ProjectLimits { repositories: vec!["https://example.com/*".to_owned()], ..ProjectLimits::default() };
    door.app.project_limits_set(&door.admin, &ProjectSelector::Id(project), &limits).await.unwrap();
    let before = sequences().await;
    // The address is what it was, and a change that is refused enqueues nothing.
    update(&moved("https://example.com/c")).await.unwrap();
    assert!(update(&moved(other.url.as_str())).await.is_err());
    assert_eq!(jobs(&door).await, []);
    assert_eq!(sequences().await, before);

    update(&moved("https://example.com/d")).await.unwrap();
    let enqueued = jobs(&door).await;
    assert_eq!(enqueued.len(), 1, "{enqueued:?}");
    assert_eq!((enqueued[0].kind.as_str(), enqueued[0].state), ("renew_services", JobState::Waiting));
    assert_eq!(enqueued[0].key, repository.id.to_string());
    let renewed =
        |after: Vec<u64>| after.iter().zip(&before).filter(|(after, before)| after > before).count();
    assert_eq!(renewed(sequences().await), SERVICES - 1);

    // And so does the name of a project with limits, which agents name in what these refuse.
    let rename = async |name: &str| {
        let change = ProjectChange { name: Some(name.parse().unwrap()), ..ProjectChange::default() };
        door.app.project_update(&door.admin, project, &change).await.unwrap();
    };
    let named = sequences().await;
    let is_named =
        |after: Vec<u64>| after.iter().zip(&named).filter(|(after, before)| after > before).count();
    rename(door.default_project().await.name.as_str()).await;
    assert_eq!((jobs(&door).await.len(), is_named(sequences().await)), (1, 0), "it is what it was");
    rename("another").await;
    let enqueued = jobs(&door).await;
    let kinds: Vec<&str> = enqueued.iter().map(|job| job.kind.as_str()).collect();
    assert_eq!(kinds, ["renew_services", "renew_project"]);
    assert_eq!(is_named(sequences().await), SERVICES - 1);
    door.start();
    eventually(async || {
        let left = jobs(&door).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    assert_eq!((renewed(sequences().await), is_named(sequences().await)), (SERVICES, SERVICES));
    door.stop().await;
}

/// An operator took an old key out of the file too early.
async fn values_that_no_key_opens_are_a_dead_job_until_the_key_is_back(database: TestDatabase) {
    let (new, unrelated) = ([7; 32], [8; 32]);
    let door = Door::new(database).await;
    // What a console looks at when it starts has the new key already, the key of the project has not.
    door.service(&door.cluster("blue").await.cluster, &door.repository("https://example.com/a").await, "web")
        .await;
    let row = door.database.data_key_current(KeyOwner::Installation).await.unwrap().unwrap();
    let context = format!("plural data key {} of installation", row.key.id);
    let clear = LocalKey::new(&KEY).unwrap(&context, row.wrapped.as_deref().unwrap()).await.unwrap();
    let key = LocalKey::new(&new);
    let wrapped = Some(key.wrap(&context, &clear).await.unwrap().bytes);
    let rewrapped =
        DataKeyRow { key: DataKey { encrypted_by: key.name().to_owned(), ..row.key.clone() }, wrapped };
    door.database.data_key_rewrap(&row, &rewrapped).await.unwrap();
    let source = Arc::clone(&door.source);
    drop(door);

    let started = async |previous: &[[u8; 32]]| {
        let opening = Opening { keys: LocalKey::all(&new, previous), ..Opening::default() };
        let mut door = Door::open_as(Arc::clone(&source), opening).await;
        door.start();
        door
    };
    let mut door = started(&[unrelated]).await;
    let dead = eventually(async || {
        let found = jobs(&door).await;
        found.iter().find(|job| job.state == JobState::Dead).cloned().ok_or_else(|| format!("{found:?}"))
    })
    .await;
    assert_eq!((dead.kind.as_str(), dead.attempts), ("reseal", 1));
    let error = dead.error.unwrap_or_default();
    assert!(error.ends_with("of the sealed values: put the keys that sealed them back into the key file"));
    door.stop().await;
    drop(door);

    // With the keys of before it would stay dead. With other ones it is enqueued again; or an administrator retries it.
    let mut door = started(&[KEY]).await;
    eventually(async || {
        let left = jobs(&door).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    assert_eq!(door.app.reseal().await.unwrap(), plural_app::jobs::Resealed::default());
    door.stop().await;
}
