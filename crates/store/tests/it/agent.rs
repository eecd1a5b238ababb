//! What agents are told, and what they say.

use plural_app::agent::{AgentHandle, AgentReport, ReportedService};
use plural_app::agent_poll::{PollAnswer, PollAsked, ServiceSpec};
use plural_app::fleet::FeedCursor;
use plural_app::ports::agents::AgentStore;
use plural_app::records::Search;
use plural_core::Error;
use plural_core::component::{Component, ComponentChild, ComponentKey, ComponentState};
use plural_core::ids::{RepositoryId, RevisionId, ServiceId};
use plural_core::repository::Repository;
use plural_core::service::{Configuration, Intent, Service, ServiceChange};
use plural_core::service_error::ServiceError;
use plural_core::status::ServiceStatus;
use plural_core::user::User;
use plural_core::work::{Contract, WorkRef};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement, Value};
use secrecy::ExposeSecret;

use crate::door::{Door, by_id, eventually, new_service, service_id};
use crate::git::digest;

each_database!(
    an_agent_gets_everything_it_needs_then_nothing_without_a_query,
    changes_since_a_cursor_are_only_those,
    a_damaged_service_is_named_and_keeps_no_other_from_being_told,
    an_old_copy_of_the_database_sends_no_snapshot_either,
    what_components_own_is_kept,
    a_report_makes_the_status,
    an_old_report_changes_nothing_and_a_repeated_one_is_stored_once,
    a_token_reaches_its_own_cluster_only,
    destroying_ends_when_the_agent_says_so,
    a_kick_reaches_the_open_stream,
    bad_reports_are_cut,
    reports_that_were_accepted_survive_a_stop,
);

pub(crate) const URL: &str = "https://example.com/a";

/// A report of one service that says nothing bad, changed by `change`.
pub(crate) fn reported(spec: &ServiceSpec, change: impl FnOnce(&mut ReportedService)) -> ReportedService {
    let mut said = ReportedService {
        id: spec.id,
        revision_id: spec.revision_id,
        sequence: spec.sequence,
        sha: spec.sha.clone(),
        applied: true,
        destroyed: false,
        components: None,
        errors: Vec::new(),
        metadata: None,
        sync: plural_core::sync::SyncReport::default(),
    };
    change(&mut said);
    said
}

pub(crate) fn component(name: &str, state: ComponentState) -> Component {
    Component {
        id: uuid::Uuid::nil(),
        service_id: ServiceId::new(),
        key: ComponentKey {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: "apps".into(),
            name: name.into(),
        },
        state: Some(state),
        synced: true,
        uid: Some("u".into()),
        message: None,
        children: Vec::new(),
    }
}

pub(crate) fn report(id: u64, services: Vec<ReportedService>) -> AgentReport {
    AgentReport { id, services, facts: None }
}

/// A cluster with one service that has an artifact, its agent, and what the agent was told.
pub(crate) async fn deployed(door: &Door, name: &str) -> (AgentHandle, Service, ServiceSpec, FeedCursor) {
    let made = door.cluster(name).await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = match door
        .app
        .get::<Repository>(&door.admin, &plural_app::repository::RepositorySelector::Url(URL.into()))
        .await
    {
        Ok(repository) => repository,
        Err(_) => door.repository(URL).await,
    };
    let mut new = new_service(&repository, "web");
    new.configuration = Configuration::from([("k".to_owned(), "v".to_owned())]);
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    // On a busy machine the cluster is answered before this console has heard of it.
    let token = made.deploy_token.expose_secret();
    let agent =
        eventually(async || door.app.agent_authenticate(token).map_err(|error| error.to_string())).await;
    let answer = poll_until(door, &agent, None, |answer| {
        answer.services.iter().any(|spec| spec.artifact_digest.is_some())
    })
    .await;
    // An answer may be newer than its cursor: go on until the feed holds nothing after it. Not until the console has read
    // as far as the database's head: other databases of the same PostgreSQL server move that, and wake no console of this
    // one, which then reads again only after half a minute.
    let mut cursor = answer.cursor;
    let settled = eventually(async || {
        let next =
            door.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.map_err(|e| e.log_text())?;
        cursor = next.cursor.clone();
        let left = door.database.feed_read(cursor.sequence).await.map_err(|e| e.log_text())?;
        let is_news = !next.services.is_empty() || !next.moved.is_empty();
        if !is_news && left.events.is_empty() && !left.pending {
            Ok(next.cursor)
        } else {
            Err(format!("{next:?}, {left:?}"))
        }
    })
    .await;
    (agent, service, answer.services[0].clone(), settled)
}

