//! A console's database and use cases, before anything listens.

use std::{path::Path, sync::Arc, time::Duration};

use plural_app::{
    App, Store,
    app::{Ports, Settings},
    ctx::SystemClock,
    login::FirstAdmin,
    records::Search,
    user::{NewPassword, UserSelector},
};
use plural_core::{
    Error, PageArgs,
    access::Actor,
    specs::Email,
    user::{User, UserChange},
};
use plural_git::{BlobStore, DiskBlobs, DiskOptions, LocalPaths, Mirrors, Options, Quota};
use plural_kit::private_folder;
use plural_reach::Guard;
use plural_store::{Database, DatabaseOptions, Quotas, SoleUse};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    ConsoleConfig, Reach, Scaffolder, StartError, audit_streams, blobs, charts, git, git_hosts, governances,
    identity, key_encryption, keys, previews, replica, rules, secret_backends, templates,
};

/// Users that are looked at for administrators to name.
const MOST_NAMED: i64 = 100;

/// What works without a listener.
pub(crate) struct Opened {
    pub(crate) app: Arc<App>,
    pub(crate) database: Arc<Database>,
    /// No other console has the database until this is dropped.
    pub(crate) sole_use: Option<SoleUse>,
}

/// Opens the database, with mirrors and artifacts in `work`.
pub(crate) async fn open(config: &ConsoleConfig, work: &Path) -> Result<Opened, StartError> {
    let ConsoleConfig {
        data_dir,
        database_url,
        database_timeout_seconds,
        blob_store,
        encryption_key_file,
        key_encryption,
        secret_backend,
        webhook_secret,
        audit_retention_days,
        request_audit_retention_days,
        stack_state_versions,
        audit_checkpoint_seconds,
        audit_stream,
        audit_stream_secret,
        audit_stream_header,
        restored,
        allow_local_repositories,
        protected_tags,
        public_url,
        poll_seconds,
        chart_poll_seconds,
        reach,
        deploy_token_days,
        registry_reach,
        allow_credentials_over_http,
        ssh_host_keys,
        registry_sign_in,
        git_timeout_seconds,
        git_mirror_mib,
        git_mirrors_mib,
        git_memory_mib,
        git_no_fsck,
        max_repositories,
        max_services,
        max_tokens,
        preview_memory_mib,
        preview_seconds,
        rules_program,
        scaffold_program,
        ..
    } = config.clone();
    private_folder(&data_dir).map_err(|error| StartError::DataFolder {
        folder: data_dir.display().to_string(),
        reason: error.to_string(),
    })?;
    let default = data_dir.join("encryption.key");
    let encryption = key_encryption::open(&key_encryption, encryption_key_file.as_deref(), &default)?;
    let secret_backends = secret_backends::open(&secret_backend)?;
    let webhook_secret = match webhook_secret {
        Some(secret) if secret.expose_secret().trim().is_empty() => {
            let setting = "--webhook-secret (PLURAL_WEBHOOK_SECRET)";
            return Err(StartError::Short { setting, least: 1 });
        }
        Some(secret) => secret,
        None => keys::secret(&data_dir.join("webhook.secret"))?,
    };
    let blobs: Arc<dyn BlobStore> = match &blob_store {
        Some(url) => Arc::new(blobs::S3Blobs::open(url)?),
        None => Arc::new(DiskBlobs::open(DiskOptions::new(work.join("artifacts")))?),
    };
    let mut options = Options::new(work.join("git"));
    options.timeout = Duration::from_secs(git_timeout_seconds);
    options.clone_timeout = options.timeout * 15;
    options.fsck = !git_no_fsck;
    options.quota = Quota {
        mirror_bytes: git_mirror_mib << 20,
        mirrors_bytes: git_mirrors_mib << 20,
        process_bytes: git_memory_mib << 20,
    };
    if allow_local_repositories {
        options.local = LocalPaths::Read;
    }
    let reach: plural_reach::Reach = reach.or(registry_reach).unwrap_or(Reach::Private).into();
    let secrets =
        audit_streams::StreamSecrets { webhook: audit_stream_secret.as_ref(), headers: &audit_stream_header };
    let audit_sinks = audit_streams::open(&audit_stream, secrets, reach)?;
    options.guard = Guard::new(reach);
    options.credentials_over_http = allow_credentials_over_http;
    options.new_host_keys = ssh_host_keys.into();
    let identities = identity::Identities::new(Guard::new(reach)).map_err(|cause| {
        StartError::Installation(Error::internal("preparing for identity providers", cause))
    })?;
    let mirrors = Mirrors::open(options)?;
    let git = Arc::new(git::Git::new(mirrors.clone(), Arc::clone(&blobs)));
    let options = plural_registry::Options {
        reach,
        credentials_over_http: allow_credentials_over_http,
        sign_in: registry_sign_in,
        ..plural_registry::Options::default()
    };
    let composer = charts::Charts::new(options, Arc::clone(&git), Arc::clone(&blobs));
    let database_url = database_url
        .unwrap_or_else(|| SecretString::from(format!("sqlite://{}", data_dir.join("plural.db").display())));
    let options = DatabaseOptions {
        renew_epoch: restored,
        deadline: Duration::from_secs(database_timeout_seconds),
        quotas: Quotas { repositories: max_repositories, services: max_services, tokens: max_tokens },
        ..DatabaseOptions::new(database_url.expose_secret())
    };
    let sole_use = SoleUse::take(&options.url).await?;
    let database = Arc::new(Database::open(&options).await?);

    let mut settings = Settings {
        // Without it each replica has a folder of its own.
        share_mirrors: blob_store.is_some(),
        public_url,
        allow_local_repositories,
        credentials_over_http: allow_credentials_over_http,
        protected_tags,
        audit_days: (audit_retention_days > 0).then_some(audit_retention_days),
        cluster_audit_days: (request_audit_retention_days > 0).then_some(request_audit_retention_days),
        stack_state_versions,
        audit_checkpoint_seconds,
        poll_seconds,
        chart_poll_seconds,
        deploy_token_days: (deploy_token_days > 0).then_some(deploy_token_days),
        // One connection is left to everything else.
        whole_answers: usize::try_from(options.connections.saturating_sub(1)).unwrap_or(1),
        ..Settings::new(webhook_secret)
    };
    // What it held when it was killed, it holds again.
    settings.replica = replica(&data_dir, database.is_postgres());
    let previews = previews::Renderers::new(
        Arc::clone(&blobs),
        preview_memory_mib.map(|mebibytes| mebibytes << 20),
        Duration::from_secs(preview_seconds),
    );
    let folder = work.join("rules");
    let rules = rules::Evaluator::open(folder.clone(), rules_program).map_err(|error| {
        StartError::DataFolder { folder: folder.display().to_string(), reason: error.to_string() }
    })?;
    let folder = work.join("automations");
    let scaffolder =
        Scaffolder::open(folder.clone(), scaffold_program, Scaffolder::LIMITS).map_err(|error| {
            StartError::DataFolder { folder: folder.display().to_string(), reason: error.to_string() }
        })?;
    let ports = Ports {
        store: Arc::clone(&database) as Arc<dyn Store>,
        previews: Arc::new(previews),
        rules: Arc::new(rules),
        git_hosts: Arc::new(git_hosts::Hosts::new(reach, allow_credentials_over_http, mirrors)),
        governances: Arc::new(
            governances::HttpGovernances::new(reach)
                .map_err(|error| StartError::Governances { reason: error.to_string() })?,
        ),
        scaffolds: Arc::new(scaffolder),
        git,
        composer: Arc::new(composer),
        blobs: Arc::new(blobs::Artifacts::new(blobs)),
        templates: Arc::new(templates::Liquid),
        identities: Arc::new(identities),
        audit_sinks,
        keys: encryption,
        secret_backends,
        clock: Arc::new(SystemClock),
    };
    let app = App::new(ports, settings).await.map_err(StartError::Installation)?;
    Ok(Opened { app, database, sole_use })
}

