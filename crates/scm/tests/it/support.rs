//! A host with one repository, and what is done to it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use plural_git::{HostKeys, Mirrors};
use plural_reach::{Guard, Reach};
use plural_scm::{
    BranchName, Change, CommitId, Connection, Credentials, FilePath, GitHost, HostKind, NewCommit,
    NewPullRequest, Onto, Options, Person, PlainConnection, Proxies, PullRequest, Repository, Verdict,
    connect, connect_plain,
};
use plural_testkit::{Gitea, GiteaDoor, GiteaRepository, ScmDialect, ScmMood, ScmServer};
use tempfile::TempDir;

/// What leads to Gitea itself.
static DOOR: OnceLock<GiteaDoor> = OnceLock::new();

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) host: Arc<dyn GitHost>,
    /// The same host through somebody else's account.
    pub(crate) other: Arc<dyn GitHost>,
    pub(crate) repository: Repository,
    /// Where commits are made for a host that takes them by git.
    pub(crate) _data: Option<TempDir>,
}

pub(crate) fn options() -> Options {
    Options {
        reach: Reach::Local,
        credentials_over_http: true,
        proxies: Proxies::None,
        timeout: Duration::from_secs(20),
        body_bytes: 1 << 20,
        ..Options::default()
    }
}

pub(crate) fn connection(dialect: ScmDialect, api_url: String, token: String) -> Connection {
    let kind = match dialect {
        ScmDialect::GitHub => HostKind::GitHub,
        ScmDialect::Gitea => HostKind::Gitea,
        ScmDialect::GitLab => HostKind::GitLab,
        ScmDialect::BitbucketCloud => HostKind::BitbucketCloud,
        ScmDialect::BitbucketDataCenter => HostKind::BitbucketDataCenter,
        ScmDialect::AzureDevOps => HostKind::AzureDevOps,
    };
    Connection {
        id: token.clone(),
        kind,
        api_url: Some(api_url),
        credentials: Credentials::Token(token.into()),
        signing_key: None,
        user: None,
        ca_pem: None,
        proxy: None,
    }
}

/// What a scenario's host is, and what is done behind the connection's back.
pub(crate) enum Server {
    StandIn(ScmServer),
    Real(GiteaRepository<'static>),
}

impl Server {
    /// What only a stand-in does on demand.
    fn stand_in(&self) -> &ScmServer {
        match self {
            Self::StandIn(server) => server,
            Self::Real(_) => panic!("this scenario is for stand-ins"),
        }
    }

    pub(crate) fn set_mood(&self, mood: Option<ScmMood>) {
        self.stand_in().set_mood(mood);
    }

    pub(crate) fn race(&self, branch: &str) {
        match self {
            Self::StandIn(server) => server.race(branch),
            Self::Real(repository) => DOOR.get().unwrap().race(repository, branch),
        }
    }

    pub(crate) fn token(&self) -> String {
        self.stand_in().token()
    }

    pub(crate) fn dialect(&self) -> ScmDialect {
        match self {
            Self::StandIn(server) => server.dialect(),
            Self::Real(_) => ScmDialect::Gitea,
        }
    }

    pub(crate) fn make_tokens_of_nobody(&self) {
        self.stand_in().make_tokens_of_nobody();
    }

    pub(crate) fn api_url(&self) -> String {
        self.stand_in().api_url()
    }

    pub(crate) fn push_executable(&self, branch: &str, path: &str, content: &str) {
        match self {
            Self::StandIn(server) => server.push_executable(branch, path, content),
            Self::Real(repository) => repository.push_executable(branch, path, content).unwrap(),
        }
    }

    pub(crate) fn dismiss_reviews(&self, number: u64) {
        match self {
            Self::StandIn(server) => server.dismiss_reviews(number),
            Self::Real(repository) => repository.dismiss_reviews(number).unwrap(),
        }
    }

    pub(crate) fn has_labels(&self) -> bool {
        let without = [ScmDialect::BitbucketCloud, ScmDialect::BitbucketDataCenter];
        !matches!(self, Self::StandIn(server) if without.contains(&server.dialect()))
    }

