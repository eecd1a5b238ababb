//! Git hosts as the use cases need them, by `plural-scm`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use plural_app::ports::git_hosts::{
    GitHosts, Host, HostBranch, HostCause, HostCommit, HostEntry, HostError, HostNewPullRequest, HostOpened,
    HostPull, HostResult, HostSecrets,
};
use plural_core::address::Address;
use plural_core::pr_tree::{Look, Within};
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::{PrChecks, PrMergeMethod, PrReviews};
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::scm_webhook::ScmWebhookScope;
use plural_core::{Error, Result};
use plural_git::{Credentials as GitCredentials, HostKeys, Mirrors};
use plural_reach::Reach;
use plural_scm::{
    BranchName, Cause, Change, CommitId, CommitTold, Connection, Credentials, EntryKind, FilePath, Followed,
    GitHost, HostKind, Look as FolderLook, MergeMethod, NewCommit, NewPullRequest, Onto, Options, Person,
    PlainConnection, PullRequest, PullRequestState, Repository, Review, Scope, StatusState, Verdict,
    WebhookSpec, connect_plain,
};
use secrecy::{ExposeSecret, SecretString};

use crate::known_hosts::KnownHosts;

/// How long one request may take: whoever waits for a pull request waits for several.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Who makes commits in repositories of plain git, where a credential tells no name.
const COMMITTER: &str = "Plural";
/// The address in them, which is nobody's.
const COMMITTER_EMAIL: &str = "plural@localhost";
/// Where organizations of Azure DevOps are.
const AZURE: &str = "https://dev.azure.com";
/// Characters after which a list of Azure DevOps cuts the texts of its pull requests.
const CUT: usize = 400;
/// Characters of a commit's message by which it is known.
const MESSAGE: usize = 1_000;

/// The adapter. A connection keeps its host for the next question, with the host's open connections and what it told of commits, until its
/// settings or secrets are other ones.
pub(crate) struct Hosts {
    options: Options,
    known: KnownHosts,
}

impl Hosts {
    /// `mirrors` is where commits are made for hosts whose API makes none of several files.
    pub(crate) fn new(reach: Reach, credentials_over_http: bool, mirrors: Mirrors) -> Self {
        let mirrors = Some(mirrors);
        Self {
            options: Options {
                reach,
                credentials_over_http,
                timeout: TIMEOUT,
                mirrors,
                ..Options::default()
            },
            known: KnownHosts::default(),
        }
    }
}

impl GitHosts for Hosts {
    fn connect(&self, connection: &ScmConnection, secrets: HostSecrets) -> Result<Arc<dyn Host>> {
        let kind = match connection.kind {
            ScmType::Github => HostKind::GitHub,
            ScmType::Gitlab => HostKind::GitLab,
            ScmType::Bitbucket => HostKind::BitbucketCloud,
            ScmType::BitbucketDatacenter => HostKind::BitbucketDataCenter,
            ScmType::AzureDevops => HostKind::AzureDevOps,
            ScmType::Gitea => HostKind::Gitea,
            ScmType::Plain => return self.plain(connection, secrets),
        };
        // GitHub signs what an App commits.
        let signing_key = secrets.signing_key.clone().filter(|_| connection.spec.github.is_none());
        let unsigned = (signing_key.is_some() && kind != HostKind::GitHub)
            .then(|| unsigned(&format!("the API of {}", kind.name())));
        let connection = Connection {
            id: connection.id.to_string(),
            kind,
            api_url: api_url(connection)?,
            signing_key: signing_key.filter(|_| kind == HostKind::GitHub),
            credentials: credentials(connection, &secrets)?,
            user: connection.spec.bitbucket_datacenter.as_ref().map(|of| of.user_slug.clone()),
            ca_pem: None,
            proxy: secrets.proxy.map(|proxy| proxy.expose_secret().to_owned()),
        };
        let host = self.known.get(&connection, || plural_scm::connect(&connection, &self.options));
        Ok(Arc::new(Connected { host: host.map_err(|error| invalid(&error.message))?, unsigned }))
    }
}

