//! Connections to git hosts: how the console signs in there to open pull requests, and which repositories it may touch.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::address::{Address, Scheme};
use crate::error::{Error, Result};
use crate::ids::{ProjectId, ScmConnectionId};
use crate::page::Keyed;
use crate::specs::{Name, NameError};

mod pattern;

pub use self::pattern::RepositoryPattern;
pub(crate) use self::pattern::segments;

/// Patterns that one connection may have.
const MAX_PATTERNS: usize = 200;
/// Bytes of a user, an organization, a number of an App.
const LONGEST_WORD: usize = 255;
/// Bytes of the ssh host keys of a connection.
const LONGEST_KNOWN_HOSTS: usize = 32 << 10;

/// What kind of git host it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScmType {
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

impl ScmType {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Github,
        Self::Gitlab,
        Self::Bitbucket,
        Self::BitbucketDatacenter,
        Self::AzureDevops,
        Self::Gitea,
        Self::Plain,
    ];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Github => "GITHUB",
            Self::Gitlab => "GITLAB",
            Self::Bitbucket => "BITBUCKET",
            Self::BitbucketDatacenter => "BITBUCKET_DATACENTER",
            Self::AzureDevops => "AZURE_DEVOPS",
            Self::Gitea => "GITEA",
            Self::Plain => "PLAIN",
        }
    }

    /// The type of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A connection to a git host. Its secrets are sealed in the store and never part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScmConnection {
    /// Id.
    pub id: ScmConnectionId,
    /// Where it belongs; to the whole installation without one. It stays there.
    pub project_id: Option<ProjectId>,
    /// Unique in the installation.
    pub name: Name,
    /// What kind of host it is. It stays so.
    pub kind: ScmType,
    /// It is the one that is meant where none is named: at most one of a project is, and one of those of the installation.
    pub is_default: bool,
    /// How the host is reached, and what of it may be touched.
    pub spec: ScmSpec,
    /// Which secrets it has.
    pub held: ScmHeld,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for ScmConnection {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// How a git host is reached, and which of its repositories may be touched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScmSpec {
    /// The organization, group or user that is meant where a repository is named without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who signs in, where a host wants to know besides the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Where repositories are cloned from, in place of the host's own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Where the API is, in place of the host's own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// The GitHub App that signs in, in place of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github: Option<GithubApp>,
    /// The organization and project of Azure DevOps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureDevops>,
    /// What Bitbucket Data Center wants besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitbucket_datacenter: Option<BitbucketDatacenter>,
    /// The only ssh host keys that are accepted, as in `known_hosts`. Without them the first key seen is kept, and another one refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<String>,
    /// The repositories that may be touched with it; without any, none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<RepositoryPattern>,
}

/// A GitHub App. Its private key is sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GithubApp {
    /// Of the App.
    pub app_id: String,
    /// Of its installation in an organization.
    pub installation_id: String,
}

/// Where repositories of Azure DevOps are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AzureDevops {
    /// Who signs in.
    pub username: String,
    /// The organization.
    pub organization: String,
    /// The project.
    pub project: String,
}

/// What Bitbucket Data Center wants besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BitbucketDatacenter {
    /// The slug of the user that signs in.
    pub user_slug: String,
}

/// Which secrets a connection has. The secrets themselves are never told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScmHeld {
    /// A token or password.
    pub token: bool,
    /// The private key of a GitHub App.
    pub app_key: bool,
    /// The key that commits are signed with.
    pub signing_key: bool,
    /// A proxy, in whose address a password may be.
    pub proxy: bool,
    /// The private key that signs in by ssh.
    pub ssh_key: bool,
}

/// What a new connection is made from. Secrets travel beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewScmConnection {
    /// Unique in the installation.
    pub name: Name,
    /// What kind of host it is.
    pub kind: ScmType,
    /// Where it belongs; to the whole installation without one.
    pub project_id: Option<ProjectId>,
    /// It is the one that is meant where none is named.
    pub is_default: bool,
    /// How the host is reached, and what of it may be touched.
    pub spec: ScmSpecChange,
}

