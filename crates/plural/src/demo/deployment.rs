//! What the demo asks of the console, through the same API as everybody.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::Context;
use plural_wire::{
    Client, ClientError, ClientOptions, ClusterAttributes, ConfigAttributes, CreateAccessToken,
    CreateClusterWithToken, CreateGitRepository, CreateServiceDeployment, DeleteServiceDeployment,
    DetachCluster, GetCluster, GetGitRepository, GetServiceDeployment, GitAttributes, GitRefAttributes,
    ListServiceDeployments, Secret, ServiceDeploymentAttributes, ServiceReasonKind, SignIn,
};

use super::{stack, state::State};

/// Between two looks at whether a deployment can succeed at all.
const LOOK: Duration = Duration::from_millis(500);
/// Looks in a row that must find the same.
const LOOKS: u32 = 4;

/// Where the demo deploys from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// URL or path of the repository.
    pub(super) url: String,
    /// Branch, tag or commit.
    reference: String,
    /// What becomes a service on each cluster.
    pub(super) services: Vec<SourceService>,
}

/// A folder that becomes a service.
#[derive(Debug, Clone)]
pub(super) struct SourceService {
    /// Name of the service.
    pub(super) name: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// Its folder.
    pub(super) folder: String,
    configuration: Vec<(&'static str, &'static str)>,
    /// On purpose, to show what that looks like: nobody waits for it.
    pub(super) is_broken: bool,
}

impl Source {
    /// The sample repository at `path`.
    pub(super) fn sample(path: &Path, reference: String) -> Self {
        let service = |name: &str, configuration| SourceService {
            name: name.to_owned(),
            namespace: name.to_owned(),
            folder: name.to_owned(),
            configuration,
            is_broken: name == "broken",
        };
        Self {
            url: path.display().to_string(),
            reference,
            services: vec![
                service("web", vec![("greeting", "hello")]),
                service("team", Vec::new()),
                service("broken", Vec::new()),
            ],
        }
    }

    /// One folder of a repository.
    pub(super) fn own(url: String, reference: String, folder: String) -> Self {
        let service = SourceService {
            name: "demo".to_owned(),
            namespace: "demo".to_owned(),
            folder,
            configuration: Vec::new(),
            is_broken: false,
        };
        Self { url, reference, services: vec![service] }
    }
}

/// How a cluster stands at the console when the demo starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    /// As an earlier start left it, or for the first time.
    AsBefore,
    /// It was deleted, and is registered anew.
    Again,
    /// Its deletion waits for its agent.
    Leaving,
}

/// The demo's administrator at the console.
pub(super) struct Deployment {
    client: Client,
    /// Services by id, to ask how they fare.
    services: Vec<String>,
}

impl Deployment {
    /// Signs in with the password and takes an access token, or goes on with that of an earlier start.
    pub(super) async fn sign_in(url: &str, email: &str, state: &mut State) -> anyhow::Result<Self> {
        if state.access_token().is_none() {
            let client = Client::new(&ClientOptions::new(url, None))?;
            let session = client
                .send(&SignIn { email: email.to_owned(), password: Secret::new(state.password()) })
                .await
                .context(
                    "cannot sign in to the console; with a database of your own, give it an empty one",
                )?;
            let client = Client::new(&ClientOptions::new(url, session.jwt))?;
            let token =
                client.send(&CreateAccessToken {}).await?.token.context("the console gave no token")?;
            state.set_access_token(token.expose())?;
        }
        let client = Client::new(&ClientOptions::new(url, state.access_token().map(Secret::new)))?;
        Ok(Self { client, services: Vec::new() })
    }

