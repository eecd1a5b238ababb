//! What benches ask of a console, by the API that everybody uses.

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use plural_wire::{
    Client, ClientOptions, ClusterAttributes, CreateAccessToken, CreateClusterWithToken, CreateGitRepository,
    CreateGlobalService, CreateLastingAccessToken, CreateServiceDeployment, CreateUser, DeleteAccessToken,
    GetGitRepository, GitAttributes, GitRefAttributes, GitRepository, GlobalServiceAttributes,
    ListServiceDeployments, Secret, ServiceDeploymentAttributes, SignIn, UpdateGlobalService, UserAttributes,
    UserRoleAttributes,
};

/// Address of the benches' administrator.
pub(crate) const ADMIN: &str = "admin@localhost";
/// Its password.
pub(crate) const PASSWORD: &str = "a-password-of-a-bench";

/// A signed-in administrator.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    client: Client,
}

impl Api {
    /// Sign in to the console at a URL; `ca_pem` when its certificate is signed by an authority of the bench's.
    pub(crate) async fn sign_in(url: &str, ca_pem: Option<&str>) -> anyhow::Result<Self> {
        Self::sign_in_as(ADMIN, url, ca_pem).await
    }

    /// The same as somebody else, with the benches' password.
    pub(crate) async fn sign_in_as(email: &str, url: &str, ca_pem: Option<&str>) -> anyhow::Result<Self> {
        let options = |token| ClientOptions {
            ca_pem: ca_pem.map(|pem| pem.as_bytes().to_owned()),
            ..ClientOptions::new(url, token)
        };
        let password = Secret::new(PASSWORD);
        let session =
            Client::new(&options(None))?.send(&SignIn { email: email.to_owned(), password }).await?;
        Ok(Self { client: Client::new(&options(session.jwt))? })
    }

    /// One page of the services that this person may see, as the command line asks for it; how many came.
    pub(crate) async fn services(&self, cluster: Option<&str>, after: Option<&str>) -> anyhow::Result<usize> {
        let list = ListServiceDeployments {
            after: after.map(str::to_owned),
            first: 100,
            cluster_id: None,
            cluster: cluster.map(str::to_owned),
        };
        Ok(self.client.send(&list).await?.edges.len())
    }

    /// What asks the console, for what has no name here.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Register a cluster; returns its deploy token.
    pub(crate) async fn cluster(&self, handle: &str) -> anyhow::Result<String> {
        Ok(self.registered(handle).await?.1)
    }

    /// Register a cluster; returns its id and its deploy token.
    pub(crate) async fn registered(&self, handle: &str) -> anyhow::Result<(String, String)> {
        let attributes = ClusterAttributes {
            name: handle.to_owned(),
            handle: Some(handle.to_owned()),
            ..ClusterAttributes::default()
        };
        let made = self.client.send(&CreateClusterWithToken { attributes }).await?;
        let token = made.deploy_token.context("the console gave no deploy token")?.expose().to_owned();
        Ok((made.id, token))
    }

    /// A token of the administrator's.
    pub(crate) async fn access_token(&self) -> anyhow::Result<String> {
        let made = self.client.send(&CreateAccessToken {}).await?;
        Ok(made.token.context("the console gave no token")?.expose().to_owned())
    }

    /// Make a token of the administrator's and delete it. It ends before the session it is made with: ten minutes after a
    /// sign-in, one that outlasts it needs the password again.
    pub(crate) async fn short_token(&self) -> anyhow::Result<()> {
        let request =
            CreateLastingAccessToken { valid_for_seconds: Some(600), scopes: None, current_password: None };
        let made = self.client.send(&request).await?;
        let token = made.token.context("the console gave no token")?;
        self.client.send(&DeleteAccessToken { token }).await?;
        Ok(())
    }

    /// Make another administrator, with the benches' password.
    pub(crate) async fn administrator(&self, email: &str) -> anyhow::Result<()> {
        let attributes = UserAttributes {
            email: Some(email.to_owned()),
            name: Some(email.to_owned()),
            password: Some(Secret::new(PASSWORD)),
            roles: Some(UserRoleAttributes { admin: Some(true) }),
            ..UserAttributes::default()
        };
        let current_password = Some(Secret::new(PASSWORD));
        self.client.send(&CreateUser { attributes, current_password }).await?;
        Ok(())
    }

    /// Register a repository; returns its id.
    pub(crate) async fn repository(&self, url: &str) -> anyhow::Result<String> {
        let attributes = GitAttributes { url: url.to_owned(), ..GitAttributes::default() };
        Ok(self.client.send(&CreateGitRepository { attributes, project_id: None }).await?.id)
    }

    /// When the last successful fetch of a repository began; none before the first. An error when the console says that
    /// it cannot be fetched.
    pub(crate) async fn pulled_at(&self, id: &str) -> anyhow::Result<Option<DateTime<Utc>>> {
        let get = GetGitRepository { id: Some(id.to_owned()), url: None };
        let GitRepository { pulled_at, error, .. } = self.client.send(&get).await?;
        match error {
            Some(error) => anyhow::bail!("the console cannot fetch the repository: {error}"),
            None => Ok(pulled_at),
        }
    }

    /// Make a global service; returns its id.
    pub(crate) async fn global_service(&self, attributes: serde_json::Value) -> anyhow::Result<String> {
        let create = CreateGlobalService { service_id: None, attributes: given(attributes) };
        Ok(self.client.send(&create).await?.id)
    }

    /// Change a global service.
    pub(crate) async fn global_service_changed(
        &self,
        id: &str,
        attributes: serde_json::Value,
    ) -> anyhow::Result<()> {
        let update = UpdateGlobalService { id: id.to_owned(), attributes: given(attributes) };
        self.client.send(&update).await?;
        Ok(())
    }

    /// Register a service of one folder of a repository's branch `main` on a cluster.
    pub(crate) async fn service(
        &self,
        cluster: &str,
        repository: &str,
        name: &str,
        folder: &str,
        namespace: &str,
    ) -> anyhow::Result<()> {
        let attributes = ServiceDeploymentAttributes {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            repository_id: Some(repository.to_owned()),
            git: Some(GitRefAttributes {
                reference: "main".to_owned(),
                folder: folder.to_owned(),
                files: None,
            }),
            ..ServiceDeploymentAttributes::default()
        };
        let create =
            CreateServiceDeployment { cluster_id: None, cluster: Some(cluster.to_owned()), attributes };
        self.client.send(&create).await.with_context(|| format!("cannot create the service {name}"))?;
        Ok(())
    }
}

fn given(attributes: serde_json::Value) -> GlobalServiceAttributes {
    match attributes {
        serde_json::Value::Object(attributes) => GlobalServiceAttributes(attributes),
        _ => GlobalServiceAttributes(serde_json::Map::new()),
    }
}