impl Hosts {
    /// Git alone. What is kept of it lies in its mirrors.
    fn plain(&self, connection: &ScmConnection, secrets: HostSecrets) -> Result<Arc<dyn Host>> {
        let HostSecrets { token, app_key: _, signing_key, proxy, ssh_key, ssh_passphrase } = secrets;
        let url = connection.spec.base_url.clone();
        let url =
            url.ok_or_else(|| invalid("has no address that its repositories are below: give it a baseUrl"))?;
        let mirrors = self.options.mirrors.clone();
        let mirrors =
            mirrors.ok_or_else(|| invalid("is to git alone, and the console keeps no repositories"))?;
        let credentials = match (&connection.spec.username, &token, ssh_key) {
            (_, _, Some(private_key)) => GitCredentials::SshKey { private_key, passphrase: ssh_passphrase },
            (Some(user), Some(token), None) => GitCredentials::basic(user.as_str(), token.expose_secret()),
            (None, Some(_), None) => {
                return Err(invalid("has a token and no user that it is of: give it a username"));
            }
            (_, None, None) => GitCredentials::None,
        };
        let host_keys = connection.spec.known_hosts.clone().map_or(HostKeys::AcceptNew, HostKeys::Pinned);
        let plain = PlainConnection {
            id: connection.id.to_string(),
            url,
            credentials,
            host_keys,
            ca_pem: None,
            proxy,
            committer: Person { name: COMMITTER.to_owned(), email: COMMITTER_EMAIL.to_owned() },
        };
        let unsigned = signing_key.map(|_| unsigned("what makes commits for plain git"));
        Ok(Arc::new(Connected { host: connect_plain(plain, mirrors), unsigned }))
    }
}

fn invalid(why: &str) -> Error {
    Error::invalid("connection", why.to_owned())
}

/// Where the API of a host is that says only where its pages are, by the rule of each kind of host. Nothing means the public one, which is
/// meant only where no address is given at all: the token of another host must not go there.
fn api_url(connection: &ScmConnection) -> Result<Option<String>> {
    let spec = &connection.spec;
    if spec.api_url.is_some() {
        return Ok(spec.api_url.clone());
    }
    let base = spec.base_url.as_deref().map(|base| base.trim_end_matches('/'));
    let unknown = || invalid("has an address of which no API is known: give it an apiUrl");
    if connection.kind == ScmType::AzureDevops {
        let azure = spec.azure.as_ref().ok_or_else(unknown)?;
        return Ok(Some(format!("{}/{}", base.unwrap_or(AZURE), azure.organization)));
    }
    let Some(base) = base else { return Ok(None) };
    let address: Address = base.parse().map_err(|_| unknown())?;
    let host = address.host();
    let is_root = address.path().trim_matches('/').is_empty();
    let is_public = |public: &str| is_root && host.strip_prefix("www.").unwrap_or(host) == public;
    let below = match connection.kind {
        ScmType::Github if is_public("github.com") => return Ok(None),
        // GitHub's hosts for enterprises have their API at a name of its own.
        ScmType::Github if is_root && host.ends_with(".ghe.com") => {
            let scheme = address.scheme().as_str();
            return Ok(Some(format!("{scheme}://api.{host}")));
        }
        ScmType::Github => "api/v3",
        ScmType::Gitlab if is_public("gitlab.com") => return Ok(None),
        ScmType::Gitlab => "api/v4",
        ScmType::Gitea => "api/v1",
        ScmType::Bitbucket if is_public("bitbucket.org") => return Ok(None),
        ScmType::BitbucketDatacenter => "rest/api/1.0",
        ScmType::Bitbucket | ScmType::AzureDevops | ScmType::Plain => return Err(unknown()),
    };
    Ok(Some(format!("{base}/{below}")))
}

fn credentials(connection: &ScmConnection, secrets: &HostSecrets) -> Result<Credentials> {
    let given = |secret: Option<&SecretString>| {
        secret.cloned().ok_or_else(|| invalid("has nothing to sign in with: give it a token"))
    };
    let Some(app) = &connection.spec.github else {
        let token = given(secrets.token.as_ref())?;
        if connection.kind == ScmType::BitbucketDatacenter
            && let Some(username) = connection.spec.username.clone()
        {
            return Ok(Credentials::Basic { username, password: token });
        }
        return Ok(Credentials::Token(token));
    };
    Ok(Credentials::App {
        app_id: number(&app.app_id)?,
        installation_id: number(&app.installation_id)?,
        private_key: given(secrets.app_key.as_ref())?,
    })
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| invalid("has an App whose number is none"))
}

pub(crate) struct Connected {
    pub(crate) host: Arc<dyn GitHost>,
    /// Why no commit is made: the connection's are to be signed, and the host takes none that is.
    unsigned: Option<HostError>,
}

