//! Webhooks of git hosts: each belongs to one connection, has a secret of its own, and is believed for what the connection may touch.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{ProjectId, ScmConnectionId, ScmWebhookId};
use crate::page::Keyed;
use crate::scm_connection::{ScmConnection, ScmSpec, ScmType, base_address, segments};

/// The shortest secret that is taken: who guesses it can make the console look at repositories.
const SHORTEST_SECRET: usize = 16;
/// The longest.
const LONGEST_SECRET: usize = 1024;
/// Bytes of what a webhook is registered for.
const LONGEST_OWNER: usize = 255;

/// A webhook. Its secret is sealed in the store and never part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScmWebhook {
    /// Id.
    pub id: ScmWebhookId,
    /// The connection that it is believed for.
    pub connection_id: ScmConnectionId,
    /// The project of the connection.
    pub project_id: Option<ProjectId>,
    /// What its address ends with.
    pub external_id: String,
    /// What kind of host sends it.
    pub kind: ScmType,
    /// Whose repositories it tells of: an organization, a group or a user.
    pub owner: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl ScmWebhook {
    /// What people call it.
    pub fn name(&self) -> String {
        format!("{}/{}", word(self.kind), self.owner)
    }

    /// Where the host sends to, without the console's own address.
    pub fn path(&self) -> String {
        format!("/ext/v1/webhooks/{}/{}", word(self.kind), self.external_id)
    }

    /// Whether what it tells of a repository is believed: the connection may touch that, and it is the owner's.
    pub fn is_believed(&self, connection: &ScmConnection, slug: &str) -> bool {
        let owner = format!("{}/", self.owner.to_ascii_lowercase());
        // A slug of Azure DevOps begins with the project, and all of them are in the organization of the connection.
        let is_owners =
            self.kind == ScmType::AzureDevops || slug.to_ascii_lowercase().starts_with(owner.as_str());
        connection.id == self.connection_id && is_owners && connection.spec.allows(slug)
    }
}

impl Keyed for ScmWebhook {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a new webhook is made from. Its secret travels beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewScmWebhook {
    /// The connection; else the only one of this type whose owner this is.
    pub connection_id: Option<ScmConnectionId>,
    /// What kind of host sends it.
    pub kind: ScmType,
    /// Whose repositories it tells of.
    pub owner: String,
}

/// Of what a host has a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScmWebhookScope {
    /// Of one repository, by its slug.
    Repository(String),
    /// Of all repositories of an organization, a group, a workspace or a project.
    Organization(String),
}

impl ScmWebhookScope {
    /// The same in full, where the connection may touch what the webhook would tell of.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no name, for what the connection may not touch, and for hosts that send no webhooks.
    pub fn checked(self, connection: &ScmConnection) -> Result<Self> {
        let ScmConnection { kind, spec, name, .. } = connection;
        if *kind == ScmType::Plain {
            return Err(Error::invalid(
                "connectionId",
                "must be of a host that sends webhooks: PLAIN is git alone",
            ));
        }
        // A pattern is no name, though it looks like a slug.
        let is_name =
            |text: &str| text.len() <= LONGEST_OWNER && !text.contains('*') && segments(text).is_ok();
        match self {
            Self::Repository(text) => {
                let slug = spec.slug(text.trim()).ok().filter(|slug| is_name(slug)).ok_or_else(|| {
                    Error::invalid("repository", "must be a repository with its owner, such as acme/shop")
                })?;
                if !spec.allows(&slug) {
                    let why = format!(
                        "is {slug}, which the connection {name} may not touch: its repositories do not name it"
                    );
                    return Err(Error::invalid("repository", why));
                }
                Ok(Self::Repository(slug))
            }
            Self::Organization(text) => {
                let field = "organization";
                let owner = text.trim();
                if !is_name(owner) {
                    return Err(Error::invalid(
                        field,
                        "must be an organization, a group or a project, such as acme",
                    ));
                }
                // GitLab tells of the groups in a group, too.
                let below = *kind == ScmType::Gitlab;
                if !spec.allows_all(owner, below) {
                    let all = if below { "**" } else { "*" };
                    let why = format!(
                        "has repositories that the connection {name} may not touch: allow it {owner}/{all}, or name single repositories"
                    );
                    return Err(Error::invalid(field, why));
                }
                Ok(Self::Organization(owner.to_owned()))
            }
        }
    }

