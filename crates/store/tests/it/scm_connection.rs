//! Connections to git hosts: what becomes of their secrets, and which one is the default.

use std::collections::BTreeSet;

use plural_app::OpCtx;
use plural_app::records::Search;
use plural_app::scm_connection::{NewScmSecrets, ScmConnectionSelector};
use plural_app::seal::{SealStore as _, SealedColumn};
use plural_core::ids::ProjectId;
use plural_core::scm_connection::{
    GithubApp, NewScmConnection, ScmConnection, ScmConnectionChange, ScmHeld, ScmSpecChange, ScmType,
};
use plural_core::{Error, PageArgs, Result};
use plural_testkit::{TestDatabase, each_database};

use crate::door::Door;

each_database!(
    a_token_is_sent_nowhere_else_than_where_it_was_given_for,
    the_key_of_an_app_opens_the_installation_that_it_was_given_for,
    an_ssh_key_is_shown_to_the_hosts_that_it_was_given_for,
    secrets_stay_until_they_are_given_or_ended,
    there_is_one_default_of_each_home,
    two_changes_at_once_send_no_token_elsewhere,
    what_is_of_the_installation_is_for_its_administrators,
    a_project_with_connections_stays,
);

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----";

fn new(name: &str, project_id: Option<ProjectId>) -> NewScmConnection {
    NewScmConnection {
        name: name.parse().unwrap(),
        kind: ScmType::Gitea,
        project_id,
        is_default: false,
        spec: ScmSpecChange {
            base_url: Some("https://git.example.com".into()),
            repositories: Some(vec!["acme/*".parse().unwrap()]),
            ..ScmSpecChange::default()
        },
    }
}

fn token(text: &str) -> NewScmSecrets {
    NewScmSecrets { token: Some(text.into()), ..NewScmSecrets::default() }
}

fn at(base: &str) -> ScmConnectionChange {
    let spec = ScmSpecChange { base_url: Some(base.into()), ..ScmSpecChange::default() };
    ScmConnectionChange { spec, ..ScmConnectionChange::default() }
}

fn field(error: &Error) -> &str {
    match error {
        Error::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    }
}

async fn read(door: &Door, by: &OpCtx, connection: &ScmConnection) -> Result<ScmConnection> {
    door.app.get::<ScmConnection>(by, &ScmConnectionSelector::Id(connection.id)).await
}

async fn a_token_is_sent_nowhere_else_than_where_it_was_given_for(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let project = door.default_project().await.id;
    let made = app.scm_connection_create(admin, new("forge", Some(project)), token("abc")).await.unwrap();
    let none = NewScmSecrets::default;
    let moved = app.scm_connection_update(admin, made.id, at("https://evil.example.com"), none()).await;
    assert_eq!(field(&moved.unwrap_err()), "attributes.token");
    let proxied = NewScmSecrets { proxy: Some("http://evil.example.com:3128".into()), ..none() };
    let proxied = app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), proxied).await;
    assert_eq!(field(&proxied.unwrap_err()), "attributes.token");
    assert_eq!(read(&door, admin, &made).await.unwrap(), made, "nothing was written");
    // Another folder of the same host hears the same token.
    let folder = at("https://git.example.com/scm");
    let folder = app.scm_connection_update(admin, made.id, folder, none()).await.unwrap();
    assert_eq!(folder.spec.base_url.as_deref(), Some("https://git.example.com/scm"));
    let moved = at("https://other.example.com");
    let moved = app.scm_connection_update(admin, made.id, moved, token("def")).await.unwrap();
    assert_eq!(moved.spec.base_url.as_deref(), Some("https://other.example.com"));
    let kind = ScmConnectionChange { kind: Some(ScmType::Gitlab), ..ScmConnectionChange::default() };
    let kind = app.scm_connection_update(admin, made.id, kind, none()).await;
    assert_eq!(field(&kind.unwrap_err()), "attributes.type");
}

