//! A console on SQLite in a folder of its own, or three on PostgreSQL, with people who may do more and less.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use plural_app::job::{JobClaimer, JobEnd, JobStore as _, NewJob};
use plural_app::pr_instance::PrInstanceFilter;
use plural_app::pull_request_open::PullRequestAsk;
use plural_console::{ChildProgram, ConsoleConfig, Reach, RunningConsole};
use plural_core::PageArgs;
use plural_core::access::Actor;
use plural_core::ids::ReplicaId;
use plural_core::pr_instance::PrInstance;
use plural_core::pull_request::{HostPullRequest, PrStatus};
use plural_store::{Database, DatabaseOptions};
use plural_testkit::{ScmDialect, ScmServer, TestDatabase};
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::socket;

/// What webhooks of these consoles are signed with.
pub(crate) const WEBHOOK_SECRET: &str = "a-secret-for-webhooks";

/// A running console. Dropping it stops it.
pub(crate) struct TestServer {
    pub(crate) console: RunningConsole,
    /// Its other replicas.
    others: Vec<RunningConsole>,
    pub(crate) folder: TempDir,
    database_url: String,
    pub(crate) admin: Person,
    pub(crate) nobody: Person,
    /// A user without any binding.
    pub(crate) stranger: Person,
    /// May look at the default project.
    pub(crate) reader: Person,
    /// Has admin access to the default project, and nothing else.
    pub(crate) owner: Person,
    /// Id of the default project.
    pub(crate) project: String,
}

/// Someone who asks, with a credential or without.
#[derive(Clone)]
pub(crate) struct Person {
    http: reqwest::Client,
    replicas: Arc<Replicas>,
    pub(crate) id: String,
    pub(crate) token: Option<String>,
}

/// Who answers: each request goes to the next one, whoever asks.
struct Replicas {
    urls: Vec<String>,
    asked: AtomicUsize,
}