fn unsigned(host: &str) -> HostError {
    let message = format!(
        "commits of the connection are to be signed, and {host} takes no signed ones: end its signing key \
         (--no-signing-key)"
    );
    HostError { cause: HostCause::Refused, message }
}

pub(crate) fn told(error: plural_scm::Error) -> HostError {
    let cause = match error.cause {
        Cause::RateLimited { .. } | Cause::HalfAnswer | Cause::Temporary => HostCause::Later,
        Cause::NotFound => HostCause::NotFound,
        Cause::Moved => HostCause::Moved,
        Cause::Conflict => HostCause::Conflict,
        Cause::Invalid | Cause::Refused | Cause::TooLarge | Cause::Malformed | Cause::Unsupported => {
            HostCause::Refused
        }
    };
    HostError { cause, message: error.message }
}

pub(crate) fn status(state: PullRequestState) -> PrStatus {
    match state {
        PullRequestState::Open => PrStatus::Open,
        PullRequestState::Merged => PrStatus::Merged,
        PullRequestState::Closed => PrStatus::Closed,
    }
}

fn found(pull: PullRequest, existed: bool) -> HostOpened {
    let status = status(pull.state);
    HostOpened {
        number: pull.number,
        url: pull.url,
        title: pull.title,
        body: pull.body,
        author: pull.author,
        status,
        existed,
    }
}

fn pull(pull: PullRequest) -> HostPull {
    let PullRequest {
        number,
        url,
        title,
        body,
        state,
        draft,
        head,
        head_commit,
        fork,
        base,
        author,
        labels,
        merge_commit,
    } = pull;
    HostPull {
        number,
        url,
        title,
        body,
        author,
        status: status(state),
        draft,
        fork,
        branch: head,
        base,
        head: head_commit,
        labels,
        merge_commit,
    }
}

/// What a host does not tell is no reason not to read the rest.
fn if_told<T>(read: plural_scm::Result<T>) -> HostResult<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) => match error.cause {
            Cause::Unsupported | Cause::Refused | Cause::NotFound => Ok(None),
            Cause::RateLimited { .. }
            | Cause::HalfAnswer
            | Cause::Temporary
            | Cause::Moved
            | Cause::Conflict
            | Cause::Invalid
            | Cause::TooLarge
            | Cause::Malformed => Err(told(error)),
        },
    }
}

/// The last word of each reviewer.
fn counted(reviews: &[Review]) -> PrReviews {
    let mut last: BTreeMap<&str, Verdict> = BTreeMap::new();
    for review in reviews {
        // Who comments after an approval still approves.
        if review.verdict != Verdict::Commented {
            last.insert(&review.reviewer, review.verdict);
        }
    }
    let mut counted = PrReviews::default();
    for verdict in last.into_values() {
        match verdict {
            Verdict::Approved => counted.approved += 1,
            Verdict::ChangesRequested => counted.changes_requested += 1,
            Verdict::Commented | Verdict::Dismissed => {}
        }
    }
    counted
}

pub(crate) fn repository(name: &str) -> HostResult<Repository> {
    Repository::parse(name).map_err(told)
}

fn scope(of: &ScmWebhookScope) -> HostResult<Scope> {
    Ok(match of {
        ScmWebhookScope::Repository(slug) => Scope::Repository(repository(slug)?),
        ScmWebhookScope::Organization(owner) => Scope::Organisation(owner.clone()),
    })
}

fn branch(name: &str) -> HostResult<BranchName> {
    BranchName::parse(name).map_err(told)
}

pub(crate) fn commit_id(text: &str) -> HostResult<CommitId> {
    CommitId::parse(text).map_err(told)
}

#[async_trait]
impl Host for Connected {
    async fn head(&self, of: &str, name: &str) -> HostResult<String> {
        let head = self.host.head(&repository(of)?, &branch(name)?).await.map_err(told)?;
        Ok(head.as_str().to_owned())
    }

    async fn tree(&self, of: &str, commit: &str, within: &Within) -> HostResult<Vec<(String, HostEntry)>> {
        let look = |folder: &str| match within.look(folder) {
            Look::Not => FolderLook::Not,
            Look::Folder => FolderLook::Folder,
            Look::All => FolderLook::All,
        };
        let tree = self.host.tree_within(&repository(of)?, &commit_id(commit)?, &look).await.map_err(told)?;
        if tree.cut {
            let message = format!("{of} has more files than the host lists");
            return Err(HostError { cause: HostCause::Refused, message });
        }
        let entry = |kind: EntryKind| match kind {
            EntryKind::File => HostEntry::File,
            EntryKind::Executable => HostEntry::Executable,
            EntryKind::Link | EntryKind::Submodule => HostEntry::Link,
        };
        Ok(tree.items.into_iter().map(|item| (item.path, entry(item.kind))).collect())
    }

