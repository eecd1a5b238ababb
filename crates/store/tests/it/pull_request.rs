//! Records of pull requests: one of each address, in repositories that the connection may touch.

use plural_app::job::{JobStore as _, NewJob};
use plural_app::jobs::{FollowMerge, KnownPullRequest, MergedPullRequest, ReadPullRequest};
use plural_app::pull_request::{PullRequestEnd, PullRequestFilter, PullRequestStore as _};
use plural_app::pull_request_open::PullRequestAsk;
use plural_app::scm_connection::NewScmSecrets;
use plural_core::access::Actor;
use plural_core::idempotency_key::{IdempotencyKey, KEPT};
use plural_core::ids::{PrAutomationId, ProjectId, UserId};
use plural_core::policy::BindingsChange;
use plural_core::pr_automation::{NewPrAutomation, PrAutomation, PrAutomationLinksChange};
use plural_core::pr_automation_spec::PrAutomationSpecChange;
use plural_core::pull_request::{HostPullRequest, PrPhase, PrStatus, PrWork, PullRequest};
use plural_core::pull_request_life::PrPlace;
use plural_core::scm_connection::{NewScmConnection, ScmConnection, ScmSpecChange, ScmType};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::door::Door;

each_database!(
    one_address_is_one_record,
    a_record_of_another_project_stays_as_it_is,
    a_repository_that_the_connection_may_not_touch_is_refused,
    records_outlive_their_automation_and_go_with_their_connection,
    steps_are_written_down_and_what_was_asked_is_forgotten,
    a_key_is_of_one_user_and_of_a_day,
);

pub(crate) async fn automation(door: &Door) -> PrAutomation {
    let project = door.project("team").await;
    let connection = connection(door, Some(project.id)).await;
    automation_of(door, project.id, &connection, "add").await
}

async fn connection(door: &Door, project_id: Option<ProjectId>) -> ScmConnection {
    let new = NewScmConnection {
        name: "github".parse().unwrap(),
        kind: ScmType::Github,
        project_id,
        is_default: false,
        spec: ScmSpecChange {
            repositories: Some(vec!["acme/*".parse().unwrap()]),
            ..ScmSpecChange::default()
        },
    };
    let secrets = NewScmSecrets { token: Some("a-token".into()), ..NewScmSecrets::default() };
    door.app.scm_connection_create(&door.admin, new, secrets).await.unwrap()
}

async fn automation_of(
    door: &Door,
    project: ProjectId,
    connection: &ScmConnection,
    name: &str,
) -> PrAutomation {
    let new = NewPrAutomation {
        name: name.parse().unwrap(),
        project_id: Some(project),
        role: None,
        links: PrAutomationLinksChange {
            connection_id: Some(connection.id),
            ..PrAutomationLinksChange::default()
        },
        spec: PrAutomationSpecChange {
            title: Some("Add".to_owned()),
            message: Some("Adds".to_owned()),
            ..PrAutomationSpecChange::default()
        },
        merge_windows: None,
        bindings: BindingsChange::default(),
    };
    door.app.pr_automation_create(&door.admin, new).await.unwrap()
}

pub(crate) fn told(number: u32, status: PrStatus) -> HostPullRequest {
    HostPullRequest {
        url: format!("https://github.com/acme/shop/pull/{number}"),
        repository: "acme/shop".to_owned(),
        branch: "plural/a".to_owned(),
        title: format!("Add {number}"),
        status,
        labels: vec!["infra".to_owned()],
    }
}

async fn listed(door: &Door, filter: PullRequestFilter) -> Vec<String> {
    let page = door.app.list::<PullRequest>(&door.admin, &filter, &PageArgs::default()).await.unwrap();
    let mut titles: Vec<String> = page.into_nodes().into_iter().map(|opened| opened.told.title).collect();
    titles.sort();
    titles
}