async fn the_key_of_an_app_opens_the_installation_that_it_was_given_for(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let project = door.default_project().await.id;
    let of = |app_id: &str, installation_id: &str| ScmSpecChange {
        github: Some(GithubApp { app_id: app_id.into(), installation_id: installation_id.into() }),
        ..ScmSpecChange::default()
    };
    let key = || NewScmSecrets { app_key: Some(KEY.into()), ..NewScmSecrets::default() };
    let made =
        NewScmConnection { kind: ScmType::Github, spec: of("12", "34"), ..new("github", Some(project)) };
    let made = app.scm_connection_create(admin, made, key()).await.unwrap();
    for spec in [of("12", "35"), of("13", "34")] {
        let change = ScmConnectionChange { spec, ..ScmConnectionChange::default() };
        let refused =
            app.scm_connection_update(admin, made.id, change.clone(), NewScmSecrets::default()).await;
        assert_eq!(field(&refused.unwrap_err()), "attributes.github.privateKey", "{change:?}");
    }
    assert_eq!(read(&door, admin, &made).await.unwrap(), made, "nothing was written");
    let change = ScmConnectionChange { spec: of("12", "35"), ..ScmConnectionChange::default() };
    let moved = app.scm_connection_update(admin, made.id, change, key()).await.unwrap();
    assert_eq!(moved.spec.github.unwrap().installation_id, "35");
}

async fn an_ssh_key_is_shown_to_the_hosts_that_it_was_given_for(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let project = door.default_project().await.id;
    let key = || NewScmSecrets {
        ssh_key: Some(KEY.into()),
        ssh_passphrase: Some("a phrase".into()),
        ..NewScmSecrets::default()
    };
    let hosts = |text: &str| ScmConnectionChange {
        spec: ScmSpecChange { known_hosts: Some(text.into()), ..ScmSpecChange::default() },
        ..ScmConnectionChange::default()
    };
    let spec = ScmSpecChange {
        base_url: Some("ssh://git@git.example.com/srv".into()),
        known_hosts: Some("git.example.com ssh-ed25519 AAAA\n".into()),
        ..ScmSpecChange::default()
    };
    let made = NewScmConnection { kind: ScmType::Plain, spec, ..new("plain", Some(project)) };
    let without = app.scm_connection_create(admin, made.clone(), NewScmSecrets::default()).await;
    assert_eq!(field(&without.unwrap_err()), "attributes.sshPrivateKey");
    let made = app.scm_connection_create(admin, made, key()).await.unwrap();
    assert_eq!(made.held, ScmHeld { ssh_key: true, ..ScmHeld::default() });
    assert_eq!(made.spec.known_hosts.as_deref(), Some("git.example.com ssh-ed25519 AAAA"));
    assert_eq!(read(&door, admin, &made).await.unwrap(), made);
    for change in [
        at("ssh://git@evil.example.com/srv"),
        at("ssh://root@git.example.com/srv"),
        hosts("git.example.com ssh-ed25519 BBBB"),
        hosts(""),
    ] {
        let moved = app.scm_connection_update(admin, made.id, change.clone(), NewScmSecrets::default()).await;
        assert_eq!(field(&moved.unwrap_err()), "attributes.sshPrivateKey", "{change:?}");
    }
    assert_eq!(read(&door, admin, &made).await.unwrap(), made, "nothing was written");
    let moved = app.scm_connection_update(admin, made.id, hosts(""), key()).await.unwrap();
    assert_eq!(moved.spec.known_hosts, None);
    let ended = NewScmSecrets { ssh_key: Some("".into()), ..NewScmSecrets::default() };
    let ended = app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), ended).await;
    assert_eq!(field(&ended.unwrap_err()), "attributes.sshPrivateKey", "an ssh address wants one");
}

