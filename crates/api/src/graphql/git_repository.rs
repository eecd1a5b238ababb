//! Git repositories.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::records::Search;
use plural_app::repository::{NewCredentials, RepositorySelector};
use plural_app::repository_reach::NewReach;
use plural_core::repository::{NewRepository, RepositoryChange, RepositoryUrl};
use plural_core::web_address::{WebAddress, WebAddressChange};
use secrecy::SecretString;

use super::{
    error::{IntoGraphql, Nullable, exactly_one, id, id_option, nullable, parse, unsupported},
    helm_repository::HttpProxyAttributes,
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
};

/// How the console signs in to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::repository::AuthMethod")]
pub(crate) enum AuthMethod {
    /// User name and password.
    Basic,
    /// Private key.
    Ssh,
}

/// Whether a repository can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::repository::GitHealth")]
pub(crate) enum GitHealth {
    /// The last fetch worked.
    Pullable,
    /// The last fetch failed.
    Failed,
}

/// A repository that services are read from.
pub(crate) struct GitRepository(plural_core::repository::Repository);

impl From<plural_core::repository::Repository> for GitRepository {
    fn from(repository: plural_core::repository::Repository) -> Self {
        Self(repository)
    }
}

impl GitRepository {
    /// Where people read a folder of it.
    pub(crate) fn folder_url(&self, git: &plural_core::service::GitRef) -> Option<String> {
        self.0.web.of_folder(&self.0.url, git)
    }
}

connection!(GitRepositoryConnection, GitRepositoryEdge, GitRepository);

/// A repository that services are read from.
#[Object]
impl GitRepository {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Where it is fetched from.
    async fn url(&self) -> &str {
        self.0.url.as_str()
    }

    /// Why the last fetch failed.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// Whether it can be fetched; absent before the first fetch.
    async fn health(&self) -> Option<GitHealth> {
        self.0.health.map(Into::into)
    }

    /// How the console signs in; absent when it does not.
    async fn auth_method(&self) -> Option<AuthMethod> {
        self.0.auth_method.map(Into::into)
    }

    /// Files that git-crypt encrypted are decrypted. Always false: this is not supported.
    async fn decrypt(&self) -> Option<bool> {
        Some(false)
    }

    /// Submodules are fetched too. Always false: this is not supported.
    async fn recurse_submodules(&self) -> Option<bool> {
        Some(false)
    }

    /// Where people read it with a browser, unless that follows from `url`.
    async fn https_path(&self) -> Option<&str> {
        self.0.web.https_path.as_deref()
    }

    /// How the address of one of its folders is made, with `{url}`, `{ref}` and `{folder}`; as GitHub does when absent.
    async fn url_format(&self) -> Option<&str> {
        self.0.web.url_format.as_deref()
    }

    /// Only commits that an allowed key has signed are taken from it.
    async fn signed_commits(&self) -> bool {
        self.0.signed
    }