    /// How a pull request was merged; nothing where the host tells no more than that it was.
    pub(crate) fn merged_as(&self, number: u64) -> Option<&'static str> {
        match self {
            Self::StandIn(server) => server.merged_as(number),
            Self::Real(_) => None,
        }
    }

    /// Whether it merges by rebase when it is asked to.
    pub(crate) fn rebases(&self) -> bool {
        self.dialect() != ScmDialect::GitLab
    }

    /// The real one has its own.
    pub(crate) fn set_page(&self, page: usize) {
        if let Self::StandIn(server) = self {
            server.set_page(page);
        }
    }

    pub(crate) fn push(&self, branch: &str, path: &str, content: &str) {
        match self {
            Self::StandIn(server) => server.push(branch, path, content),
            Self::Real(repository) => repository.push(branch, path, content).unwrap(),
        }
    }

    pub(crate) fn comment_by_another(&self, number: u64, body: &str) {
        match self {
            Self::StandIn(server) => server.comment_by_another(number, body),
            Self::Real(repository) => repository.comment_by_another(number, body).unwrap(),
        }
    }

    pub(crate) fn review_by_another(&self, number: u64, verdict: Verdict) {
        match self {
            Self::StandIn(server) => server.review_by_another(number, verdict_name(verdict)),
            Self::Real(repository) => repository.review_by_another(number, verdict_name(verdict)).unwrap(),
        }
    }

    pub(crate) fn comments(&self, number: u64) -> Vec<(String, String)> {
        match self {
            Self::StandIn(server) => server.comments(number),
            Self::Real(repository) => repository.comments(number).unwrap(),
        }
    }

    pub(crate) fn statuses(&self, commit: &str) -> Vec<(String, String)> {
        match self {
            Self::StandIn(server) => server.statuses(commit),
            Self::Real(repository) => repository.statuses(commit).unwrap(),
        }
    }

    /// Of what, and the secret where the host tells it.
    pub(crate) fn webhooks(&self) -> Vec<(String, Option<String>)> {
        match self {
            Self::StandIn(server) => {
                server.webhooks().into_iter().map(|(scope, secret)| (scope, Some(secret))).collect()
            }
            Self::Real(repository) => {
                let (own, of_owner) = repository.webhooks().unwrap();
                let times = |scope: &str, count| vec![(scope.to_owned(), None); count];
                [times("repository", own), times("organisation", of_owner)].concat()
            }
        }
    }

    pub(crate) fn pull_requests(&self) -> usize {
        match self {
            Self::StandIn(server) => server.pull_requests(),
            Self::Real(repository) => repository.pull_requests().unwrap(),
        }
    }
}

/// Where commits are made by git.
pub(crate) fn mirrors(data: &TempDir) -> Mirrors {
    let options = plural_git::Options {
        guard: Guard::new(Reach::Local),
        credentials_over_http: true,
        ..plural_git::Options::new(data.path())
    };
    Mirrors::open(options).unwrap()
}

/// As the testkit calls what a reviewer says.
fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "APPROVED",
        Verdict::ChangesRequested => "REQUEST_CHANGES",
        Verdict::Commented | Verdict::Dismissed => "COMMENT",
    }
}

impl World {
    pub(crate) fn new(dialect: ScmDialect) -> Self {
        let server = ScmServer::start(dialect).unwrap();
        let data = (dialect == ScmDialect::BitbucketDataCenter).then(|| tempfile::tempdir().unwrap());
        let options = Options { mirrors: data.as_ref().map(mirrors), ..options() };
        let with = |token| connect(&connection(dialect, server.api_url(), token), &options).unwrap();
        let (host, other) = (with(server.token()), with(server.other_token()));
        let repository = Repository::parse(server.repository()).unwrap();
        Self { server: Server::StandIn(server), host, other, repository, _data: data }
    }

