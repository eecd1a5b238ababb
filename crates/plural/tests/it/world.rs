//! A console, a cluster and its agent in this process, and a person who asks the console.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use plural_agent::{Agent, AgentConfig, AgentEvent, RunningAgent};
use plural_console::{ChildProgram, ConsoleConfig, Reach, RunningConsole};
use plural_testkit::{GitRemote, HeldAddress, TestCluster, eventually};
use plural_tunnel::ConsoleOptions;
use plural_wire::{
    Client, ClientOptions, ClusterAttributes, ConfigAttributes, CreateClusterWithToken, CreateGitRepository,
    CreateServiceDeployment, GetServiceDeployment, GitAttributes, GitRefAttributes, Secret,
    ServiceDeploymentAttributes, ServiceDeploymentStatus, ServiceDetails, SignIn,
};

/// How long the slowest part may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The administrator.
pub(crate) const EMAIL: &str = "ada@example.com";
/// The administrator's password.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// A person who asks a console.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) client: Client,
}

/// A registered cluster.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) token: String,
}

impl Person {
    /// Signs in as the administrator.
    pub(crate) async fn administrator(url: &str) -> anyhow::Result<Self> {
        Ok(Self::sign_in(url, None, EMAIL).await?.0)
    }

    /// Signs in to a console with this certificate; also answers the session's token.
    pub(crate) async fn sign_in(
        url: &str,
        ca_pem: Option<&str>,
        email: &str,
    ) -> anyhow::Result<(Self, String)> {
        let options = |token| ClientOptions {
            ca_pem: ca_pem.map(|pem| pem.as_bytes().to_vec()),
            ..ClientOptions::new(url, token)
        };
        let nobody = Client::new(&options(None))?;
        let asked = SignIn { email: email.to_owned(), password: Secret::new(PASSWORD) };
        let session = nobody.send(&asked).await?;
        let token = session.jwt.as_ref().map(|token| token.expose().to_owned()).unwrap_or_default();
        Ok((Self { client: Client::new(&options(session.jwt))? }, token))
    }

    pub(crate) async fn cluster(&self, handle: &str) -> anyhow::Result<Registered> {
        let attributes = ClusterAttributes {
            name: handle.to_owned(),
            handle: Some(handle.to_owned()),
            ..ClusterAttributes::default()
        };
        let made = self.client.send(&CreateClusterWithToken { attributes }).await?;
        let token = made.deploy_token.unwrap().expose().to_owned();
        Ok(Registered { id: made.id, token })
    }

    pub(crate) async fn repository(&self, url: &str) -> anyhow::Result<String> {
        let attributes = GitAttributes { url: url.to_owned(), ..GitAttributes::default() };
        Ok(self.client.send(&CreateGitRepository { attributes, project_id: None }).await?.id)
    }

    /// A service of `folder` at `main`; returns its id.
    pub(crate) async fn service(
        &self,
        cluster: &Registered,
        namespace: &str,
        repository: &str,
        folder: &str,
    ) -> anyhow::Result<String> {
        self.service_of(cluster, attributes(folder, namespace, repository, "main", folder)).await
    }

    pub(crate) async fn service_of(
        &self,
        cluster: &Registered,
        attributes: ServiceDeploymentAttributes,
    ) -> anyhow::Result<String> {
        let create =
            CreateServiceDeployment { cluster_id: Some(cluster.id.clone()), cluster: None, attributes };
        Ok(self.client.send(&create).await?.id)
    }

    pub(crate) async fn details(&self, id: &str) -> anyhow::Result<ServiceDetails> {
        let asked = GetServiceDeployment { id: Some(id.to_owned()), cluster: None, name: None };
        Ok(self.client.send(&asked).await?)
    }

    /// Waits until the service fails with a message that holds all of `needles`; returns the message.
    pub(crate) async fn fails_with(&self, id: &str, needles: &[&str]) -> String {
        eventually(PATIENCE, async || {
            let found = self.details(id).await.map_err(|error| format!("{error:#}"))?;
            let told =
                found.errors.iter().find(|error| needles.iter().all(|text| error.message.contains(text)));
            match told {
                Some(error) if found.service.status == ServiceDeploymentStatus::Failed => {
                    Ok(error.message.clone())
                }
                _ => Err(format!("{:?} {:?}", found.service.status, found.errors)),
            }
        })
        .await
    }

