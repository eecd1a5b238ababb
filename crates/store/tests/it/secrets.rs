//! Secrets at rest: what lies in the database is sealed, and opens only where it belongs.

use plural_app::repository::{NewCredentials, RepositorySelector};
use plural_app::repository_reach::NewReach;
use plural_core::repository::{NewRepository, Repository, RepositoryChange};
use plural_core::service::{
    Configuration, ConfigurationEdit, Helm, HelmConfig, HelmSet, HelmValues, Kustomize, Renderer,
    RendererConfig, RendererHelm, RendererKind, RenderingChange, ServiceChange,
};
use plural_core::specs::Change;
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::door::{Door, by_id, eventually, new_service, service_id};

each_database!(
    nothing_of_a_secret_lies_in_the_file,
    a_credential_reaches_git_and_does_not_follow_to_another_host,
    how_a_repository_is_reached_is_sealed_and_changes_by_parts,
    a_change_keeps_the_configuration_unless_it_names_one,
    values_of_charts_are_sealed_and_kept_until_others_are_given,
    a_repository_that_a_chart_is_read_from_stays,
);

const SECRET: &str = "hunter2-hunter2";

fn configuration(value: &str) -> Configuration {
    Configuration::from([("password".to_owned(), value.to_owned())])
}

async fn nothing_of_a_secret_lies_in_the_file(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let new = NewRepository {
        url: "https://example.com/a".parse().unwrap(),
        project_id: None,
        web: plural_core::web_address::WebAddress::default(),
    };
    let credentials = NewCredentials { password: Some(SECRET.into()), ..NewCredentials::default() };
    let repository = door.app.repository_create(&door.admin, new, credentials).await.unwrap();
    let mut new = new_service(&repository, "web");
    new.configuration = configuration(SECRET);
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    let read = door.app.service_configuration(&door.admin, service.id).await.unwrap();
    assert_eq!(read, configuration(SECRET));
    if let Some(folder) = door.source.folder() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            for secret in [SECRET, made.deploy_token.expose_secret()] {
                assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
            }
        }
    }
}

async fn a_credential_reaches_git_and_does_not_follow_to_another_host(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let new = NewRepository {
        url: "https://example.com/a".parse().unwrap(),
        project_id: None,
        web: plural_core::web_address::WebAddress::default(),
    };
    let credentials = NewCredentials {
        username: Some("ada".into()),
        password: Some(SECRET.into()),
        ..NewCredentials::default()
    };
    let repository = door.app.repository_create(&door.admin, new, credentials).await.unwrap();
    let seen = eventually(async || door.git.seen.lock().first().cloned()).await;
    match seen {
        Some(plural_app::ports::git::GitCredentials::Basic { username, password }) => {
            assert_eq!((username.as_str(), password.expose_secret()), ("ada", SECRET));
        }
        other => panic!("{other:?}"),
    }
    let change = |url: &str| RepositoryChange {
        url: Some(url.parse().unwrap()),
        web: plural_core::web_address::WebAddressChange::default(),
    };
    let moved = door
        .app
        .repository_update(
            &door.admin,
            repository.id,
            &change("https://evil.example/a"),
            NewCredentials::default(),
        )
        .await;
    let moved = moved.unwrap();
    assert_eq!(moved.auth_method, None);
    assert!(moved.error.unwrap().contains("the host changed"), "it says what became of them");
    // Two at once: new credentials for where it is, and another place. They never meet.
    let home = change("https://example.com/b");
    let given = || NewCredentials { password: Some(SECRET.into()), ..NewCredentials::default() };
    door.app.repository_update(&door.admin, repository.id, &home, given()).await.unwrap();
    let none = RepositoryChange::default();
    let away = change("https://evil.example/b");
    let (stayed, left) = futures::future::join(
        door.app.repository_update(&door.admin, repository.id, &none, given()),
        door.app.repository_update(&door.admin, repository.id, &away, NewCredentials::default()),
    )
    .await;
    for late in [&stayed, &left].into_iter().filter_map(|done| done.as_ref().err()) {
        assert!(matches!(late, plural_core::Error::Conflict { .. }), "{late:?}");
    }
    assert!(stayed.is_ok() || left.is_ok());
    let now = RepositorySelector::Id(repository.id);
    let now = door.app.get::<Repository>(&door.admin, &now).await.unwrap();
    // Where both were done, one after the other, the credentials were given for the new place or removed with the old.
    if now.url.as_str().contains("evil") && left.is_ok() && stayed.is_err() {
        assert_eq!(now.auth_method, None, "{now:?}");
    }
    door.stop().await;
}

