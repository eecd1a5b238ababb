//! Recordings of shells: kept piece by piece, sealed, read by those who were named, gone in time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use futures::TryStreamExt;
use plural_app::cluster::CreatedCluster;
use plural_app::ctx::Clock;
use plural_app::project::ProjectSelector;
use plural_app::proxy::ProxyGrant;
use plural_app::recorder::{Recorder, RecordingWriter};
use plural_app::recording::{NewRecordingPolicy, RecordingsSelector};
use plural_app::sync_window::NewSyncWindow;
use plural_app::{App, OpCtx};
use plural_core::cluster::NewCluster;
use plural_core::group::NewGroup;
use plural_core::ids::{RecordingId, RequestId};
use plural_core::policy::BindingsChange;
use plural_core::project::Project;
use plural_core::recording::{RecordingEnd, RecordingState, Shell, ShellKind};
use plural_core::sync_window::{SyncWindowKind, WindowRule};
use plural_core::{Error, PageArgs, Result};
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::clock::Wrong;
use crate::door::{Door, by_id, eventually, subject};
use crate::git::FakeGit;

each_database!(
    what_is_shown_is_kept_and_read_by_whom_was_named,
    what_was_stored_outlives_a_console_that_is_killed,
    a_recording_ends_where_it_may_not_grow,
    nothing_begins_while_nothing_can_be_kept,
    recordings_go_when_they_were_kept_long_enough,
    readers_of_a_deleted_project_find_its_recordings,
);

const SECRET: &str = "hunter2-hunter2";

/// Says that shells of the default project's clusters are recorded.
pub(crate) async fn record(door: &Door, new: NewRecordingPolicy) {
    let policy = NewRecordingPolicy { record: true, ..new };
    door.app.recording_policy_set(&door.admin, &ProjectSelector::Default, policy).await.unwrap();
}

pub(crate) async fn grant(door: &Door, cluster: &CreatedCluster) -> Arc<ProxyGrant> {
    let token = door.app.token_create(&door.admin, None, None).await.unwrap();
    door.app.proxy_grant(token.text.expose_secret(), &by_id(&cluster.cluster)).await.unwrap()
}

pub(crate) fn shell() -> Shell {
    Shell {
        kind: ShellKind::Exec,
        namespace: "shop".into(),
        pod: "web-0".into(),
        container: Some("web".into()),
        command: vec!["sh".into(), "-c".into(), format!("echo {SECRET}")],
        tty: true,
    }
}

pub(crate) async fn begin(app: &Arc<App>, grant: &ProxyGrant) -> Result<(Recorder, RecordingWriter)> {
    app.recording_begin(grant, shell(), RequestId::new()).await
}

fn of(cluster: &CreatedCluster) -> RecordingsSelector {
    RecordingsSelector::Cluster(by_id(&cluster.cluster))
}

async fn read(door: &Door, ctx: &OpCtx, id: RecordingId) -> Result<Vec<String>> {
    let (_, stream) = door.app.recording_read(ctx, id).await?;
    let pieces: Vec<bytes::Bytes> = stream.try_collect().await.unwrap();
    let text = String::from_utf8(pieces.concat()).unwrap();
    Ok(text.lines().map(str::to_owned).collect())
}