    /// Waits until some error of the service holds all of `needles`, whatever its status.
    pub(crate) async fn is_told(&self, id: &str, needles: &[&str]) -> ServiceDetails {
        eventually(PATIENCE, async || {
            let found = self.details(id).await.map_err(|error| format!("{error:#}"))?;
            let told =
                found.errors.iter().any(|error| needles.iter().all(|text| error.message.contains(text)));
            if told { Ok(found) } else { Err(format!("{:?} {:?}", found.service.status, found.errors)) }
        })
        .await
    }

    /// Waits until the service stands at `sha` with nothing wrong.
    pub(crate) async fn stands_at(&self, id: &str, sha: &str) -> ServiceDetails {
        eventually(PATIENCE, async || {
            let found = self.details(id).await.map_err(|error| format!("{error:#}"))?;
            let is_done = found.service.sha.as_deref() == Some(sha)
                && found.errors.is_empty()
                && found.service.status == ServiceDeploymentStatus::Healthy;
            if is_done {
                Ok(found)
            } else {
                Err(format!("{:?} at {:?}: {:?}", found.service.status, found.service.sha, found.errors))
            }
        })
        .await
    }
}

/// What a service is given, with no configuration.
pub(crate) fn attributes(
    name: &str,
    namespace: &str,
    repository: &str,
    reference: &str,
    folder: &str,
) -> ServiceDeploymentAttributes {
    ServiceDeploymentAttributes {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        repository_id: Some(repository.to_owned()),
        git: Some(GitRefAttributes {
            reference: reference.to_owned(),
            folder: folder.to_owned(),
            files: None,
        }),
        configuration: None,
        dry_run: None,
        protect: None,
        templated: None,
        ..ServiceDeploymentAttributes::default()
    }
}

/// One configuration value.
pub(crate) fn value(name: &str, value: &str) -> ConfigAttributes {
    ConfigAttributes { name: name.to_owned(), value: Some(Secret::new(value)), value_from: None }
}

/// A ConfigMap with one key.
pub(crate) fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: \"{value}\"\n")
}

/// A console, a cluster, its agent, and a repository on this disk.
pub(crate) struct World {
    pub(crate) agent: Option<RunningAgent>,
    pub(crate) console: RunningConsole,
    pub(crate) person: Person,
    pub(crate) cluster: TestCluster,
    pub(crate) registered: Registered,
    pub(crate) client: kube::Client,
    /// Where services put their objects; made by the test, not by an agent.
    pub(crate) namespace: String,
    pub(crate) remote: GitRemote,
    pub(crate) repository: String,
    pub(crate) events: Arc<Mutex<Vec<AgentEvent>>>,
    pub(crate) folder: tempfile::TempDir,
    agent_namespace: String,
    /// For consoles that come back.
    _address: HeldAddress,
}