    /// Where it belongs; absent when you may see the repository but not its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was last fetched.
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

/// What a repository is given.
#[derive(InputObject)]
pub(crate) struct GitAttributes {
    /// Where to fetch from.
    url: String,
    /// For SSH.
    private_key: Option<String>,
    /// Opens the private key.
    passphrase: Option<String>,
    /// For basic authentication.
    username: Option<String>,
    /// For basic authentication: a password or an access token.
    password: Option<String>,
    /// Proxy to go through for https and http: HTTP(S) or SOCKS, with user name and password in it where it wants them. What is
    /// absent of this and the following stays as it is; an empty text ends it.
    proxy: Option<HttpProxyAttributes>,
    /// PEM of the authorities that sign the host's certificate, in place of the system's.
    ca_certificate: Option<String>,
    /// The only SSH host keys that are accepted, as in `known_hosts`. Without them the first key seen is kept, and another one
    /// refused.
    known_hosts: Option<String>,
    /// Whose signature a commit must carry.
    verify: Option<GitVerifyAttributes>,
    /// Where people read it with a browser, `https://…`; an empty text ends it.
    https_path: Option<String>,
    /// How the address of a folder is made from `{url}`, `{ref}` and `{folder}`; an empty text ends it.
    url_format: Option<String>,
    /// Refused: a repository has credentials of its own.
    connection_id: Option<ID>,
    /// `true` is refused: nothing is decrypted.
    decrypt: Option<bool>,
    /// `true` is refused: submodules are not fetched.
    recurse_submodules: Option<bool>,
}

/// Whose signature a commit must carry: with any of these, others are refused.
#[derive(InputObject)]
pub(crate) struct GitVerifyAttributes {
    /// SSH keys, as in the file that git's `gpg.ssh.allowedSignersFile` names.
    allowed_signers: Option<String>,
    /// OpenPGP public keys, armoured.
    openpgp_keys: Option<String>,
}

impl GitAttributes {
    fn parse(self) -> plural_core::Result<(RepositoryUrl, WebAddressChange, NewCredentials)> {
        let Self {
            url,
            private_key,
            passphrase,
            username,
            password,
            proxy,
            ca_certificate,
            known_hosts,
            verify,
            https_path,
            url_format,
            connection_id,
            decrypt,
            recurse_submodules,
        } = self;
        unsupported(
            "attributes.connectionId",
            connection_id.is_some_and(|id| !id.is_empty()),
            "is not supported: a repository has credentials of its own. Give the credentials themselves: username and \
             password, or privateKey",
        )?;
        unsupported(
            "attributes.decrypt",
            decrypt == Some(true),
            "is not supported: the console does not run git-crypt. Keep secrets in the service's configuration instead",
        )?;
        unsupported(
            "attributes.recurseSubmodules",
            recurse_submodules == Some(true),
            "is not supported: submodules are not fetched. Register the submodule's repository, and add it to the service \
             as one of its sources",
        )?;
        let web = WebAddressChange::new(https_path, url_format)?;
        let (allowed_signers, openpgp_keys) = match verify {
            Some(GitVerifyAttributes { allowed_signers, openpgp_keys }) => (allowed_signers, openpgp_keys),
            None => (None, None),
        };
        // Clients send empty texts for what was left out.
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let credentials = NewCredentials {
            username: given(username),
            password: given(password).map(SecretString::from),
            private_key: given(private_key).map(SecretString::from),
            passphrase: given(passphrase).map(SecretString::from),
            reach: NewReach {
                proxy: proxy.map(HttpProxyAttributes::parse).transpose()?.map(SecretString::from),
                ca_pem: ca_certificate,
                known_hosts,
                allowed_signers,
                openpgp_keys,
            },
        };
        Ok((parse("attributes.url", &url)?, web, credentials))
    }
}

/// Reading git repositories.
#[derive(Default)]
pub(crate) struct GitRepositoryQuery;

/// Reading git repositories.
#[Object]
impl GitRepositoryQuery {
    /// One repository, by id or by its exact URL.
    async fn git_repository(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        url: Option<String>,
    ) -> Nullable<GitRepository> {
        one::<plural_core::repository::Repository, _>(ctx, selector(id, url)).await
    }

    /// The repositories that you may see.
    async fn git_repositories(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their URL.")] q: Option<String>,
    ) -> Nullable<GitRepositoryConnection> {
        page_of::<plural_core::repository::Repository, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing git repositories.
#[derive(Default)]
pub(crate) struct GitRepositoryMutation;

/// Changing git repositories.
#[Object]
impl GitRepositoryMutation {
    /// Registers a repository.
    async fn create_git_repository(
        &self,
        ctx: &Context<'_>,
        attributes: GitAttributes,
        #[graphql(desc = "Where it belongs; the default project when absent.")] project_id: Option<ID>,
    ) -> Nullable<GitRepository> {
        nullable(async {
            let request = request(ctx);
            let (url, web, credentials) = attributes.parse().into_graphql(ctx)?;
            let project_id = id_option(project_id.as_deref()).into_graphql(ctx)?;
            let new = NewRepository { url, project_id, web: web.over(WebAddress::default()) };
            Ok(Some(
                request.app.repository_create(&request.op, new, credentials).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Changes a repository. What is not given stays, credentials only while host, port, scheme, user, proxy, certificates and
    /// host keys stay too: when one of these changes, credentials that are not given again are removed, and `error` says so.
    async fn update_git_repository(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: GitAttributes,
    ) -> Nullable<GitRepository> {
        nullable(async {
            let request = request(ctx);
            let (url, web, credentials) = attributes.parse().into_graphql(ctx)?;
            let change = RepositoryChange { url: Some(url), web };
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(
                request
                    .app
                    .repository_update(&request.op, id, &change, credentials)
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }

    /// Forgets a repository that no service uses.
    async fn delete_git_repository(&self, ctx: &Context<'_>, id: ID) -> Nullable<GitRepository> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.repository_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

fn selector(by_id: Option<ID>, url: Option<String>) -> plural_core::Result<RepositorySelector> {
    match (by_id, url) {
        (Some(by_id), None) => Ok(RepositorySelector::Id(id(&by_id)?)),
        (None, Some(url)) => Ok(RepositorySelector::Url(url)),
        _ => Err(exactly_one("id and url")),
    }
}