async fn what_is_shown_is_kept_and_read_by_whom_was_named(database: TestDatabase) {
    let door = Door::new(database).await;
    let cluster = door.cluster("blue").await;
    let grant = grant(&door, &cluster).await;
    assert!(!door.app.recording_wanted(&grant).await.unwrap(), "off unless asked for");
    let auditor = door.user("auditor").await;
    let readers = NewRecordingPolicy { users: vec![auditor.email.to_string()], ..Default::default() };
    record(&door, readers).await;
    assert!(door.app.recording_wanted(&grant).await.unwrap());

    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let id = writer.id();
    let writing = tokio::spawn(writer.run());
    recorder.resize(120, 40).await.unwrap();
    recorder.output(format!("$ {SECRET}\r\n")).await.unwrap();
    // Not asked for: it is typed, and not kept.
    assert!(!recorder.wants_input());
    recorder.input("a password\n".into()).await.unwrap();
    recorder.resize(80, 24).await.unwrap();
    drop(recorder);
    assert_eq!(writing.await.unwrap(), RecordingEnd::Ended);

    let auditor = door.as_user(&auditor).await;
    let listed = door.app.recording_list(&auditor, &of(&cluster), &PageArgs::default()).await;
    let listed = listed.unwrap().into_nodes();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id, &listed[0].shell, listed[0].size), (id, &shell(), Some((120, 40))));
    assert_eq!(listed[0].state(door.app.now()), RecordingState::Ended);
    let lines = read(&door, &auditor, id).await.unwrap();
    let header: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&2.into(), &120.into(), &40.into())
    );
    assert_eq!(header["command"], format!("sh -c echo {SECRET}"));
    let kinds: Vec<&str> = lines[1..].iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(kinds, ["m", "r", "o", "r"], "{lines:?}");
    let bytes: usize = lines[1..].iter().map(|line| line.len() + 1).sum();
    assert_eq!(listed[0].bytes, bytes as u64);

    // Each reading is told.
    let audits = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let told: Vec<_> = audits.iter().filter(|row| row.entry.action == "recording.read").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].entry.actor, "auditor@example.com");
    assert_eq!(told[0].entry.target.id, Some(id.uuid()));
    assert_eq!(told[0].entry.target.name, "shop/web-0");

    // Sealed in the database and in the blobs.
    for blob in door.git.kept.lock().values() {
        assert!(!blob.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    }
    if let Some(folder) = door.source.folder() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
        }
    }

    // Who is named no longer reads no longer; unknown names are told.
    record(&door, NewRecordingPolicy::default()).await;
    assert!(matches!(read(&door, &auditor, id).await, Err(Error::NotFound { .. })));
    let unknown = NewRecordingPolicy { groups: vec!["nobody".into()], ..Default::default() };
    let error = door.app.recording_policy_set(&door.admin, &ProjectSelector::Default, unknown).await;
    assert!(error.unwrap_err().to_string().contains("nobody"));
}

async fn what_was_stored_outlives_a_console_that_is_killed(database: TestDatabase) {
    let source = Arc::new(database);
    let clock = Arc::new(Wrong::default());
    let git = Arc::new(FakeGit::default());
    let open = async || {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        Door::open_by(Arc::clone(&source), &DatabaseOptions::new(""), Arc::clone(&git), clock).await
    };
    let door = open().await;
    let cluster = door.cluster("blue").await;
    let grant = grant(&door, &cluster).await;
    record(&door, NewRecordingPolicy::default()).await;
    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let id = writer.id();
    let writing = tokio::spawn(writer.run());
    recorder.output("before\r\n".into()).await.unwrap();
    eventually(async || {
        read(&door, &door.admin, id).await.unwrap().iter().any(|line| line.contains("before")).then_some(())
    })
    .await;
    recorder.output("in the middle\r\n".into()).await.unwrap();
    writing.abort();
    let _ = writing.await;
    assert!(recorder.output("after\r\n".into()).await.is_err());
    drop((recorder, door));

    let door = open().await;
    let lines = read(&door, &door.admin, id).await.unwrap();
    assert!(lines.last().unwrap().contains("before"), "{lines:?}");
    let state = async || {
        let page = door.app.recording_list(&door.admin, &of(&cluster), &PageArgs::default()).await.unwrap();
        page.into_nodes()[0].state(door.app.now())
    };
    assert_eq!(state().await, RecordingState::Running, "nobody knows better yet");
    clock.0.store(600, Ordering::Relaxed);
    assert_eq!(state().await, RecordingState::Broken);
}

async fn a_recording_ends_where_it_may_not_grow(database: TestDatabase) {
    let door = Door::new(database).await;
    let cluster = door.cluster("blue").await;
    let grant = grant(&door, &cluster).await;
    record(&door, NewRecordingPolicy { limit_megabytes: Some(1), ..Default::default() }).await;
    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let id = writer.id();
    let writing = tokio::spawn(writer.run());
    let mut taken = 0;
    while recorder.output("x".repeat(30_000)).await.is_ok() {
        taken += 1;
        assert!(taken < 1000, "it grows on");
    }
    assert_eq!(writing.await.unwrap(), RecordingEnd::Full);
    let (recording, _) = door.app.recording_read(&door.admin, id).await.unwrap();
    assert_eq!(recording.end, Some(RecordingEnd::Full));
    assert!((1_000_000..2_100_000).contains(&recording.bytes), "{}", recording.bytes);
    // Whatever was taken may have been shown.
    let lines = read(&door, &door.admin, id).await.unwrap();
    assert_eq!(lines[1..].iter().map(|line| line.matches('x').count()).sum::<usize>(), taken * 30_000);
    // No piece is much larger than others: little was held.
    let largest = door.git.kept.lock().values().map(Vec::len).max().unwrap();
    assert!(largest < 200_000, "{largest}");
}

