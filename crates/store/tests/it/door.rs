//! A console's use cases on a fresh database, with named actors and a git that does what a test says.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plural_app::app::{Ports, Settings};
use plural_app::audit_stream::AuditSink;
use plural_app::cluster::CreatedCluster;
use plural_app::ctx::{Clock, SystemClock};
use plural_app::job::JobEntry;
use plural_app::ports::identity::{
    AuthorizationRequest, CodeExchange, IdentityPort, ProviderAccess, ProviderAnswer, ProviderError,
};
use plural_app::ports::key_encryption::{KeyEncryption, LocalKey};
use plural_app::ports::secret_backend::SecretKeeper;
use plural_app::project::ProjectSelector;
use plural_app::repository::NewCredentials;
use plural_app::user::UserSelector;
use plural_app::{App, OpCtx};
use plural_core::access::{Actor, UserActor};
use plural_core::cluster::{Cluster, NewCluster};
use plural_core::policy::BindingSubject;
use plural_core::project::{NewProject, Project};
use plural_core::repository::{NewRepository, Repository};
use plural_core::service::{GitRef, NewService, Service};
use plural_core::user::{NewUser, User};
use plural_kit::Shutdown;
use plural_store::{Database, DatabaseOptions};
use plural_testkit::{Probe, TestDatabase};
use sea_orm::{ConnectionTrait as _, Statement};
use secrecy::SecretString;
use tokio::task::JoinHandle;

use crate::git::FakeGit;

/// The key that tests seal with.
pub(crate) const KEY: [u8; 32] = [42; 32];

/// Everything a test needs of one console.
pub(crate) struct Door {
    pub(crate) app: Arc<App>,
    pub(crate) git: Arc<FakeGit>,
    pub(crate) database: Arc<Database>,
    pub(crate) admin: OpCtx,
    jobs: Option<(Shutdown, JoinHandle<()>)>,
    // Last: it goes when everything that uses it is gone.
    pub(crate) source: Arc<TestDatabase>,
}

/// Texts as they are, but for the handle of the cluster and the word of the context.
pub(crate) struct NoTemplates;

/// No provider answers.
pub(crate) struct NoIdentities;

#[async_trait::async_trait]
impl IdentityPort for NoIdentities {
    async fn authorization_url(
        &self,
        _access: &ProviderAccess,
        _request: &AuthorizationRequest,
    ) -> Result<String, ProviderError> {
        Err(ProviderError::Unavailable("there is none".into()))
    }

    async fn exchange(
        &self,
        _access: &ProviderAccess,
        _exchange: &CodeExchange,
    ) -> Result<ProviderAnswer, ProviderError> {
        Err(ProviderError::Unavailable("there is none".into()))
    }

    async fn token_claims(
        &self,
        _issuer: &str,
        _audience: &str,
        _token: &SecretString,
    ) -> Result<serde_json::Map<String, serde_json::Value>, ProviderError> {
        Err(ProviderError::Unavailable("there is none".into()))
    }

    fn token_claims_by(
        &self,
        _issuer: &str,
        _audience: &str,
        _token: &SecretString,
        _key: &str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, ProviderError> {
        Err(ProviderError::Refused("there is none".into()))
    }

    async fn refresh(
        &self,
        _access: &ProviderAccess,
        _refresh: &SecretString,
        _subject: &str,
    ) -> Result<ProviderAnswer, ProviderError> {
        Err(ProviderError::Unavailable("there is none".into()))
    }

    async fn names_issuer(&self, _access: &ProviderAccess) -> Result<bool, ProviderError> {
        Ok(false)
    }

    async fn logout_url(
        &self,
        _access: &ProviderAccess,
        _back: &str,
    ) -> Result<Option<String>, ProviderError> {
        Ok(None)
    }
}

impl plural_app::ports::templates::Templates for NoTemplates {
    fn expand(&self, text: &str, data: &serde_json::Value) -> Result<String, String> {
        let handle = data["cluster"]["handle"].as_str().unwrap_or_default();
        let word = data["context"]["word"].as_str().unwrap_or_default();
        Ok(text.replace("{{ cluster.handle }}", handle).replace("{{ context.word }}", word))
    }
}

/// What an operator decides about a console.
pub(crate) struct Opening {
    pub(crate) options: DatabaseOptions,
    pub(crate) git: Arc<FakeGit>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: Vec<Arc<dyn KeyEncryption>>,
    pub(crate) secret_backends: Vec<Arc<dyn SecretKeeper>>,
    /// Host and folder.
    pub(crate) replica: String,
    pub(crate) jobs: &'static [JobEntry],
    /// Where the audit log is sent.
    pub(crate) sinks: Vec<Arc<dyn AuditSink>>,
    /// Days that lines of the audit log are kept.
    pub(crate) audit_days: Option<u32>,
}

impl Default for Opening {
    fn default() -> Self {
        let Settings { jobs, .. } = Settings::new(SecretString::from(""));
        Self {
            options: DatabaseOptions::new(""),
            git: Arc::default(),
            clock: Arc::new(SystemClock),
            keys: LocalKey::all(&KEY, &[]),
            secret_backends: Vec::new(),
            replica: "the same after a crash".into(),
            jobs,
            sinks: Vec::new(),
            audit_days: None,
        }
    }
}

impl Door {
    /// A console on a database of its own.
    pub(crate) async fn new(database: TestDatabase) -> Self {
        Self::open(Arc::new(database)).await
    }