    async fn read(&self, of: &str, commit: &str, path: &str) -> HostResult<Vec<u8>> {
        let path = FilePath::parse(path).map_err(told)?;
        let bytes = self.host.read(&repository(of)?, &commit_id(commit)?, &path).await.map_err(told)?;
        Ok(bytes.to_vec())
    }

    async fn commit(&self, of: &str, commit: &HostCommit) -> HostResult<String> {
        if let Some(unsigned) = &self.unsigned {
            return Err(unsigned.clone());
        }
        let mut changes = Vec::with_capacity(commit.changes.len());
        for change in &commit.changes {
            let path = FilePath::parse(&change.path).map_err(told)?;
            changes.push(match &change.content {
                Some(content) => {
                    let (content, executable) = (Bytes::from(content.clone()), change.executable);
                    Change::Write { path, content, executable }
                }
                None => Change::Delete { path },
            });
        }
        let new = NewCommit {
            onto: Onto::NewBranch { branch: branch(&commit.branch)?, base: branch(&commit.base)? },
            parent: commit_id(&commit.parent)?,
            message: commit.message.clone(),
            author: None,
            changes,
        };
        let made = self.host.commit(&repository(of)?, &new).await.map_err(told)?;
        Ok(made.commit.as_str().to_owned())
    }

    async fn is_commit(&self, of: &str, id: &str, commit: &HostCommit) -> HostResult<Option<bool>> {
        let CommitTold { parents, message } =
            match self.host.commit_told(&repository(of)?, &commit_id(id)?).await {
                Ok(read) => read,
                Err(error)
                    if matches!(told(error.clone()).cause, HostCause::Refused | HostCause::NotFound) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(told(error)),
            };
        // Hosts end a message in their own way, and may cut it.
        let begins = |text: &str| text.trim().chars().take(MESSAGE).collect::<String>();
        let is_on = parents.iter().map(CommitId::as_str).eq([commit.parent.as_str()]);
        Ok(Some(is_on && begins(&message) == begins(&commit.message)))
    }

    async fn delete_branch(&self, of: &str, name: &str, at: &str) -> HostResult<()> {
        self.host.delete_branch(&repository(of)?, &branch(name)?, &commit_id(at)?).await.map_err(told)
    }

    async fn follow(
        &self,
        of: &str,
        name: &str,
        base: &str,
        commit: &str,
        last: Option<&str>,
    ) -> HostResult<HostBranch> {
        let (name, base) = (branch(name)?, branch(base)?);
        let (commit, last) = (commit_id(commit)?, last.map(commit_id).transpose()?);
        let followed = self.host.follow(&repository(of)?, &name, &base, &commit, last.as_ref()).await;
        let Followed { head, base, is_merged, is_bare } = followed.map_err(told)?;
        let status = match (is_merged, &head) {
            (true, _) => PrStatus::Merged,
            (false, Some(_)) => PrStatus::Open,
            (false, None) => PrStatus::Closed,
        };
        let head = head.filter(|_| !is_bare).map(|head| head.as_str().to_owned());
        Ok(HostBranch { status, head, base: base.as_str().to_owned() })
    }

    async fn open(&self, of: &str, new: &HostNewPullRequest) -> HostResult<HostOpened> {
        let HostNewPullRequest { head, base, title, body } = new;
        let new = NewPullRequest {
            head: branch(head)?,
            base: branch(base)?,
            title: title.clone(),
            body: body.clone(),
        };
        let opened = self.host.open(&repository(of)?, &new).await.map_err(told)?;
        Ok(found(opened.pull_request, opened.existed))
    }

    async fn find(&self, of: &str, head: &str, text: &str) -> HostResult<Option<HostOpened>> {
        let all = self.host.pull_requests(&repository(of)?, false).await.map_err(told)?;
        for pull in all.items.into_iter().filter(|pull| !pull.fork && pull.head == head) {
            let is_cut = !pull.body.contains(text) && pull.body.chars().count() >= CUT;
            let pull = if is_cut {
                self.host.pull_request(&repository(of)?, pull.number).await.map_err(told)?
            } else {
                pull
            };
            if pull.body.contains(text) {
                return Ok(Some(found(pull, true)));
            }
        }
        Ok(None)
    }

