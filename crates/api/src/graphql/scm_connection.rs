//! Connections to git hosts.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::records::Search;
use plural_app::scm_connection::{NewScmSecrets, ScmConnectionSelector};
use plural_core::Error;
use plural_core::ids::ProjectId;
use plural_core::scm_connection::{
    AzureDevops, BitbucketDatacenter, GithubApp, NewScmConnection, RepositoryPattern, ScmConnectionChange,
    ScmSpecChange,
};
use plural_core::specs::Name;
use secrecy::SecretString;

use super::{
    error::{IntoGraphql, Nullable, id_in, id_or_name, nullable, parse},
    helm_repository::HttpProxyAttributes,
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
};

/// What kind of git host it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::scm_connection::ScmType")]
pub(crate) enum ScmType {
    /// GitHub, also GitHub Enterprise.
    Github,
    /// GitLab.
    Gitlab,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Bitbucket Data Center.
    BitbucketDatacenter,
    /// Azure DevOps.
    AzureDevops,
    /// Gitea, or Forgejo.
    Gitea,
    /// Git alone, without pull requests.
    Plain,
}

/// How the console signs in at a git host to open pull requests. Its secrets are never told.
pub(crate) struct ScmConnection(plural_core::scm_connection::ScmConnection);

impl From<plural_core::scm_connection::ScmConnection> for ScmConnection {
    fn from(connection: plural_core::scm_connection::ScmConnection) -> Self {
        Self(connection)
    }
}

connection!(ScmConnectionConnection, ScmConnectionEdge, ScmConnection);

/// How the console signs in at a git host to open pull requests. Its secrets are never told.
#[Object]
impl ScmConnection {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What kind of git host it is.
    #[graphql(name = "type")]
    async fn kind(&self) -> ScmType {
        self.0.kind.into()
    }

    /// It is meant where none is named: at most one of a project is, and one of those of the whole installation.
    #[graphql(name = "default")]
    async fn is_default(&self) -> Option<bool> {
        Some(self.0.is_default)
    }

    /// The organization, group or user that is meant where a repository is named without one.
    async fn owner(&self) -> Option<&str> {
        self.0.spec.owner.as_deref()
    }

    /// Who signs in, where a host wants to know besides the token.
    async fn username(&self) -> Option<&str> {
        self.0.spec.username.as_deref()
    }

    /// Where repositories are cloned from, in place of the host's own address.
    async fn base_url(&self) -> Option<&str> {
        self.0.spec.base_url.as_deref()
    }

    /// Where the API is, in place of the host's own address.
    async fn api_url(&self) -> Option<&str> {
        self.0.spec.api_url.as_deref()
    }

    /// The GitHub App that signs in, in place of a token.
    async fn github(&self) -> Option<ScmGithubApp> {
        self.0.spec.github.clone().map(|GithubApp { app_id, installation_id }| ScmGithubApp {
            app_id,
            installation_id,
            has_private_key: self.0.held.app_key,
        })
    }

    /// Where repositories of Azure DevOps are.
    async fn azure(&self) -> Option<ScmAzureDevops> {
        self.0.spec.azure.clone().map(|AzureDevops { username, organization, project }| ScmAzureDevops {
            username,
            organization,
            project,
        })
    }

    /// What Bitbucket Data Center wants besides.
    async fn bitbucket_datacenter(&self) -> Option<ScmBitbucketDatacenter> {
        let found = self.0.spec.bitbucket_datacenter.clone();
        found.map(|BitbucketDatacenter { user_slug }| ScmBitbucketDatacenter { user_slug })
    }

    /// The repositories that may be touched with it, as `acme/shop`, `acme/*` or `acme/**`; without any, none may.
    async fn repositories(&self) -> Vec<&str> {
        self.0.spec.repositories.iter().map(RepositoryPattern::as_str).collect()
    }

    /// It has a token or password.
    async fn has_token(&self) -> bool {
        self.0.held.token
    }

    /// It has a key that commits are signed with.
    async fn has_signing_key(&self) -> bool {
        self.0.held.signing_key
    }

    /// It has a private key that signs in by ssh.
    async fn has_ssh_key(&self) -> bool {
        self.0.held.ssh_key
    }

