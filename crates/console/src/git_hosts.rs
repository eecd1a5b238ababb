//! Git hosts as the use cases need them, by `plural-scm`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use plural_app::ports::git_hosts::{
    GitHosts, Host, HostCause, HostCommit, HostEntry, HostError, HostNewPullRequest, HostOpened, HostPull,
    HostResult, HostSecrets,
};
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::{PrChecks, PrMergeMethod, PrReviews};
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::{Error, Result};
use plural_reach::Reach;
use plural_scm::{
    BranchName, Cause, Change, CommitId, Connection, Credentials, EntryKind, FilePath, GitHost, HostKind,
    MergeMethod, NewCommit, NewPullRequest, Onto, Options, PullRequest, PullRequestState, Repository, Review,
    StatusState, Verdict,
};
use secrecy::{ExposeSecret, SecretString};

/// How long one request may take: whoever waits for a pull request waits for several.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The adapter.
pub(crate) struct Hosts {
    options: Options,
}

impl Hosts {
    pub(crate) fn new(reach: Reach, credentials_over_http: bool) -> Self {
        Self { options: Options { reach, credentials_over_http, timeout: TIMEOUT, ..Options::default() } }
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
            ScmType::Plain => return Err(invalid("is to git alone, which has no pull requests")),
        };
        let connection = Connection {
            kind,
            api_url: api_url(connection),
            credentials: credentials(connection, &secrets)?,
            ca_pem: None,
            proxy: secrets.proxy.map(|proxy| proxy.expose_secret().to_owned()),
        };
        let host =
            plural_scm::connect(&connection, &self.options).map_err(|error| invalid(&error.message))?;
        Ok(Arc::new(Connected { host }))
    }
}

fn invalid(why: &str) -> Error {
    Error::invalid("connection", why.to_owned())
}

/// Where the API of a host is that says only where its pages are.
fn api_url(connection: &ScmConnection) -> Option<String> {
    let spec = &connection.spec;
    if spec.api_url.is_some() {
        return spec.api_url.clone();
    }
    let base = spec.base_url.as_deref()?.trim_end_matches('/');
    let below = match connection.kind {
        ScmType::Github => "api/v3",
        ScmType::Gitlab => "api/v4",
        ScmType::Gitea => "api/v1",
        ScmType::Bitbucket | ScmType::BitbucketDatacenter | ScmType::AzureDevops | ScmType::Plain => {
            return None;
        }
    };
    Some(format!("{base}/{below}"))
}

fn credentials(connection: &ScmConnection, secrets: &HostSecrets) -> Result<Credentials> {
    let given = |secret: Option<&SecretString>| {
        secret.cloned().ok_or_else(|| invalid("has nothing to sign in with: give it a token"))
    };
    let Some(app) = &connection.spec.github else {
        return Ok(Credentials::Token(given(secrets.token.as_ref())?));
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

fn status(state: PullRequestState) -> PrStatus {
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

    async fn tree(&self, of: &str, commit: &str) -> HostResult<Vec<(String, HostEntry)>> {
        let tree = self.host.tree(&repository(of)?, &commit_id(commit)?).await.map_err(told)?;
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
        let mut changes = Vec::with_capacity(commit.changes.len());
        for change in &commit.changes {
            let path = FilePath::parse(&change.path).map_err(told)?;
            changes.push(match &change.content {
                Some(content) => Change::Write { path, content: Bytes::from(content.clone()) },
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
        let mut ours = all.items.into_iter();
        let pull = ours.find(|pull| !pull.fork && pull.head == head && pull.body.contains(text));
        Ok(pull.map(|pull| found(pull, true)))
    }

    async fn add_labels(&self, of: &str, number: u64, labels: &[String]) -> HostResult<()> {
        self.host.add_labels(&repository(of)?, number, labels).await.map_err(told)
    }
    async fn pull_request(&self, of: &str, number: u64) -> HostResult<HostPull> {
        Ok(pull(self.host.pull_request(&repository(of)?, number).await.map_err(told)?))
    }

    async fn open_pull_requests(&self, of: &str) -> HostResult<Vec<HostPull>> {
        let all = self.host.pull_requests(&repository(of)?, true).await.map_err(told)?;
        Ok(all.items.into_iter().map(pull).collect())
    }

    async fn checks(&self, of: &str, commit: &str) -> HostResult<Option<PrChecks>> {
        let found = if_told(self.host.checks(&repository(of)?, &commit_id(commit)?).await)?;
        Ok(found.map(|found| {
            let mut counted = PrChecks::default();
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

    async fn close(&self, of: &str, number: u64) -> HostResult<()> {
        self.host.close(&repository(of)?, number).await.map(drop).map_err(told)
    }
}
