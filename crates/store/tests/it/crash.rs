//! Bad days: a console that dies at any moment, a wrong key, a full disk.

use std::sync::Arc;

use plural_app::App;
use plural_app::app::{Ports, Settings};
use plural_app::ctx::SystemClock;
use plural_app::ports::key_encryption::LocalKey;
use plural_app::records::Search;
use plural_app::repository::NewCredentials;
use plural_core::repository::{NewRepository, Repository};
use plural_core::service::Service;
use plural_core::{Error, PageArgs};
use plural_store::{Database, DatabaseOptions};
use plural_testkit::{SmallDisk, TestDatabase, each_database};

use crate::door::{Door, NoIdentities, NoTemplates, eventually, service_id};
use crate::git::{FakeGit, digest};

each_database!(
    a_console_that_dies_again_and_again_loses_and_repeats_nothing,
    another_key_is_refused_at_the_start,
);

const URL: &str = "https://example.com/a";

/// Everything of the console is dropped in the middle of its work, again and again; in the end every
/// service is where the last commit wants it, and no commit was applied twice.
async fn a_console_that_dies_again_and_again_loses_and_repeats_nothing(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository(URL).await;
    let folders: Vec<String> = (0..10).map(|i| format!("s{i}")).collect();
    let contents =
        |round: usize| folders.iter().map(|f| (f.as_str(), format!("{f} {round}"))).collect::<Vec<_>>();
    let mut services = Vec::new();
    for name in &folders {
        services.push(door.service(&made.cluster, &repository, name).await);
    }
    for (round, first) in services.iter().enumerate().take(6) {
        let files = contents(round);
        let files: Vec<(&str, &str)> = files.iter().map(|(f, c)| (*f, c.as_str())).collect();
        door.git.commit(URL, &format!("c{round}"), &files);
        door.start();
        // Die as soon as some of it is done, which is another moment each time.
        let wanted = digest(&format!("s{round} {round}"));
        eventually(async || {
            let service = door.app.get::<Service>(&door.admin, &service_id(first)).await.unwrap();
            (service.artifact_digest.as_deref() == Some(wanted.as_str())).then_some(())
        })
        .await;
        door.kill().await;
        door =
            Door::open_on(Arc::clone(&door.source), &DatabaseOptions::new(""), Arc::clone(&door.git)).await;
    }
    door.start();
    for (service, name) in services.iter().zip(&folders) {
        let wanted = digest(&format!("{name} 5"));
        eventually(async || {
            let service = door.app.get::<Service>(&door.admin, &service_id(service)).await.unwrap();
            (service.artifact_digest.as_deref() == Some(wanted.as_str())).then_some(())
        })
        .await;
        let revisions = door
            .app
            .service_revisions(&door.admin, service.id, &PageArgs::default())
            .await
            .unwrap()
            .into_nodes();
        let mut commits: Vec<_> = revisions.into_iter().filter_map(|revision| revision.sha).collect();
        let all = commits.len();
        commits.dedup();
        assert_eq!(commits.len(), all, "each commit moves a service once");
    }
    door.stop().await;
}

async fn another_key_is_refused_at_the_start(database: TestDatabase) {
    let door = Door::new(database).await;
    let ports = |key: [u8; 32], previous: &[[u8; 32]]| Ports {
        store: Arc::clone(&door.database) as Arc<dyn plural_app::Store>,
        git: Arc::new(FakeGit::default()),
        composer: Arc::new(FakeGit::default()),
        blobs: Arc::new(FakeGit::default()),
        previews: Arc::new(FakeGit::default()),
        rules: Arc::new(FakeGit::default()),
        git_hosts: Arc::new(FakeGit::default()),
        governances: Arc::new(FakeGit::default()),
        scaffolds: Arc::new(FakeGit::default()),
        templates: Arc::new(NoTemplates),
        identities: Arc::new(NoIdentities),
        audit_sinks: Vec::new(),
        keys: LocalKey::all(&key, previous),
        secret_backends: Vec::new(),
        clock: Arc::new(SystemClock),
    };
    let settings = || Settings::new("webhook secret".into());
    match App::new(ports([7; 32], &[]), settings()).await {
        Err(Error::Conflict { reason }) => assert!(reason.contains("encryption key"), "{reason}"),
        _ => panic!("it started"),
    }
    // A rotated key beside the old one is fine.
    assert!(App::new(ports([7; 32], &[crate::door::KEY]), settings()).await.is_ok());
}

#[test]
fn a_full_disk_is_said_and_passes() {
    let Some(disk) = SmallDisk::new_or_say(8 << 20) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", disk.path().join("test.db").display());
        let database = Arc::new(Database::open(&DatabaseOptions::new(url)).await.unwrap());
        let ports = Ports {
            store: Arc::clone(&database) as Arc<dyn plural_app::Store>,
            git: Arc::new(FakeGit::default()),
            composer: Arc::new(FakeGit::default()),
            blobs: Arc::new(FakeGit::default()),
            previews: Arc::new(FakeGit::default()),
            rules: Arc::new(FakeGit::default()),
            git_hosts: Arc::new(FakeGit::default()),
            governances: Arc::new(FakeGit::default()),
            scaffolds: Arc::new(FakeGit::default()),
            templates: Arc::new(NoTemplates),
            identities: Arc::new(NoIdentities),
            audit_sinks: Vec::new(),
            keys: LocalKey::all(&crate::door::KEY, &[]),
            secret_backends: Vec::new(),
            clock: Arc::new(SystemClock),
        };
        let app = App::new(ports, Settings::new("webhook secret".into())).await.unwrap();
        app.install(&"root@example.com".parse().unwrap(), Some("first password".into())).await.unwrap();
        let admin = app.ctx(plural_core::access::Actor::System);
        let create = async |i: usize| {
            let new = NewRepository {
                url: format!("https://example.com/{i}").parse().unwrap(),
                project_id: None,
                web: plural_core::web_address::WebAddress::default(),
            };
            app.repository_create(&admin, new, NewCredentials::default()).await
        };
        let ballast = disk.fill().unwrap();
        let mut made = 0;
        let error = loop {
            match create(made).await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 10_000, "the disk never fills");
        };
        assert!(error.to_string().contains("disk is full"), "{}", error.log_text());
        let listed = app.list::<Repository>(&admin, &Search::default(), &PageArgs::first(1)).await;
        assert!(listed.is_ok(), "reading goes on");
        std::fs::remove_file(ballast).unwrap();
        assert!(create(made).await.is_ok(), "and so does writing, once there is room");
    });
}