/// An answer of `/gql`.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) request_id: String,
    pub(crate) body: Value,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// With other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut ConsoleConfig)) -> Self {
        Self::start_with(|_, config| change(config)).await
    }

    /// The same; told is the folder that the test owns, too.
    pub(crate) async fn start_with(adjust: impl FnOnce(&Path, &mut ConsoleConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = local_config(&folder.path().join("data"));
        adjust(folder.path(), &mut config);
        let database_url = format!("sqlite://{}", config.data_dir.join("plural.db").display());
        let console = RunningConsole::start(config, None).await.unwrap();
        Self::with_people(console, Vec::new(), folder, database_url).await
    }

    /// One console on this database.
    pub(crate) async fn on(database: &TestDatabase) -> Self {
        Self::on_with(database, |_| {}).await
    }

    /// The same with other settings.
    pub(crate) async fn on_with(database: &TestDatabase, change: impl FnOnce(&mut ConsoleConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = local_config(&folder.path().join("data"));
        config.database_url = Some(SecretString::from(database.url()));
        change(&mut config);
        let console = RunningConsole::start(config, None).await.unwrap();
        Self::with_people(console, Vec::new(), folder, database.url().to_owned()).await
    }

    /// Changes what no use case changes.
    pub(crate) async fn sql(&self, sql: &str) {
        use sea_orm::ConnectionTrait as _;
        let connection = sea_orm::Database::connect(&self.database_url).await.unwrap();
        connection.execute_unprepared(sql).await.unwrap();
        connection.close().await.unwrap();
    }

    /// A passkey of a user that no device holds; its id.
    pub(crate) async fn plant_passkey(&self, user: &str) -> String {
        use sea_orm::ConnectionTrait as _;
        let connection = sea_orm::Database::connect(&self.database_url).await.unwrap();
        let sql = "INSERT INTO passkeys (id, user_id, name, credential_id, public_key, state, created_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let id = uuid::Uuid::now_v7();
        let user: uuid::Uuid = user.parse().unwrap();
        let values = [
            id.into(),
            user.into(),
            "planted".into(),
            id.as_bytes().to_vec().into(),
            vec![0_u8].into(),
            vec![0_u8].into(),
            self.console.app().now().into(),
        ];
        let statement =
            sea_orm::Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        connection.execute_raw(statement).await.unwrap();
        connection.close().await.unwrap();
        id.to_string()
    }

    /// What a plan of a commit says of a service, as if its agent had answered; its id.
    pub(crate) async fn plant_fleet_part(&self, plan: &Value, service: &Value) -> String {
        let uuid = |id: &Value| id.as_str().unwrap().parse::<uuid::Uuid>().unwrap();
        let id = uuid::Uuid::now_v7();
        let sql = "INSERT INTO fleet_plan_parts (id, plan_id, service_id, cluster_id, project_id, service, cluster, state, \
                   folder, source_root) VALUES ($1, $2, $3, $4, $5, 'web', 'blue', 'PLANNED', '', '')";
        let nil = uuid::Uuid::nil();
        self.insert(sql, [id, uuid(plan), uuid(service), nil, nil].map(Into::into).to_vec()).await;
        id.to_string()
    }

    async fn insert(&self, sql: &str, values: Vec<sea_orm::Value>) {
        use sea_orm::ConnectionTrait as _;
        let connection = sea_orm::Database::connect(&self.database_url).await.unwrap();
        let statement =
            sea_orm::Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        connection.execute_raw(statement).await.unwrap();
        connection.close().await.unwrap();
    }

    /// A pull request of an automation in `acme/shop`, as if the console had opened it; its id.
    pub(crate) async fn plant_pull_request(&self, automation: &Value) -> String {
        let told = HostPullRequest {
            url: format!("https://github.com/acme/shop/pull/{}", uuid::Uuid::now_v7().simple()),
            repository: "acme/shop".into(),
            branch: "plural/a".into(),
            title: "Add it".into(),
            status: PrStatus::Open,
            labels: vec!["infra".into()],
        };
        let app = self.console.app();
        let automation = automation.as_str().unwrap().parse().unwrap();
        let opened = app.pull_request_record(&app.ctx(Actor::System), automation, told).await.unwrap();
        opened.id.to_string()
    }

    /// What a pull request of an automation is to generate; no host hears of it. Its id.
    pub(crate) async fn plant_instance(&self, automation: &Value, context: &Value) -> String {
        let app = self.console.app();
        let (ctx, automation) = (app.ctx(Actor::System), automation.as_str().unwrap().parse().unwrap());
        let ask = PullRequestAsk {
            automation,
            identifier: Some("acme/shop".into()),
            branch: None,
            context: context.as_object().unwrap().clone(),
            key: None,
            secrets: serde_json::Map::new(),
        };
        app.pull_request_create(&ctx, ask, false).await.unwrap();
        let filter = PrInstanceFilter { automation_id: Some(automation), ..PrInstanceFilter::default() };
        let found = app.list::<PrInstance>(&ctx, &filter, &PageArgs::default()).await.unwrap();
        found.into_nodes().remove(0).id.to_string()
    }

    /// A git host with a template of an automation, and the project's connection to it.
    pub(crate) async fn forge(&self) -> (ScmServer, Value) {
        let host = ScmServer::start(ScmDialect::Gitea).unwrap();
        host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
        let attributes = json!({
            "name": "forge", "type": "GITEA", "projectId": self.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        let connection = self.admin.scm_connection(&attributes).await;
        (host, connection)
    }

    /// Three replicas on one PostgreSQL: each request goes to another one than the request before it.
    pub(crate) async fn replicas(database: &TestDatabase) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start = async |name: &str| {
            let mut config = local_config(&folder.path().join(name));
            config.database_url = Some(SecretString::from(database.url()));
            // The first one makes it.
            config.encryption_key_file = (name != "a").then(|| folder.path().join("a/encryption.key"));
            RunningConsole::start(config, None).await.unwrap()
        };
        let console = start("a").await;
        let others = vec![start("b").await, start("c").await];
        Self::with_people(console, others, folder, database.url().to_owned()).await
    }

    async fn with_people(
        console: RunningConsole,
        others: Vec<RunningConsole>,
        folder: TempDir,
        database_url: String,
    ) -> Self {
        let urls = [&console].into_iter().chain(&others).map(|replica| replica.url.clone()).collect();
        let nobody = Person::of_each(urls);
        let admin = nobody.sign_in("admin@example.com", "correct horse battery").await;
        let project = admin.data("query { projects { edges { node { id default } } } }", json!({})).await;
        let project = project["projects"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned();
        let stranger = admin.add_user("stranger@example.com").await;
        let reader = admin.add_user("reader@example.com").await;
        let owner = admin.add_user("owner@example.com").await;
        let rbac = json!({"readBindings": [{"userId": reader.id}], "adminBindings": [{"userId": owner.id}]});
        admin
            .data(
                "mutation ($rbac: RbacAttributes!, $id: ID) { updateRbac(rbac: $rbac, projectId: $id) }",
                json!({"rbac": rbac, "id": project}),
            )
            .await;
        Self { console, others, folder, database_url, admin, nobody, stranger, reader, owner, project }
    }

    /// A dead job of a kind that no console knows; its id.
    pub(crate) async fn dead_job(&self, key: &str, payload: &str) -> String {
        let database = Database::open(&DatabaseOptions::new(&self.database_url)).await.unwrap();
        let (at, kinds) = (self.console.app().now(), ["of_a_test"]);
        let job = NewJob { kind: kinds[0], key: key.into(), payload: json!(payload), after: Duration::ZERO };
        database.jobs_enqueue(&[job], at).await.unwrap();
        let by = JobClaimer { replica: ReplicaId::new(), kinds: &kinds, running: &[] };
        let claim = database.jobs_claim(&by, 1).await.unwrap()[0].claim;
        let end = JobEnd::Dead { error: "of a test".into() };
        assert!(database.job_end(&claim, &end, at).await.unwrap());
        database.close().await.unwrap();
        claim.id.to_string()
    }

    /// Stops all replicas.
    pub(crate) async fn stop(self) {
        for console in self.others.into_iter().chain([self.console]) {
            console.stop().await.unwrap();
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.console.url)
    }
}

/// Another console on what one left that was killed, and somebody as they are known to it.
pub(crate) async fn begun_again(data_dir: &Path, person: &Person) -> (RunningConsole, Person) {
    let console = RunningConsole::start(local_config(data_dir), None).await.unwrap();
    let person = Person::of(&console.url).with_token(person.token.as_deref().unwrap());
    (console, person)
}

impl Person {
    /// Nobody in particular, at this console.
    pub(crate) fn of(url: &str) -> Self {
        Self::of_each(vec![url.to_owned()])
    }

    /// Nobody in particular, who asks each of these in turn.
    fn of_each(urls: Vec<String>) -> Self {
        let http = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
        let replicas = Arc::new(Replicas { urls, asked: AtomicUsize::new(0) });
        Self { http, replicas, id: String::new(), token: None }
    }

    /// The same, who asks only this replica.
    pub(crate) fn at(&self, replica: usize) -> Self {
        let urls = vec![self.replicas.urls[replica].clone()];
        Self { replicas: Arc::new(Replicas { urls, asked: AtomicUsize::new(0) }), ..self.clone() }
    }

    /// The same with another credential.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    /// Who this address and password belong to.
    pub(crate) async fn sign_in(&self, email: &str, password: &str) -> Self {
        let data = self
            .data(
                "mutation ($email: String!, $password: String!) {
                   signIn(email: $email, password: $password) { id jwt }
                 }",
                json!({"email": email, "password": password}),
            )
            .await;
        let user = &data["signIn"];
        Self {
            id: user["id"].as_str().unwrap().into(),
            token: Some(user["jwt"].as_str().unwrap().into()),
            ..self.clone()
        }
    }

    /// A new user, signed in.
    pub(crate) async fn add_user(&self, email: &str) -> Self {
        let attributes = json!({"name": email, "email": email, "password": "another long password"});
        self.data(
            "mutation ($attributes: UserAttributes!) { createUser(attributes: $attributes) { id } }",
            json!({"attributes": attributes}),
        )
        .await;
        Self { token: None, ..self.clone() }.sign_in(email, "another long password").await
    }

    /// The console that is asked next.
    pub(crate) fn next_url(&self) -> &str {
        let Replicas { urls, asked } = &*self.replicas;
        &urls[asked.fetch_add(1, Ordering::Relaxed) % urls.len()]
    }

    /// One request to `/gql`; of a subscription, its first event.
    pub(crate) async fn ask(&self, document: &str, variables: Value) -> Answer {
        if document.starts_with("subscription") {
            return socket::ask(self, document, variables).await;
        }
        let body = json!({"query": document, "variables": variables});
        self.post("/gql", "application/json", body.to_string()).await
    }

    /// One POST with this person's credential.
    pub(crate) async fn post(&self, path: &str, content_type: &str, body: String) -> Answer {
        let url = self.next_url();
        let mut request =
            self.http.post(format!("{url}{path}")).header("content-type", content_type).body(body);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Token {token}"));
        }
        Answer::of(request.send().await.unwrap()).await
    }

    /// The client itself, for requests that are not like the others.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The data of a request that succeeds.
    pub(crate) async fn data(&self, document: &str, variables: Value) -> Value {
        let answer = self.ask(document, variables).await;
        assert!(answer.status == 200 && answer.body["errors"].is_null(), "{document}\n{answer:?}");
        answer.body["data"].clone()
    }

    /// A cluster of the default project.
    pub(crate) async fn cluster(&self, name: &str) -> Value {
        let data = self
            .data(
                "mutation ($attributes: ClusterAttributes!) {
                   createCluster(attributes: $attributes) { id name handle deployToken tags { name value } metadata }
                 }",
                json!({"attributes": {"name": name, "tags": [{"name": "stage", "value": name}]}}),
            )
            .await;
        data["createCluster"].clone()
    }

    /// A repository of the default project.
    pub(crate) async fn repository(&self, url: &str) -> Value {
        let data = self
            .data(
                "mutation ($attributes: GitAttributes!) { createGitRepository(attributes: $attributes) { id url } }",
                json!({"attributes": {"url": url}}),
            )
            .await;
        data["createGitRepository"].clone()
    }

    /// A connection to a git host; its id.
    pub(crate) async fn scm_connection(&self, attributes: &Value) -> Value {
        let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
        self.data(create, json!({"a": attributes})).await["createScmConnection"]["id"].clone()
    }

    /// An automation of pull requests; its id.
    pub(crate) async fn pr_automation(&self, attributes: &Value) -> Value {
        let create = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
        self.data(create, json!({"a": attributes})).await["createPrAutomation"]["id"].clone()
    }

    /// A service.
    pub(crate) async fn service(&self, cluster: &Value, repository: &Value, name: &str) -> Value {
        let attributes = json!({
            "name": name, "namespace": "shop", "repositoryId": repository["id"],
            "git": {"ref": "main", "folder": "web"},
            "configuration": [{"name": "password", "value": "s3cret"}],
        });
        let data = self
            .data(
                "mutation ($id: ID, $attributes: ServiceDeploymentAttributes!) {
                   createServiceDeployment(clusterId: $id, attributes: $attributes) { id name revision { id } }
                 }",
                json!({"id": cluster["id"], "attributes": attributes}),
            )
            .await;
        data["createServiceDeployment"].clone()
    }
}