impl World {
    /// With an agent that runs.
    pub(crate) async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        let mut world = Self::without_agent(cluster).await?;
        world.start_agent().await?;
        Ok(world)
    }

    pub(crate) async fn without_agent(cluster: TestCluster) -> anyhow::Result<Self> {
        Self::with_config(cluster, |_| {}).await
    }

    pub(crate) async fn with_config(
        cluster: TestCluster,
        adjust: impl FnOnce(&mut ConsoleConfig),
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = HeldAddress::new()?;
        let mut config = console_config(folder.path());
        config.listen = address.address();
        adjust(&mut config);
        let console = RunningConsole::start(config, None).await?;
        let person = Person::administrator(&console.url).await?;
        let registered = person.cluster("blue").await?;
        let remote = GitRemote::new()?;
        remote.push_files([("README.md", "a fleet")])?;
        let repository = person.repository(&remote.path().display().to_string()).await?;
        Ok(Self {
            agent: None,
            person,
            registered,
            client: cluster.client().await?,
            namespace: cluster.namespace().await?,
            agent_namespace: cluster.namespace().await?,
            remote,
            repository,
            events: Arc::default(),
            folder,
            console,
            cluster,
            _address: address,
        })
    }

    pub(crate) async fn agent_config(&self) -> anyhow::Result<AgentConfig> {
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig())?;
        let kube = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let console = ConsoleOptions {
            url: self.console.url.clone(),
            token: self.registered.token.clone(),
            ca_pem: None,
            deadline: Duration::from_secs(10),
        };
        let mut config = AgentConfig::new(console, kube, self.folder.path().join("agent"))
            .in_namespace(self.agent_namespace.clone());
        let events = Arc::clone(&self.events);
        config.observer = Some(Arc::new(move |event| {
            events.lock().push(event);
        }));
        Ok(config)
    }

    /// Where the agent keeps what is its own.
    pub(crate) fn agent_namespace(&self) -> &str {
        &self.agent_namespace
    }

    pub(crate) async fn start_agent(&mut self) -> anyhow::Result<()> {
        self.agent = Some(Agent::start(self.agent_config().await?)?);
        Ok(())
    }

    /// Stops agent and console.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
        self.console.stop().await?;
        Ok(())
    }

    /// A service of `folder` of the repository at `main`; returns its id.
    pub(crate) async fn service(&self, folder: &str) -> anyhow::Result<String> {
        self.person.service(&self.registered, &self.namespace, &self.repository, folder).await
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Value of the one key of a ConfigMap.
    pub(crate) async fn value(&self, name: &str) -> anyhow::Result<Option<String>> {
        let found = self.maps().get_opt(name).await?;
        Ok(found.and_then(|map| map.data).and_then(|mut data| data.remove("key")))
    }

    /// Waits until a ConfigMap holds a value.
    pub(crate) async fn until_value(&self, name: &str, value: &str) {
        eventually(PATIENCE, async || {
            let found = self.value(name).await.map_err(|error| format!("{error:#}"))?;
            if found.as_deref() == Some(value) { Ok(()) } else { Err(format!("{name} holds {found:?}")) }
        })
        .await;
    }

    /// Names of the ConfigMaps that services made.
    pub(crate) async fn map_names(&self) -> anyhow::Result<Vec<String>> {
        map_names(&self.maps()).await
    }

    /// How often a ConfigMap was written with success, by whoever.
    pub(crate) fn writes_of(&self, name: &str) -> anyhow::Result<usize> {
        writes_of(&self.cluster, &self.namespace, name)
    }
}

/// Settings of a console for a test: everything in `folder`, looking at repositories every second.
pub(crate) fn console_config(folder: &std::path::Path) -> ConsoleConfig {
    ConsoleConfig {
        admin_email: EMAIL.to_owned(),
        admin_password: Some(PASSWORD.to_owned().into()),
        allow_local_repositories: true,
        // Servers of tests are on this machine, without TLS.
        reach: Some(Reach::Local),
        allow_credentials_over_http: true,
        poll_seconds: 1,
        drain_seconds: 1,
        scaffold_program: Some(ChildProgram {
            program: env!("CARGO_BIN_EXE_plural").into(),
            sandbox: "sandbox",
            child: "run-automation",
        }),
        ..ConsoleConfig::local(folder.join("console"))
    }
}

/// Names of ConfigMaps, without the one that Kubernetes itself puts into each namespace.
pub(crate) async fn map_names(maps: &Api<ConfigMap>) -> anyhow::Result<Vec<String>> {
    let list = maps.list(&ListParams::default()).await?;
    let mut names: Vec<String> = list.iter().map(kube::ResourceExt::name_any).collect();
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    Ok(names)
}

/// How often a ConfigMap was written with success, by whoever.
pub(crate) fn writes_of(cluster: &TestCluster, namespace: &str, name: &str) -> anyhow::Result<usize> {
    let writes = cluster.writes(namespace)?;
    let of_it = writes.iter().filter(|write| write.resource == "configmaps" && write.name == name);
    Ok(of_it.filter(|write| write.code < 300).count())
}