async fn how_a_repository_is_reached_is_sealed_and_changes_by_parts(database: TestDatabase) {
    const CA: &str = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----";
    let mut door = Door::new(database).await;
    door.start();
    let new = NewRepository {
        url: "https://example.com/a".parse().unwrap(),
        project_id: None,
        web: plural_core::web_address::WebAddress::default(),
    };
    let proxy = format!("http://me:{SECRET}@proxy.example.com:3128");
    let reach = NewReach {
        proxy: Some(proxy.clone().into()),
        ca_pem: Some(CA.into()),
        known_hosts: Some("example.com ssh-ed25519 AAAA".into()),
        allowed_signers: Some("ada ssh-ed25519 AAAA".into()),
        openpgp_keys: None,
    };
    let with = |reach: NewReach| NewCredentials { reach, ..NewCredentials::default() };
    let repository = door.app.repository_create(&door.admin, new, with(reach)).await.unwrap();
    assert!(repository.signed);
    let seen = async |is: fn(&plural_app::ports::git::GitReach) -> bool| {
        eventually(async || door.git.reached.lock().last().cloned().filter(is)).await
    };
    let reached = seen(|reach| reach.proxy.is_some()).await;
    assert_eq!(reached.proxy.unwrap().expose_secret(), proxy);
    assert_eq!(reached.ca_pem.as_deref(), Some(CA));
    assert!(reached.known_hosts.is_some() && reached.openpgp_keys.is_none());

    // An empty text ends a part; what is absent stays.
    let none = RepositoryChange::default();
    let change = NewReach { allowed_signers: Some(String::new()), ..NewReach::default() };
    let changed = door.app.repository_update(&door.admin, repository.id, &none, with(change)).await.unwrap();
    assert!(!changed.signed);
    let reached = seen(|reach| reach.allowed_signers.is_none()).await;
    assert!(reached.proxy.is_some() && reached.ca_pem.is_some());
    // Two at once: whoever is late writes nothing, or both of them count.
    let both = [
        NewReach { proxy: Some("http://proxy.example.com".into()), ..NewReach::default() },
        NewReach { known_hosts: Some("example.com ssh-ed25519 BBBB".into()), ..NewReach::default() },
    ];
    let edits = both.map(|reach| door.app.repository_update(&door.admin, repository.id, &none, with(reach)));
    let [proxy_done, hosts_done] = futures::future::join_all(edits).await.try_into().unwrap();
    for late in [&proxy_done, &hosts_done].into_iter().filter_map(|done| done.as_ref().err()) {
        assert!(matches!(late, plural_core::Error::Conflict { .. }), "{late:?}");
    }
    assert!(proxy_done.is_ok() || hosts_done.is_ok());
    eventually(async || {
        let reached = door.git.reached.lock().last().cloned().ok_or("nobody fetched")?;
        let hosts = reached.known_hosts.is_some_and(|hosts| hosts.contains("BBBB"));
        let proxy = reached.proxy.is_some_and(|proxy| !proxy.expose_secret().contains("me:"));
        if (proxy, hosts) == (proxy_done.is_ok(), hosts_done.is_ok()) { Ok(()) } else { Err("one is lost") }
    })
    .await;
    // What nobody could use later, either.
    for bad in [format!("gopher://{SECRET}"), format!("http://me:{SECRET}%0A@proxy.example.com:3128")] {
        let bad = NewReach { proxy: Some(bad.into()), ..NewReach::default() };
        let refused = door.app.repository_update(&door.admin, repository.id, &none, with(bad)).await;
        let refused = refused.unwrap_err();
        assert!(!format!("{refused:?}").contains(SECRET), "{refused:?}");
        assert!(refused.to_string().contains("proxy"), "{refused:?}");
    }
    if let Some(folder) = door.source.folder() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
        }
    }
    door.stop().await;
}