impl Answer {
    /// Reads an answer as a whole.
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let request_id = response
            .headers()
            .get("x-request-id")
            .map(|value| value.to_str().unwrap().to_owned())
            .unwrap_or_default();
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Self { status, request_id, body }
    }

    /// `OK`, the HTTP status if it is not 200, or the first error's code.
    pub(crate) fn outcome(&self) -> String {
        if self.status != 200 {
            return self.status.to_string();
        }
        match self.body["errors"][0]["extensions"]["code"].as_str() {
            Some(code) => code.to_owned(),
            None if self.body["errors"].is_null() => "OK".into(),
            None => panic!("an error without a code: {self:?}"),
        }
    }

    /// The first error's text.
    pub(crate) fn message(&self) -> &str {
        self.body["errors"][0]["message"].as_str().or(self.body["message"].as_str()).unwrap_or_default()
    }
}

/// What all of these consoles have in common.
fn local_config(data_dir: &Path) -> ConsoleConfig {
    // Another test may have installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = ConsoleConfig::local(data_dir);
    config.admin_email = "admin@example.com".into();
    config.admin_password = Some(SecretString::from("correct horse battery"));
    config.allow_local_repositories = true;
    config.reach = Some(Reach::Local);
    config.allow_credentials_over_http = true;
    config.webhook_secret = Some(SecretString::from(WEBHOOK_SECRET));
    config.scaffold_program = Some(ChildProgram {
        program: env!("CARGO_BIN_EXE_confined-child").into(),
        sandbox: "sandbox",
        child: "run-automation",
    });
    config
}
