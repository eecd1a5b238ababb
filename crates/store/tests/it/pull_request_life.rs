//! What is read back of pull requests: the newest question counts, a merge stays, and what follows is enqueued with it or not at all.

use chrono::TimeDelta;
use plural_app::job::JobStore as _;
use plural_app::pull_request::{PullRequestEnd, PullRequestFilter, PullRequestStore as _};
use plural_app::pull_request_life::{PullRequestLifeStore as _, PullRequestRead};
use plural_app::pull_request_open::PullRequestAsk;
use plural_core::PageArgs;
use plural_core::ids::PullRequestId;
use plural_core::pull_request::{HostPullRequest, PrProgress, PrStatus, PullRequest};
use plural_core::pull_request_life::{PrChecks, PrFacts, PrLife, PrLinks};
use plural_testkit::{TestDatabase, each_database};

use crate::door::Door;
use crate::pull_request::{automation, told};

each_database!(
    the_newest_question_counts_and_a_merge_stays,
    records_are_found_by_what_a_webhook_tells,
    open_ones_are_due_until_they_are_listed,
    the_repository_that_waits_for_longest_is_due_first,
    one_that_the_console_opens_is_not_recorded_twice,
);

fn read(told: HostPullRequest, at: chrono::DateTime<chrono::Utc>) -> PullRequestRead {
    let checks = PrChecks { passed: 1, failed: 0, pending: 2, incomplete: false };
    let facts = PrFacts { checks: Some(checks), ..PrFacts::default() };
    let life = PrLife { head: Some("a".repeat(40)), facts, links: PrLinks::default(), read_at: Some(at) };
    PullRequestRead { told, life }
}