async fn a_change_keeps_the_configuration_unless_it_names_one(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let mut new = new_service(&repository, "web");
    new.configuration = configuration("one");
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    let change = ServiceChange { dry_run: Some(true), ..ServiceChange::default() };
    let changed = door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    assert_ne!(changed.revision_id, service.revision_id);
    assert_eq!(door.app.service_configuration(&door.admin, service.id).await.unwrap(), configuration("one"));
    let change = ServiceChange {
        configuration: Some(ConfigurationEdit::Replace(configuration("two"))),
        ..ServiceChange::default()
    };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    assert_eq!(door.app.service_configuration(&door.admin, service.id).await.unwrap(), configuration("two"));
}

fn helm(values: &str) -> Change<HelmConfig> {
    Change::Set(HelmConfig {
        helm: Helm { release: Some("shop".into()), ..Helm::default() },
        values: HelmValues {
            inline: Some(values.into()),
            set: Some(HelmSet { name: "token".into(), value: SECRET.into() }),
        },
    })
}

async fn values_of_charts_are_sealed_and_kept_until_others_are_given(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let mut new = new_service(&repository, "web");
    let kind = RendererKind::Helm { helm: RendererHelm::default() };
    let renderer = RendererConfig {
        renderer: Renderer { path: "charts/a".into(), kind },
        values: Some(format!("renderer: {SECRET}")),
    };
    new.rendering = RenderingChange {
        helm: helm(&format!("inline: {SECRET}")),
        renderers: Change::Set(vec![renderer]),
        ..RenderingChange::default()
    };
    let given = new.rendering.clone();
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    assert_eq!(service.rendering.helm.as_ref().unwrap().release.as_deref(), Some("shop"));
    let read = async || door.app.service_values(&door.admin, service.id).await.unwrap();
    let values = read().await;
    assert_eq!(values.helm.inline.as_deref(), Some("inline: hunter2-hunter2"));
    assert_eq!(values.renderers, [Some("renderer: hunter2-hunter2".to_owned())]);
    assert!(!format!("{service:?} {values:?} {given:?}").contains(SECRET));
    if let Some(folder) = door.source.folder() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
        }
    }

    // Who sends what is so already changes nothing.
    let update = async |rendering| {
        let change = ServiceChange { rendering, ..ServiceChange::default() };
        door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap()
    };
    assert_eq!(update(given).await.revision_id, service.revision_id);

    // Each part is replaced by itself; the values of the others stay.
    let kustomize = Kustomize { path: String::new(), enable_helm: true, envsubst: false };
    let kustomize = Change::Set(kustomize);
    let changed = update(RenderingChange { kustomize, ..RenderingChange::default() }).await;
    assert_ne!(changed.revision_id, service.revision_id);
    assert_eq!(read().await, values);
    update(RenderingChange { helm: helm("other: 1"), ..RenderingChange::default() }).await;
    let other = read().await;
    assert_eq!(other.helm.inline.as_deref(), Some("other: 1"));
    assert_eq!(other.renderers, values.renderers);
    let cleared = update(RenderingChange { helm: Change::Clear, ..RenderingChange::default() }).await;
    assert_eq!(cleared.rendering.helm, None);
    assert!(read().await.helm.is_empty());
}

async fn a_repository_that_a_chart_is_read_from_stays(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let own = door.repository("https://example.com/a").await;
    let charts = door.repository("https://example.com/charts").await;
    let mut new = new_service(&own, "web");
    let chart = Helm {
        repository_id: Some(charts.id),
        git: Some(plural_core::service::GitRef::new("main", "web", &[]).unwrap()),
        ..Helm::default()
    };
    let config = HelmConfig { helm: chart, values: HelmValues::default() };
    new.rendering = RenderingChange { helm: Change::Set(config), ..RenderingChange::default() };
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    let refused = door.app.repository_delete(&door.admin, charts.id).await.unwrap_err();
    assert!(refused.to_string().contains("could not delete repository"), "{refused}");
    let rendering = RenderingChange { helm: Change::Clear, ..RenderingChange::default() };
    let change = ServiceChange { rendering, ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    door.app.repository_delete(&door.admin, charts.id).await.unwrap();
}
