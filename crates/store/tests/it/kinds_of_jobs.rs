//! What the console's own kinds of jobs do.

use std::sync::Arc;

use plural_app::{
    JobFilter, NewCredentials, ProjectSelector, RepositorySelector, SealStore, SealedColumn, Sealer,
};
use plural_core::{BackgroundJob, JobState, PageArgs, ProjectLimits, RepositoryChange};
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{deployed, poll_until};
use crate::door::{Door, KEY, Opening, eventually};

each_database!(
    a_repositorys_new_address_is_committed_with_the_job_that_renews_its_services,
    a_repositorys_new_address_reaches_the_agents_of_its_services,
    values_that_no_key_opens_are_a_dead_job_until_the_key_is_back,
);

async fn jobs(door: &Door) -> Vec<BackgroundJob> {
    let page = door.app.background_job_list(&door.admin, &JobFilter::default(), &PageArgs::default()).await;
    page.unwrap().into_nodes()
}

fn moved(url: &str) -> RepositoryChange {
    RepositoryChange { url: Some(url.parse().unwrap()) }
}

async fn a_repositorys_new_address_is_committed_with_the_job_that_renews_its_services(
    database: TestDatabase,
) {
    let door = Door::new(database).await;
    let repository = door.repository("https://example.com/a").await;
    let other = door.repository("https://example.com/b").await;
    let update = async |change: &RepositoryChange| {
        door.app.repository_update(&door.admin, repository.id, change, NewCredentials::default()).await
    };
    update(&RepositoryChange::default()).await.unwrap();
    update(&moved("https://example.com/a")).await.unwrap();
    assert_eq!(jobs(&door).await, [], "the address is what it was");
    // A change that is refused enqueues nothing.
    assert!(update(&moved(other.url.as_str())).await.is_err());
    assert_eq!(jobs(&door).await, []);
    update(&moved("https://example.com/elsewhere")).await.unwrap();
    let enqueued = jobs(&door).await;
    assert_eq!(enqueued.len(), 1, "{enqueued:?}");
    assert_eq!((enqueued[0].kind.as_str(), enqueued[0].state), ("renew_services", JobState::Waiting));
    assert_eq!(enqueued[0].key, repository.id.to_string());
}

async fn a_repositorys_new_address_reaches_the_agents_of_its_services(database: TestDatabase) {
    const ELSEWHERE: &str = "https://example.com/elsewhere";
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, ..) = deployed(&door, "blue").await;
    let repository = service.repository_id.unwrap();
    let selector = RepositorySelector::Id(repository);
    let before = door.app.repository_get(&door.admin, &selector).await.unwrap().url;
    let project = ProjectSelector::Id(door.default_project().await.id);
    let limits =
        ProjectLimits { repositories: vec!["https://example.com/*".to_owned()], ..ProjectLimits::default() };
    door.app.project_limits_set(&door.admin, &project, &limits).await.unwrap();
    let told = poll_until(&door, &agent, None, |answer| {
        answer.services.iter().any(|spec| spec.source_url == before.as_str())
    })
    .await;
    // The same commit is at the new address: nothing of the service changes but where it is read from.
    door.git.commit(ELSEWHERE, "c1", &[("web", "one")]);
    let change = moved(ELSEWHERE);
    door.app.repository_update(&door.admin, repository, &change, NewCredentials::default()).await.unwrap();
    let renewed = poll_until(&door, &agent, Some(&told.cursor), |answer| {
        answer.services.iter().any(|spec| spec.source_url == ELSEWHERE)
    })
    .await;
    assert_eq!(renewed.services[0].revision_id, told.services[0].revision_id);
    eventually(async || {
        let left = jobs(&door).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    door.stop().await;
}

/// An operator took an old key out of the file too early.
async fn values_that_no_key_opens_are_a_dead_job_until_the_key_is_back(database: TestDatabase) {
    let (new, unrelated) = ([7; 32], [8; 32]);
    let door = Door::new(database).await;
    // What a console looks at when it starts has the new key already, the services' seeds have not.
    door.service(&door.cluster("blue").await.cluster, &door.repository("https://example.com/a").await, "web")
        .await;
    let sealers = [Sealer::new(&KEY, &[]), Sealer::new(&new, &[])];
    for (column, context) in
        [(SealedColumn::KeyCheck, "installation:key"), (SealedColumn::ProxyKey, "installation:proxy-key")]
    {
        let found = door.database.sealed_otherwise(column, [0; 8], 0, 10).await.unwrap();
        let changes: Vec<_> = found
            .into_iter()
            .map(|value| {
                let resealed = sealers[1].seal(context, &sealers[0].open(context, &value.sealed).unwrap());
                (value, resealed.unwrap())
            })
            .collect();
        assert_eq!(changes.len(), 1, "{column:?}");
        door.database.sealed_replace(column, &changes).await.unwrap();
    }
    let source = Arc::clone(&door.source);
    drop(door);

    let started = async |previous: &[[u8; 32]]| {
        let opening = Opening { sealer: Sealer::new(&new, previous), ..Opening::default() };
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
    assert!(
        error.ends_with("open with no encryption key: leave the older keys in their file, or put them back")
    );
    door.stop().await;
    drop(door);

    // It is enqueued again at the start, or an administrator retries it.
    let mut door = started(&[KEY]).await;
    eventually(async || {
        let left = jobs(&door).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    assert_eq!(door.app.reseal().await.unwrap(), plural_app::Resealed::default());
    door.stop().await;
}