async fn one_address_is_one_record(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let record = async |told| door.app.pull_request_record(&door.admin, automation.id, told).await.unwrap();
    let first = record(told(1, PrStatus::Open)).await;
    let again = record(HostPullRequest { labels: Vec::new(), ..told(1, PrStatus::Merged) }).await;
    assert_eq!((again.id, again.told.status, again.told.labels.len()), (first.id, PrStatus::Merged, 0));
    assert_eq!(again.created_at, first.created_at);
    record(told(2, PrStatus::Open)).await;
    assert_eq!(listed(&door, PullRequestFilter::default()).await, ["Add 1", "Add 2"]);
    let open = PullRequestFilter { status: Some(PrStatus::Open), ..PullRequestFilter::default() };
    assert_eq!(listed(&door, open).await, ["Add 2"]);
    let q = PullRequestFilter { q: Some("pull/1".to_owned()), ..PullRequestFilter::default() };
    assert_eq!(listed(&door, q).await, ["Add 1"]);
    let here = PullRequestFilter {
        phase: Some(PrPhase::Opened),
        repository: Some(first.told.repository.clone()),
        automation_id: Some(automation.id),
        ..PullRequestFilter::default()
    };
    assert_eq!(listed(&door, here.clone()).await, ["Add 1", "Add 2"]);
    for nothing in [
        PullRequestFilter { phase: Some(PrPhase::Failed), ..here.clone() },
        PullRequestFilter { repository: Some("acme/other".to_owned()), ..here.clone() },
        PullRequestFilter { automation_id: Some(PrAutomationId::new()), ..here },
    ] {
        assert!(listed(&door, nothing.clone()).await.is_empty(), "{nothing:?}");
    }
    let other = door.project("other").await;
    let elsewhere = PullRequestFilter { project_id: Some(other.id), ..PullRequestFilter::default() };
    assert!(listed(&door, elsewhere).await.is_empty());
}

async fn a_record_of_another_project_stays_as_it_is(database: TestDatabase) {
    let door = Door::new(database).await;
    let (ours, theirs) = (door.project("team").await, door.project("other").await);
    let connection = connection(&door, None).await;
    let ours = automation_of(&door, ours.id, &connection, "add").await;
    let theirs = automation_of(&door, theirs.id, &connection, "other").await;
    let record = async |automation: &PrAutomation, told| {
        door.app.pull_request_record(&door.admin, automation.id, told).await
    };
    let first = record(&ours, told(1, PrStatus::Open)).await.unwrap();
    let refused = record(&theirs, told(1, PrStatus::Merged)).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert_eq!(door.app.get::<PullRequest>(&door.admin, &first.id).await.unwrap(), first);
    record(&theirs, told(2, PrStatus::Open)).await.unwrap();
}