/// Gives a user another password, and ends what they are signed in with; for whoever has the database and nobody who may do so by
/// other means. Without a given password a random one is drawn.
///
/// # Errors
/// See [`StartError`]; [`StartError::NoSuchUser`] names the administrators that there are.
pub async fn reset_password(
    config: &ConsoleConfig,
    email: &str,
    password: Option<SecretString>,
) -> Result<FirstAdmin, StartError> {
    let nothing = |reason: &str| StartError::DataFolder {
        folder: config.data_dir.display().to_string(),
        reason: reason.to_owned(),
    };
    if config.database_url.is_none() && !config.data_dir.join("plural.db").is_file() {
        return Err(nothing("no console has kept its database there: see --data-dir and DATABASE_URL"));
    }
    // Mirrors and artifacts are those of a console that may be running.
    let work = tempfile::tempdir().map_err(|error| nothing(&error.to_string()))?;
    let Opened { app, database, sole_use } = open(config, work.path()).await?;
    let failed = StartError::Installation;
    let ctx = app.ctx(Actor::System);
    let found = match email.parse::<Email>() {
        Ok(email) => match app.get::<User>(&ctx, &UserSelector::Email(email)).await {
            Err(Error::NotFound { .. }) => None,
            found => Some(found.map_err(failed)?),
        },
        Err(_) => None,
    };
    let Some(user) = found else {
        let users = app.list::<User>(&ctx, &Search::default(), &PageArgs::first(MOST_NAMED)).await;
        let users = users.map_err(failed)?.edges.into_iter().map(|edge| edge.node);
        let admins: Vec<String> =
            users.filter(|user| user.admin).map(|user| user.email.to_string()).collect();
        return Err(StartError::NoSuchUser { email: email.to_owned(), admins: admins.join(", ") });
    };
    let text = password.map_or_else(plural_app::secret::random_password, Ok).map_err(failed)?;
    let new = NewPassword { text: text.clone(), current: None, end_tokens: true };
    let user = app.user_update(&ctx, user.id, &UserChange::default(), Some(new)).await.map_err(failed)?;
    // Who has lost the password may have lost the app as well, and there may be nobody else to help.
    app.second_factor_reset(&ctx, user.id, None, None).await.map_err(failed)?;
    database.shut().await;
    drop(sole_use);
    Ok(FirstAdmin { email: user.email, password: text })
}