    /// Plain git: what a server that has more tells by git alone.
    pub(crate) fn plain() -> Self {
        let server = ScmServer::start(ScmDialect::BitbucketDataCenter).unwrap();
        let data = tempfile::tempdir().unwrap();
        let mirrors = mirrors(&data);
        let url = format!("{}/scm", server.api_url().trim_end_matches("/rest/api/1.0"));
        let with = |token: String| {
            let connection = PlainConnection {
                id: token.clone(),
                url: url.clone(),
                credentials: plural_git::Credentials::basic("git", token),
                host_keys: HostKeys::AcceptNew,
                ca_pem: None,
                proxy: None,
                committer: Person { name: "Plural".to_owned(), email: "plural@example.com".to_owned() },
            };
            connect_plain(connection, mirrors.clone())
        };
        let (host, other) = (with(server.token()), with(server.other_token()));
        let repository = Repository::parse(&format!("{}.git", server.repository())).unwrap();
        Self { server: Server::StandIn(server), host, other, repository, _data: Some(data) }
    }

    /// A repository of Gitea itself; nothing where it is missing.
    pub(crate) fn real() -> Option<Self> {
        static GITEA: OnceLock<Option<Gitea>> = OnceLock::new();
        // Each test tells that it does not run.
        if !Gitea::is_here_or_report() {
            return None;
        }
        let gitea = GITEA.get_or_init(|| Gitea::start().unwrap()).as_ref()?;
        let door = DOOR.get_or_init(|| GiteaDoor::start(gitea).unwrap());
        let with =
            |token| connect(&connection(ScmDialect::Gitea, door.api_url(), token), &options()).unwrap();
        let (host, other) = (with(gitea.token()), with(gitea.other_token()));
        let real = gitea.repository().unwrap();
        let repository = Repository::parse(&real.name()).unwrap();
        Some(Self { server: Server::Real(real), host, other, repository, _data: None })
    }

    pub(crate) async fn head(&self, name: &str) -> CommitId {
        self.host.head(&self.repository, &branch(name)).await.unwrap()
    }

    pub(crate) async fn text(&self, commit: &CommitId, path: &str) -> String {
        let content = self.host.read(&self.repository, commit, &file(path)).await.unwrap();
        String::from_utf8(content.to_vec()).unwrap()
    }

    /// A commit on a new branch from `main`'s head.
    pub(crate) async fn on_new_branch(&self, name: &str, changes: Vec<Change>) -> NewCommit {
        let onto = Onto::NewBranch { branch: branch(name), base: branch("main") };
        commit(onto, self.head("main").await, changes)
    }

    /// A pull request with one new file.
    pub(crate) async fn pull_request(&self, name: &str) -> PullRequest {
        let new = self.on_new_branch(name, vec![write("new.yaml", "a: b\n")]).await;
        self.host.commit(&self.repository, &new).await.unwrap();
        let opened = self.host.open(&self.repository, &to_main(name)).await.unwrap();
        assert!(!opened.existed);
        opened.pull_request
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::parse(name).unwrap()
}

pub(crate) fn file(path: &str) -> FilePath {
    FilePath::parse(path).unwrap()
}

pub(crate) fn write(path: &str, content: &'static str) -> Change {
    Change::Write { path: file(path), content: content.into(), executable: None }
}

/// The same, with who may run it.
pub(crate) fn write_as(path: &str, content: &'static str, executable: bool) -> Change {
    Change::Write { path: file(path), content: content.into(), executable: Some(executable) }
}

pub(crate) fn delete(path: &str) -> Change {
    Change::Delete { path: file(path) }
}

pub(crate) fn commit(onto: Onto, parent: CommitId, changes: Vec<Change>) -> NewCommit {
    let author = Person { name: "Ada".to_owned(), email: "ada@example.com".to_owned() };
    NewCommit { onto, parent, message: "Update the fleet".to_owned(), author: Some(author), changes }
}

pub(crate) fn to_main(name: &str) -> NewPullRequest {
    NewPullRequest {
        head: branch(name),
        base: branch("main"),
        title: "Update".to_owned(),
        body: "What it does".to_owned(),
    }
}