async fn secrets_stay_until_they_are_given_or_ended(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let project = door.default_project().await.id;
    let secrets = NewScmSecrets {
        signing_key: Some(KEY.into()),
        proxy: Some("http://ada:pw@proxy.example.com:3128".into()),
        ..token("abc")
    };
    let made = app.scm_connection_create(admin, new("forge", Some(project)), secrets).await.unwrap();
    let held = ScmHeld { token: true, app_key: false, signing_key: true, proxy: true, ssh_key: false };
    assert_eq!(made.held, held);
    let none = NewScmSecrets::default;
    // The same once more writes nothing.
    let same = app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), token("abc")).await;
    assert_eq!(same.unwrap(), made);
    let ended = NewScmSecrets { signing_key: Some("".into()), ..none() };
    let ended = app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), ended).await;
    let ended = ended.unwrap();
    assert_eq!(ended.held, ScmHeld { signing_key: false, ..held });
    let gone = NewScmSecrets { token: Some("".into()), ..none() };
    let gone = app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), gone).await;
    assert_eq!(field(&gone.unwrap_err()), "attributes.token", "a host wants one");
    app.project_keys_rotate(admin, project).await.unwrap();
    let others = async || {
        door.database.sealed_otherwise(SealedColumn::ScmSecrets, None, 100).await.unwrap().found.len()
    };
    assert_eq!(others().await, 1);
    assert_eq!(app.reseal().await.unwrap().failed, 0);
    assert_eq!(others().await, 0);
    let same = app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), token("abc")).await;
    assert_eq!(same.unwrap(), ended, "it is the same token under the new key");
    app.scm_connection_delete(admin, made.id).await.unwrap();
    assert!(matches!(read(&door, admin, &made).await, Err(Error::NotFound { .. })));
}

async fn there_is_one_default_of_each_home(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let project = door.default_project().await.id;
    let default = |name: &str, home| NewScmConnection { is_default: true, ..new(name, home) };
    let mut all = Vec::new();
    for (name, home) in [("a", Some(project)), ("b", Some(project)), ("c", None), ("d", None)] {
        all.push(app.scm_connection_create(admin, default(name, home), token("abc")).await.unwrap());
    }
    let defaults = async || {
        let page = app.list::<ScmConnection>(admin, &Search::default(), &PageArgs::default()).await.unwrap();
        let found = page.into_nodes().into_iter().filter(|one| one.is_default);
        found.map(|one| one.name.to_string()).collect::<BTreeSet<_>>()
    };
    let names = |all: [&str; 2]| all.map(str::to_owned).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(defaults().await, names(["b", "d"]));
    let change = ScmConnectionChange { is_default: Some(true), ..ScmConnectionChange::default() };
    app.scm_connection_update(admin, all[0].id, change, NewScmSecrets::default()).await.unwrap();
    assert_eq!(defaults().await, names(["a", "d"]));
    let taken = app.scm_connection_create(admin, new("a", None), token("abc")).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
}

/// One gives the address of another host with its token, the other one a token for the host that it saw.
async fn two_changes_at_once_send_no_token_elsewhere(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let project = door.default_project().await.id;
    for round in 0..20 {
        let made = new(&format!("forge-{round}"), Some(project));
        let made = app.scm_connection_create(admin, made, token("abc")).await.unwrap();
        let (moved, renewed) = tokio::join!(
            app.scm_connection_update(admin, made.id, at("https://other.example.com"), token("theirs")),
            app.scm_connection_update(admin, made.id, ScmConnectionChange::default(), token("ours")),
        );
        assert!(moved.is_ok() || renewed.is_ok(), "{moved:?} {renewed:?}");
        for outcome in [&moved, &renewed] {
            assert!(matches!(outcome, Ok(_) | Err(Error::Conflict { .. })), "{outcome:?}");
        }
    }
}

async fn what_is_of_the_installation_is_for_its_administrators(database: TestDatabase) {
    let door = Door::new(database).await;
    let user = door.user("ada").await;
    let ada = door.as_user(&user).await;
    let made = door.app.scm_connection_create(&door.admin, new("forge", None), token("abc")).await.unwrap();
    assert!(matches!(read(&door, &ada, &made).await, Err(Error::NotFound { .. })));
    let page = door.app.list::<ScmConnection>(&ada, &Search::default(), &PageArgs::default()).await.unwrap();
    assert!(page.into_nodes().is_empty());
    let refused = door.app.scm_connection_create(&ada, new("other", None), token("abc")).await;
    assert!(matches!(refused, Err(Error::NotFound { .. } | Error::Forbidden { .. })), "{refused:?}");
}

async fn a_project_with_connections_stays(database: TestDatabase) {
    let door = Door::new(database).await;
    let project = door.project("shop").await;
    let made = door.app.scm_connection_create(&door.admin, new("forge", Some(project.id)), token("abc"));
    let made = made.await.unwrap();
    let refused = door.app.project_delete(&door.admin, project.id).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    door.app.scm_connection_delete(&door.admin, made.id).await.unwrap();
    door.app.project_delete(&door.admin, project.id).await.unwrap();
}
