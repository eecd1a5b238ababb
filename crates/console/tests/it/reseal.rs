//! The encryption key is rotated: everything that was sealed with the old one is sealed with the new one, and the old one
//! can go.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::TryStreamExt as _;
use plural_app::cluster::ClusterSelector;
use plural_app::ctx::SystemClock;
use plural_app::jobs::Resealed;
use plural_app::project::ProjectSelector;
use plural_app::recording::NewRecordingPolicy;
use plural_app::{App, OpCtx};
use plural_console::{ConsoleConfig, RunningConsole};
use plural_core::ids::{RecordingId, RequestId};
use plural_core::recording::{Shell, ShellKind};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer, WEBHOOK_SECRET};

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----";

/// What is read back under every key.
struct Sealed {
    ids: Value,
    recording: RecordingId,
}

/// One of everything that is sealed.
async fn fill(t: &TestServer) -> Sealed {
    let admin = &t.admin;
    let repository = admin
        .data(
            "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id url } }",
            json!({"a": {
                "url": "ssh://git@git.invalid/team/app.git", "privateKey": KEY, "passphrase": "kept phrase",
                "knownHosts": "git.invalid ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
            }}),
        )
        .await["createGitRepository"]
        .clone();
    let rotate = "mutation ($id: ID!) { rotateGitRepositoryWebhook(id: $id) { secret } }";
    let webhook =
        admin.data(rotate, json!({"id": repository["id"]})).await["rotateGitRepositoryWebhook"].clone();
    admin
        .data(
            "mutation ($u: String!, $a: HelmRepositoryAttributes) { upsertHelmRepository(url: $u, attributes: $a) { id } }",
            json!({"u": "https://charts.invalid", "a": {"auth": {"basic": {"username": "u", "password": "kept word"}}}}),
        )
        .await;
    let context = "mutation ($n: String!, $a: ServiceContextAttributes!) { saveServiceContext(name: $n, attributes: $a) { id } }";
    let secrets = json!({"configuration": {"a": 1}, "secrets": [{"name": "token", "value": "kept token"}]});
    admin.data(context, json!({"n": "shared", "a": secrets})).await;
    let cluster = admin.cluster("blue").await;
    let service = admin
        .data(
            "mutation ($id: ID, $attributes: ServiceDeploymentAttributes!) {
               createServiceDeployment(clusterId: $id, attributes: $attributes) { id }
             }",
            json!({"id": cluster["id"], "attributes": {
                "name": "web", "namespace": "shop", "repositoryId": repository["id"],
                "git": {"ref": "main", "folder": "web"},
                "configuration": [{"name": "password", "value": "kept password"}],
                "helm": {"values": "inline: kept value"},
            }}),
        )
        .await["createServiceDeployment"]
        .clone();
    let global = admin
        .data(
            "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }",
            json!({"a": {
                "name": "everywhere", "projectId": t.project, "tags": [{"name": "nowhere", "value": "at all"}],
                "template": {
                    "repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"},
                    "configuration": [{"name": "password", "value": "kept global"}],
                },
            }}),
        )
        .await["createGlobalService"]
        .clone();
    let recording = record(t, t.console.app()).await;
    let ids = json!({"service": service["id"], "global": global["id"], "repository": repository["id"], "webhook": webhook["secret"]});
    Sealed { ids, recording }
}

async fn ctx(app: &Arc<App>, person: &Person) -> OpCtx {
    let actor = app.actor_authenticate(person.token.as_deref().unwrap()).await.unwrap();
    OpCtx::new(actor, Arc::new(SystemClock))
}

/// A recording of several pieces.
async fn record(t: &TestServer, app: &Arc<App>) -> RecordingId {
    let ctx = ctx(app, &t.admin).await;
    let policy = NewRecordingPolicy {
        record: true,
        users: vec!["admin@example.com".into()],
        ..NewRecordingPolicy::default()
    };
    app.recording_policy_set(&ctx, &ProjectSelector::Default, policy).await.unwrap();
    let token = t.admin.data("mutation { createAccessToken { token } }", json!({})).await;
    let token = token["createAccessToken"]["token"].as_str().unwrap().to_owned();
    let blue = ClusterSelector::Handle("blue".parse().unwrap());
    let grant = app.proxy_grant(&token, &blue).await.unwrap();
    let shell = Shell {
        kind: ShellKind::Exec,
        namespace: "shop".into(),
        pod: "web-0".into(),
        container: None,
        command: vec!["echo".into(), "kept command".into()],
        tty: true,
    };
    let (recorder, writer) = app.recording_begin(&grant, shell, RequestId::new()).await.unwrap();
    let id = writer.id();
    let written = tokio::spawn(writer.run());
    for piece in 0..4 {
        recorder.output(format!("kept piece {piece} {}", "x".repeat(140 << 10))).await.unwrap();
    }
    drop(recorder);
    written.await.unwrap();
    id
}