/// What changes of a connection; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScmConnectionChange {
    /// A new name.
    pub name: Option<Name>,
    /// What kind of host it is; another one than it has is refused.
    pub kind: Option<ScmType>,
    /// Where it belongs; elsewhere than where it is, is refused.
    pub project_id: Option<ProjectId>,
    /// It becomes, or is no longer, the one that is meant where none is named.
    pub is_default: Option<bool>,
    /// How the host is reached, and what of it may be touched.
    pub spec: ScmSpecChange,
}

/// What changes of how a host is reached. `None` leaves a part as it is, an empty text ends it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScmSpecChange {
    /// Whose repositories are meant.
    pub owner: Option<String>,
    /// Who signs in.
    pub username: Option<String>,
    /// Where repositories are cloned from.
    pub base_url: Option<String>,
    /// Where the API is.
    pub api_url: Option<String>,
    /// The GitHub App.
    pub github: Option<GithubApp>,
    /// Where repositories of Azure DevOps are.
    pub azure: Option<AzureDevops>,
    /// What Bitbucket Data Center wants.
    pub bitbucket_datacenter: Option<BitbucketDatacenter>,
    /// The only ssh host keys that are accepted.
    pub known_hosts: Option<String>,
    /// All patterns.
    pub repositories: Option<Vec<RepositoryPattern>>,
}

impl ScmSpecChange {
    /// What `before` becomes.
    #[must_use]
    pub fn over(self, before: ScmSpec) -> ScmSpec {
        let Self {
            owner,
            username,
            base_url,
            api_url,
            github,
            azure,
            bitbucket_datacenter,
            known_hosts,
            repositories,
        } = self;
        let text = |given: Option<String>, before: Option<String>| match given {
            None => before,
            Some(given) => Some(given).filter(|text| !text.is_empty()),
        };
        ScmSpec {
            owner: text(owner, before.owner),
            username: text(username, before.username),
            base_url: text(base_url, before.base_url),
            api_url: text(api_url, before.api_url),
            github: github.or(before.github),
            azure: azure.or(before.azure),
            bitbucket_datacenter: bitbucket_datacenter.or(before.bitbucket_datacenter),
            known_hosts: text(known_hosts.map(|text| text.trim().to_owned()), before.known_hosts),
            repositories: repositories.unwrap_or(before.repositories),
        }
    }
}

impl ScmSpec {
    /// The same with its addresses in their normal form, if it fits a host of this type that is signed in to with these secrets.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what does not fit, or is missing.
    pub fn checked(mut self, kind: ScmType, held: ScmHeld) -> Result<Self> {
        self.check_words()?;
        for (field, url) in
            [("attributes.baseUrl", &mut self.base_url), ("attributes.apiUrl", &mut self.api_url)]
        {
            if let Some(text) = url {
                *text = host_address(kind, text).map_err(|error| Error::invalid(field, error.to_string()))?;
            }
        }
        if self.repositories.len() > MAX_PATTERNS {
            let reason = format!("at most {MAX_PATTERNS} are allowed");
            return Err(Error::invalid("attributes.repositories", reason));
        }
        self.check_parts(kind)?;
        self.check_secrets(kind, held)?;
        self.check_ssh(kind, held)?;
        Ok(self)
    }

    /// Whether its repositories are reached by ssh.
    pub fn is_ssh(&self) -> bool {
        self.base_url.as_deref().and_then(base_address).is_some_and(|base| base.scheme() == Scheme::Ssh)
    }

    /// The slug of a repository that is named without its owner where the connection has one. It may still be one that may not be touched.
    ///
    /// # Errors
    /// [`NameError`] for what is no slug.
    pub fn slug(&self, name: &str) -> std::result::Result<String, NameError> {
        // At Azure DevOps the owner is a project.
        let owner = self.owner.as_ref().or(self.azure.as_ref().map(|azure| &azure.project));
        let slug = match owner {
            Some(owner) if !name.contains('/') => format!("{owner}/{name}"),
            _ => name.to_owned(),
        };
        if segments(&slug)?.len() < 2 {
            return Err(NameError::of("must name an owner and a repository, such as acme/shop"));
        }
        Ok(slug)
    }