async fn nothing_begins_while_nothing_can_be_kept(database: TestDatabase) {
    let door = Door::new(database).await;
    let cluster = door.cluster("blue").await;
    let grant = grant(&door, &cluster).await;
    record(&door, NewRecordingPolicy::default()).await;
    door.git.away.store(true, Ordering::SeqCst);
    let refused = begin(&door.app, &grant).await.map(drop);
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert!(door.app.recording_probe().await.is_err());
    let page = door.app.recording_list(&door.admin, &of(&cluster), &PageArgs::default()).await.unwrap();
    assert!(page.edges.is_empty());

    // One that began ends its shell when it cannot go on.
    door.git.away.store(false, Ordering::SeqCst);
    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let writing = tokio::spawn(writer.with_patience(Duration::ZERO).run());
    door.git.away.store(true, Ordering::SeqCst);
    recorder.output("lost".into()).await.unwrap();
    assert_eq!(writing.await.unwrap(), RecordingEnd::Failed);
    assert!(recorder.output("more".into()).await.is_err());

    // One whose shell was not opened leaves nothing.
    door.git.away.store(false, Ordering::SeqCst);
    let (_, writer) = begin(&door.app, &grant).await.unwrap();
    let id = writer.id();
    writer.discard().await;
    assert!(matches!(read(&door, &door.admin, id).await, Err(Error::NotFound { .. })));
}

async fn recordings_go_when_they_were_kept_long_enough(database: TestDatabase) {
    let clock = Arc::new(Wrong::default());
    let git = Arc::new(FakeGit::default());
    let as_clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let door = Door::open_by(Arc::new(database), &DatabaseOptions::new(""), git, as_clock).await;
    let cluster = door.cluster("blue").await;
    let grant = grant(&door, &cluster).await;
    let mut ids = Vec::new();
    for days in [1, 10] {
        record(&door, NewRecordingPolicy { keep_days: Some(days), ..Default::default() }).await;
        let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
        ids.push(writer.id());
        drop(recorder);
        assert_eq!(writer.run().await, RecordingEnd::Ended);
    }
    // What is named stays, however old it is.
    assert_eq!(door.app.artifacts_collect(Duration::ZERO).await.unwrap(), 0);
    assert_eq!(door.app.recordings_forget().await.unwrap(), 0);
    clock.0.store(TimeDelta::days(2).num_seconds(), Ordering::Relaxed);
    assert_eq!(door.app.recordings_forget().await.unwrap(), 1);
    assert_eq!(door.app.artifacts_collect(Duration::ZERO).await.unwrap(), 1);
    assert!(matches!(read(&door, &door.admin, ids[0]).await, Err(Error::NotFound { .. })));
    assert_eq!(read(&door, &door.admin, ids[1]).await.unwrap().len(), 2);
}