async fn a_repository_that_the_connection_may_not_touch_is_refused(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let evil = HostPullRequest { repository: "evil/shop".to_owned(), ..told(1, PrStatus::Open) };
    let odd = HostPullRequest { url: "javascript:alert(1)".to_owned(), ..told(1, PrStatus::Open) };
    for bad in [evil, odd] {
        let refused = door.app.pull_request_record(&door.admin, automation.id, bad).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    assert!(listed(&door, PullRequestFilter::default()).await.is_empty());
}

async fn records_outlive_their_automation_and_go_with_their_connection(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let opened =
        door.app.pull_request_record(&door.admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    assert_eq!(opened.automation_id, Some(automation.id));
    let connection = automation.links.connection_id;
    let used = door.app.scm_connection_delete(&door.admin, connection).await;
    assert!(matches!(used, Err(Error::Conflict { .. })), "{used:?}");
    door.app.pr_automation_delete(&door.admin, automation.id).await.unwrap();
    let kept = door.app.get::<PullRequest>(&door.admin, &opened.id).await.unwrap();
    assert_eq!((kept.automation_id, kept.told), (None, opened.told));
    door.app.scm_connection_delete(&door.admin, connection).await.unwrap();
    assert!(listed(&door, PullRequestFilter::default()).await.is_empty());
}

async fn steps_are_written_down_and_what_was_asked_is_forgotten(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let begin = async || {
        let ask = PullRequestAsk {
            automation: automation.id,
            identifier: Some("acme/shop".to_owned()),
            branch: None,
            context: serde_json::Map::new(),
            key: None,
            secrets: serde_json::Map::new(),
        };
        door.app.pull_request_create(&door.admin, ask, false).await.unwrap()
    };
    let begun = begin().await;
    assert_eq!((begun.progress.phase, begun.told.url.as_str()), (PrPhase::Pending, ""));
    let read = async |id| door.app.get::<PullRequest>(&door.admin, &id).await.unwrap();
    let stored = read(begun.id).await;
    assert_eq!((&stored.progress, &stored.told), (&begun.progress, &begun.told));
    assert_eq!((&stored.creator, stored.automation_id), (&begun.creator, Some(automation.id)));
    // It is not one that can be merged.
    let open = PullRequestFilter { status: Some(PrStatus::Open), ..PullRequestFilter::default() };
    assert!(listed(&door, open.clone()).await.is_empty());

    let store = &door.database;
    let pending = store.pull_request_pending(begun.id).await.unwrap().unwrap();
    assert_eq!(pending.work, PrWork { base: "main".to_owned(), ..PrWork::default() });
    let at = door.app.now();
    let work = PrWork {
        parent: Some("a".repeat(40)),
        rebased: true,
        making: true,
        commit: Some("b".repeat(40)),
        opening: true,
        ..pending.work
    };
    store.pull_request_step(begun.id, &work, Some("slow down"), at).await.unwrap();
    let pending = store.pull_request_pending(begun.id).await.unwrap().unwrap();
    assert_eq!((pending.work, pending.begun.progress.error.as_deref()), (work.clone(), Some("slow down")));
    assert_eq!(pending.begun.progress.commit, work.commit);

    let url = "https://github.com/acme/shop/pull/9".to_owned();
    let end = PullRequestEnd::Opened { url: url.clone(), title: "Add 9".to_owned(), status: PrStatus::Open };
    let kinds = async || -> Vec<String> {
        store.jobs_count().await.unwrap().into_iter().map(|count| count.kind).collect()
    };
    let reads = NewJob::of::<ReadPullRequest>(&KnownPullRequest { id: begun.id }).unwrap();
    assert!(!kinds().await.contains(&"read_pull_request".to_owned()));
    store.pull_request_end(begun.id, &end, &[reads], at).await.unwrap();
    assert!(kinds().await.contains(&"read_pull_request".to_owned()), "what follows is enqueued with it");
    assert!(store.pull_request_pending(begun.id).await.unwrap().is_none(), "nothing sealed is kept");
    let now = read(begun.id).await;
    assert_eq!((now.progress.phase, &now.told.url, &now.progress.error), (PrPhase::Opened, &url, &None));
    assert_eq!(now.progress.commit, work.commit);
    assert_eq!(listed(&door, open).await, ["Add 9"]);
    // What is done stays as it is.
    let late = PullRequestEnd::Failed { error: "too late".to_owned() };
    let follows = NewJob::of::<FollowMerge>(&MergedPullRequest { id: begun.id }).unwrap();
    store.pull_request_end(begun.id, &late, &[follows], at).await.unwrap();
    assert!(!kinds().await.contains(&"follow_merge".to_owned()), "or not at all");
    store.pull_request_step(begun.id, &PrWork::default(), Some("too late"), at).await.unwrap();
    assert_eq!(read(begun.id).await, now);

    // Two wait at a time, though neither has an address.
    let (one, other) = (begin().await, begin().await);
    assert_ne!(one.told.branch, other.told.branch);
    store.pull_request_end(one.id, &late, &[], at).await.unwrap();
    let now = read(one.id).await;
    assert_eq!((now.progress.phase, now.progress.error.as_deref()), (PrPhase::Failed, Some("too late")));
    assert_eq!(now.told.url, "");

    // Branches of plain git have none either, and are open.
    let third = begin().await;
    for branch in [other.id, third.id] {
        let (title, base, head) = ("Add 10".to_owned(), "main".to_owned(), "c".repeat(40));
        let end = PullRequestEnd::Pushed { title, base, head: head.clone() };
        store.pull_request_end(branch, &end, &[], at).await.unwrap();
        let now = read(branch).await;
        assert_eq!((now.place().unwrap(), now.told.url.as_str()), (PrPlace::Branch, ""));
        assert_eq!((now.told.status, now.told.title.as_str()), (PrStatus::Open, "Add 10"));
        assert_eq!((now.life.head, now.life.facts.base.as_deref()), (Some(head), Some("main")));
        assert!(store.pull_request_pending(branch).await.unwrap().is_none(), "nothing sealed is kept");
    }
}

async fn a_key_is_of_one_user_and_of_a_day(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let key: IdempotencyKey = "a-key".parse().unwrap();
    let begin = async |branch: &str| {
        let ask = PullRequestAsk {
            automation: automation.id,
            identifier: Some("acme/shop".to_owned()),
            branch: Some(branch.to_owned()),
            context: serde_json::Map::new(),
            key: Some(key.clone()),
            secrets: serde_json::Map::new(),
        };
        door.app.pull_request_create(&door.admin, ask, false).await
    };
    let begun = begin("add-shop").await.unwrap();
    assert_eq!(begin("add-shop").await.unwrap().id, begun.id);
    let refused = begin("add-web").await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let Actor::User(admin) = door.admin.actor() else { panic!("no user") };
    let known = async |user, since| {
        let found = door.database.pull_request_of_key(user, &key, since).await.unwrap();
        found.map(|found| found.id)
    };
    let before = begun.created_at - KEPT;
    assert_eq!(known(admin.id, before).await, Some(begun.id));
    assert_eq!(known(UserId::new(), before).await, None, "of another user");
    assert_eq!(known(admin.id, begun.created_at).await, None, "a day later");
}