pub(crate) async fn poll_until(
    door: &Door,
    agent: &AgentHandle,
    cursor: Option<&FeedCursor>,
    wanted: impl Fn(&PollAnswer) -> bool,
) -> PollAnswer {
    eventually(async || {
        let answer = door.app.agent_poll(agent, &PollAsked::at(cursor)).await.map_err(|e| e.log_text())?;
        if wanted(&answer) { Ok(answer) } else { Err(format!("{answer:?}")) }
    })
    .await
}

/// The artifacts that an answer names, of whole services and of moved ones.
pub(crate) fn digests(answer: &PollAnswer) -> Vec<String> {
    let whole = answer.services.iter().filter_map(|spec| spec.artifact_digest.clone());
    let moved = answer.moved.iter().filter_map(|step| Some(hex::encode(step.head.source.as_ref()?.digest)));
    whole.chain(moved).collect()
}

async fn status(door: &Door, service: &Service) -> (ServiceStatus, String) {
    let service = door.app.get::<Service>(&door.admin, &service_id(service)).await.unwrap();
    (service.status, service.component_status)
}

async fn an_agent_gets_everything_it_needs_then_nothing_without_a_query(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, cursor) = deployed(&door, "blue").await;
    assert_eq!(spec.id, service.id);
    assert_eq!(spec.configuration.values.get("k").map(String::as_str), Some("v"));
    assert_eq!(spec.artifact_digest.as_deref(), Some(digest("one").as_str()));
    assert_eq!((spec.folder.as_str(), spec.sha.as_deref()), ("web", Some("c1")));
    assert_eq!((spec.intent, spec.seed.len()), (Intent::Apply, 32));
    door.stop().await;
    let settled = door.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.unwrap();

    let before = door.database.statements();
    for _ in 0..1000 {
        let again = door.app.agent_authenticate_again(&agent);
        let answer = door.app.agent_poll(&again, &PollAsked::at(Some(&settled.cursor))).await.unwrap();
        assert!(answer.services.is_empty() && !answer.snapshot);
    }
    assert_eq!(door.database.statements(), before);
}

/// Polls as the wire does: the token again with each call.
trait Again {
    fn agent_authenticate_again(&self, agent: &AgentHandle) -> AgentHandle;
}

impl Again for plural_app::App {
    fn agent_authenticate_again(&self, agent: &AgentHandle) -> AgentHandle {
        assert!(agent.is_current());
        agent.clone()
    }
}

async fn changes_since_a_cursor_are_only_those(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, _, cursor) = deployed(&door, "blue").await;
    let repository = service.repository_id.unwrap();
    door.git.commit(URL, "c2", &[("other", "x")]);
    let new = plural_core::service::NewService {
        git: Some(plural_core::service::GitRef::new("main", "other", &[]).unwrap()),
        ..new_service_of(repository, "other")
    };
    let other = door.app.service_create(&door.admin, &by_handle("blue"), new).await.unwrap();
    // PostgreSQL commits out of order: what was told of the first service can come once more, behind the cursor. So the agent goes on
    // from each answer, as agents do.
    let mut cursor = cursor;
    let answer = eventually(async || {
        let answer =
            door.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.map_err(|e| e.log_text())?;
        cursor = answer.cursor.clone();
        let has_come =
            answer.services.iter().any(|spec| spec.id == other.id && spec.artifact_digest.is_some());
        if has_come { Ok(answer) } else { Err(format!("{answer:?}")) }
    })
    .await;
    assert!(!answer.snapshot);
    assert_eq!(answer.services.iter().map(|spec| spec.id).collect::<Vec<_>>(), [other.id]);
    door.app.service_detach(&door.admin, &service_id(&other)).await.unwrap();
    let answer = poll_until(&door, &agent, Some(&answer.cursor), |answer| !answer.forgotten.is_empty()).await;
    assert_eq!(answer.forgotten, [WorkRef::service(other.id)]);
    assert!(answer.services.is_empty());
    door.stop().await;
}