/// Whom the project named still finds and reads what was recorded there, until it goes; nobody else does.
async fn readers_of_a_deleted_project_find_its_recordings(database: TestDatabase) {
    let clock = Arc::new(Wrong::default());
    let git = Arc::new(FakeGit::default());
    let as_clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let mut door = Door::open_by(Arc::new(database), &DatabaseOptions::new(""), git, as_clock).await;
    let (ada, eve, owner, stranger) = (
        door.user("ada").await,
        door.user("eve").await,
        door.user("owner").await,
        door.user("stranger").await,
    );
    let new = NewGroup { name: "auditors".parse().unwrap(), description: None, global: false };
    let group = door.app.group_create(&door.admin, &new).await.unwrap();
    door.app.group_member_create(&door.admin, group.id, eve.id).await.unwrap();
    let shop = door.project("shop").await;
    let new = NewCluster { project_id: Some(shop.id), ..NewCluster::named("blue".parse().unwrap()) };
    let cluster = door.app.cluster_create(&door.admin, new).await.unwrap();
    let admins = BindingsChange { admin: Some(vec![subject(&owner)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, shop.id, admins).await.unwrap();
    let (as_owner, project) = (door.as_user(&owner).await, ProjectSelector::Id(shop.id));
    let policy = NewRecordingPolicy {
        record: true,
        keep_days: Some(1),
        users: vec![ada.email.to_string()],
        groups: vec!["auditors".into()],
        ..NewRecordingPolicy::default()
    };
    door.app.recording_policy_set(&as_owner, &project, policy).await.unwrap();
    let rule = WindowRule::new(SyncWindowKind::Deny, "0 * * * *", 3600, "UTC").unwrap();
    let window = NewSyncWindow { name: None, rule, description: None };
    door.app.sync_window_create(&as_owner, shop.id, window).await.unwrap();
    let grant = grant(&door, &cluster).await;
    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let id = writer.id();
    drop(recorder);
    assert_eq!(writer.run().await, RecordingEnd::Ended);
    // Another one, of a project that stays.
    let other = door.cluster("green").await;
    record(&door, NewRecordingPolicy { keep_days: Some(10), ..NewRecordingPolicy::default() }).await;
    let grant = self::grant(&door, &other).await;
    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let kept = writer.id();
    drop(recorder);
    assert_eq!(writer.run().await, RecordingEnd::Ended);

    door.app.cluster_detach(&door.admin, &by_id(&cluster.cluster)).await.unwrap();
    door.app.project_delete(&as_owner, shop.id).await.unwrap();
    door.policies_match_what_they_are_of().await;

    let all = PageArgs::default();
    let listed = async |ctx: &OpCtx, of: RecordingsSelector| {
        let page = door.app.recording_list(ctx, &of, &all).await?;
        Ok::<_, Error>(page.into_nodes().into_iter().map(|recording| recording.id).collect::<Vec<_>>())
    };
    let named = || RecordingsSelector::ProjectNamed("shop".into());
    for reader in [&ada, &eve] {
        let reader = door.as_user(reader).await;
        for of in [RecordingsSelector::Readable, RecordingsSelector::Project(shop.id), named()] {
            assert_eq!(listed(&reader, of.clone()).await.unwrap(), [id], "{of:?}");
        }
        assert!(!read(&door, &reader, id).await.unwrap().is_empty());
        let names = door.app.recorded_projects_get(&reader, &[shop.id]).await.unwrap();
        assert_eq!(names[&shop.id].name, "shop");
        assert!(matches!(read(&door, &reader, kept).await, Err(Error::NotFound { .. })));
        // What is gone is not there for them either.
        let gone = door.app.get::<Project>(&reader, &project).await;
        assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    }
    // Who had every other right has none any more, and does not know of them.
    for other in [&owner, &stranger] {
        let other = door.as_user(other).await;
        assert!(listed(&other, RecordingsSelector::Readable).await.unwrap().is_empty());
        for of in [RecordingsSelector::Project(shop.id), named()] {
            let refused = listed(&other, of.clone()).await;
            assert!(matches!(refused, Err(Error::NotFound { .. })), "{of:?}: {refused:?}");
        }
        assert!(matches!(read(&door, &other, id).await, Err(Error::NotFound { .. })));
        assert!(door.app.recorded_projects_get(&other, &[shop.id]).await.unwrap().is_empty());
    }
    assert_eq!(listed(&door.admin, RecordingsSelector::Readable).await.unwrap(), [id, kept]);
    assert_eq!(listed(&door.admin, named()).await.unwrap(), [id]);
    assert!(listed(&door.admin, RecordingsSelector::ProjectNamed("nowhere".into())).await.is_err());
    // Nothing can be bound to what is gone, and another project of the name has its own readers.
    let again = door.project("shop").await;
    let as_ada = door.as_user(&ada).await;
    assert!(listed(&as_ada, named()).await.is_err());
    assert_eq!(listed(&as_ada, RecordingsSelector::Project(shop.id)).await.unwrap(), [id]);
    let refused = door.app.binding_replace(&door.admin, shop.id, BindingsChange::default()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    door.app.project_delete(&door.admin, again.id).await.unwrap();

    // With the last recording goes who may read it.
    clock.0.store(TimeDelta::days(2).num_seconds(), Ordering::Relaxed);
    assert_eq!(door.app.recordings_forget().await.unwrap(), 1);
    assert!(listed(&as_ada, RecordingsSelector::Readable).await.unwrap().is_empty());
    assert!(matches!(listed(&as_ada, named()).await, Err(Error::NotFound { .. })));
    assert_eq!(listed(&door.admin, RecordingsSelector::Readable).await.unwrap(), [kept]);
    door.stop().await;
}
