//! A large fleet without a request for each of its parts.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_app::ports::key_encryption::LocalKey;
use plural_app::service::ServiceSelector;
use plural_console::{ConsoleConfig, Reach, RunningConsole};
use plural_core::access::Actor;
use plural_store::{Database, DatabaseOptions};
use plural_testkit::GitRemote;
use secrecy::{ExposeSecret, SecretString};

use crate::api::{ADMIN, Api, PASSWORD};

/// The key that the benches' consoles seal with.
const KEY: [u8; 32] = [42; 32];
const KEY_BASE64: &str = "KioqKioqKioqKioqKioqKioqKioqKioqKioqKioqKio=";
const WITHIN: Duration = Duration::from_mins(1);

/// A fleet in a console's database; start a console with [`Seeded::config`] to have it.
pub(crate) struct Seeded {
    /// For the console.
    pub(crate) config: ConsoleConfig,
    /// Deploy tokens of the clusters.
    pub(crate) tokens: Vec<String>,
    /// What the services are read from.
    pub(crate) remote: GitRemote,
}

/// A console on SQLite in a folder, with the benches' administrator.
pub(crate) fn config(folder: &Path) -> ConsoleConfig {
    ConsoleConfig {
        admin_email: ADMIN.to_owned(),
        admin_password: Some(SecretString::from(PASSWORD.to_owned())),
        allow_local_repositories: true,
        reach: Some(Reach::Local),
        drain_seconds: 2,
        max_repositories: 1_000_000,
        max_services: 10_000_000,
        ..ConsoleConfig::local(folder.join("console"))
    }
}

/// Makes one cluster with one service as a person would, lets the console build its artifact, and copies both in
/// bulk: so many clusters with so many services each.
pub(crate) async fn seed(
    folder: &Path,
    config: ConsoleConfig,
    ca_pem: Option<&str>,
    clusters: usize,
    services: usize,
) -> anyhow::Result<Seeded> {
    let key_file = folder.join("encryption.key");
    fs::write(&key_file, KEY_BASE64)?;
    let config = ConsoleConfig { encryption_key_file: Some(key_file), ..config };
    let remote = GitRemote::new()?;
    remote.push_files([("web/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")])?;

    let console = RunningConsole::start(config.clone(), None).await.context("the console cannot start")?;
    let api = Api::sign_in(&console.url, ca_pem).await?;
    api.cluster("template").await?;
    let repository = api.repository(&remote.path().display().to_string()).await?;
    api.service("template", &repository, "web", "web", "bench").await?;
    let system = console.app().ctx(Actor::System);
    let selector = ServiceSelector::Handle("template".parse()?, "web".parse()?);
    let started = Instant::now();
    let template = loop {
        let service = console.app().get::<plural_core::service::Service>(&system, &selector).await?;
        if service.artifact_digest.is_some() {
            break service.id;
        }
        anyhow::ensure!(started.elapsed() < WITHIN, "the console built no artifact within {WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    console.stop().await?;

    let started = Instant::now();
    let url = match &config.database_url {
        Some(url) => url.expose_secret().to_owned(),
        None => format!("sqlite://{}", config.data_dir.join("plural.db").display()),
    };
    let database = Database::open(&DatabaseOptions::new(url)).await?;
    let tokens = database.seed(&LocalKey::new(&KEY), template, clusters, services).await?;
    database.close().await?;
    eprintln!(
        "seeded {clusters} clusters with {services} services each in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    let tokens = tokens.iter().map(|token| token.expose_secret().to_owned()).collect();
    Ok(Seeded { config, tokens, remote })
}