/// Runs a statement that no use case would.
async fn meddle(door: &Door, sql: &str, values: Vec<Value>) {
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
    assert_eq!(connection.execute_raw(statement).await.unwrap().rows_affected(), 1);
    connection.close().await.unwrap();
}

async fn a_damaged_service_is_named_and_keeps_no_other_from_being_told(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, cursor) = deployed(&door, "blue").await;
    let new = new_service_of(service.repository_id.unwrap(), "other");
    let other = door.app.service_create(&door.admin, &by_handle("blue"), new).await.unwrap();
    poll_until(&door, &agent, None, |answer| answer.services.len() == 2).await;
    // So that nothing but agents reads the service that is damaged.
    door.stop().await;
    let id = || Value::from(service.id.uuid());
    let status = "UPDATE services SET status = $1 WHERE id = $2";
    let seed = "UPDATE services SET seed = $1 WHERE id = $2";
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let sql = "SELECT status, seed FROM services WHERE id = $1";
    let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, [id()]);
    let row = connection.query_one_raw(statement).await.unwrap().unwrap();
    connection.close().await.unwrap();
    let as_it_was: [Value; 2] = [
        row.try_get::<String>("", "status").unwrap().into(),
        row.try_get::<Vec<u8>>("", "seed").unwrap().into(),
    ];
    // A row that cannot be read, and a secret that does not open.
    let damages: [(&str, Value); 2] = [(status, "odd".into()), (seed, vec![7_u8; 48].into())];
    for ((sql, damage), mended) in damages.into_iter().zip(as_it_was) {
        meddle(&door, sql, vec![damage, id()]).await;
        // Everything.
        let answer = door.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap();
        assert_eq!((answer.snapshot, answer.damaged.as_slice()), (true, [service.id].as_slice()));
        assert_eq!(answer.services.iter().map(|spec| spec.id).collect::<Vec<_>>(), [other.id]);
        // What changed, and what is asked for: its cursor goes on, and it is no reason to forget the service.
        let want =
            PollAsked { want: vec![WorkRef::service(service.id)], ..PollAsked::at(Some(&answer.cursor)) };
        let again = door.app.agent_poll(&agent, &want).await.unwrap();
        assert_eq!((again.snapshot, again.damaged.as_slice()), (false, [service.id].as_slice()));
        assert!(again.services.is_empty() && again.forgotten.is_empty(), "{again:?}");
        for contract in [Contract::SERVICES, Contract::WORK] {
            an_earlier_agent_stays_at_its_place(&door, contract, (&agent, &cursor), [service.id, other.id])
                .await;
        }
        meddle(&door, sql, vec![mended, id()]).await;
        for contract in [Contract::SERVICES, Contract::WORK] {
            let answer = door.app.agent_poll(&agent, &held(contract, service.id, &cursor)).await.unwrap();
            assert!(
                answer.services.iter().any(|spec| spec.id == service.id),
                "it is told at last: {answer:?}"
            );
            assert!(answer.cursor.sequence > cursor.sequence && answer.damaged.is_empty());
            let answer = door.app.agent_poll(&agent, &of_another_history(contract, &cursor)).await.unwrap();
            assert_eq!((answer.snapshot, answer.services.len()), (true, 2));
        }
        let answer = door.app.agent_poll(&agent, &want).await.unwrap();
        assert_eq!((answer.services.len(), answer.damaged.len()), (1, 0));
        assert_eq!((answer.services[0].id, &answer.services[0].seed), (service.id, &spec.seed));
    }
}

/// How an agent of an earlier contract asks for a service, from its place.
fn held(contract: Contract, service: ServiceId, cursor: &FeedCursor) -> PollAsked {
    PollAsked { contract, want: vec![WorkRef::service(service)], ..PollAsked::at(Some(cursor)) }
}

/// The same, from where only a snapshot helps.
fn of_another_history(contract: Contract, cursor: &FeedCursor) -> PollAsked {
    let cursor = FeedCursor { epoch: "another".into(), ..cursor.clone() };
    PollAsked { contract, ..PollAsked::at(Some(&cursor)) }
}