    /// Whether this repository may be touched, by its slug: `owner/name`, with all groups between them. What is no slug may not.
    pub fn allows(&self, slug: &str) -> bool {
        self.repositories.iter().any(|pattern| pattern.matches(slug))
    }

    /// Whether every repository of this organization, group or project may be touched; with `below`, those of the groups in it, too.
    pub fn allows_all(&self, owner: &str, below: bool) -> bool {
        self.repositories.iter().any(|pattern| pattern.covers(owner, below))
    }

    fn check_words(&self) -> Result<()> {
        let Self { owner, username, github, azure, bitbucket_datacenter, .. } = self;
        let app = |part: fn(&GithubApp) -> &String| github.as_ref().map(part);
        let devops = |part: fn(&AzureDevops) -> &String| azure.as_ref().map(part);
        for (field, text) in [
            ("attributes.owner", owner.as_ref()),
            ("attributes.username", username.as_ref()),
            ("attributes.github.appId", app(|app| &app.app_id)),
            ("attributes.github.installationId", app(|app| &app.installation_id)),
            ("attributes.azure.username", devops(|azure| &azure.username)),
            ("attributes.azure.organization", devops(|azure| &azure.organization)),
            ("attributes.azure.project", devops(|azure| &azure.project)),
            (
                "attributes.bitbucketDatacenter.userSlug",
                bitbucket_datacenter.as_ref().map(|of| &of.user_slug),
            ),
        ] {
            let Some(text) = text else { continue };
            // They become parts of addresses.
            let is_word = !text.trim().is_empty()
                && text.len() <= LONGEST_WORD
                && !text.starts_with(['-', '.'])
                && !text.contains(|c: char| c.is_control() || "/\\?#%:".contains(c));
            // Groups of GitLab lie in groups.
            let is_path = field == "attributes.owner" && segments(text).is_ok();
            if !is_word && !is_path {
                return Err(Error::invalid(
                    field,
                    "must be a word of at most 255 bytes, without any of / \\ ? # % : and control characters",
                ));
            }
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if field.starts_with("attributes.github.") && !is_number {
                return Err(Error::invalid(field, "must be a number"));
            }
        }
        Ok(())
    }

    /// Each part belongs to one type.
    fn check_parts(&self, kind: ScmType) -> Result<()> {
        for (field, given, fits, name) in [
            ("attributes.github", self.github.is_some(), kind == ScmType::Github, "GITHUB"),
            ("attributes.azure", self.azure.is_some(), kind == ScmType::AzureDevops, "AZURE_DEVOPS"),
            (
                "attributes.bitbucketDatacenter",
                self.bitbucket_datacenter.is_some(),
                kind == ScmType::BitbucketDatacenter,
                "BITBUCKET_DATACENTER",
            ),
        ] {
            if given && !fits {
                return Err(Error::invalid(field, format!("only fits a connection of type {name}")));
            }
        }
        match kind {
            ScmType::BitbucketDatacenter | ScmType::Gitea
                if self.base_url.is_none() && self.api_url.is_none() =>
            {
                Err(Error::invalid(
                    "attributes.baseUrl",
                    "must be given: such a host has no address of its own",
                ))
            }
            ScmType::Plain if self.base_url.is_none() => Err(Error::invalid(
                "attributes.baseUrl",
                "must be given: it is where repositories are cloned from",
            )),
            ScmType::Plain if self.api_url.is_some() => Err(Error::invalid(
                "attributes.apiUrl",
                "does not fit a connection of type PLAIN: it has no API",
            )),
            ScmType::AzureDevops if self.azure.is_none() => {
                Err(Error::invalid("attributes.azure", "must be given for a connection of type AZURE_DEVOPS"))
            }
            ScmType::Github
            | ScmType::Gitlab
            | ScmType::Bitbucket
            | ScmType::BitbucketDatacenter
            | ScmType::AzureDevops
            | ScmType::Gitea
            | ScmType::Plain => Ok(()),
        }
    }

