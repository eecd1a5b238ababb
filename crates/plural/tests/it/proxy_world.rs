//! A console with TLS, an agent, and people who come through: what kubectl needs.
//!
//! One backend is enough: consoles share PostgreSQL alone.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use chrono::TimeDelta;
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use plural_agent::{Agent, AgentConfig, ProxyPolicy, RunningAgent};
use plural_app::{App, OpCtx};
use plural_console::{ConsoleConfig, RunningConsole};
use plural_core::access::{Actor, UserActor};
use plural_core::group::NewGroup;
use plural_core::ids::{ClusterId, GroupId, UserId};
use plural_core::policy::{BindingSubject, BindingsChange};
use plural_core::user::NewUser;
use plural_testkit::{TestCluster, TestDatabase, eventually};
use plural_tunnel::ConsoleOptions;
use serde_json::json;

use crate::world::{PASSWORD, PATIENCE, Person, console_config};

/// Someone with a token.
pub(crate) struct User {
    pub(crate) id: UserId,
    pub(crate) email: String,
    pub(crate) token: String,
}

/// A console with a certificate, a cluster, and its agent.
pub(crate) struct ProxyWorld {
    pub(crate) agent: Option<RunningAgent>,
    pub(crate) console: RunningConsole,
    /// Another replica, to which the agent is connected.
    pub(crate) other: Option<RunningConsole>,
    pub(crate) cluster: TestCluster,
    pub(crate) cluster_id: ClusterId,
    pub(crate) deploy_token: String,
    /// The administrator; nobody in the cluster until bound there.
    pub(crate) admin: User,
    pub(crate) namespace: String,
    pub(crate) ca_pem: String,
    pub(crate) folder: tempfile::TempDir,
    agent_namespace: String,
    /// Random: users of a shared cluster are told apart by it.
    mark: String,
    // Last: it goes when nobody uses it any more.
    database: Option<TestDatabase>,
}