    pub(crate) async fn open(source: Arc<TestDatabase>) -> Self {
        Self::open_with(source, &DatabaseOptions::new("")).await
    }

    pub(crate) async fn open_with(source: Arc<TestDatabase>, options: &DatabaseOptions) -> Self {
        Self::open_on(source, options, Arc::new(FakeGit::default())).await
    }

    pub(crate) async fn open_on(
        source: Arc<TestDatabase>,
        options: &DatabaseOptions,
        git: Arc<FakeGit>,
    ) -> Self {
        Self::open_by(source, options, git, Arc::new(SystemClock)).await
    }

    /// One that tells the time by this clock.
    pub(crate) async fn open_by(
        source: Arc<TestDatabase>,
        options: &DatabaseOptions,
        git: Arc<FakeGit>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::open_as(source, Opening { options: options.clone(), git, clock, ..Opening::default() }).await
    }

    /// One whose operator decided about everything.
    pub(crate) async fn open_as(source: Arc<TestDatabase>, opening: Opening) -> Self {
        Self::try_open_as(source, opening).await.expect("the fleet")
    }

    /// The same, which may not start.
    pub(crate) async fn try_open_as(
        source: Arc<TestDatabase>,
        opening: Opening,
    ) -> plural_core::Result<Self> {
        let Opening { options, git, clock, keys, secret_backends, replica, jobs, sinks, audit_days } =
            opening;
        let options = DatabaseOptions { url: source.url().to_owned(), ..options };
        let database = Arc::new(Database::open(&options).await.expect("a database"));
        let ports = Ports {
            store: Arc::clone(&database) as Arc<dyn plural_app::Store>,
            git: Arc::clone(&git) as Arc<dyn plural_app::ports::git::GitPort>,
            composer: Arc::clone(&git) as Arc<dyn plural_app::ports::charts::Composer>,
            blobs: Arc::clone(&git) as Arc<dyn plural_app::ports::blobs::Blobs>,
            previews: Arc::clone(&git) as Arc<dyn plural_app::ports::previews::Previews>,
            rules: Arc::clone(&git) as Arc<dyn plural_app::ports::rules::Rules>,
            git_hosts: Arc::clone(&git) as Arc<dyn plural_app::ports::git_hosts::GitHosts>,
            governances: Arc::clone(&git) as Arc<dyn plural_app::ports::governances::Governances>,
            scaffolds: Arc::clone(&git) as Arc<dyn plural_app::ports::scaffolds::Scaffolds>,
            templates: Arc::new(NoTemplates),
            identities: Arc::new(NoIdentities),
            audit_sinks: sinks,
            keys,
            secret_backends,
            clock,
        };
        let settings = Settings {
            poll_seconds: 3600,
            replica,
            jobs,
            audit_days,
            ..Settings::new(SecretString::from("webhook secret"))
        };
        let app = App::new(ports, settings).await?;
        app.install(&"root@example.com".parse().unwrap(), Some("first password".into())).await.unwrap();
        let system = app.ctx(Actor::System);
        let root = app
            .get::<User>(&system, &UserSelector::Email("root@example.com".parse().unwrap()))
            .await
            .unwrap();
        let admin = app.ctx(actor(&root));
        Ok(Self { app, git, database, admin, jobs: None, source })
    }

    /// Starts feed, reports and git jobs.
    pub(crate) fn start(&mut self) {
        let shutdown = Shutdown::new();
        let run = Arc::clone(&self.app).run(shutdown.signal());
        let task = tokio::spawn(async move { run.await.expect("the jobs go on") });
        self.jobs = Some((shutdown, task));
    }

    /// Stops what was started, as a console does.
    pub(crate) async fn stop(&mut self) {
        if let Some((shutdown, task)) = self.jobs.take() {
            shutdown.request();
            task.await.expect("the jobs stopped");
        }
        self.policies_match_what_they_are_of().await;
    }