    /// The only ssh host keys that are accepted, as in `known_hosts`. Without them the first key seen is kept, and another one refused.
    async fn known_hosts(&self) -> Option<&str> {
        self.0.spec.known_hosts.as_deref()
    }

    /// The host is reached through a proxy.
    async fn has_proxy(&self) -> bool {
        self.0.held.proxy
    }

    /// Where it belongs; absent for one of the whole installation, and when you may see the connection but not its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// The GitHub App of a connection.
#[derive(SimpleObject)]
pub(crate) struct ScmGithubApp {
    /// Of the App.
    app_id: String,
    /// Of its installation in an organization.
    installation_id: String,
    /// Its private key is kept.
    has_private_key: bool,
}

/// Where repositories of Azure DevOps are.
#[derive(SimpleObject)]
pub(crate) struct ScmAzureDevops {
    /// Who signs in.
    username: String,
    /// The organization.
    organization: String,
    /// The project.
    project: String,
}

/// What Bitbucket Data Center wants besides.
#[derive(SimpleObject)]
pub(crate) struct ScmBitbucketDatacenter {
    /// The slug of the user that signs in.
    user_slug: String,
}

/// What a connection is given. What is absent stays as it is; an empty text ends it.
#[derive(InputObject)]
pub(crate) struct ScmConnectionAttributes {
    /// Unique name.
    name: String,
    /// What kind of git host it is; it cannot be changed.
    #[graphql(name = "type")]
    kind: ScmType,
    /// Where it belongs; without one, to the whole installation, which is for administrators. It cannot be changed.
    project_id: Option<ID>,
    /// The organization, group or user that is meant where a repository is named without one.
    owner: Option<String>,
    /// Who signs in, where a host wants to know besides the token.
    username: Option<String>,
    /// Token or password. Where the addresses or the proxy change, it has to be given again.
    token: Option<String>,
    /// Where repositories are cloned from, in place of the host's own address.
    base_url: Option<String>,
    /// Where the API is, in place of the host's own address.
    api_url: Option<String>,
    /// The GitHub App that signs in, in place of a token.
    github: Option<GithubAppAttributes>,
    /// Where repositories of Azure DevOps are.
    azure: Option<AzureDevopsAttributes>,
    /// What Bitbucket Data Center wants besides.
    bitbucket_datacenter: Option<BitbucketDatacenterAttributes>,
    /// It is meant where none is named. The one before is no longer.
    default: Option<bool>,
    /// Proxy to go through: HTTP(S) or SOCKS, with user name and password in it where it wants them; an empty address ends it.
    proxy: Option<HttpProxyAttributes>,
    /// Private key that commits are signed with, as OpenSSH writes it.
    signing_private_key: Option<String>,
    /// Private key that signs in at an `ssh://` address of plain git, as OpenSSH writes it. Where the address or the host keys change, it
    /// has to be given again.
    ssh_private_key: Option<String>,
    /// Opens that key. A key that is given without one has none.
    ssh_passphrase: Option<String>,
    /// The only ssh host keys that are accepted, as in `known_hosts`. Without them the first key seen is kept, and another one refused.
    known_hosts: Option<String>,
    /// The repositories that may be touched with it, as `acme/shop`, `acme/*` or `acme/**`; without any, none may. All that are given
    /// replace those that there are.
    repositories: Option<Vec<String>>,
}

/// A GitHub App.
#[derive(InputObject)]
pub(crate) struct GithubAppAttributes {
    /// Of the App.
    app_id: String,
    /// Of its installation in an organization.
    installation_id: String,
    /// Its private key, PEM; an empty text keeps the one that there is.
    private_key: String,
}

/// Where repositories of Azure DevOps are.
#[derive(InputObject)]
pub(crate) struct AzureDevopsAttributes {
    /// Who signs in.
    username: String,
    /// The organization.
    organization: String,
    /// The project.
    project: String,
}

/// What Bitbucket Data Center wants besides.
#[derive(InputObject)]
pub(crate) struct BitbucketDatacenterAttributes {
    /// The slug of the user that signs in.
    user_slug: String,
}

/// What was given, in the types of the use cases.
struct Given {
    name: Name,
    kind: plural_core::scm_connection::ScmType,
    project_id: Option<ProjectId>,
    default: Option<bool>,
    spec: ScmSpecChange,
    secrets: NewScmSecrets,
}

impl ScmConnectionAttributes {
    fn parse(self) -> plural_core::Result<Given> {
        let Self {
            name,
            kind,
            project_id,
            owner,
            username,
            token,
            base_url,
            api_url,
            github,
            azure,
            bitbucket_datacenter,
            default,
            proxy,
            signing_private_key,
            ssh_private_key,
            ssh_passphrase,
            known_hosts,
            repositories,
        } = self;
        let (github, app_key) = match github {
            None => (None, None),
            Some(GithubAppAttributes { app_id, installation_id, private_key }) => (
                Some(GithubApp { app_id, installation_id }),
                Some(private_key).filter(|key| !key.trim().is_empty()).map(SecretString::from),
            ),
        };
        let pattern = |text: String| {
            text.parse::<RepositoryPattern>()
                .map_err(|error| Error::invalid("attributes.repositories", format!("{text:?} {error}")))
        };
        let repositories =
            repositories.map(|all| all.into_iter().map(pattern).collect::<Result<_, Error>>()).transpose()?;
        let spec = ScmSpecChange {
            owner,
            username,
            base_url,
            api_url,
            github,
            azure: azure.map(|AzureDevopsAttributes { username, organization, project }| AzureDevops {
                username,
                organization,
                project,
            }),
            bitbucket_datacenter: bitbucket_datacenter
                .map(|BitbucketDatacenterAttributes { user_slug }| BitbucketDatacenter { user_slug }),
            known_hosts,
            repositories,
        };
        let secrets = NewScmSecrets {
            token: token.map(SecretString::from),
            app_key,
            signing_key: signing_private_key.map(SecretString::from),
            proxy: proxy.map(HttpProxyAttributes::parse).transpose()?.map(SecretString::from),
            ssh_key: ssh_private_key.map(SecretString::from),
            ssh_passphrase: ssh_passphrase.map(SecretString::from),
        };
        Ok(Given {
            name: parse("attributes.name", &name)?,
            kind: kind.into(),
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            default,
            spec,
            secrets,
        })
    }
}

/// Reading connections to git hosts.
#[derive(Default)]
pub(crate) struct ScmConnectionQuery;

/// Reading connections to git hosts.
#[Object]
impl ScmConnectionQuery {
    /// One connection, by id or name.
    async fn scm_connection(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        name: Option<String>,
    ) -> Nullable<ScmConnection> {
        let by = id_or_name(id, name, ScmConnectionSelector::Id, ScmConnectionSelector::Name);
        one::<plural_core::scm_connection::ScmConnection, _>(ctx, by).await
    }