/// Reads everything back, and starts with what the key check and the proxy's key say.
async fn is_whole(folder: &Path, keys: &[[u8; 32]], sealed: &Sealed) {
    let console = start(folder, keys).await;
    let admin = Person::of(&console.url).sign_in("admin@example.com", "correct horse battery").await;
    let told = admin
        .data(
            "query ($service: ID!, $repository: ID!) {
               serviceDeployment(id: $service) { configuration { value } helm { values } }
               gitRepositoryWebhook(id: $repository) { secret }
             }",
            sealed.ids.clone(),
        )
        .await;
    let text = told.to_string();
    for kept in ["kept password", "inline: kept value", sealed.ids["webhook"].as_str().unwrap()] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    let app = console.app();
    let ctx = ctx(app, &admin).await;
    let (recording, stream) = app.recording_read(&ctx, sealed.recording).await.unwrap();
    assert_eq!(recording.shell.command, ["echo", "kept command"]);
    let pieces: Vec<bytes::Bytes> = stream.try_collect().await.unwrap();
    let text = String::from_utf8(pieces.concat()).unwrap();
    for piece in 0..4 {
        assert!(text.contains(&format!("kept piece {piece}")), "piece {piece}");
    }
    // Nothing is left that only another key opens, what nobody reads here included.
    assert_eq!(app.reseal().await.unwrap(), Resealed::default());
    console.stop().await.unwrap();
}

fn write_keys(folder: &Path, keys: &[[u8; 32]]) -> PathBuf {
    let file = folder.join("keys");
    fs::write(&file, keys.iter().map(|key| STANDARD.encode(key) + "\n").collect::<String>()).unwrap();
    file
}

async fn start(folder: &Path, keys: &[[u8; 32]]) -> RunningConsole {
    let mut config = ConsoleConfig::local(folder.join("data"));
    config.encryption_key_file = Some(write_keys(folder, keys));
    config.admin_email = "admin@example.com".into();
    config.webhook_secret = Some(SecretString::from(WEBHOOK_SECRET));
    RunningConsole::start(config, None).await.unwrap()
}

#[tokio::test]
async fn a_rotated_key_seals_everything_anew_whenever_it_is_stopped() {
    let (old, new) = ([1; 32], [2; 32]);
    let t = TestServer::start_with(|folder, config| {
        config.encryption_key_file = Some(write_keys(folder, &[old]));
    })
    .await;
    let sealed = fill(&t).await;
    assert_eq!(t.console.app().reseal().await.unwrap(), Resealed::default(), "there is one key");
    let TestServer { console, folder: owned, .. } = t;
    console.stop().await.unwrap();
    let folder = owned.path().to_owned();

    // A console that knows both keys does it by itself. Here it is killed after ever more steps.
    for steps in 0..25 {
        let console = start(&folder, &[new, old]).await;
        for _ in 0..steps * 20 {
            tokio::task::yield_now().await;
        }
        console.kill().await;
    }
    let console = start(&folder, &[new, old]).await;
    let Resealed { failed, .. } = console.app().reseal().await.unwrap();
    assert_eq!(failed, 0);
    console.stop().await.unwrap();
    is_whole(&folder, &[new], &sealed).await;

    // Without the new key nothing opens, and the console says which is missing.
    let mut config = ConsoleConfig::local(folder.join("data"));
    config.encryption_key_file = Some(write_keys(&folder, &[old]));
    let refused = RunningConsole::start(config, None).await.unwrap_err();
    let mut causes = std::iter::successors(Some(&refused as &dyn std::error::Error), |error| error.source());
    assert!(causes.any(|cause| cause.to_string().contains("encryption key")), "{refused:?}");
}