    async fn add_labels(&self, of: &str, number: u64, labels: &[String]) -> HostResult<()> {
        self.host.add_labels(&repository(of)?, number, labels).await.map_err(told)
    }

    async fn pull_request(&self, of: &str, number: u64) -> HostResult<HostPull> {
        Ok(pull(self.host.pull_request(&repository(of)?, number).await.map_err(told)?))
    }

    async fn open_pull_requests(&self, of: &str) -> HostResult<(Vec<HostPull>, bool)> {
        let all = self.host.pull_requests(&repository(of)?, true).await.map_err(told)?;
        Ok((all.items.into_iter().map(pull).collect(), all.cut))
    }

    async fn checks(&self, of: &str, commit: &str) -> HostResult<Option<PrChecks>> {
        let found = if_told(self.host.checks(&repository(of)?, &commit_id(commit)?).await)?;
        Ok(found.map(|found| {
            let mut counted = PrChecks { incomplete: found.cut, ..PrChecks::default() };
            for check in found.items {
                match check.state {
                    StatusState::Success => counted.passed += 1,
                    StatusState::Failure | StatusState::Error => counted.failed += 1,
                    StatusState::Pending => counted.pending += 1,
                }
            }
            counted
        }))
    }

    async fn reviews(&self, of: &str, number: u64) -> HostResult<Option<PrReviews>> {
        let found = if_told(self.host.reviews(&repository(of)?, number).await)?;
        Ok(found.map(|found| counted(&found.items)))
    }

    async fn merge(&self, of: &str, number: u64, head: &str, method: PrMergeMethod) -> HostResult<()> {
        let method = match method {
            PrMergeMethod::Merge => MergeMethod::Merge,
            PrMergeMethod::Squash => MergeMethod::Squash,
            PrMergeMethod::Rebase => MergeMethod::Rebase,
        };
        let merged = self.host.merge(&repository(of)?, number, &commit_id(head)?, method).await;
        merged.map(drop).map_err(told)
    }

    async fn approve(&self, of: &str, number: u64, head: &str, text: &str) -> HostResult<()> {
        self.host.approve(&repository(of)?, number, &commit_id(head)?, text).await.map_err(told)
    }

    async fn close(&self, of: &str, number: u64) -> HostResult<()> {
        self.host.close(&repository(of)?, number).await.map(drop).map_err(told)
    }

    async fn webhook_set(&self, of: &ScmWebhookScope, url: &str, secret: &SecretString) -> HostResult<()> {
        let webhook = WebhookSpec { url: url.to_owned(), secret: secret.clone() };
        self.host.ensure_webhook(&scope(of)?, &webhook).await.map_err(told)
    }