    /// The connections that you may see: those of your projects, and for administrators those of the whole installation.
    async fn scm_connections(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<ScmConnectionConnection> {
        page_of::<plural_core::scm_connection::ScmConnection, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing connections to git hosts.
#[derive(Default)]
pub(crate) struct ScmConnectionMutation;

/// Changing connections to git hosts.
#[Object]
impl ScmConnectionMutation {
    /// Makes a connection. Without `repositories` it may touch none.
    async fn create_scm_connection(
        &self,
        ctx: &Context<'_>,
        attributes: ScmConnectionAttributes,
    ) -> Nullable<ScmConnection> {
        nullable(async {
            let request = request(ctx);
            let Given { name, kind, project_id, default, spec, secrets } =
                attributes.parse().into_graphql(ctx)?;
            let is_default = default.unwrap_or(false);
            let new = NewScmConnection { name, kind, project_id, is_default, spec };
            let made = request.app.scm_connection_create(&request.op, new, secrets).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a connection. What is not given stays, a token or key only while the addresses and the proxy stay, too.
    async fn update_scm_connection(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: ScmConnectionAttributes,
    ) -> Nullable<ScmConnection> {
        nullable(async {
            let request = request(ctx);
            let Given { name, kind, project_id, default, spec, secrets } =
                attributes.parse().into_graphql(ctx)?;
            let id = super::error::id(&id).into_graphql(ctx)?;
            let (name, kind) = (Some(name), Some(kind));
            let change = ScmConnectionChange { name, kind, project_id, is_default: default, spec };
            let changed = request.app.scm_connection_update(&request.op, id, change, secrets).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a connection with its secrets.
    async fn delete_scm_connection(&self, ctx: &Context<'_>, id: ID) -> Nullable<ScmConnection> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.scm_connection_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