impl ProxyWorld {
    pub(crate) async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        Self::with_policy(cluster, ProxyPolicy::default()).await
    }

    pub(crate) async fn with_policy(cluster: TestCluster, policy: ProxyPolicy) -> anyhow::Result<Self> {
        let mut world = Self::without_agent(cluster).await?;
        let mut config = world.agent_config().await?;
        config.proxy = policy;
        world.agent = Some(Agent::start(config)?);
        world.until_reached().await;
        Ok(world)
    }

    /// Two replicas: people come to the one, the agent is connected to the other. Nothing where there is no PostgreSQL.
    pub(crate) async fn with_replicas(cluster: TestCluster) -> anyhow::Result<Option<Self>> {
        let Some(database) = TestDatabase::postgres_or_report() else { return Ok(None) };
        let as_replica = |config: &mut ConsoleConfig| {
            config.database_url = Some(database.url().to_owned().into());
            config.replica_listen = Some(([127, 0, 0, 1], 0).into());
            config.webhook_secret = Some("the same on all".to_owned().into());
        };
        let mut world = Self::without_agent_with(cluster, as_replica).await?;
        let folder = world.folder.path();
        let mut config = ConsoleConfig {
            data_dir: folder.join("other"),
            encryption_key_file: Some(folder.join("console/encryption.key")),
            tls_cert: Some(folder.join("tls.crt")),
            tls_key: Some(folder.join("tls.key")),
            ..console_config(folder)
        };
        as_replica(&mut config);
        world.other = Some(RunningConsole::start(config, None).await?);
        world.database = Some(database);
        world.agent = Some(Agent::start(world.agent_config().await?)?);
        world.until_reached().await;
        Ok(Some(world))
    }

    pub(crate) async fn without_agent(cluster: TestCluster) -> anyhow::Result<Self> {
        Self::without_agent_with(cluster, |_| {}).await
    }

    pub(crate) async fn without_agent_with(
        cluster: TestCluster,
        adjust: impl FnOnce(&mut ConsoleConfig),
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mark = format!("{:08x}", rand::random::<u32>());
        let email = format!("admin-{mark}@example.com");
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let ca_pem = pair.cert.pem();
        let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        std::fs::write(&chain, &ca_pem)?;
        std::fs::write(&key, pair.signing_key.serialize_pem())?;
        let mut config = ConsoleConfig {
            admin_email: email.clone(),
            tls_cert: Some(chain),
            tls_key: Some(key),
            ..console_config(folder.path())
        };
        adjust(&mut config);
        let console = RunningConsole::start(config, None).await?;
        let (person, token) = Person::sign_in(&console.url, Some(&ca_pem), &email).await?;
        let registered = person.cluster("blue").await?;
        let app = Arc::clone(console.app());
        let actor = app.actor_authenticate(&token).await?;
        let Actor::User(UserActor { id, .. }) = actor else { anyhow::bail!("no user") };
        Ok(Self {
            agent: None,
            cluster_id: registered.id.parse()?,
            deploy_token: registered.token,
            admin: User { id, email, token },
            namespace: cluster.namespace().await?,
            agent_namespace: cluster.namespace().await?,
            ca_pem,
            folder,
            mark,
            console,
            other: None,
            cluster,
            database: None,
        })
    }

    pub(crate) async fn agent_config(&self) -> anyhow::Result<AgentConfig> {
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig())?;
        let kube = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let console = ConsoleOptions {
            url: self.other.as_ref().unwrap_or(&self.console).url.clone(),
            token: self.deploy_token.clone(),
            ca_pem: Some(self.ca_pem.clone()),
            deadline: Duration::from_secs(10),
        };
        Ok(AgentConfig::new(console, kube, self.folder.path().join("agent"))
            .in_namespace(self.agent_namespace.clone()))
    }

    /// Waits until the agent answers a request.
    pub(crate) async fn until_reached(&self) {
        eventually(PATIENCE, async || {
            let told = self.get(&self.admin.token, "/version").await;
            match told {
                // Whatever the cluster thinks of it, it was asked.
                Ok((200 | 403, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        self.console.app()
    }

    /// The administrator as a client of the API.
    pub(crate) async fn person(&self) -> anyhow::Result<Person> {
        Ok(Person::sign_in(&self.console.url, Some(&self.ca_pem), &self.admin.email).await?.0)
    }

    /// What the administrator does at the console.
    pub(crate) async fn as_admin(&self) -> anyhow::Result<OpCtx> {
        Ok(self.app().ctx(self.app().actor_authenticate(&self.admin.token).await?))
    }

    /// A user who may read the cluster at the console.
    pub(crate) async fn reader(&self, name: &str) -> anyhow::Result<User> {
        let user = self.stranger(name).await?;
        self.bind_at_console(&[user.id]).await?;
        Ok(user)
    }

    /// A user whom nobody gave anything.
    pub(crate) async fn stranger(&self, name: &str) -> anyhow::Result<User> {
        let ctx = self.as_admin().await?;
        let email = format!("{name}-{}@example.com", self.mark);
        let new = NewUser { email: email.parse()?, name: name.parse()?, admin: false };
        let id = self
            .app()
            .user_create(&ctx, &new, Some(plural_app::user::NewPassword::new(PASSWORD.to_owned().into())))
            .await?
            .id;
        let token = self.token(id, None).await?;
        Ok(User { id, email, token })
    }

    pub(crate) async fn token(&self, user: UserId, valid_for: Option<TimeDelta>) -> anyhow::Result<String> {
        use secrecy::ExposeSecret as _;
        let made = self.app().token_create(&self.as_admin().await?, Some(user), valid_for).await?;
        Ok(made.text.expose_secret().to_owned())
    }

    /// Lets exactly these users read the cluster at the console.
    pub(crate) async fn bind_at_console(&self, users: &[UserId]) -> anyhow::Result<()> {
        let subjects = users.iter().map(|id| BindingSubject::User(*id)).collect();
        let change = BindingsChange { read: Some(subjects), ..BindingsChange::default() };
        let ctx = self.as_admin().await?;
        self.app().binding_replace(&ctx, self.cluster_id, change).await?;
        Ok(())
    }

    pub(crate) async fn group(&self, name: &str, user: UserId) -> anyhow::Result<(GroupId, String)> {
        let ctx = self.as_admin().await?;
        let name = format!("{name}-{}", self.mark);
        let group = self
            .app()
            .group_create(&ctx, &NewGroup { name: name.parse()?, description: None, global: false })
            .await?;
        self.app().group_member_create(&ctx, group.id, user).await?;
        Ok((group.id, name))
    }

    /// Binds a user or group to a ClusterRole that reads Pods, in the test's namespace.
    pub(crate) async fn bind_in_namespace(&self, kind: &str, name: &str, role: &str) -> anyhow::Result<()> {
        let bindings: Api<RoleBinding> = Api::namespaced(self.cluster.client().await?, &self.namespace);
        let mut binding = RoleBinding { role_ref: role_ref(role), ..RoleBinding::default() };
        binding.metadata.generate_name = Some("test-".to_owned());
        binding.subjects = Some(vec![subject(kind, name)]);
        bindings.create(&PostParams::default(), &binding).await?;
        self.until_allowed(kind, name, Some(&self.namespace)).await
    }

    /// Binds a user to a ClusterRole that reads Pods, in all of the cluster.
    pub(crate) async fn bind_in_cluster(&self, email: &str, role: &str) -> anyhow::Result<()> {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.cluster.client().await?);
        let mut binding = ClusterRoleBinding { role_ref: role_ref(role), ..ClusterRoleBinding::default() };
        binding.metadata.generate_name = Some("test-".to_owned());
        binding.subjects = Some(vec![subject("User", email)]);
        bindings.create(&PostParams::default(), &binding).await?;
        self.until_allowed("User", email, None).await
    }

    /// Waits until the API server judges by a binding: it hears of one some time after it took it.
    async fn until_allowed(&self, kind: &str, name: &str, namespace: Option<&str>) -> anyhow::Result<()> {
        let reviews: Api<SubjectAccessReview> = Api::all(self.cluster.client().await?);
        let (field, who) = if kind == "Group" { ("groups", json!([name])) } else { ("user", json!(name)) };
        let mut spec =
            json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace}});
        spec[field] = who;
        let asked = serde_json::from_value(json!({"metadata": {}, "spec": spec}))?;
        eventually(PATIENCE, async || {
            let told =
                reviews.create(&PostParams::default(), &asked).await.map_err(|error| error.to_string())?;
            let status = told.status.unwrap_or_default();
            if status.allowed { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        Ok(())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/k8s/blue{path}", self.console.url)
    }

    /// A kubeconfig with a token in it.
    pub(crate) fn kubeconfig(&self, token: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(format!("kubeconfig-{:08x}", rand::random::<u32>()));
        let ca = self.folder.path().join("tls.crt");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n    server: {}\n    \
             certificate-authority: {}\nusers:\n- name: c\n  user:\n    token: {token}\ncontexts:\n- name: c\n  \
             context: {{cluster: c, user: c, namespace: {}}}\n",
            self.url(""),
            ca.display(),
            self.namespace,
        );
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// kubectl as someone; none where there is no kubectl.
    pub(crate) fn kubectl(&self, token: &str) -> anyhow::Result<Option<Kubectl>> {
        let Some(command) = self.cluster.kubectl_or_report() else { return Ok(None) };
        let program = command.get_program().to_owned();
        let home = self.folder.path().join("home");
        std::fs::create_dir_all(&home)?;
        Ok(Some(Kubectl { program: program.into(), kubeconfig: self.kubeconfig(token)?, home }))
    }

    /// A plain client of the proxy.
    pub(crate) async fn http(&self) -> anyhow::Result<crate::proxy_attacks::Line> {
        crate::proxy_attacks::Line::connect(&self.console.url, &self.ca_pem).await
    }

    /// One GET; status and body.
    pub(crate) async fn get(&self, token: &str, path: &str) -> anyhow::Result<(u16, String)> {
        self.get_at(&self.console, token, path).await
    }

    /// The same at a replica.
    pub(crate) async fn get_at(
        &self,
        replica: &RunningConsole,
        token: &str,
        path: &str,
    ) -> anyhow::Result<(u16, String)> {
        let head = format!(
            "GET /k8s/blue{path} HTTP/1.1\r\nhost: console\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        crate::proxy_attacks::Line::connect(&replica.url, &self.ca_pem).await?.ask(&head).await
    }

    pub(crate) async fn end(self) -> anyhow::Result<()> {
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
        if let Some(other) = self.other {
            other.stop().await?;
        }
        self.console.stop().await?;
        Ok(())
    }
}

fn role_ref(name: &str) -> RoleRef {
    RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: "ClusterRole".to_owned(),
        name: name.to_owned(),
    }
}

fn subject(kind: &str, name: &str) -> Subject {
    Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    }
}

/// The real kubectl, pointed at the proxy.
#[derive(Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// What a run said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Kubectl {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("TMPDIR", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    pub(crate) fn program(&self) -> &std::path::Path {
        &self.program
    }

    pub(crate) fn home(&self) -> &std::path::Path {
        &self.home
    }

    /// Runs it to its end, with `input` on its standard input.
    pub(crate) async fn run(&self, args: &[&str], input: Option<&str>) -> anyhow::Result<Said> {
        let mut command = self.command();
        command.args(args);
        run(command, input.map(str::to_owned)).await
    }

    /// Runs it; anything but success is an error that tells what it said.
    pub(crate) async fn ok(&self, args: &[&str]) -> anyhow::Result<String> {
        self.ok_with(args, None).await
    }

    pub(crate) async fn ok_with(&self, args: &[&str], input: Option<&str>) -> anyhow::Result<String> {
        let said = self.run(args, input).await?;
        anyhow::ensure!(said.code == Some(0), "kubectl {}: {said:?}", args.join(" "));
        Ok(said.out)
    }
}

/// Runs a program to its end on a thread that may wait.
pub(crate) async fn run(mut command: Command, input: Option<String>) -> anyhow::Result<Said> {
    let done = tokio::task::spawn_blocking(move || -> anyhow::Result<Output> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().context("cannot start it")?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            use std::io::Write as _;
            // It may end before it has read everything.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(child.wait_with_output()?)
    });
    let done = tokio::time::timeout(Duration::from_mins(2), done).await.context("it did not end")???;
    Ok(Said {
        code: done.status.code(),
        out: String::from_utf8_lossy(&done.stdout).into_owned(),
        err: String::from_utf8_lossy(&done.stderr).into_owned(),
    })
}