    async fn webhook_remove(&self, of: &ScmWebhookScope, url: &str) -> HostResult<bool> {
        self.host.remove_webhook(&scope(of)?, url).await.map_err(told)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use plural_app::ports::git_host_pulls::HostPulls;
    use plural_core::ids::ScmConnectionId;
    use plural_core::scm_connection::{AzureDevops, ScmHeld, ScmSpec};
    use plural_scm::Proxies;
    use plural_testkit::{ScmDialect, ScmServer};

    use super::*;

    fn connection(kind: ScmType, base_url: Option<&str>, api_url: Option<&str>) -> ScmConnection {
        ScmConnection {
            id: ScmConnectionId::new(),
            project_id: None,
            name: "forge".parse().unwrap(),
            kind,
            is_default: false,
            spec: ScmSpec {
                base_url: base_url.map(str::to_owned),
                api_url: api_url.map(str::to_owned),
                ..ScmSpec::default()
            },
            held: ScmHeld::default(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_hosts_api_is_where_its_pages_are() {
        for (kind, base, expected) in [
            (ScmType::Github, "https://github.com", None),
            (ScmType::Github, "https://www.github.com", None),
            (ScmType::Github, "https://git.example.com", Some("https://git.example.com/api/v3")),
            (ScmType::Github, "https://acme.ghe.com", Some("https://api.acme.ghe.com")),
            (
                ScmType::Github,
                "https://github.com.example.com",
                Some("https://github.com.example.com/api/v3"),
            ),
            (ScmType::Gitlab, "https://gitlab.com", None),
            (
                ScmType::Gitlab,
                "https://git.example.com/gitlab",
                Some("https://git.example.com/gitlab/api/v4"),
            ),
            (ScmType::Gitea, "http://127.0.0.1:3000/", Some("http://127.0.0.1:3000/api/v1")),
            (ScmType::Bitbucket, "https://bitbucket.org", None),
            (
                ScmType::BitbucketDatacenter,
                "https://git.example.com:7990",
                Some("https://git.example.com:7990/rest/api/1.0"),
            ),
            (
                ScmType::BitbucketDatacenter,
                "https://git.example.com/bitbucket",
                Some("https://git.example.com/bitbucket/rest/api/1.0"),
            ),
        ] {
            let found = api_url(&connection(kind, Some(base), None)).unwrap();
            assert_eq!(found.as_deref(), expected, "{kind:?} {base}");
        }
        let given =
            connection(ScmType::Github, Some("https://git.example.com"), Some("https://api.example.com"));
        assert_eq!(api_url(&given).unwrap().as_deref(), Some("https://api.example.com"));
        assert_eq!(api_url(&connection(ScmType::Github, None, None)).unwrap(), None);
    }

    #[test]
    fn the_token_of_another_host_does_not_go_to_the_public_one() {
        for (kind, base) in [
            (ScmType::Bitbucket, "https://git.example.com"),
            (ScmType::AzureDevops, "https://git.example.com"),
        ] {
            let error = api_url(&connection(kind, Some(base), None)).unwrap_err();
            assert!(error.to_string().contains("give it an apiUrl"), "{error}");
        }
    }

    fn connection_of(kind: ScmType, spec: ScmSpec) -> ScmConnection {
        ScmConnection { spec, ..connection(kind, None, None) }
    }

    #[test]
    fn the_api_of_azure_devops_is_that_of_an_organization() {
        let azure = |base: Option<&str>| ScmSpec {
            base_url: base.map(str::to_owned),
            azure: Some(AzureDevops {
                username: "bot".into(),
                organization: "acme".into(),
                project: "Shop".into(),
            }),
            ..ScmSpec::default()
        };
        for (base, expected) in [
            (None, "https://dev.azure.com/acme"),
            (Some("https://tfs.example.com/tfs/"), "https://tfs.example.com/tfs/acme"),
        ] {
            let found = api_url(&connection_of(ScmType::AzureDevops, azure(base))).unwrap();
            assert_eq!(found.as_deref(), Some(expected));
        }
    }

    #[tokio::test]
    async fn a_pull_request_that_is_over_is_told_without_its_head() {
        let server = ScmServer::start(ScmDialect::GitHub).unwrap();
        let connection = Connection {
            id: "forge".to_owned(),
            kind: HostKind::GitHub,
            api_url: Some(server.api_url()),
            credentials: Credentials::Token(server.token().into()),
            signing_key: None,
            user: None,
            ca_pem: None,
            proxy: None,
        };
        let options = Options {
            reach: Reach::Local,
            credentials_over_http: true,
            proxies: Proxies::None,
            ..Options::default()
        };
        let host = plural_scm::connect(&connection, &options).unwrap();
        let connected = Connected { host, unsigned: None };
        let number = server.open_by_another("More", "", "gone");
        // Of an open one it is planned.
        let error = connected.pull("plural/fleet", number).await.unwrap_err();
        assert_eq!(error.cause, HostCause::Refused, "{error}");
        server.close_by_another(number);
        let told = connected.pull("plural/fleet", number).await.unwrap();
        assert_eq!((told.status, told.sha.as_str()), (PrStatus::Closed, ""));
    }

    #[test]
    fn a_user_of_bitbucket_data_center_signs_in_with_a_password() {
        let secrets = || HostSecrets {
            token: Some("t0ken".into()),
            app_key: None,
            proxy: None,
            signing_key: None,
            ssh_key: None,
            ssh_passphrase: None,
        };
        let spec = || ScmSpec { username: Some("bot".into()), ..ScmSpec::default() };
        let of = |kind, spec| credentials(&connection_of(kind, spec), &secrets()).unwrap();
        let basic = of(ScmType::BitbucketDatacenter, spec());
        assert!(matches!(basic, Credentials::Basic { username, .. } if username == "bot"));
        assert!(matches!(of(ScmType::BitbucketDatacenter, ScmSpec::default()), Credentials::Token(_)));
        assert!(matches!(of(ScmType::Gitea, spec()), Credentials::Token(_)));
    }
}