/// An agent that does not ask again for what could not be read is told of the others, forgets nothing, and asks for the same
/// with its next poll.
async fn an_earlier_agent_stays_at_its_place(
    door: &Door,
    contract: Contract,
    (agent, cursor): (&AgentHandle, &FeedCursor),
    [damaged, other]: [ServiceId; 2],
) {
    let without_a_cursor = PollAsked { contract, ..PollAsked::at(None) };
    let refused = door.app.agent_poll(agent, &without_a_cursor).await.unwrap_err();
    assert!(refused.to_string().contains("would forget it"), "{contract:?}: {refused}");
    let asked = held(contract, damaged, cursor);
    let answer = door.app.agent_poll(agent, &asked).await.unwrap();
    assert_eq!(
        (&answer.cursor, answer.snapshot),
        (cursor, false),
        "{contract:?}: it asks for the same again"
    );
    assert_eq!((answer.damaged, answer.forgotten), (vec![damaged], vec![]));
    // Contract 0 forgets what a snapshot does not name, so that it is sent none. Contract 1 is sent the name.
    let asked = of_another_history(contract, cursor);
    let answer = door.app.agent_poll(agent, &asked).await.unwrap();
    assert_eq!((Some(&answer.cursor), answer.snapshot), (asked.cursor.as_ref(), contract >= Contract::WORK));
    assert_eq!(answer.services.iter().map(|spec| spec.id).collect::<Vec<_>>(), [other]);
    assert_eq!((answer.damaged, answer.forgotten), (vec![damaged], vec![]));
}

async fn an_old_copy_of_the_database_sends_no_snapshot_either(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, _, _, cursor) = deployed(&door, "blue").await;
    let whole = |cursor: FeedCursor| PollAsked { whole: true, ..PollAsked::at(Some(&cursor)) };
    let answer = door.app.agent_poll(&agent, &whole(cursor.clone())).await.unwrap();
    assert_eq!((answer.snapshot, answer.services.len()), (true, 1));
    // The agent knows of another event at this place, or of a later one.
    assert_ne!(answer.cursor.mark, 0);
    let told = answer.cursor;
    for other in [
        FeedCursor { mark: told.mark ^ 1, ..told.clone() },
        FeedCursor { sequence: told.sequence + (1 << 40), ..told },
    ] {
        let refused = door.app.agent_poll(&agent, &whole(other)).await.unwrap_err();
        assert!(refused.to_string().contains("newer than the console's database"), "{refused}");
    }
    door.stop().await;
}

fn new_service_of(repository: RepositoryId, name: &str) -> plural_core::service::NewService {
    let git = plural_core::service::GitRef::new("main", name, &[]).unwrap();
    plural_core::service::NewService::from_git(
        name.parse().unwrap(),
        "apps".parse().unwrap(),
        repository,
        git,
    )
}

fn by_handle(handle: &str) -> plural_app::cluster::ClusterSelector {
    plural_app::cluster::ClusterSelector::Handle(handle.parse().unwrap())
}

async fn what_components_own_is_kept(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let pod = |uid: &str, state: ComponentState| {
        let Component { key, .. } = component(uid, state);
        ComponentChild {
            key: ComponentKey { group: String::new(), version: "v1".into(), kind: "Pod".into(), ..key },
            uid: uid.into(),
            parent_uid: Some("owner".into()),
            state: Some(state),
            message: (state == ComponentState::Failed).then(|| "container web: \0ErrImagePull".into()),
        }
    };
    let with = |children: Vec<ComponentChild>| {
        reported(&spec, |said| {
            said.components = Some(vec![Component { children, ..component("a", ComponentState::Running) }]);
        })
    };
    let children =
        async || door.app.service_components(&door.admin, service.id).await.unwrap()[0].children.clone();
    let said = with(vec![pod("p1", ComponentState::Running), pod("p2", ComponentState::Failed)]);
    door.app.agent_report(&agent, report(1, vec![said])).await.unwrap();
    let kept = children().await;
    assert_eq!(kept[0], pod("p1", ComponentState::Running));
    // PostgreSQL keeps no NUL.
    assert_eq!(kept[1].message.as_deref(), Some("container web: \u{fffd}ErrImagePull"));
    // What they own does not count: the component itself says how it is.
    assert_eq!(status(&door, &service).await, (ServiceStatus::Healthy, "1 / 1".into()));

    let many = (0..300).map(|i| pod(&format!("p{i}"), ComponentState::Running)).collect();
    door.app.agent_report(&agent, report(2, vec![with(many)])).await.unwrap();
    assert_eq!(children().await.len(), 100);
    door.app.agent_report(&agent, report(3, vec![with(Vec::new())])).await.unwrap();
    assert_eq!(children().await, []);
}

