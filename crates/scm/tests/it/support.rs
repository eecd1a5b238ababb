//! A host with one repository, and what is done to it.

use std::{sync::Arc, time::Duration};

use plural_reach::Reach;
use plural_scm::{
    BranchName, Change, CommitId, Connection, Credentials, FilePath, GitHost, HostKind, NewCommit,
    NewPullRequest, Onto, Options, Person, Proxies, PullRequest, Repository, connect,
};
use plural_testkit::{ScmDialect, ScmServer};

pub(crate) struct World {
    pub(crate) server: ScmServer,
    pub(crate) host: Arc<dyn GitHost>,
    pub(crate) repository: Repository,
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
    };
    Connection {
        kind,
        api_url: Some(api_url),
        credentials: Credentials::Token(token.into()),
        ca_pem: None,
        proxy: None,
    }
}

impl World {
    pub(crate) fn new(dialect: ScmDialect) -> Self {
        let server = ScmServer::start(dialect).unwrap();
        let connection = connection(dialect, server.api_url(), server.token());
        let host = connect(&connection, &options()).unwrap();
        Self { server, host, repository: Repository::parse("plural/fleet").unwrap() }
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
    Change::Write { path: file(path), content: content.into() }
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