    /// Every project, cluster, service and saved view has its policy below the right one, and no policy is of nothing, but for
    /// those of projects that are gone and of which recordings are left.
    pub(crate) async fn policies_match_what_they_are_of(&self) {
        // In one statement: another console may be writing.
        let sql = "SELECT COALESCE(t.noun, p.noun) AS noun, COALESCE(t.id, p.id) AS id FROM \
                   (SELECT id, 'service' AS noun, cluster_id AS parent FROM services \
                    UNION ALL SELECT id, 'cluster', project_id FROM clusters \
                    UNION ALL SELECT id, 'project', NULL FROM projects \
                    UNION ALL SELECT id, 'saved view', NULL FROM saved_views \
                    UNION ALL SELECT id, 'stack', project_id FROM stacks \
                    UNION ALL SELECT id, 'service account', project_id FROM users WHERE project_id IS NOT NULL) t \
                   FULL JOIN policies p ON p.id = t.id \
                   WHERE p.id IS NULL OR t.id IS NULL AND (p.name IS NULL OR p.id NOT IN (SELECT project_id FROM recordings)) OR p.noun <> t.noun OR p.parent_id IS DISTINCT FROM t.parent";
        let connection = sea_orm::Database::connect(self.source.url()).await.expect("a connection");
        let statement = Statement::from_string(connection.get_database_backend(), sql);
        let rows = connection.query_all_raw(statement).await.expect("an answer");
        let wrong: Vec<(String, uuid::Uuid)> = rows
            .iter()
            .map(|row| (row.try_get("", "noun").expect("a noun"), row.try_get("", "id").expect("an id")))
            .collect();
        connection.close().await.expect("it closes");
        assert!(wrong.is_empty(), "without a policy, or with a wrong one: {wrong:?}");
    }

    /// Drops what was started in the middle of what it does.
    pub(crate) async fn kill(&mut self) {
        if let Some((_, task)) = self.jobs.take() {
            task.abort();
            let _ = task.await;
        }
    }

    pub(crate) async fn default_project(&self) -> Project {
        self.app.get::<Project>(&self.admin, &ProjectSelector::Default).await.unwrap()
    }

    pub(crate) async fn project(&self, name: &str) -> Project {
        let new = NewProject::named(name.parse().unwrap());
        self.app.project_create(&self.admin, &new).await.unwrap()
    }

    pub(crate) async fn user(&self, name: &str) -> User {
        let new = NewUser {
            email: format!("{name}@example.com").parse().unwrap(),
            name: name.parse().unwrap(),
            admin: false,
        };
        self.app.user_create(&self.admin, &new, None).await.unwrap()
    }

    /// A context of this user, as a request with its token would have.
    pub(crate) async fn as_user(&self, user: &User) -> OpCtx {
        let groups = self.app.user_groups(&self.admin, user.id).await.unwrap();
        let Actor::User(actor) = actor(user) else { unreachable!() };
        self.app.ctx(Actor::User(UserActor { groups: groups.into_iter().map(|g| g.id).collect(), ..actor }))
    }

    pub(crate) fn nobody(&self) -> OpCtx {
        self.app.ctx(Actor::Nobody)
    }

    pub(crate) async fn cluster(&self, name: &str) -> CreatedCluster {
        self.app.cluster_create(&self.admin, NewCluster::named(name.parse().unwrap())).await.unwrap()
    }

    pub(crate) async fn repository(&self, url: &str) -> Repository {
        let new = NewRepository {
            url: url.parse().unwrap(),
            project_id: None,
            web: plural_core::web_address::WebAddress::default(),
        };
        self.app.repository_create(&self.admin, new, NewCredentials::default()).await.unwrap()
    }

    pub(crate) async fn service(&self, cluster: &Cluster, repository: &Repository, name: &str) -> Service {
        let new = new_service(repository, name);
        self.app.service_create(&self.admin, &by_id(cluster), new).await.unwrap()
    }
}

pub(crate) fn new_service(repository: &Repository, name: &str) -> NewService {
    let git = GitRef::new("main", name, &[]).unwrap();
    NewService::from_git(name.parse().unwrap(), "apps".parse().unwrap(), repository.id, git)
}

pub(crate) fn by_id(cluster: &Cluster) -> plural_app::cluster::ClusterSelector {
    plural_app::cluster::ClusterSelector::Id(cluster.id)
}

pub(crate) fn service_id(service: &Service) -> plural_app::service::ServiceSelector {
    plural_app::service::ServiceSelector::Id(service.id)
}

pub(crate) fn subject(user: &User) -> BindingSubject {
    BindingSubject::User(user.id)
}

pub(crate) fn actor(user: &User) -> Actor {
    Actor::User(UserActor {
        id: user.id,
        email: user.email.to_string(),
        admin: user.admin,
        groups: HashSet::new(),
        token: None,
    })
}

/// Asks until the probe answers with a value. The probe may keep state between its answers.
pub(crate) async fn eventually<P: Probe>(probe: impl AsyncFnMut() -> P) -> P::Value {
    let probe = tokio::sync::Mutex::new(probe);
    plural_testkit::eventually(Duration::from_secs(30), || async { (probe.lock().await)().await }).await
}