    /// Registers a cluster, unless an earlier start did and nobody deleted it since. Of one that is `simulated` nothing is
    /// left when its deletion did not end: the deletion ends here.
    pub(super) async fn cluster(
        &self,
        handle: &str,
        simulated: bool,
        state: &mut State,
    ) -> anyhow::Result<Registered> {
        let known = state.token(handle).is_some();
        if known {
            let look = GetCluster { id: None, handle: Some(handle.to_owned()) };
            match self.client.send(&look).await {
                Ok(found) if found.deleted_at.is_none() => return Ok(Registered::AsBefore),
                Ok(found) if simulated => {
                    self.client.send(&DetachCluster { id: found.id }).await?;
                }
                Ok(_) => return Ok(Registered::Leaving),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let attributes = ClusterAttributes {
            name: handle.to_owned(),
            handle: Some(handle.to_owned()),
            ..ClusterAttributes::default()
        };
        let made = self.client.send(&CreateClusterWithToken { attributes }).await?;
        let token = made.deploy_token.context("the console gave no deploy token")?;
        state.set_token(handle, token.expose())?;
        Ok(if known { Registered::Again } else { Registered::AsBefore })
    }

    /// Registers the repository and a service on each cluster, unless an earlier start did. Answers names
    /// and, for each, the ids on all clusters.
    pub(super) async fn services<'a>(
        &mut self,
        source: &Source,
        clusters: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let known = GetGitRepository { id: None, url: Some(source.url.clone()) };
        let repository = match self.client.send(&known).await {
            Ok(repository) => repository,
            Err(error) if error.is_not_found() => {
                let attributes = GitAttributes { url: source.url.clone(), ..GitAttributes::default() };
                self.client.send(&CreateGitRepository { attributes, project_id: None }).await?
            }
            Err(error) => return Err(error.into()),
        };
        let mut services: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for cluster in clusters {
            for service in &source.services {
                let id = self.service(cluster, service, &repository.id, &source.reference).await?;
                services.entry(service.name.clone()).or_default().push(id.clone());
                self.services.push(id);
            }
        }
        Ok(services)
    }

    /// Makes the stack of the sample repository, whose runs run on `cluster`, unless an earlier start did.
    pub(super) async fn stack(&self, source: &Source, cluster: &str) -> anyhow::Result<()> {
        stack::ensure(&self.client, &source.url, &source.reference, cluster).await
    }

    async fn service(
        &self,
        cluster: &str,
        service: &SourceService,
        repository: &str,
        reference: &str,
    ) -> anyhow::Result<String> {
        let known = GetServiceDeployment {
            id: None,
            cluster: Some(cluster.to_owned()),
            name: Some(service.name.clone()),
        };
        match self.client.send(&known).await {
            Ok(found) => return Ok(found.service.id),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let attributes = ServiceDeploymentAttributes {
            name: service.name.clone(),
            namespace: service.namespace.clone(),
            repository_id: Some(repository.to_owned()),
            git: Some(GitRefAttributes {
                reference: reference.to_owned(),
                folder: service.folder.clone(),
                files: None,
            }),
            configuration: Some(
                service
                    .configuration
                    .iter()
                    .map(|(name, value)| ConfigAttributes {
                        name: (*name).to_owned(),
                        value: Some(Secret::new(*value)),
                        value_from: None,
                    })
                    .collect(),
            ),
            ..ServiceDeploymentAttributes::default()
        };
        let create =
            CreateServiceDeployment { cluster_id: None, cluster: Some(cluster.to_owned()), attributes };
        Ok(self.client.send(&create).await?.id)
    }

    /// Deletes services and waits until their objects and they themselves are gone.
    pub(super) async fn remove<'a>(
        &self,
        services: impl Iterator<Item = &'a Vec<String>> + Clone,
    ) -> anyhow::Result<()> {
        let ids: Vec<&String> = services.flatten().collect();
        for id in &ids {
            self.client.send(&DeleteServiceDeployment { id: (*id).clone() }).await?;
        }
        for id in ids {
            loop {
                match self.client.send(&by_id(id)).await {
                    Ok(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                    Err(error) if error.is_not_found() => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Waits until something is wrong that only another commit could mend: a ref or a folder that is not there, a file
    /// that cannot be rendered. Answers what. What the API server refuses may still heal, and does not count.
    pub(super) async fn hopeless(&self) -> String {
        let mut before = (Vec::new(), 0);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.problems_of(&["git", "render"]).await.unwrap_or_default();
            // Not while a service is on its way from one commit to the next.
            before = if now == before.0 { (now, before.1 + 1) } else { (now, 1) };
            if !before.0.is_empty() && before.1 >= LOOKS {
                return before.0.join("; ");
            }
        }
    }

    /// What a sync window holds back, by cluster and service, of the first hundred services; why, in words.
    pub(super) async fn held(&self) -> Result<Vec<((String, String), String)>, ClientError> {
        let first = ListServiceDeployments { after: None, first: 100, cluster_id: None, cluster: None };
        let page = self.client.send(&first).await?;
        let held = page.edges.into_iter().filter_map(|edge| {
            let service = edge.node;
            let reason = service.reason.filter(|reason| reason.kind == ServiceReasonKind::Window)?;
            let cluster = service.cluster?.handle?;
            Some(((cluster, service.name), reason.message))
        });
        Ok(held.collect())
    }

    /// What is wrong with any service, in words.
    pub(super) async fn problems(&self) -> Result<Vec<String>, ClientError> {
        self.problems_of(&[]).await
    }

    /// The same of these steps alone; of all when none is named.
    async fn problems_of(&self, steps: &[&str]) -> Result<Vec<String>, ClientError> {
        let mut problems = Vec::new();
        for id in &self.services {
            let found = self.client.send(&by_id(id)).await?;
            let cluster = found.service.cluster.and_then(|cluster| cluster.handle).unwrap_or_default();
            for error in found.errors {
                if !steps.is_empty()
                    && (error.warning == Some(true) || !steps.contains(&error.source.as_str()))
                {
                    continue;
                }
                problems.push(format!("{} on {cluster}: {}", found.service.name, error.message));
            }
        }
        Ok(problems)
    }
}

fn by_id(id: &str) -> GetServiceDeployment {
    GetServiceDeployment { id: Some(id.to_owned()), cluster: None, name: None }
}