async fn a_report_makes_the_status(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let running = reported(&spec, |said| {
        said.components =
            Some(vec![component("a", ComponentState::Running), component("b", ComponentState::Pending)]);
    });
    door.app.agent_report(&agent, report(1, vec![running])).await.unwrap();
    assert_eq!(status(&door, &service).await, (ServiceStatus::Stale, "1 / 2".into()));
    let components = door.app.service_components(&door.admin, service.id).await.unwrap();
    let running = reported(&spec, |said| {
        said.components =
            Some(vec![component("a", ComponentState::Running), component("b", ComponentState::Running)]);
    });
    door.app.agent_report(&agent, report(2, vec![running])).await.unwrap();
    assert_eq!(status(&door, &service).await, (ServiceStatus::Healthy, "2 / 2".into()));
    let after = door.app.service_components(&door.admin, service.id).await.unwrap();
    let ids = |list: &[Component]| list.iter().map(|c| c.id).collect::<Vec<_>>();
    assert_eq!(ids(&components), ids(&after), "an object keeps its id");

    // A change makes it stale until the agent says that it applied that revision.
    let change = ServiceChange { dry_run: Some(true), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    assert_eq!(status(&door, &service).await.0, ServiceStatus::Stale);
    let error = ServiceError {
        source: "render".into(),
        message: "bad template".into(),
        warning: false,
        terminal: false,
        location: Some("web/a.yaml:3".into()),
    };
    let answer = door.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap();
    let failed = reported(&answer.services[0], |said| said.errors = vec![error.clone()]);
    door.app.agent_report(&agent, report(3, vec![failed])).await.unwrap();
    assert_eq!(status(&door, &service).await, (ServiceStatus::Failed, "2 / 2".into()));
    assert_eq!(door.app.service_errors(&door.admin, service.id).await.unwrap(), [error]);
    let fine = reported(&answer.services[0], |said| {
        said.components = Some(vec![component("a", ComponentState::Running)]);
    });
    door.app.agent_report(&agent, report(4, vec![fine])).await.unwrap();
    assert_eq!(status(&door, &service).await, (ServiceStatus::Healthy, "1 / 1".into()));
    door.stop().await;
}

async fn an_old_report_changes_nothing_and_a_repeated_one_is_stored_once(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let fine = |components| reported(&spec, |said| said.components = Some(components));
    let good = fine(vec![component("a", ComponentState::Running)]);
    door.app.agent_report(&agent, report(7, vec![good.clone()])).await.unwrap();
    let statements = door.database.statements();
    door.app.agent_report(&agent, report(7, vec![good])).await.unwrap();
    assert_eq!(door.database.statements(), statements);
    let old =
        ReportedService { sequence: spec.sequence - 1, ..fine(vec![component("a", ComponentState::Failed)]) };
    door.app.agent_report(&agent, report(8, vec![old])).await.unwrap();
    assert_eq!(status(&door, &service).await.0, ServiceStatus::Healthy);
    door.stop().await;
}

async fn a_token_reaches_its_own_cluster_only(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, service, spec, cursor) = deployed(&door, "blue").await;
    let (red, ..) = deployed(&door, "red").await;
    let stranger = door.cluster("green").await;
    let green = door.app.agent_authenticate(stranger.deploy_token.expose_secret()).unwrap();

    let artifact = digest("one");
    assert!(door.app.agent_artifact(&blue, &artifact).await.is_ok());
    assert!(door.app.agent_artifact(&red, &artifact).await.is_ok());
    for wrong in [artifact.as_str(), "", "zz", "../../etc/passwd", &digest("never"), &artifact.to_uppercase()]
    {
        assert!(
            matches!(door.app.agent_artifact(&green, wrong).await, Err(Error::NotFound { .. })),
            "{wrong}"
        );
    }
    // Lies about another cluster's service change nothing there.
    let lie = reported(&spec, |said| {
        said.sequence = u64::MAX >> 1;
        said.destroyed = true;
        said.components = Some(vec![component("x", ComponentState::Failed)]);
    });
    door.app.agent_report(&green, report(1, vec![lie])).await.unwrap();
    assert_eq!(status(&door, &service).await.0, ServiceStatus::Stale);
    assert!(door.app.service_components(&door.admin, service.id).await.unwrap().is_empty());
    // A cursor of another cluster, or made up, gives nothing of it.
    let answer = door.app.agent_poll(&green, &PollAsked::at(Some(&cursor))).await.unwrap();
    assert!(answer.services.is_empty());
    let future = FeedCursor { sequence: u64::MAX, ..cursor };
    // From a time that this console does not know: it has nothing newer to say.
    assert!(door.app.agent_poll(&green, &PollAsked::at(Some(&future))).await.is_err());
    // As a user it is nobody.
    let actor = door.app.actor_authenticate(stranger.deploy_token.expose_secret()).await.unwrap();
    let ctx = door.app.ctx(actor);
    assert!(door.app.get::<Service>(&ctx, &service_id(&service)).await.is_err());
    assert!(
        door.app.list::<User>(&ctx, &Search::default(), &plural_core::PageArgs::default()).await.is_err()
    );
    door.stop().await;
}

