//! Chart repositories that need credentials.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::helm_repository::NewHelmAccess;
use secrecy::SecretString;

use super::{
    error::{IntoGraphql, Nullable, id, nullable, unsupported},
    git_repository::GitHealth,
    page::{connection, page_args},
    project::Project,
    record::by_id,
    request::request,
};

/// How the console signs in to a chart repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::helm_repository::HelmAuthProvider")]
pub(crate) enum HelmAuthProvider {
    /// User name and password.
    Basic,
    /// A token.
    Bearer,
    /// Google's credentials; not supported.
    Gcp,
    /// Azure's credentials; not supported.
    Azure,
    /// Amazon's credentials; not supported.
    Aws,
}

/// A chart repository or registry that the console knows how to read.
pub(crate) struct HelmRepository(plural_core::helm_repository::HelmRepository);

impl From<plural_core::helm_repository::HelmRepository> for HelmRepository {
    fn from(repository: plural_core::helm_repository::HelmRepository) -> Self {
        Self(repository)
    }
}

connection!(HelmRepositoryConnection, HelmRepositoryEdge, HelmRepository);

/// A chart repository or registry that the console knows how to read.
#[Object]
impl HelmRepository {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Where it is: `https://` or `oci://`.
    async fn url(&self) -> &str {
        self.0.url.as_str()
    }

    /// The only project whose services use it; absent when those of all do.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// How the console signs in; absent when it does not.
    async fn provider(&self) -> Option<HelmAuthProvider> {
        self.0.provider.map(Into::into)
    }

    /// Whether it can be read; absent before a service used it.
    async fn health(&self) -> Option<GitHealth> {
        self.0.health.map(Into::into)
    }