    /// Whose repositories the webhook tells of, as [`ScmWebhook::owner`] says it.
    pub fn owner(&self, connection: &ScmConnection) -> String {
        // There all projects are in the organization of the connection.
        if let Some(azure) = &connection.spec.azure {
            return azure.organization.clone();
        }
        match self {
            Self::Repository(slug) => {
                slug.rsplit_once('/').map_or(slug.as_str(), |(owner, _)| owner).to_owned()
            }
            Self::Organization(owner) => owner.clone(),
        }
    }

    /// What it is called.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Repository(slug) => slug,
            Self::Organization(owner) => owner,
        }
    }
}

/// The word of a type in the address of a webhook.
pub const fn word(kind: ScmType) -> &'static str {
    match kind {
        ScmType::Github => "github",
        ScmType::Gitlab => "gitlab",
        ScmType::Bitbucket => "bitbucket",
        ScmType::BitbucketDatacenter => "bitbucket_datacenter",
        ScmType::AzureDevops => "azure_devops",
        ScmType::Gitea => "gitea",
        ScmType::Plain => "plain",
    }
}

/// Checks the secret of a webhook.
///
/// # Errors
/// [`Error::Invalid`] for one that is too short, too long, or no text that a header can hold.
pub fn check_secret(secret: &str) -> Result<()> {
    let is_text = secret.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && secret.trim() == secret;
    if !(SHORTEST_SECRET..=LONGEST_SECRET).contains(&secret.len()) || !is_text {
        let reason =
            format!("must be {SHORTEST_SECRET} to {LONGEST_SECRET} letters, digits and signs of ASCII");
        return Err(Error::invalid("attributes.hmac", reason));
    }
    Ok(())
}