    fn check_secrets(&self, kind: ScmType, held: ScmHeld) -> Result<()> {
        let ScmHeld { token, app_key, signing_key: _, proxy: _, ssh_key: _ } = held;
        if self.github.is_some() && !app_key {
            return Err(Error::invalid("attributes.github.privateKey", "must be given with the App"));
        }
        match (token, self.github.is_some()) {
            (true, true) => {
                Err(Error::invalid("attributes.token", "must not be given together with a GitHub App"))
            }
            (false, false) if kind == ScmType::Github => {
                Err(Error::invalid("attributes.token", "must be given, or a GitHub App in its place"))
            }
            (false, false) if kind != ScmType::Plain => {
                Err(Error::invalid("attributes.token", "must be given"))
            }
            (true, false) if kind == ScmType::Plain && self.username.is_none() && !self.is_ssh() => {
                Err(Error::invalid("attributes.username", "must be given with the token"))
            }
            (_, false) | (false, true) => Ok(()),
        }
    }

    /// An ssh address is signed in to with a key, and no other is.
    fn check_ssh(&self, kind: ScmType, held: ScmHeld) -> Result<()> {
        let Some(base) = self.base_url.as_deref().filter(|_| self.is_ssh()) else {
            for (field, given) in [
                ("attributes.sshPrivateKey", held.ssh_key),
                ("attributes.knownHosts", self.known_hosts.is_some()),
            ] {
                if given {
                    let what = match kind {
                        ScmType::Plain => "only fits a baseUrl that begins with ssh://",
                        ScmType::Github
                        | ScmType::Gitlab
                        | ScmType::Bitbucket
                        | ScmType::BitbucketDatacenter
                        | ScmType::AzureDevops
                        | ScmType::Gitea => "only fits a connection of type PLAIN",
                    };
                    return Err(Error::invalid(field, what));
                }
            }
            return Ok(());
        };
        let in_place = format!("must not be given for {base}, which is signed in to with a private key");
        for (field, given, what) in [
            ("attributes.token", held.token, in_place.as_str()),
            ("attributes.username", self.username.is_some(), "must not be given: the user is in the address"),
            ("attributes.proxy.url", held.proxy, "must not be given: no proxy is used for ssh"),
        ] {
            if given {
                return Err(Error::invalid(field, what.to_owned()));
            }
        }
        if !held.ssh_key {
            return Err(Error::invalid("attributes.sshPrivateKey", "must be given for an ssh address"));
        }
        if let Some(known) = &self.known_hosts
            && (known.len() > LONGEST_KNOWN_HOSTS || !known.contains(' ') || known.contains('\0'))
        {
            return Err(Error::invalid(
                "attributes.knownHosts",
                "must be lines of host, kind and key, as ssh-keyscan prints, of at most 32 KiB",
            ));
        }
        Ok(())
    }
}

/// An address of a git host: its own, or a folder of it.
fn host_address(kind: ScmType, text: &str) -> Result<String, NameError> {
    let text = text.trim().trim_end_matches('/');
    let (address, is_root) = match text.parse::<Address>() {
        Ok(address) => (address, false),
        Err(error) => (ssh_root(text).ok_or(error)?, true),
    };
    let is_plain = kind == ScmType::Plain;
    match address.scheme() {
        Scheme::Https | Scheme::Http => Ok(address.to_string()),
        Scheme::Ssh if is_plain => {
            let address = address.to_string();
            Ok(address.strip_suffix(ROOT).filter(|_| is_root).unwrap_or(&address).to_owned())
        }
        Scheme::Ssh | Scheme::Oci | Scheme::OciHttp | Scheme::File => {
            let ssh = if is_plain { " or ssh://USER@HOST" } else { "" };
            Err(NameError::of(format!("must be https://HOST{ssh}, perhaps with a path")))
        }
    }
}

/// What stands for the path of an ssh host's own address: that of a repository always has one.
const ROOT: &str = "/~";