    /// Why it cannot be read.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// When it was last read.
    async fn pulled_at(&self) -> Option<DateTime<Utc>> {
        self.0.pulled_at
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

/// How a chart repository is read. What is absent stays as it was; when the proxy or the certificates change, credentials
/// that are not given again are removed, and `error` says so.
#[derive(InputObject)]
pub(crate) struct HelmRepositoryAttributes {
    /// The only project whose services use it; empty for those of all.
    project_id: Option<ID>,
    /// Which of the credentials counts; follows from them when absent.
    provider: Option<HelmAuthProvider>,
    /// The credentials.
    auth: Option<HelmAuthAttributes>,
    /// Certificates (PEM) to trust besides the system's; empty for none.
    ca_certificate: Option<String>,
}

/// Credentials of a chart repository.
#[derive(InputObject)]
pub(crate) struct HelmAuthAttributes {
    /// Proxy to go through.
    proxy: Option<HttpProxyAttributes>,
    /// User name and password.
    basic: Option<HelmBasicAuthAttributes>,
    /// A token.
    bearer: Option<HelmBearerAuthAttributes>,
    /// Refused: the console does not sign in at clouds.
    aws: Option<HelmAwsAuthAttributes>,
    /// Refused: the console does not sign in at clouds.
    azure: Option<HelmAzureAuthAttributes>,
    /// Refused: the console does not sign in at clouds.
    gcp: Option<HelmGcpAuthAttributes>,
}

/// A proxy.
#[derive(InputObject)]
pub(crate) struct HttpProxyAttributes {
    /// `http://host:port`; empty for none.
    pub(crate) url: String,
    /// Refused: the proxy is that of one repository.
    noproxy: Option<String>,
}

impl HttpProxyAttributes {
    /// The proxy's address.
    pub(crate) fn parse(self) -> plural_core::Result<String> {
        let Self { url, noproxy } = self;
        unsupported(
            "attributes.proxy.noproxy",
            noproxy.is_some_and(|hosts| !hosts.is_empty()),
            "is not supported: a proxy belongs to one repository. Leave the proxy out where the repository needs none",
        )?;
        Ok(url)
    }
}

/// A sign-in at a cloud. Refused.
#[derive(InputObject)]
pub(crate) struct HelmAwsAuthAttributes {
    /// The access key.
    access_key: Option<String>,
    /// Its secret.
    secret_access_key: Option<String>,
    /// The role to take.
    assume_role_arn: Option<String>,
}

/// A sign-in at a cloud. Refused.
#[derive(InputObject)]
pub(crate) struct HelmAzureAuthAttributes {
    /// The client.
    client_id: Option<String>,
    /// Its secret.
    client_secret: Option<String>,
    /// The tenant.
    tenant_id: Option<String>,
    /// The subscription.
    subscription_id: Option<String>,
}

/// A sign-in at a cloud. Refused.
#[derive(InputObject)]
pub(crate) struct HelmGcpAuthAttributes {
    /// The service account's key.
    application_credentials: Option<String>,
}

/// User name and password.
#[derive(InputObject)]
pub(crate) struct HelmBasicAuthAttributes {
    /// User name.
    username: String,
    /// Password or token.
    password: String,
}

/// A token.
#[derive(InputObject)]
pub(crate) struct HelmBearerAuthAttributes {
    /// The token.
    token: String,
}

impl HelmRepositoryAttributes {
    fn access(self) -> plural_core::Result<NewHelmAccess> {
        let Self { project_id, provider, auth, ca_certificate } = self;
        let project = match project_id.as_deref().map(String::as_str) {
            None => None,
            Some("") => Some(None),
            Some(text) => Some(Some(id(text)?)),
        };
        let (proxy, basic, bearer) = match auth {
            Some(HelmAuthAttributes { proxy, basic, bearer, aws, azure, gcp }) => {
                const WHY: &str = "is not supported: the console does not sign in at clouds. Give basic or bearer \
                                   credentials of the registry";
                unsupported("attributes.auth.aws", aws.is_some(), WHY)?;
                unsupported("attributes.auth.azure", azure.is_some(), WHY)?;
                unsupported("attributes.auth.gcp", gcp.is_some(), WHY)?;
                (proxy, basic, bearer)
            }
            None => (None, None, None),
        };
        Ok(NewHelmAccess {
            project,
            provider: provider.map(Into::into),
            basic: basic.map(|HelmBasicAuthAttributes { username, password }| {
                (username, SecretString::from(password))
            }),
            bearer: bearer.map(|HelmBearerAuthAttributes { token }| SecretString::from(token)),
            ca: ca_certificate,
            proxy: proxy.map(HttpProxyAttributes::parse).transpose()?,
        })
    }
}

/// Reading chart repositories.
#[derive(Default)]
pub(crate) struct HelmRepositoryQuery;

/// Reading chart repositories.
#[Object]
impl HelmRepositoryQuery {
    /// The chart repository with exactly this URL.
    async fn helm_repository(&self, ctx: &Context<'_>, url: String) -> Nullable<HelmRepository> {
        nullable(async {
            let request = request(ctx);
            Ok(Some(request.app.helm_repository_get(&request.op, &url).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// All registered chart repositories.
    async fn helm_repositories(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<HelmRepositoryConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(request.app.helm_repository_list(&request.op, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

/// Changing chart repositories.
#[derive(Default)]
pub(crate) struct HelmRepositoryMutation;

/// Changing chart repositories.
#[Object]
impl HelmRepositoryMutation {
    /// Registers a chart repository, or changes how it is read; every service that names an address in it uses that.
    async fn upsert_helm_repository(
        &self,
        ctx: &Context<'_>,
        url: String,
        attributes: Option<HelmRepositoryAttributes>,
    ) -> Nullable<HelmRepository> {
        nullable(async {
            let request = request(ctx);
            let access = attributes.map(HelmRepositoryAttributes::access).transpose().into_graphql(ctx)?;
            let access = access.unwrap_or_default();
            Ok(Some(
                request.app.helm_repository_upsert(&request.op, &url, access).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Forgets a chart repository and its credentials.
    async fn delete_helm_repository(&self, ctx: &Context<'_>, url: String) -> Nullable<HelmRepository> {
        nullable(async {
            let request = request(ctx);
            Ok(Some(request.app.helm_repository_delete(&request.op, &url).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