/// How the addresses of a repository may be told from others: as [`crate::repository::RepositoryUrl::identity`] says them of what it is
/// cloned from, over https and over ssh.
pub fn identities(kind: ScmType, spec: &ScmSpec, slug: &str) -> Vec<String> {
    let own = match kind {
        ScmType::Github => Some("https://github.com"),
        ScmType::Gitlab => Some("https://gitlab.com"),
        ScmType::Bitbucket => Some("https://bitbucket.org"),
        ScmType::AzureDevops => Some("https://dev.azure.com"),
        ScmType::BitbucketDatacenter | ScmType::Gitea | ScmType::Plain => None,
    };
    // Where only the API has an address, the host is the same.
    let given = spec.base_url.as_deref().or(own).or(spec.api_url.as_deref());
    let Some(base) = given.and_then(base_address) else { return Vec::new() };
    let host = base.host();
    // What lies in a user's home folder has no mark of that in an identity.
    let path = match base.path() {
        "/~" => "",
        path => path.strip_prefix("/~/").unwrap_or(path).trim_matches('/'),
    };
    let folder = match (&spec.base_url, kind) {
        (Some(_), _) => path,
        // Its API is below what its pages are below, too.
        (None, ScmType::BitbucketDatacenter) => path.find("rest/api/").map_or("", |api| &path[..api]),
        (None, _) => "",
    };
    let folder = folder.trim_end_matches('/').to_owned();
    // Servers of plain git name the folder, whose ending no identity has.
    let plain = slug.strip_suffix(".git").filter(|_| kind == ScmType::Plain);
    let slug = plain.unwrap_or(slug);
    let at = |path: String| {
        let path = if folder.is_empty() { path } else { format!("{folder}/{path}") };
        format!("{host}/{path}").to_lowercase()
    };
    match kind {
        ScmType::AzureDevops => {
            let organization = spec.azure.as_ref().map_or("", |azure| azure.organization.as_str());
            // Names have spaces, addresses have none.
            let slug = slug.replace(' ', "%20");
            let (project, name) = slug.split_once('/').unwrap_or((slug.as_str(), slug.as_str()));
            let mut all = vec![
                at(format!("{organization}/{project}/_git/{name}")),
                format!("ssh.{host}/v3/{organization}/{project}/{name}").to_lowercase(),
            ];
            // The repository that a project was made with is named once.
            if project.eq_ignore_ascii_case(name) {
                all.push(at(format!("{organization}/_git/{name}")));
            }
            all
        }
        ScmType::BitbucketDatacenter => {
            vec![at(format!("scm/{slug}")), format!("{host}/{slug}").to_lowercase()]
        }
        ScmType::Github | ScmType::Gitlab | ScmType::Bitbucket | ScmType::Gitea | ScmType::Plain => {
            vec![at(slug.to_owned()), format!("{host}/{slug}").to_lowercase()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::RepositoryUrl;
    use crate::scm_connection::{AzureDevops, ScmHeld};

    #[test]
    fn a_repository_of_plain_git_is_the_one_at_its_address() {
        let base_url = Some("https://git.example.com/srv".to_owned());
        let spec = ScmSpec { base_url, ..ScmSpec::default() };
        let url: RepositoryUrl = "https://git.example.com/srv/acme/fleet.git".parse().unwrap();
        for slug in ["acme/fleet.git", "acme/fleet"] {
            assert!(identities(ScmType::Plain, &spec, slug).contains(&url.identity()), "{slug}");
        }
        for (base, url) in [
            ("ssh://git@git.example.com:2222/srv", "ssh://git@git.example.com:2222/srv/acme/fleet.git"),
            ("ssh://git@git.example.com", "git@git.example.com:acme/fleet.git"),
            ("git@git.example.com:srv", "git@git.example.com:srv/acme/fleet"),
        ] {
            let spec = ScmSpec { base_url: Some(base.to_owned()), ..ScmSpec::default() };
            let url: RepositoryUrl = url.parse().unwrap();
            assert!(identities(ScmType::Plain, &spec, "acme/fleet.git").contains(&url.identity()), "{base}");
        }
    }

    fn connection(kind: ScmType, patterns: &[&str]) -> ScmConnection {
        ScmConnection {
            id: ScmConnectionId::new(),
            project_id: None,
            name: "forge".parse().unwrap(),
            kind,
            is_default: false,
            spec: ScmSpec {
                repositories: patterns.iter().map(|text| text.parse().unwrap()).collect(),
                ..ScmSpec::default()
            },
            held: ScmHeld::default(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    fn webhook(connection: &ScmConnection, owner: &str) -> ScmWebhook {
        ScmWebhook {
            id: ScmWebhookId::new(),
            connection_id: connection.id,
            project_id: None,
            external_id: "abc".into(),
            kind: connection.kind,
            owner: owner.into(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_webhook_is_believed_for_its_owner_and_its_connection() {
        let of = connection(ScmType::Github, &["acme/*", "other/infra"]);
        let hook = webhook(&of, "Acme");
        assert_eq!(hook.path(), "/ext/v1/webhooks/github/abc");
        for (slug, expected) in [
            ("acme/shop", true),
            ("ACME/shop", true),
            ("other/infra", false),
            ("acme-evil/shop", false),
            ("acme/group/shop", false),
            ("acme", false),
        ] {
            assert_eq!(hook.is_believed(&of, slug), expected, "{slug}");
        }
        assert!(
            !hook.is_believed(&connection(ScmType::Github, &["**"]), "acme/shop"),
            "of another connection"
        );
        assert!(!webhook(&connection(ScmType::Github, &[]), "acme").is_believed(&of, "acme/shop"));
    }

    #[test]
    fn a_webhook_is_registered_where_its_connection_reaches() {
        let repository = |text: &str| ScmWebhookScope::Repository(text.to_owned());
        let organization = |text: &str| ScmWebhookScope::Organization(text.to_owned());
        let field = |scope: ScmWebhookScope, of: &ScmConnection| match scope.checked(of) {
            Ok(scope) => format!("{} {}", scope.owner(of), scope.as_str()),
            Err(Error::Invalid { field, .. }) => field.into_owned(),
            Err(other) => panic!("{other:?}"),
        };
        let of = connection(ScmType::Github, &["acme/shop", "Team/*"]);
        assert_eq!(field(repository("acme/shop"), &of), "acme acme/shop");
        assert_eq!(field(repository("acme/other"), &of), "repository");
        assert_eq!(field(repository("shop"), &of), "repository");
        assert_eq!(field(repository("acme/../shop"), &of), "repository");
        assert_eq!(field(organization("acme"), &of), "organization");
        assert_eq!(field(organization("team"), &of), "team team");
        for bad in ["", "*", "a/../b", "a/*"] {
            assert_eq!(field(organization(bad), &connection(ScmType::Github, &["**"])), "organization");
        }
        assert_eq!(field(repository("team/*"), &of), "repository");
        let of = connection(ScmType::Gitlab, &["acme/*", "group/**"]);
        assert_eq!(field(organization("acme"), &of), "organization", "its groups have others");
        assert_eq!(field(organization("group/team"), &of), "group/team group/team");
        assert_eq!(field(repository("group/team/web"), &of), "group/team group/team/web");
        let mut of = connection(ScmType::AzureDevops, &["shop/*"]);
        let azure =
            AzureDevops { username: "bot".into(), organization: "acme".into(), project: "shop".into() };
        of.spec.azure = Some(azure);
        assert_eq!(field(repository("web"), &of), "acme shop/web");
        assert_eq!(field(organization("shop"), &of), "acme shop");
        assert_eq!(field(organization("acme"), &of), "organization");
        assert_eq!(field(repository("acme/shop"), &connection(ScmType::Plain, &["**"])), "connectionId");
    }

    #[test]
    fn secrets_are_long_and_fit_a_header() {
        assert!(check_secret("0123456789abcdef").is_ok());
        let long = "x".repeat(1025);
        for bad in ["", "short", "0123456789abcdef\n", " 0123456789abcdef", "0123456789abcdé", long.as_str()]
        {
            assert!(check_secret(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn repositories_are_told_by_their_addresses() {
        let identity = |url: &str| url.parse::<RepositoryUrl>().unwrap().identity();
        let at = |base: &str| ScmSpec { base_url: Some(base.into()), ..ScmSpec::default() };
        let azure =
            AzureDevops { username: "bot".into(), organization: "acme".into(), project: "shop".into() };
        let azure = ScmSpec { azure: Some(azure), ..ScmSpec::default() };
        for (kind, spec, slug, url) in [
            (ScmType::Github, ScmSpec::default(), "Acme/Shop", "https://github.com/acme/shop.git"),
            (ScmType::Github, ScmSpec::default(), "acme/shop", "git@github.com:acme/shop.git"),
            (
                ScmType::Gitea,
                at("https://git.example.com:8443/forge"),
                "acme/shop",
                "https://git.example.com:8443/forge/acme/shop",
            ),
            (
                ScmType::Gitea,
                at("https://git.example.com/forge"),
                "acme/shop",
                "ssh://git@git.example.com:2222/acme/shop.git",
            ),
            (
                ScmType::BitbucketDatacenter,
                at("https://git.example.com"),
                "ACME/shop",
                "https://git.example.com/scm/acme/shop.git",
            ),
            (ScmType::AzureDevops, azure.clone(), "shop/web", "https://dev.azure.com/acme/shop/_git/web"),
            (ScmType::AzureDevops, azure.clone(), "shop/web", "git@ssh.dev.azure.com:v3/acme/shop/web"),
            (
                ScmType::AzureDevops,
                azure.clone(),
                "My Shop/web",
                "https://dev.azure.com/acme/My%20Shop/_git/web",
            ),
            (ScmType::AzureDevops, azure, "Shop/Shop", "https://dev.azure.com/acme/_git/Shop"),
            (
                ScmType::BitbucketDatacenter,
                ScmSpec {
                    api_url: Some("https://git.example.com/bitbucket/rest/api/1.0".into()),
                    ..ScmSpec::default()
                },
                "ACME/shop",
                "https://git.example.com/bitbucket/scm/acme/shop.git",
            ),
        ] {
            assert!(identities(kind, &spec, slug).contains(&identity(url)), "{url}");
        }
        let other = identity("https://evil.example.com/acme/shop.git");
        assert!(!identities(ScmType::Github, &ScmSpec::default(), "acme/shop").contains(&other));
    }
}