fn ssh_root(text: &str) -> Option<Address> {
    let is_root = text.strip_prefix("ssh://").is_some_and(|rest| !rest.contains('/'));
    if is_root { format!("{text}{ROOT}").parse().ok() } else { None }
}

/// The address that repositories of a host are below. Where an ssh host has no path, this has `/~`.
pub fn base_address(text: &str) -> Option<Address> {
    text.parse().ok().or_else(|| ssh_root(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: ScmHeld =
        ScmHeld { token: true, app_key: false, signing_key: false, proxy: false, ssh_key: false };

    fn refused(spec: ScmSpec, kind: ScmType, held: ScmHeld) -> String {
        match spec.checked(kind, held).unwrap_err() {
            Error::Invalid { field, .. } => field.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_type_wants_its_own() {
        let none = ScmHeld::default();
        let spec = ScmSpec::default;
        assert!(spec().checked(ScmType::Github, TOKEN).is_ok());
        assert_eq!(refused(spec(), ScmType::Github, none), "attributes.token");
        assert_eq!(refused(spec(), ScmType::Gitlab, none), "attributes.token");
        assert_eq!(refused(spec(), ScmType::Gitea, TOKEN), "attributes.baseUrl");
        assert_eq!(refused(spec(), ScmType::BitbucketDatacenter, TOKEN), "attributes.baseUrl");
        assert_eq!(refused(spec(), ScmType::AzureDevops, TOKEN), "attributes.azure");
        assert_eq!(refused(spec(), ScmType::Plain, none), "attributes.baseUrl");
        let at = |base: &str| ScmSpec { base_url: Some(base.into()), ..ScmSpec::default() };
        assert!(at("https://git.example.com").checked(ScmType::Plain, none).is_ok());
        assert_eq!(refused(at("https://git.example.com"), ScmType::Plain, TOKEN), "attributes.username");
        for bad in
            ["git.example.com", "ssh://git@git.example.com", "https://ada:pw@git.example.com", "https://"]
        {
            assert_eq!(refused(at(bad), ScmType::Gitea, TOKEN), "attributes.baseUrl", "{bad}");
        }
        let normal = at("https://Git.Example.com:443/scm/").checked(ScmType::Gitea, TOKEN).unwrap();
        assert_eq!(normal.base_url.as_deref(), Some("https://git.example.com/scm"));
    }

    #[test]
    fn an_ssh_address_is_signed_in_to_with_a_key() {
        let key = ScmHeld { ssh_key: true, ..ScmHeld::default() };
        let at = |base: &str| ScmSpec { base_url: Some(base.into()), ..ScmSpec::default() };
        for (given, normal) in [
            ("ssh://git@Git.Example.com:22/srv/", "ssh://git@git.example.com/srv"),
            ("ssh://git@git.example.com", "ssh://git@git.example.com"),
            ("ssh://git.example.com:2222/", "ssh://git@git.example.com:2222"),
            ("ssh://git@git.example.com/~", "ssh://git@git.example.com/~"),
            ("git@git.example.com:srv", "git@git.example.com:srv"),
        ] {
            let checked = at(given).checked(ScmType::Plain, key).unwrap();
            assert_eq!(checked.base_url.as_deref(), Some(normal), "{given}");
            assert!(checked.is_ssh(), "{given}");
            // It is the same when it is given again.
            assert_eq!(checked.clone().checked(ScmType::Plain, key).unwrap(), checked, "{given}");
        }
        let ssh = || at("ssh://git@git.example.com/srv");
        for bad in
            ["ssh://ada:pw@git.example.com", "ssh://-oProxyCommand=x", "ssh://", "git@git.example.com:"]
        {
            assert_eq!(refused(at(bad), ScmType::Plain, key), "attributes.baseUrl", "{bad}");
        }
        assert_eq!(refused(ssh(), ScmType::Gitea, ScmHeld { ssh_key: true, ..TOKEN }), "attributes.baseUrl");
        assert_eq!(refused(ssh(), ScmType::Plain, ScmHeld::default()), "attributes.sshPrivateKey");
        assert_eq!(refused(ssh(), ScmType::Plain, ScmHeld { token: true, ..key }), "attributes.token");
        assert_eq!(refused(ssh(), ScmType::Plain, ScmHeld { proxy: true, ..key }), "attributes.proxy.url");
        let named = ScmSpec { username: Some("bot".into()), ..ssh() };
        assert_eq!(refused(named, ScmType::Plain, key), "attributes.username");
        let known = |text: &str, base: ScmSpec| ScmSpec { known_hosts: Some(text.into()), ..base };
        assert!(known("git.example.com ssh-ed25519 AAAA", ssh()).checked(ScmType::Plain, key).is_ok());
        assert_eq!(refused(known("x", ssh()), ScmType::Plain, key), "attributes.knownHosts");
        let https = || at("https://git.example.com");
        let none = ScmHeld::default();
        assert_eq!(refused(https(), ScmType::Plain, key), "attributes.sshPrivateKey");
        assert_eq!(refused(known("h ssh-ed25519 A", https()), ScmType::Plain, none), "attributes.knownHosts");
        assert_eq!(
            refused(https(), ScmType::Gitea, ScmHeld { ssh_key: true, ..TOKEN }),
            "attributes.sshPrivateKey"
        );
    }

    #[test]
    fn an_app_signs_in_in_place_of_a_token() {
        let app = |app_id: &str| ScmSpec {
            github: Some(GithubApp { app_id: app_id.into(), installation_id: "7".into() }),
            ..ScmSpec::default()
        };
        let key = ScmHeld { app_key: true, ..ScmHeld::default() };
        assert!(app("12").checked(ScmType::Github, key).is_ok());
        assert_eq!(refused(app("12"), ScmType::Github, ScmHeld::default()), "attributes.github.privateKey");
        assert_eq!(refused(app("12"), ScmType::Github, ScmHeld { token: true, ..key }), "attributes.token");
        assert_eq!(refused(app("12"), ScmType::Gitlab, key), "attributes.github");
        assert_eq!(refused(app("x"), ScmType::Github, key), "attributes.github.appId");
    }

    #[test]
    fn a_repository_without_an_owner_is_the_connections() {
        let azure =
            AzureDevops { username: "bot".into(), organization: "acme".into(), project: "My Shop".into() };
        let of_project = ScmSpec { azure: Some(azure), ..ScmSpec::default() };
        assert_eq!(of_project.slug("web").unwrap(), "My Shop/web");
        assert_eq!(of_project.slug("Other/web").unwrap(), "Other/web");
        let owned = ScmSpec { owner: Some("Team".into()), ..of_project };
        assert_eq!(owned.slug("web").unwrap(), "Team/web");
        assert!(ScmSpec::default().slug("web").is_err());
    }

    #[test]
    fn words_become_no_other_paths() {
        for bad in ["../x", "a?b", "a#b", "-a", " ", "a\nb"] {
            let spec = ScmSpec { owner: Some(bad.into()), ..ScmSpec::default() };
            assert_eq!(refused(spec, ScmType::Github, TOKEN), "attributes.owner", "{bad:?}");
        }
        let nested = ScmSpec { owner: Some("acme/platform".into()), ..ScmSpec::default() };
        assert!(nested.checked(ScmType::Gitlab, TOKEN).is_ok());
    }

    #[test]
    fn what_is_absent_stays_and_an_empty_text_ends() {
        let before = ScmSpec {
            owner: Some("acme".into()),
            username: Some("bot".into()),
            repositories: vec!["acme/*".parse().unwrap()],
            ..ScmSpec::default()
        };
        assert_eq!(ScmSpecChange::default().over(before.clone()), before);
        let change = ScmSpecChange {
            username: Some(String::new()),
            repositories: Some(Vec::new()),
            ..ScmSpecChange::default()
        };
        let after = change.over(before);
        assert_eq!((after.owner.as_deref(), after.username), (Some("acme"), None));
        assert!(after.repositories.is_empty());
    }
}