async fn the_newest_question_counts_and_a_merge_stays(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let first =
        door.app.pull_request_record(&door.admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    assert_eq!(first.life, PrLife::default());
    let (store, at) = (&door.database, door.app.now());
    let later = at + TimeDelta::seconds(5);
    let title = |text: &str, status| HostPullRequest { title: text.to_owned(), ..told(1, status) };
    let write = async |read: &PullRequestRead| {
        store.pull_request_read_back(first.id, read, &[], door.app.now()).await.unwrap()
    };
    let now = async || door.app.get::<PullRequest>(&door.admin, &first.id).await.unwrap();
    let newer = read(title("Newer", PrStatus::Open), later);
    assert!(write(&newer).await);
    let known = now().await;
    assert_eq!((&known.told.title, &known.life.facts), (&"Newer".to_owned(), &newer.life.facts));
    assert_eq!((&known.life.head, known.told.url), (&newer.life.head, first.told.url));
    // Asked before, and answered after.
    assert!(!write(&read(title("Older", PrStatus::Closed), at)).await);
    assert_eq!((now().await.told.title.as_str(), now().await.told.status), ("Newer", PrStatus::Open));
    // The same again is no change.
    let again = read(title("Newer", PrStatus::Open), later + TimeDelta::seconds(1));
    assert!(write(&again).await);
    assert_eq!(now().await.updated_at, known.updated_at);

    // Who could not read it knew less of it than is recorded.
    let mut unread = read(title("Known before", PrStatus::Closed), later + TimeDelta::seconds(2));
    unread.life.facts.error = Some("it is not there".to_owned());
    assert!(write(&unread).await);
    let stands = now().await;
    assert_eq!((stands.told.title.as_str(), stands.told.status), ("Newer", PrStatus::Open));
    assert_eq!(stands.life.facts.error.as_deref(), Some("it is not there"));
    assert_eq!(stands.life.facts.checks, newer.life.facts.checks);

    // A merge is for good, by whichever clock.
    assert!(write(&read(title("Merged", PrStatus::Merged), at)).await);
    assert!(!write(&read(title("Open", PrStatus::Open), later + TimeDelta::seconds(3))).await);
    assert!(!write(&read(title("Merged again", PrStatus::Merged), at)).await);
    let merged = now().await;
    assert_eq!((merged.told.title.as_str(), merged.told.status), ("Merged", PrStatus::Merged));
    assert_eq!((merged.life.read_at, merged.life.facts.error), (stands.life.read_at, None));
    let gone = read(told(1, PrStatus::Open), later);
    assert!(!store.pull_request_read_back(PullRequestId::new(), &gone, &[], at).await.unwrap());
    assert!(store.jobs_count().await.unwrap().iter().all(|count| !count.kind.contains("pull_request")));
}

async fn records_are_found_by_what_a_webhook_tells(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let record = async |number| {
        let told = told(number, PrStatus::Open);
        door.app.pull_request_record(&door.admin, automation.id, told).await.unwrap()
    };
    let (one, eleven) = (record(1).await, record(11).await);
    let store = &door.database;
    let heard = async |slug: &str, number, head: Option<&str>| {
        store.pull_requests_heard(one.connection_id, slug, number, head).await.unwrap()
    };
    assert_eq!(heard("acme/shop", Some(1), None).await, [one.id]);
    assert_eq!(heard("acme/shop", Some(11), None).await, [eleven.id]);
    let head = "a".repeat(40);
    let nobody: [PullRequestId; 0] = [];
    assert_eq!(heard("acme/shop", Some(2), None).await, nobody);
    assert_eq!(heard("acme/other", Some(1), None).await, nobody);
    assert_eq!(heard("acme/shop", None, Some(&head)).await, nobody);
    let seen = read(told(1, PrStatus::Open), door.app.now());
    assert!(store.pull_request_read_back(one.id, &seen, &[], door.app.now()).await.unwrap());
    assert_eq!(heard("acme/shop", None, Some(&head)).await, [one.id]);
}

async fn open_ones_are_due_until_they_are_listed(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    for (number, status) in [(1, PrStatus::Open), (2, PrStatus::Open), (3, PrStatus::Closed)] {
        door.app.pull_request_record(&door.admin, automation.id, told(number, status)).await.unwrap();
    }
    let (store, at) = (&door.database, door.app.now());
    let connection = automation.links.connection_id;
    let repository = (connection, "acme/shop".to_owned());
    assert_eq!(
        store.pull_requests_due(at, 10).await.unwrap(),
        std::slice::from_ref(&repository),
        "once for both"
    );
    let open = store.pull_requests_polled(connection, "acme/shop", at).await.unwrap();
    let titles: Vec<&str> = open.iter().map(|one| one.told.title.as_str()).collect();
    assert_eq!(titles, ["Add 1", "Add 2"]);
    assert!(store.pull_requests_due(at, 10).await.unwrap().is_empty());
    assert_eq!(store.pull_requests_due(at + TimeDelta::minutes(1), 10).await.unwrap(), [repository]);
}

async fn the_repository_that_waits_for_longest_is_due_first(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let (store, connection) = (&door.database, automation.links.connection_id);
    let names = ["acme/b", "acme/c", "acme/a"];
    for (number, name) in (1..).zip(names) {
        let told = HostPullRequest { repository: name.to_owned(), ..told(number, PrStatus::Open) };
        door.app.pull_request_record(&door.admin, automation.id, told).await.unwrap();
    }
    let at = door.app.now();
    for (minutes, name) in (1..).zip(names) {
        store.pull_requests_polled(connection, name, at + TimeDelta::minutes(minutes)).await.unwrap();
    }
    for most in 1..=names.len() {
        let due = store.pull_requests_due(at + TimeDelta::hours(1), most as u64).await.unwrap();
        let due: Vec<&str> = due.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(due, names[..most], "{most}");
    }
}

async fn one_that_the_console_opens_is_not_recorded_twice(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let ask = PullRequestAsk {
        automation: automation.id,
        identifier: Some("acme/shop".to_owned()),
        branch: Some("add-shop".to_owned()),
        context: serde_json::Map::new(),
        key: None,
        secrets: serde_json::Map::new(),
    };
    let begun = door.app.pull_request_create(&door.admin, ask, false).await.unwrap();
    let (store, at) = (&door.database, door.app.now());
    let seen = read(HostPullRequest { branch: "add-shop".to_owned(), ..told(9, PrStatus::Open) }, at);
    let adopted = PullRequest {
        id: PullRequestId::new(),
        automation_id: None,
        told: seen.told.clone(),
        life: seen.life.clone(),
        progress: PrProgress::OPENED,
        ..begun.clone()
    };
    assert!(
        !store.pull_request_adopt(&adopted, &[]).await.unwrap(),
        "its webhook was faster than its record"
    );
    let url = seen.told.url.clone();
    let end = PullRequestEnd::Opened { url, title: "Add 9".to_owned(), status: PrStatus::Open };
    store.pull_request_end(begun.id, &end, &[], at).await.unwrap();
    assert!(!store.pull_request_adopt(&adopted, &[]).await.unwrap(), "it has that address already");
    let other = PullRequest {
        told: HostPullRequest { branch: "by-hand".to_owned(), ..told(10, PrStatus::Open) },
        ..adopted
    };
    assert!(store.pull_request_adopt(&other, &[]).await.unwrap());
    let all = PullRequestFilter::default();
    let all = door.app.list::<PullRequest>(&door.admin, &all, &PageArgs::default()).await.unwrap();
    assert_eq!(all.into_nodes().len(), 2);
    let kept = door.app.get::<PullRequest>(&door.admin, &other.id).await.unwrap();
    assert_eq!((kept.told, kept.life.facts), (other.told, other.life.facts));
}