async fn destroying_ends_when_the_agent_says_so(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, cursor) = deployed(&door, "blue").await;
    // Nobody asked: an agent cannot make a service go.
    let lie = reported(&spec, |said| said.destroyed = true);
    door.app.agent_report(&agent, report(1, vec![lie])).await.unwrap();
    assert!(door.app.get::<Service>(&door.admin, &service_id(&service)).await.is_ok());

    door.app.service_delete(&door.admin, &service_id(&service)).await.unwrap();
    let answer = poll_until(&door, &agent, Some(&cursor), |answer| {
        answer.services.iter().any(|spec| spec.intent == Intent::Destroy)
    })
    .await;
    let done = reported(&answer.services[0], |said| said.destroyed = true);
    door.app.agent_report(&agent, report(2, vec![done])).await.unwrap();
    assert!(door.app.get::<Service>(&door.admin, &service_id(&service)).await.is_err());
    let last = poll_until(&door, &agent, Some(&answer.cursor), |answer| !answer.forgotten.is_empty()).await;
    assert_eq!(last.forgotten, [WorkRef::service(service.id)]);
    door.stop().await;
}

async fn a_kick_reaches_the_open_stream(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, cursor) = deployed(&door, "blue").await;
    let mut hints = door.app.agent_hints(&agent, Some(&cursor)).unwrap();
    door.app.service_kick(&door.admin, &service_id(&service)).await.unwrap();
    // What moved before it may be a hint of its own.
    let kicked =
        eventually(async || hints.next().await.map(|hint| hint.kicked).filter(|ids| !ids.is_empty())).await;
    assert_eq!(kicked, [WorkRef::service(service.id)]);
    let answer = door.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.unwrap();
    assert!(answer.services[0].sequence > spec.sequence);
    door.stop().await;
}

async fn bad_reports_are_cut(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let long = ServiceError {
        source: "git".into(),
        message: format!("\0{}", "ä".repeat(10_000)),
        warning: true,
        terminal: false,
        location: None,
    };
    let said = reported(&spec, |said| said.errors = vec![long]);
    let unknown = ReportedService { id: ServiceId::new(), revision_id: RevisionId::new(), ..said.clone() };
    door.app.agent_report(&agent, report(2, vec![unknown, said])).await.unwrap();
    let errors = door.app.service_errors(&door.admin, service.id).await.unwrap();
    assert_eq!(errors[0].source, "source", "an agent does not speak as the console");
    assert!(errors[0].message.len() < 5000 && !errors[0].message.contains('\0'));
    // The same object named twice is one component.
    let twice = reported(&spec, |said| {
        said.components =
            Some(vec![component("a", ComponentState::Running), component("a", ComponentState::Failed)]);
    });
    door.app.agent_report(&agent, report(3, vec![twice])).await.unwrap();
    assert_eq!(door.app.service_components(&door.admin, service.id).await.unwrap().len(), 1);
    door.stop().await;
}

async fn reports_that_were_accepted_survive_a_stop(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let app = std::sync::Arc::clone(&door.app);
    let said = reported(&spec, |said| said.components = Some(vec![component("a", ComponentState::Running)]));
    let sent = tokio::spawn(async move { app.agent_report(&agent, report(1, vec![said])).await });
    door.stop().await;
    if sent.await.unwrap().is_ok() {
        assert_eq!(status(&door, &service).await.0, ServiceStatus::Healthy);
    } else {
        assert_eq!(status(&door, &service).await.0, ServiceStatus::Stale);
    }
}
